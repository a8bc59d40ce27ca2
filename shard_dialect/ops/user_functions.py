"""Functions of users in op records, guarded: what they raise and return is checked where they do.

    m.mlir:5:8: error: the rule of 'my.op' raised IndexError: list index out of range
    my_ops.py:12:1: note: raised here
    m.mlir:5:8: error: the lowering of 'my.op' returned 2 values, but the op has 1 result

Without it, a wrong value would be an error of the pass that reads it, far from its cause.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from shard_dialect.errors import FAILURES, Diagnostic, ShardError, brief, raised_in, value_text
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import from_mlir_in, location_text
from shard_dialect.model import ShardingRule
from shard_dialect.model.rule_text import check_factors, check_rule
from shard_dialect.ops.factors import Query
from shard_dialect.ops.operations import Flops, LocalOp
from shard_dialect.ops.padding import Filling
from shard_dialect.ops.partial_values import PartialQuery
from shard_dialect.ops.partitioned_op import PartitionedOp
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.processes.code_of_users import in_code_of_user


def guarded(name: str, facet: str, function: Any) -> Any:
    """`function`, a facet of the ops called `name`, which raises nothing but `ShardError`.

    A facet that is no function is returned as it is; raises `ShardError` if it must be one. The op
    is the function's first argument that is one, or that has one as `op` or `handle`.
    """
    others = _OTHERS.get(facet, ())
    if function is None or isinstance(function, others):
        return function
    if not callable(function):
        kinds = " or ".join(["a function", *(f"a {each.__name__}" for each in others)])
        raise ShardError(f"the {facet} of '{name}' is {function!r}: expected {kinds}")
    check = _CHECKS.get(facet, _as_it_is)
    what = f"the {facet} of '{name}'"

    @wraps(function)
    def checked(*arguments: Any) -> Any:
        op = next(filter(None, map(_op_of, arguments)), None)
        location = location_text(op.location) if op is not None else None
        try:
            with in_code_of_user(what, function, location):
                result = function(*arguments)
            return check(result, *arguments)
        except _Refused as error:
            raise ShardError(f"{what} {error}", location, _defined(function)) from None
        except ShardError as error:
            raise error.at(location) from None
        except ir.MLIRError as error:
            raise from_mlir_in(what, error, location) from None
        except FAILURES as error:
            text = f"{what} raised {brief(error)}"
            raise ShardError(text, location, raised_in(error)) from error

    return checked


def _defined(function: Callable[..., Any]) -> tuple[Diagnostic, ...]:
    code = getattr(function, "__code__", None)
    if code is None:
        return ()
    return (Diagnostic("note", "by this function", f"{code.co_filename}:{code.co_firstlineno}:1"),)


def _op_of(argument: object) -> ir.Operation | None:
    for each in (argument, getattr(argument, "op", None), getattr(argument, "handle", None)):
        if isinstance(each, ir.Operation | ir.OpView):
            return each.operation
    return None


_OTHERS: Mapping[str, tuple[type, ...]] = {
    "function": (str,),
    "harmless": (int,),
    "not_run": (str,),
    "operations": (int,),
    "python": (str, tuple),
    "rule": (str,),
    "sample": (str,),
    "stablehlo": (str,),
    "traits": (Trait,),
}
"""By facet: what it may be instead of a function."""


class _Refused(Exception):
    """What the function did, as the verb and the rest of a sentence."""


def _shown(value: object) -> str:
    return f"returned a value of type '{type(value).__name__}'"


def _as_it_is(result: object, *_: object) -> object:
    return result


def _rule(result: object, query: Query) -> ShardingRule | str | None:
    if result is None or isinstance(result, str):
        return result
    if not isinstance(result, ShardingRule):
        raise _Refused(f"{_shown(result)}: expected a sd.ShardingRule, a rule as text, or None")
    try:
        check_factors(result)
    except ShardError as error:
        raise _Refused(f"returned a rule of which {error.message}") from None
    try:
        check_rule(result, query.operands, query.results)
    except ShardError as error:
        raise _Refused(f"returned {result}: {error.message}") from None
    return result


def _values(result: object, op: ir.Operation) -> Sequence[ir.Value]:
    if not isinstance(result, Sequence) or not all(isinstance(each, ir.Value) for each in result):
        raise _Refused(f"{_shown(result)}: expected a list of values, one for each result")
    if len(result) != len(op.results):
        has = "1 result" if len(op.results) == 1 else f"{len(op.results)} results"
        raise _Refused(f"returned {len(result)} values, but the op has {has}")
    return result


def _same_values(result: object, op: ir.Operation) -> object:
    for number, (new, old) in enumerate(zip(_values(result, op), op.results, strict=True)):
        if new.type != old.type:
            raise _Refused(f"returned a {new.type} for result {number} of type {old.type}")
    return result


def _stablehlo(result: object, op: ir.Operation, *_: object) -> object:
    values = _values([result] if isinstance(result, ir.Value) else result, op)
    given = [each.owner for each in op.operands]
    for made_by in (each.owner for each in values if isinstance(each, ir.OpResult)):
        if made_by == op:
            raise _Refused("returned a result of the op itself")
        if not made_by.name.startswith("stablehlo.") and made_by not in given:
            raise _Refused(f"returned a result of '{made_by.name}', which is no op of StableHLO")
        made_by.verify()
    return values


def _partitioned(_: object, partitioned: PartitionedOp) -> None:
    """A function that adapts attributes leaves the types as they are, and the op valid."""
    op = partitioned.op
    for number, (value, shard) in enumerate(zip(op.results, partitioned.results, strict=True)):
        type_ = value.type
        if shard is not None and (
            not isinstance(type_, ir.RankedTensorType) or tuple(type_.shape) != shard.shape
        ):
            raise _Refused(f"left result {number} as {type_}: it has the shape {[*shard.shape]}")
    op.verify()


def _python(_: object, writer: Any, op: ir.Operation) -> None:
    for number, each in enumerate(op.results):
        if each not in writer.values:
            raise _Refused(f"has written nothing for result {number}: call writer.define")


def _operations(result: object, _: LocalOp) -> Flops | None:
    if result is None:
        return None
    count = Flops(result) if isinstance(result, int) else result
    if not isinstance(count, Flops):
        raise _Refused(f"{_shown(result)}: expected a number of operations, a Flops, or None")
    if not (0 <= count.elementary <= count.total <= _MOST_OPERATIONS):
        raise _Refused(f"returned {value_text(result)}: expected from 0 to 1e30 operations")
    return count


_MOST_OPERATIONS = 10**30


def _partial(result: object, query: PartialQuery) -> object:
    numbers = range(len(query.op.operands))
    if result is None or (isinstance(result, set | frozenset) and result <= {*numbers}):
        return result
    raise _Refused(
        f"returned {result!r}: expected a set of operand numbers below {len(numbers)}, or None"
    )


def _padding(result: object, op: ir.Operation, _: ShardingRule) -> object:
    fits = isinstance(result, Sequence) and all(
        isinstance(each, Filling) and 0 <= each.operand < len(op.operands) for each in result
    )
    if result is None or fits:
        return result
    raise _Refused(
        f"returned {result!r}: expected a list of Fillings of operands of the op, or None"
    )


_CHECKS: Mapping[str, Callable[..., Any]] = {
    "rule": _rule,
    "lowering": _same_values,
    "loops": _same_values,
    "operations": _operations,
    "partial": _partial,
    "partition": _partitioned,
    "padding": _padding,
    "stablehlo": _stablehlo,
    "python": _python,
}
"""By facet: the check of what it returns for its arguments."""
