"""Random StableHLO programs propagate as in Shardy, value by value."""

import os
import sys

from tests.extras import needs
from tests.programs.stablehlo import random_stablehlo

pytestmark = needs("jax")
PROGRAMS = int(os.environ.get("SHARD_DIALECT_SHARDY_PROGRAMS", "200"))


def test_values_lie_as_in_shardy() -> None:
    from tests.propagation.shardy import PLAIN, compare

    values = same = 0
    unexplained = []
    for seed in range(PROGRAMS):
        differ, count = compare(random_stablehlo(seed))
        values += count
        same += count - len(differ)
        unexplained += [
            (seed, str(ours), str(theirs))
            for ours, theirs in differ
            if not ours.what.endswith(PLAIN)  # docs/propagation.md
        ]
    print(f"{PROGRAMS} programs: {same} of {values} values agree", file=sys.stderr)
    assert not unexplained
    assert same >= 0.99 * values
