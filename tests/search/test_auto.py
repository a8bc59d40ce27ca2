"""`--auto` finds annotations: the best ones where all are tried, and none that breaks a limit."""

import itertools
import random
import signal
from pathlib import Path
from typing import Any

import pytest

import shard_dialect as sd
from shard_dialect.analysis.changes.annotations import annotations_in
from shard_dialect.analysis.program_costs import Costs
from shard_dialect.ir.bindings import ir
from shard_dialect.search.auto import AutoOptions, Problem
from shard_dialect.search.budget import Budget
from shard_dialect.search.evaluate import Evaluator
from shard_dialect.search.plan import Plan
from tests.conftest import ROOT

EXAMPLES = ROOT / "examples"


def unsharded(path: Path) -> ir.Module:
    module = sd.parse(path)
    sd.run_pipeline(module, "import,erase-sharding")
    return module


def random_chain(seed: int) -> str:
    """Products and sums of a few matrices, of up to eight ops."""
    rng = random.Random(seed)
    sizes = [rng.choice((4, 6, 8)) for _ in range(4)]
    arguments, lines, values = [], [], []
    for number in range(rng.randint(2, 3)):
        shape = (sizes[number], sizes[number + 1])
        arguments.append(f"%a{number}: tensor<{shape[0]}x{shape[1]}xf32>")
        values.append((f"%a{number}", shape))
    while len(lines) < rng.randint(2, 7):
        (one, a), (other, b) = rng.choice(values), rng.choice(values)
        name = f"%{len(lines)}"
        kind = rng.choice(("product", "add", "exp"))
        if kind == "product" and a[1] == b[0]:
            shape = (a[0], b[1])
            types = f"(tensor<{a[0]}x{a[1]}xf32>, tensor<{b[0]}x{b[1]}xf32>)"
            op = f"stablehlo.dot_general {one}, {other}, contracting_dims = [1] x [0] : {types} -> "
        elif kind == "add" and a == b:
            shape, op = a, f"stablehlo.add {one}, {other} : "
        else:
            shape, op = a, f"stablehlo.tanh {one} : "
        lines.append(f"  {name} = {op}tensor<{shape[0]}x{shape[1]}xf32>")
        values.append((name, shape))
    name, shape = values[-1]
    type_ = f"tensor<{shape[0]}x{shape[1]}xf32>"
    head = f"func.func @main({', '.join(arguments)}) -> {type_} {{"
    return "\n".join([head, *lines, f"  return {name} : {type_}", "}"]) + "\n"


def every_plan(text: str, axes: int, limit: int) -> float:
    """The least modelled time of all ways to split arguments and the result, within the limit."""
    grid = "2" if axes == 1 else "2x2"
    tensors = text.split("{")[0].count("tensor<")
    splits = list(itertools.product((None, 0, 1), repeat=axes))
    best = float("inf")
    for chosen in itertools.product(splits, repeat=tensors):
        annotated = text
        for number, dims in enumerate(chosen):
            lists = [[axis for axis in range(axes) if dims[axis] == dim] for dim in (0, 1)]
            if any(lists):
                annotated = _with(annotated, number, lists)
        module = sd.parse(f"shard.grid @grid(shape = {grid})\n{annotated}")
        try:
            report = sd.report(module)
        except sd.ShardError:
            continue
        if report.memory.peak <= limit:
            best = min(best, report.schedule.total)
    return best


def _with(text: str, number: int, lists: list[list[int]]) -> str:
    """The text with a sharding on the tensor `number` of the function's head."""
    head, rest = text.split("\n", 1)
    parts = head.split("xf32>")
    attribute = f" {{mesh.sharding = #mesh.shard<@grid, {lists}>}}"
    is_result = number == len(parts) - 2
    if is_result:
        parts[number] = parts[number].replace("-> ", "-> (")
        attribute += ")"
    parts[number + 1] = attribute + parts[number + 1]
    return "xf32>".join(parts) + "\n" + rest


@pytest.mark.parametrize("seed", range(6))
def test_the_best_of_all_plans_is_found(seed: int) -> None:
    text = random_chain(seed)
    replicated = sd.report(sd.parse(f"shard.grid @grid(shape = 2)\n{text}")).memory.peak
    limit = int(replicated * 0.8)
    best = every_plan(text, 1, limit)
    try:
        found = sd.auto(sd.parse(text), grid=(2,), memory_limit=limit, seconds=300)
    except sd.ShardError:
        assert best == float("inf")
        return
    assert found.is_proven
    assert found.costs.seconds == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("name", ["slow_ffn", "mlp_stablehlo", "megatron", "training_step"])
