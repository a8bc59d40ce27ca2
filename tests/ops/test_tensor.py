"""Each `tensor` op, cut in every way its rule allows and at random, against the unsharded op."""

import pytest

from shard_dialect.ir.context import make_context
from shard_dialect.ops.dialects.tensor_rules import RECORDS
from tests.ops.placed import (
    at_random,
    case,
    check_every_split,
    check_means_the_same,
    rule_text,
)

pytestmark = pytest.mark.usefixtures("unoptimized")

F = "4x8xf32"
ONE = "%c = arith.constant 1 : index\n"
ZERO = "%z = arith.constant 0.0 : f32\n"
THREE = "%b = arith.constant 3 : index\n"
INDEX = THREE + "%p = tensor.extract %1[] : tensor<index>\n%i = arith.andi %p, %b : index\n"
BLOCK = "{\n^bb0(%i: index, %j: index):\n"

CASES = {
    "bitcast": case(
        "tensor.bitcast", F, "%r = tensor.bitcast %0 : $0 to $r", "4x8xi32", runs=False
    ),
    "cast": case("tensor.cast", F, "%r = tensor.cast %0 : $0 to $r", F),
    "collapse_shape": case(
        "tensor.collapse_shape",
        "4x2x8xf32",
        "%r = tensor.collapse_shape %0 [[0, 1], [2]] : $0 into $r",
        "8x8xf32",
    ),
    "collapse_shape of ones": case(
        "tensor.collapse_shape",
        "1x4x8xf32",
        "%r = tensor.collapse_shape %0 [[0, 1], [2]] : $0 into $r",
        F,
    ),
    "concat": case(
        "tensor.concat",
        "4x8xf32 4x4xf32",
        "%r = tensor.concat dim(1) %0, %1 : ($0, $1) -> $r",
        "4x12xf32",
    ),
    "dim": case(
        "tensor.dim", F, ONE + "%d = tensor.dim %0, %c : $0\n%r = tensor.splat %d : $r", "4xindex"
    ),
    "empty": case(
        "linalg.copy",
        F,
        "%e = tensor.empty() : $0\n%r = linalg.copy ins(%0 : $0) outs(%e : $0) -> $r",
        F,
    ),
    "expand_shape": case(
        "tensor.expand_shape",
        F,
        "%r = tensor.expand_shape %0 [[0], [1, 2]] output_shape [4, 2, 4] : $0 into $r",
        "4x2x4xf32",
    ),
    "extract": case(
        "tensor.extract",
        F,
        ONE + "%v = tensor.extract %0[%c, %c] : $0\n%r = tensor.splat %v : $r",
        "4xf32",
    ),
    "extract_slice": case(
        "tensor.extract_slice",
        "4x8x6xf32",
        "%r = tensor.extract_slice %0[0, 2, 0][4, 4, 6][1, 1, 1] : $0 to $r",
        "4x4x6xf32",
    ),
    "extract_slice of one": case(
        "tensor.extract_slice",
        "4x8x6xf32",
        "%r = tensor.extract_slice %0[0, 2, 0][4, 1, 6][1, 1, 1] : $0 to $r",
        "4x6xf32",
    ),
    "extract_slice with steps": case(
        "tensor.extract_slice",
        F,
        "%r = tensor.extract_slice %0[0, 1][4, 4][1, 2] : $0 to $r",
        "4x4xf32",
    ),
    "extract_slice from anywhere": case(
        "tensor.extract_slice",
        "4x8xf32 index",
        INDEX + "%r = tensor.extract_slice %0[0, %i][4, 4][1, 1] : $0 to $r",
        "4x4xf32",
    ),
    "from_elements": case(
        "tensor.from_elements",
        "f32",
        "%v = tensor.extract %0[] : $0\n%w = arith.negf %v : f32\n"
        "%r = tensor.from_elements %v, %w, %v, %w : $r",
        "4xf32",
    ),
    "gather": case(
        "tensor.gather",
        "4x8xf32 6x1xindex",
        "%r = tensor.gather %0[%1] gather_dims([0]) : ($0, $1) -> $r",
        "6x1x8xf32",
        runs=False,
    ),
    "generate": case(
        "tensor.generate",
        F,
        f"%r = tensor.generate {BLOCK}{ONE}%v = tensor.extract %0[%c, %j] : $0\n"
        "tensor.yield %v : f32\n} : $r",
        F,
    ),
    "insert": case(
        "tensor.insert", F, ONE + ZERO + "%r = tensor.insert %z into %0[%c, %c] : $r", F
    ),
    "insert_slice": case(
        "tensor.insert_slice",
        "4x8x6xf32 4x4x6xf32",
        "%r = tensor.insert_slice %1 into %0[0, 2, 0][4, 4, 6][1, 1, 1] : $1 into $r",
        "4x8x6xf32",
    ),
    "insert_slice of one": case(
        "tensor.insert_slice",
        "4x8x6xf32 4x6xf32",
        "%r = tensor.insert_slice %1 into %0[0, 2, 0][4, 1, 6][1, 1, 1] : $1 into $r",
        "4x8x6xf32",
    ),
    "insert_slice with steps": case(
        "tensor.insert_slice",
        "4x8xf32 4x4xf32",
        "%r = tensor.insert_slice %1 into %0[0, 1][4, 4][1, 2] : $1 into $r",
        F,
    ),
    "pad": case(
        "tensor.pad",
        F,
        f"{ZERO}%r = tensor.pad %0 low[0, 1] high[0, 3] {BLOCK}tensor.yield %z : f32\n"
        "} : $0 to $r",
        "4x12xf32",
    ),
    "pad by an index": case(
        "tensor.pad",
        F,
        f"%r = tensor.pad %0 low[0, 1] high[0, 3] {BLOCK}%n = arith.index_cast %i : index to i32\n"
        "%v = arith.sitofp %n : i32 to f32\ntensor.yield %v : f32\n} : $0 to $r",
        "4x12xf32",
    ),
    "rank": case(
        "tensor.rank", F, "%d = tensor.rank %0 : $0\n%r = tensor.splat %d : $r", "4xindex"
    ),
    "reshape": case(
        "tensor.reshape",
        F,
        "%s = arith.constant dense<[4, 2, 4]> : tensor<3xindex>\n"
        "%r = tensor.reshape %0(%s) : ($0, tensor<3xindex>) -> $r",
        "4x2x4xf32",
    ),
    "reshape to an operand": case(
        "tensor.reshape",
        "4x8xf32",
        f"{THREE}%m = arith.constant 1 : index\n%n = arith.addi %b, %m : index\n"
        "%l = arith.addi %n, %n : index\n%s = tensor.from_elements %l, %n : tensor<2xindex>\n"
        "%r = tensor.reshape %0(%s) : ($0, tensor<2xindex>) -> $r",
        "8x4xf32",
    ),
    "scatter": case(
        "tensor.scatter",
        "2x1x8xf32 4x8xf32 2x1xindex",
        "%r = tensor.scatter %0 into %1[%2] scatter_dims([0]) unique : ($0, $1, $2) -> $r",
        F,
        runs=False,
    ),
    "splat": case(
        "tensor.splat", "f32", "%v = tensor.extract %0[] : $0\n%r = tensor.splat %v : $r", F
    ),
}


