"""A transfer between parts of a grid moves what the receivers lack, on every backend."""

import sys
from pathlib import Path

import pytest

import shard_dialect as sd
from shard_dialect.testing.check_program import run_and_check
from tests.conftest import run_child
from tests.runtime.launching import Launch, launches

TYPE = "tensor<12x8xf32>"


def program(grid: str, source: str, target: str, type_: str = TYPE, parts: str = "") -> str:
    """A program that passes a tensor on from one part, in one sharding, to another."""
    return f"""
"mesh.cluster"() {{sym_name = "g", rank = {len(grid.split("x"))} : i64, dim_sizes = [{grid.replace("x", ", ")}]}} : () -> ()
{parts}
func.func @main(%x: {type_} {{mesh.sharding = {source}}}) -> ({type_} {{mesh.sharding = {target}}}) {{
  %0 = stablehlo.tanh %x : {type_}
  %1 = "mesh.annotate"(%0) {{as_result = false, sharding = {target}}} : ({type_}) -> {type_}
  %2 = stablehlo.exponential %1 : {type_}
  return %2 : {type_}
}}
"""  # noqa: E501


def part(name: str, offsets: str, sizes: str) -> str:
    return (
        f'"mesh.sub_cluster"() {{sym_name = "{name}", cluster = @g, offsets = [{offsets}], '
        f"sizes = [{sizes}]}} : () -> ()"
    )


