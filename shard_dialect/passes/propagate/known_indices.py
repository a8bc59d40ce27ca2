"""Take the components of indices that constants and iotas make out of gathers and scatters.

    %i = stablehlo.iota dim = 1 : tensor<1x8x4xi32>
    %1 = stablehlo.concatenate %i, %ids, dim = 0 : (tensor<1x8x4xi32>, tensor<1x8x4xi32>) -> ...
    %2 = stablehlo.gather(%x, %1), collapsed_slice_dims = [0, 1], start_index_map = [0, 1]

A component that counts along a dimension of the indices reads another slice of %x for each: the two
dimensions correspond, and can be split together.

    %2 = stablehlo.gather(%x, %ids), collapsed_slice_dims = [1], start_index_map = [1],
             operand_batching_dims = [0], start_indices_batching_dims = [1]

A component that is one constant is a slice of %x before it is gathered from. A gather of which no
component is left is a slice that is broadcast. A scatter of which none is left, and whose updates
are each element of a box of the operand once, is a `dynamic_update_slice`, which splits what it
updates; of the whole operand it is elementwise. A `dynamic_slice` at constants is a slice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import create, create_value, is_used
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.ir.mesh.annotation_ops import has_loops
from shard_dialect.ir.mesh.attributes import RULE
from shard_dialect.ir.walk import body, is_made_by, maker_of, operations, walk
from shard_dialect.model.sharding import Shape
from shard_dialect.ops.stablehlo.attribute_reading import integer, integers
from shard_dialect.ops.stablehlo.gather_scatter import Numbers
from shard_dialect.passes.framework.base import Pass, is_imported, needs
from shard_dialect.passes.propagate.annotated_results import replace_annotated

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_GATHER, _SCATTER, _SLICE = "stablehlo.gather", "stablehlo.scatter", "stablehlo.dynamic_slice"
_NUMBERS = {_GATHER: "dimension_numbers", _SCATTER: "scatter_dimension_numbers"}
_ANNOTATIONS = ("mesh.annotate", "sdy.sharding_constraint", "sdy.reshard")


@needs(ops=(_GATHER, _SCATTER, _SLICE), forms=("annotated",), grid=True, keeps=(is_imported,))
@dataclass(frozen=True)
class BatchGathers(Pass):
    """Make batching dimensions of gathers and scatters where indices count along a dimension."""

    name = "batch-gathers"

    def rewrite(self, module: ir.Operation) -> None:
        """Rewrite the gathers, scatters and slices of functions in the annotated form."""
        for function in functions_of(module):
            if form_of(function) == "annotated":
                for op in [each for each in walk(function) if each.name in (*_NUMBERS, _SLICE)]:
                    with ir.InsertionPoint(op), op.location:
                        _rewrite(op)


@dataclass(frozen=True)
class _Along:
    """Integers that count from zero along a dimension."""

    dim: int


_Known = int | _Along
"""An integer that all elements are, or how they count."""


_DEEPEST = 16
"""How many ops an index may be made by."""


def _known(value: ir.Value, depth: int = _DEEPEST) -> _Known | None:
    """The elements of an integer tensor, if they are all equal, or count along a dimension.

    Integers alone, of which each is as it is written: a float of few bits cannot count far, and a
    narrow integer wraps.
    """
    is_integer = isinstance(value.type.element_type, ir.IntegerType)
    if isinstance(value.owner, ir.Block) or not depth or not is_integer:
        return None
    op, shape = value.owner.operation, list(value.type.shape)
    if op.name == "stablehlo.iota":
        along = integer(op, "iota_dimension")
        return _counting(along, shape) if _fits(shape[along] - 1, value) else None
    if op.name == "stablehlo.constant":
        given = op.attributes["value"]
        if isinstance(given, ir.DenseElementsAttr) and given.is_splat:
            number = int(given.get_splat_value().value)
            return number if _fits(abs(number), value) else None
        array = _elements(op)
        return None if array is None else _of_array(array)
    if op.name == "stablehlo.select":
        is_same = _is_never_negative(op.operands[0], depth - 1)
        return _known(op.operands[2], depth - 1) if is_same else None
    if op.name not in (*_ANNOTATIONS, *_MOVED):
        return None
    found = _known(op.operands[0], depth - 1)
    if not isinstance(found, _Along):
        return found if found is None or op.name != _CONVERT or _fits(found, value) else None
    before = op.operands[0].type.shape
    if op.name == _CONVERT:
        return found if _fits(before[found.dim] - 1, value) else None
    dim = _MOVED[op.name](op, found.dim) if op.name in _MOVED else found.dim
    return _Along(dim) if dim is not None and shape[dim] == before[found.dim] else None


def _counting(dim: int, shape: Sequence[int]) -> _Known:
    return 0 if shape[dim] == 1 else _Along(dim)


def _elements(constant: ir.Operation) -> npt.NDArray[np.int64] | None:
    """The integers of a constant that are not all equal, of the widths that indices have."""
    import numpy as np  # which takes a tenth of a second, and most programs have no such constant

    given, type_ = constant.attributes["value"], constant.results[0].type
    is_dense = isinstance(given, ir.DenseElementsAttr) and not given.is_splat
    return np.asarray(given).reshape(type_.shape) if is_dense and _fits(127, type_) else None


def _of_array(array: npt.NDArray[np.int64]) -> _Known | None:
    import numpy as np

    first = array.flat[0] if array.size else 0
    if array.size and (array == first).all():
        return int(first)
    for dim, size in enumerate(array.shape):
        counted = np.arange(size).reshape([-1 if d == dim else 1 for d in range(array.ndim)])
        if (array == counted).all():
            return _Along(dim)
    return None


def _is_never_negative(compared: ir.Value, depth: int) -> bool:
    """Whether a condition asks if integers that are none below zero are, as JAX's indices do."""
    if not is_made_by(compared, "stablehlo.compare"):
        return False
    op = compared.owner.operation
    found, zero = (_known(operand, depth) for operand in op.operands)
    is_below = "LT" in str(op.attributes["comparison_direction"])
    return (
        is_below and zero == 0 and found is not None and (isinstance(found, _Along) or found >= 0)
    )


