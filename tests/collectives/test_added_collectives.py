"""A user's collective is one entry, with which it is read, checked, run, priced and written."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

import shard_dialect as sd
from shard_dialect.backends.python.python_module import emit_python
from shard_dialect.backends.python.writer import Target
from shard_dialect.collectives import LocalStep
from shard_dialect.collectives.all_gather import GATHERING
from shard_dialect.collectives.collective_record import CollectiveRecord, Spelling
from shard_dialect.collectives.collective_table import DISTRIBUTED, LOCAL, RECORDS, register
from shard_dialect.collectives.permute import permuting
from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.model import Axes
from shard_dialect.model.sharding import Shape
from shard_dialect.runtime.communicators.world import InProcess
from shard_dialect.runtime.compile import compile_sharded
from shard_dialect.runtime.program_cache import Cache

Array = NDArray[Any]

PROGRAM = """
"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
func.func @main(%x: tensor<2x8xf32>) -> tensor<RESULT> attributes {mesh.form = "local"} {
  %0 = "mesh.OP"(%x) {cluster = @g, mesh_axis = [AXIS]KEYS} : (tensor<2x8xf32>) -> tensor<RESULT>
  return %0 : tensor<RESULT>
}
"""


@dataclass(frozen=True, slots=True)
class Mirror(LocalStep):
    """Device i of a group of n gets what device n-1-i has."""

    axes: Axes
    kind: ClassVar[str] = "mirror"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        return prod(operand) * itemsize if n > 1 else 0


MIRROR = permuting(
    Mirror,
    lambda step, sizes: tuple(reversed(range(prod(sizes)))),
    "mirrored",
    local=Spelling(
        "mesh.mirror",
        {"mesh_axis": ("axes", "axes")},
        summary="Device i of a group of n gets what device n-1-i has.",
        optional=("cluster",),
    ),
)


@dataclass(frozen=True, slots=True)
class Collect(LocalStep):
    """An all-gather, by another name: each facet is written out."""

    dim: int
    axes: Axes
    kind: ClassVar[str] = "collect"
    joins: ClassVar[str] = "dim"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        return (n - 1) * prod(operand) * itemsize


COLLECT = CollectiveRecord(
    Collect,
    local=Spelling(
        "mesh.collect",
        {"mesh_axis": ("axes", "axes"), "dim": ("dimension", "dim")},
        summary="All devices of a group get all shards of a dimension.",
        optional=("cluster",),
    ),
    algorithms=GATHERING,
    perform=lambda step, grid, group, *arrays: group.all_gather(*arrays),
    mpi=lambda site: site.all_gather(site.source, site.target),
    python=("collected", lambda call, step: call("all_gather", step.dim)),
    is_uniform_after=True,
    stablehlo=lambda code: code.all_gather(code.step.dim),
)


def mirror(axis: int = 1) -> str:
    text = PROGRAM.replace("OP", "mirror").replace("AXIS", str(axis)).replace("KEYS", "")
    return text.replace("RESULT", "2x8xf32")


def started() -> str:
    """A mirror in two halves."""
    what = 'collective = {name = "mesh.mirror", cluster = @g, mesh_axis = [1]}'
    type_ = "tensor<2x8xf32>"
    text = mirror().replace('"mesh.mirror"', '"mesh.start"').replace("%0 =", "%s =")
    text = text.replace("cluster = @g, mesh_axis = [1]", what)
    done = f'%0 = "mesh.done"(%s) : ({type_}) -> {type_}'
    return text.replace("  return", f"  {done}\n  return")


def collect(dim: int, result: str) -> str:
    text = PROGRAM.replace("OP", "collect").replace("AXIS", "1")
    return text.replace("KEYS", f", dim = {dim} : index").replace("RESULT", result)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    """What is registered in a test ends with it."""
    tables: tuple[dict[Any, Any], ...] = (RECORDS, LOCAL, DISTRIBUTED)
    before = [dict(each) for each in tables]
    register(MIRROR, COLLECT)
    yield
    for table, each in zip(tables, before, strict=True):
        table.clear()
        table.update(each)


def after(text: str, pipeline: str) -> str:
    return str(sd.run_pipeline(sd.parse(text), pipeline))


def test_they_are_read_and_printed() -> None:
    assert '"mesh.mirror"(%arg0) {cluster = @g, mesh_axis = [1]}' in after(mirror(), "spmd")
    assert after(mirror(), "spmd") == after(after(mirror(), "spmd"), "spmd")
    in_rfc = mirror().replace('"mesh.mirror"(%x)', "mesh.mirror %x")
    assert str(sd.parse(in_rfc.replace("} : (tensor<2x8xf32>)", "} : tensor<2x8xf32>"))) == str(
        sd.parse(mirror())
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (mirror(axis=2), "2"),
        (collect(0, "4x8xf32"), "makes [8, 8]"),
        (collect(2, "2x8xf32"), "dimension 2"),
        (mirror().replace("[1]", "1"), "array"),
    ],
)
def test_they_are_checked(text: str, message: str) -> None:
    with pytest.raises(ShardError, match=re.escape(message)):
        after(text, "spmd")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (mirror(), lambda group, at: group[-1 - at]),
        (started(), lambda group, at: group[-1 - at]),
        (collect(0, "8x8xf32"), lambda group, at: np.concatenate(group, 0)),
        (collect(1, "2x32xf32"), lambda group, at: np.concatenate(group, 1)),
    ],
)
def test_they_run(text: str, expected: Callable[[list[Array], int], Array], tmp_path: Path) -> None:
    shards = [np.random.default_rng(rank).normal(size=(2, 8)).astype("f4") for rank in range(8)]
    for _ in range(2):  # the second time from the cache
        with make_context():
            executable = compile_sharded(Source.of(text), cache=Cache(tmp_path))
        outputs = InProcess(8).run(executable, [[each] for each in shards])
        for rank, (output,) in enumerate(outputs):
            first = rank - rank % 4
            group = shards[first : first + 4]
            np.testing.assert_array_equal(output, expected(group, rank % 4))


def test_they_are_in_the_report() -> None:
    report = sd.report(sd.parse(mirror()), device_model="h100")
    assert "mirror        1               4  2x8xf32    2x8xf32             64" in str(report)
    assert "collect " in str(sd.report(sd.parse(collect(1, "2x32xf32")), device_model="tpu-v4"))


def test_they_are_written_in_python() -> None:
    targets: tuple[Target, ...] = ("mpi4py", "torch")
    for target in targets:
        with make_context():
            text = emit_python(Source.of(mirror()).parse(), target)
            assert "mirrored = permute(x, along_1, [3, 2, 1, 0])" in text
            text = emit_python(Source.of(collect(1, "2x32xf32")).parse(), target)
            assert "collected = all_gather(x, along_1, 1)" in text


def test_they_are_written_in_stablehlo_and_mpi() -> None:
    assert "[[0, 3], [1, 2], [2, 1], [3, 0]," in after(mirror(), "convert-to-stablehlo")
    text = after(collect(1, "2x32xf32"), "convert-to-stablehlo")
    assert "all_gather_dim = 1" in text
    assert "call @MPI_Sendrecv" in after(mirror(), "lower{target=mpi}")
    assert "call @MPI_Allgather" in after(collect(1, "2x32xf32"), "lower{target=mpi}")
