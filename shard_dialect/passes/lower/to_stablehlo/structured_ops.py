"""Ops of `linalg`, each as a `generic`, as StableHLO's on whole tensors.

    products            dot_general, convolution        (`stablehlo_contractions`)
    no reduction        the body's ops on tensors with one dimension for each loop
    a reduction         the same, then stablehlo.reduce
    any other body      stablehlo.while over the reduced loops

An operand whose indices are no permutation of the loops is gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import create, is_used
from shard_dialect.ir.mesh.attributes import DYNAMIC
from shard_dialect.ir.walk import operations
from shard_dialect.model import Reduction
from shard_dialect.ops.op_table import record_of
from shard_dialect.ops.scalar_functions import FUNCTIONS, Trait
from shard_dialect.passes.lower.to_stablehlo.stablehlo_collectives import identity
from shard_dialect.passes.lower.to_stablehlo.stablehlo_elementwise import (
    elementwise,
    is_elementwise,
)

_REDUCTIONS: dict[str, Reduction] = {
    "add": "sum",
    "mul": "product",
    "max": "max",
    "min": "min",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
}
"""For each function that joins an element with the accumulator, the reduction."""


def function_of(op: ir.Operation) -> str:
    """The function of numbers that the op applies; empty for those of complex or unsigned ones."""
    record = record_of(op)
    if record is None or Trait.UNSIGNED in record.traits or op.name.startswith("complex."):
        return ""
    return record.function


@dataclass(frozen=True)
class Loops:
    """A `linalg.generic`: its operands, how it reads them, and the sizes of its loops."""

    op: ir.Operation
    inputs: Sequence[ir.Value]
    inits: Sequence[ir.Value]
    maps: Sequence[ir.AffineMap]
    sizes: Sequence[int]
    reduced: Sequence[int]
    """The loops that no result has as a dimension."""

    @classmethod
    def of(cls, op: ir.Operation) -> Loops:
        """Read the op. Raises `ShardError` for operands of unknown size."""
        count = op.attributes["operandSegmentSizes"][0]
        maps, values = [], []
        for operand, attribute in zip(op.operands, op.attributes["indexing_maps"], strict=True):
            map_, value = _without_fixed_dims(attribute.value, hlo.tensor_of(operand))
            maps.append(map_)
            values.append(value)
        sizes = [1] * maps[0].n_dims
        for value, map_ in zip(values, maps, strict=True):
            for expression, size in zip(map_.results, value.type.shape, strict=True):
                if (loop := loop_of(expression)) is not None:
                    sizes[loop] = size
        kinds = [str(each) for each in op.attributes["iterator_types"]]
        reduced = [loop for loop, kind in enumerate(kinds) if "reduction" in kind]
        return cls(op, values[:count], values[count:], maps, sizes, reduced)

    @property
    def body(self) -> ir.Block:
        """The block that computes one iteration."""
        return self.op.regions[0].blocks[0]

    @property
    def kept(self) -> list[int]:
        """The loops that are not reduced."""
        return [loop for loop in range(len(self.sizes)) if loop not in self.reduced]

    def dims_of(self, operand: int) -> list[int] | None:
        """The loop for each dimension of an operand; `None` if its indices are computed."""
        dims = [loop_of(each) for each in self.maps[operand].results]
        known = [each for each in dims if each is not None]
        return known if len(known) == len(dims) == len(set(known)) else None


def _without_fixed_dims(map_: ir.AffineMap, value: ir.Value) -> tuple[ir.AffineMap, ir.Value]:
    """An operand without the dimensions of size 1 that the map reads at 0, as in `(d0, 0)`."""
    shape = value.type.shape
    kept = [
        dim
        for dim, each in enumerate(map_.results)
        if shape[dim] != 1 or not isinstance(each, ir.AffineConstantExpr)
    ]
    if len(kept) == len(shape):
        return map_, value
    results = [map_.results[dim] for dim in kept]
    return ir.AffineMap.get(map_.n_dims, 0, results), hlo.reshape(
        value, [shape[dim] for dim in kept]
    )


def loop_of(expression: ir.AffineExpr) -> int | None:
    """The loop that an expression is; `None` for any other expression."""
    if not isinstance(expression, ir.AffineDimExpr):
        return None
    return int(expression.position)


def generic(op: ir.Operation) -> list[ir.Value]:
    """The results of a `linalg.generic`. Raises `ShardError` for a body that has no equivalent."""
    results = _results(Loops.of(op))
    shapes = [hlo.tensor_type(result.type).shape for result in op.results]
    return [hlo.reshape(each, shape) for each, shape in zip(results, shapes, strict=True)]


def _results(loops: Loops) -> list[ir.Value]:
    operands = (*loops.inputs, *loops.inits)
    arguments = list(loops.body.arguments)
    first_init = len(loops.inputs)
    of_inits = [_result_dims(loops, first_init + number) for number in range(len(loops.inits))]
    joins = _joins(loops)
    if loops.reduced and joins is None:
        return _in_turn(loops, of_inits)
    values = {
        argument: _over_loops(loops, number, operands[number])
        for number, argument in enumerate(arguments)
        if is_used(argument) and not (loops.reduced and number >= first_init)
    }
    skipped = [join for join, _ in joins or ()]
    run_body(loops.body, values, lambda loop: hlo.iota(loops.sizes, loop), skipped)
    yielded = list(operations(loops.body)[-1].operands)
    if not loops.reduced:
        wholes = [broadcast_to(_value(values, each), loops.sizes) for each in yielded]
        return [hlo.transpose(whole, dims) for whole, dims in zip(wholes, of_inits, strict=True)]
    return [
        _reduced(loops, join, broadcast_to(_value(values, element), loops.sizes), init, dims)
        for (join, element), init, dims in zip(joins or (), loops.inits, of_inits, strict=True)
    ]


def _result_dims(loops: Loops, operand: int) -> list[int]:
    dims = loops.dims_of(operand)
    if dims is None or sorted(dims) != loops.kept:
        raise ShardError("a linalg op that writes at indices that are computed cannot be lowered")
    return dims


def broadcast_to(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """A value of rank 0 for all elements; others have the shape already."""
    return value if value.type.rank == len(shape) else hlo.broadcast(value, shape)


def _value(values: dict[ir.Value, ir.Value], value: ir.Value) -> ir.Value:
    """The tensor for a value of the body, or of the function around it."""
    return values[value] if value in values else hlo.tensor_of(value)


def run_body(
    body: ir.Block,
    values: dict[ir.Value, ir.Value],
    iterations: Callable[[int], ir.Value],
    skipped: Sequence[ir.Operation] = (),
) -> None:
    """Convert the body's ops but its last and the `skipped`, on tensors; `values` gets results.

    `iterations` gives the index of a loop for each element.
    """
    for op in operations(body)[:-1]:
        if op in skipped or op.name == "cf.assert":  # XLA has no assertions
            continue
        if op.name == "linalg.index":
            made = [iterations(op.attributes["dim"].value)]
        elif op.name == "tensor.extract":
            made = [_extracted(op, values)]
        elif is_elementwise(op):
            made = elementwise(op, [_value(values, each) for each in op.operands])
        else:
            raise ShardError(f"a linalg op with '{op.name}' in its body cannot be lowered")
        values.update(zip(op.results, made, strict=True))


def generated(op: ir.Operation) -> ir.Value:
    """A tensor whose elements the op's body computes from their indices."""
    shape = op.results[0].type.shape
    (block,) = op.regions[0].blocks
    values = {argument: hlo.iota(shape, dim) for dim, argument in enumerate(block.arguments)}
    run_body(block, values, lambda dim: hlo.iota(shape, dim))
    return broadcast_to(_value(values, operations(block)[-1].operands[0]), shape)