def _fits(number: int, value: ir.Value | ir.RankedTensorType) -> bool:
    """Whether the elements of a tensor hold this number and those from zero up to it."""
    type_ = value.type if isinstance(value, ir.Value) else value
    element = type_.element_type
    return isinstance(element, ir.IntegerType) and 0 <= number < 1 << (element.width - 1)


def _reshaped(op: ir.Operation, dim: int) -> int | None:
    """The dimension of a reshape's result that has the same elements in front of it."""
    before, after = (list(value.type.shape) for value in (op.operands[0], op.results[0]))
    same = (
        d
        for d, size in enumerate(after)
        if size == before[dim] and prod(after[:d]) == prod(before[:dim])
    )
    return next(same, None)


def _sliced(op: ir.Operation, dim: int) -> int | None:
    is_all = integers(op, "start_indices")[dim] == 0 and integers(op, "strides")[dim] == 1
    return dim if is_all else None


_CONVERT = "stablehlo.convert"
_MOVED: dict[str, Callable[[ir.Operation, int], int | None]] = {
    _CONVERT: lambda _, dim: dim,
    "stablehlo.broadcast_in_dim": lambda op, dim: integers(op, "broadcast_dimensions")[dim],
    "stablehlo.reshape": _reshaped,
    "stablehlo.slice": _sliced,
    "stablehlo.transpose": lambda op, dim: integers(op, "permutation").index(dim),
}
"""Ops that move elements, and where a dimension of their operand is in their result."""


def _component(indices: ir.Value, vector: int, number: int, depth: int = _DEEPEST) -> _Known | None:
    """What is known of a component of indices; `vector` is the dimension of the components."""
    whole = _known(indices)
    if whole == _Along(vector):
        return number
    if whole is not None or isinstance(indices.owner, ir.Block) or not depth:
        return whole
    op = indices.owner.operation
    if op.name in _ANNOTATIONS:
        return _component(op.operands[0], vector, number, depth - 1)
    if op.name == "stablehlo.constant":
        array = _elements(op)
        if array is None or vector == array.ndim:
            return None
        return _of_array(array.take([number], vector))
    if op.name == "stablehlo.concatenate" and integer(op, "dimension") == vector:
        for operand in op.operands:
            count = operand.type.shape[vector]
            if number < count:
                return _component(operand, vector, number, depth - 1)
            number -= count
    return _component_number(op, vector, number, depth - 1)


