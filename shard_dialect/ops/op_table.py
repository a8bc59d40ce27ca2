"""From an op to its record and its rule: one table per dialect, and the records of users.

    @sharding_rule("mydialect.scale")
    def _(query):
        return elementwise(query)

    sharding_rule("mydialect.outer", operations=1)("([i], [j]) -> ([i, j])")

    @sharding_rule("mydialect.crop", partition=partition_crop, lowering=lower_crop)
    def _(query): ...

A single op may have its own rule, as text in `mesh.sharding_rule` (`model.rule_text`).

Collectives in manual computations, StableHLO's and upstream's, have rules, too:

    all_gather dim 1     ([a, b]) -> ([a, c]) whole={b, c}

They exchange shards along manual axes. The devices of a group have equal positions along the free
axes, so a dimension that the collective does not change may be split along them. A dimension that
it changes is whole.

`OpKinds` finds equal ops: programs repeat their layers, so results are computed once for all ops of
a kind. Two ops are of one kind if no sharding rule can tell them apart: they have one name, the
same attributes and regions, and values of the same types. Results that follow from an op's rule and
from shardings are kept in dictionaries with the kind as a key. Facts that depend on the ops that
make an operand, such as whether it is a constant, do not follow from the kind.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

from shard_dialect.collectives.collective_record import CollectiveRecord
from shard_dialect.collectives.collective_table import LOCAL
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir, spelled
from shard_dialect.ir.building import build
from shard_dialect.ir.context import expect_code_of_users
from shard_dialect.ir.diagnostics import location_text
from shard_dialect.ir.mesh.annotation_ops import computations_around
from shard_dialect.ir.mesh.attributes import RULE
from shard_dialect.ir.numbered_function import Kind, Op, Value
from shard_dialect.ir.walk import has_own_body, operations
from shard_dialect.model import Reduction, ShardingRule
from shard_dialect.model.rule_text import check_rule, read_rule
from shard_dialect.ops import stablehlo
from shard_dialect.ops.dialects import (
    arith_math,
    bufferization_rules,
    linalg_records,
    mesh_rules,
    tensor_rules,
    tosa_rules,
)
from shard_dialect.ops.factors import Query
from shard_dialect.ops.op_record import (
    LoweringFunction,
    OpRecord,
    PythonFunction,
    RuleFunction,
    SampleFunction,
)
from shard_dialect.ops.operations import Flops, LocalOp
from shard_dialect.ops.padding import PaddingFunction, anything, identities
from shard_dialect.ops.partial_values import Numbers, PartialFunction, PartialQuery
from shard_dialect.ops.partitioned_op import PartitionFunction
from shard_dialect.ops.scalar_functions import NO_TRAIT, Trait
from shard_dialect.ops.stablehlo import data_movement
from shard_dialect.ops.stablehlo.collective_rules import changing
from shard_dialect.ops.stablehlo.custom_call import CUSTOM_CALL, of_unknown_body
from shard_dialect.ops.user_functions import guarded

if TYPE_CHECKING:
    from typing_extensions import Unpack

_Rule = Callable[[Query], ShardingRule | None]


def _changing(*names: str) -> _Rule:
    return changing(*names, staying="passed")


_RULES: dict[str, _Rule] = {
    "stablehlo.all_gather": _changing("all_gather_dim"),
    "stablehlo.all_reduce": data_movement.alike,
    "stablehlo.all_to_all": _changing("split_dimension", "concat_dimension"),
    "stablehlo.collective_permute": data_movement.alike,
    "stablehlo.partition_id": data_movement.alike,
    "stablehlo.reduce_scatter": _changing("scatter_dimension"),
}


def may_be_collective(name: str) -> bool:
    """Whether the rule of an op of this name may be that of a collective (`rule_inside`)."""
    return name in _RULES or name in LOCAL


def rule_inside(op: ir.Operation) -> _Rule | None:
    """The rule function of a collective in a manual computation; `None` for other ops."""
    record = LOCAL.get(op.name)
    if (op.name not in _RULES and record is None) or next(computations_around(op), None) is None:
        return None
    return _RULES[op.name] if record is None else _rule_of_step(record)


def _rule_of_step(record: CollectiveRecord) -> _Rule | None:
    """Dimensions that are joined or cut are whole; of halos and messages nothing is known."""
    assert record.local is not None, "it is an op"
    if record.step.exchanges or record.step.is_message:
        return None
    dims = [spelled(each) for each in record.local.of_kind("dimension")]
    return _changing(*dims) if dims else data_movement.alike


_Registered = TypeVar("_Registered", bound="RuleFunction | str")

RECORDS: dict[str, OpRecord] = {
    **arith_math.WITHOUT_RULE,
    **stablehlo.WITHOUT_RULE,
    **tosa_rules.WITHOUT_RULE,
    **arith_math.RECORDS,
    **bufferization_rules.RECORDS,
    **linalg_records.RECORDS,
    **mesh_rules.RECORDS,
    **stablehlo.RECORDS,
    **tensor_rules.RECORDS,
    **tosa_rules.RECORDS,
}

_BUILT_IN = dict(RECORDS)


_OF_RULE = ("partition", "padding", "harmless", "partial")


def is_registered(name: str) -> bool:
    """Whether a user has registered the record of the ops called `name`."""
    return RECORDS.get(name) is not _BUILT_IN.get(name)


def has_records_of_users() -> bool:
    """Whether a user has registered the record of any op."""
    return any(map(is_registered, RECORDS))


def has_own_lowering(name: str) -> bool:
    """Whether a user has registered the lowering of the ops called `name`."""
    now, before = RECORDS.get(name, OpRecord()), _BUILT_IN.get(name, OpRecord())
    return now.lowering is not None and now.lowering != before.lowering


class Facets(TypedDict, total=False):
    """What `sharding_rule` takes besides a rule, as fields of `OpRecord`, which describes them."""

    function: str
    sample: SampleFunction | str
    partition: PartitionFunction
    padding: PaddingFunction | Literal["identity", "anything"]
    harmless: int
    partial: PartialFunction
    lowering: LoweringFunction
    loops: LoweringFunction
    operations: Callable[[LocalOp], Flops | int | None] | int
    python: PythonFunction | str | tuple[str, str]
    stablehlo: Callable[..., Any] | str
    shapes: Callable[..., None]
    traits: Trait
    not_run: str


_PADDINGS: dict[str, PaddingFunction] = {"identity": identities, "anything": anything}


def sharding_rule(*names: str, **facets: Unpack[Facets]) -> Callable[[_Registered], _Registered]:
    """Register the decorated function, or a rule as text, as the rule of the ops called `names`.

    Keywords say what else is known of the op:

    * `lowering`: a function that makes, at the insertion point, ops that the compiler knows, and
      returns the values that they have for the op's results
    * `operations`: its arithmetic, a number for each element of the result, or a function of the
      op on one device (`LocalOp`)
    * `partition`: a function that changes attributes from global to local sizes (`PartitionedOp`)
    * `padding`: what an operand that is reduced along an uneven dimension holds beyond its end:
      "identity", that of the reduction, or "anything"; without it, the dimension is gathered
    * `partial`: a function that says which operands may be partial sums
    * `python`: the template of an expression, `{0}` the first operand, for emitted programs
    * `stablehlo`: the name of an op of StableHLO that takes the same operands, `abs`, or a function
      that makes it; without it, XLA gets what the lowering makes
    * `sample`: a function that draws an instance of it, for tests (docs/testing.md)

    Of an earlier record of the same op what goes with its rule (partition, padding, partial) is
    dropped; the others stay. Each function is guarded: an error that it raises is reported at the
    op.
    """

    def register(registered: _Registered) -> _Registered:
        rule: RuleFunction = (lambda _: registered) if isinstance(registered, str) else registered
        given: dict[str, Any] = {"rule": rule, **dict.fromkeys(_OF_RULE), **facets}
        if isinstance(given["padding"], str):
            given["padding"] = _PADDINGS.get(given["padding"], given["padding"])
        if isinstance(named_op := given.get("stablehlo"), str):
            given["stablehlo"] = named_op.removeprefix("stablehlo.")
        unknown = given.keys() - {each.name for each in fields(OpRecord)}
        if unknown:
            raise ShardError(f"unknown facets of {', '.join(names)}: {', '.join(sorted(unknown))}")
        expect_code_of_users()
        for name in names:
            checked = {facet: guarded(name, facet, each) for facet, each in given.items()}
            RECORDS[name] = replace(named(name) or OpRecord(), **checked)
        return registered

    return register


UNREPEATABLE = ("stablehlo.custom_call", "stablehlo.rng", "func.call", "call")
"""Ops that may do something else each time, and on each device."""


def named(name: str) -> OpRecord | None:
    """The record of a name; `linalg` ops without one get that of structured ops."""
    record = RECORDS.get(name)
    return linalg_records.STRUCTURED if record is None and name.startswith("linalg.") else record


def record_of(op: ir.Operation) -> OpRecord | None:
    """The record of the op's name."""
    return named(op.name)


