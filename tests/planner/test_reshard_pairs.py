"""Every reshard of a 12x12 tensor on a 2x2 grid: 11 shardings, 110 pairs of different ones.

Upstream's `shard-partition` (LLVM 24git) is right on 46 of them, silently wrong on 12 to 14, and
refuses the others.
"""

from itertools import permutations

import pytest

from shard_dialect.model import Grid, Sharding
from shard_dialect.planner import plan
from tests.model.exhaustive import shardings
from tests.model.interpreter import DTYPE, holds, run, spread, whole_array
from tests.test_end_to_end import run_and_check

pytestmark = pytest.mark.usefixtures("unoptimized")

GRID = Grid("g", (2, 2))
SHAPE = (12, 12)
PAIRS = list(permutations([each for each in shardings(GRID, 2) if not each.partial], 2))


def test_there_are_110() -> None:
    assert len(PAIRS) == 110
    assert len(set(PAIRS)) == 110


def test_all_are_right_on_arrays() -> None:
    whole = whole_array(SHAPE)
    right = 0
    for source, target in PAIRS:
        found = plan(source, target, SHAPE, DTYPE.itemsize, GRID)
        held, moved = run(found.steps, spread(whole, source, GRID), source, SHAPE, GRID)
        right += holds(held, whole, target, GRID) and moved == found.bytes_moved
    assert right == 110


def attribute(sharding: Sharding) -> str:
    return f"{{mesh.sharding = #mesh.shard<@g, {sharding}>}}"


def test_all_are_right_end_to_end() -> None:
    """As one program, which takes a tensor for each pair and gives it lying otherwise."""
    arguments = [
        f"%x{at}: tensor<12x12xf32> {attribute(each)}" for at, (each, _) in enumerate(PAIRS)
    ]
    results = [f"tensor<12x12xf32> {attribute(each)}" for _, each in PAIRS]
    values = ", ".join(f"%x{at}" for at in range(len(PAIRS)))
    text = f"""
"mesh.cluster"() {{sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]}} : () -> ()
func.func @main({", ".join(arguments)}) -> ({", ".join(results)}) {{
  return {values} : {", ".join(["tensor<12x12xf32>"] * len(PAIRS))}
}}
"""
    verdict = run_and_check(text, "spmd,lower")
    assert verdict.passed, verdict.failure


@pytest.mark.parametrize("source", sorted({source for source, _ in PAIRS}, key=str), ids=str)
def test_all_are_right_as_annotations(source: Sharding) -> None:
    """From one tensor, by an op for each of the other ten."""
    targets = [target for each, target in PAIRS if each == source]
    lines = [
        f'  %{at} = "mesh.reshard"(%x) {{sharding = #mesh.shard<@g, {each}>}} '
        ": (tensor<12x12xf32>) -> tensor<12x12xf32>"
        for at, each in enumerate(targets)
    ]
    types = ", ".join(["tensor<12x12xf32>"] * len(targets))
    text = f"""
"mesh.cluster"() {{sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]}} : () -> ()
func.func @main(%x: tensor<12x12xf32> {attribute(source)}) -> ({types}) {{
{chr(10).join(lines)}
  return {", ".join(f"%{at}" for at in range(len(targets)))} : {types}
}}
"""
    verdict = run_and_check(text, "spmd,lower")
    assert verdict.passed, verdict.failure
