"""What one op does for the shardings around it: the smallest cases, and where strategies part."""

import pytest

from shard_dialect.model import Annotation, Grid, Reduction, Sharding, ShardingRule, SubAxis
from shard_dialect.model.grid import Axes
from shard_dialect.propagation.op_update import Direction, PreparedRule, step

GRID = Grid("g", (4, 2, 2))
SUM: dict[str, Reduction] = {"k": "sum"}
MATMUL = ShardingRule.einsum("ik,kj->ij", [(8, 16), (16, 32)], [(8, 32)], SUM)
ADD = ShardingRule.einsum("ij,ij->ij", [(8, 8), (8, 8)], [(8, 8)])
MERGE = ShardingRule((2, 4), (((0,), (1,)),), (((0, 1),),), role="pass")
WIDE = ShardingRule((8, 4), (((0,), (1,)),), (((0, 1),),), role="pass")


def lies(*split: Axes, opened: bool = True, **said: Axes) -> Annotation:
    dims = tuple(range(len(split))) if opened else ()
    return Annotation(Sharding("g", tuple(split)), open=dims, replicated=said.get("replicated", ()))


def shown(
    rule: ShardingRule,
    *said: Annotation | None,
    to: Direction = "both",
    aggressive: bool = True,
    first: int | None = None,
) -> dict[int, str]:
    form = PreparedRule.of(rule)
    made = step(form, said, [to] * len(form.sizes), GRID, aggressive, first).annotations
    return {place: str(each.sharding) for place, each in made.items()}


def test_each_factor_passes_to_all_tensors_that_have_it() -> None:
    assert shown(MATMUL, lies((0,), (1,)), lies((), (2,)), None) == {
        1: "[[1], [2]]",
        2: "[[0], [2]]",
    }


def test_in_one_direction_the_other_side_gives_nothing() -> None:
    x = lies((0,), (1,))
    assert shown(MATMUL, x, None, None, to="forward") == {1: "[[1], []]", 2: "[[0], []]"}
    assert shown(MATMUL, x, None, None, to="backward") == {}
    assert shown(MATMUL, None, None, lies((0,), (1,)), to="backward") == {
        0: "[[0], []]",
        1: "[[], [1]]",
    }
    assert shown(MATMUL, x, None, None, to="none") == {}


def test_the_longest_split_that_agrees_passes() -> None:
    assert shown(ADD, lies((0,), ()), lies((0, 1), ()), None) == {
        0: "[[0, 1], []]",
        2: "[[0, 1], []]",
    }


def test_where_two_splits_part_what_they_share_passes() -> None:
    assert shown(ADD, lies((0, 1), ()), lies((0, 2), ()), None) == {2: "[[0], []]"}
    assert shown(ADD, lies((1,), ()), lies((2,), ()), None) == {}


def test_a_closed_dimension_stays() -> None:
    closed = lies((), (1,), opened=False)
    assert shown(ADD, lies((0,), ()), closed, None) == {2: "[[0], [1]]", 0: "[[0], [1]]"}


def test_a_replicated_axis_splits_nothing() -> None:
    barred = lies((), (), replicated=(0,))
    assert shown(ADD, lies((0,), ()), barred, None)[2] == "[[0], []]"
    assert 1 not in shown(ADD, lies((0,), ()), barred, None)


def test_basic_leaves_a_conflict_and_aggressive_resolves_it() -> None:
    a, b = lies((0,), ()), lies((), (0,))
    assert shown(ADD, a, b, None, aggressive=False) == {}
    assert shown(ADD, a, b, None) == {2: "[[0], []]"}


def test_the_larger_source_goes_first() -> None:
    rule = ShardingRule.einsum("ik,kj->ij", [(8, 4), (4, 32)], [(8, 32)], SUM)
    assert shown(rule, lies((0,), ()), lies((), (0,)), None) == {2: "[[], [0]]"}


def test_of_an_elementwise_op_the_factor_split_most_goes_first() -> None:
    assert shown(ADD, lies((1,), ()), lies((), (1, 0)), None)[2] == "[[], [1, 0]]"


def test_another_order_may_be_asked_for() -> None:
    a, b = lies((0,), ()), lies((), (0,))
    assert step(PreparedRule.of(ADD), (a, b, None), ["both", "both"], GRID).contested == (0, 1)
    assert shown(ADD, a, b, None, first=1) == {2: "[[], [0]]"}
    assert step(PreparedRule.of(ADD), (a, a, None), ["both", "both"], GRID).contested == ()


