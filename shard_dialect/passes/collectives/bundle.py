"""Small all-reduces that do not depend on each other are one.

    %2 = shard.all_reduce %0 : tensor<4xf32>
    %3 = shard.all_reduce %1 : tensor<2x3xf32>
      becomes
    %a = tensor.concat dim(0) %0, (collapsed) %1 : tensor<10xf32>
    %b = shard.all_reduce %a : tensor<10xf32>
    %2, %3 = slices of %b, in their shapes

The bytes are the same, a latency is saved. In the local form, where tensors are plain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from shard_dialect.ir import build
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.ir.program import itemsize
from shard_dialect.ir.walk import operations, walk
from shard_dialect.passes.base import Pass

_KIND = "shard.all_reduce"


@dataclass(frozen=True)
class BundleCollectives(Pass):
    """Join small all-reduces of one kind and group."""

    name = "bundle-collectives"

    bytes: int = 65536
    """Of one bundle, at most."""

    def rewrite(self, module: ir.Operation) -> None:
        for handle in functions_of(module):
            if form_of(handle) != "local":
                continue
            for bundle in bundles(handle, self.bytes):
                _join(bundle)


def bundles(function: ir.Operation, most: int) -> list[list[ir.Operation]]:
    """The all-reduces of `function` that can be one, in bundles of up to `most` bytes."""
    blocks: list[ir.Block] = []
    for op in walk(function):
        if op.name == _KIND and op.block not in blocks:
            blocks.append(op.block)
    return [bundle for block in blocks for bundle in _bundles(block, most)]


def _bundles(block: ir.Block, most: int) -> Iterator[list[ir.Operation]]:
    """All-reduces that can be done at once: none needs, or comes after what needs, another.

    Each joins the first open bundle of its kind. A bundle is done where its last member stands, so
    it closes when one of its results is needed.
    """
    open_: dict[object, list[ir.Operation]] = {}
    closed = []
    for op in operations(block):
        for key, bundle in list(open_.items()):
            if any(_needs(op, member) for member in bundle):
                closed.append(open_.pop(key))
        if op.name != _KIND or not op.operands[0].type.has_static_shape:
            continue
        key = _key(op)
        if _bytes(op) + sum(map(_bytes, open_.get(key, []))) > most and key in open_:
            closed.append(open_.pop(key))
        if _bytes(op) <= most:
            open_.setdefault(key, []).append(op)
    closed += open_.values()
    yield from (bundle for bundle in closed if len(bundle) > 1)


def _needs(op: ir.Operation, member: ir.Operation) -> bool:
    """Whether `op`, or what is inside of it, uses the member's result."""
    for use in member.results[0].uses:
        user: ir.Operation | None = use.owner.operation
        while user is not None and user.block != member.block:
            user = user.parent
        if user == op:
            return True
    return False


def _key(op: ir.Operation) -> object:
    attributes = {name: str(op.attributes[name]) for name in op.attributes}
    return tuple(sorted(attributes.items())), str(op.operands[0].type.element_type)


def _bytes(op: ir.Operation) -> int:
    type_ = op.operands[0].type
    return prod(type_.shape) * itemsize(type_.element_type)


def _join(bundle: Sequence[ir.Operation]) -> None:
    last = bundle[-1]
    attributes = {name: last.attributes[name] for name in last.attributes}
    with ir.InsertionPoint(last), last.location:
        flat = [build.flat(op.operands[0]) for op in bundle]
        sizes = [each.type.shape[0] for each in flat]
        type_ = ir.RankedTensorType.get([sum(sizes)], flat[0].type.element_type)
        dim = {"dim": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)}
        joined = build.create("tensor.concat", [type_], flat, dim).results[0]
        reduced = build.create(_KIND, [type_], [joined], attributes).results[0]
        start = 0
        for op, size in zip(bundle, sizes, strict=True):
            piece = build.part_of(reduced, start, size)
            op.results[0].replace_all_uses_with(build.unflat(piece, op.results[0].type.shape))
            start += size
    for op in bundle:
        op.erase()
