"""The integer program behind `--auto`: classes of ops, solutions, bounds, and plans that follow."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import shard_dialect as sd
from shard_dialect.analysis.reasons.explained_passes import imported
from shard_dialect.model import Grid, Sharding
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.planner import plan as planned
from shard_dialect.search.auto import AutoOptions, Problem, grid_shapes
from shard_dialect.search.budget import Budget
from shard_dialect.search.choices.integer_program import IntegerProgram
from shard_dialect.search.choices.op_classes import ValueClass, classes_of, live_values
from shard_dialect.search.choices.op_strategies import Prices
from shard_dialect.search.choices.sharding_program import ShardingProgram
from shard_dialect.search.evaluate import Objective
from shard_dialect.search.guide import PlanMaker
from shard_dialect.search.plan import Plan
from shard_dialect.search.searched_function import SearchedFunction, searched_function
from shard_dialect.testing.check_program import reference_of, run_and_check
from tests.search.test_auto import random_chain

GRID = Grid("grid", (2, 2))


@pytest.fixture(autouse=True)
def context() -> Iterator[None]:
    with sd.make_context():
        yield


def layers(count: int) -> str:
    """Products with alternately wide and narrow weights, a residual around each pair."""
    arguments = [f"%u{n}: tensor<8x16xf32>, %d{n}: tensor<16x8xf32>" for n in range(count)]
    lines, value = [], "%x"
    for n in range(count):
        lines += [
            f"%h{n} = stablehlo.dot_general {value}, %u{n}, contracting_dims = [1] x [0] : "
            "(tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>",
            f"%t{n} = stablehlo.tanh %h{n} : tensor<4x16xf32>",
            f"%y{n} = stablehlo.dot_general %t{n}, %d{n}, contracting_dims = [1] x [0] : "
            "(tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>",
            f"%r{n} = stablehlo.add {value}, %y{n} : tensor<4x8xf32>",
        ]
        value = f"%r{n}"
    head = f"func.func @main(%x: tensor<4x8xf32>, {', '.join(arguments)}) -> tensor<4x8xf32> {{"
    return "\n".join([head, *lines, f"return {value} : tensor<4x8xf32>", "}"])


def function_of(text: str) -> SearchedFunction:
    parsed = sd.parse(f"shard.grid @grid(shape = 2x2)\n{text}")
    module = imported(parsed.operation.get_asm(enable_debug_info=True))
    found = searched_function(module, "main")
    assert found is not None
    return found


def program_of(function: SearchedFunction, limit: int | None) -> ShardingProgram:
    classes = classes_of(function.graph, function.free)
    prices = Prices(GRID, DeviceModel.read("h100"), "bytes")
    return ShardingProgram(classes, prices, limit, live_values(function, classes))


def test_the_integer_program_finds_the_best_choice() -> None:
    program = IntegerProgram()
    first, second, third = (program.choice(cost) for cost in (3.0, 2.0, 4.0))
    program.row([first, second, third], [1.0] * 3, 2.0, 2.0)
    program.row([first, second], [1.0, 1.0], upper=1.0)
    found = program.solve(10)
    assert found is not None
    assert found.values.round().tolist() == [0, 1, 1]
    assert found.objective == pytest.approx(6)
    assert found.bound == pytest.approx(6)


def test_a_program_that_nothing_solves() -> None:
    program = IntegerProgram()
    program.row([program.choice()], [1.0], 2.0)
    assert program.solve(10) is None


def test_layers_that_are_alike_are_one_class() -> None:
    """However many layers: ops are told apart up to where all would be."""
    few = classes_of((small := function_of(layers(100))).graph, small.free)
    many = classes_of((large := function_of(layers(300))).graph, large.free)
    assert len(few.ops) == len(many.ops) < 300
    assert sum(each.runs for each in many.ops) == 4 * 300 + 1
    weights = {many.of_value[value] for value in large.boundary[1:601]}
    assert len(weights) < 100


def test_a_small_program_has_a_class_for_each_op() -> None:
    function = function_of(layers(3))
    classes = classes_of(function.graph, function.free)
    assert [each.runs for each in classes.ops] == [1] * len(classes.ops)


def test_weights_are_split_where_they_do_not_fit() -> None:
    """One all-reduce of the 4x8 result in each layer, as an expert writes it, or fewer bytes."""
    function = function_of(layers(2))
    program = program_of(function, 1800)
    solution = program.solve(Budget(60))
    assert solution is not None
    assert 0 < solution.cost <= 2 * (2 * 128 // 2) * 1.01
    assert solution.cost == pytest.approx(solution.bound, rel=1e-3)
    relaxed = program.solve(Budget(60), relaxed=True)
    assert relaxed is not None
    assert relaxed.bound <= solution.cost * (1 + 1e-6)
    assert program.solutions(Budget(60))[0].cost <= 2 * solution.cost


def test_without_a_limit_nothing_moves() -> None:
    solution = program_of(function_of(layers(2)), None).solve(Budget(60))
    assert solution is not None
    assert solution.cost < 1


def test_annotations_hold() -> None:
    text = layers(1).replace(
        "%u0: tensor<8x16xf32>",
        "%u0: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@grid, [[0], [1]]>}",
    )
    function = function_of(text)
    program = program_of(function, None)
    solution = program.solve(Budget(60))
    assert solution is not None
    sharding = solution.shardings[program.classes.of_value[function.boundary[1]]]
    assert sharding.split_axes == ((0,), (1,))


def test_values_inside_are_annotated_where_propagation_chooses_otherwise() -> None:
    function = function_of(layers(2))
    program = program_of(function, 1500)
    solution = program.solve(Budget(60))
    assert solution is not None
    plan = PlanMaker(function, program, frozenset(range(len(function.boundary)))).plan(solution)
    assert plan.splits
    assert {value for value, _ in plan.inner} <= function.sites.keys()


def loop(arguments: str, carried: str, body: str, result: str) -> str:
    """A loop of 16 turns that carries a 16x16 tensor %a, from %i; its body makes %b of it."""
    square, scalar = "tensor<16x16xf32>", "tensor<i32>"
    return f"""
    func.func @main({arguments}) -> ({square} {result}) {{
      %n = stablehlo.constant dense<16> : {scalar}
      %c = stablehlo.constant dense<0> : {scalar}
      %one = stablehlo.constant dense<1> : {scalar}
      %zeros = stablehlo.constant dense<0.0> : {square}
      %0:2 = stablehlo.while(%i = %c, %a = {carried}) : {scalar}, {square}
        cond {{
          %p = stablehlo.compare LT, %i, %n, SIGNED : ({scalar}, {scalar}) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        }} do {{
          %j = stablehlo.add %i, %one : {scalar}
          {body}
          stablehlo.return %j, %b : {scalar}, {square}
        }}
      return %0#1 : {square}
    }}"""


TRANSPOSED = """
          %t = stablehlo.transpose %a, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
          %b = stablehlo.subtract %a, %t : tensor<16x16xf32>"""
SUMMED = """
          %s = stablehlo.dynamic_slice %x, %i, %c, %c, sizes = [1, 8, 16]
            : (tensor<16x8x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x16xf32>
          %z = stablehlo.reshape %s : (tensor<1x8x16xf32>) -> tensor<8x16xf32>
          %y = stablehlo.tanh %z : tensor<8x16xf32>
          %g = stablehlo.dot_general %y, %z, contracting_dims = [0] x [0]
            : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
          %b = stablehlo.add %a, %g : tensor<16x16xf32>"""


@pytest.mark.parametrize("axes", ["[0]", "[0, 1]", "[1]"])
@pytest.mark.parametrize(
    ("argument", "split", "carried", "body"),
    [
        ("tensor<16x16xf32>", "[[{}], []]", "%x", TRANSPOSED),
        ("tensor<16x8x16xf32>", "[[], [{}], []]", "%zeros", SUMMED),
    ],
)
def test_loops_cost_what_the_passes_make_of_them(
    argument: str, split: str, carried: str, body: str, axes: str
) -> None:
    """What changes in each turn is resharded in each; a sum is carried, and reduced once."""
    rows = _sharding(f"[[{axes.strip('[]')}], []]")
    of_argument = _sharding(split.format(axes.strip("[]")))
    text = loop(f"%x: {argument} {of_argument}", carried, body, rows)
    function = function_of(text)
    program = program_of(function, None)
    solution = program.solve(Budget(60))
    assert solution is not None
    plan = PlanMaker(function, program, frozenset()).plan(solution)
    declared = f"shard.grid @grid(shape = 2x2)\n{text}"
    problem = Problem.of(sd.parse(declared), AutoOptions(), "main")
    costs = problem.evaluator.costs(plan)
    assert costs is not None
    assert costs.bytes == pytest.approx(solution.cost, rel=0.03)
    made = str(problem.evaluator.annotated(plan))
    outcome = run_and_check(made, "spmd,lower", reference=reference_of(declared))
    assert outcome.verdict.passed, f"{outcome.verdict}\n{made}"


WRITTEN = """
          %d = stablehlo.concatenate %i, %c, dim = 0
            : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
          %l = stablehlo.constant dense<[2, 0]> : tensor<2xi32>
          %z = stablehlo.constant dense<0> : tensor<2xi32>
          %e = stablehlo.clamp %z, %d, %l : tensor<2xi32>
          %y = "stablehlo.scatter"(%x, %e, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
            update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1],
            index_vector_dim = 0>}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            stablehlo.return %b : tensor<f32>
          }) : (tensor<3x64xf32>, tensor<2xi32>, tensor<1x64xf32>) -> tensor<3x64xf32>"""


def test_choices_are_priced_on_what_the_passes_make() -> None:
    """A slice that begins at 0 along a dimension is written there on each device."""
    text = f"""
    func.func @main(%x: tensor<3x64xf32>, %u: tensor<1x64xf32>, %i: tensor<1xi32>,
        %c: tensor<1xi32>) -> tensor<3x64xf32> {{{WRITTEN}
      return %y : tensor<3x64xf32>
    }}"""
    options = AutoOptions(grid=(2,), objective="bytes", memory_limit=1200)
    problem = Problem.of(sd.parse(text), options, "main")
    first = next(problem.guide.plans({}, Budget(60)))
    costs = problem.evaluator.costs(first)
    assert costs is not None
    assert (costs.bytes, costs.peak <= 1200) == (0, True), costs
    made = str(problem.evaluator.annotated(first))
    outcome = run_and_check(made, "spmd,lower", reference=reference_of(str(sd.parse(text))))
    assert outcome.verdict.passed, f"{outcome.verdict}\n{made}"


@pytest.mark.parametrize("seed", range(20))
def test_reshards_cost_what_their_plans_do(seed: int) -> None:
    """Prices are looked up without the dimensions that stay whole."""
    rng = random.Random(seed)
    grid = Grid("grid", rng.choice(((2, 4), (2, 2, 2), (8,), (3, 4))))
    shape = tuple(24 * rng.choice((1, 2, 4)) for _ in range(rng.randint(1, 5)))
    value = ValueClass(shape, 4, 1, 1, 1, None, is_free=True)
    prices = Prices(grid, DeviceModel.read("h100"), "bytes", at_least=True)
    for _ in range(8):
        source, target = (_drawn(rng, grid, len(shape), partial=each) for each in (True, False))
        cost = planned(source, target, shape, 4, grid).bytes_moved if source != target else 0
        assert prices.reshard(source, target, value) == cost


def _drawn(rng: random.Random, grid: Grid, rank: int, *, partial: bool) -> Sharding:
    dims: list[list[int]] = [[] for _ in range(rank + 1)]
    for axis in range(grid.rank):
        dims[rng.randrange(rank + 1)].append(axis)
    *splits, rest = map(tuple, dims)
    return Sharding("grid", tuple(splits), rest if partial else ())


@pytest.mark.parametrize("objective", ["bytes", "time", "memory"])
def test_no_plan_is_better_than_the_bound(objective: Objective) -> None:
    met = 0
    for seed in range(8):
        text = random_chain(seed)
        replicated = sd.report(sd.parse(f"shard.grid @grid(shape = 4)\n{text}")).memory.peak
        try:
            found = sd.auto(
                sd.parse(text),
                grid=(4,),
                objective=objective,
                memory_limit=int(0.7 * replicated),
                seconds=4,
            ).found
        except sd.ShardError:
            continue
        assert found.bound is not None
        assert found.score.objective >= found.bound * (1 - 1e-6)
        met += found.is_proven
    assert met > 2


def test_a_large_program_is_as_cheap_as_its_expert(tmp_path: Path) -> None:
    """Forty layers, whose weights do not fit: no more bytes than with Megatron's annotations."""
    text = layers(40)
    expert = text.replace("%x: tensor<4x8xf32>", "%x: tensor<4x8xf32> " + _sharding([[0], []]))
    for n in range(40):
        expert = expert.replace(
            f"%u{n}: tensor<8x16xf32>", f"%u{n}: tensor<8x16xf32> {_sharding([[], [1]])}"
        )
        expert = expert.replace(
            f"%d{n}: tensor<16x8xf32>", f"%d{n}: tensor<16x8xf32> {_sharding([[1], []])}"
        )
    report = sd.report(sd.parse(f"shard.grid @grid(shape = 2x2)\n{expert}"))
    found = sd.auto(
        sd.parse(text),
        grid=(2, 2),
        objective="bytes",
        memory_limit=report.memory.peak,
        plans=120,
    )
    assert found.costs.bytes <= report.bytes_moved
    assert found.costs.peak <= report.memory.peak


