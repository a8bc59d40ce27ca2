"""Programs as graphs: fixed points, turns, flows, groups, grids, and what it costs."""

from itertools import permutations

import pytest

from shard_dialect.model import Annotation, Grid, Reduction, Sharding, ShardingRule
from shard_dialect.model.grid import Axes
from shard_dialect.propagation.engine import STRATEGIES, Engine
from shard_dialect.propagation.graph import Graph, Node
from shard_dialect.propagation.history import History
from shard_dialect.propagation.op_update import Direction

GRIDS = {"g": Grid("g", (2, 2)), "h": Grid("h", (4,))}
SHAPE = (8, 8)
ADD = ShardingRule.einsum("ij,ij->ij", [SHAPE, SHAPE], [SHAPE])
TURN = ShardingRule.einsum("ij->ji", [SHAPE], [SHAPE])
SUM: dict[str, Reduction] = {"k": "sum"}
MATMUL = ShardingRule.einsum("ik,kj->ij", [SHAPE, SHAPE], [SHAPE], SUM)


def lies(*split: Axes, grid: str = "g", opened: bool = False) -> Annotation:
    dims = tuple(range(len(split))) if opened else ()
    return Annotation(Sharding(grid, tuple(split)), open=dims)


class Program:
    """A graph made op by op."""

    def __init__(self) -> None:
        self.graph = Graph()

    def value(self, said: Annotation | None = None) -> int:
        return self.graph.add_value(SHAPE, 4, said)

    def op(self, rule: ShardingRule, *operands: int, used_once: bool = True) -> int:
        result = self.value()
        form = self.graph.add_rule(rule)
        self.graph.nodes.append(Node(form, (*operands, result), rule.role, used_once, 0))
        return result

    def run(self, strategy: str = "user-priority") -> Engine:
        engine = Engine(self.graph, GRIDS, STRATEGIES[strategy])
        engine.run()
        return engine


def split(engine: Engine, value: int) -> str:
    known = engine.known(value)
    return str(known.sharding) if known is not None else "-"


def test_a_chain_is_followed_forward_and_backward() -> None:
    program = Program()
    x = program.value()
    y = program.op(TURN, x)
    z = program.op(TURN, y)
    program.graph.annotations[y] = lies((0,), (1,))
    engine = program.run()
    assert [split(engine, each) for each in (x, y, z)] == [
        "[[1], [0]]",
        "[[0], [1]]",
        "[[1], [0]]",
    ]


def test_cheap_decisions_come_first() -> None:
    """The sum's dimension of a product waits; what elementwise ops have said wins."""
    program = Program()
    x, w, bias = program.value(lies((), (0,))), program.value(), program.value(lies((0,), ()))
    product = program.op(MATMUL, x, w)
    total = program.op(ADD, product, bias)
    engine = program.run()
    assert split(engine, total) == "[[0], []]"
    assert split(engine, product) == "[[0], []]"
    assert split(engine, w) == "[[0], []]"


def test_priorities_have_their_turns() -> None:
    late = Annotation(Sharding("g", ((0,), ())), open=(1,), priorities=(1, None))
    program = Program()
    x, y = program.value(late), program.value(lies((), (0,), opened=True))
    total = program.op(ADD, x, y)
    engine = program.run()
    assert split(engine, total) == "[[], [0]]"
    assert split(engine, x) == "[[0], []]"
    without = program.run("op-priority")
    assert split(without, total) == "[[0], []]"


def test_members_of_a_group_have_their_turn_together() -> None:
    late = Annotation(Sharding("g", ((0,), ())), open=(1,), priorities=(1, None))
    program = Program()
    x, y = program.value(late), program.value()
    program.graph.groups.append((x, y))
    total = program.op(ADD, y, program.value(lies((), (0,))))
    engine = program.run()
    assert split(engine, x) == split(engine, y) == "[[0], []]"
    assert split(engine, total) == "[[], [0]]"


def test_a_flow_makes_sources_and_target_lie_alike() -> None:
    program = Program()
    start, around = program.value(), program.value()
    state = program.value()
    turned = program.op(TURN, state)
    again = program.op(TURN, turned)
    program.graph.add_flow(SHAPE, (start, again), state, 0)
    program.graph.annotations[start] = lies((0,), ())
    engine = program.run()
    assert [split(engine, each) for each in (state, turned, again)] == [
        "[[0], []]",
        "[[], [0]]",
        "[[0], []]",
    ]
    assert split(engine, around) == "-"


def test_members_of_a_group_lie_alike() -> None:
    program = Program()
    x, y, z = program.value(lies((0,), ())), program.value(), program.value()
    total = program.op(ADD, y, z)
    program.graph.groups.append((x, y))
    assert split(program.run(), total) == "[[0], []]"


