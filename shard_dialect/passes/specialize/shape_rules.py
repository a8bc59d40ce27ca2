"""Shape rules of ops: how their operands' and results' shapes determine each other.

They cover the ops that MLIR's own passes do not infer.

    %e = math.exp %c : tensor<?xf32>                    all have the shape that one is known to have
    %w = scf.while (%a = %c) : ...                      %a has that of %c, if iterations keep it

A loop-carried value is assumed to keep its initial shape. A *promise*, a cast that nothing folds,
converts what the iteration yields to that shape. Where the yielded value turns out to have the
shape, the promise is dropped, which proves the assumption by induction. A promise that stays is an
error.

Shapes are known by types, and by the sources of casts:

    %c = tensor.cast %x : tensor<4xf32> to tensor<?xf32>      shape_behind(%c) is (4,)

`Known` gives values more exact types. A cast back to the old type keeps the users valid; a user
reads the source of the cast once a rule shows that it may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir, linalg_queries
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.annotation_ops import TO_GLOBAL, TO_LOCAL, boundary_of
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import branches_of
from shard_dialect.ir.walk import operations, source_behind
from shard_dialect.ops.op_table import named

Shape = tuple[int | None, ...]
"""One size per dimension; `None` for a size that is not known."""

MOST = 2**56
"""The largest number of elements whose bytes MLIR and numpy can count."""
_CAST = "tensor.cast"


def is_ranked(value: ir.Value) -> bool:
    """Whether the value is a ranked tensor."""
    return isinstance(value.type, ir.RankedTensorType)


def shape_of(type_: ir.RankedTensorType) -> Shape:
    """The sizes in a type, `None` for a dynamic one."""
    return tuple(
        None if type_.is_dynamic_dim(dim) else type_.get_dim_size(dim) for dim in range(type_.rank)
    )


def shape_behind(value: ir.Value) -> Shape:
    """The known shape of a ranked tensor, by its type and by the source of its casts."""
    shape, source = shape_of(value.type), behind(value)
    if not is_ranked(source) or source.type.rank != len(shape):
        return shape
    return tuple(
        each if each is not None else known
        for each, known in zip(shape, shape_of(source.type), strict=True)
    )


def behind(value: ir.Value) -> ir.Value:
    """The value that the chain of `tensor.cast` ops that defines `value` starts from."""
    return source_behind(value, _CAST)


def written(shape: Shape) -> str:
    """The shape as in MLIR's types: `4x?`, or `scalar`."""
    return "x".join("?" if each is None else str(each) for each in shape) or "scalar"


def adds(shape: Shape, value: ir.Value) -> bool:
    """Whether a shape knows a size that the value's type does not."""
    return any(
        size is not None and known is None
        for size, known in zip(shape, shape_of(value.type), strict=True)
    )


def with_shape(type_: ir.RankedTensorType, shape: Shape) -> ir.RankedTensorType:
    """The type with the sizes that it or `shape` knows."""
    dynamic = ir.ShapedType.get_dynamic_size()
    sizes = [
        next((each for each in both if each is not None), dynamic)
        for both in zip(shape_of(type_), shape, strict=True)
    ]
    return ir.RankedTensorType.get(sizes, type_.element_type, type_.encoding)


def merged(shapes: Iterable[Shape], op: ir.Operation) -> Shape:
    """The one shape of values that all have it, with the sizes that any of them knows.

    Raises a located `ShardError` where two sizes differ.
    """
    merged_shape = []
    for sizes in zip(*shapes, strict=True):
        known = sorted({each for each in sizes if each is not None})
        if len(known) > 1:
            raise error_at(
                op.location,
                f"'{op.name}' op is on tensors of {known[0]} and of {known[1]} elements",
            )
        merged_shape.append(known[0] if known else None)
    return tuple(merged_shape)


def common(shapes: Iterable[Shape]) -> Shape:
    """The shape of a value that is one of several: the sizes on which all `shapes` agree."""
    return tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes, strict=True))


def differ(one: ir.Type, other: ir.Type) -> bool:
    """Whether no tensor can have both types."""
    if not all(isinstance(each, ir.RankedTensorType) for each in (one, other)):
        return False
    pairs = zip(shape_of(one), shape_of(other), strict=False)
    return one.rank != other.rank or any(None not in pair and len({*pair}) > 1 for pair in pairs)


