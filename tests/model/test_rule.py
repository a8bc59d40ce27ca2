"""What a rule says of its op's operands and results when its factors are split."""

import pytest

from shard_dialect.errors import ShardError
from shard_dialect.model import Assignment, Extents, Grid, Reduction, Sharding, ShardingRule

GRID = Grid("g", (2, 3, 4))
MATMUL = ShardingRule.einsum("ik,kj->ij", [(4, 8), (8, 2)], [(4, 2)], {"k": "sum"})
BATCH = ShardingRule.einsum("bik,bkj->bij", [(3, 4, 8), (3, 8, 2)], [(3, 4, 2)], {"k": "sum"})
ROW_ADD = ShardingRule.einsum("ij,1j->ij", [(4, 8), (1, 8)], [(4, 8)])
ADD = ShardingRule.einsum("ij,ij->ij", [(4, 8), (4, 8)], [(4, 8)])
TRANSPOSE = ShardingRule.einsum("ij->ji", [(4, 8)], [(8, 4)])
WITH_SCALAR = ShardingRule.einsum("ij,->ij", [(4, 8), None], [(4, 8)])
TOP = ShardingRule.einsum("ij->i,i", [(4, 8)], [(4,), (4,)], {"j": "max"})
RESHAPE = ShardingRule((4, 8), (((0, 1),),), (((0,), (1,)),))
GATHERED = ShardingRule((4, 8), (((0,), (1,)),), (((0,), (1,)),), need_replication=frozenset({1}))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (MATMUL, "([a, b], [b, c]) -> ([a, c]) reduction={b: sum}"),
        (BATCH, "([a, b, c], [a, c, d]) -> ([a, b, d]) reduction={c: sum}"),
        (ROW_ADD, "([a, b], [1, b]) -> ([a, b])"),
        (TRANSPOSE, "([a, b]) -> ([b, a])"),
        (WITH_SCALAR, "([a, b], -) -> ([a, b])"),
        (TOP, "([a, b]) -> ([a], [a]) reduction={b: max}"),
        (RESHAPE, "([ab]) -> ([a, b])"),
        (GATHERED, "([a, b]) -> ([a, b]) whole={b}"),
        (ShardingRule.einsum("->i", [], [(4,)]), "() -> ([a])"),
        (ShardingRule.einsum("i->", [(4,)], []), "([a]) -> ()"),
    ],
)
def test_str_is_the_notation(rule: ShardingRule, text: str) -> None:
    assert str(rule) == text


def test_str_lists_every_reduction_and_whole_factor() -> None:
    reductions: tuple[tuple[int, Reduction], ...] = ((0, "sum"), (1, "max"))
    rule = ShardingRule((2, 2, 2, 2), (), (), reductions, frozenset({3, 2}))
    assert str(rule) == "() -> () reduction={a: sum, b: max} whole={c, d}"


def test_str_numbers_the_factors_past_the_alphabet() -> None:
    rule = ShardingRule((2,) * 28, (((25,), (26,), (27,)),), ())
    assert str(rule) == "([z, f26, f27]) -> ()"


def test_repr_evaluates_back() -> None:
    assert eval(repr(GATHERED)) == GATHERED


def test_einsum_numbers_the_factors_as_they_appear() -> None:
    assert MATMUL.operands == (((0,), (1,)), ((1,), (2,)))


def test_einsum_sizes_are_those_of_the_dimensions() -> None:
    assert BATCH.sizes == (3, 4, 8, 2)


def test_einsum_gives_a_result_letter_of_no_operand_a_factor() -> None:
    assert ShardingRule.einsum("i->ij", [(4,)], [(4, 8)]).sizes == (4, 8)


def test_einsum_gives_the_dimension_1_no_factor() -> None:
    assert ROW_ADD.operands[1] == ((), (1,))


def test_einsum_gives_a_value_that_is_no_tensor_no_dimensions() -> None:
    assert WITH_SCALAR.operands == (((0,), (1,)), None)


def test_einsum_names_the_reductions_by_factor() -> None:
    assert MATMUL.reduction_of == {1: "sum"}


def test_einsum_reduces_nothing_unless_told() -> None:
    assert ShardingRule.einsum("ij->i", [(4, 8)], [(4,)]).reductions == ()