ROWS = part("a", "0, 0", "1, 2") + "\n" + part("b", "1, 0", "1, 2")
CROSS = part("a", "0, 0", "1, 3") + "\n" + part("b", "0, 0", "3, 1")
FIRST = part("a", "0", "1") + "\n" + part("b", "2", "2")
BYTES = 12 * 8 * 4
CASES = {
    # Devices 2 and 3 have columns; each sends half of them, and keeps the other half.
    "a row to all": (
        program("2x2", "#mesh.shard<@b, [[], [1]]>", "#mesh.shard<@g, [[0], [1]]>", parts=ROWS),
        BYTES // 4,
    ),
    # A device of the row has a third of the columns, and sends a third of it to three others.
    "a row to a column": (
        program(
            "3x3",
            "#mesh.shard<@a, [[], [1]]>",
            "#mesh.shard<@b, [[0], []]>",
            "tensor<12x9xf32>",
            CROSS,
        ),
        12 * 9 * 4 // 3,
    ),
    "all to a row": (
        program("2x2", "#mesh.shard<@g, [[0], [1]]>", "#mesh.shard<@b, [[], [1]]>", parts=ROWS),
        BYTES // 4,
    ),
    "all, unsharded, to a row": (
        program("2x2", "#mesh.shard<@g, [[], []]>", "#mesh.shard<@b, [[1], []]>", parts=ROWS),
        0,
    ),
    "a row to another sharding on a row": (
        program("2x2", "#mesh.shard<@a, [[], [1]]>", "#mesh.shard<@b, [[1], []]>", parts=ROWS),
        BYTES // 2,
    ),
    "one device to a part": (
        program("4", "#mesh.shard<@a, [[], []]>", "#mesh.shard<@b, [[], [0]]>", parts=FIRST),
        BYTES,
    ),
    "one device to all, which it is one of": (
        program("4", "#mesh.shard<@a, [[], []]>", "#mesh.shard<@g, [[0], []]>", parts=FIRST),
        BYTES * 3 // 4,
    ),
    # It sends each of them a half, and they send each other the halves.
    "one device to an unsharded part": (
        program("4", "#mesh.shard<@a, [[], []]>", "#mesh.shard<@b, [[], []]>", parts=FIRST),
        BYTES * 3 // 2,
    ),
    # Each of the two sends a half, so that none sends more than the other.
    "an unsharded part to one device, in two halves": (
        program("4", "#mesh.shard<@b, [[], []]>", "#mesh.shard<@a, [[], []]>", parts=FIRST),
        BYTES,
    ),
    # Devices 0 to 3 of 6 hold halves, two of them each; 1 to 3 are to hold all of it.
    "parts that are no multiples": (
        program(
            "6",
            '#mesh.shard<@a, [["0:(2)2"], []]>',
            "#mesh.shard<@b, [[], []]>",
            parts=part("a", "0", "4") + "\n" + part("b", "1", "3"),
        ),
        BYTES // 2,
    ),
    # Half of a row: device 2 lacks the shards of 0 and 1, and 3 that of 2.
    "a part of a part": (
        program(
            "2x4",
            "#mesh.shard<@a, [[1], []]>",
            "#mesh.shard<@b, [[1], []]>",
            parts=part("a", "0, 0", "1, 4")
            + "\n"
            + part("b", "0, 2", "1, 2").replace("cluster = @g", "cluster = @a"),
        ),
        BYTES // 2,
    ),
    # Shards of two rows and of one: a round takes boxes of both, each as large as the larger.
    "uneven rows": (
        program(
            "2x2",
            "#mesh.shard<@a, [[], [1]]>",
            "#mesh.shard<@b, [[1], []]>",
            "tensor<3x4xf32>",
            ROWS,
        ),
        2 * (2 * 2) * 4,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_moves_no_more_than_is_lacking(name: str) -> None:
    text, most = CASES[name]
    assert sd.communication(sd.parse(text)).bytes_moved == most


@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize("name", CASES)
def test_numbers_are_those_of_the_unsharded_program(name: str) -> None:
    verdict = run_and_check(CASES[name][0], "spmd,lower").verdict
    assert verdict.passed, verdict.failure


@pytest.mark.parametrize("launch", launches(sys.executable), ids=lambda each: each.name)
@pytest.mark.parametrize(
    ("name", "ranks"), [("a row to a column", 9), ("parts that are no multiples", 6)]
)
def test_it_runs_on_every_backend(name: str, ranks: int, launch: Launch, tmp_path: Path) -> None:
    path = tmp_path / "transfer.mlir"
    path.write_text(CASES[name][0])
    command = launch.forked(ranks, "-m", "shard_dialect.run", str(path), "--check")
    done = run_child(command, 300)
    assert "check passed" in done.stdout, done.stdout + done.stderr


STACKED = "tensor<4x6x8xf32>"
LAYER = "tensor<1x6x8xf32>"


def layers(on_first: int, on_second: int) -> str:
    """Two stages that each compute a layer of weights, which are split among the stages."""
    return f"""
"mesh.cluster"() {{sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]}} : () -> ()
{ROWS}
func.func @main(%w: {STACKED} {{mesh.sharding = #mesh.shard<@g, [[0], [], [1]]>}}) -> {STACKED} {{
  %a = "mesh.transfer"(%w) {{cluster = @a, offsets = [{on_first}, 0, 0]}} : ({STACKED}) -> {LAYER}
  %b = "mesh.transfer"(%w) {{cluster = @b, offsets = [{on_second}, 0, 0]}} : ({STACKED}) -> {LAYER}
  %ta = stablehlo.tanh %a : {LAYER}
  %tb = stablehlo.tanh %b : {LAYER}
  %0 = stablehlo.constant dense<0.0> : {STACKED}
  %1 = "mesh.transfer"(%ta, %0) {{cluster = @g, offsets = [{on_first}, 0, 0]}}
         : ({LAYER}, {STACKED}) -> {STACKED}
  %2 = "mesh.transfer"(%tb, %1) {{cluster = @g, offsets = [{on_second}, 0, 0]}}
         : ({LAYER}, {STACKED}) -> {STACKED}
  %r = stablehlo.add %2, %w : {STACKED}
  return %r : {STACKED}
}}
"""


@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize(
    ("on_first", "on_second", "moved"),
    [
        (1, 2, 0),  # each has its layer, and keeps what becomes of it
        (2, 3, 2 * 6 * 4 * 4),  # the first gets layer 2 of the second, and sends back as much
    ],
)
def test_layers_move_only_between_stages(on_first: int, on_second: int, moved: int) -> None:
    """A device has half of the elements of a layer."""
    text = layers(on_first, on_second)
    assert run_and_check(text, "spmd,lower").verdict.passed
    module = sd.parse(text)
    sd.run_pipeline(module, "spmd")
    assert sd.communication(module).bytes_moved == moved
    local = "tensor<2x6x4xf32>"
    assert f"func.func @main(%arg0: {local}" in str(module)


@pytest.mark.parametrize("launch", launches(sys.executable), ids=lambda each: each.name)
def test_layers_on_every_backend(launch: Launch, tmp_path: Path) -> None:
    path = tmp_path / "layers.mlir"
    path.write_text(layers(2, 3))
    done = run_child(launch.forked(4, "-m", "shard_dialect.run", str(path), "--check"), 300)
    assert "check passed" in done.stdout, done.stdout + done.stderr
