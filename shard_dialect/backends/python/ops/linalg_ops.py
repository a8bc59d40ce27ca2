"""Emit linalg: each op as a `generic`, and that as a product, or as ops on tensors.

iterators [parallel, parallel, reduction]        z = x[:, None, :] * y[None, :, :]
(d0, d1, d2) -> (d0, d2), (d1, d2), (d0, d1)     r = np.sum(z, axis=(2,))
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.backends.python.ops import accumulation, elementwise
from shard_dialect.backends.python.ops import elementwise as recorded_ops
from shard_dialect.backends.python.writer import Writer
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import is_used
from shard_dialect.ir.walk import operations
from shard_dialect.ops.op_table import traits_of
from shard_dialect.ops.scalar_functions import Trait


def is_zero(value: ir.Value) -> bool:
    """Whether every element of the value is known to be zero."""
    op = value.owner
    if isinstance(op, ir.Block):
        return False
    if is_fill(op):
        return is_zero(op.operands[0])
    number = build.splat_value(value) or build.constant_value(value)
    return isinstance(number, (ir.FloatAttr, ir.IntegerAttr)) and not number.value


def is_fill(op: ir.Operation) -> bool:
    """Whether the op sets every element to one number."""
    if op.name != "linalg.generic" or isinstance(op.operands[0].type, ir.ShapedType):
        return False
    block = op.regions[0].blocks[0]
    return (
        len(op.operands) == 2
        and operations(block)[0].name == "linalg.yield"
        and (operations(block)[0].operands[0] == block.arguments[0])
    )


def fill(w: Writer, op: ir.Operation) -> None:
    """Write a fill where it is used, if it is a number: most often a product starts from it."""
    number, result = op.operands[0], op.results[0]
    if number in w.literals:
        w.literals[result] = w.literals[number]
        w.values[result] = w.full(result.type, w.literals[number], op.location)
        return
    x = w.broadcast(w.use(number), result.type.shape)
    w.define(result, x)


def generic(w: Writer, op: ir.Operation) -> None:
    """Write a linalg op as a product, or as the ops of its body on tensors."""
    inputs, _ = _split(op)
    if is_fill(op):
        fill(w, op)
        return
    maps = [each.value for each in op.attributes["indexing_maps"]]
    sizes = _sizes(op, maps)
    read = [_dims(w, op, each) for each in maps]
    dims = [[dim for dim in each if dim is not None] for each in read]
    if dims == read and _is_product(op, len(inputs)):
        _product(w, op, maps, dims, sizes)
        return
    block = op.regions[0].blocks[0]
    loops = _reduced(op)
    before = dict(w.values)
    _align(w, op, maps, read, sizes, len(inputs) if loops else len(op.operands))
    *inside, last = operations(block)
    if loops:
        inside = _without_joins(w, op, inside, last, len(inputs))
    for each in inside:
        if not list(each.results):
            raise w.refuse(each)
        extent = _extent(w, each, sizes)
        if extent is not None:
            w.extents[each.results[0]] = extent
        _body(w, each, sizes)
    for number, (yielded, result) in enumerate(zip(last.operands, op.results, strict=True)):
        of = read[len(inputs) + number]
        if loops:
            accumulator = block.arguments[len(inputs) + number]
            _reduce(w, op, accumulator, yielded, result, of, loops, sizes)
        else:
            _define_result(w, yielded, result, [dim for dim in of if dim is not None], sizes)
        if None in of:  # which is of size 1
            shape = tuple(result.type.shape)
            w.define(result, f"{w.use(result)}.reshape{shape}", "reshaped")
    w.values = {**before, **{each: w.values[each] for each in op.results}}


def _align(
    w: Writer,
    op: ir.Operation,
    maps: Sequence[ir.AffineMap],
    dims: Sequence[Sequence[int | None]],
    sizes: Sequence[int],
    count: int,
) -> None:
    """Bind the body's first `count` arguments to operands with one dimension per loop."""
    block = op.regions[0].blocks[0]
    rows = zip(block.arguments, op.operands, maps, dims, strict=True)
    for argument, operand, map_, read in list(rows)[:count]:
        if not isinstance(operand.type, ir.ShapedType):
            w.values[argument] = w.use(operand)
            continue
        of = [dim for dim in read if dim is not None]
        w.extents[argument] = tuple(size if dim in of else 1 for dim, size in enumerate(sizes))
        if len(set(of)) < len(of):
            raise w.refuse(op, "it reads a diagonal")
        if is_used(argument):
            x = _first_of(_windows(w, operand, map_, sizes), read)
            w.values[argument] = _aligned(w, x, of, len(sizes))


def _first_of(x: str, read: Sequence[int | None]) -> str:
    """The first elements along dimensions that no loop goes along: there, it is broadcast."""
    return f"{x}[{', '.join('0' if dim is None else ':' for dim in read)}]" if None in read else x


