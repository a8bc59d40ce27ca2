"""The same input gives the same text, whatever order Python's sets have in a process."""

import os
import subprocess
import sys

from tests.conftest import ROOT

_PRINT = """
import warnings
warnings.simplefilter("ignore")
from tests.programs.stablehlo import random_stablehlo
from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
for seed in range(25):
    with make_context():
        module = Source.of(random_stablehlo(seed)).parse()
        try:
            run_pipeline(module, "propagate")
            print(module)
            run_pipeline(module, "materialize,optimize-collectives,partition")
            print(module)
        except ShardError as error:
            print(error)
"""


def printed(seed: str) -> str:
    environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", _PRINT],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_order_of_sets_does_not_matter() -> None:
    first = printed("1")
    assert len(first) > 10_000
    assert printed("2") == first
    assert printed("3") == first
