"""Expand `stablehlo.gather` and `stablehlo.scatter`: one element of a slice after the other.

    for each position in the slices:
      at = indices[batch part of the position] + window part of the position
      gather:   result[position] = operand[at], with the slice's start clamped to be inside
      scatter:  operand[at] = join(operand[at], slices[position]), if that is inside

A gather is an op of linalg, which is fused with others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build_loops import generic
from shard_dialect.passes.lower.expansions import loop_code
from shard_dialect.passes.lower.expansions.loop_code import Number, Values
from shard_dialect.rules.stablehlo.gather_scatter import Numbers
from shard_dialect.rules.stablehlo.index_arithmetic import converted, joined, repeated

_LARGEST = 2**63 - 1
_FIRST_START = {"stablehlo.dynamic_slice": 1, "stablehlo.dynamic_update_slice": 2}


def signed_starts(op: ir.Operation) -> Sequence[ir.Value]:
    """Convert the unsigned indices of a scatter, or of a dynamic slice, to signed ones."""
    if op.name in _FIRST_START:
        numbers = range(_FIRST_START[op.name], len(op.operands))
    else:
        numbers = range(len(op.operands) // 2, len(op.operands) // 2 + 1)
    for number in numbers:
        op.operands[number] = _signed(op.operands[number])
    return list(op.results)


def _signed(indices: ir.Value) -> ir.Value:
    """Clamp indices that are too large for the signed type, which are past the end in any case."""
    element = indices.type.element_type
    if not isinstance(element, ir.IntegerType) or not element.is_unsigned:
        return indices
    if element.width == 64:
        indices = joined(indices, repeated(_LARGEST, indices.type), "minimum")
    return converted(indices, ir.IntegerType.get_signless(64))


def gather(op: ir.Operation) -> Sequence[ir.Value]:
    """The gathered slices, as a `linalg.generic`."""
    operand, indices = op.operands[0], _signed(op.operands[1])
    type_ = op.results[0].type
    dims, lengths = Numbers.of_gather(op), list(op.attributes["slice_sizes"])
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(type_.rank))

    def look(_: ir.Value) -> ir.Value:
        position = [_round(dim) for dim in range(type_.rank)]
        starts = _starts(dims, type_.shape, indices.type, _read_tensor(indices), position)
        for dim in dims.indexed:
            last = operand.type.shape[dim] - lengths[dim]
            starts[dim] = loop_code.joined("minsi", loop_code.joined("maxsi", starts[dim], 0), last)
        return _read_tensor(operand)(_in_slice(dims, starts, position, operand.type.rank))

    into = build.empty(type_).results[0]
    return list(generic([], into, [identity], ["parallel"] * type_.rank, look).results)


def _round(dim: int) -> ir.Value:
    number = {"dim": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim)}
    return build.create("linalg.index", [ir.IndexType.get()], [], number).results[0]


def _read_tensor(tensor: ir.Value) -> Callable[[Sequence[Number]], ir.Value]:
    element = tensor.type.element_type

    def read(position: Sequence[Number]) -> ir.Value:
        operands = [tensor, *map(loop_code.index, position)]
        return build.create("tensor.extract", [element], operands).results[0]

    return read


def scatter(op: ir.Operation) -> Sequence[ir.Value]:
    """The operand with the slices joined to it, by loops."""
    count = len(op.operands) // 2
    operands, indices = list(op.operands)[:count], build.buffer_of(op.operands[count])
    slices = list(map(build.buffer_of, list(op.operands)[count + 1 :]))
    results = list(map(loop_code.copy, operands))
    dims = Numbers.of_scatter(op)
    sizes, shape = slices[0].type.shape, operands[0].type.shape

    def read(position: Sequence[Number]) -> ir.Value:
        return loop_code.load(indices, position)

    def write(position: Values, _: Values) -> Values:
        starts = _starts(dims, sizes, indices.type, read, position)
        at = _in_slice(dims, starts, position, len(shape))

        def join() -> Values:
            elements = [loop_code.load(each, at) for each in results]
            elements += [loop_code.load(each, position) for each in slices]
            for value, into in zip(loop_code.applied(op, 0, elements), results, strict=True):
                loop_code.store(value, into, at)
            return []

        inside = [loop_code.is_inside(at[dim], shape[dim]) for dim in dims.indexed]
        return loop_code.only_if(loop_code.all_of(inside), join)

    loop_code.nest(sizes, write)
    return [build.tensor_of(each) for each in results]


def _starts(
    dims: Numbers,
    sizes: Sequence[int],
    indices: ir.ShapedType,
    read: Callable[[Sequence[Number]], ir.Value],
    position: Values,
) -> dict[int, ir.Value]:
    """The start of the slice for `position`, along the operand's dimensions that indices give."""
    batches = dims.batches(tuple(sizes), tuple(indices.shape))
    starts = {of: position[dim] for dim, (of, _) in batches.items() if of is not None}
    for number, of in enumerate(dims.indexed):
        at: list[Number] = [position[dim] for dim in batches]
        if dims.index_vector < indices.rank:
            at.insert(dims.index_vector, number)
        element = read(at)
        is_index = isinstance(element.type, ir.IndexType)
        cast = ([ir.IndexType.get()], [element])
        starts[of] = element if is_index else build.create("arith.index_cast", *cast).results[0]
    return starts


def _in_slice(dims: Numbers, starts: dict[int, ir.Value], position: Values, rank: int) -> Values:
    """The indices of an element in the operand."""
    offsets = {of: position[dim] for dim, of in dims.windows(rank).items()}
    offsets_found = []
    for dim in range(rank):
        known = [each[dim] for each in (starts, offsets) if dim in each]
        offsets_found.append(
            loop_code.joined("addi", *known) if len(known) == 2 else [*known, loop_code.index(0)][0]
        )
    return offsets_found
