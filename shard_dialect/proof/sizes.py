"""The same two programs with smaller tensors on fewer devices.

A program whose ops treat all elements along a dimension alike is one of a family, with a member for
each size, as `x + y` is for vectors of any length. Both programs are read as members of one family:
each size and each axis of the grid is a product of unknown factors (`Factors`), each op says which
of these are equal, and an op that says nothing keeps the sizes that it has. A number in the program
that is a size, such as the bound of a loop over layers, is that size in the family. The member with
the smallest factors is evaluated in place of the one that was given.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd, prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shard_dialect.proof.boundary import Place
from shard_dialect.proof.elementwise import ELEMENTWISE
from shard_dialect.proof.factors import Factors, Term
from shard_dialect.proof.machine import TERMINATORS
from shard_dialect.proof.reading import Block, Function, Grid, Op, Program, Type
from shard_dialect.proof.structured_stablehlo import listed, structured

Dims: TypeAlias = tuple[Term, ...]
Size: TypeAlias = Callable[[Term], int]
"""The new value of a product of factors."""
Attribute: TypeAlias = Callable[[Size], Any]
"""The new value of an attribute."""


def elements(programs: Sequence[tuple[Program, int]]) -> int:
    """The elements of all results of all ops on this many devices; loops count once."""
    return sum(
        devices * prod(type_.shape)
        for program, devices in programs
        for function in program.functions.values()
        for op in _ops(function.body)
        for type_ in op.types
    )


def _ops(block: Block) -> Iterator[Op]:
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from _ops(region)


@dataclass(frozen=True, slots=True)
class Smaller:
    """Both programs, made smaller; the sizes that were, and what they are."""

    whole: Program
    own: Program
    sizes: Mapping[int, int]
    devices: tuple[int, int]

    def __str__(self) -> str:
        shown = ", ".join(f"{old} to {new}" for old, new in list(self.sizes.items())[:_MOST_SHOWN])
        return (
            f"{self.devices[0]} devices as {self.devices[1]}, and sizes as smaller ones where all "
            f"elements are treated alike: {shown}"
        )


_MOST_SHOWN = 4


def smaller(
    whole: Program, own: Program, unsharded: Function, local: Function, places: Sequence[Place]
) -> Smaller:
    """The smallest programs of which these are larger members.

    `places` are those of the local function's arguments, and then of its results.
    """
    factors = Factors()
    one, many = (_Family(each, factors) for each in (whole, own))
    one.read()
    many.read()
    _relate_boundaries(factors, one, many, unsharded, local, places)
    one.link_integers()
    many.link_integers()
    chosen = factors.smallest()

    def size(term: Term) -> int:
        return prod(chosen[factor] for factor in factors.factors(term))

    before = {factors.value(dim): size(dim) for family in (one, many) for dim in family.sizes()}
    changed = {old: new for old, new in sorted(before.items(), reverse=True) if new != old}
    made = many.smaller(size)
    return Smaller(
        one.smaller(size),
        made,
        changed,
        (len(own.grid.devices), len(made.grid.devices)),
    )


def _relate_boundaries(
    factors: Factors,
    one: _Family,
    many: _Family,
    unsharded: Function,
    local: Function,
    places: Sequence[Place],
) -> None:
    """The sizes of each argument and result of the local function are parts of the global ones."""
    pairs = [
        (one.of(unsharded, number, type_), many.of(local, own, local_type))
        for number, type_, own, local_type in zip(
            unsharded.body.arguments, unsharded.body.types, local.body.arguments, local.body.types,
            strict=True,
        )
    ]  # fmt: skip
    pairs += [
        (one.of(unsharded, number, type_), many.of(local, own, local_type))
        for number, type_, own, local_type in zip(
            unsharded.body.ops[-1].operands, unsharded.result_types,
            local.body.ops[-1].operands, local.result_types, strict=True,
        )
    ]  # fmt: skip
    for (dims, own_dims), place in zip(pairs, places, strict=True):
        sharding = place.sharding
        split: Sequence[Sequence[Any]] = [()] * len(dims)
        if sharding is not None:
            split = sharding.split_axes
            if any(sharding.halos or ()) or any(sharding.offsets or ()):
                factors.pin(*dims, *own_dims, *many.axes[sharding.grid])
        for dim, own_dim, axes in zip(dims, own_dims, split, strict=True):
            terms = [many.axes[sharding.grid][axis] for axis in axes]
            parts = sum(terms, own_dim)
            if factors.value(parts) == factors.value(dim):
                factors.equate(dim, parts)
            else:
                factors.pin(dim, parts)


@dataclass
class _Family:
    """A program, and what its ops say of its sizes."""

    program: Program
    factors: Factors
    dims: dict[tuple[str, int], Dims] = field(default_factory=dict)
    axes: dict[str, Dims] = field(default_factory=dict)
    attributes: dict[int, dict[str, Attribute]] = field(default_factory=dict)
    """What changes of an op, by the identity of the op."""
    function: str = ""
    parents: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict)
    """Integers that are computed from each other, as a forest."""
    constants: list[tuple[tuple[str, int], Op]] = field(default_factory=list)
    positions: list[tuple[tuple[str, int], Term]] = field(default_factory=list)
    """Integers, and sizes in which they are positions."""

    def read(self) -> None:
        """Relate all sizes of the program."""
        for name, grid in self.program.grids.items():
            self.axes[name] = tuple(self.factors.new(size) for size in grid.shape)
            in_order = grid.devices == tuple(range(len(grid.devices)))
            if not in_order or len(self.program.grids) > 1 or self.program.parts:
                self.factors.pin(*self.axes[name])
        for function in self.program.functions.values():
            self.function = function.name
            self.read_block(function.body)

    def read_block(self, block: Block) -> None:
        for op in block.ops:
            if op.name not in TERMINATORS:
                _rule_of(op)(self, op)
                for region in op.regions:
                    self.read_block(region)

    def of(self, function: Function | str, number: int, type_: Type) -> Dims:
        """The sizes of a value."""
        name = function if isinstance(function, str) else function.name
        known = self.dims.get((name, number))
        if known is None:
            known = tuple(self._size(size) for size in type_.shape)
            self.dims[name, number] = known
        return known

    def _size(self, size: int) -> Term:
        return self.factors.constant(size) if size < 1 else self.factors.new(size)

    def operands(self, op: Op) -> list[Dims]:
        """The sizes of an op's operands."""
        return [
            self.of(self.function, number, type_)
            for number, type_ in zip(op.operands, op.operand_types, strict=True)
        ]

    def results(self, op: Op) -> list[Dims]:
        """The sizes of an op's results."""
        return [
            self.of(self.function, number, type_)
            for number, type_ in zip(op.results, op.types, strict=True)
        ]

    def same(self, left: Dims, right: Dims) -> None:
        """Let two tensors have the same shape."""
        for a, b in zip(left, right, strict=True):
            self.factors.equate(a, b)

    def together(self, *numbers: int) -> None:
        """Integers that are computed from each other."""
        first, *rest = [(self.function, number) for number in numbers] or [("", 0)]
        for other in rest:
            self.join(first, other)

    def join(self, a: tuple[str, int], b: tuple[str, int]) -> None:
        self.parents[self.root(a)] = self.root(b)

    def root(self, key: tuple[str, int]) -> tuple[str, int]:
        while (parent := self.parents.get(key, key)) != key:
            key = parent
        return key

    def count(self, number: int, *terms: Term) -> None:
        """Say that an integer is a position in sizes of these terms."""
        self.factors.hold_positions(*terms)
        self.positions += [((self.function, number), term) for term in terms]

    def change_numbers(self, op: Op, name: str, numbers: Sequence[tuple[int, Term]]) -> None:
        """Say that a list holds these multiples, as they are now, of units."""
        multiples = [(number // self.factors.value(unit), unit) for number, unit in numbers]
        self.change(op, name, lambda size: tuple(n * size(unit) for n, unit in multiples))

    def change(self, op: Op, name: str, value: Attribute) -> None:
        """Say what an attribute is in another member of the family."""
        self.attributes.setdefault(id(op), {})[name] = value

    def grid_axes(self, op: Op) -> list[Term]:
        """The sizes of the axes along which a collective runs."""
        name = op.attributes.get("grid", op.attributes.get("cluster", next(iter(self.axes), "")))
        listed_axes = op.attributes.get("grid_axes", op.attributes.get("mesh_axis"))
        axes = self.axes.get(name, ())
        return [axes[axis] for axis in (range(len(axes)) if listed_axes is None else listed_axes)]

    def link_integers(self) -> None:
        """A constant that is the size in which it counts is that size, whatever it is."""
        counted: dict[tuple[str, int], list[Term]] = defaultdict(list)
        for key, term in self.positions:
            counted[self.root(key)].append(term)
        for key, op in self.constants:
            terms = counted.get(self.root(key), [])
            if not self._is_linked(key, op, self._by_value(terms)):
                self.factors.pin(*terms)

    def _by_value(self, terms: Sequence[Term]) -> dict[int, Term]:
        found: dict[int, Term] = {}
        for term in terms:
            self.factors.equate(found.setdefault(self.factors.value(term), term), term)
        return found

    def _is_linked(self, key: tuple[str, int], op: Op, sizes: Mapping[int, Term]) -> bool:
        given = op.attributes["value"]
        if isinstance(given, int):
            given = np.array(given)
        if not isinstance(given, np.ndarray) or given.dtype.kind not in "iu":
            return False
        flat = given.reshape(-1)
        if not _is_splat(given):
            step, dims = int(flat[1] - flat[0]), self.dims[key]
            if step not in sizes or not np.array_equal(flat, np.arange(len(flat)) * step):
                self.factors.pin(*dims)
                return False
            term = sizes[step]
            self.change(op, "value", lambda size: _multiples(dims, term, size))
            return True
        number = int(flat[0]) if flat.size else 0
        for value, term in sizes.items():
            for sign, less in ((1, 0), (1, 1), (-1, 0)):
                if number == sign * (value - less):
                    new = _linked(term, sign, less, given.ndim)
                    self.change(op, "value", new)
                    return True
        return abs(number) <= 1

    def sizes(self) -> Iterator[Term]:
        """All sizes of all tensors, and the axes."""
        for dims in (*self.dims.values(), *self.axes.values()):
            yield from dims

    def smaller(self, size: Size) -> Program:
        """The member of the family that has these sizes."""
        functions = {
            name: _Rewriter(self, name, size).function(each)
            for name, each in self.program.functions.items()
        }
        grids = dict(self.program.grids)
        for name, axes in self.axes.items():
            shape = tuple(map(size, axes))
            if shape != grids[name].shape:
                grids[name] = Grid(shape, tuple(range(prod(shape))))
        return replace(self.program, functions=functions, grids=grids)


def _linked(term: Term, sign: int, less: int, rank: int) -> Attribute:
    return lambda size: np.full((1,) * rank, sign * (size(term) - less))


def _multiples(dims: Dims, term: Term, size: Size) -> NDArray[Any]:
    shape = [size(dim) for dim in dims]
    return np.arange(prod(shape)).reshape(shape) * size(term)


def _is_splat(array: NDArray[Any]) -> bool:
    return array.size < 2 or not any(array.strides) or bool((array == array.flat[0]).all())


@dataclass(frozen=True)
class _Rewriter:
    """Writes a function with other sizes."""

    family: _Family
    name: str
    size: Size

    def function(self, given: Function) -> Function:
        body = self.block(given.body)
        returned = body.ops[-1].operand_types if body.ops else ()
        return replace(given, body=body, result_types=returned)

    def block(self, given: Block) -> Block:
        types = self.types(given.arguments, given.types)
        return Block(given.arguments, types, tuple(self.op(op) for op in given.ops))

    def op(self, op: Op) -> Op:
        types = self.types(op.results, op.types)
        attributes = dict(op.attributes)
        for name, value in self.family.attributes.get(id(op), {}).items():
            attributes[name] = value(self.size)
        constant = attributes.get("value", attributes.get("values"))
        if isinstance(constant, np.ndarray) and types and constant.shape != types[0].shape:
            key = "value" if "value" in attributes else "values"
            attributes[key] = np.broadcast_to(constant.reshape(-1)[:1], types[0].shape)
        return replace(
            op,
            operand_types=self.types(op.operands, op.operand_types),
            types=types,
            attributes=attributes,
            regions=tuple(self.block(region) for region in op.regions),
        )

    def types(self, numbers: Sequence[int], types: Sequence[Type]) -> tuple[Type, ...]:
        found = []
        for number, type_ in zip(numbers, types, strict=True):
            dims = self.family.dims.get((self.name, number))
            shape = type_.shape if dims is None else tuple(map(self.size, dims))
            found.append(replace(type_, shape=shape) if shape != type_.shape else type_)
        return tuple(found)


Rule: TypeAlias = Callable[[_Family, Op], None]
RULES: dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def note(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return note


def _rule_of(op: Op) -> Rule:
    if op.maps:
        return _loops
    if op.name in RULES:
        return RULES[op.name]
    return _elementwise if op.name in ELEMENTWISE else _keeps


def _integers(family: _Family, op: Op) -> None:
    """Integers that an op reads and gives are computed from each other."""
    pairs = [
        *zip(op.operands, op.operand_types, strict=True),
        *zip(op.results, op.types, strict=True),
        *(pair for each in op.regions for pair in zip(each.arguments, each.types, strict=True)),
    ]
    family.together(*(n for n, type_ in pairs if type_.is_integer and not type_.is_bit))


def _keeps(family: _Family, op: Op) -> None:
    """An op of which nothing is said here: its sizes, and those of its grid, stay."""
    _integers(family, op)
    for dims in (*family.operands(op), *family.results(op)):
        family.factors.pin(*dims)
    if op.name.startswith(("shard.", "mesh.", "sdy.")):
        for axes in family.axes.values():
            family.factors.pin(*axes)
    for region in op.regions:
        for number, type_ in zip(region.arguments, region.types, strict=True):
            family.factors.pin(*family.of(family.function, number, type_))


@_rule(
    "linalg.fill", "stablehlo.reverse", "tensor.cast",
    "sdy.sharding_constraint", "sdy.reshard", "sdy.propagation_barrier", "mesh.annotate",
    "mesh.reshard", "mesh.propagation_barrier", "shard.shard", "shard.all_reduce", "mesh.mask",
    "stablehlo.sort", "stablehlo.map",
)  # fmt: skip
def _elementwise(family: _Family, op: Op) -> None:
    """Tensors of one shape; scalars stand for tensors of it."""
    _integers(family, op)
    many = [dims for dims in (*family.operands(op), *family.results(op)) if dims]
    for dims in many:
        if len(dims) != len(many[-1]):
            _keeps(family, op)
            return
        for a, b in zip(dims, many[-1], strict=True):
            if family.factors.value(a) == family.factors.value(b):
                family.factors.equate(a, b)


def _loops(family: _Family, op: Op) -> None:
    """An op of linalg: each loop has a size; what reads several loops at once keeps them."""
    _integers(family, op)
    sizes: dict[int, Term] = {}
    for dims, map_ in zip(family.operands(op), op.maps, strict=False):
        for dim, expression in zip(dims, map_.results, strict=True):
            if expression[0] == "d":
                family.factors.equate(sizes.setdefault(expression[1], dim), dim)
    plain = {("d", loop) for loop in sizes}
    for dims, map_ in zip(family.operands(op), op.maps, strict=False):
        if any(each not in plain for each in map_.results):
            family.factors.pin(*dims, *sizes.values())
    for number, dims in enumerate(family.results(op)):
        family.same(dims, family.operands(op)[len(op.operands) - len(op.types) + number])
    for inner in op.body.ops:
        if inner.name == "linalg.index":
            family.count(inner.results[0], *sizes.values())
        elif any(type_.shape for type_ in inner.operand_types):
            family.factors.pin(*sizes.values())


@_rule("linalg.index", "linalg.yield")
def _index(family: _Family, op: Op) -> None:
    """Its loop is noted with the op around it."""


@_rule("tensor.empty", "bufferization.alloc_tensor", "shard.sharding")
def _made(family: _Family, op: Op) -> None:
    """A tensor of any shape; of sizes that operands give, it stays."""
    family.results(op)
    if op.operands:
        _keeps(family, op)


@_rule("arith.constant", "stablehlo.constant", "mhlo.constant")
def _constant(family: _Family, op: Op) -> None:
    """Of one number it has any shape."""
    (dims,) = family.results(op)
    given = op.attributes["value"]
    is_integer = op.type.is_integer and not op.type.is_bit
    if is_integer:
        family.constants.append(((family.function, op.results[0]), op))
    elif isinstance(given, str) or (isinstance(given, np.ndarray) and not _is_splat(given)):
        family.factors.pin(*dims)


@_rule("stablehlo.broadcast_in_dim")
def _broadcast(family: _Family, op: Op) -> None:
    _integers(family, op)
    (given,), (made,) = family.operands(op), family.results(op)
    shape = op.operand_types[0].shape
    for dim, to in enumerate(op.attributes["broadcast_dimensions"]):
        if shape[dim] != 1 or op.type.shape[to] == 1:
            family.factors.equate(given[dim], made[to])


@_rule("stablehlo.reshape", "tensor.collapse_shape", "tensor.expand_shape")
def _reshape(family: _Family, op: Op) -> None:
    _integers(family, op)
    family.factors.refine(family.operands(op)[0], family.results(op)[0])


@_rule("stablehlo.transpose")
def _transpose(family: _Family, op: Op) -> None:
    _integers(family, op)
    (given,), (made,) = family.operands(op), family.results(op)
    family.same(tuple(given[dim] for dim in op.attributes["permutation"]), made)


@_rule("stablehlo.iota")
def _iota(family: _Family, op: Op) -> None:
    dim = family.results(op)[0][op.attributes["iota_dimension"]]
    family.count(op.results[0], dim)


@_rule("stablehlo.slice")
def _slice(family: _Family, op: Op) -> None:
    _integers(family, op)
    (given,), (made,) = family.operands(op), family.results(op)
    names = ("start_indices", "limit_indices", "strides")
    starts: list[tuple[int, Term]] = []
    limits: list[tuple[int, Term]] = []
    for dim, (low, high, step) in enumerate(zip(*(op.attributes[n] for n in names), strict=True)):
        unit = given[dim]
        if (low, high, step) == (0, family.factors.value(unit), 1):
            family.factors.equate(given[dim], made[dim])
        else:
            unit = _in_units(family, (given[dim], made[dim]), low, high, *([1] if step > 1 else []))
        starts.append((low, unit))
        limits.append((high, unit))
    family.change_numbers(op, names[0], starts)
    family.change_numbers(op, names[1], limits)


def _in_units(family: _Family, sizes: Sequence[Term], *numbers: int) -> Term:
    """Let sizes and numbers be multiples of one unknown, the same multiples that they are."""
    own = [family.factors.value(size) for size in sizes]
    unit = gcd(*numbers, *own)
    if unit < 2:
        family.factors.pin(*sizes)
        return ()
    term = family.factors.new(unit)
    for size, value in zip(sizes, own, strict=True):
        family.factors.equate(size, family.factors.constant(value // unit) + term)
    return term


@_rule("stablehlo.concatenate")
def _concatenate(family: _Family, op: Op) -> None:
    _integers(family, op)
    (made,), along = family.results(op), op.attributes["dimension"]
    for dims in family.operands(op):
        for dim, (a, b) in enumerate(zip(dims, made, strict=True)):
            if dim != along:
                family.factors.equate(a, b)
    _in_units(family, [dims[along] for dims in (*family.operands(op), made)])


@_rule("stablehlo.pad")
def _pad(family: _Family, op: Op) -> None:
    _integers(family, op)
    given, made = family.operands(op)[0], family.results(op)[0]
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    lows: list[tuple[int, Term]] = []
    highs: list[tuple[int, Term]] = []
    for dim, (low, high, gap) in enumerate(zip(*(op.attributes[n] for n in names), strict=True)):
        unit: Term = ()
        if (low, high, gap) == (0, 0, 0):
            family.factors.equate(given[dim], made[dim])
        else:
            unit = _in_units(family, (given[dim], made[dim]), low, high, *([1] if gap else []))
        lows.append((low, unit))
        highs.append((high, unit))
    family.change_numbers(op, names[0], lows)
    family.change_numbers(op, names[1], highs)


@_rule("stablehlo.reduce")
def _reduce(family: _Family, op: Op) -> None:
    _integers(family, op)
    dims = op.attributes["dimensions"]
    for given, made in zip(family.operands(op), family.results(op), strict=False):
        family.same(tuple(each for dim, each in enumerate(given) if dim not in dims), made)
        family.same(family.operands(op)[0], given)


@_rule("stablehlo.dot_general")
def _dot(family: _Family, op: Op) -> None:
    _integers(family, op)
    left, right = family.operands(op)
    dims = structured(op, "dot_dimension_numbers", "DotDimensionNumbers")
    batches = list(dims.lhs_batching_dimensions), list(dims.rhs_batching_dimensions)
    sums = list(dims.lhs_contracting_dimensions), list(dims.rhs_contracting_dimensions)
    for a, b in (*zip(*batches, strict=True), *zip(*sums, strict=True)):
        family.factors.equate(left[a], right[b])
    used = [*zip(batches, sums, strict=True)]
    free = [
        each
        for side, (batch, summed) in zip((left, right), used, strict=True)
        for dim, each in enumerate(side)
        if dim not in batch and dim not in summed
    ]
    family.same((*(left[dim] for dim in batches[0]), *free), family.results(op)[0])


@_rule("stablehlo.convolution")
def _convolution(family: _Family, op: Op) -> None:
    """Batch and features have any size, where they are not in groups."""
    (image, kernel), (made,) = family.operands(op), family.results(op)
    dims = structured(op, "dimension_numbers", "ConvDimensionNumbers")
    batch = image[dims.input_batch_dimension], made[dims.output_batch_dimension]
    inward = image[dims.input_feature_dimension], kernel[dims.kernel_input_feature_dimension]
    outward = kernel[dims.kernel_output_feature_dimension], made[dims.output_feature_dimension]
    in_groups = op.attributes["feature_group_count"], op.attributes["batch_group_count"]
    if in_groups == (1, 1):
        for pair in (batch, inward, outward):
            family.factors.equate(*pair)
    else:
        family.factors.pin(*batch, *inward, *outward)
    window = [op.operand_types[1].shape[dim] for dim in dims.kernel_spatial_dimensions]
    _relate_windows(
        family,
        op,
        [image[dim] for dim in dims.input_spatial_dimensions],
        [made[dim] for dim in dims.output_spatial_dimensions],
        window,
        "lhs_dilation",
    )
    family.factors.pin(*(kernel[dim] for dim in dims.kernel_spatial_dimensions))


def _relate_windows(
    family: _Family,
    op: Op,
    given: Sequence[Term],
    made: Sequence[Term],
    window: Sequence[int],
    dilation: str,
) -> None:
    """Where windows are single elements side by side, there are as many; else sizes stay."""
    ones = [1] * len(given)
    ends = np.asarray(listed(op, "padding", [0] * 2 * len(given))).reshape(-1, 2).tolist()
    strides, gaps = listed(op, "window_strides", ones), listed(op, dilation, ones)
    for a, b, *shape in zip(given, made, window, strides, gaps, ends, strict=True):
        if shape == [1, 1, 1, [0, 0]]:
            family.factors.equate(a, b)
        else:
            family.factors.pin(a, b)


@_rule("stablehlo.reduce_window")
def _reduce_window(family: _Family, op: Op) -> None:
    _integers(family, op)
    window = listed(op, "window_dimensions", [])
    for given, made in zip(family.operands(op), family.results(op), strict=False):
        _relate_windows(family, op, given, made, window, "base_dilations")


@_rule("stablehlo.select_and_scatter")
def _select_and_scatter(family: _Family, op: Op) -> None:
    (given, source, _), (made,) = family.operands(op), family.results(op)
    family.same(given, made)
    window = listed(op, "window_dimensions", [1] * len(given))
    _relate_windows(family, op, given, source, window, "base_dilations")


@_rule("stablehlo.gather")
def _gather(family: _Family, op: Op) -> None:
    _integers(family, op)
    (operand, indices), (made,) = family.operands(op), family.results(op)
    dims = structured(op, "dimension_numbers", "GatherDimensionNumbers")
    _relate_batch(family, indices, made, dims.index_vector_dim, dims.offset_dims)
    batching = dict(zip(dims.operand_batching_dims, dims.start_indices_batching_dims, strict=True))
    offsets = iter(dims.offset_dims)
    sizes: list[tuple[int, Term]] = []
    for dim, size in enumerate(op.attributes["slice_sizes"]):
        unit: Term = ()
        if dim in batching:
            family.factors.equate(operand[dim], indices[batching[dim]])
        elif dim in dims.collapsed_slice_dims:
            family.count(op.operands[1], operand[dim])
        else:
            unit = _relate_slice(family, op.operands[1], operand[dim], made[next(offsets)])
        sizes.append((size, unit))
    family.change_numbers(op, "slice_sizes", sizes)


def _relate_batch(
    family: _Family, indices: Dims, other: Dims, vector: int, windows: Sequence[int]
) -> None:
    """The dimensions of indices are those of what they pick, but for the windows."""
    here = [each for dim, each in enumerate(indices) if dim != vector]
    there = [each for dim, each in enumerate(other) if dim not in list(windows)]
    family.same(tuple(here), tuple(there))
    family.factors.pin(*(each for dim, each in enumerate(indices) if dim == vector))


def _relate_slice(family: _Family, index: int, whole: Term, part: Term) -> Term:
    """A part that begins at an index; gives the unit in which the part is measured."""
    own, size = family.factors.value(whole), family.factors.value(part)
    if own == size:
        family.factors.equate(whole, part)
    elif size and own % size == 0:
        family.count(index, whole, part)
        if part:
            family.factors.equate(whole, family.factors.constant(own // size) + part)
    else:
        family.count(index, whole)
        family.factors.pin(whole, part)
    return part


@_rule("stablehlo.scatter")
def _scatter(family: _Family, op: Op) -> None:
    _integers(family, op)
    count = (len(op.operands) - 1) // 2
    given = family.operands(op)
    dims = structured(op, "scatter_dimension_numbers", "ScatterDimensionNumbers")
    batching = dict(zip(dims.input_batching_dims, dims.scatter_indices_batching_dims, strict=True))
    index, indices = op.operands[count], given[count]
    for operand, updates, made in zip(
        given[:count], given[count + 1 :], family.results(op), strict=True
    ):
        family.same(operand, made)
        _relate_batch(family, indices, updates, dims.index_vector_dim, dims.update_window_dims)
        windows = iter(dims.update_window_dims)
        for dim, size in enumerate(operand):
            if dim in batching:
                family.factors.equate(size, indices[batching[dim]])
            elif dim in dims.inserted_window_dims:
                family.count(index, size)
            else:
                _relate_slice(family, index, size, updates[next(windows)])


@_rule("stablehlo.dynamic_slice")
def _dynamic_slice(family: _Family, op: Op) -> None:
    _integers(family, op)
    whole, (part,) = family.operands(op)[0], family.results(op)
    for index, a, b in zip(op.operands[1:], whole, part, strict=True):
        _relate_slice(family, index, a, b)
    sizes = [(family.factors.value(dim), dim) for dim in part]
    family.change_numbers(op, "slice_sizes", sizes)


@_rule("stablehlo.dynamic_update_slice")
def _dynamic_update_slice(family: _Family, op: Op) -> None:
    _integers(family, op)
    (whole, part, *_), (made,) = family.operands(op), family.results(op)
    family.same(whole, made)
    for index, a, b in zip(op.operands[2:], whole, part, strict=True):
        _relate_slice(family, index, a, b)


@_rule("stablehlo.while")
def _while(family: _Family, op: Op) -> None:
    for region in op.regions:
        _relate(family, op.operands, region.arguments, op.operand_types)
    _relate(family, op.operands, op.regions[1].ops[-1].operands, op.operand_types)
    _relate(family, op.operands, op.results, op.operand_types)


@_rule("scf.for")
def _for(family: _Family, op: Op) -> None:
    counter, *arguments = op.body.arguments
    family.together(*op.operands[:3], counter)
    for numbers in (arguments, op.body.ops[-1].operands, op.results):
        _relate(family, op.operands[3:], numbers, op.types)


@_rule("stablehlo.if", "stablehlo.case", "scf.if", "scf.execute_region", "scf.index_switch")
def _branches(family: _Family, op: Op) -> None:
    for region in op.regions:
        if region.ops:
            _relate(family, op.results, region.ops[-1].operands, op.types)


@_rule("func.call", "stablehlo.composite")
def _call(family: _Family, op: Op) -> None:
    name = op.attributes.get("callee", op.attributes.get("decomposition"))
    callee = family.program.functions.get(name)
    if callee is None:
        _keeps(family, op)
        return
    _relate(family, op.operands, callee.body.arguments, op.operand_types, name)
    _relate(family, op.results, callee.body.ops[-1].operands, op.types, name)


@_rule("stablehlo.optimization_barrier", "mesh.done")
def _barrier(family: _Family, op: Op) -> None:
    _relate(family, op.operands, op.results, op.types)


def _relate(
    family: _Family,
    left: Sequence[int],
    right: Sequence[int],
    types: Sequence[Type],
    function: str | None = None,
) -> None:
    """Values are passed on, to another function if one is named."""
    here, there = family.function, function or family.function
    for a, b, type_ in zip(left, right, types, strict=True):
        family.same(family.of(here, a, type_), family.of(there, b, type_))
        if type_.is_integer and not type_.is_bit:
            family.join((here, a), (there, b))


_JOINED = {"shard.all_gather": "gather_axis", "shard.all_to_all": "concat_axis"}
"""Collectives of which a dimension of the result holds that of all members."""
_SPLIT = {
    "shard.all_slice": ("slice_axis",),
    "shard.reduce_scatter": ("scatter_dim", "scatter_axis"),
    "shard.all_to_all": ("split_axis",),
}
"""Collectives of which a dimension of the result is a part."""


@_rule(*_JOINED, *_SPLIT)
def _exchange(family: _Family, op: Op) -> None:
    _integers(family, op)
    (given,), (made,) = family.operands(op), family.results(op)
    members = sum(family.grid_axes(op), ())
    more, less = list(given), list(made)
    if op.name in _JOINED:
        dim = op.attributes[_JOINED[op.name]]
        more[dim] = more[dim] + members
    if op.name in _SPLIT:
        dim = next(op.attributes[key] for key in _SPLIT[op.name] if key in op.attributes)
        less[dim] = less[dim] + members
    family.same(tuple(more), tuple(less))


@_rule("mesh.collective_permute")
def _permute(family: _Family, op: Op) -> None:
    """A permutation that reorders digits of the members' numbers does so for digits of any size."""
    _elementwise(family, op)
    axes = family.grid_axes(op)
    digits = _digits(op.attributes["permutation"])
    if digits is None:
        family.factors.pin(*axes)
        return
    terms = [family.factors.new(count) for count, _ in digits]
    order = sorted(range(len(digits)), key=lambda at: -digits[at][1])
    family.factors.refine(axes, terms)
    family.factors.refine(axes, [terms[at] for at in order])

    def permutation(size: Size) -> tuple[int, ...]:
        sizes = [size(term) for term in terms]
        numbers = np.arange(prod(sizes)).reshape([sizes[at] for at in order])
        return tuple(numbers.transpose(np.argsort(order)).reshape(-1).tolist())

    family.change(op, "permutation", permutation)


def _digits(permutation: Sequence[int]) -> list[tuple[int, int]] | None:
    """The sizes and strides of digits that a permutation reorders, the major ones first.

    `[0, 2, 1, 3]` is `[(2, 1), (2, 2)]`: number `2 * a + b` goes to `a + 2 * b`.
    """
    left = np.array(permutation)
    found: list[tuple[int, int]] = []
    while len(left) > 1:
        stride = int(left[1] - left[0])
        run = 1 + int(np.argmin(np.append(np.diff(left) == stride, False)))
        count = next(n for n in range(run, 0, -1) if len(left) % n == 0)
        rows = left.reshape(-1, count)
        if count == 1 or stride < 1 or np.any(rows != rows[:, :1] + np.arange(count) * stride):
            return None
        found.append((count, stride))
        left = rows[:, 0]
    strides = sorted(found, key=lambda digit: digit[1])
    expected = 1
    for count, stride in strides:
        if stride != expected:
            return None
        expected *= count
    return found[::-1] if left[0] == 0 else None


@_rule("shard.shift")
def _shift(family: _Family, op: Op) -> None:
    """To a neighbour, of any number of them."""
    _elementwise(family, op)
    axis = family.axes[op.attributes["grid"]][op.attributes["shift_axis"]]
    if abs(op.attributes["offset"]) == 1:
        family.factors.hold_positions(axis)
    else:
        family.factors.pin(axis)


@_rule("shard.process_multi_index", "shard.process_linear_index", "mesh.idx", "mesh.size",
       "shard.grid_shape")  # fmt: skip
def _position(family: _Family, op: Op) -> None:
    for number in op.results:
        for axis in family.grid_axes(op):
            family.count(number, axis)
