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
from fractions import Fraction
from functools import cache, lru_cache, partial
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shard_dialect.proof.boundary import Place
from shard_dialect.proof.factors import Factors, Term
from shard_dialect.proof.machine import TERMINATORS, noted_in
from shard_dialect.proof.reading import Block, Function, Grid, Op, Program, Type

CONSTANTS = frozenset(("arith.constant", "stablehlo.constant", "mhlo.constant"))
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
        for op in program.ops()
        for type_ in op.types
    )


def has_family(program: Program) -> bool:
    """Whether all tensors have elements, and sizes that are known: others have no factors."""
    return all(
        size > 0
        for op in program.ops()
        for type_ in (*op.types, *op.operand_types)
        for size in type_.shape
    )


@dataclass(frozen=True, slots=True)
class Member:
    """Both programs at other sizes; the sizes that were, and what they are."""

    whole: Program
    own: Program
    sizes: tuple[tuple[int, int], ...]
    devices: tuple[int, int]
    ops: Sequence[Op]
    """Those that keep sizes."""

    def __str__(self) -> str:
        devices, fewer = self.devices
        sizes = [f"{old} as {new}" for old, new in self.sizes[:_MOST_SHOWN]]
        shown = [f"{devices} devices as {fewer}"] if fewer != devices else []
        return ", ".join([*shown, *([f"sizes {', '.join(sizes)}"] if sizes else [])])

    @property
    def kept(self) -> str:
        """The ops that keep the largest tensors as they are, as the end of an error."""
        large = sorted(
            self.ops, key=lambda op: -max(prod(t.shape) for t in (*op.types, *op.operand_types))
        )
        named = list(dict.fromkeys(f"'{op.name}' at {op.place}" for op in large))[:_MOST_SHOWN]
        return f"; these ops keep their sizes: {', '.join(named)}" if named else ""


_MOST_SHOWN = 4


def members(
    whole: Program, own: Program, unsharded: Function, local: Function, places: Sequence[Place]
) -> Iterator[Member]:
    """Small programs of the family: the smallest, then ones of which one factor is larger.

    `places` are those of the local function's arguments, and then of its results.
    """
    factors = Factors()
    one, many = (Family(each, factors) for each in (whole, own))
    one.read()
    many.read()
    _relate_boundaries(factors, one, many, unsharded, local, places)
    counted = [term for family in (one, many) for _, term in family.positions]
    for family in (one, many):
        family.link_integers(counted)
    for family in (one, many):
        for terms in family.compared().values():
            factors.keep_order(terms)
    for chosen in factors.choices():
        yield _member(one, many, chosen)


def _member(one: Family, many: Family, chosen: Mapping[int, int]) -> Member:
    factors = one.factors

    @cache
    def size(term: Term) -> int:
        return prod(chosen[factor] for factor in factors.factors(term))

    dims = {dim for family in (one, many) for dim in family.sizes()}
    pairs = {(factors.value(dim), size(dim)) for dim in dims}
    changed = tuple((old, new) for old, new in sorted(pairs, reverse=True) if new != old)
    made = many.smaller(size, many.weights(chosen))
    devices = len(many.program.grid.devices), len(made.grid.devices)
    whole = one.smaller(size, one.weights(chosen))
    return Member(whole, made, changed, devices, [*one.kept, *many.kept])


