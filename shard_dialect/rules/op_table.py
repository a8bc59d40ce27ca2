"""From an op to its record: one table per dialect, and the records that users register.

    @sharding_rule("mydialect.scale")
    def _(query):
        return elementwise(query)

    sharding_rule("mydialect.outer")("([i], [j]) -> ([i, j])")

    @sharding_rule("mydialect.crop", partition=partition_crop, lowering=lower_crop)
    def _(query): ...

A single op may have its own rule, as text in `mesh.sharding_rule` (`model.rule_text`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.attributes import RULE
from shard_dialect.model import Reduction, ShardingRule
from shard_dialect.model.rule_text import read_rule
from shard_dialect.rules import manual_collectives, stablehlo
from shard_dialect.rules.dialects import (
    arith_math,
    bufferization_rules,
    linalg_records,
    mesh_rules,
    tensor_rules,
    tosa_rules,
)
from shard_dialect.rules.op_record import LoweringFunction, OpRecord, RuleFunction
from shard_dialect.rules.padding import PaddingFunction
from shard_dialect.rules.partial_values import Numbers, PartialFunction, PartialQuery
from shard_dialect.rules.partitioned_op import PartitionFunction
from shard_dialect.rules.rule_query import Query

_Registered = TypeVar("_Registered", bound="RuleFunction | str")

RECORDS: dict[str, OpRecord] = {
    **arith_math.RECORDS,
    **bufferization_rules.RECORDS,
    **linalg_records.RECORDS,
    **mesh_rules.RECORDS,
    **stablehlo.RECORDS,
    **tensor_rules.RECORDS,
    **tosa_rules.RECORDS,
}

_BUILT_IN = dict(RECORDS)


def is_registered(name: str) -> bool:
    """Whether a user has registered the record of the ops called `name`."""
    return RECORDS.get(name) is not _BUILT_IN.get(name)


def sharding_rule(
    *names: str,
    partition: PartitionFunction | None = None,
    padding: PaddingFunction | None = None,
    partial: PartialFunction | None = None,
    lowering: LoweringFunction | None = None,
) -> Callable[[_Registered], _Registered]:
    """Register the decorated function, or a rule as text, as the rule of the ops called `names`.

    `OpRecord` describes the other functions. An earlier record of the same op is replaced.
    """

    def register(registered: _Registered) -> _Registered:
        rule: RuleFunction = (lambda _: registered) if isinstance(registered, str) else registered
        for name in names:
            RECORDS[name] = OpRecord(rule, partition, padding, partial, lowering)
        return registered

    return register


def record_of(op: ir.Operation) -> OpRecord | None:
    """The record of the op's name; `linalg` ops without one get that of structured ops."""
    record = RECORDS.get(op.name)
    return linalg_records.STRUCTURED if record is None and op.name.startswith("linalg.") else record


def rule_of(op: ir.Operation) -> ShardingRule | None:
    """The op's rule; `None` where there is none, as for tensors of unknown size.

    A rule written on the op takes precedence over the record. Raises `ShardError` where the text of
    a rule is malformed, or does not fit the op.
    """
    function = _function_of(op)
    query = Query.of(op) if function else None
    if function is None or query is None:
        return None
    rule = function(query)
    if isinstance(rule, str):
        read = read_rule(rule, (*query.operands, *query.results)).rule
        return replace(read, role="other") if op.name == CUSTOM_CALL else read
    return rule


CUSTOM_CALL = "stablehlo.custom_call"
"""An op whose rule tells how its dimensions relate, but not what it computes from them."""


def _function_of(op: ir.Operation) -> RuleFunction | None:
    if RULE in op.attributes:
        text = op.attributes[RULE].value
        return lambda _: text
    record = record_of(op)
    return manual_collectives.rule_inside(op) or (record.rule if record else None)


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
