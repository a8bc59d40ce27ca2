"""The steps of pipelines: all in sight, none runs another, and what they made they leave."""

import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

import shard_dialect as sd
from shard_dialect.ir import numbered_function
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.framework.options import Option, options_of
from shard_dialect.passes.framework.pipeline import steps_of
from shard_dialect.passes.pipelines import PIPELINES
from shard_dialect.passes.vocabularies.as_written import as_written, vocabulary_of
from shard_dialect.testing.random_program import any_program
from tests.conftest import ROOT, Program

pytestmark = [
    pytest.mark.usefixtures("unoptimized"),
    pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning"),
]

_OURS = re.compile(r"(?<!sdy\.)\bmesh\.\w")
_BEYOND = re.compile(r"max = \[|min = \[")
"""What `shard` has no word for."""
EARLY = ("annotated", "propagated")
EXAMPLES = sorted((ROOT / "examples").glob("*.mlir"))
TWO_SUMS = """
sdy.mesh @m = <["a"=2]>
func.func @main(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}, {}]>},
                %y: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}, {}]>})
    -> (tensor<4xf32>, tensor<6xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0]
      : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.reduce(%y init: %z) applies stablehlo.add across dimensions = [0]
      : (tensor<8x6xf32>, tensor<f32>) -> tensor<6xf32>
  return %0, %1 : tensor<4xf32>, tensor<6xf32>
}
"""


def after(text: str, pipeline: str) -> str:
    module = sd.parse(text)
    sd.run_pipeline(module, pipeline)
    return sd.to_text(module)


def partitioned_at_random(seed: int) -> str:
    """The text of a random program that `--spmd` takes: some are refused, with a reason."""
    rng = Random(seed)
    while True:
        text = any_program(rng).text
        try:
            after(text, "spmd")
        except sd.ShardError:
            continue
        return text


def check_steps(text: str) -> None:
    """That `--spmd` ends in one program, from wherever one begins."""
    steps = steps_of("spmd")
    done = after(text, "spmd")
    for step in ("spmd", *dict.fromkeys(steps)):
        assert after(done, step) == done, f"{step} changes what --spmd has made"
    between = text
    for step in steps:
        between = after(between, step)
        assert after(between, "spmd") == done, f"--spmd goes on otherwise after {step}"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_spmd_ends_in_one_program_from_each_form(path: Path) -> None:
    check_steps(path.read_text())


@pytest.mark.parametrize("seed", [*range(12), 116, 191])
def test_so_it_does_for_random_programs(seed: int) -> None:
    check_steps(partitioned_at_random(seed))


def check_printed(text: str) -> None:
    """That it does from what `opt` prints after each step: in the user's words, without ours."""
    done, module, vocabulary = after(text, "spmd"), sd.parse(text), vocabulary_of(text)
    for step in steps_of("spmd"):
        sd.run_pipeline(module, step)
        written = as_written(module.operation, vocabulary)
        printed = written.get_asm(enable_debug_info=False)
        is_early = all(form_of(each) in EARLY for each in functions_of(module.operation))
        if is_early and vocabulary in ("sdy", "shard") and not _BEYOND.search(printed):
            assert not _OURS.search(printed)
        assert after(printed, "spmd") == done, f"--spmd goes on otherwise from text after {step}"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_what_is_printed_between_passes_goes_on_to_the_same(path: Path) -> None:
    check_printed(path.read_text())


@pytest.mark.parametrize("seed", range(6))
def test_so_it_does_in_the_words_of_random_programs(seed: int) -> None:
    check_printed(partitioned_at_random(seed))


def reads(text: str, pipeline: str) -> Counter[tuple[str, str]]:
    """How often each step reads each function."""
    counts: Counter[tuple[str, str]] = Counter()
    running: list[str] = []
    numbers = count(1)
    run, read = Pass.run, numbered_function._Reader.read

    def noted(self: Pass, module: ir.Module | ir.Operation) -> None:
        running.append(f"{self.name}, step {next(numbers)}")  # a pass may be two steps
        run(self, module)
        running.pop()

    def counted(self: numbered_function._Reader) -> numbered_function.Function:
        if running:  # not of what reads or writes the text
            counts[running[-1], self.function.name] += 1
        return read(self)

    with patch.object(Pass, "run", noted), patch.object(numbered_function._Reader, "read", counted):
        after(text, pipeline)
    return counts


def check_reads_once(text: str, pipeline: str) -> None:
    counts = reads(text, pipeline)
    assert counts
    if "sub_cluster" in after(text, "import,settle-grids"):
        # Once partitioned, a function is read anew to be branched by stage.
        counts.subtract([key for key in counts if key[0].startswith("partition")])
    assert {key: times for key, times in counts.items() if times > 1} == {}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_step_reads_a_function_once(path: Path) -> None:
    check_reads_once(path.read_text(), "spmd,lower")


