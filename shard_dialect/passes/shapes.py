"""Shapes that become known: from a cast of a tensor of known shape to all that is made of it.

    %c = tensor.cast %x : tensor<4xf32> to tensor<?xf32>
    %e = math.exp %c : tensor<?xf32>                        %e = math.exp %x : tensor<4xf32>

MLIR's canonicalization moves casts past the ops of `tensor`, `linalg` and `scf.for`, and folds the
sizes that programs compute; TOSA and StableHLO have passes that infer. What these leave is here:
elementwise ops, annotations, calls, branches, and what goes around an `scf.while`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

from shard_dialect.ir import annotation, build
from shard_dialect.ir.bindings import PassManager, ir, know_stablehlo_passes
from shard_dialect.ir.diagnostics import error_at, from_mlir
from shard_dialect.ir.function import functions_of, is_private, name_of, returns_of, update_type
from shard_dialect.ir.walk import body, operations, walk

Shape = tuple[int | None, ...]
"""`None` for a size that is not known."""

_UPSTREAM = "builtin.module(canonicalize,func.func(tosa-infer-shapes))"
_OF_STABLEHLO = "builtin.module(stablehlo-refine-shapes,func.func(stablehlo-canonicalize-dynamism))"
_INFERRED = ("tosa.", "stablehlo.")
"""Ops of which passes of their own infer results from operands."""
_SAME_SHAPE = (
    *annotation.OPS,
    "mesh.propagation_barrier",
    "shard.shard",
    "sdy.propagation_barrier",
    "sdy.reshard",
    "sdy.sharding_constraint",
)
"""Beside elementwise ops: what changes where a tensor lies only."""
_ELEMENTWISE = ("arith.", "math.", "complex.")
_BRANCHES = ("scf.if", "scf.index_switch", "scf.execute_region")


def spread(module: ir.Operation, entry: str) -> None:
    """Let all that can be have a known shape. Public functions but `entry` keep their types."""
    try:
        while True:
            PassManager.parse(_UPSTREAM).run(module)
            if any(op.name.startswith("stablehlo.") for op in walk(module)):
                know_stablehlo_passes()
                PassManager.parse(_OF_STABLEHLO).run(module)
            if not _Module(module, entry).refine():
                break
    except ir.MLIRError as error:
        raise from_mlir(error) from None
    for op in walk(module):
        if op.name == "scf.yield" and op.parent.name in ("scf.for", "scf.while"):
            _check_round(op)


def _check_round(end: ir.Operation) -> None:
    """Raise unless what goes around a loop has, by what is known, the shape that it began with.

    That it has was assumed in the round: where its end agrees, it is so in each.
    """
    for operand in end.operands:
        source = operand
        while (behind := _behind(source)) != source:
            source = behind
        if source.type != operand.type:
            raise error_at(
                end.parent.location,
                f"the loop begins with a {operand.type}, and goes on with a {source.type} "
                "that is not known to be one",
            )


def shape_of(type_: ir.RankedTensorType) -> Shape:
    return tuple(
        None if type_.is_dynamic_dim(dim) else type_.get_dim_size(dim) for dim in range(type_.rank)
    )


def written(shape: Shape) -> str:
    return "x".join("?" if each is None else str(each) for each in shape) or "scalar"


def give_shape(value: ir.Value, shape: Shape) -> None:
    """Let a value have a more exact shape; who uses it gets it as it was, by a cast."""
    before = value.type
    value.set_type(_with_shape(before, shape))
    owner = value.owner
    if isinstance(owner, ir.Block):
        place, location = ir.InsertionPoint.at_block_begin(owner), owner.owner.location
    else:
        place, location = ir.InsertionPoint.after(owner), owner.location
    with place, location:
        cast = build.create("tensor.cast", [before], [value])
    value.replace_all_uses_except(cast.results[0], cast)


class _Module:
    """One go through a module; `entry` and private functions may get other types."""

    def __init__(self, module: ir.Operation, entry: str) -> None:
        self._module = module
        self._functions = {name_of(each): each for each in functions_of(module)}
        self._may_change = {
            name for name, handle in self._functions.items() if name == entry or is_private(handle)
        }
        self._changed = False

    def refine(self) -> bool:
        """Whether anything is known that was not."""
        calls: dict[str, list[ir.Operation]] = {}
        for function in self._functions.values():
            for op in walk(function):
                if op.name == "func.call":
                    calls.setdefault(op.attributes["callee"].value, []).append(op)
                else:
                    self._visit(op)
        for name, found in calls.items():
            if name in self._may_change and name in self._functions:
                self._give_to(name, found)
        for name in self._may_change:
            self._return_from(self._functions[name])
        for found in calls.values():
            for call in found:
                self._take_from(call)
        return self._changed

    def _visit(self, op: ir.Operation) -> None:
        if op.name in _SAME_SHAPE or op.name.startswith(_ELEMENTWISE):
            self._unify(op)
        elif op.name == "tensor.concat":
            self._concat(op)
        elif op.name.startswith(_INFERRED):
            for place, operand in enumerate(op.operands):
                if _is_known(operand):
                    self._set_operand(op, place, shape_behind(operand))
        elif op.name in _BRANCHES:
            ends = [operations(block)[-1] for region in op.regions for block in region.blocks]
            for place, result in enumerate(op.results):
                self._join(result, [(end, place) for end in ends])
        elif op.name == "scf.while":
            self._go_around(op)

    def _unify(self, op: ir.Operation) -> None:
        """All tensors that `op` takes and makes have one shape."""
        places = [place for place, each in enumerate(op.operands) if _is_ranked(each)]
        results = [each for each in op.results if _is_ranked(each)]
        shapes = [shape_behind(op.operands[place]) for place in places]
        shapes += [shape_of(each.type) for each in results]
        shape = _merged(shapes, op)
        for place in places:
            self._set_operand(op, place, shape)
        for result in results:
            self._set(result, shape)

    def _concat(self, op: ir.Operation) -> None:
        """Alike but for one dimension, which is the sum of all."""
        dim = ir.IntegerAttr(op.attributes["dim"]).value
        shapes = [shape_behind(each) for each in op.operands]
        sizes = [shape[dim] for shape in shapes]
        known = [each for each in sizes if each is not None]
        total = sum(known) if len(known) == len(sizes) else None
        shapes.append(shape_of(op.results[0].type))
        rest = _merged([(*each[:dim], *each[dim + 1 :]) for each in shapes], op)
        for place, size in enumerate(sizes):
            self._set_operand(op, place, (*rest[:dim], size, *rest[dim:]))
        self._set(op.results[0], (*rest[:dim], total, *rest[dim:]))

    def _join(self, result: ir.Value, sources: Sequence[tuple[ir.Operation, int]]) -> None:
        """What comes from several places: known where all of them say the same."""
        if not _is_ranked(result):
            return
        shapes = [shape_behind(op.operands[place]) for op, place in sources]
        shape = tuple(
            sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes, strict=True)
        )
        if _adds(shape, result):
            for op, place in sources:
                self._set_operand(op, place, shape)
            self._set(result, shape)

    def _go_around(self, op: ir.Operation) -> None:
        """What an `scf.while` begins with has its shape in each round, it is assumed; a cast at
        the end of the round says so, and falls away where it is seen to be true.
        """
        before, after = (region.blocks[0] for region in op.regions)
        condition, end = operations(before)[-1], operations(after)[-1]
        for place, argument in enumerate(before.arguments):
            operand = op.operands[place]
            if _is_ranked(argument) and _adds(shape_behind(operand), argument):
                shape = shape_behind(operand)
                self._set_operand(op, place, shape)
                self._set_operand(end, place, shape)
                self._set(argument, shape)
        for place, (argument, result) in enumerate(zip(after.arguments, op.results, strict=True)):
            if _is_ranked(result) and _adds(shape_behind(condition.operands[place + 1]), result):
                shape = shape_behind(condition.operands[place + 1])
                self._set_operand(condition, place + 1, shape)
                self._set(argument, shape)
                self._set(result, shape)

    def _give_to(self, name: str, calls: Sequence[ir.Operation]) -> None:
        """Let a function know the shapes that it is called with: a copy for each kind of call."""
        callee = self._functions[name]
        kinds: dict[tuple[ir.Type, ...], list[ir.Operation]] = {}
        inputs = callee.attributes["function_type"].value.inputs
        for call in calls:
            kind = tuple(
                _with_shape(type_, shape_behind(each)) if _is_ranked(each) else type_
                for type_, each in zip(inputs, call.operands, strict=True)
            )
            kinds.setdefault(kind, []).append(call)
        for kind, found in kinds.items():
            if list(kind) == list(inputs):
                continue
            copy = callee if len(kinds) == 1 and is_private(callee) else self._copy(callee)
            for argument, type_ in zip(list(body(copy).arguments), kind, strict=True):
                if _is_ranked(argument):
                    self._set(argument, shape_of(type_))
            update_type(copy)
            for call in found:
                call.attributes["callee"] = ir.FlatSymbolRefAttr.get(name_of(copy))
                for place, type_ in enumerate(kind):
                    if isinstance(type_, ir.RankedTensorType):
                        self._set_operand(call, place, shape_of(type_))

    def _copy(self, callee: ir.Operation) -> ir.Operation:
        name = next(
            each
            for number in count()
            if (each := f"{name_of(callee)}_{number}") not in self._functions
        )
        with ir.InsertionPoint(callee):
            copy = callee.clone().operation
        copy.attributes["sym_name"] = ir.StringAttr.get(name)
        copy.attributes["sym_visibility"] = ir.StringAttr.get("private")
        self._functions[name] = copy
        self._may_change.add(name)
        return copy

    def _return_from(self, function: ir.Operation) -> None:
        ends = returns_of(function)
        for place, type_ in enumerate(function.attributes["function_type"].value.results):
            shapes = {shape_behind(end.operands[place]) for end in ends if _is_type(type_)}
            if len(shapes) == 1:
                for end in ends:
                    self._set_operand(end, place, *shapes)
        update_type(function)

    def _take_from(self, call: ir.Operation) -> None:
        callee = self._functions.get(call.attributes["callee"].value)
        if callee is None:
            return
        for result, type_ in zip(
            list(call.results), callee.attributes["function_type"].value.results, strict=True
        ):
            if _is_type(type_):
                self._set(result, shape_of(type_))

    def _set(self, value: ir.Value, shape: Shape) -> None:
        if _adds(shape, value):
            give_shape(value, shape)
            self._changed = True

    def _set_operand(self, op: ir.Operation, place: int, shape: Shape) -> None:
        """Let an op take a value of this shape: what was cast from it, or a cast to it."""
        value = op.operands[place]
        if not _adds(shape, value):
            return
        source = _behind(value)
        type_ = _with_shape(value.type, shape)
        if source.type == type_:
            op.operands[place] = source
        else:
            with ir.InsertionPoint(op), op.location:
                cast = build.create("tensor.cast", [type_], [value])
            op.operands[place] = cast.results[0]
        self._changed = True


def _behind(value: ir.Value) -> ir.Value:
    """What a value was cast from."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "tensor.cast":
        return value
    return owner.operation.operands[0]


