"""Spelling a file as the bindings parse it, and finding the way back to its own columns."""

import io

import pytest

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir, spelled
from shard_dialect.ir.context import make_context
from shard_dialect.ir.diagnostics import location_text
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.reading.spelling import code_of

FUNCTION = "func.func @f({}) attributes {{mesh_cluster = @g}} {{ return }}\n"


def test_text_without_drift_is_left_as_it_is() -> None:
    text = (
        '// #mesh.shard<[[0]]> reduction = <max>\n"x.y"() {a = "#mesh.shard<[[0]]>"} : () -> ()\n'
    )
    assert Source.of(text).text == text


def test_a_short_form_gets_the_grid_of_its_function() -> None:
    text = FUNCTION.format("%x: tensor<4xf32, #mesh.shard<[[0]]>>")
    assert "#mesh.shard<@g, [[0]]>" in str(Source.of(text).text)


def test_a_comment_does_not_name_the_grid() -> None:
    text = "// func.func mesh_cluster = @other\n" + FUNCTION.format(
        "%x: tensor<4xf32, #mesh.shard<[[0]]>>"
    )
    assert "#mesh.shard<@g, [[0]]>" in str(Source.of(text).text)


@pytest.mark.parametrize("spelling", ["scatter_axis", "scatter_dim"])
def test_either_name_of_the_scattered_dimension_becomes_the_installed_one(spelling: str) -> None:
    text = f"shard.scatter %x on @g grid_axes = [0] {spelling} = 0 root = [1]\n"
    assert Source.of(text).text == text.replace(spelling, spelled("scatter_axis"))


@pytest.mark.parametrize(
    "sharding",
    [
        "%s = shard.sharding @g split_axes = [[0], [1]]",
        "%s = shard.sharding @g split_axes = [[0]] halo_sizes = [1, %h]",
        "%s = shard.sharding @g split_axes = [[0]]\n    sharded_dims_offsets = [0, 1, 4]",
    ],
)
@pytest.mark.parametrize("behind", ["\n", "  // why\n", ""])
def test_a_sharding_gets_its_type_once(sharding: str, behind: str) -> None:
    typed = f"{sharding} : !shard.sharding"
    assert Source.of(sharding + behind).text == typed + behind
    assert Source.of(typed + behind).text == typed + behind


def test_a_missing_grid_is_placed_in_the_file() -> None:
    text = "\n  #a = #mesh.shard<[[0]]>\n"
    with make_context(), pytest.raises(ShardError) as raised:
        Source.of(text, "in.mlir", lines_before=10).parse()
    assert raised.value.location == "in.mlir:12:8"


@pytest.mark.parametrize(
    ("text", "given", "own"),
    [
        ("#mesh.shard<[[0]]> x  mesh_cluster = @g", 24, 20),  # behind what was added
        ("#mesh.shard<[[0]]> x  mesh_cluster = @g", 5, 5),  # in front of it
        ("#mesh.shard<[[0]]> x  mesh_cluster = @g", 14, 13),  # inside of it
        ("shard.all_reduce reduction = <max> x", 34, 36),  # behind what was taken away
    ],
)
def test_columns_are_those_of_the_file(text: str, given: int, own: int) -> None:
    source = Source.of(text, "in.mlir")
    assert source._restore(f"-:1:{given}") == f"in.mlir:1:{own}"


def test_parts_know_their_lines(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("parts") / "in.mlir"
    file.write_text("first\n// -----\nsecond\nmore\n// ----- here too\nthird\n")
    parts = Source.read_split_input(str(file))
    assert [part.text for part in parts] == ["first\n", "second\nmore\n", "third\n"]
    assert [part.lines_before for part in parts] == [0, 2, 5]


def bytecode_of(text: str) -> bytes:
    with make_context():
        written = io.BytesIO()
        Source.of(text).parse().operation.write_bytecode(written)
    return written.getvalue()


EXP = "func.func @main(%x: tensor<4xf32>) {\n%0 = math.exp %x : tensor<4xf32>\nreturn\n}\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"ML\xefR", "attempting to parse a byte at the end of the bytecode"),
        (bytecode_of(EXP).replace(b"math", b"m\xffth"), "holds a string that is not UTF-8"),
        (bytecode_of(EXP).replace(b"math", b"moth"), "dialect 'moth' is unknown"),
    ],
    ids=["nothing", "no UTF-8", "unknown dialect"],
)
def test_what_is_wrong_with_bytecode_is_told_with_its_file(data: bytes, message: str) -> None:
    with make_context(), pytest.raises(ShardError, match=message) as raised:
        Source("in.mlirbc", data).parse()
    assert (raised.value.location or "").startswith("in.mlirbc:")


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ('callsite("/v/site-packages/torch/nn/linear.py":9:0 at "mine.py":2:1)', "mine.py:2:1"),
        ('callsite("mine.py":2:1 at "/v/site-packages/torch/nn/linear.py":9:0)', "mine.py:2:1"),
        (
            'callsite("/v/site-packages/torch/a.py":9:0 at '
            'callsite("/v/site-packages/torch/b.py":8:0 at "mine.py":2:1))',
            "mine.py:2:1",
        ),
        (
            'callsite("/v/site-packages/torch/a.py":9:0 at unknown)',
            "/v/site-packages/torch/a.py:9:0",
        ),
        (
            'callsite("/v/site-packages/flax/a.py":9:0 at "m.py":2:1)',
            "/v/site-packages/flax/a.py:9:0",
        ),
    ],
)
def test_a_place_in_torchs_own_files_is_that_of_its_caller(location: str, text: str) -> None:
    with make_context():
        module = ir.Module.parse(f"module {{}} loc({location})")
        assert location_text(module.operation.location) == text


def test_data_in_hexadecimal_is_no_code() -> None:
    text = '%c = arith.constant dense<"0xABCDEF01"> : tensor<1xf32> "my.op"() "a \\" b" // "c'
    assert code_of(text).split() == [
        *("%c", "=", "arith.constant", 'dense<"', '">', ":", "tensor<1xf32>", '"my.op"()', '"', '"')
    ]
    assert len(code_of(text)) == len(text)
