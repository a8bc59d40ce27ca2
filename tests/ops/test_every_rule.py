"""Each op that has a sharding rule, cut on grids of 2, 3, 4 and 2x2 devices, is the unsharded op.

A rule joins by being registered, and its op's sample (`shard_dialect.testing`) with it: a rule
whose op has none fails here. Of each op an uneven instance is cut in one of the ways that the rule
allows, into equal shards and at offsets, and placed in another; of one op of each kind an even
instance, too, and of all with

    pytest -m exhaustive tests/ops/test_every_rule.py

    SHARD_DIALECT_EVERY_CUT=20 pytest tests/ops/test_every_rule.py

draws 20 instances of each kind and cuts them in every way. What nothing lowers is cut, and no more.
"""

import os
import random
import re
import warnings
from collections.abc import Iterable, Iterator

import pytest

from shard_dialect.analysis.costs.op_flops import flops_of, tensor_info
from shard_dialect.errors import ShardWarning
from shard_dialect.ir.bindings import ir, submodule
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import walk
from shard_dialect.model import Grid
from shard_dialect.ops import op_table
from shard_dialect.ops.op_record import Later, OpRecord
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.testing import (
    SAMPLES,
    Draws,
    Sample,
    not_run,
    placed,
    reference_of,
    run_and_check,
    runnable,
    sampled,
    sharded_samples,
)
from shard_dialect.testing.random_draws import EVEN, UNEVEN
from shard_dialect.testing.random_shardings import any_sharding
from tests.conftest import at_level

GRIDS = tuple(Grid("g", shape) for shape in ((2,), (3,), (4,), (2, 2)))
INSTANCES = int(os.environ.get("SHARD_DIALECT_EVERY_CUT", "0"))
SIZES = {"even": EVEN, "uneven": UNEVEN}
"""Of an instance one cut is tried, where not all are asked for; and one is placed at random."""

NOT_SAMPLED = {
    "ml_program.global_load_graph": "it stands in ml_program's graphs, which are no functions",
    "ml_program.global_store_graph": "it stands in ml_program's graphs, which are no functions",
    "mesh.collective_permute": "of stages, which shard_dialect/testing/random_stages.py draws",
    "mesh.transfer": "of stages, too",
    "mesh.roll": "no program's own: what --shift-slices makes, for which tests draw stencils",
}
NO_LOOPS = {"linalg.index", "linalg.yield"}


def instances(op: str, sizes: str) -> Iterator[Sample]:
    """The same at every run: of sizes that grids divide, or not."""
    for number in range(INSTANCES or 1):
        yield SAMPLES[op](Draws(random.Random(f"{op}/{number}"), SIZES[sizes]))


def kind(op: str) -> tuple[object, ...]:
    """Ops of a kind share their dialect, the function that is their rule, and their sample's.

    One function draws the samples of linalg's windows, of which pooling is one kind.
    """
    dialect, _, name = op.partition(".")
    record = op_table.RECORDS[op]
    drawn = record.sample
    if isinstance(drawn, Later):
        drawn = name.partition("_")[0] if drawn.path.endswith(":windowed") else drawn.path
    return dialect, record.rule, drawn


def of_sizes(ops: Iterable[str]) -> pytest.MarkDecorator:
    """Each op with uneven sizes; the first of a kind with even ones, too, and all in full runs."""
    cases, first = [], {kind(op): op for op in reversed(list(ops))}
    for op in ops:
        for sizes in SIZES:
            is_left = sizes == "even" and first[kind(op)] != op and not INSTANCES
            marks = [pytest.mark.exhaustive] if is_left else []
            cases.append(pytest.param(op, sizes, id=f"{op}-{sizes}", marks=marks))
    return pytest.mark.parametrize(("op", "sizes"), cases)