def give_shape(value: ir.Value, shape: Shape) -> None:
    """Give a value a more exact type; its users read a cast back to the old type."""
    before = value.type
    value.set_type(with_shape(before, shape))
    owner = value.owner
    if isinstance(owner, ir.Block):
        point, location = ir.InsertionPoint.at_block_begin(owner), owner.owner.location
    else:
        point, location = ir.InsertionPoint.after(owner), owner.location
    with point, location:
        cast = build.create(_CAST, [before], [value])
    # Users keep operands of their old types, so that the IR stays valid; each reads the source of
    # the cast once its own rule allows that.
    value.replace_all_uses_except(cast.results[0], cast)


class Known:
    """Writes inferred shapes into the IR; `changed` is set once one of them was new."""

    def __init__(self) -> None:
        self.changed = False

    def set(self, value: ir.Value, shape: Shape) -> None:
        """Give `value` the shape, if that adds a size to its type."""
        if adds(shape, value):
            give_shape(value, shape)
            self.changed = True

    def set_operand(self, op: ir.Operation, number: int, shape: Shape) -> None:
        """Give operand `number` of `op` this shape: by its casts' source, or by a new cast."""
        value = op.operands[number]
        if not adds(shape, value):
            return
        type_ = with_shape(value.type, shape)
        source = behind(value)
        if source.type != type_:
            with ir.InsertionPoint(op), op.location:
                source = build.create_value(_CAST, type_, [value])
        op.operands[number] = source
        self.changed = True

    def infer_from(self, op: ir.Operation) -> None:
        """Replace the operands of `op` by the sources of their casts."""
        for number, operand in enumerate(op.operands):
            if is_ranked(operand):
                self.set_operand(op, number, shape_behind(operand))


_Rule = Callable[[ir.Operation, Known], None]

PROMISE = "builtin.unrealized_conversion_cast"
_ENDS = ("scf.yield", "stablehlo.return", "tosa.yield")


def rule_of(name: str) -> _Rule | None:
    """The shape rule for ops of this name, or `None`."""
    record = named(name)
    return record.shapes if record and record.shapes else _RULES.get(name)


def elementwise(op: ir.Operation, known: Known) -> None:
    """All tensor operands and results of `op` have the same shape."""
    numbers = [number for number, each in enumerate(op.operands) if is_ranked(each)]
    results = [each for each in op.results if is_ranked(each)]
    shapes = [shape_behind(op.operands[number]) for number in numbers]
    shapes += [shape_of(each.type) for each in results]
    shape = merged(shapes, op)
    for number in numbers:
        known.set_operand(op, number, shape)
    for result in results:
        known.set(result, shape)


def in_pairs(op: ir.Operation, known: Known) -> None:
    """Each result has the shape of the operand of its number."""
    for number, result in enumerate(op.results):
        if is_ranked(result):
            shape = merged([shape_behind(op.operands[number]), shape_of(result.type)], op)
            known.set_operand(op, number, shape)
            known.set(result, shape)


def structured(op: ir.Operation, known: Known) -> None:
    """Dimensions that one loop indexes have one size; results have the shapes of the outs."""
    maps = [each.value for each in linalg_queries.get_indexing_maps(op) or ()]
    operands = list(op.operands)
    if len(maps) != len(operands) or not all(map(is_ranked, operands[-len(op.results) :])):
        return
    sizes: dict[ir.AffineExpr, int] = {}
    for map_, operand in zip(maps, operands, strict=True):
        for expression, size in zip(map_.results, _sizes(operand), strict=False):
            if size is None or not isinstance(expression, ir.AffineDimExpr):
                continue
            if sizes.setdefault(expression, size) != size:
                raise error_at(
                    op.location,
                    f"'{op.name}' op has a loop of {sizes[expression]} and of {size} elements",
                )
    for number, (map_, operand) in enumerate(zip(maps, operands, strict=True)):
        if is_ranked(operand):
            known.set_operand(op, number, tuple(sizes.get(each) for each in map_.results))
    written_to = list(op.operands)[len(operands) - len(op.results) :]
    for result, target in zip(op.results, written_to, strict=True):
        known.set(result, shape_of(target.type))


