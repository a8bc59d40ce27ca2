"""Propagate the known shapes of arguments to all values computed from them.

    func.func @main(%x: tensor<4xf32>)
      %c = tensor.cast %x : tensor<4xf32> to tensor<?xf32>
      %e = math.exp %c : tensor<?xf32>                      %e = math.exp %x : tensor<4xf32>

MLIR's canonicalization moves casts past the ops of `tensor`, and folds the sizes that programs
compute. TOSA and StableHLO have passes that infer shapes (`infer_by_upstream`). For other ops we
have rules (`shape_rules`). Calls are handled here: each call has its own copy of the callee
meanwhile, and copies that came out equal are merged again. Annotations are in the `mesh` dialect:
those of others do not survive when annotated values are folded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from shard_dialect.errors import as_symbol
from shard_dialect.ir.bindings import ir, know_stablehlo_passes, run_upstream
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.diagnostics import error_at, from_mlir
from shard_dialect.ir.function import is_private, name_of, returns_of, update_type
from shard_dialect.ir.mesh.annotation_ops import annotate_results_after
from shard_dialect.ir.walk import body, has_own_body, operations, walk
from shard_dialect.passes.calls import Calls, callee_of
from shard_dialect.passes.framework.base import UNCHANGED, Outcome, Pass
from shard_dialect.passes.specialize.infer_by_upstream import Inference, family_of, put_constant
from shard_dialect.passes.specialize.shape_rules import (
    PROMISE,
    Known,
    behind,
    common,
    differ,
    is_ranked,
    refuse_promise,
    rule_of,
    shape_behind,
    shape_of,
)

_FOLD = "builtin.module(canonicalize)"
_TO_STATIC = (
    "builtin.module(func.func(stablehlo-canonicalize-dynamism,stablehlo-check-shape-assertions),"
    "canonicalize)"
)
_BARRIER, _HIDES = "mesh.propagation_barrier", "mesh.hides"
"""The mark on a barrier that blocks a pattern and is not in the program."""


@dataclass(frozen=True)
class PropagateShapes(Pass):
    """Infer the shapes of all values from those of the arguments."""

    name = "propagate-shapes"

    entry: str = "main"
    """The function from whose arguments shapes are propagated."""

    def rewrite(self, module: ir.Operation) -> Outcome:
        """Propagate, if there is an open size."""
        if not has_open_sizes(module):
            return UNCHANGED
        _annotations_to_ops(module)
        spread(module, self.entry)
        return None


def has_open_sizes(module: ir.Operation) -> bool:
    """Whether any tensor has a dynamic size."""
    return any(
        is_ranked(each) and not each.type.has_static_shape
        for op in walk(module)
        for each in op.results
    )


def spread(module: ir.Operation, entry: str) -> None:
    """Infer shapes in place until nothing changes. Public functions but `entry` keep their types.

    Raises a located `ShardError` where shapes do not agree, and for recursive functions.
    """
    names = {op.name for op in walk(module)}
    try:
        calls = Calls(module)
        calls.separate()
        while True:
            with _hidden_starts(module):
                _run(_FOLD, module)
            if not _Walk(calls, entry).finds():
                break
        _check(module)
        if any(name.startswith("stablehlo.") for name in names):
            _run(_TO_STATIC, module)
    except ir.MLIRError as error:
        raise from_mlir(error) from None
    calls.join(_text)


def _annotations_to_ops(module: ir.Operation) -> None:
    """Turn the annotations in ops' attributes, of results of unknown size, to annotation ops.

    An op that MLIR replaces loses its attributes.
    """
    for op in walk(module):
        if op.name != "func.func":
            annotate_results_after(op, lambda each: not each.type.has_static_shape)


def _run(pipeline: str, module: ir.Operation) -> None:
    if "stablehlo" in pipeline:
        know_stablehlo_passes()
    run_upstream(pipeline, module)


def _text(function: ir.Operation) -> str:
    """The text of the function without its name."""
    text: str = function.get_asm(use_local_scope=True)
    return text.replace(f"{as_symbol(name_of(function))}(", "@(", 1)


@contextmanager
def _hidden_starts(module: ir.Operation) -> Iterator[None]:
    """Hide the casts that define loops' initial values behind barriers.

    Upstream's canonicalization would give loop-carried values the shape before the cast, whether
    the iterations keep it or not.
    """
    direction = {"allowed_direction": ir.StringAttr.get("none"), _HIDES: ir.UnitAttr.get()}
    for op in walk(module):
        for number, value in enumerate(op.operands) if op.name == "scf.for" else ():
            if is_ranked(value) and not value.type.has_static_shape:
                with ir.InsertionPoint(op), op.location:
                    barrier = build.create(_BARRIER, [value.type], [value], direction)
                op.operands[number] = barrier.results[0]
    yield
    for op in walk(module):
        if _HIDES in op.attributes:
            replace_op(op, op.operands[0])


class _Walk:
    """One traversal of the functions of a module; a function called once is visited at its call."""

    def __init__(self, calls: Calls, entry: str) -> None:
        self._functions = calls.functions
        self._entry = entry
        self._known = Known()
        self._inference = Inference(self._known)
        self._pending: tuple[str | None, list[ir.Operation]] = (None, [])
        """The family and the consecutive ops of it that were visited last."""
        self._calls: list[ir.Operation] = []
        all_ops = [op for function in self._functions.values() for op in walk(function)]
        names = (op.attributes[key] for op in all_ops for key in op.attributes)
        self._times = Counter(
            each.value for each in names if isinstance(each, ir.FlatSymbolRefAttr)
        )
        """How often each function is referred to: by calls, or by ops that rely on its type."""

    def finds(self) -> bool:
        """Traverse the module; return whether a shape was found that was not known."""
        for name, function in self._functions.items():
            if not self._is_called_once(name):
                self._go(function)
        for call in self._calls:
            self._take_from(call)
        return self._known.changed

    def _is_called_once(self, name: str) -> bool:
        """Whether the function has one call only, which then determines its arguments' types."""
        is_there = name in self._functions and name != self._entry
        return is_there and self._times[name] == 1 and is_private(self._functions[name])

    def _go(self, function: ir.Operation) -> None:
        path = [(function, iter(_in_order(body(function).region)))]
        calls: list[ir.Operation] = []
        while path:
            function, ops = path[-1]
            op = next(ops, None)
            if op is None:
                path.pop()
                self._return_from(function)
                if calls:
                    self._take_from(calls.pop())
                continue
            self._note(family_of(op), op)
            if op.name == "func.call":
                self._calls.append(op)
                if self._is_called_once(callee_of(op)):
                    callee = self._functions[callee_of(op)]
                    self._give_to(callee, op)
                    path.append((callee, iter(_in_order(body(callee).region))))
                    calls.append(op)
            elif family_of(op) is None and (rule := rule_of(op.name)):
                rule(op, self._known)

    def _note(self, family: str | None, op: ir.Operation) -> None:
        """Add an op to the current row if it has its family; else infer the row and start anew."""
        before, row = self._pending
        if family != before:
            if before is not None:
                self._inference.of(before, row)
            self._pending = (family, [])
        if family is not None:
            self._pending[1].append(op)

    def _give_to(self, callee: ir.Operation, call: ir.Operation) -> None:
        """Give the arguments the shapes of the call's operands, and replace them by constants."""
        block = body(callee)
        for number, argument in enumerate(list(block.arguments)):
            operand = call.operands[number]
            if not is_ranked(operand):
                continue
            shape = shape_behind(operand)
            self._known.set_operand(call, number, shape)
            self._known.set(argument, shape)
            put_constant(argument, operand, self._known)
        update_type(callee)

    def _return_from(self, function: ir.Operation) -> None:
        name = name_of(function)
        if name != self._entry and not self._is_called_once(name):
            return
        ends = returns_of(function)
        for number, type_ in enumerate(function.attributes["function_type"].value.results):
            if isinstance(type_, ir.RankedTensorType) and ends:
                shape = common([shape_behind(end.operands[number]) for end in ends])
                for end in ends:
                    self._known.set_operand(end, number, shape)
        update_type(function)

    def _take_from(self, call: ir.Operation) -> None:
        callee = self._functions.get(callee_of(call))
        if callee is None:  # it is only declared
            return
        types = callee.attributes["function_type"].value.results
        ends = returns_of(callee) if self._is_called_once(callee_of(call)) else []
        for number, (result, type_) in enumerate(zip(list(call.results), types, strict=True)):
            if isinstance(type_, ir.RankedTensorType):
                self._known.set(result, shape_of(type_))
            if len(ends) == 1:
                put_constant(result, ends[0].operands[number], self._known)


def _in_order(region: ir.Region) -> Iterator[ir.Operation]:
    """The ops of a region; an op with regions comes before the ops in them, and once more after."""
    for block in region.blocks:
        for op in operations(block):
            holds = has_own_body(op.name) and family_of(op) is None
            regions = list(op.regions) if holds else []
            yield op  # which may go
            for inner in regions:
                yield from _in_order(inner)
            if regions:
                yield op


def _check(module: ir.Operation) -> None:
    """Raise for loops that may not keep a shape, and for casts between contradicting types."""
    for op in walk(module):
        if op.name == PROMISE:
            raise refuse_promise(op)
        if op.name == "tensor.cast":
            source, result_type = behind(op.operands[0]).type, op.results[0].type
            if differ(source, result_type):
                raise error_at(op.location, f"'tensor.cast' op makes a {result_type} of a {source}")
