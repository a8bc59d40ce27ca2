"""The arithmetic of one op on one device, by its record (`ops.operations` lists what counts)."""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.numbered_function import itemsize
from shard_dialect.ir.walk import operations
from shard_dialect.ops.op_table import named, rule_of, traits_of
from shard_dialect.ops.operations import Flops, LocalOp, TensorInfo
from shard_dialect.ops.scalar_functions import Trait

NONE = Flops()
_WITHOUT_ARITHMETIC = ("bufferization", "cf", "func", "memref", "mesh", "scf", "shard", "tensor")


def flops_of(
    op: ir.Operation,
    operands: Sequence[TensorInfo | None],
    results: Sequence[TensorInfo | None],
) -> Flops | None:
    """The arithmetic of one run of the op; `None` for an op of which nothing is known.

    Regions that are blocks of the program (of a loop, say) count by themselves.
    """
    name = op.name
    record = named(name)
    counted = record.operations if record else None
    if isinstance(counted, int):
        if not results or results[0] is None:
            return NONE  # a scalar
        return _of_element(name) * results[0].elements
    if counted is not None:
        local = LocalOp(
            name,
            op,
            tuple(operands),
            tuple(results),
            lambda: rule_of(op),
            lambda region: _of_region(op, region),
        )
        return counted(local)
    return NONE if name.partition(".")[0] in _WITHOUT_ARITHMETIC else None


def _of_element(name: str) -> Flops:
    """Of one element, or one scalar: an op of which nothing is known is one operation."""
    record = named(name)
    count = record.operations if record and isinstance(record.operations, int) else 1
    return Flops(count, int(Trait.ELEMENTARY in traits_of(name)))


def _of_region(op: ir.Operation, number: int) -> Flops:
    """The operations of one run of a region, nested regions included."""
    total, elementary = 0, 0
    for block in op.regions[number].blocks:
        *inside, _ = operations(block)
        for inner in inside:
            nested = [_of_region(inner, region) for region in range(len(inner.regions))]
            for found in (_of_element(inner.name), *nested):
                total += found.total
                elementary += found.elementary
    return Flops(total, elementary)


def tensor_info(type_: ir.ShapedType) -> TensorInfo:
    """A type of static shape, as analyses have it."""
    element = type_.element_type
    return TensorInfo(tuple(type_.shape), str(element), itemsize(element))