def test_sideways_no_further_than_the_result() -> None:
    closed = lies((), (), opened=False)
    assert shown(ADD, lies((0,), ()), lies((), ()), closed) == {}


def test_sub_axes_that_cross_do_not_meet() -> None:
    def axis(pre: int, size: int) -> Axes:
        return (SubAxis(0, pre, size),)

    grid = Grid("g", (12,))
    form = PreparedRule.of(ShardingRule.einsum("ij->ij", [(12, 12)], [(12, 12)]))
    for second, meet in ((axis(4, 3), True), (axis(2, 3), True), (axis(3, 2), False)):
        for aggressive in (True, False):
            said = (lies(axis(1, 2), ()), lies((), second))
            made = step(form, said, ["both", "both"], grid, aggressive).annotations
            assert (set(made) == {0, 1}) is meet


@pytest.mark.parametrize(
    ("merged", "parts"),
    [
        ((0,), '[["0:(1)2"], ["0:(2)2"]]'),
        ((1, 0), "[[1], [0]]"),
        ((1,), "[[1], []]"),
        ((1, 2), "[[1], [2]]"),
    ],
)
def test_a_reshape_splits_axes(merged: Axes, parts: str) -> None:
    split = ShardingRule(MERGE.sizes, MERGE.results, MERGE.operands, role="pass")
    assert shown(split, lies(merged), None) == {1: parts}


def test_a_merge_puts_sub_axes_together() -> None:
    halves = lies((SubAxis(0, 1, 2),), (SubAxis(0, 2, 2),))
    assert shown(MERGE, halves, None) == {1: "[[0]]"}


def test_a_minor_factor_waits_for_the_major_one() -> None:
    # Its shards would be strided, which no sharding can say.
    assert shown(WIDE, lies((), (1,)), None) == {}
    assert shown(WIDE, lies((0, 2), (1,)), None) == {1: "[[0, 2, 1]]"}


def test_a_factor_that_is_not_last_takes_what_divides_it() -> None:
    split = ShardingRule((6, 4), (((0, 1),),), (((0,), (1,)),), role="pass")
    assert shown(split, None, lies((0,), ())) == {0: '[["0:(1)2"]]'}


def test_the_last_factor_may_be_split_unevenly() -> None:
    rule = ShardingRule.einsum("i->i", [(6,)], [(6,)])
    assert shown(rule, lies((0,)), None) == {1: "[[0]]"}


def test_nothing_passes_along_a_blocked_factor() -> None:
    whole = frozenset({1})
    free = ShardingRule((8, 8), ADD.operands[:1], ADD.results, need_replication=whole)
    assert shown(free, lies((0,), (1,)), None) == {1: "[[0], [1]]"}
    blocked = ShardingRule(
        (8, 8), ADD.operands[:1], ADD.results, need_replication=whole, blocked=whole
    )
    assert shown(blocked, lies((0,), (1,)), None) == {1: "[[0], []]"}


def test_a_pinned_factor_is_split_as_it_says() -> None:
    form = PreparedRule.of(MATMUL, pinned=((0, ()), (1, (0,)), (2, (1,))), pinned_on="g")
    made = step(form, (None, None, None), ["both"] * len(form.sizes), GRID).annotations
    assert [str(made[place].sharding) for place in range(3)] == [
        "[[], [0]]",
        "[[0], [1]]",
        "[[], [1]]",
    ]


def test_dimensions_without_a_factor_keep_their_axes_from_others() -> None:
    rule = ShardingRule((8,), (((), (0,)),), (((0,),),))
    assert shown(rule, lies((0,), ()), lies((0,))) == {}


def test_a_dimension_with_shards_of_one_element_is_not_split_further() -> None:
    rule = PreparedRule.of(ShardingRule.einsum("ij->ij", [(1, 4)], [(1, 4)]))
    annotated = lies((1,), (0, 2))
    for until_full, expected in ((True, "[[], [0]]"), (False, "[[1], [0, 2]]")):
        after = step(
            rule, (annotated, None), ["both"] * 2, Grid("g", (4, 2, 2)), until_full=until_full
        )
        assert {place: str(each.sharding) for place, each in after.annotations.items()} == {
            1: expected
        }
