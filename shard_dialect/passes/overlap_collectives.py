"""Let collectives of the local form run while devices compute.

`chunk-products` decomposes an all-gather and its product shard by shard; products and
reduce-scatters likewise.

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

`overlap-collectives` starts collectives as soon as their operand is available, and waits for them
before the first use.

    %1 = shard.all_reduce %0                  %s = "mesh.start"(%0) {collective = {...}}
    %2 = math.exp %x                          %2 = math.exp %x
    %3 = arith.addf %1, %2                    %1 = "mesh.done"(%s)
                                              %3 = arith.addf %1, %2

The ops in between overlap with the communication. If there are none, a collective stays one op.
Every lowering target of `--lower` supports the two ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shard_dialect.collectives import AllGather, AllSlice, Permute, ReduceScatter
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.shard.local_collectives import described, read_local, write_local
from shard_dialect.ir.walk import operations, walk
from shard_dialect.model import Axes, Grid
from shard_dialect.ops import rule_of
from shard_dialect.passes.bundle_collectives import blocks_of, defined_at, first_use_at
from shard_dialect.passes.framework.base import Pass, needs

_PRODUCT = "stablehlo.dot_general"
_COLLECTIVES = ("shard.all_gather", "shard.reduce_scatter")


@needs(forms=("local",))
@dataclass(frozen=True)
class ChunkProducts(Pass):
    """Decompose gathers with products, and products with reduce-scatters, shard by shard."""

    name = "chunk-products"

    devices: int = 8
    """The largest group: one product becomes as many as the group has devices."""

    def rewrite(self, module: ir.Operation) -> None:
        """Decompose the products of each function in the local form."""
        shardings = Shardings.of(module)
        for handle in functions_of(module, "local"):
            # A product is erased with its collective, so the loop does not come to products.
            for op in [each for each in walk(handle) if each.name in _COLLECTIVES]:
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
        result = build.empty(product.results[0].type)
        for turn in range(ring.count):
            chunk = _product_of(product, number, shard, dim)
            start = ring.number([(at - turn) % ring.count * size for at in range(ring.count)])
            result = hlo.update_at(result, chunk, dim, start)
            if turn < ring.count - 1:
                shard = ring.sent_to_next(shard)
    replace_op(product, result)
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
            chunk = _product_of(product, number, hlo.slice_at(full, dim, start, size), step.dim)
            total = chunk
            if received is not None:
                total = hlo.elementwise("add", received, chunk)
    assert total is not None, "a group has devices"
    replace_op(op, total)
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
        table = hlo.integers(by_position, build.integer(64))
        one = hlo.tensor([1], build.integer(64))
        return hlo.reshape(write_local(AllSlice(0, self.axes), self.grid.name, table, one), [])


def _product_of(product: ir.Operation, number: int, shard: ir.Value, dim: int) -> ir.Value:
    """The product with `shard` as an operand, which determines dimension `dim` of the result."""
    operands = list(product.operands)
    operands[number] = shard
    shape = list(product.results[0].type.shape)
    full = product.operands[number].type
    gone = [a // b for a, b in zip(full.shape, shard.type.shape, strict=True)]
    shape[dim] //= max(gone)
    type_ = build.resized(product.results[0].type, shape)
    attributes = {name: product.attributes[name] for name in product.attributes}
    return build.create_value(_PRODUCT, type_, operands, attributes)


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


_IDLE = (*build.CONSTANTS, "tensor.empty", "mesh.start", "mesh.done")
"""Ops that do no work to overlap with."""


@needs(forms=("local",))
@dataclass(frozen=True)
class OverlapCollectives(Pass):
    """Split collectives into start and done, around the ops that can run meanwhile."""

    name = "overlap-collectives"

    def rewrite(self, module: ir.Operation) -> None:
        """Split the collectives of each function in the local form."""
        for handle in functions_of(module, "local"):
            for block in blocks_of(handle, _communicates):
                _overlap(block)


def _communicates(op: ir.Operation) -> bool:
    if op.name == "mesh.start" or not op.operands:
        return False
    read = read_local(op.name, op.attributes)
    if read is None or read[1].is_message or read[1].is_computed:
        return False
    return read[1].communicates


def _overlap(block: ir.Block) -> None:
    ops = list(operations(block))
    order: list[ir.Operation | None] = [*ops]
    after = {value: at + 1 for value, at in defined_at(ops).items()}
    needed = first_use_at(ops)
    for at, op in enumerate(ops):
        if not _communicates(op):
            continue
        begin, end = after.get(op.operands[0], 0), needed.get(op.results[0], 0)
        begin = _after_waits(order[:at], begin)
        if not any(_is_work(each) for each in order[begin:end]):
            continue
        order[at] = None  # later collectives start before the next op that is left
        first, user = next(filter(None, order[begin:])), order[end]
        assert user is not None, "a user is split only after its operands"
        done = _split(op, first, user)
        after[done] = end


def _after_waits(order: Sequence[ir.Operation | None], begin: int) -> int:
    """The place after the collectives that follow on `begin` and that devices wait for.

    What starts before these makes them wait for the network, and hides behind no work there.
    """
    for at, op in enumerate(order[begin:], begin):
        if _is_work(op):
            break
        begin = at + 1 if op is not None and _communicates(op) else begin
    return begin


def _is_work(op: ir.Operation | None) -> bool:
    return op is not None and op.name not in _IDLE and not _communicates(op)


def _split(op: ir.Operation, first: ir.Operation, user: ir.Operation) -> ir.Value:
    """Start `op` before `first`, wait for it before `user`, and return the result."""
    type_ = op.results[0].type
    with op.location:
        with ir.InsertionPoint(first):
            what = {"collective": described(op)}
            started = build.create_value("mesh.start", type_, [op.operands[0]], what)
        with ir.InsertionPoint(user):
            done = build.create_value("mesh.done", type_, [started])
    replace_op(op, done)
    return done