def programs_of(sample: Sample) -> list[str]:
    """The sample cut as its rule allows, and placed at random."""
    rng = random.Random(str(sample))
    made = []
    for grid in GRIDS if INSTANCES else rng.sample(GRIDS, 1):
        found = sharded_samples(sample, grid)
        for cuts in (found, sharded_samples(sample, grid, offsets=rng)):
            chosen = cuts if INSTANCES else rng.sample(cuts, min(1, len(cuts)))
            made += [each.text for each in chosen]
    for _ in range(8 if INSTANCES else 1):
        grid = rng.choice(GRIDS)
        tensors = (*sample.operands, *sample.results)
        lie = [any_sharding(rng, each.shape, grid, extents=True) for each in tensors]
        operands = len(sample.operands)
        made.append(placed(sample, grid, lie[:operands], lie[operands:]))
    return made


def without_sample() -> set[str]:
    with_rule = {name for name, record in op_table.RECORDS.items() if record.rule}
    return with_rule - set(SAMPLES) - set(NOT_SAMPLED)


def test_every_rule_has_a_sample() -> None:
    assert not without_sample()


def test_a_rule_without_a_sample_is_found_and_one_with_it_joins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(op_table.RECORDS, "example.twice", OpRecord())  # so that it is gone later
    op_table.sharding_rule("example.twice")("([i]) -> ([i])")
    assert without_sample() == {"example.twice"}

    def draw(draws: Draws) -> Sample:
        x = draws.any(least=1)
        return Sample.of("example.twice", [x], '%r = "example.twice"(%0) : ($0) -> $r', [x])

    op_table.sharding_rule("example.twice", sample=draw)("([i]) -> ([i])")
    assert not without_sample()
    assert "example.twice" in runnable()
    sampled("example.twice", not_run="it is an example")(draw)
    assert "example.twice" not in runnable()


def test_every_op_of_linalg_has_a_sample() -> None:
    classes = vars(submodule("dialects._linalg_ops_gen")).values()
    names = {each.OPERATION_NAME for each in classes if hasattr(each, "OPERATION_NAME")}
    assert names - set(SAMPLES) == NO_LOOPS


def test_what_is_not_run_has_a_sample() -> None:
    assert set(not_run()) <= set(SAMPLES)


@pytest.mark.parametrize(
    "op",
    [
        each
        for each in SAMPLES
        if re.search("matmul|dot|conv", each) and not re.search("_q|quant", each)
    ],
)
def test_a_rule_has_the_operations_that_a_report_counts(op: str) -> None:
    """Of products and sums: a report also counts what quantized ones subtract."""
    for number in range(6):
        sample = SAMPLES[op](Draws(random.Random(f"{op}/{number}"), UNEVEN))
        with make_context():
            module = Source.of(placed(sample)).parse()
            (found,) = (each for each in walk(module.operation) if each.name == op)
            rule = op_table.rule_of(found)
            known = [
                [
                    tensor_info(each.type) if isinstance(each.type, ir.RankedTensorType) else None
                    for each in values
                ]
                for values in (found.operands, found.results)
            ]
            counted = flops_of(found, *known)
            if rule is not None and rule.is_product:
                unsplit = ((),) * len(rule.sizes)
                assert counted is not None
                assert rule.flops(unsplit, GRIDS[0]) == counted.total


@of_sizes(runnable())
def test_the_op_cut_is_the_unsharded_op(op: str, sizes: str) -> None:
    for sample in instances(op, sizes):
        assert sample.op == op
        with at_level(0):
            reference = reference_of(placed(sample))
        for number, text in enumerate(programs_of(sample)):
            # An op's code is optimized in one program; in the others, the passes are tested.
            level = 2 if number == 0 and sizes == "uneven" else 0
            with at_level(level), warnings.catch_warnings():
                warnings.simplefilter("error", ShardWarning)  # of ops without a rule, for one
                verdict = run_and_check(text, "spmd,lower", reference=reference).verdict
            assert verdict.passed, f"{text}\n{verdict.failure}"


@of_sizes(sorted(not_run()))
def test_what_is_not_run_is_cut(op: str, sizes: str) -> None:
    for sample in instances(op, sizes):
        assert sample.op == op
        for text in programs_of(sample):
            with make_context(), warnings.catch_warnings():
                warnings.simplefilter("error", ShardWarning)
                module = Source.of(text).parse()
                run_pipeline(module, "spmd")
