"""Random programs lie as upstream's own pass has them, and run as the unsharded ones.

    SHARD_DIALECT_UPSTREAM_PROGRAMS=3000 pytest -s tests/propagation/test_upstream_agreement.py

What may differ: trailing dimensions that an annotation names though they have no axes, `[[0], []]`.
Upstream takes them for a demand, we read them as `[[0]]`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from operator import eq

import pytest

from shard_dialect.ir.bindings import PassManager, ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.function import boundary, functions_of
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.shard.sharding_ops import sharding_behind, split_axes
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import Sharding
from shard_dialect.passes.framework.pipeline import run_pipeline
from tests.programs.linalg import random_linalg
from tests.test_end_to_end import run_and_check

pytestmark = pytest.mark.usefixtures("unoptimized")

PROGRAMS = int(os.environ.get("SHARD_DIALECT_UPSTREAM_PROGRAMS", "100"))
TRAVERSALS = ("forward", "backward", "forward-backward", "backward-forward")
Lying = tuple[str, str]
"""A value, and the axes of its dimensions."""


def theirs(text: str, traversal: str) -> list[Lying]:
    """How values lie by upstream's pass.

    As annotated themselves, else as the first of their users sees them, else whole.
    """
    with make_context():
        module = Source.of(text).parse()
        PassManager.parse(
            f"builtin.module(func.func(sharding-propagation{{traversal={traversal}}}))"
        ).run(module.operation)
        function = functions_of(module.operation)[0]
        places = {op: place for place, op in enumerate(operations(body(function)))}
        return [(what, _annotated(value, places)) for what, value in _values(function)]


def _annotated(value: ir.Value, places: dict[ir.Operation, int]) -> str:
    uses = [use.owner.operation for use in value.uses]
    found = [op for op in uses if op.name == "shard.shard"]
    found.sort(key=lambda op: ("annotate_for_users" in op.attributes, places[op]))
    split = split_axes(sharding_behind(found[0].operands[1])) if found else ()
    rank = value.type.rank
    return str(Sharding("", (*split, *((),) * (rank - len(split)))[:rank]))


def ours(text: str, traversal: str) -> list[Lying]:
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, f"propagate{{traversal={traversal}}}")
        function = functions_of(module.operation)[0]
        shardings = Shardings.of(module.operation)

        def axes(attribute: ir.Attribute, rank: int) -> str:
            said = shardings.read_annotation(attribute, rank).sharding
            return str(Sharding("", said.split_axes))

        entries = boundary(function, "arg_attrs")
        found = []
        for what, value in _values(function):
            if isinstance(value.owner, ir.Block):
                said = entries[value.arg_number]["mesh.sharding"]
            else:
                said = value.owner.operation.attributes["mesh.shardings"][value.result_number]
            found.append((what, axes(said, value.type.rank)))
        return found


def _values(function: ir.Operation) -> Iterator[tuple[str, ir.Value]]:
    """The arguments, and the results of ops that are no annotations."""
    for place, argument in enumerate(body(function).arguments):
        yield f"argument {place}", argument
    made = [
        op
        for op in operations(body(function))
        if op.name.partition(".")[0] not in ("mesh", "shard")
    ]
    for number, op in enumerate(made):
        for result in op.results:
            if isinstance(result.type, ir.RankedTensorType):
                yield f"{op.name} {number}", result


def compare(traversal: str, spelt_out: bool) -> tuple[int, int]:
    """How many values lie alike, of how many."""
    alike = compared = 0
    for seed in range(PROGRAMS):
        text = random_linalg(seed, spelt_out)
        mine, upstreams = ours(text, traversal), theirs(text, traversal)
        assert [what for what, _ in mine] == [what for what, _ in upstreams]
        alike += sum(map(eq, mine, upstreams))
        compared += len(mine)
    print(f"{traversal}: {alike} of {compared} values lie alike")
    assert compared > 10 * PROGRAMS
    return alike, compared


@pytest.mark.parametrize("traversal", TRAVERSALS)
def test_values_lie_as_upstream_has_them(traversal: str) -> None:
    alike, compared = compare(traversal, spelt_out=False)
    assert alike == compared


def test_but_for_trailing_dimensions_that_annotations_name() -> None:
    alike, compared = compare("backward-forward", spelt_out=True)
    assert 0.99 * compared < alike < compared


@pytest.mark.parametrize("seed", range(PROGRAMS // 10))
def test_sharded_equals_unsharded(seed: int) -> None:
    traversal = TRAVERSALS[seed % len(TRAVERSALS)]
    passes = f"propagate{{traversal={traversal}}},materialize,optimize-collectives,partition,lower"
    verdict = run_and_check(random_linalg(seed, runs=True), passes)
    assert verdict.passed, verdict.failure
