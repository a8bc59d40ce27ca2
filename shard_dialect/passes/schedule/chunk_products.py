"""Decompose an all-gather and its product shard by shard; products and reduce-scatters likewise.

    %1 = shard.all_gather %0                      (8x4 on each of 2 devices to 16x4)
    %2 = stablehlo.dot_general %1, %w
      becomes
    %a = stablehlo.dot_general %0, %w             this device's rows, inserted in the result
    %1 = "mesh.collective_permute"(%0)            the next device's rows
    %b = stablehlo.dot_general %1, %w             inserted in the result

The bytes moved are the same, in one permutation for each other device of the group. Each can run
during the product of the rows before (`--overlap-collectives`): "collective matmul" (Overlap
Communication with Dependent Computation via Decomposition, ASPLOS 2023). The pass is optional,
since it makes more and smaller products. It rewrites StableHLO's products in the local form, unless
the product contracts the gathered dimension or the gathered tensor has other users.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.shard.local_collectives import read_local, write_local
from shard_dialect.ir.walk import walk
from shard_dialect.model import AllGather, AllSlice, Axes, Grid, Permute, ReduceScatter
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.schedule.collective_blocks import local_functions
from shard_dialect.rules import rule_of

_PRODUCT = "stablehlo.dot_general"


@dataclass(frozen=True)
class ChunkProducts(Pass):
    """Decompose gathers with products, and products with reduce-scatters, shard by shard."""

    name = "chunk-products"

    devices: int = 8
    """The largest group: one product becomes as many as the group has devices."""

    def rewrite(self, module: ir.Operation) -> None:
        """Decompose the products of each function in the local form."""
        shardings = Shardings.of(module)
        for handle in local_functions(module):
            for op in walk(handle):
                if op.name not in ("shard.all_gather", "shard.reduce_scatter"):
                    continue
                read = read_local(op.name, op.attributes)
                assert read is not None, f"{op.name} is a step"
                grid, step = shardings.grid(read[0]), read[1]
                if not 1 < grid.axes_size(step.axes) <= self.devices:
                    continue
                if isinstance(step, AllGather):
                    _gather_by_chunks(op, step, grid)
                elif isinstance(step, ReduceScatter) and step.reduction == "sum":
                    _scatter_by_chunks(op, step, grid)


def _gather_by_chunks(op: ir.Operation, step: AllGather, grid: Grid) -> None:
    uses = list(op.results[0].uses)
    if len(uses) != 1 or uses[0].owner.operation.name != _PRODUCT:
        return
    product, number = uses[0].owner.operation, uses[0].operand_number
    dim = _result_dim(product, number, step.dim)
    if dim is None or product.block != op.block:
        return
    ring = _Ring(grid, step.axes)
    with ir.InsertionPoint(product), product.location:
        shard = op.operands[0]
        size = shard.type.shape[step.dim]
        result = build.empty(product.results[0].type).results[0]
        for turn in range(ring.count):
            chunk = _product_of(product, number, shard, dim)
            start = ring.number([(at - turn) % ring.count * size for at in range(ring.count)])
            result = _put(result, chunk, dim, start)
            if turn < ring.count - 1:
                shard = ring.sent_to_next(shard)
    product.results[0].replace_all_uses_with(result)
    product.erase()
    op.erase()


def _scatter_by_chunks(op: ir.Operation, step: ReduceScatter, grid: Grid) -> None:
    owner = op.operands[0].owner
    if isinstance(owner, ir.Block) or owner.name != _PRODUCT:
        return
    product = owner.operation
    operand_and_dim = _operand_dim(product, step.dim)
    if (
        operand_and_dim is None
        or product.block != op.block
        or len(list(product.results[0].uses)) != 1
    ):
        return
    number, dim = operand_and_dim
    ring = _Ring(grid, step.axes)
    full = product.operands[number]
    size = full.type.shape[dim] // ring.count
    total: ir.Value | None = None
    with ir.InsertionPoint(op), op.location:
        for turn in range(ring.count):
            received = None if total is None else ring.sent_to_next(total)
            positions = range(ring.count)
            start = ring.number([(at - 1 - turn) % ring.count * size for at in positions])
            chunk = _product_of(product, number, _slice_at(full, dim, start, size), step.dim)
            total = chunk
            if received is not None:
                total = build.create("stablehlo.add", [chunk.type], [received, chunk]).results[0]
    assert total is not None, "a group has devices"
    op.results[0].replace_all_uses_with(total)
    op.erase()
    product.erase()


@dataclass(frozen=True)
class _Ring:
    """The devices of a group; each sends to the next."""

    grid: Grid
    axes: Axes

    @property
    def count(self) -> int:
        return self.grid.axes_size(self.axes)

    def sent_to_next(self, shard: ir.Value) -> ir.Value:
        """The `shard` of the previous device."""
        permutation = tuple((at + 1) % self.count for at in range(self.count))
        return write_local(Permute(self.axes, permutation), self.grid.name, shard, shard.type)

    def number(self, by_position: Sequence[int]) -> ir.Value:
        """Of numbers by position in the group, this device's, as a tensor without dimensions."""
        i64 = ir.IntegerType.get_signless(64)
        numbers = [ir.IntegerAttr.get(i64, each) for each in by_position]
        table = ir.DenseElementsAttr.get(numbers, ir.RankedTensorType.get([self.count], i64))
        constant = build.create("stablehlo.constant", [table.type], [], {"value": table})
        one = ir.RankedTensorType.get([1], i64)
        own_position = write_local(AllSlice(0, self.axes), self.grid.name, constant.results[0], one)
        scalar = ir.RankedTensorType.get([], i64)
        return build.create("stablehlo.reshape", [scalar], [own_position]).results[0]


