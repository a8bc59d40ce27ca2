"""Programs of one op, its arguments and results placed on a 2x2 grid.

At random, to see that the op means the same; and as each assignment of grid axes to factors would
have them, to see that it is split.
"""

import random
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from shard_dialect.errors import ShardWarning
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.reading.source import Source
from shard_dialect.model import Assignment, Grid, Sharding, ShardingRule
from shard_dialect.ops import rule_of
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.testing import Sample, Tensor, placement
from tests.test_end_to_end import run_and_check

T = TypeVar("T")
GRID = Grid("g", (2, 2))
HEAD = '"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()\n'


@dataclass(frozen=True)
class Case:
    """`body` makes `%r` of `%0`, `%1`, ... by one op called `op`, and what this needs."""

    op: str
    arguments: tuple[str, ...]
    body: str
    results: tuple[str, ...]
    runs: bool = True
    """Whether there is a lowering to run it by."""

    @property
    def sample(self) -> Sample:
        operands, results = (map(Tensor.read, each) for each in (self.arguments, self.results))
        return Sample(self.op, tuple(operands), self.body, tuple(results))

    @property
    def program(self) -> str:
        return self.placed([], [])

    def placed(
        self, arguments: Sequence[Sharding | None], results: Sequence[Sharding | None]
    ) -> str:
        """The program with these shardings of its arguments and results."""
        return HEAD + placement.placed(self.sample, GRID, arguments, results).partition("\n")[2]


def case(op: str, arguments: str, body: str, results: str, *, runs: bool = True) -> Case:
    """A case with its types apart: in the body, `$0` is that of `%0`, and `$r`, `$s` the results'.

    case("tosa.abs", "4x8xf32", "%r = tosa.abs %0 : ($0) -> $r", "4x8xf32")
    """
    ins, outs = ([f"tensor<{each}>" for each in types.split()] for types in (arguments, results))
    for name, type_ in (*enumerate(ins), *zip("rs", outs, strict=False)):
        body = body.replace(f"${name}", type_)
    return Case(op, tuple(ins), body, tuple(outs), runs)


def at_random(case_: Case, seed: int) -> str:
    """The program, its arguments at random on the grid, and its results too, or left open."""
    rng = random.Random(f"{case_.body}/{seed}")

    def drawn(type_: str) -> Sharding:
        sizes = [int(size) for size in re.findall(r"(\d+)x", type_)]
        split: list[tuple[int, ...]] = [()] * len(sizes)
        for axis in rng.sample((0, 1), 2):
            dim = rng.randrange(len(sizes) + 1) if sizes else 0
            if dim < len(sizes) and sizes[dim] % 2 ** (len(split[dim]) + 1) == 0:
                split[dim] += (axis,)
        return Sharding("g", tuple(split))

    arguments = [drawn(type_) for type_ in case_.arguments]
    is_open = rng.random() < 0.5
    return case_.placed(arguments, [None if is_open else drawn(type_) for type_ in case_.results])


def check_means_the_same(text: str) -> None:
    """Run the program on devices in this process, and against the unsharded one."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", ShardWarning)  # no op runs replicated for want of a rule
        verdict = run_and_check(text, "spmd,lower")
    assert verdict.passed, f"{text}\n{verdict.failure}"


def rule_text(case_: Case) -> str:
    return _with_rule(case_, lambda _, rule: str(rule))


def split_programs(case_: Case) -> list[tuple[Assignment, str]]:
    """For each assignment the program that asks for it: by its boundary, reductions by the op."""
    return [(each.assignment, each.text) for each in placement.sharded_samples(case_.sample, GRID)]


def check_is_split(case_: Case, text: str, assignment: Assignment) -> None:
    """Materialize the program, and look at the types of its op."""

    def look(op: ir.Operation, rule: ShardingRule, shardings: Shardings) -> None:
        for index, operand in enumerate(op.operands):
            expected = rule.operand_sharding(index, assignment, GRID)
            if index not in rule.inits and expected is not None:
                found = shardings.of_type(operand.type)
                whole = Sharding.replicated("g", expected.rank)
                assert (found or whole) == expected, f"operand {index} of {op}"
        for index, result in enumerate(op.results):
            expected = rule.result_sharding(index, assignment, GRID)
            if expected is not None:
                found = shardings.of_type(result.type)
                assert (found or Sharding.replicated("g", expected.rank)) == expected, str(op)

    with make_context(), warnings.catch_warnings():
        warnings.simplefilter("error", ShardWarning)
        module = Source.of(text).parse()
        run_pipeline(module, "propagate,materialize")
        op = placement.named(module.operation, case_.op)
        rule = rule_of(op)
        assert rule is not None
        look(op, rule, Shardings.of(module.operation))


def check_every_split(case_: Case, runs: int = 4) -> int:
    """Every assignment is reachable, and some of them, run, mean the same. How many there are."""
    programs = split_programs(case_)
    for assignment, text in programs:
        check_is_split(case_, text, assignment)
    rng = random.Random(case_.body)
    if case_.runs:
        for _, text in rng.sample(programs, min(runs, len(programs))):
            check_means_the_same(text)
    return len(programs)


def _with_rule(case_: Case, use: Callable[[ir.Operation, ShardingRule], T]) -> T:
    with make_context():
        module = Source.of(case_.program).parse()
        op = placement.named(module.operation, case_.op)
        rule = rule_of(op)
        assert rule is not None, f"no rule: {op}"
        return use(op, rule)
