"""Write the loop that computes ops in blocks: its iterations are the devices of an axis.

Each op is copied into the loop, for a block of each tensor that is cut, by the partition function
that writes it for a shard. Results that are cut are put together, others are added up.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.loops_and_masks import counted, elementwise
from shard_dialect.ir.building.reductions import combine, identity_tensor
from shard_dialect.ir.numbered_function import read_by
from shard_dialect.ops import PartitionedOp, Shard, record_of
from shard_dialect.passes.blockwise.tilings import Tiling, Values


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
        for handle, value in zip(handles, made, strict=True):
            handle.replace_all_uses_with(value)
        for op in reversed(ops):
            op.handle.erase()

    def _init(self, value: int) -> ir.Value:
        type_ = self.values.function.values[value].handle.type
        if value in self.tiling.sums:
            return identity_tensor("sum", _wide(type_))
        return build.empty(type_).results[0]

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
            copy = handle.clone().operation
            for number, operand in enumerate(operands):
                copy.operands[number] = operand
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
            factors = [self.index, build.index(rows)]
            made = build.create("arith.muli", [self.index.type], factors)
            self.begins[rows] = made.results[0]
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
        integer = ir.IntegerType.get_signless(64)
        listed = ir.DenseElementsAttr.get(array("q", numbers), type=integer)
        value = build.scalar(listed).results[0]
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