def _sharding(lists: list[list[int]] | str) -> str:
    return f"{{mesh.sharding = #mesh.shard<@grid, {lists}>}}"


def test_grid_shapes() -> None:
    assert grid_shapes(8) == [(8,), (2, 4), (4, 2), (2, 2, 2)]
    assert grid_shapes(7) == [(7,)]
    assert (16, 32) in grid_shapes(512)


def test_the_shape_of_the_grid_is_searched_for() -> None:
    found = sd.auto(sd.parse(layers(2)), devices=4, objective="memory", seconds=10)
    report = sd.report(found.module)
    assert report.memory.peak == found.costs.peak
    assert (
        report.memory.peak
        <= 0.5 * sd.report(sd.parse(f"shard.grid @g(shape = 4)\n{layers(2)}")).memory.peak
    )


def products(seed: int) -> tuple[str, tuple[int, ...], float | None]:
    """Three products of one tensor and a product of theirs; a grid; a part of the memory."""
    r = random.Random(seed)
    rows, wide, narrow = r.choice([64, 128, 512, 2048]), r.choice([64, 256]), r.choice([256, 1024])
    x, w, h, o = (
        f"tensor<{a}x{b}xf32>"
        for a, b in ((rows, narrow), (narrow, wide), (rows, wide), (wide, narrow))
    )
    lines = [f"%y = stablehlo.tanh %x : {x}"]
    for n in range(3):
        lines.append(
            f"%h{n} = stablehlo.dot_general %y, %w{n}, contracting_dims = [1] x [0] : "
            f"({x}, {w}) -> {h}"
        )
    lines += [
        f"%a = stablehlo.multiply %h0, %h1 : {h}",
        f"%b = stablehlo.multiply %a, %h2 : {h}",
        f"%z = stablehlo.dot_general %b, %o, contracting_dims = [1] x [0] : ({h}, {o}) -> {x}",
        f"%s = stablehlo.add %z, %x : {x}",
    ]
    arguments = f"%x: {x}, %w0: {w}, %w1: {w}, %w2: {w}, %o: {o}"
    body = "\n".join([*lines, f"return %s : {x}"])
    text = f"func.func @main({arguments}) -> {x} {{\n{body}\n}}"
    return text, r.choice([(4,), (2, 2), (4, 2)]), r.choice([None, 0.6, 0.4])