@pytest.mark.parametrize("seed", range(12))
def test_so_it_does_random_functions(seed: int) -> None:
    check_reads_once(partitioned_at_random(seed), "spmd")


def test_bundles_are_made_the_first_time() -> None:
    assert after(TWO_SUMS, "spmd").count("shard.all_reduce") == 1
    report = str(sd.report(sd.parse(TWO_SUMS)))
    for place in ("3:17", "4:17"):  # both annotations are behind the one collective
        assert f"<string>:{place}: dimension 0 along" in report


@pytest.mark.parametrize("target", ["runtime", "mpi", "stablehlo"])
def test_no_pass_runs_another(target: str) -> None:
    running: list[str] = []
    run = Pass.run

    def noted(self: Pass, module: ir.Module | ir.Operation) -> None:
        assert not running, f"{running[-1]} runs {self.name}"
        running.append(self.name)
        run(self, module)
        running.pop()

    with patch.object(Pass, "run", noted):
        for path in EXAMPLES:
            after(path.read_text(), f"spmd,lower{{target={target}}}")


def test_timing_and_printing_show_each_step(opt: Program) -> None:
    done = opt(
        EXAMPLES[0], "--spmd", "--lower", "--mlir-timing", "--mlir-print-ir-after-all"
    ).stderr
    for step in steps_of("spmd,lower"):
        name = step.partition("{")[0]
        assert f"  {name}\n" in done, name
        assert f"IR Dump After {name} //" in done, name


COLLECTIVES_THAT_CANCEL = """
mesh.cluster @a(rank = 1, dim_sizes = [2])
func.func @main(%x: tensor<4x8xf32, #mesh.shard<@a, [[0]]>>)
    -> tensor<4x8xf32, #mesh.shard<@a, [[0]]>> attributes {mesh_cluster = @a} {
  %g = mesh.all_gather %x {mesh_axis = [[0]]}
      : tensor<4x8xf32, #mesh.shard<[[0]]>> -> tensor<4x8xf32>
  %0 = mesh.local_split %g {sharding = [[0]]}
      : tensor<4x8xf32> -> tensor<4x8xf32, #mesh.shard<[[0]]>>
  return %0 : tensor<4x8xf32, #mesh.shard<@a, [[0]]>>
}
"""


def test_a_form_is_kept_when_nothing_shows_it_any_more() -> None:
    assert "shard.all" not in after(COLLECTIVES_THAT_CANCEL, "spmd")
    assert 'mesh.form = "distributed"' in after(COLLECTIVES_THAT_CANCEL, "fold-collectives")


def test_annotations_and_collectives_are_not_mixed() -> None:
    mixed = COLLECTIVES_THAT_CANCEL.replace(
        "  return %0",
        '  %1 = "mesh.annotate"(%x) {sharding = #mesh.shard<@a, [[0]]>}'
        " : (tensor<4x8xf32, #mesh.shard<@a, [[0]]>>)"
        " -> tensor<4x8xf32, #mesh.shard<@a, [[0]]>>\n  return %0",
    )
    with pytest.raises(sd.ShardError, match=r"'mesh.annotate' op is of the annotated form"):
        after(mixed, "spmd")


def test_a_form_that_the_ops_contradict_is_refused() -> None:
    wrong = COLLECTIVES_THAT_CANCEL.replace(
        "{mesh_cluster = @a}", "{mesh_cluster = @a, propagated}"
    )
    with pytest.raises(sd.ShardError, match=r"says that it is propagated: remove the op"):
        after(wrong, "spmd")


@pytest.mark.parametrize("name", sorted(each for each in PIPELINES if options_of(PIPELINES[each])))
def test_each_option_of_a_pipeline_changes_its_steps(name: str) -> None:
    usual = PIPELINES[name]()
    options = {each: _others(each) for each in options_of(type(usual))}
    modes = [(each.field, other) for each in options for other in (each.default, *_others(each))]
    for option, (other, *_) in options.items():
        changes = []
        for mode in modes:  # some options are for a mode that another one selects
            with suppress(sd.ShardError):
                before = replace(usual, **dict([mode]))
                changed = replace(before, **{option.field: other})
                changes.append(changed.steps() != before.steps())
        assert any(changes), option.name


def _others(option: Option) -> list[object]:
    """Values of an option that are not its default."""
    values = {bool: [True], int: [3], str: option.choices or ["a100"]}[option.kind]
    return [each for each in values if each != option.default]
