"""Wherever a person reads an axis, it is one of the file's, however finely the grid is refined."""

import re
from random import Random

import pytest

import shard_dialect as sd

_TYPE = "tensor<48x48xf32>"
_MESHES = (
    (("dat", 4), ("mod", 2)),
    (("dat", 8),),
    (("dat", 4), ("mod", 4)),
    (("dat", 12), ("mod", 2)),
)
_NAMED = re.compile(r"(dat|mod)(:\(\d+\)\d+)?")


def _lists(draw: Random, mesh: tuple[tuple[str, int], ...]) -> str:
    """The lists of a sharding of a matrix; every sub-axis stands alone in its list."""
    dims: list[list[str]] = [[], []]
    for name, size in mesh:
        inner = draw.choice([k for k in range(2, size + 1) if size % k == 0])
        parts = (
            [f'"{name}"']
            if inner == size
            else [f'"{name}":(1){inner}', f'"{name}":({inner}){size // inner}']
        )
        for part, dim in zip(parts, draw.sample(range(2), 2)[: len(parts)], strict=True):
            if draw.random() < 0.7:
                dims[dim].insert(0, part)
    return ", ".join("{" + ", ".join(dim) + "}" for dim in dims)


def drawn(seed: int) -> str:
    """A program with sub-axes, and reshapes that split dimensions in pieces."""
    draw = Random(seed)
    mesh = draw.choice(_MESHES)
    values, lines = ["%x", "%w"], []
    for number in range(draw.randint(2, 5)):
        a, b, name = draw.choice(values), draw.choice(values), f"%v{number}"
        wide = draw.choice([2, 4, 6])
        shaped = f"tensor<{48 * wide}x{48 // wide}xf32>"
        lines += draw.choice(
            [
                [f"{name} = stablehlo.dot {a}, {b} : ({_TYPE}, {_TYPE}) -> {_TYPE}"],
                [f"{name} = stablehlo.add {a}, {b} : {_TYPE}"],
                [f"{name} = stablehlo.transpose {a}, dims = [1, 0] : ({_TYPE}) -> {_TYPE}"],
                [f"{name} = sdy.sharding_constraint {a} <@g, [{_lists(draw, mesh)}]> : {_TYPE}"],
                [
                    f"{name}_r = stablehlo.reshape {a} : ({_TYPE}) -> {shaped}",
                    f"{name}_t = stablehlo.tanh {name}_r : {shaped}",
                    f"{name} = stablehlo.reshape {name}_t : ({shaped}) -> {_TYPE}",
                ],
            ]
        )
        values.append(name)
    axes = ", ".join(f'"{name}"={size}' for name, size in mesh)
    sharded = [
        f"{_TYPE} {{sdy.sharding = #sdy.sharding<@g, [{_lists(draw, mesh)}]>}}" for _ in range(3)
    ]
    body = "\n  ".join(lines)
    return f"""sdy.mesh @g = <[{axes}]>
func.func @main(%x: {sharded[0]}, %w: {sharded[1]}) -> ({sharded[2]}) {{
  {body}
  return {values[-1]} : {_TYPE}
}}"""


@pytest.mark.parametrize("seed", range(24))
def test_axes_are_spelled_as_the_file_has_them(seed):
    module = sd.parse(drawn(seed))
    report = sd.report(module)
    for each in report.as_json()["communication"]:
        assert all(map(_NAMED.fullmatch, each["axes"])), each
    read_by_people = f"{report}\n{sd.communication(module)}"
    assert not re.search(r"axis_\d|along \[?\"?\d|\[\[\d", read_by_people), read_by_people


@pytest.mark.parametrize("seed", range(24))
def test_the_local_program_records_what_was_refined(seed):
    module = sd.parse(drawn(seed))
    before = sd.report(module)
    sd.run_pipeline(module, "spmd")
    again = sd.report(sd.parse(sd.to_text(module)))
    assert [each.axes for each in again.communication] == [
        each.axes for each in before.communication
    ]


def test_axes_without_names_are_numbers():
    text = """
shard.grid @g(shape = 4x2)
func.func @main(%x: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@g, [["0:(1)2"], ["0:(2)2"]]>})
    -> (tensor<8x16xf32> {mesh.sharding = #mesh.shard<@g, [["0:(1)2"], [1]]>}) {
  %0 = math.tanh %x : tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}"""
    moved = sd.report(sd.parse(text)).communication
    assert moved
    assert {axis for each in moved for axis in each.axes} <= {"0", "1", "0:(1)2", "0:(2)2"}
