"""Bundle small all-reduces that do not depend on each other into one.

    %2 = shard.all_reduce %0 : tensor<4xf32>
    %3 = shard.all_reduce %1 : tensor<2x3xf32>
      becomes
    %a = tensor.concat dim(0) %0, (collapsed) %1 : tensor<10xf32>
    %b = shard.all_reduce %a : tensor<10xf32>
    %2, %3 = slices of %b, in their shapes

The bytes moved are the same, and latency is saved. This is done in the local form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.numbered_function import itemsize
from shard_dialect.ir.walk import operations
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.schedule.collective_blocks import (
    blocks_of,
    defined_at,
    first_use_at,
    local_functions,
)

_KIND = "shard.all_reduce"


@dataclass(frozen=True)
class BundleCollectives(Pass):
    """Join small all-reduces of one kind and group."""

    name = "bundle-collectives"

    bytes: int = 65536
    """The largest number of bytes of one bundle."""

    def rewrite(self, module: ir.Operation) -> None:
        """Bundle the all-reduces of each function in the local form."""
        for handle in local_functions(module):
            for bundle in bundles(handle, self.bytes):
                _join(bundle)


@dataclass(frozen=True)
class _Member:
    """An all-reduce, with the positions of its operand's definition and its first use."""

    op: ir.Operation
    ready: int
    needed: int


@dataclass
class Bundle:
    """All-reduces that become one, before `at`, the first op that uses one of them."""

    members: list[_Member]
    at: ir.Operation


def bundles(function: ir.Operation, most: int) -> list[Bundle]:
    """The all-reduces of `function` that can become one, in bundles of up to `most` bytes."""
    blocks = blocks_of(function, lambda op: op.name == _KIND)
    return [bundle for block in blocks for bundle in _bundles(block, most)]


def _bundles(block: ir.Block, most: int) -> Iterator[Bundle]:
    """Greedily add to each all-reduce the later ones that are ready before the bundle is needed."""
    order = list(operations(block))
    left = _members(order, most)
    while left:
        first, *rest = left
        bundle, size, needed, left = [first], _bytes(first.op), first.needed, []
        for each in rest:
            soonest = min(needed, each.needed)
            joins = size + _bytes(each.op) <= most and _key(each.op) == _key(first.op)
            if joins and max(member.ready for member in (*bundle, each)) < soonest:
                bundle.append(each)
                size, needed = size + _bytes(each.op), soonest
            else:
                left.append(each)
        if len(bundle) > 1:
            yield Bundle(bundle, order[needed])


def _members(order: Sequence[ir.Operation], most: int) -> list[_Member]:
    """The small all-reduces among the ops of a block."""
    defined, first_use = defined_at(order), first_use_at(order)
    return [
        _Member(op, defined.get(op.operands[0], -1), first_use[op.results[0]])
        for op in order
        if op.name == _KIND
        and op.operands[0].type.has_static_shape
        and op.results[0] in first_use
        and 0 < _bytes(op) <= most
    ]


def _key(op: ir.Operation) -> object:
    attributes = {name: str(op.attributes[name]) for name in op.attributes}
    return tuple(sorted(attributes.items())), str(op.operands[0].type.element_type)


def _bytes(op: ir.Operation) -> int:
    type_ = op.operands[0].type
    return prod(type_.shape) * itemsize(type_.element_type)


def _join(bundle: Bundle) -> None:
    ops = [member.op for member in bundle.members]
    attributes = {name: ops[0].attributes[name] for name in ops[0].attributes}
    with ir.InsertionPoint(bundle.at), ops[0].location:
        flat = [build.flat(op.operands[0]) for op in ops]
        sizes = [each.type.shape[0] for each in flat]
        type_ = ir.RankedTensorType.get([sum(sizes)], flat[0].type.element_type)
        dim = {"dim": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)}
        joined = build.create("tensor.concat", [type_], flat, dim).results[0]
        reduced = build.create(_KIND, [type_], [joined], attributes).results[0]
        start = 0
        for op, size in zip(ops, sizes, strict=True):
            shard = build.extract_slice(reduced, start, size)
            op.results[0].replace_all_uses_with(build.unflatten(shard, op.results[0].type.shape))
            start += size
    for op in ops:
        op.erase()
