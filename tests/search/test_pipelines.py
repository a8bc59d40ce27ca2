"""`--auto` with pipelines: one is taken where it is better, and else none."""

import pytest

import shard_dialect as sd
from shard_dialect.model import Grid
from shard_dialect.search.auto import AutoOptions, Problem
from shard_dialect.search.plan import Plan
from shard_dialect.search.recipes import Recipe, within_stages
from shard_dialect.testing.check_program import reference_of, run_and_check
from tests.extras import needs
from tests.programs.training import training_step


def step(layers: int, batch: int, width: int) -> str:
    """A training step without a grid."""
    text = training_step(layers, batch, width, "1")
    return text[text.index("func.func") :]


def machine(bytes_per_second: float) -> sd.DeviceModel:
    """Devices whose products take longer than memory, with a network of this speed."""
    level = sd.NetworkLevel("wires", None, bytes_per_second, 1e-9)
    return sd.DeviceModel("test", {"f32": 1e9}, 1 << 30, 1e12, [level])


@needs("jax")
@pytest.mark.parametrize(
    ("grid", "speed"), [((2,), 2e7), pytest.param((4,), 2e7, marks=pytest.mark.slow)]
)
def test_a_pipeline_is_taken_where_weights_are_dear_to_send(
    grid: tuple[int, ...], speed: float
) -> None:
    text = step(4, 16, 64)
    asked = {"grid": grid, "device_model": machine(speed), "plans": 40}
    without = sd.auto(sd.parse(text), **asked)
    found = sd.auto(sd.parse(text), pipelines=True, **asked)
    assert without.recipe is None
    assert found.recipe is not None
    assert found.recipe.stages == grid[0]
    assert found.recipe.arguments == (0, 1)
    assert found.costs.seconds < without.costs.seconds
    assert f"a pipeline: {found.recipe}" in str(found)
    report = sd.report(found.module, device_model=machine(speed))
    assert report.schedule.total == pytest.approx(found.costs.seconds)
    assert report.memory.peak == found.costs.peak
    made = sd.to_text(found.module)
    outcome = run_and_check(made, "spmd,lower", reference=reference_of(text))
    assert outcome.verdict.passed, f"{outcome.verdict}\n{made}"


def test_no_pipeline_is_taken_where_a_network_is_fast() -> None:
    text = step(4, 16, 64)
    asked = {"grid": (4,), "device_model": machine(1e12), "plans": 40}
    found = sd.auto(sd.parse(text), pipelines=True, **asked)
    assert found.recipe is None
    assert "collective_permute" not in sd.to_text(found.module)
    assert found.found.score <= sd.auto(sd.parse(text), **asked).found.score


@pytest.mark.parametrize(
    "body",
    [
        "%0 = stablehlo.tanh %x : tensor<7x8xf32>",  # no number of microbatches divides it
        "%0 = stablehlo.reverse %x, dims = [0] : tensor<7x8xf32>",
    ],
)
def test_what_has_no_pipeline_is_annotated(body: str) -> None:
    text = f"func.func @main(%x: tensor<7x8xf32>) -> tensor<7x8xf32> {{\n  {body}\n"
    text += "  return %0 : tensor<7x8xf32>\n}\n"
    found = sd.auto(sd.parse(text), grid=(2,), pipelines=True, objective="memory", plans=20)
    assert found.recipe is None


def test_splits_along_the_stages_are_left_out() -> None:
    plan = Plan(((0, ((0,), (1,))), (1, ((0,), ())), (2, ((), (0, 1)))))
    assert within_stages(plan).splits == ((0, ((), (1,))), (2, ((), (1,))))


def test_recipes_near_another_divide_the_batch_and_the_axis() -> None:
    near = list(Recipe(2, 4, (0,)).near(12, Grid("grid", (6,))))
    assert [each.microbatches for each in near] == [2, 4, 4, 4]
    assert {each.schedule for each in near} == {"1f1b", "gpipe", "zero-bubble"}
    assert [each.stages for each in Recipe(4, 4, (0,)).near(4, Grid("grid", (4, 2)))][-1] == 2
    assert "chunks=2" in str(near[-1])


@needs("jax")
@pytest.mark.parametrize("grid", [(2,), pytest.param((2, 2), marks=pytest.mark.slow)])
@pytest.mark.parametrize("speed", [2e7, 1e9])
@pytest.mark.parametrize(
    ("plans", "limit"),
    [(1, None), (7, None), (7, 24_000), pytest.param(20, 15_400, marks=pytest.mark.slow)],
)
def test_no_result_is_worse_than_without_pipelines(
    grid: tuple[int, ...], speed: float, plans: int, limit: int | None
) -> None:
    asked = {"grid": grid, "device_model": machine(speed), "plans": plans, "memory_limit": limit}
    text = step(2, 16, 32)
    try:
        without = sd.auto(sd.parse(text), **asked)
    except sd.ShardError:
        return
    found = sd.auto(sd.parse(text), pipelines=True, **asked)
    again = sd.auto(sd.parse(text), pipelines=True, **asked)
    assert found.found.score <= without.found.score
    assert sd.to_text(found.module) == sd.to_text(again.module)


@needs("jax")
@pytest.mark.slow
def test_the_bound_holds_for_pipelines() -> None:
    text = step(4, 16, 64)
    asked = {"grid": (2,), "device_model": machine(2e7), "seconds": 8}
    found = sd.auto(sd.parse(text), pipelines=True, **asked)
    assert found.found.bound is not None
    assert 0 < found.found.bound <= found.costs.seconds
    assert "no other is better" in str(found)


@needs("jax")
@pytest.mark.parametrize(
    ("recipe", "splits"),
    [
        (Recipe(2, 4, (0, 1)), ((0,), ())),
        (Recipe(2, 4, (0, 1), "gpipe", 2), ((0,), ())),
        (Recipe(4, 4, (0, 1), "zero-bubble"), ((), ())),
    ],
)
def test_stages_may_be_fewer_and_have_chunks(
    recipe: Recipe, splits: tuple[tuple[int, ...], ...]
) -> None:
    """The batch is split among the devices of a stage."""
    text = step(4, 16, 32)
    module = sd.parse(text)
    with module.context:
        problem = Problem.of(module, AutoOptions(grid=(4,), pipelines=True), "main")
        pipelined = problem.pipelined(recipe)
        plan = Plan().with_splits({n: splits for n in (0, 1) if any(splits)})
        assert plan in pipelined.plans(recipe, None)
        made = str(pipelined.evaluator.annotated(plan))
    outcome = run_and_check(made, "spmd,lower", reference=reference_of(text))
    assert outcome.verdict.passed, f"{outcome.verdict}\n{made}"


def test_options_are_read() -> None:
    assert AutoOptions.read("grid=4 pipelines=yes").pipelines
    assert not AutoOptions.read("grid=4 pipelines=no").pipelines
    with pytest.raises(sd.ShardError, match="a search finds shardings alone here"):
        AutoOptions(pipelines=True).without_pipelines()
    with pytest.raises(sd.ShardError, match="--auto: cannot read pipelines=maybe"):
        AutoOptions.read("grid=4 pipelines=maybe")
