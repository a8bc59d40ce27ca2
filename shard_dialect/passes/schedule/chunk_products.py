"""A gather and the product of it go on shard by shard; a product and its reduce-scatter alike.

    %1 = shard.all_gather %0                      (8x4 on each of 2 devices to 16x4)
    %2 = stablehlo.dot_general %1, %w
      becomes
    %a = stablehlo.dot_general %0, %w             rows of this device, put where they belong
    %1 = "mesh.collective_permute"(%0)            the next device's rows
    %b = stablehlo.dot_general %1, %w             put where they belong

The bytes are the same, in one permutation for each other device of the group, so that each can go
on during the product of the rows before (`--overlap-collectives`): "collective matmul"
(Overlap Communication with Dependent Computation via Decomposition, ASPLOS 2023). An option, for it
makes more and smaller products. In the local form, of StableHLO's products; where the gathered
dimension is summed over, or others use the whole, nothing is done.
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
    """Take gathers with products, and products with reduce-scatters, shard by shard."""

    name = "chunk-products"

    devices: int = 8
    """Of one group, at most: as many products are made of one."""

    def rewrite(self, module: ir.Operation) -> None:
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
    product, place = uses[0].owner.operation, uses[0].operand_number
    dim = _result_dim(product, place, step.dim)
    if dim is None or product.block != op.block:
        return
    ring = _Ring(grid, step.axes)
    with ir.InsertionPoint(product), product.location:
        shard = op.operands[0]
        size = shard.type.shape[step.dim]
        result = build.empty(product.results[0].type).results[0]
        for turn in range(ring.count):
            part = _product_of(product, place, shard, dim)
            start = ring.number([(at - turn) % ring.count * size for at in range(ring.count)])
            result = _put(result, part, dim, start)
            if turn < ring.count - 1:
                shard = ring.passed_on(shard)
    product.results[0].replace_all_uses_with(result)
    product.erase()
    op.erase()


def _scatter_by_chunks(op: ir.Operation, step: ReduceScatter, grid: Grid) -> None:
    owner = op.operands[0].owner
    if isinstance(owner, ir.Block) or owner.name != _PRODUCT:
        return
    product = owner.operation
    found = _operand_dim(product, step.dim)
    if found is None or product.block != op.block or len(list(product.results[0].uses)) != 1:
        return
    place, dim = found
    ring = _Ring(grid, step.axes)
    whole = product.operands[place]
    size = whole.type.shape[dim] // ring.count
    total: ir.Value | None = None
    with ir.InsertionPoint(op), op.location:
        for turn in range(ring.count):
            so_far = None if total is None else ring.passed_on(total)
            places = range(ring.count)
            start = ring.number([(at - 1 - turn) % ring.count * size for at in places])
            part = _product_of(product, place, _taken(whole, dim, start, size), step.dim)
            total = part
            if so_far is not None:
                total = build.create("stablehlo.add", [part.type], [so_far, part]).results[0]
    assert total is not None, "a group has devices"
    op.results[0].replace_all_uses_with(total)
    op.erase()
    product.erase()


@dataclass(frozen=True)
class _Ring:
    """The devices of a group; each passes what it has on to the next."""

    grid: Grid
    axes: Axes

    @property
    def count(self) -> int:
        return self.grid.axes_size(self.axes)

    def passed_on(self, shard: ir.Value) -> ir.Value:
        """What the device before this one has as `shard`."""
        places = tuple((at + 1) % self.count for at in range(self.count))
        return write_local(Permute(self.axes, places), self.grid.name, shard, shard.type)

    def number(self, by_place: Sequence[int]) -> ir.Value:
        """The number for this device's place, as a tensor without dimensions."""
        i64 = ir.IntegerType.get_signless(64)
        numbers = [ir.IntegerAttr.get(i64, each) for each in by_place]
        table = ir.DenseElementsAttr.get(numbers, ir.RankedTensorType.get([self.count], i64))
        constant = build.create("stablehlo.constant", [table.type], [], {"value": table})
        one = ir.RankedTensorType.get([1], i64)
        mine = write_local(AllSlice(0, self.axes), self.grid.name, constant.results[0], one)
        scalar = ir.RankedTensorType.get([], i64)
        return build.create("stablehlo.reshape", [scalar], [mine]).results[0]


def _product_of(product: ir.Operation, place: int, shard: ir.Value, dim: int) -> ir.Value:
    """The product with `shard` as its operand, which dimension `dim` of the result comes from."""
    operands = list(product.operands)
    operands[place] = shard
    shape = list(product.results[0].type.shape)
    whole = product.operands[place].type
    gone = [a // b for a, b in zip(whole.shape, shard.type.shape, strict=True)]
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


def _put(into: ir.Value, part: ir.Value, dim: int, start: ir.Value) -> ir.Value:
    starts = _starts(into.type.rank, dim, start)
    name = "stablehlo.dynamic_update_slice"
    return build.create(name, [into.type], [into, part, *starts]).results[0]


def _taken(whole: ir.Value, dim: int, start: ir.Value, size: int) -> ir.Value:
    shape = list(whole.type.shape)
    shape[dim] = size
    type_ = ir.RankedTensorType.get(shape, whole.type.element_type)
    sizes = {"slice_sizes": ir.DenseI64ArrayAttr.get(shape)}
    operands = [whole, *_starts(len(shape), dim, start)]
    return build.create("stablehlo.dynamic_slice", [type_], operands, sizes).results[0]


def _result_dim(product: ir.Operation, place: int, dim: int) -> int | None:
    """The dimension of the result that dimension `dim` of operand `place` alone makes."""
    rule = rule_of(product)
    if rule is None or rule.results[0] is None:
        return None
    factors = (rule.operands[place] or ())[dim]
    others = rule.operands[1 - place] or ()
    if any(factors == each for each in others):
        return None  # a batch
    return next((at for at, each in enumerate(rule.results[0]) if each == factors != ()), None)


def _operand_dim(product: ir.Operation, dim: int) -> tuple[int, int] | None:
    """The operand, and its dimension, that dimension `dim` of the result comes from alone."""
    for place in (0, 1):
        for at in range(product.operands[place].type.rank):
            if _result_dim(product, place, at) == dim:
                return place, at
    return None
