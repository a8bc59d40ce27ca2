"""A program of a user's, which type checkers read and nothing runs."""

from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import assert_type

import shard_dialect as sd

module = sd.parse(Path("in.mlir"))
grid = sd.Grid("g", [2, 4], axes=("data", "model"))
assert_type(grid, sd.Grid)
assert_type(grid.axes, tuple[str, ...])
x = np.zeros((8, 8), np.float32)
shards = sd.scatter(x, [["data"], ["model"]], grid)

assert_type(sd.run(module, x), Any)
assert_type(sd.run(module, x, backend="xla", entry="main"), Any)
result = sd.run(module, x, backend="mpi")
assert_type(result, Any | None)
program = sd.compile(module, "torch", entry="main")
assert_type(program, sd.CompiledProgram)
assert_type(program.report, sd.Report)

report = sd.report(module, suggest=True, allocator="xla")
assert_type(report, sd.ProgramReport)
assert_type(report.bytes_moved, int)
assert_type(sd.what_if(module, "w=[[], [model]]"), sd.Comparison)
assert_type(sd.report_html(report), str)
assert_type(sd.show(module, "x"), sd.DrawnSharding)
assert_type(sd.auto(module, grid=[2, 4], seconds=1).is_proven, bool)


def describe(value: object) -> str:
    """Tell grids from what is none."""
    return f"{value.size} devices" if isinstance(value, sd.Grid) else "no grid"


@sd.sharding_rule("example.twice", operations=1, python="{0} + {0}")
def twice(query: sd.Query) -> sd.ShardingRule:
    """Elementwise."""
    return sd.ShardingRule.einsum("ij->ij", query.operands, query.results)


def from_frameworks(function: Any, model: Any, mesh: Any) -> None:
    """The packages for JAX and torch are attributes."""
    step = sd.jax.jit(function, mesh=mesh, in_shardings=sd.AUTO)
    step(x)
    partitioned = sd.torch.partition(model, (x,), {}, mesh)
    assert_type(partitioned, sd.torch.Partitioned)


try:
    sd.run_pipeline(module, "spmd,canonicalize")
except sd.ShardError as error:
    assert_type(error.location, str | None)