def traits_of(name: str) -> Trait:
    """The traits of the ops called `name`: none if nothing is known of them."""
    record = named(name)
    return record.traits if record else NO_TRAIT


def rule_of(op: ir.Operation) -> ShardingRule | None:
    """The op's rule; `None` where there is none, as for tensors of unknown size.

    A rule written on the op takes precedence over the record. A factor that a result lacks, and of
    which the text says nothing, is needed whole. Raises `ShardError` where the text of a rule is
    malformed, or does not fit the op.
    """
    function = _function_of(op)
    query = Query.of(op) if function else None
    if function is None or query is None:
        return None
    rule = function(query)
    if isinstance(rule, str):
        try:
            read = read_rule(rule, (*query.operands, *query.results)).rule
            check_rule(read, query.operands, query.results)
        except ShardError as error:
            whose = "" if RULE in op.attributes else f"the rule of '{op.name}': "
            place = location_text(op.location)
            raise ShardError(whose + error.message, place, error.notes) from None
        if op.name == CUSTOM_CALL:
            return of_unknown_body(op, read)
        return replace(read, role="", need_replication=read.need_replication | read.lost)
    return rule


_CHEAP = ("elementwise", "pass", "broadcast")


def is_cheap(op: ir.Operation) -> bool:
    """Whether an op may as well be done again, or earlier: a constant, a view, on elements."""
    if not len(op.operands):
        return str(op.name).endswith((".constant", ".iota"))
    rule = rule_of(op)
    return rule is not None and rule.role in _CHEAP


