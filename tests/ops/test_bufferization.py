"""`bufferization` ops on tensors and `ml_program`'s globals, cut, against the unsharded op."""

import pytest

from shard_dialect.ir.context import make_context
from shard_dialect.ops.dialects.bufferization_rules import RECORDS
from tests.ops.placed import (
    HEAD,
    Case,
    at_random,
    case,
    check_every_split,
    check_is_split,
    check_means_the_same,
    rule_text,
)

pytestmark = pytest.mark.usefixtures("unoptimized")

F = "4x8xf32"
CASES = {
    "alloc_tensor": case(
        "linalg.exp",
        F,
        "%e = bufferization.alloc_tensor() : $0\n%r = linalg.exp ins(%0 : $0) outs(%e : $0) -> $r",
        F,
    ),
    "alloc_tensor that copies": case(
        "bufferization.alloc_tensor", F, "%r = bufferization.alloc_tensor() copy(%0) : $0", F
    ),
    "materialize_in_destination": case(
        "bufferization.materialize_in_destination",
        F,
        "%e = bufferization.alloc_tensor() : $0\n"
        "%r = bufferization.materialize_in_destination %0 in %e : ($0, $0) -> $r",
        F,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_split_is_reached(name: str) -> None:
    assert check_every_split(CASES[name]) == 10


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_placed_at_random_it_means_the_same(name: str, seed: int) -> None:
    check_means_the_same(at_random(CASES[name], seed))


GLOBAL = (
    "%a = math.exp %0 : tensor<4x8xf32>\nml_program.global_store @x = %a : tensor<4x8xf32>\n"
    "%r = ml_program.global_load @x : tensor<4x8xf32>"
)


RULES_AS_TEXT = {
    "ml_program.global_store": "([1, 1]) -> ()",
    "ml_program.global_load": "() -> ([1, 1])",
}


@pytest.mark.parametrize("op", RULES_AS_TEXT)
def test_globals_are_whole_on_every_device(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = (
        "ml_program.global private mutable @x(dense<0.0> : tensor<4x8xf32>) : tensor<4x8xf32>\n"
    )
    monkeypatch.setattr("tests.ops.placed.HEAD", HEAD + declared)
    types = ("tensor<4x8xf32>",)
    tried = Case(op, types, GLOBAL, types, runs=False)
    assert rule_text(tried) == RULES_AS_TEXT[op]
    for seed in range(3):
        check_is_split(tried, at_random(tried, seed), ())


def test_every_op_of_the_table_is_known() -> None:
    with make_context() as context:
        assert all(context.dialects[name] for name in ("bufferization", "ml_program"))  # loads them
        assert not [name for name in RECORDS if not context.is_registered_operation(name)]