def _dims(w: Writer, op: ir.Operation, map_: ir.AffineMap) -> list[int | None]:
    """The loop for each dimension; `None` for one of which only the first element is read.

    The loops along windows (`_windows`) follow.
    """
    dims: list[int | None] = []
    inside: list[int] = []
    for each in map_.results:
        if isinstance(each, ir.AffineConstantExpr) and not each.value:
            dims.append(None)
            continue
        terms = _terms(each)
        if terms is None or (terms[0][1] != 1 and len(terms) == 1):
            raise w.refuse(op, "it reads at places that are computed")
        dims.append(terms[0][0])
        inside += [loop for loop, _ in terms[1:]]
    return [*dims, *inside]


def _terms(expression: ir.AffineExpr) -> list[tuple[int, int]] | None:
    """The loops, at most two, of which an index is the sum, and by what each is multiplied."""
    if isinstance(expression, ir.AffineDimExpr):
        return [(expression.position, 1)]
    if isinstance(expression, ir.AffineMulExpr):
        loop, step = expression.lhs, expression.rhs
        if isinstance(loop, ir.AffineDimExpr) and isinstance(step, ir.AffineConstantExpr):
            return [(loop.position, step.value)]
    if isinstance(expression, ir.AffineAddExpr):
        terms = [_terms(each) for each in (expression.lhs, expression.rhs)]
        if all(each is not None and len(each) == 1 for each in terms):
            return [each[0] for each in terms if each]
    return None


