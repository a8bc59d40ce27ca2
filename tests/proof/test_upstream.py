"""What the prover says of programs that upstream's partitioner made is what a run says."""

import pytest

from tests.planner.test_reshard_pairs import PAIRS
from tests.testing.upstream_table import judged

SPLIT = {(str(source), str(target)): number for number, (source, target) in enumerate(PAIRS)}


@pytest.mark.parametrize(
    ("source", "target"), [("[[], []]", "[[], [0]]"), ("[[], [0]]", "[[0], []]")]
)
def test_a_run_and_a_proof_agree(source: str, target: str) -> None:
    assert judged(SPLIT[source, target]) in ("right proven", "wrong refuted")