def test_what_is_found_runs_and_is_right(name: str) -> None:
    module = unsharded(EXAMPLES / f"{name}.mlir")
    limit = int(0.7 * sd.report(sd.auto(module, grid=(2, 2), seconds=1e-3).module).memory.peak)
    found = sd.auto(module, grid=(2, 2), objective="bytes", memory_limit=limit, seconds=5)
    report = sd.report(found.module)
    assert (report.bytes_moved, report.memory.peak) == (found.costs.bytes, found.costs.peak)
    assert report.memory.peak <= limit
    assert sd.compile(found.module).check().passed


def test_the_expert_is_met_on_a_feed_forward_layer() -> None:
    module = unsharded(EXAMPLES / "slow_ffn.mlir")
    found = sd.auto(module, grid=(2, 4), objective="bytes", memory_limit=1_900_000, seconds=20)
    assert found.costs.bytes <= 393_216


def test_annotations_hold() -> None:
    module = sd.parse(EXAMPLES / "slow_ffn.mlir")
    found = sd.auto(module, seconds=5)
    before = sd.report(module)
    assert {each.name: each.text for each in sd.report(found.module).tensors[:5]} == {
        each.name: each.text for each in before.tensors[:5]
    }
    assert found.is_proven  # there is nothing to decide


def test_a_limit_that_nothing_keeps_is_refused() -> None:
    module = unsharded(EXAMPLES / "slow_ffn.mlir")
    with pytest.raises(sd.ShardError, match=r"takes 1,000 bytes on a device: the best one takes"):
        sd.auto(module, grid=(2, 2), memory_limit=1000, seconds=2)


def test_modules_without_a_grid_and_with_another_one_are_refused() -> None:
    with pytest.raises(sd.ShardError, match="the module has no grid"):
        sd.auto(unsharded(EXAMPLES / "slow_ffn.mlir"))
    with pytest.raises(
        sd.ShardError, match=r"a grid of 3 is asked for, and the module has .*--erase-sharding"
    ):
        sd.auto(sd.parse(EXAMPLES / "slow_ffn.mlir"), grid=(3,))
    partitioned = sd.parse(EXAMPLES / "mlp_1d.mlir")
    sd.run_pipeline(partitioned, "spmd")
    with pytest.raises(sd.ShardError, match="partitioned already"):
        sd.auto(partitioned)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("objective=speed", "objective=speed is none: expected one of time, bytes, memory"),
        ("memory-limit=16GB", "memory-limit=16GB is no size: write 500000, 512MiB, 16GiB"),
        ("colour=red", "--auto has no option 'colour'"),
        ("grid=2,4", "sizes of a grid are written 2x4"),
        ("grid=axb", "cannot read grid=axb"),
        ("seconds=long", "cannot read seconds=long"),
        ("seconds=-1", "seconds=-1 is no time: expected a number above 0"),
        ("devices=0", "devices of size 0: expected 1 or more"),
        ("devices=-1", "devices of size -1: expected 1 or more"),
        ("grid=2x-2", "grid of size -2: expected 1 or more"),
        ("plans=0", "plans=0 is no number of plans: expected 1 or more"),
    ],
)
def test_options_that_are_not_read(text: str, message: str) -> None:
    with pytest.raises(sd.ShardError, match=message):
        AutoOptions.read(text)


def test_cheap_values_are_computed_again_where_nothing_else_fits() -> None:
    """Each of four values of 16x16 is read at the end, and computed from the argument."""
    shape = "tensor<16x16xf32>"
    names = ("tanh", "exponential", "cosine", "sine")
    ops = [f"%{n} = stablehlo.{name} %x : {shape}" for n, name in enumerate(names)]
    types = f"({shape}, {shape}) -> {shape}"
    ops += [f"%w = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : {types}"]
    ops += [f"%s{n} = stablehlo.add %{n}, %{f's{n - 1}' if n else 'w'} : {shape}" for n in range(4)]
    text = "\n".join(
        [f"func.func @main(%x: {shape}) -> {shape} {{", *ops, f"return %s3 : {shape}", "}"]
    )
    least = sd.auto(sd.parse(text), grid=(2,), objective="memory", seconds=5).costs.peak
    found = sd.auto(sd.parse(text), grid=(2,), memory_limit=least - 1024, seconds=5)
    assert found.costs.peak <= least - 1024
    assert "optimization_barrier" in sd.to_text(found.module)
    assert sd.compile(found.module).check().passed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "speed"}, "objective=speed is none: expected one of time, bytes, memory"),
        ({"memory_limit": "4KiB"}, "memory_limit='4KiB' is a text: write 4096, in bytes"),
        ({"seconds": 0}, "seconds=0 is no time"),
        ({"plans": -1}, "plans=-1 is no number of plans"),
        ({"plans": 3, "seconds": 60}, "plans is given together with seconds"),
        ({"grid": (2,), "devices": 2}, "grid is given together with devices"),
    ],
)
def test_options_that_are_none(options: dict[str, Any], message: str) -> None:
    with pytest.raises(sd.ShardError, match=message):
        AutoOptions(**options)