def _relate_boundaries(
    factors: Factors,
    one: Family,
    many: Family,
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
            if any(sharding.halos or ()) or any(sharding.offsets or ()) or sharding.partial:
                factors.pin(*dims, *own_dims, *many.axes[sharding.grid])
        if place.tiles is not None:
            factors.pin(*many.sizes_of_grids())
            split = [[count] for count in place.tiles.counts]
            for dim, own_dim, (count,) in zip(dims, own_dims, split, strict=True):
                _relate_parts(factors, dim, own_dim + factors.constant(count))
            continue
        for dim, own_dim, axes in zip(dims, own_dims, split, strict=True):
            terms = [many.axes[sharding.grid][axis] for axis in axes]
            _relate_parts(factors, dim, sum(terms, own_dim))


def _relate_parts(factors: Factors, whole: Term, parts: Term) -> None:
    if factors.value(parts) == factors.value(whole):
        factors.equate(whole, parts)
    else:
        factors.pin(whole, parts)


Rule: TypeAlias = "Callable[[Family, Op], None]"
RULES: dict[str, Rule] = {}
"""What an op says of the sizes of its operands and results."""


relates = noted_in(RULES)
"""Decorates a function as the rule of these ops."""


_SPREADING = ("stablehlo.broadcast_in_dim", "stablehlo.convert", "stablehlo.reshape")
"""What makes a constant of another shape or type."""
_COMPUTING = ("add", "addi", "subtract", "subi", "multiply", "muli", "negate")
"""What makes another constant of constants."""
_WIDE = 32
"""The bits that hold positions in any tensor."""
_UNIFORM = frozenset(
    "add addi subtract subi negate compare cmpi select maximum minimum maxsi minsi maxui minui "
    "clamp convert extsi extui trunci index_cast index_castui sitofp uitofp constant iota index "
    "broadcast_in_dim reshape collapse_shape expand_shape transpose reverse slice concatenate pad "
    "gather scatter dynamic_slice dynamic_update_slice extract extract_slice insert_slice "
    "empty fill splat from_elements cast generic reduce sort while for if case call composite "
    "optimization_barrier sharding_constraint annotate reshard shard all_gather all_slice "
    "all_to_all collective_permute all_reduce broadcast shift process_multi_index "
    "process_linear_index idx size grid_shape propagation_barrier yield".split()
)
"""What becomes of positions by these ops depends on no number but those that are linked."""


@dataclass
class Family:
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
    summed: list[tuple[Op, int, Term]] = field(default_factory=list)
    """Ops that add up an operand, along sizes of a term."""
    kept: list[Op] = field(default_factory=list)
    """Ops whose sizes stay."""
    positions: list[tuple[tuple[str, int], Term]] = field(default_factory=list)
    """Integers, and sizes in which they are positions."""
    fixed: set[int] = field(default_factory=set)
    """Constants of the function, and what is spread or converted of these."""
    irregular: list[tuple[str, int]] = field(default_factory=list)
    """Integers of ops that do more with positions than compare, move and pick by them."""

    def read(self) -> None:
        """Relate all sizes of the program."""
        for name, grid in self.program.grids.items():
            self.axes[name] = tuple(self.factors.new(size) for size in grid.shape)
            in_order = grid.devices == tuple(range(len(grid.devices)))
            if not in_order or len(self.program.grids) > 1 or self.program.parts:
                self.factors.pin(*self.axes[name])
        for function in self.program.functions.values():
            self.read_function(function)

    def read_function(self, function: Function) -> None:
        """Relate the sizes of a function."""
        self.function, self.fixed = function.name, set()
        self._read_block(function.body)

    def _read_block(self, block: Block) -> None:
        for op in block.ops:
            if op.name in CONSTANTS or (
                op.name in _SPREADING and self.fixed.issuperset(op.operands)
            ):
                self.fixed.update(op.results)
            if op.name not in TERMINATORS:
                RULES.get("linalg.generic" if op.maps else op.name, Family.keep)(self, op)
                if not self._is_uniform(op):
                    numbers = (*op.operands, *op.results)
                    self.irregular += [(self.function, number) for number in numbers]
                for region in op.regions:
                    self._read_block(region)

    def _is_uniform(self, op: Op) -> bool:
        """Whether positions stay positions: nothing is computed that other sizes have otherwise."""
        given = [type_ for type_ in op.operand_types if type_.is_integer and not type_.is_bit]
        made = [type_ for type_ in op.types if type_.is_integer and not type_.is_bit]
        if not given and not made:
            return True
        name = op.name.rpartition(".")[2]
        if any(type_.width < _WIDE for type_ in (*given, *made)):
            return False  # positions in large tensors may not fit
        if made and name == "convert" and op.operand_types[0].is_float:
            return False
        if made and name in _COMPUTING and self.fixed.issuperset(op.operands):
            return False  # it is another constant
        if name in ("multiply", "muli"):
            return any(number in self.fixed for number in op.operands)
        if name == "reduce" or op.maps or name in ("all_reduce", "reduce_scatter"):
            return not made or self._chooses(op)
        return name in _UNIFORM

    def _chooses(self, op: Op) -> bool:
        """Whether a reduction of integers gives one of them."""
        kind = str(op.attributes.get("reduction", "sum"))
        if not op.regions:
            return any(each in kind for each in ("max", "min"))
        adds = {"add", "addi", "multiply", "muli", "xor", "xori"}
        is_reduced = op.name == "stablehlo.reduce" or len(op.maps[-1].results) < op.maps[-1].loops
        return not is_reduced or not adds & {inner.name.rpartition(".")[2] for inner in op.body.ops}

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

    def keep(self, op: Op) -> None:
        """Let the sizes of an op stay, and those of its grid: the rule of an op that has none."""
        self.integers(op)
        self.kept.append(op)
        for dims in (*self.operands(op), *self.results(op)):
            self.factors.pin(*dims)
        if op.name.startswith(("shard.", "mesh.")):
            self.factors.pin(*self.grid_axes(op))
        elif not op.name.startswith(("arith.", "math.", "tensor.", "linalg.", "tosa.", "chlo.")):
            self.factors.pin(*self.sizes_of_grids())
        for region in op.regions:
            for number, type_ in zip(region.arguments, region.types, strict=True):
                self.factors.pin(*self.of(self.function, number, type_))

    def integers(self, op: Op) -> None:
        """Integers that an op reads and gives are computed from each other."""
        pairs = [
            *zip(op.operands, op.operand_types, strict=True),
            *zip(op.results, op.types, strict=True),
            *(pair for each in op.regions for pair in zip(each.arguments, each.types, strict=True)),
        ]
        self.together(*(n for n, type_ in pairs if type_.is_integer and not type_.is_bit))

    def together(self, *numbers: int) -> None:
        """Integers that are computed from each other."""
        first, *rest = [(self.function, number) for number in numbers] or [("", 0)]
        for other in rest:
            self.join(first, other)

    def join(self, a: tuple[str, int], b: tuple[str, int]) -> None:
        """Let two integers, of any functions, be computed from each other."""
        self.parents[self._root(a)] = self._root(b)

    def _root(self, key: tuple[str, int]) -> tuple[str, int]:
        while (parent := self.parents.get(key, key)) != key:
            key = parent
        return key

    def count(self, number: int, *terms: Term) -> None:
        """Say that a number is a position in sizes of these terms."""
        self.factors.hold_positions(*terms)
        self.positions += [((self.function, number), term) for term in terms]

    def sums(self, op: Op, operand: int, *terms: Term) -> None:
        """Say that an op adds up an operand's elements along sizes of these terms."""
        self.summed.append((op, operand, sum(terms, ())))

    def weights(self, chosen: Mapping[int, int]) -> dict[int, tuple[int, Fraction]]:
        """For ops that add up elements which stand for several: the operand, and how often."""
        weight = cache(partial(self.factors.weight, chosen=chosen))
        return {
            id(op): (operand, weight(term))
            for op, operand, term in self.summed
            if weight(term) != 1
        }

    def change_numbers(self, op: Op, name: str, numbers: Sequence[tuple[int, Term]]) -> None:
        """Say that a list holds multiples of units, or is as far from these as it is now."""
        multiples = [(self._nearest(number, unit), unit) for number, unit in numbers]
        self.change(
            op, name, lambda size: tuple(n * size(unit) + more for (n, more), unit in multiples)
        )

    def _nearest(self, number: int, unit: Term) -> tuple[int, int]:
        """A number as a multiple of a unit, and how much more it is, or less."""
        own = self.factors.value(unit)
        times = (2 * number + own) // (2 * own)
        return times, number - times * own

    def change(self, op: Op, name: str, value: Attribute) -> None:
        """Say what an attribute is in another member of the family."""
        self.attributes.setdefault(id(op), {})[name] = value

    def grid_axes(self, op: Op) -> list[Term]:
        """The sizes of the axes along which a collective runs."""
        name = op.attributes.get("grid", op.attributes.get("cluster", next(iter(self.axes), "")))
        listed_axes = op.attributes.get("grid_axes", op.attributes.get("mesh_axis"))
        axes = self.axes.get(name, ())
        return [axes[axis] for axis in (range(len(axes)) if listed_axes is None else listed_axes)]

    def link_integers(self, counted: Sequence[Term]) -> None:
        """A constant that is the size in which it counts is that size, whatever it is.

        Or another size in which positions count: of a tensor that is split, the local program knows
        the part. Where a constant is no size, and more than 1, the sizes that it counts with stay,
        and so do those that count with what other sizes would have otherwise.
        """
        own = self.compared()
        for key in self.irregular:
            self.factors.pin(*own.get(self._root(key), ()))
        for key, op in self.constants:
            terms = own.get(self._root(key), [])
            if not self._is_linked(key, op, self._by_value(terms)) and not self._is_linked(
                key, op, self._by_value(counted)
            ):
                self.factors.pin(*self.dims[key], *terms)

    def compared(self) -> dict[tuple[str, int], list[Term]]:
        """For each integer, with those that are computed from it, where it is a position."""
        found: dict[tuple[str, int], list[Term]] = defaultdict(list)
        for key, term in self.positions:
            found[self._root(key)].append(term)
        return found

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
        if not is_splat(given):
            step, dims = int(flat[1] - flat[0]), self.dims[key]
            is_starts = np.array_equal(flat, np.arange(len(flat)) * step)
            if step < 2 or step not in sizes or not is_starts:
                return False
            term = sizes[step]
            self.change(op, "value", lambda size: _multiples(dims, term, size))
            return True
        number = int(flat[0]) if flat.size else 0
        if abs(number) <= 1:
            return True
        for value, term in sizes.items():
            for sign, less in ((1, 0), (1, 1), (-1, 0)):
                if number == sign * (value - less):
                    new = _linked(term, sign, less, given.ndim)
                    self.change(op, "value", new)
                    return True
        return False

    def sizes_of_grids(self) -> list[Term]:
        """The axes of all grids."""
        return [axis for axes in self.axes.values() for axis in axes]

    def sizes(self) -> Iterator[Term]:
        """All sizes of all tensors, and the axes."""
        for dims in (*self.dims.values(), *self.axes.values()):
            yield from dims

    def smaller(self, size: Size, weights: Mapping[int, tuple[int, Fraction]]) -> Program:
        """The member of the family that has these sizes."""
        functions = {
            name: _Rewriter(self, name, size, weights).function(each)
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


def is_splat(array: NDArray[Any]) -> bool:
    """Whether all elements are one number."""
    return array.size < 2 or not any(array.strides) or bool((array == array.flat[0]).all())


@lru_cache(1 << 12)
def _resized(given: Type, shape: tuple[int, ...]) -> Type:
    return replace(given, shape=shape)


@dataclass(frozen=True)
class _Rewriter:
    """Writes a function with other sizes."""

    family: Family
    name: str
    size: Size
    weights: Mapping[int, tuple[int, Fraction]]
    made: dict[int, Type] = field(default_factory=dict)
    """The types of values."""

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
        if id(op) in self.weights:
            attributes["weight"] = self.weights[id(op)]
        constant = attributes.get("value")
        is_constant = op.name in CONSTANTS
        if (
            is_constant
            and isinstance(constant, np.ndarray)
            and constant.ndim
            and constant.shape != types[0].shape
        ):
            attributes["value"] = np.broadcast_to(constant.reshape(-1)[:1], types[0].shape)
        return replace(
            op,
            operand_types=self.types(op.operands, op.operand_types),
            types=types,
            attributes=attributes,
            regions=tuple(self.block(region) for region in op.regions),
        )

    def types(self, numbers: Sequence[int], types: Sequence[Type]) -> tuple[Type, ...]:
        return tuple(map(self.type, numbers, types))

    def type(self, number: int, given: Type) -> Type:
        made = self.made.get(number)
        if made is None:
            dims = self.family.dims.get((self.name, number))
            shape = given.shape if dims is None else tuple(map(self.size, dims))
            made = self.made[number] = _resized(given, shape)
        return made
