"""Upstream's orders on graphs made by hand."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from shard_dialect.model import Annotation, Grid, Sharding, ShardingRule
from shard_dialect.model.rule import Role
from shard_dialect.propagation import upstream_traversals
from shard_dialect.propagation.engine import STRATEGIES, Engine
from shard_dialect.propagation.graph import Graph, Node
from shard_dialect.propagation.op_update import PreparedRule
from shard_dialect.propagation.upstream_traversals import Traversal, Upstream

GRIDS = {"g": Grid("g", (2, 2, 2)), "h": Grid("h", (2,))}
SHAPE = (8, 8)
BOTH = ((0,), (1,))
TRAVERSALS: tuple[Traversal, ...] = (
    "forward",
    "backward",
    "forward-backward",
    "backward-forward",
)


def said(*split: Sequence[int], grid: str = "g") -> Annotation:
    return Annotation(Sharding(grid, tuple(map(tuple, split))))


ROWS, COLUMNS, WHOLE = said([0], []), said([], [0]), said([], [])


class Program:
    """Ops on 8x8 tensors; values are numbers."""

    def __init__(self) -> None:
        self.graph = Graph()

    def value(self, lies: Annotation | None = None) -> int:
        return self.graph.add_value(SHAPE, 4, lies)

    def op(self, rule: ShardingRule, *operands: int, lies: Annotation | None = None) -> int:
        result = self.value(lies)
        self.node(self.graph.add_rule(rule), (*operands, result), rule.role)
        return result

    def map(self, *operands: int, lies: Annotation | None = None) -> int:
        rule = ShardingRule(SHAPE, (BOTH,) * len(operands), (BOTH,))
        return self.op(rule, *operands, lies=lies)

    def matmul(self, a: int, b: int, lies: Annotation | None = None) -> int:
        shapes = [SHAPE, SHAPE]
        rule = ShardingRule.einsum("ik,kj->ij", shapes, [SHAPE], {"k": "sum"})
        return self.op(rule, a, b, lies=lies)

    def for_users(self, value: int, lies: Annotation) -> int:
        result = self.value(lies)
        self.node(self.graph.identity_rule(SHAPE), (value, result), "elementwise")
        self.graph.nodes[-1].annotates = "users"
        return result

    def node(self, form: int, values: tuple[int, ...], role: Role) -> None:
        self.graph.nodes.append(Node(form, values, role, True, 0))

    def run(self, traversal: Traversal = "backward-forward") -> Engine:
        engine = Upstream(self.graph, GRIDS, traversal)
        engine.run()
        return engine

    def lie(self, *values: int, traversal: Traversal = "backward-forward") -> list[str]:
        engine = self.run(traversal)
        return [str(engine.known(value)) for value in values]


@pytest.mark.parametrize(
    ("traversal", "found"),
    [*zip(TRAVERSALS, ["[[0], []]", "[[], [0]]", "[[0], []]", "[[], [0]]"], strict=True)],
)
def test_the_op_that_is_visited_first_decides(traversal: Traversal, found: str) -> None:
    program = Program()
    y = program.map(program.value(ROWS))
    program.map(y, lies=COLUMNS)
    assert program.lie(y, traversal=traversal) == [found]


def test_where_ours_differs() -> None:
    program = Program()
    y = program.map(program.value(ROWS))
    program.map(y, lies=COLUMNS)
    engine = Engine(program.graph, GRIDS, STRATEGIES["user-priority"])
    engine.run()
    assert str(engine.known(y)).startswith("[[0], []")


def test_forwards_nothing_is_known_of_what_comes_later() -> None:
    program = Program()
    x = program.value()
    y = program.map(x)
    z = program.map(y, lies=ROWS)
    # The maker of %y stays undecided; it lies as its first user sees it.
    assert program.lie(x, y, z, traversal="forward") == ["None", "[[0], []]", "[[0], []]"]
    assert program.lie(x, y, z, traversal="forward-backward") == ["[[0], []]"] * 3


def test_results_go_before_operands() -> None:
    program = Program()
    y = program.map(program.value(ROWS))
    z = program.map(y, program.value(ROWS), lies=COLUMNS)
    assert program.lie(y, z, traversal="backward") == ["[[], [0]]"] * 2


def test_a_wish_that_contradicts_one_before_it_is_left_out() -> None:
    program = Program()
    y = program.map(program.value(said([0], [])), program.value(said([1], [])))
    z = program.map(program.value(said([0], [])), program.value(said([0], [1])))
    assert program.lie(y, z) == ["[[0], []]", "[[0], [1]]"]


def test_an_axis_splits_one_loop() -> None:
    program = Program()
    y = program.map(program.value(ROWS), program.value(said([], [0])))
    assert program.lie(y) == ["[[0], []]"]


def test_a_must_after_a_wish_goes_before_it() -> None:
    program = Program()
    must = program.for_users(program.value(), said([1], []))
    y = program.map(program.value(ROWS), must)
    assert program.lie(y) == ["[[1], []]"]


def test_a_wish_does_not_give_a_must_more_than_it_says() -> None:
    program = Program()
    y = program.matmul(program.value(ROWS), program.value(), lies=WHOLE)
    z = program.matmul(program.value(said([], [1])), program.value(), lies=WHOLE)
    assert program.lie(y, z) == ["[[], []]"] * 2
    assert program.run()._seen[0, program.graph.nodes[0].values[0]] == WHOLE  # type: ignore[attr-defined]
    # Along a loop that the must knows nothing of, it may stay.
    assert str(program.run()._seen[1, program.graph.nodes[1].values[0]]) == "[[], [1]]"  # type: ignore[attr-defined]


def test_musts_that_give_each_other_more_move() -> None:
    program = Program()
    rows = program.for_users(program.value(), ROWS)
    y = program.map(rows, lies=said([], [1]))
    assert program.lie(y) == ["[[0], [1]]"]


def test_musts_that_contradict_each_other_leave_the_op_alone() -> None:
    program = Program()
    x, z = program.value(), program.value()
    rows = program.for_users(x, said([1], []))
    y = program.map(rows, z, lies=ROWS)
    assert program.lie(x, y, z) == ["[[1], []]", "[[0], []]", "None"]


def test_the_first_dimension_binds_and_trailing_ones_do_not() -> None:
    program = Program()
    whole = program.for_users(program.value(), WHOLE)
    z = program.value()
    program.map(whole, z, lies=ROWS)
    assert program.lie(z) == ["None"]  # as [[]] says that the first dimension is whole
    program = Program()
    whole = program.for_users(program.value(), WHOLE)
    z = program.value()
    program.map(whole, z, lies=COLUMNS)
    assert program.lie(z) == ["[[], [0]]"]


def test_of_one_value_twice_the_first_operand_counts() -> None:
    program = Program()
    x = program.value()
    program.matmul(x, x, lies=said([0], [1]))
    assert program.lie(x) == ["[[0], []]"]


def test_a_maker_hears_the_user_that_was_decided_last() -> None:
    program = Program()
    x = program.map(program.value())
    y, z = program.map(x, lies=ROWS), program.map(x, lies=COLUMNS)
    assert program.lie(x, y, z, traversal="backward") == ["[[0], []]", "[[0], []]", "[[], [0]]"]


def test_an_argument_lies_as_its_first_user_sees_it() -> None:
    program = Program()
    x = program.value()
    program.map(x, lies=ROWS)
    program.map(x, lies=COLUMNS)
    for traversal in TRAVERSALS:
        assert program.lie(x, traversal=traversal) == ["[[0], []]"]


def test_scalars_among_operands_say_nothing_and_results_do() -> None:
    program = Program()
    x = program.value()
    program.op(ShardingRule(SHAPE, (BOTH, ()), (BOTH,)), x, program.value(said()))
    z = program.value()
    program.op(ShardingRule(SHAPE, (BOTH,), ((),), ((0, "sum"), (1, "sum"))), z, lies=said())
    assert program.lie(x, z) == ["None", "[[], []]"]


def test_two_grids_leave_an_op_alone() -> None:
    program = Program()
    y = program.map(program.value(ROWS), program.value(said([0], [], grid="h")))
    assert program.lie(y) == ["None"]


def test_what_a_function_returns_is_seen_by_its_callers() -> None:
    program = Program()
    y, z = program.map(program.value()), program.map(program.value(ROWS))
    said_of = program.graph.add_exit(SHAPE, y, COLUMNS, 0)
    nothing_said_of = program.graph.add_exit(SHAPE, z, None, 0)
    assert program.lie(y, said_of, nothing_said_of) == ["[[], [0]]", "[[], [0]]", "[[0], []]"]


def test_a_group_lies_alike() -> None:
    program = Program()
    x = program.value()
    program.graph.groups.append((x, program.map(program.value(ROWS))))
    assert program.lie(x) == ["[[0], []]"]


def test_open_dimensions_may_grow() -> None:
    program = Program()
    opened = Annotation(Sharding("g", ((0,), ())), open=(1,))
    y = program.map(program.value(said([0], [1])), lies=opened)
    assert program.lie(y) == ["[[0], [1]]"]


def test_a_barrier_lets_through_what_goes_its_way() -> None:
    program = Program()
    x, z = program.value(), program.value(ROWS)
    program.map(x, lies=ROWS)
    y = program.map(z)
    for node in program.graph.nodes:
        node.to = "forward"
    assert program.lie(x, y) == ["None", "[[0], []]"]


def test_where_a_sharding_came_from_is_kept() -> None:
    program = Program()
    y = program.map(program.value(ROWS))
    (change,) = [change for change in program.run().changes if change.value == y]
    assert change.node is program.graph.nodes[0]


@pytest.mark.parametrize("traversal", TRAVERSALS)
@pytest.mark.parametrize("lies", [ROWS, COLUMNS, said([1], [0]), None])
def test_an_op_of_32_operands_costs_32_times_one(
    traversal: Traversal, lies: Annotation | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where upstream tries up to 2^32 subsets of what they say."""
    tried = 0
    taken = upstream_traversals._loops_satisfying

    def counted(*arguments: object) -> object:
        nonlocal tried
        tried += 1
        return taken(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(upstream_traversals, "_loops_satisfying", counted)
    program = Program()
    program.map(*[program.value(ROWS if each % 2 else COLUMNS) for each in range(32)], lies=lies)
    program.run(traversal)
    assert tried <= 34


def _exhaustive(
    says: Sequence[upstream_traversals._Requirement],
) -> upstream_traversals._Loops | None:
    """Upstream's search as it is described: all subsets, in order, for the first of the least kind.

    0: no tensor that says something moves; 1: no must does; 2: the others.
    """
    best: tuple[int, upstream_traversals._Loops] | None = None
    for choice in itertools.product(*[[True] if say.is_must else [True, False] for say in says]):
        loops = upstream_traversals._loops_satisfying(says, choice, {}, True)
        if loops is None or not any(choice):
            continue
        moved = [say.is_must for say in says if not upstream_traversals._is_unchanged(say, loops)]
        kind = 2 if any(moved) else int(bool(moved))
        if best is None or kind < best[0]:
            best = (kind, loops)
    return best and best[1]


def _split(loops: upstream_traversals._Loops | None) -> object:
    return None if loops is None else {factor: axes for factor, axes in loops.items() if axes}


def test_one_wish_after_the_other_finds_what_all_subsets_do() -> None:
    rng = random.Random(0)
    found = moved = 0
    for _ in range(4000):
        maps = [tuple((rng.randrange(4),) for _ in range(rng.randint(1, 3))) for _ in range(6)]
        maps = [tensor for tensor in maps if len(set(tensor)) == len(tensor)]
        says = []
        for place, tensor in enumerate(maps):
            axes = rng.sample(range(3), 3)
            split = [[axes.pop()] if axes and rng.random() < 0.5 else [] for _ in tensor]
            form = PreparedRule.of(ShardingRule((8,) * 4, tuple(maps), ()))
            is_must = rng.random() < 0.3
            says.append(
                upstream_traversals._Requirement.of(form, place, said(*split), GRIDS["g"], is_must)
            )
        mine, all_of_them = upstream_traversals._loops(says, {}), _exhaustive(says)
        assert _split(mine) == _split(all_of_them)
        found += mine is not None
        moved += mine is not None and any(
            not upstream_traversals._is_unchanged(say, mine) for say in says
        )
    assert found > 2000
    assert moved > 1000
