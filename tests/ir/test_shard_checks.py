"""What upstream's verifier must not see, and annotations that follow each other."""

import pytest

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.shard.check_shardings import _widens

GRID = "shard.grid @g(shape = 2x4)\n"
T = "tensor<4x8xf32>"


def refused(text: str) -> str:
    with make_context(), pytest.raises(ShardError) as raised:
        Source.of(text, "in.mlir").parse()
    return str(raised.value)


def accepted(text: str) -> None:
    with make_context():
        module = Source.of(text, "in.mlir").parse()
        assert module.operation.verify()
        assert str(module)


def function(op: str, arguments: str = f"%x: {T}") -> str:
    return f"{GRID}func.func @f({arguments}) {{\n  {op}\n  return\n}}\n"


# Upstream's verifier ends the process, or reads what lies behind the tensor's shape.
DIMENSIONS = {
    "all_slice": f"%0 = shard.all_slice %x on @g grid_axes = [0] slice_axis = {{}} : {T} -> {T}",
    "split": "%0 = shard.all_to_all %x on @g grid_axes = [0] split_axis = {} concat_axis = 0 "
    f": {T} -> {T}",
    "concat": "%0 = shard.all_to_all %x on @g grid_axes = [0] split_axis = 0 concat_axis = {} "
    f": {T} -> {T}",
    "reduce_scatter": f"%0 = shard.reduce_scatter %x on @g grid_axes = [0] scatter_axis = {{}} "
    f": {T} -> {T}",
    "scatter": "%0 = shard.scatter %x on @g grid_axes = [0] scatter_dim = {} root = [0] "
    f": ({T}) -> {T}",
    "generic": '%0 = "shard.all_slice"(%x) <{{grid = @g, grid_axes = array<i16: 0>, '
    f"slice_axis = {{}} : index}}}}> : ({T}) -> {T}",
}


@pytest.mark.parametrize("op", sorted(DIMENSIONS))
@pytest.mark.parametrize("value", ["2", "-1", "1000000000000", "0x7fffffffffff", "-0x10"])
def test_a_dimension_out_of_range_is_refused_in_the_text(op: str, value: str) -> None:
    message = refused(function(DIMENSIONS[op].format(value)))
    assert message.startswith("in.mlir:3:8: error: 'shard.")
    assert f"= {int(value, 0)}, which is no dimension of its operand" in message


@pytest.mark.parametrize("op", sorted(DIMENSIONS))
def test_a_dimension_in_range_is_not(op: str) -> None:
    grid = "shard.grid @g(shape = 1x4)\n"
    accepted(function(DIMENSIONS[op].format("1")).replace(GRID, grid))


@pytest.mark.parametrize(
    "text",
    [
        "!t = tensor<4x8xf32>\n"
        + function("%0 = shard.all_slice %x on @g slice_axis = 2 : !t -> !t", "%x: !t"),
        "#far = 2 : index\n"
        + function(f"%0 = shard.all_slice %x on @g slice_axis = #far : {T} -> {T}"),
        function(f"%0 = shard.all_slice %x on @g slice_axis = 2 {{n = 1 : i32}} : {T} -> {T}"),
        function(
            "%0 = shard.all_slice %x\n// slice_axis = 0\non @g slice_axis\n= 2 : "
            "tensor< 4 x 8 xf32> -> tensor<4x8xf32>"
        ),
        function(
            "%0 = shard.reduce_scatter %x on @g grid_axes = [0] scatter_dim = 2 "
            ": memref<4x8xf32> -> memref<4x8xf32>",
            "%x: memref<4x8xf32>",
        ),
    ],
)
def test_the_rank_is_found_however_the_type_is_written(text: str) -> None:
    assert "= 2, which is no dimension of its operand" in refused(text)


def test_a_dimension_past_an_unknown_type_is_refused() -> None:
    text = function("%0 = shard.all_slice %x on @g slice_axis = 64 : !far.away -> !far.away")
    assert "slice_axis = 64, which is no dimension" in refused(text)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("shard.grid @g(shape = 2x0)", "grid @g has size 0 on axis 1: sizes are at least 1"),
        ("shard.grid @g(shape = 0x4)", "grid @g has size 0 on axis 0"),
        (
            '"shard.grid"() <{shape = array<i64: 2, 0>, sym_name = "g"}> : () -> ()',
            "grid @g has size 0 on axis 1",
        ),
        ('shard.grid "private" @g(shape = 0x4)', "grid @g has size 0 on axis 0"),
        (
            "shard.grid @g(shape = 4294967296x4294967296)",
            "grid @g has more than 922337203685477580",
        ),
        ("shard.grid @g(shape = ?x9223372036854775807x2)", "grid @g has more than"),
    ],
)
def test_a_group_of_no_devices_is_refused_before_it_divides(grid: str, message: str) -> None:
    slice_ = f"%0 = shard.all_slice %x on @g grid_axes = [0, 1] slice_axis = 0 : {T} -> {T}"
    assert refused(function(slice_).replace(GRID, grid + "\n")).startswith(
        f"in.mlir:1:1: error: {message}"
    )