def _function_of(op: ir.Operation) -> RuleFunction | None:
    if RULE in op.attributes:
        text = op.attributes[RULE].value
        return lambda _: text
    record = record_of(op)
    return rule_inside(op) or (record.rule if record else None)


def carries(
    op: ir.Operation, rule: ShardingRule, numbers: Numbers, reduction: Reduction, *, narrow: bool
) -> Numbers | None:
    """All operands that must be partial, where those at `numbers` are, so that the result is.

    `None` if the result would not be the partial value. With `narrow`, conversions may round each
    summand.
    """
    record = record_of(op)
    if record is None or record.partial is None or _is_bool(op):
        return None
    partial_operands = record.partial(PartialQuery(op, rule, numbers, reduction, narrow))
    if partial_operands is not None and op.name.startswith("linalg."):
        count = len(op.operands)
        return partial_operands | set(range(count - len(op.results), count))
    return partial_operands


def _is_bool(op: ir.Operation) -> bool:
    type_ = op.results[0].type
    return isinstance(type_, ir.ShapedType) and str(type_.element_type) == "i1"


@dataclass(frozen=True, eq=False, slots=True)
class OpKind:
    """Ops that are alike. Kinds are equal only if they are the same object."""

    rule: ShardingRule | None


class OpKinds:
    """The kinds of one module's ops. Equal rules are one object."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, OpKind] = {}
        self._rules: dict[ShardingRule | None, ShardingRule | None] = {}

    def kind_of(
        self, handle: ir.Operation, name: str, operands: tuple[Kind, ...], results: tuple[Kind, ...]
    ) -> OpKind:
        """The kind of an op; the key has all that a built-in rule may depend on.

        The rule of a user may depend on anything, so his ops are all of different kinds.
        """
        if is_registered(name):
            return OpKind(self._rule(handle))
        is_by_neighbours = may_be_collective(name) or Trait.BY_NEIGHBOURS in traits_of(name)
        by_neighbours = self._rule(handle) if is_by_neighbours else None
        attributes = tuple(handle.attributes.items()) if name not in build.CONSTANTS else None
        key = (name, operands, results, attributes, _body_of(handle, name), id(by_neighbours))
        kind = self._kinds.get(key)
        if kind is None:
            rule = by_neighbours if is_by_neighbours else self._rule(handle)
            kind = self._kinds[key] = OpKind(rule)
        return kind

    def _rule(self, handle: ir.Operation) -> ShardingRule | None:
        rule = rule_of(handle)
        return self._rules.setdefault(rule, rule)

    def kind_in(self, values: Sequence[Value], op: Op) -> OpKind:
        """The kind of an op of a function with these values."""
        operands = tuple([values[value].kind for value in op.operands])
        results = tuple([values[value].kind for value in op.results])
        return self.kind_of(op.handle, op.name, operands, results)


def _body_of(handle: ir.Operation, name: str) -> Hashable:
    """The ops in the regions, with numbers for values, -1 for those from outside."""
    if not has_own_body(name):
        return None
    regions = handle.regions
    return tuple(_inside(regions, {})) if len(regions) else None


def _inside(regions: ir.RegionSequence, numbers: dict[ir.Value, int]) -> Iterator[Hashable]:
    """The ops as they follow each other, those in their regions behind each.

    Not their text: to print an op verifies the function around it.
    """
    for region in regions:
        for block in region.blocks:
            for argument in block.arguments:
                numbers[argument] = len(numbers)
            inside = operations(block)
            yield len(inside), tuple([each.type for each in block.arguments])
            for inner in inside:
                operands = tuple([numbers.get(operand, -1) for operand in inner.operands])
                types = tuple([result.type for result in inner.results])
                yield inner.name, operands, types, tuple(inner.attributes.items())
                yield from _inside(inner.regions, numbers)
                for result in inner.results:
                    numbers[result] = len(numbers)