def padded(op: ir.Operation) -> ir.Value:
    """The result of a `tensor.pad`."""
    low, high = (list(op.attributes[f"static_{name}"]) for name in ("low", "high"))
    value, *computed = hlo.tensors_of(op.operands)
    (block,) = op.regions[0].blocks
    content = operations(block)[-1].operands[0]
    is_simple = len(operations(block)) == 1 and not isinstance(content.owner, ir.Block)
    if is_simple and not computed:
        return hlo.pad(value, hlo.tensor_of(content), low, high, [0] * value.type.rank)
    offsets = iter(computed)
    starts = [next(offsets) if size == DYNAMIC else hlo.index(size) for size in low]
    return hlo.dynamic_update(generated(op), value, starts)


def _extracted(op: ir.Operation, values: dict[ir.Value, ir.Value]) -> ir.Value:
    source, *at = op.operands
    indices = [_value(values, each) for each in at]
    shape = max((list(each.type.shape) for each in indices), key=len, default=[])
    return hlo.elements_at(hlo.tensor_of(source), [broadcast_to(each, shape) for each in indices])


def _over_loops(loops: Loops, operand: int, value: ir.Value) -> ir.Value:
    """An operand with one dimension for each loop."""
    dims = loops.dims_of(operand)
    if dims is None:
        indices = [evaluated(each, loops.sizes) for each in loops.maps[operand].results]
        return hlo.elements_at(value, indices)
    order = sorted(range(len(dims)), key=lambda dim: dims[dim])
    return hlo.broadcast(hlo.transpose(value, order), loops.sizes, sorted(dims))


def evaluated(expression: ir.AffineExpr, sizes: Sequence[int]) -> ir.Value:
    """An affine expression of the loops for each iteration, as `i64`."""
    if (loop := loop_of(expression)) is not None:
        return hlo.iota(sizes, loop)
    type_ = hlo.tensor(sizes, ir.IntegerType.get_signless(64))
    if isinstance(expression, ir.AffineConstantExpr):
        return hlo.number(expression.value, type_)
    for kind, name in _AFFINE.items():
        if isinstance(expression, kind):
            pair = expression
            return hlo.stablehlo_op(
                name, type_, [evaluated(each, sizes) for each in (pair.lhs, pair.rhs)]
            )
    raise ShardError(f"a linalg op that reads at {expression} cannot be lowered")