def test_einsum_wants_a_letter_for_each_dimension() -> None:
    with pytest.raises(ShardError, match=r"ij->ij has 'ij' for a tensor of shape \[4\]"):
        ShardingRule.einsum("ij->ij", [(4,)], [(4, 8)])


@pytest.mark.parametrize(
    ("rule", "index", "assignment", "text"),
    [
        (MATMUL, 0, ((), (), ()), "[[], []]"),
        (MATMUL, 0, ((0,), (), ()), "[[0], []]"),
        (MATMUL, 1, ((0,), (), ()), "[[], []]"),
        (MATMUL, 0, ((0,), (2, 1), ()), "[[0], [2, 1]]"),
        (MATMUL, 1, ((0,), (2, 1), ()), "[[2, 1], []]"),
        (BATCH, 1, ((0,), (), (1,), (2,)), "[[0], [1], [2]]"),
        (ROW_ADD, 1, ((0,), (1,)), "[[], [1]]"),
        (TRANSPOSE, 0, ((0,), (1,)), "[[0], [1]]"),
        (RESHAPE, 0, ((2,), (0,)), "[[2, 0]]"),
    ],
)
def test_an_operand_is_split_as_its_factors(
    rule: ShardingRule, index: int, assignment: Assignment, text: str
) -> None:
    assert str(rule.operand_sharding(index, assignment, GRID)) == text


def test_an_operand_is_never_partial() -> None:
    sharding = MATMUL.operand_sharding(0, ((), (0,), ()), GRID)
    assert sharding == Sharding("g", ((), (0,)))


def test_an_operand_that_is_no_tensor_has_no_sharding() -> None:
    assert WITH_SCALAR.operand_sharding(1, ((0,), ()), GRID) is None


@pytest.mark.parametrize(
    ("rule", "assignment", "text"),
    [
        (MATMUL, ((), (), ()), "[[], []]"),
        (MATMUL, ((0,), (), (1,)), "[[0], [1]]"),
        (MATMUL, ((), (0,), ()), "[[], [], [0]]"),
        (MATMUL, ((2,), (1, 0), ()), "[[2], [], [0, 1]]"),
        (BATCH, ((0,), (), (1,), (2,)), "[[0], [], [2], [1]]"),
        (ROW_ADD, ((0,), (1,)), "[[0], [1]]"),
        (TRANSPOSE, ((0,), (1,)), "[[1], [0]]"),
        (TOP, ((0,), (1,)), "[[0], {max = [1]}]"),
        (RESHAPE, ((2,), (0,)), "[[2], [0]]"),
    ],
)
def test_a_result_is_split_as_its_factors_and_partial_over_the_reduced(
    rule: ShardingRule, assignment: Assignment, text: str
) -> None:
    assert str(rule.result_sharding(0, assignment, GRID)) == text


@pytest.mark.parametrize("kind", ["sum", "max", "min", "product"])
def test_a_partial_result_is_of_the_kind_of_its_reduction(kind: Reduction) -> None:
    rule = ShardingRule.einsum("ij->i", [(4, 8)], [(4,)], {"j": kind})
    assert rule.result_sharding(0, ((), (0,)), GRID) == Sharding("g", ((),), (0,), kind)


def test_every_result_is_partial() -> None:
    both = [TOP.result_sharding(index, ((), (0,)), GRID) for index in range(2)]
    assert both == [Sharding("g", ((),), (0,), "max")] * 2


def test_a_result_is_partial_over_all_reduction_factors_together() -> None:
    rule = ShardingRule.einsum("ijk->i", [(4, 8, 2)], [(4,)], {"j": "sum", "k": "sum"})
    assert str(rule.result_sharding(0, ((2,), (1,), (0,)), GRID)) == "[[2], [0, 1]]"


def test_a_reduction_that_is_not_split_does_not_set_the_kind() -> None:
    rule = ShardingRule.einsum("ijk->i", [(4, 8, 2)], [(4,)], {"j": "sum", "k": "max"})
    assert str(rule.result_sharding(0, ((), (), (0,)), GRID)) == "[[], {max = [0]}]"


def test_two_kinds_of_reduction_cannot_be_split_at_once() -> None:
    rule = ShardingRule.einsum("ijk->i", [(4, 8, 2)], [(4,)], {"j": "sum", "k": "max"})
    with pytest.raises(AssertionError, match=r"cannot reduce by \['max', 'sum'\] at once"):
        rule.result_sharding(0, ((), (1,), (0,)), GRID)


