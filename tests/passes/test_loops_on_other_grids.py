"""Ops whose loops are annotated are on the function's cluster, also where tensors are on others."""

import numpy as np
import pytest

import shard_dialect as sd

PROGRAM = """
{grids}
func.func @main(%a: tensor<12x4xf32>, %b: tensor<4x8xf32>) -> (tensor<12x8xf32>, tensor<12x4xf32>)
    attributes {{mesh_cluster = @{cluster}}} {{
  %x = "mesh.annotate"(%a) {{sharding = #mesh.shard<@{other}, {sharding}>, as_result = true,
                            required = true}} : (tensor<12x4xf32>) -> tensor<12x4xf32>
  %t = math.tanh %x : tensor<12x4xf32>
  %z = arith.constant dense<0.0> : tensor<12x8xf32>
  %0 = linalg.matmul {{sharding = {loops}}}
      ins(%t, %b : tensor<12x4xf32>, tensor<4x8xf32>) outs(%z : tensor<12x8xf32>)
      -> tensor<12x8xf32>
  return %0, %t : tensor<12x8xf32>, tensor<12x4xf32>
}}
"""


def cluster(name: str, *sizes: int) -> str:
    kind = f"rank = {len(sizes)} : i64, dim_sizes = {list(sizes)}"
    return f'"mesh.cluster"() {{sym_name = "{name}", {kind}}} : () -> ()\n'


def part(name: str, *sizes: int) -> str:
    where = f"offsets = {[1, *[0 for _ in sizes[1:]]]}, sizes = {list(sizes)}"
    return f'"mesh.sub_cluster"() {{sym_name = "{name}", cluster = @m, {where}}} : () -> ()\n'


SQUARE, SMALL = cluster("m", 2, 2), cluster("small", 2)
CASES = {
    "on the larger grid": (SQUARE + SMALL, "m", "small", "[[0]]", "[[0], [1], []]"),
    "on the smaller grid": (SQUARE + SMALL, "small", "m", "[[1, 0]]", "[[], [], [0]]"),
    "on a grid of half an axis": (
        cluster("m", 2, 4) + cluster("small", 2, 2),
        "small",
        "m",
        "[[0], [1]]",
        "[[1], [0], []]",
    ),
    "on all of a stage's grid": (
        SQUARE + part("second", 1, 2),
        "m",
        "second",
        "[[1]]",
        "[[0], [], [1]]",
    ),
    "on a stage": (SQUARE + part("second", 1, 2), "second", "m", "[[1, 0]]", "[[], [], [1]]"),
    "beside a line of the same devices": (
        SQUARE + cluster("line", 4),
        "m",
        "line",
        "[[0]]",
        "[[0], [], [1]]",
    ),
    "on a line beside a stage": (
        cluster("line", 4) + SQUARE + part("second", 1, 2),
        "line",
        "second",
        "[[1]]",
        "[[], [0], []]",
    ),
}


def program(grids: str, cluster: str, other: str, sharding: str, loops: str) -> str:
    return PROGRAM.format(grids=grids, cluster=cluster, other=other, sharding=sharding, loops=loops)


@pytest.mark.parametrize("case", CASES)
def test_numbers_are_right(case: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((12, 4), (4, 8)))
    product, tanh = sd.run(sd.parse(program(*CASES[case])), a, b)
    np.testing.assert_allclose(tanh, np.tanh(a), rtol=1e-5)
    np.testing.assert_allclose(product, np.tanh(a) @ b, rtol=1e-4, atol=1e-5)


def test_loops_along_parts_of_axes_are_refused() -> None:
    """The first three devices of 2x2 are no box, so that both grids become a line."""
    text = (SQUARE + cluster("small", 3), "m", "small", "[[0]]", "[[0], [1], []]")
    message = r"on @m\(2x2\), which become \[\[\"0:\(1\)2\"\], \[\"0:\(2\)2\"\], \[\]\] of @devices"
    with pytest.raises(sd.ShardError, match=message):
        sd.run_pipeline(sd.parse(program(*text)), "propagate")