@pytest.mark.parametrize("seed", [22, 29, 51, 56, 57])
def test_plans_take_the_time_of_their_solutions(seed: int) -> None:
    """Also where arguments are whole, and products need what propagation would not give them."""
    text, grid, part = products(seed)
    problem = Problem.of(sd.parse(text), AutoOptions(grid=grid), "main")
    whole = problem.evaluator.known_costs(Plan()).peak
    program = problem.guide._program("time", None if part is None else int(part * whole))
    for solution in program.solutions(Budget(60))[:2]:
        plan = PlanMaker(problem.function, program, problem.free).plan(solution, keeps_whole=True)
        costs = problem.evaluator.known_costs(plan)
        assert costs.seconds < 1.3 * solution.cost + 0.2e-6, f"{solution.cost}\n{plan}"


def test_products_are_computed_along_the_loops_of_the_solution() -> None:
    function = function_of(layers(2))
    program = program_of(function, 1500)
    solution = program.solve(Budget(60))
    assert solution is not None
    maker = PlanMaker(function, program, frozenset(range(len(function.boundary))))
    plan = maker.plan(solution)
    assert len(plan.loops) == 4
    problem = Problem.of(
        sd.parse(f"shard.grid @grid(shape = 2x2)\n{layers(2)}"), AutoOptions(), "main"
    )
    made = str(problem.evaluator.annotated(plan))
    assert made.count("sharding = [[") >= len(plan.loops)
    assert not maker.plan(solution, has_loops=False).loops
    outcome = run_and_check(made, "spmd,lower", reference=reference_of(layers(2)))
    assert outcome.verdict.passed, f"{outcome.verdict}\n{made}"