def shape_behind(value: ir.Value) -> Shape:
    """All that is known of the shape of a ranked tensor."""
    shape, source = shape_of(value.type), _behind(value)
    if not _is_ranked(source):
        return shape
    return tuple(
        each if each is not None else known
        for each, known in zip(shape, shape_of(source.type), strict=True)
    )


def _is_type(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType)


def _is_ranked(value: ir.Value) -> bool:
    return _is_type(value.type)


def _is_known(value: ir.Value) -> bool:
    return _is_ranked(value) and _adds(shape_behind(value), value)


def _adds(shape: Shape, value: ir.Value) -> bool:
    """Whether a shape says more than the value's type does."""
    return any(
        size is not None and known is None
        for size, known in zip(shape, shape_of(value.type), strict=True)
    )


def _with_shape(type_: ir.RankedTensorType, shape: Shape) -> ir.RankedTensorType:
    """The type with all that it, or `shape`, knows."""
    dynamic = ir.ShapedType.get_dynamic_size()
    sizes = [
        next((each for each in both if each is not None), dynamic)
        for both in zip(shape_of(type_), shape, strict=True)
    ]
    return ir.RankedTensorType.get(sizes, type_.element_type, type_.encoding)


def _merged(shapes: Iterable[Shape], op: ir.Operation) -> Shape:
    """What several values that have one shape know of it together."""
    merged = []
    for sizes in zip(*shapes, strict=True):
        known = sorted({each for each in sizes if each is not None})
        if len(known) > 1:
            raise error_at(
                op.location,
                f"'{op.name}' op is on tensors of {known[0]} and of {known[1]} elements",
            )
        merged.append(known[0] if known else None)
    return tuple(merged)