def _sizes(operand: ir.Value) -> Shape:
    return shape_behind(operand) if is_ranked(operand) else ()


def concat(op: ir.Operation, known: Known) -> None:
    """All shapes agree but for one dimension, whose sizes add up to the result's."""
    dim = ir.IntegerAttr(op.attributes["dim"]).value
    shapes = [shape_behind(each) for each in op.operands]
    sizes = [shape[dim] for shape in shapes]
    counted = [each for each in sizes if each is not None]
    total = sum(counted) if len(counted) == len(sizes) else None
    if total is not None and total > MOST:
        raise error_at(op.location, f"'{op.name}' op makes {total} elements along a dimension")
    shapes.append(shape_of(op.results[0].type))
    rest = merged([(*each[:dim], *each[dim + 1 :]) for each in shapes], op)
    for number, size in enumerate(sizes):
        known.set_operand(op, number, (*rest[:dim], size, *rest[dim:]))
    known.set(op.results[0], (*rest[:dim], total, *rest[dim:]))


def reshape(op: ir.Operation, known: Known) -> None:
    """The result of a reshape has the constant sizes in its shape operand."""
    sizes = op.operands[1]
    known.infer_from(op)
    constant = build.constant_value(sizes)
    if isinstance(constant, ir.DenseIntElementsAttr):
        known.set(op.results[0], tuple(constant))
    elif not isinstance(sizes.owner, ir.Block) and sizes.owner.name == "tensor.from_elements":
        known.set(op.results[0], tuple(map(_size, sizes.owner.operands)))


def splat(op: ir.Operation, known: Known) -> None:
    """Move constant sizes of a `tensor.splat` from its operands to its type."""
    element, *operands = op.operands
    sizes = iter(operands)
    before = op.results[0].type
    shape = tuple(_size(next(sizes)) if each is None else each for each in shape_of(before))
    if not adds(shape, op.results[0]):
        return
    kept = [each for each in operands if _size(each) is None]
    with ir.InsertionPoint(op), op.location:
        splat = build.create(op.name, [with_shape(before, shape)], [element, *kept])
        cast = build.create("tensor.cast", [before], splat.results)
    replace_op(op, cast.results[0])
    known.changed = True


def _size(value: ir.Value) -> int | None:
    """The size if the value is a constant."""
    constant = build.constant_value(value)
    return None if constant is None else int(ir.IntegerAttr(constant).value)


def _manual_boundary(op: ir.Operation, known: Known) -> None:
    """Divide the shape at `to_local`, or multiply it at `to_global`, by the number of devices."""
    if not is_ranked(op.operands[0]):
        return
    shape = shape_behind(op.operands[0])
    module = op
    while module.parent is not None:
        module = module.parent.operation
    with located(op):
        edge = boundary_of(op, Shardings(grids_of(module)))
        counts = [edge.grid.axes_size(axes) for axes in edge.manual_split_axes]
        result_shape = tuple(
            None if size is None else _shard(size, count) if op.name == TO_LOCAL else size * count
            for size, count in zip(shape, counts, strict=True)
        )
    known.set_operand(op, 0, shape)
    known.set(op.results[0], result_shape)


def _shard(size: int, count: int) -> int:
    if size % count:
        raise ShardError(f"a dimension of size {size} cannot be split evenly into {count} shards")
    return size // count


def _branch(op: ir.Operation, known: Known) -> None:
    """Results have the shape on which the terminators of all regions agree."""
    last = [operations(block)[-1] for region in op.regions for block in region.blocks]
    ends = [each for each in last if each.name in _ENDS]
    for number, result in enumerate(op.results):
        if is_ranked(result):
            shape = common([shape_behind(end.operands[number]) for end in ends])
            for end in ends:
                known.set_operand(end, number, shape)
            known.set(result, shape)


def _branch_on(op: ir.Operation, known: Known) -> None:
    """As `_branch`, for an op that passes its operands after the condition to its regions."""
    for number, operand in enumerate(list(op.operands)[1:], 1):
        if is_ranked(operand):
            shape = shape_behind(operand)
            known.set_operand(op, number, shape)
            for region in op.regions:
                known.set(region.blocks[0].arguments[number - 1], shape)
    _branch(op, known)