SPLIT_IN_NO_WAY = {
    "dim",
    "extract",
    "from_elements",
    "gather",
    "insert",
    "pad by an index",
    "rank",
    "reshape to an operand",
    "scatter",
}


@pytest.mark.parametrize("name", CASES)
def test_every_split_is_reached(name: str) -> None:
    assert (check_every_split(CASES[name]) == 0) == (name in SPLIT_IN_NO_WAY)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", [name for name, each in CASES.items() if each.runs])
def test_placed_at_random_it_means_the_same(name: str, seed: int) -> None:
    check_means_the_same(at_random(CASES[name], seed))


RULES_AS_TEXT = {
    "collapse_shape of ones": "([1, a, b]) -> ([a, b])",
    "expand_shape": "([a, bc]) -> ([a, b, c])",
    "extract_slice": "([a, b, c]) -> ([a, b, c]) permuted={b}",
    "extract_slice of one": "([a, b, c]) -> ([a, c]) permuted={b}",
    "extract_slice from anywhere": "([a, b], -) -> ([a, b]) whole={b} blocked={b}",
    "generate": "() -> ([a, b])",
    "insert": "(-, [a, b], -, -) -> ([a, b]) whole={a, b}",
    "insert_slice": "([a, 1, c], [a, b, c]) -> ([a, b, c]) whole={b}",
    "insert_slice of one": "([a, c], [a, b, c]) -> ([a, b, c]) whole={b}",
    "pad": "([a, b]) -> ([a, b]) permuted={b}",
    "reshape": "([a, bc], [1]) -> ([a, b, c])",
    "reshape to an operand": "([a, bc], [1]) -> ([ab, c]) whole={a, b, c}",
}


@pytest.mark.parametrize("name", RULES_AS_TEXT)
def test_the_rule_is(name: str) -> None:
    assert rule_text(CASES[name]) == RULES_AS_TEXT[name]


def test_every_op_of_the_table_is_tensors() -> None:
    with make_context() as context:
        assert context.dialects["tensor"]  # loads it
        assert not [name for name in RECORDS if not context.is_registered_operation(name)]


def test_every_op_of_the_table_is_tried() -> None:
    assert set(RECORDS) - {each.op for each in CASES.values()} == {"tensor.empty"}