def _windows(w: Writer, x: ir.Value, map_: ir.AffineMap, sizes: Sequence[int]) -> str:
    """The operand; where it is read in windows, with dimensions for the places in these, last.

    (d0 * 2 + d3, d1)        windows(x, [3, 1], [2, 1])[:4, :, :, 0]
    """
    read = [_terms(each) or [] for each in map_.results]
    if all(len(each) < 2 for each in read):
        return w.use(x)
    extents, strides, firsts, inside = [], [], [], []
    for terms, size in zip(read, x.type.shape, strict=True):
        (_, stride), (loop, step) = terms if len(terms) > 1 else ((0, 1), (-1, 1))
        extent = (sizes[loop] - 1) * step + 1 if len(terms) > 1 else 1
        count = sizes[terms[0][0]] if len(terms) > 1 else size
        extents.append(extent)
        strides.append(stride)
        firsts.append(":" if (size - extent) // stride + 1 == count else f":{count}")
        inside.append("0" if len(terms) < 2 else ":" if step == 1 else f"::{step}")
    index = ", ".join([*firsts, *inside])
    return w.kept("windows", f"windows({w.use(x)}, {extents}, {strides})[{index}]")


def _split(op: ir.Operation) -> tuple[list[ir.Value], list[ir.Value]]:
    count = op.attributes["operandSegmentSizes"][0]
    operands = list(op.operands)
    return operands[:count], operands[count:]


def _reduced(op: ir.Operation) -> list[int]:
    kinds = [str(each) for each in op.attributes["iterator_types"]]
    return [loop for loop, kind in enumerate(kinds) if "reduction" in kind]


def _sizes(op: ir.Operation, maps: Sequence[ir.AffineMap]) -> list[int]:
    sizes = [1] * maps[0].n_dims
    for operand, map_ in zip(op.operands, maps, strict=True):
        if isinstance(operand.type, ir.ShapedType):
            for each, size in zip(map_.results, operand.type.shape, strict=True):
                if isinstance(each, ir.AffineDimExpr):
                    sizes[each.position] = size
    return sizes


def _is_product(op: ir.Operation, inputs: int) -> bool:
    """Whether the body only multiplies and adds."""
    block = op.regions[0].blocks[0]
    body = operations(block)
    if inputs != 2 or len(body) != 3 or len(block.arguments) != 3:
        return False
    multiply, add, last = body
    a, b, out = block.arguments
    return (
        elementwise.function_of(multiply) == "mul"
        and elementwise.function_of(add) == "add"
        and str(a.type) != "i1"
        and set(multiply.operands) == {a, b}
        and set(add.operands) == {out, multiply.results[0]}
        and last.operands[0] == add.results[0]
    )


def _product(
    w: Writer,
    op: ir.Operation,
    maps: Sequence[ir.AffineMap],
    dims: Sequence[Sequence[int]],
    sizes: Sequence[int],
) -> None:
    init, element = op.operands[2], op.results[0].type.element_type
    a, b = (_windows(w, op.operands[number], maps[number], sizes) for number in (0, 1))
    if is_zero(init):
        of_a, of_b, of_c = dims
        text = accumulation.multiplied(w, a, b, of_a, of_b, of_c, element, op)
    else:
        wide = [accumulation.widened(w, each, element) for each in (w.use(init), a, b)]
        text = f"{wide[0]} + {accumulation.product(w, wide[1], wide[2], *dims)}"
        text = accumulation.narrowed(w, text, element, op)
    w.define(op.results[0], text, "product")


def _aligned(w: Writer, x: str, dims: Sequence[int], count: int) -> str:
    """The operand with one dimension per loop."""
    x = w.permuted(x, sorted(range(len(dims)), key=lambda position: dims[position]))
    if len(dims) == count:
        return x
    index = ", ".join(":" if dim in dims else "None" for dim in range(count))
    return f"{x}[{index}]"


def _extent(w: Writer, op: ir.Operation, sizes: Sequence[int]) -> tuple[int, ...] | None:
    """The shape of the body's op on tensors, with 1 along a loop that it does not depend on.

    `None` if it computes a scalar from scalars.
    """
    if op.name == "linalg.index":
        dim = op.attributes["dim"].value
        return tuple(size if loop == dim else 1 for loop, size in enumerate(sizes))
    shapes = [w.extents[each] for each in op.operands if each in w.extents]
    return tuple(max(each) for each in zip(*shapes, strict=True)) if shapes else None


def _body(w: Writer, op: ir.Operation, sizes: Sequence[int]) -> None:
    if op.name == "linalg.index":
        dim = op.attributes["dim"].value
        text = w.pick(f"np.arange({sizes[dim]})", f"torch.arange({sizes[dim]}, device=device)")
        if len(sizes) > 1:
            text = f"{text}.reshape{_extent(w, op, sizes)}"
        w.define(op.results[0], text, "index")
    elif Trait.ELEMENTWISE not in traits_of(op.name):
        raise w.refuse(op)
    elif op.name == "arith.index_cast" or (
        op.name == "arith.index_castui" and isinstance(op.operands[0].type, ir.IndexType)
    ):
        to = op.results[0].type
        w.define(op.results[0], w.cast(w.use(op.operands[0]), to, op.location), "cast")
    elif op.name == "arith.select":
        condition, *choices = w.uses(op)
        if w.is_torch and op.operands[0] not in w.extents:  # it may be Python's: of device indices
            condition = f"torch.as_tensor({condition}, device=device)"
        text = f"{w.module}.where({condition}, {', '.join(choices)})"
        w.define(op.results[0], text, "selected")
    else:
        recorded_ops.write(w, op)


def _without_joins(
    w: Writer, op: ir.Operation, inside: list[ir.Operation], last: ir.Operation, inputs: int
) -> list[ir.Operation]:
    """The body's ops without those that join an element with the accumulator."""
    joins = [yielded.owner for yielded in last.operands]
    accumulators = list(op.regions[0].blocks[0].arguments)[inputs:]
    for join, accumulator in zip(joins, accumulators, strict=True):
        named = (
            not isinstance(join, ir.Block)
            and elementwise.function_of(join) in accumulation.REDUCTIONS
        )
        if (
            not named
            or list(join.operands).count(accumulator) != 1
            or len(list(accumulator.uses)) != 1
        ):
            raise w.refuse(op, "its body combines elements by none of the known reductions")
        if str(accumulator.type) == "i1" and elementwise.function_of(join) not in ("and", "or"):
            raise w.refuse(op, "of elements of type i1")
    return [each for each in inside if each not in joins]


def _reduce(
    w: Writer,
    op: ir.Operation,
    accumulator: ir.Value,
    yielded: ir.Value,
    result: ir.Value,
    read: Sequence[int | None],
    reduced_loops: Sequence[int],
    sizes: Sequence[int],
) -> None:
    join = yielded.owner
    (element,) = [each for each in join.operands if each != accumulator]
    kind = elementwise.function_of(join)
    kept = [dim for dim in range(len(sizes)) if dim not in reduced_loops]
    of = [dim for dim in read if dim is not None]
    if sorted(of) != kept:
        raise w.refuse(op, "its result is not a dimension for each parallel loop")
    init = op.operands[len(list(op.operands)) - len(list(op.results)) + result.result_number]
    is_nothing = kind == "add" and is_zero(init)
    text = accumulation.reduced(
        w,
        kind,
        _broadcast_text(w, element, sizes),
        reduced_loops,
        result.type.element_type,
        op,
        lambda text: w.permuted(text, [kept.index(dim) for dim in of]),
        None if is_nothing else _first_of(w.use(init), read),
        is_unsigned=elementwise.takes_unsigned(join),
    )
    w.define(result, text, accumulation.JOINED[kind])


def _broadcast_text(w: Writer, value: ir.Value, sizes: Sequence[int]) -> str:
    """The value broadcast to all iterations of the loops."""
    x = w.use(value)
    return x if w.extents.get(value) == tuple(sizes) else w.broadcast(x, sizes)


def _define_result(
    w: Writer, yielded: ir.Value, result: ir.Value, of: Sequence[int], sizes: Sequence[int]
) -> None:
    """Write the result of a body without reduction."""
    is_full = w.extents.get(yielded) == tuple(sizes)
    text = _broadcast_text(w, yielded, sizes)
    if is_full and list(of) == sorted(of) and not isinstance(yielded.owner, ir.Block):
        w.values[result] = text
        return
    order = [sorted(of).index(dim) for dim in of]
    w.define(result, w.permuted(text, order), "transposed" if is_full else "broadcast")
