"""Infer shapes by MLIR's own passes: for `tensor`, TOSA, StableHLO, and arithmetic on sizes.

    %d = tensor.dim %x, %c0                                     of a tensor<4x8xf32>, this is 4
    %s = tensor.extract_slice %x[0, 0] [%d, 2] [1, 1]           and this is a tensor<4x2xf32>

Consecutive ops of one family are copied to a function in a module of its own. Its arguments are the
values that the ops read, with the shapes that are known. The passes run on it, and the rewritten
copies replace the ops. A separate module is needed because StableHLO's passes accept
nothing else in a module, and only functions of one block.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from shard_dialect.ir.bindings import PassManager, ir, know_stablehlo_passes
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import is_used
from shard_dialect.ir.walk import body, is_made_by, operations, walk
from shard_dialect.passes.specialize.shape_rules import (
    Known,
    adds,
    behind,
    is_ranked,
    shape_behind,
    shape_of,
    with_shape,
)

_PASSES = {
    "sizes": "canonicalize",
    "stablehlo": "stablehlo-refine-shapes,func.func(stablehlo-canonicalize-dynamism),canonicalize",
    "tosa": "func.func(tosa-infer-shapes),canonicalize",
}
"""The pass pipeline for each family of ops."""
_OF_SIZES = ("affine", "arith", "index", "tensor")
_NOT_GROUPED = (
    "stablehlo.case",
    "stablehlo.composite",
    "stablehlo.custom_call",
    "stablehlo.if",
    "stablehlo.optimization_barrier",
    "stablehlo.return",
    "stablehlo.while",
    "tensor.cast",
    "tensor.concat",
    "tensor.reshape",
    "tensor.splat",
    "tensor.yield",
    "tosa.cond_if",
    "tosa.while_loop",
    "tosa.yield",
)
"""Ops left out: with regions or callees, terminators, and those with a rule in `shape_rules`."""
_CONSTANTS = ("arith.constant", "stablehlo.constant", "tosa.const", "tosa.const_shape")
_ASKS = ("stablehlo.get_dimension_size", "tensor.dim")
"""Ops that return a size of a shaped operand."""
_MOST = 64
"""The largest number of elements of a tensor that may hold sizes."""


def family_of(op: ir.Operation) -> str | None:
    """The family in whose pipeline an op is inferred; `None` for an op that no pipeline handles."""
    dialect = op.name.partition(".")[0]
    if op.name in _NOT_GROUPED or (
        dialect == "arith" and any(map(is_ranked, (*op.operands, *op.results)))
    ):
        return None
    family = "sizes" if dialect in _OF_SIZES else dialect
    return family if family in _PASSES else None


class Inference:
    """Infers the shapes of ops by MLIR's passes; caches the pass managers."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._managers: dict[str, PassManager] = {}

    def of(self, family: str, ops: Sequence[ir.Operation]) -> None:
        """Infer for `ops`, consecutive ops of one family, and replace them if something is new."""
        is_exact = family == "sizes"
        for op in ops if not is_exact else ():
            self._known.infer_from(op)
        if not any(map(_is_open, ops)):
            return
        outline = _Outline(is_exact)
        for op in ops:
            outline.add(op)
        self._manager(family).run(outline.finished())
        results = [result for op in ops for result in op.results]
        if any(map(_is_new, outline.results_inferred(), results)):
            outline.replace_ops(ops)
            self._known.changed = True

    def _manager(self, family: str) -> PassManager:
        if family not in self._managers:
            know_stablehlo_passes()
            self._managers[family] = PassManager.parse(f"builtin.module({_PASSES[family]})")
        return self._managers[family]


def put_constant(argument: ir.Value, operand: ir.Value, known: Known) -> None:
    """Replace `argument`, if it may be a size, by the constant `operand`."""
    if not is_constant(operand) or not _is_sizes(argument) or not is_used(argument):
        return
    owner = argument.owner
    is_argument = isinstance(owner, ir.Block)
    with ir.InsertionPoint.at_block_begin(owner) if is_argument else ir.InsertionPoint(owner):
        constant = operand.owner.clone().operation
    argument.replace_all_uses_with(constant.results[0])
    known.changed = True


def is_constant(value: ir.Value) -> bool:
    """Whether a constant op defines the value."""
    return is_made_by(value, *_CONSTANTS)


def _is_sizes(value: ir.Value) -> bool:
    """Whether the value may hold sizes, or numbers computed from sizes: a few integers."""
    type_ = value.type
    if isinstance(type_, ir.RankedTensorType):
        if not type_.has_static_shape or prod(type_.shape) > _MOST:
            return False
        type_ = type_.element_type
    return isinstance(type_, ir.IntegerType | ir.IndexType)


