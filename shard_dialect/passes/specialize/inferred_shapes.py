"""Ops whose shapes MLIR's passes know: of `tensor`, TOSA, StableHLO, and what computes sizes.

    %d = tensor.dim %x, %c0                                     of a tensor<4x8xf32>, this is 4
    %s = tensor.extract_slice %x[0, 0] [%d, 2] [1, 1]           and this is a tensor<4x2xf32>

Those that come one after the other are copied to a function that has what they read, as it is known
to be, as its arguments; the passes go over it, and what they have made of the copies takes
the place of the ops. StableHLO's want nothing else in a module, and a function of one block.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from shard_dialect.ir.bindings import PassManager, ir, know_stablehlo_passes
from shard_dialect.ir.building import build
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.passes.specialize.known_shapes import (
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
"""For each family of ops."""
_OF_SIZES = ("affine", "arith", "index", "tensor")
_APART = (
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
"""Those that hold or name other code, or end it, or have a rule of ours."""
_CONSTANTS = ("arith.constant", "stablehlo.constant", "tosa.const", "tosa.const_shape")
_ASKS = ("stablehlo.get_dimension_size", "tensor.dim")
"""What makes sizes of shapes."""
_MOST = 64
"""Elements of constants that are sizes."""


def family_of(op: ir.Operation) -> str | None:
    """The family of an op that `Inference` is for."""
    dialect = op.name.partition(".")[0]
    if op.name in _APART or (
        dialect == "arith" and any(map(is_ranked, (*op.operands, *op.results)))
    ):
        return None
    family = "sizes" if dialect in _OF_SIZES else dialect
    return family if family in _PASSES else None


class Inference:
    """Makes known what follows for ops; keeps the passes that it runs."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._managers: dict[str, PassManager] = {}

    def of(self, family: str, ops: Sequence[ir.Operation]) -> None:
        """For `ops` of one family that stand one after the other, and may be replaced."""
        is_exact = family == "sizes"
        for op in ops if not is_exact else ():
            self._known.take_what_is_known(op)
        if not any(map(_is_open, ops)):
            return
        outline = _Outline(is_exact)
        for op in ops:
            outline.add(op)
        self._manager(family).run(outline.finished())
        results = [result for op in ops for result in op.results]
        if any(map(_is_new, outline.made(), results)):
            outline.put_in_place_of(ops)
            self._known.changed = True

    def _manager(self, family: str) -> PassManager:
        if family not in self._managers:
            know_stablehlo_passes()
            self._managers[family] = PassManager.parse(f"builtin.module({_PASSES[family]})")
        return self._managers[family]


def put_constant(argument: ir.Value, operand: ir.Value, known: Known) -> None:
    """Let what may be a size be the constant that it is known to be, here as there."""
    if not is_constant(operand) or not _is_sizes(argument) or not _has_uses(argument):
        return
    owner = argument.owner
    is_argument = isinstance(owner, ir.Block)
    with ir.InsertionPoint.at_block_begin(owner) if is_argument else ir.InsertionPoint(owner):
        constant = operand.owner.clone().operation
    argument.replace_all_uses_with(constant.results[0])
    known.changed = True


def is_constant(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name in _CONSTANTS


def _is_sizes(value: ir.Value) -> bool:
    """Whether these may be sizes, or what is computed of them."""
    type_ = value.type
    if isinstance(type_, ir.RankedTensorType):
        if not type_.has_static_shape or prod(type_.shape) > _MOST:
            return False
        type_ = type_.element_type
    return isinstance(type_, ir.IntegerType | ir.IndexType)


def _has_uses(value: ir.Value) -> bool:
    return next(iter(value.uses), None) is not None


def _is_open(op: ir.Operation) -> bool:
    """Whether something may follow of it that is not known yet."""
    if any(is_ranked(each) and None in shape_of(each.type) for each in op.results):
        return True
    if op.name in _CONSTANTS or not any(_is_sizes(each) and _has_uses(each) for each in op.results):
        return False
    return op.name in _ASKS or all(map(is_constant, op.operands))


def _is_new(made: ir.Value, result: ir.Value) -> bool:
    """Whether `made` says more than `result`, which it is the copy of."""
    if is_ranked(result) and adds(shape_behind(made), result):
        return True
    is_folded = is_constant(behind(made)) and not is_constant(result)
    return is_folded and _is_sizes(result) and _has_uses(result)


def _captured(op: ir.Operation) -> list[ir.Value]:
    """What the regions of `op` read from outside."""
    inside = walk(op) if len(op.regions) else []
    made = {result for each in inside for result in each.results}
    for each in (op, *inside):
        made |= {
            argument for region in each.regions for block in region for argument in block.arguments
        }
    return [value for each in inside for value in each.operands if value not in made]


class _Outline:
    """A module of one function that holds copies of ops, and gives what they make.

    If ops are `exact` about types, they read what is known as they did before, behind a cast.
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
        for value in (*op.operands, *_captured(op)):
            self._see(value)
        copy = _clone_into(op, ir.InsertionPoint(self._block), self._copies)
        self._results += copy.results

    def _see(self, value: ir.Value) -> None:
        """Let there be what stands for `value`: a copy of what makes it, or an argument."""
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
        """The module, when all is added."""
        with ir.InsertionPoint(self._block), ir.Location.unknown():
            build.create("func.return", [], self._results)
        types = [[each.type for each in some] for some in (self._block.arguments, self._results)]
        self._function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))
        return self._module.operation

    def made(self) -> list[ir.Value]:
        """What stands for the results of the ops, one after the other."""
        return list(operations(body(self._function))[-1].operands)

    def put_in_place_of(self, ops: Sequence[ir.Operation]) -> None:
        place = ir.InsertionPoint.after(ops[-1])
        found: dict[ir.Value, ir.Value] = {}
        for argument, value in zip(body(self._function).arguments, self._read, strict=True):
            found[argument] = _as(argument.type, value, place)
        *inside, _ = operations(body(self._function))
        for each in inside:
            _clone_into(each, place, found)
        results = [result for op in ops for result in op.results]
        for result, made in zip(results, self.made(), strict=True):
            result.replace_all_uses_with(_as(result.type, found[made], place))
        for op in reversed(ops):
            op.erase()


def _clone_into(
    op: ir.Operation, place: ir.InsertionPoint, copies: dict[ir.Value, ir.Value]
) -> ir.Operation:
    """A copy of the op that reads the copies of what it reads; its results are among them then."""
    with place:
        copy = op.clone().operation
    for inner in (copy, *walk(copy)):
        for number, operand in enumerate(inner.operands):
            if operand in copies:
                inner.operands[number] = copies[operand]
    copies |= zip(op.results, copy.results, strict=True)
    return copy


def _as(type_: ir.Type, value: ir.Value, place: ir.InsertionPoint) -> ir.Value:
    """The value, as it is behind casts or by a cast, of this type."""
    for each in (value, behind(value)):
        if each.type == type_:
            return each
    with place, value.location:
        return build.create("tensor.cast", [type_], [value]).results[0]