def test_nothing_passes_between_two_grids() -> None:
    program = Program()
    total = program.op(ADD, program.value(lies((0,), ())), program.value(lies((0,), (), grid="h")))
    assert split(program.run(), total) == "-"


@pytest.mark.parametrize(
    ("to", "said", "other"),
    [
        ("forward", 0, "[[0], []]"),
        ("forward", 1, "-"),
        ("backward", 0, "-"),
        ("backward", 1, "[[0], []]"),
    ],
)
def test_a_barrier_lets_pass_one_way(to: Direction, said: int, other: str) -> None:
    program = Program()
    ends = (program.value(), program.value())
    program.graph.add_flow(SHAPE, ends[:1], ends[1], 0)
    program.graph.nodes[-1].to = to
    program.graph.annotations[ends[said]] = lies((0,), ())
    assert split(program.run(), ends[1 - said]) == other


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_order_of_what_is_said_does_not_matter(strategy: str) -> None:
    found = set()
    said = {0: lies((0,), ()), 1: lies((), (0,)), 2: lies((1,), (), opened=True)}
    for order in permutations(said):
        program = Program()
        values = [program.value() for _ in said]
        total = program.op(ADD, program.op(ADD, values[0], values[1]), values[2])
        for number in order:
            program.graph.annotations[values[number]] = said[number]
        engine = program.run(strategy)
        found.add(tuple(split(engine, each) for each in (*values, total)))
    assert len(found) == 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_32_operands_are_32_operands(strategy: str) -> None:
    count = 32
    rule = ShardingRule.einsum(",".join(["ij"] * count) + "->ij", [SHAPE] * count, [SHAPE])
    program = Program()
    operands = [
        program.value(lies(((number % 2),), ()) if number % 3 else None) for number in range(count)
    ]
    program.op(rule, *operands)
    engine = program.run(strategy)
    assert len(engine.changes) <= count + 1


def test_alike_ops_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from shard_dialect.propagation import engine as module

    calls = []
    real = module.step

    def counted(*given: object, **named: object) -> object:
        calls.append(1)
        return real(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "step", counted)
    steps = []
    for layers in (4, 64):
        calls.clear()
        program = Program()
        value, weight = program.value(lies((0,), ())), program.value()
        form = program.graph.add_rule(MATMUL)
        for _ in range(layers):
            made = program.value()
            program.graph.nodes.append(Node(form, (value, weight, made), "other", True, 0))
            value = made
        program.run()
        steps.append(len(calls))
    assert steps[0] == steps[1]


def test_cost_looks_at_the_neighbours() -> None:
    """A mask that a group or an expert could split, made of what is split by group already."""
    tokens, mask, sent = (8, 64, 128), (8, 64, 8, 16), (8, 128, 8, 16)
    spread = ShardingRule.einsum("gs->gsec", [tokens[:2]], [mask])
    dispatch = ShardingRule.einsum("gsd,gsec->gdec", [tokens, mask], [sent], {"s": "sum"})
    masks, prices = {}, {}
    for strategy in ("user-priority", "cost"):
        graph = Graph()
        chosen = graph.add_value(tokens[:2], 4, lies((0,), ()))
        x = graph.add_value(tokens, 4, lies((0,), (), ()))
        y, z = graph.add_value(mask, 4), graph.add_value(sent, 4, lies((), (), (0,), ()))
        graph.nodes.append(Node(graph.add_rule(spread), (chosen, y), "broadcast", True, 0))
        graph.nodes.append(Node(graph.add_rule(dispatch), (x, y, z), "other", True, 0))
        engine = Engine(graph, GRIDS, STRATEGIES[strategy])
        engine.run()
        masks[strategy], prices[strategy] = split(engine, y), engine.cost()
    assert masks == {"user-priority": "[[], [], [0], []]", "cost": "[[0], [], [], []]"}
    assert prices["cost"] < prices["user-priority"]


def test_where_a_sharding_came_from() -> None:
    program = Program()
    x = program.value(lies((0,), ()))
    y = program.op(TURN, x)
    z = program.op(ADD, y, program.value())
    history = History(program.run())
    links = history.chain(z, 1)
    assert [(link.value, link.dim, link.source) for link in links] == [
        (z, 1, y),
        (y, 1, x),
        (x, 0, None),
    ]
    assert list(history.conflicts()) == []


def test_a_conflict_is_found() -> None:
    program = Program()
    program.op(ADD, program.value(lies((0,), ())), program.value(lies((), (0,))))
    (conflict,) = History(program.run()).conflicts()
    assert [side.tensor for side in conflict.sides] == [0, 1]
    assert conflict.winner == conflict.sides[0]