def _component_number(op: ir.Operation, vector: int, number: int, depth: int) -> int | None:
    """The number that a component of the result of `op` is: JAX clamps one to 0 and 0, say."""
    if op.name in _BOUNDED:
        operands = [op.operands[at] for at in _BOUNDED[op.name]]
    elif op.name == "stablehlo.broadcast_in_dim":
        dims, operands = integers(op, "broadcast_dimensions"), [op.operands[0]]
        of_operand = dims.index(vector) if vector in dims else None
        sizes = operands[0].type.shape
        if of_operand is None or sizes[of_operand] != op.results[0].type.shape[vector]:
            return None
        vector = of_operand
    else:
        return None
    found = [
        _component(each, vector, number, depth) if each.type.shape else _known(each)
        for each in operands
    ]
    numbers = {each for each in found if isinstance(each, int)}
    is_known = len(found) == sum(isinstance(each, int) for each in found)
    return min(numbers) if is_known and (op.name != _CLAMP or len(numbers) == 1) else None


_CLAMP = "stablehlo.clamp"
_BOUNDED = {_CLAMP: (0, 2), "stablehlo.minimum": (0, 1)}
"""Ops that tell an element by these operands: the least of them, or the two bounds where equal."""


def _kept(indices: ir.Value, vector: int, numbers: Sequence[int]) -> ir.Value:
    """The indices with only these components."""
    op = maker_of(indices)
    parts = [indices]
    if op is not None and op.name == "stablehlo.concatenate" and integer(op, "dimension") == vector:
        parts = list(op.operands)
    singles = [(part, at) for part in parts for at in range(part.type.shape[vector])]
    taken = [
        hlo.slice_along(part, vector, at, 1) for part, at in (singles[number] for number in numbers)
    ]
    return hlo.concatenate(taken, vector)


@dataclass(frozen=True)
class _Plan:
    """A gather or scatter with fewer components of indices."""

    dims: Numbers
    kept: tuple[int, ...]
    """The numbers of the components that are left."""
    pairs: dict[int, int]
    """From batching dimensions of the operand to those of the indices, also the op's own."""
    begins: dict[int, int]
    """Where slices begin in dimensions of the operand whose component is a constant."""
    removed: frozenset[int] = frozenset()
    """The dimensions of size 1 that the slices have for the new ones."""

    @classmethod
    def of(
        cls, dims: Numbers, op: ir.Operation, spared: int = -1, *, any_box: bool = False
    ) -> _Plan | None:
        """The plan that leaves the component `spared`; `None` if all components stay.

        A scatter with components that are left writes along the whole of a dimension without one,
        or with `any_box` anywhere inside.
        """
        is_gather = op.name == _GATHER
        operand, indices, slices = _parts(op)
        sizes, counts = operand.type.shape, indices.type.shape
        windows = {of: dim for dim, of in dims.windows(len(sizes)).items()}
        pairs = dict(zip(dims.batching, dims.indices_batching, strict=True))
        kept, begins, removed = [], {}, set()
        for number, dim in enumerate(dims.indexed):
            found = None if number == spared else _component(indices, dims.index_vector, number)
            size = slices.type.shape[windows[dim]] if dim in windows else 1
            is_new = isinstance(found, _Along) and found.dim not in pairs.values()
            if (
                isinstance(found, _Along)
                and is_new
                and size == 1
                and sizes[dim] == counts[found.dim]
            ):
                pairs[dim] = found.dim
                removed |= {windows[dim]} if dim in windows else set()
            elif isinstance(found, int) and (
                is_gather
                or (found == 0 and size == sizes[dim])
                or (any_box and 0 <= found <= sizes[dim] - size)
            ):
                begins[dim] = min(max(found, 0), sizes[dim] - size)
            else:
                kept.append(number)
        if len(kept) == len(dims.indexed):
            return None
        return cls(dims, tuple(kept), dict(sorted(pairs.items())), begins, frozenset(removed))

    @property
    def numbers(self) -> Numbers:
        """The dimension numbers of slices without the removed dimensions."""
        return Numbers(
            self.moved(self.dims.window),
            [dim for dim in self.dims.dropped if dim not in self.pairs],
            list(self.pairs),
            list(self.pairs.values()),
            [self.dims.indexed[number] for number in self.kept],
            self.dims.index_vector,
        )

    def moved(self, of_slices: Sequence[int]) -> list[int]:
        """Dimensions of the slices, in slices without the removed ones."""
        return [
            dim - sum(each < dim for each in self.removed)
            for dim in of_slices
            if dim not in self.removed
        ]

    def without_removed(self, shape: Sequence[int]) -> list[int]:
        return [size for dim, size in enumerate(shape) if dim not in self.removed]

    def of_slices(self, rank: int, indices: Shape, slices: Shape) -> dict[int, int]:
        """From dimensions of the operand to those of the slices that have their elements."""
        places = {other: dim for dim, (_, other) in self.dims.batches(slices, indices).items()}
        windows = {of: dim for dim, of in self.dims.windows(rank).items()}
        return windows | {dim: places[other] for dim, other in self.pairs.items()}