@pytest.mark.parametrize("plans", [1, 7])
def test_a_number_of_plans_gives_the_same_each_time(plans: int) -> None:
    module = sd.parse(random_chain(1))
    options = {"grid": (2, 2), "objective": "memory", "plans": plans}
    found, again = (sd.auto(module, **options) for _ in range(2))
    assert found.found.evaluated == plans
    assert str(found.module) == str(again.module)


@pytest.mark.parametrize("plans", [1, 2, 3, 9])
def test_a_number_of_plans_is_that_of_all_shapes_of_the_grid(plans: int) -> None:
    found = sd.auto(sd.parse(random_chain(1)), devices=8, plans=plans)
    assert found.found.evaluated == plans


@pytest.mark.parametrize("name", ["megatron", "mlp_1d", "training_step", "slow_ffn"])
def test_the_first_plan_is_the_program_as_it_is(name: str) -> None:
    module = sd.parse(EXAMPLES / f"{name}.mlir")
    found = sd.auto(module, plans=1)
    assert found.costs == found.found.before
    assert found.costs.bytes == sd.report(module).bytes_moved
    assert sd.auto(module, plans=12).found.score <= found.found.score


def test_an_interrupt_ends_the_search_once_there_is_a_plan(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    module = sd.parse(random_chain(1))
    costs, interrupted_at = Evaluator.costs, 1

    def interrupted(self: Evaluator, plan: Plan) -> Costs | None:
        nonlocal interrupted_at
        interrupted_at -= 1
        if not interrupted_at:
            signal.raise_signal(signal.SIGINT)
        return costs(self, plan)

    monkeypatch.setattr(Evaluator, "costs", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sd.auto(module, grid=(2, 2))
    interrupted_at = 4
    assert sd.auto(module, grid=(2, 2)).found.evaluated == 4
    assert "note: --auto: stops, with the best plan so far" in capfd.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_ends_the_guide() -> None:
    budget = Budget()
    budget.part(0.5).stop()
    module = unsharded(EXAMPLES / "training_step.mlir")
    with module.context:
        problem = Problem.of(module, AutoOptions(grid=(2, 2)), "main")
        assert list(problem.guide.plans({}, budget.part(0.5))) == []
        assert problem.guide.bound(budget) is None


STEP = """
func.func private @update(%w: tensor<16x16xf32>, %g: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = stablehlo.subtract %w, %g : tensor<16x16xf32>
  return %0 : tensor<16x16xf32>
}
func.func @main(%x: tensor<64x16xf32>, %w: tensor<16x16xf32>, %m: tensor<16x16xf32>)
    -> (tensor<16x16xf32>, tensor<16x16xf32>, tensor<64x16xf32>) {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<64x16xf32>, tensor<16x16xf32>) -> tensor<64x16xf32>
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0]
    : (tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<16x16xf32>
  %n = stablehlo.add %m, %g : tensor<16x16xf32>
  %new = func.call @update(%w, %n)
    : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  return %n, %new, %y : tensor<16x16xf32>, tensor<16x16xf32>, tensor<64x16xf32>
}
"""


@pytest.mark.parametrize("objective", ["time", "bytes", "memory"])
@pytest.mark.parametrize("annotated", [None, "%w", "%m"])
def test_state_comes_out_sharded_as_it_goes_in(objective: str, annotated: str | None) -> None:
    """The moment %m has one candidate, the weight the other, and %y is no state."""
    text = "shard.grid @grid(shape = 2x2)" + STEP
    if annotated:
        sharding = (
            f"{annotated}: tensor<16x16xf32> {{mesh.sharding = #mesh.shard<@grid, [[0], []]>}}"
        )
        head, _, rest = text.partition("@main")
        text = head + "@main" + rest.replace(f"{annotated}: tensor<16x16xf32>", sharding, 1)
    found = sd.auto(sd.parse(text), objective=objective, memory_limit=9_000, plans=25)
    propagated = sd.parse(str(found.module))
    sd.run_pipeline(propagated, "propagate")
    of = {str(each.site): each.annotation for each in annotations_in(propagated.operation)}
    for name, argument, result in (("%m", 2, 0), ("%w", 1, 1)):
        if annotated != name:
            assert of[f"argument {argument} of @main"] == of[f"result {result} of @main"]
    assert sd.compile(found.module).check().passed


BLOCK = """
func.func @main(%x: tensor<16x16xf32>ONE, %w: tensor<16x16xf32>OTHER)
    -> (tensor<16x16xf32>, tensor<64x16xf32>) {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %c = stablehlo.constant dense<0.0> : tensor<64x16xf32>
  %z = stablehlo.add %x, %y : tensor<16x16xf32>
  return %z, %c : tensor<16x16xf32>, tensor<64x16xf32>
}
"""
CACHE = """
func.func @main(%x: tensor<1x16xf32>, %k: tensor<64x16xf32>, %i: tensor<i32>)
    -> (tensor<64x16xf32>, tensor<1x16xf32>) {
  %y = stablehlo.dot_general %x, %x, batching_dims = [0] x [0], contracting_dims = [1] x [1]
    : (tensor<1x16xf32>, tensor<1x16xf32>) -> tensor<1xf32>
  %b = stablehlo.broadcast_in_dim %y, dims = [0] : (tensor<1xf32>) -> tensor<1x16xf32>
  %z = stablehlo.add %x, %b : tensor<1x16xf32>
  %n = stablehlo.dynamic_update_slice %k, %z, %i, %i
    : (tensor<64x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<64x16xf32>
  return %n, %z : tensor<64x16xf32>, tensor<1x16xf32>
}
"""
ALIASED = " {tf.aliasing_output = 0 : i32}"
DONATED = " {jax.buffer_donor = true}"


@pytest.mark.parametrize(
    ("text", "states"),
    [
        pytest.param(STEP, ((1, 4), (2, 3)), id="several weights"),
        pytest.param(BLOCK.replace("ONE", "").replace("OTHER", ""), (), id="a residual block"),
        pytest.param(BLOCK.replace("ONE", ALIASED).replace("OTHER", ""), ((0, 2),), id="aliased"),
        pytest.param(BLOCK.replace("ONE", DONATED).replace("OTHER", ""), ((0, 2),), id="donated"),
        pytest.param(BLOCK.replace("ONE", "").replace("OTHER", DONATED), (), id="another donated"),
        pytest.param(CACHE, ((1, 3),), id="a cache, and a residual block"),
        pytest.param(
            STEP.replace("%w: tensor<16x16xf32>, %m", f"%w: tensor<16x16xf32>{DONATED}, %m"),
            ((1, 4),),
            id="one weight donated",
        ),
    ],
)
def test_what_is_state(text: str, states: tuple[tuple[int, int], ...]) -> None:
    module = sd.parse(text)
    with module.context:
        problem = Problem.of(module, AutoOptions(grid=(2, 2)), "main")
    assert problem.function.states == states


def test_a_loop_counts_as_often_as_it_runs() -> None:
    body = """
    %n = stablehlo.constant dense<7> : tensor<i32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.while(%i = %c, %a = %x) : tensor<i32>, tensor<8x8xf32>
      cond {
        %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      } do {
        %j = stablehlo.add %i, %one : tensor<i32>
        %d = stablehlo.dot_general %a, %x, contracting_dims = [1] x [0]
          : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
        stablehlo.return %j, %d : tensor<i32>, tensor<8x8xf32>
      }
    return %0#1 : tensor<8x8xf32>"""
    module = sd.parse(f"func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {{{body}\n}}")
    with module.context:
        problem = Problem.of(module, AutoOptions(grid=(2, 2)), "main")
        runs = {each.name: each.runs for each in problem.guide.classes.ops}
    assert runs["stablehlo.dot_general"] == 7


def test_values_of_called_functions_are_annotated() -> None:
    with sd.parse(STEP).context as context:
        module = ir.Module.parse(STEP, context)
        problem = Problem.of(module, AutoOptions(grid=(2, 2)), "main")
        assert {op for name, op, _ in problem.function.sites.values()} == set(range(4))
        (value, *_) = problem.function.sites
        plan = Plan().with_inner({value: ((0,), ())})
        assert "func.call" not in str(problem.evaluator.annotated(plan))
        assert "@update" in str(problem.evaluator.annotated(Plan()))
