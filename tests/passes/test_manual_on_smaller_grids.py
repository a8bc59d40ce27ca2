"""Manual computations on a mesh that is the first devices of a larger one."""

from itertools import pairwise
from math import prod

import numpy as np
import pytest

import shard_dialect as sd

LARGER = ((2, 4), (4, 2), (2, 2, 2), (8,), (12,), (3, 4), (6, 2), (2, 3, 2))
SMALLER = ((2,), (4,), (2, 2), (3,), (6,), (3, 2), (2, 3), (1, 2))
PROGRAM = """
"sdy.mesh"() <{{mesh = #sdy.mesh<[{larger}]>, sym_name = "m"}}> : () -> ()
"sdy.mesh"() <{{mesh = #sdy.mesh<[{smaller}]>, sym_name = "small"}}> : () -> ()
func.func @main(%x: tensor<24x2xf32> {{sdy.sharding = #sdy.sharding<@m, [{{"x"}}, {{}}]>}})
    -> tensor<24x2xf32> {{
  %0 = "sdy.manual_computation"(%x) <{{
      in_shardings = #sdy.sharding_per_value<[<@small, [{{"{axis}"}}, {{}}]>]>,
      manual_axes = #sdy<manual_axes{{"{axis}"}}>,
      out_shardings = #sdy.sharding_per_value<[<@small, [{{"{axis}"}}, {{}}]>]>}}> ({{
  ^bb0(%a: tensor<{size}x2xf32>):
    %1 = "stablehlo.all_reduce"(%a) <{{replica_groups = dense<{groups}> : tensor<{count}xi64>,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}}> ({{
    ^bb0(%s: tensor<f32>, %t: tensor<f32>):
      %u = stablehlo.add %s, %t : tensor<f32>
      stablehlo.return %u : tensor<f32>
    }}) : (tensor<{size}x2xf32>) -> tensor<{size}x2xf32>
    "sdy.return"(%1) : (tensor<{size}x2xf32>) -> ()
  }}) : (tensor<24x2xf32>) -> tensor<24x2xf32>
  return %0 : tensor<24x2xf32>
}}
"""  # noqa: E501


def program(larger: tuple[int, ...], smaller: tuple[int, ...], axis: int) -> str:
    ranks = np.arange(prod(smaller)).reshape(smaller)
    groups = np.moveaxis(ranks, axis, -1).reshape(-1, smaller[axis])
    return PROGRAM.format(
        larger=", ".join(f'"{name}"={size}' for name, size in zip("xyz", larger, strict=False)),
        smaller=", ".join(f'"{name}"={size}' for name, size in zip("stu", smaller, strict=False)),
        axis="stu"[axis],
        size=24 // smaller[axis],
        groups=groups.tolist(),
        count="x".join(map(str, groups.shape)),
    )


def fits(larger: tuple[int, ...], smaller: tuple[int, ...], axis: int) -> bool:
    """Whether a grid has the larger mesh's first axis, which is used, and the manual axis."""
    minor = prod(smaller[axis + 1 :])
    ends = sorted({1, minor, minor * smaller[axis], prod(larger[1:]), prod(larger)})
    return all(high % low == 0 for low, high in pairwise(ends))


CASES = [
    (larger, smaller, axis)
    for larger in LARGER
    for smaller in SMALLER
    for axis, size in enumerate(smaller)
    if size > 1 and prod(smaller) < prod(larger)
]


@pytest.mark.parametrize(("larger", "smaller", "axis"), CASES, ids=str)
def test_manual_axes_on_smaller_grids(
    larger: tuple[int, ...], smaller: tuple[int, ...], axis: int
) -> None:
    """The numbers are right, or its axes cross those of the larger mesh, and it is refused."""
    module = sd.parse(program(larger, smaller, axis))
    if not fits(larger, smaller, axis):
        with pytest.raises(sd.ShardError, match="this manual computation is along axes"):
            sd.compile(module)
        return
    x = np.random.default_rng(0).standard_normal((24, 2)).astype(np.float32)
    found = sd.run(module, x)
    shards = x.reshape(smaller[axis], -1, 2)
    np.testing.assert_allclose(found, np.tile(shards.sum(0), (smaller[axis], 1)), rtol=1e-5)
