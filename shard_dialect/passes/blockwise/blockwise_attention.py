"""Compute tensors that are too large to store in blocks, in a loop: the scores of attention.

    %s = dot_general %q, %k     4096x4096      %o = scf.for %i = 0 to 16 iter_args(%o = empty) {
    %p = softmax %s                              %s = dot_general %q[256 rows], %k    256x4096
    %o = dot_general %p, %v                      %p = softmax %s
                                                 insert (dot_general %p, %v) into %o
                                               }

The loop is to a dimension what devices along an axis are to a split one: the sharding rules of the
ops say which dimensions of their tensors go along, and what a reduction along it leaves to be added
up, and their partition functions write the ops for one block. So this is not only for attention:
the logits of a large vocabulary are computed in blocks, too. Softmax is over whole rows, so that
what the forward pass computes is rounded as before; sums over blocks, such as the gradients of keys
and values, are added in another order, in f32 where elements have 16 bits.

A backward pass reads what the forward pass has computed, long before. Values as large are computed
again for it, from those that are stored anyway, so that there are two loops. What a scan over
layers keeps of each layer is computed again, too (`kept_by_loops`).

The pass is for the local form, where tensors are as large as on a device. It begins at products
that are larger than what they are made of. Tensors that are arguments, results, communicated, or
carried by loops in another way are stored whatever their size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import copy_onto, replace_values
from shard_dialect.ir.building.loops_and_masks import counted, elementwise
from shard_dialect.ir.building.reductions import combine, identity_tensor
from shard_dialect.ir.function import functions_of, is_private, name_of
from shard_dialect.ir.numbered_function import Block, read_by, read_function
from shard_dialect.ir.verify import declares_no_grid
from shard_dialect.ir.walk import walk
from shard_dialect.ops import PartitionedOp, Shard, record_of
from shard_dialect.passes.blockwise.kept_by_loops import compute_kept_again
from shard_dialect.passes.blockwise.tilings import Tiling, Values, bytes_of
from shard_dialect.passes.calls import Calls, callee_of, drop_uncalled, inline_call
from shard_dialect.passes.framework.base import Pass


@dataclass(frozen=True)
class BlockwiseAttention(Pass):
    """Compute in blocks what is too large to store, such as the scores of attention."""

    name = "blockwise-attention"

    block_bytes: int = 1 << 26
    """Tensors of more bytes on a device are computed in blocks of at most as many."""

    def rewrite(self, module: ir.Operation) -> None:
        """Rewrite functions in the local form; raises `ShardError` where there is none."""
        if self.block_bytes < 1:
            raise ShardError(f"block-bytes is {self.block_bytes}: expected a positive number")
        if declares_no_grid(module):
            return
        if not functions_of(module, "local"):
            raise ShardError("no function is in the local form: put it behind --spmd")
        Calls(module).refuse_recursion()
        while _inline_large(module, self.block_bytes):
            pass  # what was inlined may have such calls, too
        for handle in functions_of(module, "local"):
            compute_kept_again(handle, lambda type_: bytes_of(type_) > self.block_bytes)
            tried: set[ir.Value] = set()
            changed = [True]
            while any(changed):
                function = read_function(handle)
                values = [
                    Values(function, each, self.block_bytes) for each in _blocks(function.blocks)
                ]
                changed = [_rewrite(each, tried) for each in values]


def _rewrite(values: Values, tried: set[ir.Value]) -> bool:
    """Compute the large tensors in blocks that can be; whether the values are to be read anew.

    Loops that lie one after another are written at once: a module may have one for each layer.
    """
    is_changed, end = False, -1
    for component in values.components():
        first = values.ops[component[0]].handle.results[0]
        if first in tried:
            continue
        inside, late = values.before_others(component)
        tiling = values.tiling(inside)
        if tiling is None or values.is_only_for(late, tiling):
            tried.add(first)
        elif tiling.positions[0] > end:  # else the ops of the loop before may have moved
            if not values.compute_again(tiling, late):
                BlockLoop(values, tiling).write()
                end = tiling.positions[-1]
            is_changed = True
    return is_changed


def _blocks(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        for op in block.ops:
            yield from _blocks(op.blocks)


def _inline_large(module: ir.Operation, limit: int) -> bool:
    """Inline the calls that take or make a large tensor, as JAX writes `where` by one."""
    functions = functions_of(module, "local")
    callees = {
        name_of(each): each
        for each in functions
        if is_private(each) and len(each.regions[0].blocks) == 1
    }
    calls = [
        op
        for handle in functions
        for op in walk(handle)
        if op.name == "func.call" and callee_of(op) in callees
        if any(bytes_of(each.type) > limit for each in (*op.operands, *op.results))
    ]
    called = {callee_of(op) for op in calls}
    for op in calls:
        inline_call(op, callees[callee_of(op)])
    drop_uncalled(module, called)
    return bool(calls)


@dataclass
class BlockLoop:
    """Writes the loop of a tiling."""

    values: Values
    tiling: Tiling
    local: dict[ir.Value, ir.Value] = field(default_factory=dict)
    """The block of each tensor that is made in the loop, by the tensor."""
    read: dict[tuple[ir.Value, int], ir.Value] = field(default_factory=dict)
    """The block of each tensor that the loop reads, by the tensor and the dimension that is cut."""
    index: ir.Value | None = None
    begins: dict[int, ir.Value] = field(default_factory=dict)
    """Where this iteration's blocks of so many rows begin."""

    def write(self) -> None:
        """Write the loop behind its ops, and what reads it behind that; drop the ops."""
        ops = [self.values.ops[each] for each in self.tiling.positions]
        inside = set(self.tiling.positions)
        results = [
            value
            for op in ops
            for value in op.results
            if not inside.issuperset(self.values.readers[value])
        ]
        handles = [self.values.function.values[value].handle for value in results]
        with ir.InsertionPoint.after(ops[-1].handle), ops[-1].location:
            inits = [self._init(value) for value in results]
            loop, block = counted([0, self.tiling.blocks, 1], inits)
            self.index, *carried = block.arguments
            with ir.InsertionPoint(block):
                for position in self.tiling.positions:
                    self._write(position)
                given = [
                    self._given(value, handle, into)
                    for value, handle, into in zip(results, handles, carried, strict=True)
                ]
                build.create("scf.yield", [], given)
            made = [
                self._rounded(value, handle.type)
                for value, handle in zip(loop.results, handles, strict=True)
            ]
            rounded = [each.owner.operation for each in made if each.owner.operation != loop]
            last = rounded[-1] if rounded else loop
        self._move_readers(last, loop)
        replace_values(handles, made)
        for op in reversed(ops):
            op.handle.erase()

    def _init(self, value: int) -> ir.Value:
        type_ = self.values.function.values[value].handle.type
        if value in self.tiling.sums:
            return identity_tensor("sum", _wide(type_))
        return build.empty(type_)

    def _given(self, value: int, handle: ir.Value, into: ir.Value) -> ir.Value:
        own = self.local[handle]
        if value in self.tiling.sums:
            return combine("sum", into, _converted(own, into.type, "arith.extf"))
        dim = self._dim(value)
        return build.insert_slice_at(into, own, dim, self._begin(own.type.shape[dim]))

    def _rounded(self, value: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
        return _converted(value, type_, "arith.truncf")

    def _dim(self, value: int) -> int:
        maker = self.values.maker[value]
        cut = dict(self.values.cuts(maker, self.tiling.factors[maker]))[value]
        assert cut is not None, "it is no sum"
        return cut

    def _write(self, position: int) -> None:
        """Write one op for a block of its factor."""
        op, factor = self.values.ops[position], self.tiling.factors[position]
        rule = self.values.rule(position)
        assert rule is not None, "the op is in the tiling"
        handle = op.handle
        cuts = [cut for _, cut in self.values.cuts(position, factor)]
        operands = list(map(self._block, handle.operands, cuts))
        with handle.location:
            copy = copy_onto(handle, operands)
            shards = list(map(self._shard, (*handle.operands, *handle.results), cuts))
            for result, shard in zip(copy.results, shards[len(operands) :], strict=True):
                if shard is not None:
                    build.retype(result, build.resized(result.type, shard.shape))
            # A partition function may give the readers of the op other values, so there is one.
            reader = build.create("builtin.unrealized_conversion_cast", [], list(copy.results))
            record = record_of(copy)
            if record is not None and record.partition is not None:
                count = len(operands)
                shards_of = tuple(shards[:count]), tuple(shards[count:])
                record.partition(PartitionedOp(copy, rule, *shards_of))
            self.local.update(zip(handle.results, list(reader.operands), strict=True))
            reader.erase()

    def _begin(self, rows: int) -> ir.Value:
        """Where this iteration's block of so many rows begins."""
        if rows not in self.begins:
            assert self.index is not None, "it is in the loop"
            self.begins[rows] = build.arith("muli", self.index, build.index(rows))
        return self.begins[rows]

    def _block(self, value: ir.Value, dim: int | None) -> ir.Value:
        """This iteration's block of a tensor; all of it without a dimension to cut."""
        if value in self.local or dim is None:
            return self.local.get(value, value)
        if (value, dim) not in self.read:
            size = value.type.shape[dim] // self.tiling.blocks
            self.read[value, dim] = build.extract_slice(value, self._begin(size), size, dim)
        return self.read[value, dim]

    def _shard(self, value: ir.Value, along: int | None) -> Shard | None:
        """A block as if it were a shard: iterations are the devices of an axis."""
        if not isinstance(value.type, ir.RankedTensorType):
            return None
        shape, blocks = tuple(value.type.shape), self.tiling.blocks
        cut = [dim == along for dim in range(len(shape))]
        own = tuple(n // blocks if each else n for n, each in zip(shape, cut, strict=True))
        devices = tuple(blocks if each else 1 for each in cut)
        return Shard(shape, own, self._own, ((0, 0),) * len(shape), devices)

    def _own(self, dim: int, numbers: Sequence[int]) -> ir.Value:
        """Of `numbers`, one an iteration, this one's, as a `tensor<1xi64>`."""
        value = build.scalar(build.dense(numbers, build.integer(64)))
        assert self.index is not None, "it is in the loop"
        return build.extract_slice(value, self.index, 1) if len(numbers) > 1 else value

    def _move_readers(self, last: ir.Operation, loop: ir.Operation) -> None:
        """Move the ops between those of the loop that read its results behind it, in order."""
        first, end = self.tiling.positions[0], self.tiling.positions[-1]
        inside, moved = set(self.tiling.positions), set[int]()
        for position in range(first, end):
            reads = {self.values.maker.get(each) for each in read_by(self.values.ops[position])}
            if position not in inside and reads & (inside | moved):
                moved.add(position)
                handle = self.values.ops[position].handle
                handle.move_after(last)
                last = handle


def _wide(type_: ir.RankedTensorType) -> ir.RankedTensorType:
    """The type in which sums of many are added up."""
    element = type_.element_type
    is_narrow = isinstance(element, ir.FloatType) and element.width < 32
    return ir.RankedTensorType.get(type_.shape, ir.F32Type.get()) if is_narrow else type_


def _converted(value: ir.Value, type_: ir.RankedTensorType, name: str) -> ir.Value:
    if value.type == type_:
        return value
    element = type_.element_type

    def convert(each: ir.Value, *_: ir.Value) -> ir.Value:
        return build.cast(name, each, element)

    return elementwise([value], convert, type_)