def _product_of(product: ir.Operation, number: int, shard: ir.Value, dim: int) -> ir.Value:
    """The product with `shard` as an operand, which determines dimension `dim` of the result."""
    operands = list(product.operands)
    operands[number] = shard
    shape = list(product.results[0].type.shape)
    full = product.operands[number].type
    gone = [a // b for a, b in zip(full.shape, shard.type.shape, strict=True)]
    shape[dim] //= max(gone)
    type_ = ir.RankedTensorType.get(shape, product.results[0].type.element_type)
    attributes = {name: product.attributes[name] for name in product.attributes}
    return build.create(_PRODUCT, [type_], operands, attributes).results[0]


def _starts(rank: int, dim: int, start: ir.Value) -> list[ir.Value]:
    zero = ir.DenseElementsAttr.get_splat(
        start.type, ir.IntegerAttr.get(start.type.element_type, 0)
    )
    none = build.create("stablehlo.constant", [start.type], [], {"value": zero}).results[0]
    return [start if each == dim else none for each in range(rank)]


def _put(into: ir.Value, chunk: ir.Value, dim: int, start: ir.Value) -> ir.Value:
    starts = _starts(into.type.rank, dim, start)
    name = "stablehlo.dynamic_update_slice"
    return build.create(name, [into.type], [into, chunk, *starts]).results[0]


def _slice_at(full: ir.Value, dim: int, start: ir.Value, size: int) -> ir.Value:
    shape = list(full.type.shape)
    shape[dim] = size
    type_ = ir.RankedTensorType.get(shape, full.type.element_type)
    sizes = {"slice_sizes": ir.DenseI64ArrayAttr.get(shape)}
    operands = [full, *_starts(len(shape), dim, start)]
    return build.create("stablehlo.dynamic_slice", [type_], operands, sizes).results[0]


def _result_dim(product: ir.Operation, number: int, dim: int) -> int | None:
    """The result dimension that only dimension `dim` of operand `number` determines, or `None`."""
    rule = rule_of(product)
    if rule is None or rule.results[0] is None:
        return None
    factors = (rule.operands[number] or ())[dim]
    others = rule.operands[1 - number] or ()
    if any(factors == each for each in others):
        return None  # a batch
    return next((at for at, each in enumerate(rule.results[0]) if each == factors != ()), None)


def _operand_dim(product: ir.Operation, dim: int) -> tuple[int, int] | None:
    """The operand number and the dimension that alone determine dimension `dim` of the result."""
    for number in (0, 1):
        for at in range(product.operands[number].type.rank):
            if _result_dim(product, number, at) == dim:
                return number, at
    return None
