"""Programs with manual computations, on devices in this process, equal programs written without.

Each file of `tests/passes/manual_computations` has both.
"""

from pathlib import Path

import pytest

from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.checking.bisect import Suspect
from shard_dialect.runtime.checking.check import check
from shard_dialect.runtime.communicators.world import InProcess
from shard_dialect.runtime.compile import compile_reference
from shard_dialect.runtime.dynamic_sizes import Sizes
from shard_dialect.runtime.executable import Executable
from shard_dialect.runtime.random_inputs import random_inputs

pytestmark = pytest.mark.usefixtures("unoptimized")

FILES = sorted((Path(__file__).parent / "manual_computations").glob("*.mlir"))
PIPELINES = (
    ("spmd,lower",),
    ("propagate", "materialize", "partition", "lower"),
    (
        "import,canonicalize,cse,propagate,canonicalize,cse",
        "materialize,canonicalize,cse,optimize-collectives,canonicalize,cse",
        "partition,canonicalize,cse,lower",
    ),
    ("propagate{strategy=basic},materialize", "partition{arguments=whole results=whole},lower"),
    ("propagate{traversal=forward-backward},materialize,partition", "lower"),
    ("spmd,bundle-collectives,overlap-collectives", "lower"),
)
"""Each in parts, through text in between."""


@pytest.mark.parametrize("parts", PIPELINES, ids=" ".join)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_manual_computation_does_what_is_written(path: Path, parts: tuple[str, ...]) -> None:
    text, unsharded = path.read_text().split("// -----")
    with make_context():
        for part in parts:
            module = Source.of(text).parse()
            run_pipeline(module, part)
            text = str(module)
        sharded = Executable(module, "main")
        reference = compile_reference(Source.of(unsharded), "main")
    assert sharded.program.devices == 8
    inputs = random_inputs([each.global_type for each in sharded.program.arguments], seed=0)
    world = InProcess(8)
    outputs = world.run(sharded, [sharded.program.scatter(inputs, rank) for rank in world.ranks])
    verdict = check(sharded, reference, inputs, outputs, world)
    assert verdict.passed, verdict.failure


def test_bisecting_wants_an_unsharded_program_of_each_value() -> None:
    text, _ = FILES[0].read_text().split("// -----")
    with make_context(), pytest.raises(ShardError, match="a manual computation: what"):
        Suspect.read(Source.of(text), "main", Sizes())
