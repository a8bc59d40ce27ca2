"""Ops that replace some elements of a tensor, by their index.

    %r = linalg.generic ... ins(%x : tensor<4x2xf32>) {
      %i = linalg.index 1
      %is_held = arith.cmpi slt, %i, %count
      %e = arith.select %is_held, %in, %zero
      linalg.yield %e
    }

keeps the first `%count` elements along dimension 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import compare, create, index
from shard_dialect.ir.building.build_loops import elementwise


def keep_first(value: ir.Value, counts: Mapping[int, ir.Value], other: ir.Value) -> ir.Value:
    """`value` where the index along each dimension is less than its count, `other` elsewhere."""
    return elementwise([value], lambda kept: select(is_within(counts), kept, other))


def keep_within(
    value: ir.Value, firsts: Mapping[int, ir.Value], counts: Mapping[int, ir.Value], other: ir.Value
) -> ir.Value:
    """As `keep_first`, but also `other` where an index is less than the first along a dimension."""

    def kept(element: ir.Value) -> ir.Value:
        reached = [compare("sge", index_of(dim), first) for dim, first in firsts.items()]
        return select(reduce(_and, [*reached, is_within(counts)]), element, other)

    return elementwise([value], kept)


def switch_at(before: ir.Value, after: ir.Value, dim: int, at: ir.Value) -> ir.Value:
    """`before` at indices less than `at` along `dim`, `after` from there on."""
    return elementwise([before, after], lambda a, b: select(is_within({dim: at}), a, b))


def is_within(counts: Mapping[int, ir.Value]) -> ir.Value:
    """In the body of a linalg op: whether the index of each loop is less than its count."""
    return reduce(_and, [_is_less(loop, count) for loop, count in counts.items()])


def select(where: ir.Value, value: ir.Value, other: ir.Value) -> ir.Value:
    """`value` if `where` is true, else `other`."""
    return create("arith.select", [value.type], [where, value, other]).results[0]


def as_index(value: ir.Value) -> ir.Value:
    """The element of a tensor of one integer, as an index."""
    number = create("tensor.extract", [value.type.element_type], [value, index(0)]).results[0]
    return create("arith.index_cast", [ir.IndexType.get()], [number]).results[0]


def index_of(loop: int) -> ir.Value:
    """In the body of a linalg op: the index of a loop."""
    dim = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), loop)
    return create("linalg.index", [ir.IndexType.get()], [], {"dim": dim}).results[0]


def _is_less(loop: int, count: ir.Value) -> ir.Value:
    return compare("slt", index_of(loop), count)


def _and(a: ir.Value, b: ir.Value) -> ir.Value:
    return create("arith.andi", [a.type], [a, b]).results[0]