def _parts(op: ir.Operation) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The first operand, the indices, and the slices that are read or written."""
    if op.name == _GATHER:
        return op.operands[0], op.operands[1], op.results[0]
    return op.operands[0], op.operands[len(op.results)], op.operands[len(op.results) + 1]


def _rewrite(op: ir.Operation) -> None:
    is_gather = op.name == _GATHER
    is_static = all(value.type.has_static_shape for value in (*op.operands, *op.results))
    if RULE in op.attributes or has_loops(op) or not is_static:
        return  # the rule, and what splits its factors, are for the tensors that the op has
    if op.name == _SLICE:
        _slice_at_constants(op)
        return
    dims = Numbers.of_gather(op) if is_gather else Numbers.of_scatter(op)
    plan = _Plan.of(dims, op, any_box=True)
    if plan is None:
        return
    if not plan.kept:
        made = _as_slice(op, plan) if is_gather else _as_update(op, plan)
        if made is not None:
            _replace(op, [made])
            return
    if not is_gather:
        plan = _Plan.of(dims, op)
    if plan is not None and not plan.kept:
        shape = op.operands[0].type.shape
        spared = min(range(len(dims.indexed)), key=lambda number: shape[dims.indexed[number]])
        plan = _Plan.of(dims, op, spared)
    if plan is not None:
        _replace(op, _gather(op, plan) if is_gather else _scatter(op, plan))


def _slice_at_constants(op: ir.Operation) -> None:
    """Slice along the dimensions in which a `dynamic_slice` begins at a constant."""
    value, starts = op.operands[0], list(op.operands)[1:]
    sizes, wholes = integers(op, "slice_sizes"), list(value.type.shape)
    for dim, (size, whole) in enumerate(zip(sizes, wholes, strict=True)):
        found = _known(starts[dim]) if size != whole else None
        if isinstance(found, int):
            value = hlo.slice_along(value, dim, min(max(found, 0), whole - size), size)
    if value == op.operands[0]:
        return
    is_left = list(value.type.shape) != sizes
    _replace(op, [hlo.dynamic_slice(value, starts, sizes) if is_left else value])


def _sliced_operand(op: ir.Operation, plan: _Plan) -> ir.Value:
    """The operand of a gather, of which slices at constant places are taken."""
    value, sizes = op.operands[0], integers(op, "slice_sizes")
    for dim, begin in plan.begins.items():
        value = hlo.slice_along(value, dim, begin, sizes[dim])
    return value


def _as_slice(op: ir.Operation, plan: _Plan) -> ir.Value:
    """A gather at places that are all known."""
    value, shape = _sliced_operand(op, plan), list(op.results[0].type.shape)
    rank = len(value.type.shape)
    for dim, size in enumerate(integers(op, "slice_sizes")):
        if dim not in plan.pairs:
            value = hlo.slice_along(value, dim, 0, size)
    places = plan.of_slices(rank, tuple(op.operands[1].type.shape), tuple(shape))
    dims = [dim for dim in range(rank) if dim in places]
    value = hlo.reshape(value, [value.type.shape[dim] for dim in dims])
    return hlo.broadcast(
        _in_order(value, [places[dim] for dim in dims]), shape, sorted(places.values())
    )


def _as_update(op: ir.Operation, plan: _Plan) -> ir.Value | None:
    """A scatter at places that are all known, if it updates each element of a box once."""
    if len(op.results) != 1:
        return None
    operand, indices, updates = op.operands
    shape, sizes = list(operand.type.shape), list(updates.type.shape)
    places = plan.of_slices(len(shape), tuple(indices.type.shape), tuple(sizes))
    box = [sizes[places[dim]] if dim in places else 1 for dim in range(len(shape))]
    if prod(sizes) != prod(box):
        return None
    first, second = list(body(op).arguments)
    *inner, end = operations(body(op))
    is_written = end.operands[0] == second
    reads = [] if is_written or not inner else list(inner[0].operands)
    is_combined = (
        len(inner) == 1
        and inner[0].name in _COMBINERS
        and end.operands[0] == inner[0].results[0]
        and {*reads} <= {first, second}
    )
    if not is_written and not is_combined:
        return None
    dims = [dim for dim in range(len(shape)) if dim in places]
    kept = sorted(places[dim] for dim in dims)
    value = hlo.reshape(updates, [sizes[dim] for dim in kept])
    order = [kept.index(places[dim]) for dim in dims]
    value = hlo.reshape(_in_order(value, [order.index(n) for n in range(len(order))]), box)
    begins = [plan.begins.get(dim, 0) for dim in range(len(shape))]
    if is_combined:
        old = operand
        for dim, (begin, size) in enumerate(zip(begins, box, strict=True)):
            old = old if size == shape[dim] else hlo.slice_along(old, dim, begin, size)
        values = {first: old, second: value}
        value = create_value(inner[0].name, value.type, [values[each] for each in reads])
    if box == shape:
        return value
    return hlo.dynamic_update(operand, value, [hlo.index(begin) for begin in begins])


_COMBINERS = {
    f"stablehlo.{name}" for name in ("add", "and", "maximum", "minimum", "multiply", "or", "xor")
}


def _in_order(value: ir.Value, places: Sequence[int]) -> ir.Value:
    """The value, transposed so that its dimensions are in the order of their `places`."""
    return hlo.transpose(value, sorted(range(len(places)), key=lambda dim: places[dim]))


def _gather(op: ir.Operation, plan: _Plan) -> list[ir.Value]:
    operand, indices = _sliced_operand(op, plan), op.operands[1]
    result, dims = op.results[0], plan.numbers
    shape = plan.without_removed(result.type.shape)
    made = create_value(
        _GATHER,
        ir.RankedTensorType.get(shape, result.type.element_type),
        [operand, _kept(indices, dims.index_vector, plan.kept)],
        _attributes(op) | {_NUMBERS[_GATHER]: dims.attribute("Gather")},
    )
    return [hlo.reshape(made, result.type.shape)]


def _scatter(op: ir.Operation, plan: _Plan) -> list[ir.Value]:
    count, dims, given = len(op.results), plan.numbers, list(op.operands)
    updates = [
        hlo.reshape(each, plan.without_removed(each.type.shape)) if plan.removed else each
        for each in given[count + 1 :]
    ]
    made = create(
        _SCATTER,
        [each.type for each in op.results],
        [*given[:count], _kept(given[count], dims.index_vector, plan.kept), *updates],
        _attributes(op) | {_NUMBERS[_SCATTER]: dims.attribute("Scatter")},
        regions=1,
    )
    op.regions[0].blocks[0].append_to(made.regions[0])
    return list(made.results)


def _attributes(op: ir.Operation) -> dict[str, ir.Attribute]:
    """All but annotations; without a component, indices may be in another order."""
    given = {
        name: op.attributes[name]
        for name in op.attributes
        if not name.startswith(("mesh.", "sdy."))
    }
    return given | {"indices_are_sorted": ir.BoolAttr.get(False)}


def _replace(op: ir.Operation, values: Sequence[ir.Value]) -> None:
    """Let the values take the place of the op's results, and drop what only made its indices."""
    for result, value in zip(op.results, values, strict=True):
        replace_annotated(result, value)
    unused = [op]
    while unused:
        each = unused.pop()
        makers = [value.owner.operation for value in each.operands if _is_made(value)]
        each.erase()
        unused += [maker for maker in dict.fromkeys(makers) if not is_used(*maker.results)]


def _is_made(value: ir.Value) -> bool:
    """Whether an op that only makes indices makes it."""
    made_by = (*_MOVED, *_ANNOTATIONS, "stablehlo.iota", "stablehlo.concatenate")
    return is_made_by(value, *made_by)