def test_a_grid_axis_behind_the_grid_is_refused_before_its_offsets_are_counted() -> None:
    for axis in (2, 100, 32767):
        text = function(
            f"%0 = shard.sharding @g split_axes = [[{axis}]] sharded_dims_offsets = [0, 4, 8]"
        )
        assert f"3:8: error: 'shard.sharding' op grid axis {axis} in split axes" in refused(text)


def test_words_in_comments_and_strings_are_not_looked_at() -> None:
    accepted(
        "// shard.grid @z(shape = 0)\n"
        + function("// shard.all_slice slice_axis = 9")
        + 'module attributes {a.text = "shard.all_slice on @g slice_axis = 9"} {}\n'
    )


def test_a_ring_of_annotations_ends() -> None:
    """A module's own body may use a value in front of the op that makes it."""
    accepted(
        GRID
        + "%s = shard.sharding @g split_axes = [[0]]\n%t = shard.sharding @g split_axes = [[1]]\n"
        + f"%0 = shard.shard %1 to %s annotate_for_users : {T}\n"
        + f"%1 = shard.shard %0 to %s annotate_for_users : {T}\n"
        + f"%2 = shard.shard %1 to %t annotate_for_users : {T}\n"
    )


FIRST = "%s = shard.sharding @g split_axes = [[0]]\n  "


def test_a_sharding_taken_from_a_tensor_is_compared_too() -> None:
    message = refused(
        function(
            FIRST
            + "%t = shard.sharding @g split_axes = [[1]]\n"
            + f"  %0 = shard.shard %x to %s : {T}\n"
            + f"  %u = shard.get_sharding %0 : {T} -> !shard.sharding\n"
            + f"  %1 = shard.shard %y to %t : {T}\n  %2 = shard.shard %1 to %u : {T}",
            f"%x: {T}, %y: {T}",
        )
    )
    assert "annotates one value as @g [[0]] that is annotated as @g [[1]]" in message


def test_it_may_not_annotate_a_value_twice() -> None:
    """Upstream's canonicalization would end the process."""
    message = refused(
        function(
            FIRST
            + f"%0 = shard.shard %x to %s : {T}\n"
            + f"  %u = shard.get_sharding %0 : {T} -> !shard.sharding\n"
            + f"  %1 = shard.shard %y to %u : {T}\n  %2 = shard.shard %y to %u : {T}",
            f"%x: {T}, %y: {T}",
        )
    )
    assert "give it a 'shard.sharding' of its own" in message


@pytest.mark.parametrize(
    ("given", "made", "expected"),
    [
        ("f32", "f32", True),
        ("f32", "f64", True),
        ("f8E4M3FN", "bf16", True),
        ("bf16", "f16", False),
        ("f64", "f32", False),
        ("i1", "i8", True),
        ("si8", "si32", True),
        ("si8", "i32", False),
        ("i32", "i8", False),
        ("i8", "f32", False),
        ("f32", "i64", False),
        ("index", "index", True),
        ("index", "i64", False),
        ("complex<f32>", "complex<f64>", True),
        ("complex<f32>", "f64", False),
    ],
)
def test_what_a_reduction_may_widen(given: str, made: str, expected: bool) -> None:
    with make_context():
        assert _widens(ir.Type.parse(given), ir.Type.parse(made)) is expected


@pytest.mark.parametrize("name", ["%n", "%n.1"])
def test_one_name_for_two_neighbours(name: str) -> None:
    text = f"{name} = shard.neighbors_linear_indices on @g[%i, %j] split_axes = [0] : index\n"
    expected = text.replace(" =", ":2 =", 1).replace(": index", ": index, index")
    assert Source.of(text).text == expected
    assert Source.of(expected).text == expected


def test_two_names_for_two_neighbours_keep_them() -> None:
    text = "%a, %b = shard.neighbors_linear_indices on @g[%i] split_axes = [0] : index"
    assert Source.of(text).text == f"{text}, index"
