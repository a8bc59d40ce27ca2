"""Sums of products over named loops, and bodies over loops: what `linalg` and products are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress, count, product
from math import prod
from typing import Any

import numpy as np

from shard_dialect.proof.elementwise import combined, combining, reduced
from shard_dialect.proof.machine import Data, Machine, Value, means, runs, wrapped
from shard_dialect.proof.reading import Block, Map, Op, Type, evaluated, loops_in

_MOST_POINTS = 1 << 14
"""Loops whose body is evaluated point by point."""


@dataclass(frozen=True)
class Over:
    """A value whose dimensions are loops, by number."""

    value: Value
    loops: tuple[int, ...]


def contracted(m: Machine, a: Over, b: Over, kept: Sequence[int], type_: Type) -> Value:
    """The sum of `a * b` over all loops but those that are `kept`, whose order the result has."""
    a, b = (_without_own(m, each, other, kept, type_) for each, other in ((a, b), (b, a)))
    batch = [loop for loop in kept if loop in a.loops and loop in b.loops]
    summed = [loop for loop in a.loops if loop in b.loops and loop not in kept]
    rows = [loop for loop in a.loops if loop not in b.loops]
    columns = [loop for loop in b.loops if loop not in a.loops]
    left, left_sizes = _matrix(m, a, batch, rows, summed)
    right, right_sizes = _matrix(m, b, batch, summed, columns)
    integers = not type_.is_float
    data = wrapped(np.matmul(left, right), type_) if integers else m.field.matmul(left, right)
    lead = data.shape[: m.axes]
    sizes = left_sizes | right_sizes
    order = [*batch, *rows, *columns]
    data = data.reshape((*lead, *(sizes[loop] for loop in order)))
    places = [m.axes + order.index(loop) for loop in kept]
    return Value(data.transpose(*range(m.axes), *places), type_.is_float)


def _without_own(m: Machine, over: Over, other: Over, kept: Sequence[int], type_: Type) -> Over:
    """The same without loops that are summed and that the other one has not."""
    own = [loop for loop in over.loops if loop not in other.loops and loop not in kept]
    dims = [m.axes + over.loops.index(loop) for loop in own]
    value = reduced(m, "add", _typed(m, over.value, type_), type_, dims)
    return Over(value, tuple(loop for loop in over.loops if loop not in own))


def _typed(m: Machine, value: Value, type_: Type) -> Value:
    if type_.is_float:
        return Value(m.elements(value), True)
    return Value(m.integers(value), False)


def _matrix(m: Machine, over: Over, *groups: Sequence[int]) -> tuple[Data, dict[int, int]]:
    """The array as matrices: the first group of loops as they are, each other as one dimension."""
    data = over.value.data
    sizes = dict(zip(over.loops, data.shape[m.axes :], strict=True))
    order = [m.axes + over.loops.index(loop) for group in groups for loop in group]
    data = data.transpose(*range(m.axes), *order)
    batch, *rest = groups
    flat = [prod(sizes[loop] for loop in group) for group in rest]
    return data.reshape((*data.shape[: m.axes], *(sizes[loop] for loop in batch), *flat)), sizes


@runs("linalg.generic")
def _loops(m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]) -> Sequence[Value]:
    """Any op of linalg that has loops: by its body and its maps."""
    inputs = len(values) - len(op.types)
    values = [*values[:inputs], *map(partial(_if_read, m, op), values[inputs:], count(inputs))]
    varying = [[each[0] != "c" for each in map_.results] for map_ in op.maps[inputs:]]
    outs = [_without_dims(m, *each) for each in zip(values[inputs:], varying, strict=True)]
    maps = [
        replace(map_, results=tuple(compress(map_.results, keeps)))
        for map_, keeps in zip(op.maps[inputs:], varying, strict=True)
    ]
    plain = replace(op, maps=(*op.maps[:inputs], *maps))
    return [
        m.shaped(each, type_.shape)
        for each, type_ in zip(
            _Loops(m, plain, [*values[:inputs], *outs], known).results(), op.types, strict=True
        )
    ]


def _if_read(m: Machine, op: Op, out: Value, number: int) -> Value:
    """What a tensor has in which an op writes; zeros if the op does not read it, as a fill."""
    type_ = op.operand_types[number]
    if -1 in type_.shape or _reads(op.body, op.body.arguments[number]):
        return out
    zero = np.zeros((), np.uint64 if out.is_symbolic else np.int64)
    return out.with_data(np.broadcast_to(zero, (*(1,) * m.axes, *type_.shape)))


def _reads(block: Block, number: int) -> bool:
    return any(
        number in op.operands or any(_reads(region, number) for region in op.regions)
        for op in block.ops
    )


def _without_dims(m: Machine, value: Value, keeps: Sequence[bool]) -> Value:
    """The value without the dimensions, of size 1, that are written at a constant."""
    return m.shaped(value, tuple(compress(value.data.shape[m.axes :], keeps)))


class _Loops:
    """An op of linalg: its operands, the sizes of its loops, and what its body does."""

    def __init__(
        self, m: Machine, op: Op, values: Sequence[Value], known: Mapping[int, Value]
    ) -> None:
        self.m, self.op, self.values, self.known = m, op, values, known
        count = len(op.types)
        self.maps = op.maps
        self.out_maps = op.maps[len(op.maps) - count :]
        self.inputs, self.outs = values[: len(values) - count], values[len(values) - count :]
        self.sizes = self._sizes()
        kept = self.out_maps[0].dims
        if kept is None or any(each.dims != kept for each in self.out_maps):
            raise m.unproven(op, "writes elements along maps that the prover does not know")
        self.kept = kept
        self.summed = [loop for loop in range(len(self.sizes)) if loop not in self.kept]

    def _sizes(self) -> list[int]:
        sizes = [-1] * self.maps[0].loops
        for map_, value in zip(self.maps, self.values, strict=True):
            for expression, size in zip(map_.results, value.data.shape[self.m.axes :], strict=True):
                if expression[0] == "d":
                    sizes[expression[1]] = size
        if -1 in sizes:
            raise self.m.unproven(self.op, "has loops of sizes that no operand has")
        return sizes

    def results(self) -> list[Value]:
        """The results, by the fastest way that there is."""
        body = self.op.body
        outs = body.arguments[len(self.inputs) :]
        if not self.summed:
            return self._ordered_as_outs(self._evaluated(body, self._points()))
        kinds = self._reductions(body, outs)
        if kinds is None:
            return self._one_by_one()
        if self._is_contraction(body, kinds):
            a, b = (
                Over(*self._over_own_loops(value, map_))
                for value, map_ in zip(self.inputs, self.maps, strict=False)
            )
            kept = sorted(self.kept)
            type_ = self.op.types[0]
            sums = [contracted(self.m, a, b, kept, type_)]
        else:
            terms = self._evaluated(_without(body, kinds), self._points())
            kept = sorted(self.kept)
            sums = [
                reduced(
                    self.m, kind, self._full(term), type_, [self.m.axes + d for d in self.summed]
                )
                for (kind, _), term, type_ in zip(kinds, terms, self.op.types, strict=True)
            ]
        results = []
        for (kind, _), total, out, type_ in zip(kinds, sums, self.outs, self.op.types, strict=True):
            places = [self.m.axes + kept.index(loop) for loop in self.kept]
            moved = total.data.transpose(*range(self.m.axes), *places)
            results.append(combined(self.m, kind, out, total.with_data(moved), type_))
        return results

    def _points(self) -> list[Value]:
        """The operands at all points of the loops at once."""
        return [
            self._at_points(value, map_) for value, map_ in zip(self.values, self.maps, strict=True)
        ]

    def _at_points(self, value: Value, map_: Map) -> Value:
        data, loops = self._over_own_loops(value, map_)
        order = sorted(range(len(loops)), key=loops.__getitem__)
        array = data.data.transpose(*range(self.m.axes), *(self.m.axes + at for at in order))
        shape = [self.sizes[loop] if loop in loops else 1 for loop in range(len(self.sizes))]
        return data.with_data(array.reshape((*array.shape[: self.m.axes], *shape)))

    def _over_own_loops(self, value: Value, map_: Map) -> tuple[Value, tuple[int, ...]]:
        """The operand with a dimension for each loop that its map reads."""
        if map_.dims is not None:
            return value, map_.dims
        loops = sorted(set().union(*map(loops_in, map_.results)))
        points = self.m.aranges([self.sizes[loop] for loop in loops])
        by_loop: list[Any] = [0] * len(self.sizes)
        for loop, point in zip(loops, points, strict=True):
            by_loop[loop] = point
        zeros = np.zeros((1,) * (self.m.axes + len(loops)), np.int64)
        indices = [zeros + evaluated(each, by_loop) for each in map_.results]
        picked = value.with_data(self.m.picked(value.data, indices))
        return self.m.full(picked, [self.sizes[loop] for loop in loops]), tuple(loops)

    def _evaluated(self, body: Block, points: Sequence[Value]) -> list[Value]:
        self.m.loops.append(tuple(self.sizes))
        results = self.m.run(body, dict(self.known), points)
        self.m.loops.pop()
        return results

    def _full(self, value: Value) -> Value:
        return self.m.full(value, self.sizes)

    def _ordered_as_outs(self, values: Sequence[Value]) -> list[Value]:
        places = [self.m.axes + loop for loop in self.kept]
        return [
            full.with_data(full.data.transpose(*range(self.m.axes), *places))
            for full in map(self._full, values)
        ]

    def _reductions(self, body: Block, outs: Sequence[int]) -> list[tuple[str, int]] | None:
        """For each result how it is reduced, and the number of what is; `None` if it is not so."""
        made = {number: each for each in body.ops for number in each.results}
        uses = [number for each in body.ops for number in each.operands]
        kinds = []
        for out, yielded in zip(outs, body.ops[-1].operands, strict=True):
            op = made.get(yielded)
            kind = None if op is None else combining(op)
            if op is None or kind is None or out not in op.operands:
                return None
            if uses.count(out) > 1 or uses.count(yielded) > 1:
                return None
            term = op.operands[1 - op.operands.index(out)]
            kinds.append((kind, term))
        return kinds

    def _is_contraction(self, body: Block, kinds: Sequence[tuple[str, int]]) -> bool:
        """Whether it sums the products of its two operands, converted or not."""
        if len(kinds) != 1 or kinds[0][0] != "add" or len(self.inputs) != 2:
            return False
        made = {number: each for each in body.ops for number in each.results}
        term = made.get(kinds[0][1])
        if term is None or term.name not in ("arith.mulf", "arith.muli"):
            return False
        names = [made[each].name if each in made else "" for each in term.operands]
        sources = [made[each].operands[0] if each in made else each for each in term.operands]
        casts = {"", "arith.extf", "arith.extsi", "arith.truncf"}
        if any(type_.is_bit for type_ in body.types):
            casts = {""}  # a true bit is extended to -1
        return set(names) <= casts and sources == list(body.arguments[:2])

    def _one_by_one(self) -> list[Value]:
        """Evaluate the body at each point of the loops that are reduced, in order."""
        points = [range(self.sizes[loop]) for loop in self.summed]
        if prod(map(len, points)) > _MOST_POINTS:
            raise self.m.unproven(self.op, "has a body that is no sum, over too many points")
        current = [self._at_points(v, o) for v, o in zip(self.outs, self.out_maps, strict=True)]
        inputs = self._points()[: len(self.inputs)]
        shape = tuple(1 if d in self.summed else s for d, s in enumerate(self.sizes))
        with self.m.ordered():
            for at in product(*points):
                here = dict(zip(self.summed, at, strict=True))
                taken = [self._at(value, here) for value in inputs]
                self.m.loops.append(_Offset(shape, here))
                current = self.m.run(self.op.body, dict(self.known), [*taken, *current])
                self.m.loops.pop()
        squeezed = []
        for each in current:
            data = np.broadcast_to(each.data, (*each.data.shape[: self.m.axes], *shape))
            data = data.squeeze(tuple(self.m.axes + d for d in self.summed))
            places = [self.m.axes + sorted(self.kept).index(loop) for loop in self.kept]
            squeezed.append(each.with_data(data.transpose(*range(self.m.axes), *places)))
        return squeezed

    def _at(self, value: Value, here: Mapping[int, int]) -> Value:
        index: list[Any] = [slice(None)] * value.data.ndim
        for loop, at in here.items():
            dim = self.m.axes + loop
            if value.data.shape[dim] > 1:
                index[dim] = slice(at, at + 1)
        return value.with_data(value.data[tuple(index)])


class _Offset(tuple[int, ...]):
    """Sizes of loops of which some stand at one point."""

    def __new__(cls, sizes: Sequence[int], at: Mapping[int, int]) -> _Offset:
        made = super().__new__(cls, sizes)
        made.at = at
        return made

    at: Mapping[int, int]


@means("linalg.index")
def _index(m: Machine, op: Op, values: Sequence[Value]) -> Value:
    sizes, dim = m.loops[-1], op.attributes["dim"]
    at = sizes.at.get(dim) if isinstance(sizes, _Offset) else None
    shape = [1] * (m.axes + len(sizes))
    if at is not None:
        return Value(np.full(shape, at, np.int64), False)
    shape[m.axes + dim] = sizes[dim]
    return Value(np.arange(sizes[dim]).reshape(shape), False)


def _without(body: Block, kinds: Sequence[tuple[str, int]]) -> Block:
    """The body that passes on what is reduced, and reduces nothing."""
    last = body.ops[-1]
    passed = Op(last.name, tuple(term for _, term in kinds), (), (), (), {}, (), (), last.location)
    skipped = set(last.operands) - {term for _, term in kinds}
    ops = tuple(each for each in body.ops[:-1] if not skipped & set(each.results))
    return Block(body.arguments, body.types, (*ops, passed))