_AFFINE = {
    ir.AffineAddExpr: "add",
    ir.AffineMulExpr: "multiply",
    ir.AffineModExpr: "remainder",
    ir.AffineFloorDivExpr: "divide",
}
"""Indices are not negative, so that a division that rounds down is StableHLO's."""


def _joins(loops: Loops) -> list[tuple[ir.Operation, ir.Value]] | None:
    """For each result of a reduction, the op that joins the accumulator with the next element,
    and that element; `None` if the body does otherwise.
    """
    accumulators = list(loops.body.arguments)[len(loops.inputs) :]
    found = []
    last = operations(loops.body)[-1]
    for yielded, accumulator in zip(last.operands, accumulators, strict=True):
        join = yielded.owner
        if (
            isinstance(join, ir.Block)
            or function_of(join) not in _REDUCTIONS
            or str(yielded.type) == "i1"
        ):
            return None
        uses = len(list(accumulator.uses)), len(list(yielded.uses))
        others = [each for each in join.operands if each != accumulator]
        if uses != (1, 1) or len(others) != 1:
            return None
        found.append((join.operation, others[0]))
    return found


def _reduced(
    loops: Loops, join: ir.Operation, elements: ir.Value, init: ir.Value, dims: Sequence[int]
) -> ir.Value:
    function = function_of(join)
    kind, reduction = FUNCTIONS[function].stablehlo, _REDUCTIONS[function]
    start = identity(reduction, hlo.tensor((), elements.type.element_type))
    result = hlo.reduce(elements, kind, start, loops.reduced)
    result = hlo.transpose(result, [loops.kept.index(loop) for loop in dims])
    return hlo.stablehlo_op(kind, init.type, [init, result])


def _in_turn(loops: Loops, of_inits: Sequence[Sequence[int]]) -> list[ir.Value]:
    """The results of a reduction by a loop, one iteration after the other.

    The accumulators go around it, with the kept loops in order.
    """
    arguments = list(loops.body.arguments)
    count = len(loops.inputs)
    inputs = {
        argument: _over_loops(loops, number, loops.inputs[number])
        for number, argument in enumerate(arguments[:count])
        if is_used(argument)
    }
    shape = [loops.sizes[loop] for loop in loops.kept]
    orders = [[list(dims).index(loop) for loop in loops.kept] for dims in of_inits]
    starts = [hlo.transpose(each, order) for each, order in zip(loops.inits, orders, strict=True)]
    carried = [hlo.index(0), *starts]
    types = [each.type for each in carried]
    loop = create("stablehlo.while", types, carried, {}, 2)
    blocks = [
        region.blocks.append(*types, arg_locs=[loop.location] * len(types))
        for region in loop.regions
    ]
    with ir.InsertionPoint(blocks[0]), loop.location:
        total = hlo.index(prod(loops.sizes[each] for each in loops.reduced))
        hlo.ends([hlo.compare("LT", blocks[0].arguments[0], total)])
    with ir.InsertionPoint(blocks[1]), loop.location:
        count_, *accumulated = blocks[1].arguments
        at = _coordinates(loops, count_)
        values = {argument: _iteration(loops, each, at, shape) for argument, each in inputs.items()}
        values |= dict(zip(arguments[count:], accumulated, strict=True))

        def iterations(each: int) -> ir.Value:
            return at[each] if each in at else hlo.iota(shape, loops.kept.index(each))

        run_body(loops.body, values, iterations)
        results = [_value(values, each) for each in operations(loops.body)[-1].operands]
        following = hlo.stablehlo_op("add", count_.type, [count_, hlo.index(1)])
        hlo.ends([following, *(broadcast_to(each, shape) for each in results)])
    _, *found = loop.results
    return [
        hlo.transpose(each, [loops.kept.index(one) for one in dims])
        for each, dims in zip(found, of_inits, strict=True)
    ]


def _coordinates(loops: Loops, position: ir.Value) -> dict[int, ir.Value]:
    """The index of each reduced loop in an iteration, counted row by row."""
    found = {}
    for loop in reversed(loops.reduced):
        size = hlo.index(loops.sizes[loop])
        found[loop] = hlo.stablehlo_op("remainder", position.type, [position, size])
        position = hlo.stablehlo_op("divide", position.type, [position, size])
    return found


def _iteration(
    loops: Loops, value: ir.Value, at: dict[int, ir.Value], shape: Sequence[int]
) -> ir.Value:
    """The slice of an operand, with a dimension for each loop, in one iteration."""
    sizes = [1 if loop in at else size for loop, size in enumerate(loops.sizes)]
    starts = [at[loop] if loop in at else hlo.index(0) for loop in range(len(sizes))]
    return hlo.reshape(hlo.dynamic_slice(value, starts, sizes), shape)