def test_a_result_that_is_no_tensor_has_no_sharding() -> None:
    rule = ShardingRule.einsum("i->i,", [(4,)], [(4,), None])
    assert rule.result_sharding(1, ((0,),), GRID) is None


@pytest.mark.parametrize(
    ("rule", "truth"),
    [
        (ADD, True),
        (WITH_SCALAR, True),
        (TRANSPOSE, False),
        (ROW_ADD, False),
        (MATMUL, False),
        (TOP, False),
        (RESHAPE, False),
        (GATHERED, False),
        (ShardingRule.einsum("i->ij", [(4,)], [(4, 8)]), False),
        (ShardingRule.einsum("ij->ij", [(4, 8)], [(4, 8)], {"j": "max"}), False),
    ],
    ids=str,
)
def test_is_elementwise(rule: ShardingRule, truth: bool) -> None:
    assert rule.is_elementwise is truth


@pytest.mark.parametrize(
    ("rule", "role"),
    [
        (ADD, "elementwise"),
        (WITH_SCALAR, "elementwise"),
        (TRANSPOSE, "pass"),
        (RESHAPE, "pass"),
        (GATHERED, "other"),
        (ROW_ADD, "other"),
        (MATMUL, "other"),
        (TOP, "other"),
        (ShardingRule.einsum("i->ij", [(4,)], [(4, 8)]), "other"),
        (ShardingRule.einsum("i->1i", [(4,)], [(1, 4)]), "pass"),
    ],
    ids=str,
)
def test_role(rule: ShardingRule, role: str) -> None:
    assert rule.role == role


def test_role_may_be_given() -> None:
    assert ShardingRule((4,), (((0,),),), (((0,),),), role="broadcast").role == "broadcast"


def test_a_split_whose_shards_are_strided_is_refused() -> None:
    with pytest.raises(ShardError, match="strided"):
        RESHAPE.operand_sharding(0, ((0,), (2,)), GRID)


def test_uneven_shards_of_the_first_factor_are_at_offsets_of_the_merged_dimension() -> None:
    rule = ShardingRule((7, 3), (((0,), (1,)),), (((0, 1),),))
    grid = Grid("g", (2, 4))
    uneven, merged = (Sharding("g", ((0,), ())), Sharding("g", ((0,),), offsets=((0, 12, 21),)))
    assert rule.operand_sharding(0, ((0,), ()), grid) == uneven
    assert rule.result_sharding(0, ((0,), ()), grid) == merged
    assert rule.factors_of(rule.results[0] or (), merged, grid) == {0: (0,)}
    assert Extents.of([(rule.results[0], merged)], rule.sizes).offsets == ((0, (0, 4, 7)),)
    at = Extents(offsets=((0, (0, 1, 7)),))
    assert rule.result_sharding(0, ((0,), ()), grid, at) == merged.with_dim(0, (0,), (0, 3, 21))
    with pytest.raises(ShardError, match="strided"):
        rule.result_sharding(0, ((0,), (1,)), grid)


def test_shards_that_cut_through_the_first_factor_are_of_no_factor() -> None:
    rule = ShardingRule((7, 3), (((0,), (1,)),), (((0, 1),),))
    merged = Sharding("g", ((0,),), offsets=((0, 10, 21),))
    with pytest.raises(ShardError, match="split no factor"):
        rule.factors_of(((0, 1),), merged, Grid("g", (2,)))
    assert not Extents.of([(((0, 1),), merged)], rule.sizes)
    # As many devices as indices, and one more: the default shards are whole indices.
    assert str(rule.result_sharding(0, ((0,), ()), Grid("g", (7,)))) == "[[0]]"
    assert str(rule.result_sharding(0, ((0,), ()), Grid("g", (8,)))) == "[[0]]"


def test_a_minor_factor_is_split_after_the_major_one_is_to_the_end() -> None:
    rule = ShardingRule((2, 8), (((0, 1),),), (((0,), (1,)),))
    assert str(rule.operand_sharding(0, ((0,), (2,)), GRID)) == "[[0, 2]]"
    assert str(rule.result_sharding(0, ((0,), (2,)), GRID)) == "[[0], [2]]"
