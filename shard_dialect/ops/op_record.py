"""Op records: all that passes, reports, emitters and tests need to know of an op.

    OpRecord(gather, partition=partition_gather, padding=anything, partial=moves,
             python=Later("backends.python.ops.indexed_access:gather"), traits=Trait.MOVES)
    OpRecord(elementwise, "exp", "f32")

On shards, most ops are the same op on smaller tensors, and need only the rule. An elementwise op
names the function that it applies to each element: its Python, its StableHLO and its arithmetic
follow (`ops.scalar_functions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any

from shard_dialect.ir.bindings import ir
from shard_dialect.model import ShardingRule
from shard_dialect.ops.factors import Query
from shard_dialect.ops.operations import OperationsFunction
from shard_dialect.ops.padding import PaddingFunction, in_second_operand
from shard_dialect.ops.partial_values import PartialFunction
from shard_dialect.ops.partitioned_op import PartitionFunction
from shard_dialect.ops.scalar_functions import FUNCTIONS, NO_TRAIT, ScalarFunction, Trait

RuleFunction = Callable[[Query], "ShardingRule | str | None"]
LoweringFunction = Callable[[ir.Operation], Sequence[ir.Value]]
PythonFunction = Callable[[Any, ir.Operation], None]
"""Of the writer (`backends.python.writer`), to which it writes the statements of an op."""
SampleFunction = Callable[[Any], Any]
"""Of the draws (`testing.random_draws`), by which it makes a `Sample`."""


@dataclass(frozen=True, slots=True)
class Later:
    """A function of another module of the package, which is imported when it is first called.

    So a record can name a function of a module that only the facet's one reader loads, and that may
    import layers above. `given` are its first arguments.
    """

    path: str
    """`module:function`, without the package."""
    given: tuple[Any, ...] = ()

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return loaded(self.path)(*self.given, *arguments)


@cache
def loaded(path: str) -> Any:
    """The function at a path."""
    module, _, name = path.partition(":")
    return getattr(import_module(f"shard_dialect.{module}"), name)


@dataclass(frozen=True, slots=True)
class OpRecord:
    """The record of the ops with one name: a field for each facet that passes and tools need."""

    rule: RuleFunction | None = None
    """Returns the sharding rule for an op and its global shapes, as a `ShardingRule` or as text.

    It returns `None` if this op has none; the op then runs replicated, with a warning, as one
    without a function does.
    """
    function: str = ""
    """The function that an elementwise op applies to each element: a name in `FUNCTIONS`."""
    sample: SampleFunction | str | None = None
    """Draws an instance of the op for tests and random programs. As a text, of an elementwise op:
    the element types of its operands, and of its results if they are others, as `f32 f32 -> i1`.
    """
    partition: PartitionFunction | None = None
    """Changes sizes and positions in attributes and operands from global to local ones."""
    may_be_padded: Callable[[ir.Operation, ShardingRule], bool] | None = None
    """Whether the op may compute elements of padding without harm; without it, each op may."""
    padding: PaddingFunction | None = None
    """The required contents of operands' padding; without it, padding holds anything."""
    harmless: int | None = None
    """A second operand that does not end the program, of integers for which the op may: its padding
    holds it."""
    partial: PartialFunction | None = None
    """Which operands must be partial for the result to be; without it, partial operands are
    reduced first."""
    lowering: LoweringFunction | None = None
    """Creates, at the insertion point, ops that upstream's passes lower; returns their results.

    `lower` replaces the op by them; if they are the op's own results, the op stays.
    """
    loops: LoweringFunction | None = None
    """As `lowering`, for ops that become loops on buffers, after upstream's passes."""
    operations: OperationsFunction | int | None = None
    """The arithmetic of the op on one device, or of each element of its result.

    Without it, nothing is known of its cost, as reports then say; but moving elements is for free.
    """
    python: PythonFunction | str | tuple[str, str] | None = None
    """Writes the op in Python; or the template of an expression, or numpy's and torch's.

    In a template `{0}` is the first operand, `{m}` is `np` or `torch`, and `{shape}` the result's.
    """
    stablehlo: Callable[..., Any] | str | None = None
    """The op's StableHLO: values that are created at the insertion point, or the name of an op.

    The function takes the op; that of an elementwise op also its operands as tensors, and the
    element type of its result.
    """
    shapes: Callable[..., None] | None = None
    """Infers shapes of operands and results from each other, of an op and the `Known` shapes."""
    traits: Trait = NO_TRAIT
    """Properties that passes test instead of the name; those of the function are added."""
    not_run: str = ""
    """The reason why samples cannot be run, if they cannot: there is nothing that lowers them."""

    def __post_init__(self) -> None:
        if self.harmless is not None:
            object.__setattr__(self, "padding", in_second_operand(self.harmless))
        if self.function:
            known = FUNCTIONS[self.function]
            object.__setattr__(self, "traits", self.traits | known.traits | Trait.ELEMENTWISE)
            if self.operations is None:
                object.__setattr__(self, "operations", known.operations)
        if self.operations is None and (
            Trait.MOVES in self.traits or Trait.CONVERTS in self.traits
        ):
            object.__setattr__(self, "operations", 0)

    @property
    def scalar_function(self) -> ScalarFunction | None:
        """The table's entry for the function that the op applies to each element."""
        return FUNCTIONS.get(self.function)


def of_dialect(dialect: str, records: Mapping[str, OpRecord]) -> dict[str, OpRecord]:
    """The records of a dialect's ops, by their names without the dialect.

    Where none names its sample, that is the function of the op's name among the dialect's samples.
    """
    samples = f"testing.samples.{dialect}_samples"
    return {
        f"{dialect}.{name}": replace(each, sample=each.sample or Later(f"{samples}:{name}"))
        for name, each in records.items()
    }