def _is_open(op: ir.Operation) -> bool:
    """Whether inference may find a shape or a constant for the op that is not known yet."""
    if any(is_ranked(each) and None in shape_of(each.type) for each in op.results):
        return True
    if op.name in _CONSTANTS or not any(_is_sizes(each) and is_used(each) for each in op.results):
        return False
    return op.name in _ASKS or all(map(is_constant, op.operands))


def _is_new(inferred: ir.Value, result: ir.Value) -> bool:
    """Whether `inferred`, the copy of `result`, has a more exact shape or became a constant."""
    if is_ranked(result) and adds(shape_behind(inferred), result):
        return True
    is_folded = is_constant(behind(inferred)) and not is_constant(result)
    return is_folded and _is_sizes(result) and is_used(result)


def _captured(op: ir.Operation) -> list[ir.Value]:
    """The values from outside that the regions of `op` read."""
    inside = walk(op) if len(op.regions) else []
    defined = {result for each in inside for result in each.results}
    for each in (op, *inside):
        defined |= {
            argument for region in each.regions for block in region for argument in block.arguments
        }
    return [value for each in inside for value in each.operands if value not in defined]


class _Outline:
    """A module of one function that holds copies of ops and returns their results.

    If the ops are `exact` about types, a cast restores the type that they had for each operand.
    """

    def __init__(self, is_exact: bool) -> None:
        self._is_exact = is_exact
        self._module = ir.Module.create()
        with ir.InsertionPoint(self._module.body):
            self._function = build.create(
                "func.func",
                [],
                [],
                {
                    "sym_name": ir.StringAttr.get("main"),
                    "function_type": ir.TypeAttr.get(ir.FunctionType.get([], [])),
                },
                regions=1,
            )
        self._block = self._function.regions[0].blocks.append()
        self._read: list[ir.Value] = []
        self._copies: dict[ir.Value, ir.Value] = {}
        self._results: list[ir.Value] = []

    def add(self, op: ir.Operation) -> None:
        """Copy an op to the end of the function."""
        for value in (*op.operands, *_captured(op)):
            self._see(value)
        copy = _clone_into(op, ir.InsertionPoint(self._block), self._copies)
        self._results += copy.results

    def _see(self, value: ir.Value) -> None:
        """Give `value` a copy in the function: a clone of its constant, or an argument."""
        if value in self._copies:
            return
        if is_constant(value) and (_is_sizes(value) or not is_ranked(value)):
            _clone_into(value.owner.operation, ir.InsertionPoint(self._block), self._copies)
            return
        type_ = value.type
        if is_ranked(value):
            type_ = with_shape(type_, shape_behind(value))
        self._read.append(value)
        copy: ir.Value = self._block.add_argument(type_, ir.Location.unknown())
        if self._is_exact:
            copy = _as(value.type, copy, ir.InsertionPoint(self._block))
        self._copies[value] = copy

    def finished(self) -> ir.Operation:
        """Terminate the function and return the module."""
        with ir.InsertionPoint(self._block), ir.Location.unknown():
            build.create("func.return", [], self._results)
        types = [[each.type for each in some] for some in (self._block.arguments, self._results)]
        self._function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))
        return self._module.operation

    def results_inferred(self) -> list[ir.Value]:
        """The copies of the ops' results, in order."""
        return list(operations(body(self._function))[-1].operands)

    def replace_ops(self, ops: Sequence[ir.Operation]) -> None:
        point = ir.InsertionPoint.after(ops[-1])
        copies: dict[ir.Value, ir.Value] = {}
        for argument, value in zip(body(self._function).arguments, self._read, strict=True):
            copies[argument] = _as(argument.type, value, point)
        *inside, _ = operations(body(self._function))
        for each in inside:
            _clone_into(each, point, copies)
        results = [result for op in ops for result in op.results]
        for result, inferred in zip(results, self.results_inferred(), strict=True):
            result.replace_all_uses_with(_as(result.type, copies[inferred], point))
        for op in reversed(ops):
            op.erase()


def _clone_into(
    op: ir.Operation, point: ir.InsertionPoint, copies: dict[ir.Value, ir.Value]
) -> ir.Operation:
    """Clone the op at `place`, with operands replaced by `copies`; add its results to `copies`."""
    with point:
        copy = op.clone().operation
    for inner in (copy, *walk(copy)):
        for number, operand in enumerate(inner.operands):
            if operand in copies:
                inner.operands[number] = copies[operand]
    copies |= zip(op.results, copy.results, strict=True)
    return copy


def _as(type_: ir.Type, value: ir.Value, point: ir.InsertionPoint) -> ir.Value:
    """The value in this type: itself, the source of its casts, or a new cast."""
    for each in (value, behind(value)):
        if each.type == type_:
            return each
    with point, value.location:
        return build.create_value("tensor.cast", type_, [value])