def _jump(op: ir.Operation, known: Known) -> None:
    """A block argument has the shape on which all predecessors agree."""
    for successor, _ in branches_of(op):
        entries = [
            (end, numbers)
            for block in successor.predecessors
            for end in operations(block)[-1:]
            for target, numbers in branches_of(end)
            if target == successor
        ]
        for number, argument in enumerate(successor.arguments):
            if is_ranked(argument):
                shape = common([shape_behind(end.operands[each[number]]) for end, each in entries])
                for end, each in entries:
                    known.set_operand(end, each[number], shape)
                known.set(argument, shape)


def _for(op: ir.Operation, known: Known) -> None:
    block = op.regions[0].blocks[0]
    end = operations(block)[-1]
    for number, result in enumerate(op.results):
        _go_around(known, (op, 3 + number), (end, number), [block.arguments[1 + number], result])


def _while(op: ir.Operation, known: Known) -> None:
    """The operands of the condition become the results, and the arguments of the body."""
    before, after = (region.blocks[0] for region in op.regions)
    condition, end = operations(before)[-1], operations(after)[-1]
    for number, argument in enumerate(before.arguments):
        _go_around(known, (op, number), (end, number), [argument])
    for number, (argument, result) in enumerate(zip(after.arguments, op.results, strict=True), 1):
        if is_ranked(result):
            shape = shape_behind(condition.operands[number])
            known.set_operand(condition, number, shape)
            known.set(argument, shape)
            known.set(result, shape)


def _state(op: ir.Operation, known: Known) -> None:
    """A loop whose condition and body both take the loop-carried values as arguments."""
    condition, block = (region.blocks[0] for region in op.regions)
    end = operations(block)[-1]
    for number, result in enumerate(op.results):
        seen = [condition.arguments[number], block.arguments[number], result]
        _go_around(known, (op, number), (end, number), seen)


_Operand = tuple[ir.Operation, int]


def _go_around(known: Known, start: _Operand, end: _Operand, seen: Sequence[ir.Value]) -> None:
    """Give `seen` the shape that the loop starts with, and add a promise to what it yields."""
    op, number = start
    if not is_ranked(seen[0]):
        return
    shape = shape_behind(op.operands[number])
    before = seen[0].type
    known.set_operand(op, number, shape)
    for each in seen:
        known.set(each, shape)
    if seen[0].type != before:
        _promise(*end, seen[0].type)


def _promise(end: ir.Operation, number: int, type_: ir.Type) -> None:
    value = end.operands[number]
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name == PROMISE:
        value = owner.operands[0]
    with ir.InsertionPoint(end), end.location:
        end.operands[number] = build.create_value(PROMISE, type_, [value])


def _keep(op: ir.Operation, known: Known) -> None:
    """Drop a promise whose source has the promised shape."""
    source = behind(op.operands[0])
    if source.type == op.results[0].type:
        replace_op(op, source)
        known.changed = True


def refuse_promise(op: ir.Operation) -> Exception:
    """The error for a promise that stays: the loop may change the shape."""
    loop = next(use.owner for use in op.results[0].uses).parent
    return error_at(
        loop.location,
        f"the loop begins with a {op.results[0].type}, and goes on with a "
        f"{behind(op.operands[0]).type} that is not known to be one",
    )


_RULES: dict[str, _Rule] = {
    **dict.fromkeys((*annotation_ops.OPS, "mesh.propagation_barrier"), elementwise),
    PROMISE: _keep,
    TO_GLOBAL: _manual_boundary,
    TO_LOCAL: _manual_boundary,
    "mesh.sharding_group": lambda op, known: known.infer_from(op),
    "cf.br": _jump,
    "cf.cond_br": _jump,
    "cf.switch": _jump,
    "scf.execute_region": _branch,
    "scf.for": _for,
    "scf.if": _branch,
    "scf.index_switch": _branch,
    "scf.while": _while,
    "stablehlo.case": _branch,
    "stablehlo.if": _branch,
    "stablehlo.while": _state,
    "tosa.cond_if": _branch_on,
    "tosa.while_loop": _state,
}
