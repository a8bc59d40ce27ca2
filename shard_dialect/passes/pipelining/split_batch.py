"""Split the batch of a function: the program of one microbatch, and the totals of all.

Microbatches are to time what devices are to a grid. So the function is partitioned along a grid
with one axis, on which each "device" is a microbatch:

    %1 = stablehlo.dot_general %x, %w : (tensor<32x8xf32>, ...) -> tensor<32x16xf32>
      becomes, for 8 microbatches
    %1 = stablehlo.dot_general %x, %w : (tensor<4x8xf32>, ...) -> tensor<4x16xf32>

The batch is followed through the sharding rules. `split_batch` leaves collectives on the grid of
microbatches: an all-reduce is a reduction over the batch, to which each microbatch adds its part,
and a slice is a microbatch's part of a value that does not depend on the batch.

`MicrobatchProgram` reads the result: the ops of one microbatch, and those that run once before or
after all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from shard_dialect.collectives import AllReduce, AllSlice
from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building.build import copy_onto, drop_unused
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import returns_of, set_form, update_type
from shard_dialect.ir.grids import write_cluster
from shard_dialect.ir.mesh.mesh_collectives import write_steps
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import (
    ENDS,
    FLOWS,
    Function,
    Op,
    captured,
    flows_through,
    read_function,
    read_values,
)
from shard_dialect.ir.shard.local_collectives import read_local
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import Grid, Sharding
from shard_dialect.model.reached import reached
from shard_dialect.passes.materialize.resharded_values import FRESH
from shard_dialect.passes.materialize.type_consistency import TypeChecks
from shard_dialect.passes.partition.partition import partition_function
from shard_dialect.passes.pipelining.batch_types import AXIS, BatchTypes, Types, batch_dim, ops_in
from shard_dialect.passes.pipelining.divide_loops import BARRIER
from shard_dialect.passes.pipelining.microbatch_ops import MicrobatchOps


def is_stablehlo(op: ir.Operation) -> bool:
    """Whether `op` is of StableHLO."""
    return bool(op.name.startswith("stablehlo."))


def split_batch(
    function: ir.Operation, arguments: Collection[int], count: int, grid_name: str
) -> tuple[list[int | None], set[int]]:
    """Rewrite a function of one block to the program of one of `count` microbatches, in place.

    `arguments` are the numbers of those that have the batch. Collectives on the grid
    `grid_name` tell where microbatches meet. Returns for each result the dimension that is split,
    or `None`, and the numbers of the arguments that are a microbatch's now: others are read whole,
    too. Raises a located `ShardError` where the function cannot be split.
    """
    module = function.parent
    grid = Grid(grid_name, (count,))
    with ir.InsertionPoint.at_block_begin(body(module)), function.location:
        write_cluster(grid)
    shardings = Shardings.of(module)
    read = read_function(function)
    splitter = _Splitter(read, shardings, BatchTypes(read, grid))
    splitter.run(arguments)
    update_type(function)
    set_form(function, "distributed")
    dims = [_split_dim(value.type, shardings) for value in returns_of(function)[0].operands]
    with located(function):
        partition_function(read_function(function), TypeChecks(shardings), shardings)
    own = {n for n in arguments if splitter.function.arguments[n] not in splitter.early}
    return dims, own


def _split_dim(type_: ir.Type, shardings: Shardings) -> int | None:
    sharding = shardings.of_type(type_)
    split = (
        [] if sharding is None else [dim for dim, axes in enumerate(sharding.split_axes) if axes]
    )
    return split[0] if split else None


@dataclass
class _Splitter:
    """Types the values of one function by how they depend on the batch."""

    function: Function
    shardings: Shardings
    types: BatchTypes
    late: set[int] = field(default_factory=set)
    """The values that depend on totals of all microbatches."""
    early: dict[int, ir.Value] = field(default_factory=dict)
    """What is known of the whole batch before all microbatches."""
    totals: set[ir.Value] = field(default_factory=set)
    """The totals of what microbatches make."""
    parts: dict[tuple[int, Sharding], ir.Value] = field(default_factory=dict)
    """The parts that microbatches have of values that are the same for all."""
    made_apart: dict[int, ir.Operation] = field(default_factory=dict)
    """The ops that make values of which parts are made as such, after those that they read."""
    outside: dict[int, ir.Value] = field(default_factory=dict)
    """Copies of values, made outside of the regions that hold them."""
    inits: dict[tuple[int, int], ir.Value] = field(default_factory=dict)
    """What totals start from, by the op's id and the operand's number."""

    @property
    def grid(self) -> Grid:
        """The grid of microbatches."""
        return self.types.grid

    @property
    def of(self) -> dict[int, Sharding]:
        """The shardings of the values that are split."""
        return self.types.of

    def run(self, arguments: Collection[int]) -> None:
        """Type all values; raise a located `ShardError` for an op that does not allow it."""
        self.types.first_refused(arguments)
        self.of.clear()
        for number in arguments:
            self._split_argument(number)
        self.reads = read_values(self.function)
        for op in self.function.blocks[0].ops[:-1]:
            with located(op.handle):
                self._type(op)
        self._drop_what_is_early()
        # Of the whole batch, they may be larger than any device has room for.
        if not self.early:
            drop_unused(reversed(self.made_apart.values()))

    def _type(self, op: Op) -> None:
        """Type the results of an op by its operands."""
        read = self.reads[id(op)]
        if self.of.keys().isdisjoint(read):
            if not self.late.isdisjoint(read):
                self.late.update(op.results)
            return
        self._compute_early(op, self.late.intersection(read))
        if op.name == BARRIER:
            self._retype_all(dict(zip(op.results, map(self.of.get, op.operands), strict=True)))
            return
        made = self.types.made_by(op)
        for each in ops_in(op):
            with located(each.handle):
                self._bring_operands(each, made)
        self._retype_all(made)
        for number, value in enumerate(op.results):
            if value in made and made[value].partial:
                self._add_up(op, number)

    def _split_argument(self, number: int) -> None:
        if not 0 <= number < len(self.function.arguments):
            raise ShardError(
                f"there is no argument {number}: {as_symbol(self.function.name)} has "
                f"{len(self.function.arguments)}"
            )
        value = self.function.arguments[number]
        shape = self.function.values[value].shape
        count = self.grid.size
        dim = batch_dim(shape or ())
        if not shape or shape[dim] % count:
            found = "no size" if not shape else f"size {shape[dim]}"
            raise error_at(
                self.function.handle.location,
                f"argument {number} of {as_symbol(self.function.name)} has {found} in dimension "
                f"{dim}: expected a batch that {count} microbatches divide",
            )
        self.types.split(value)
        self._retype(value, self.of[value])

    def _compute_early(self, op: Op, values: Collection[int]) -> None:
        """Let `op` read totals that are computed of the whole batch, before all microbatches.

        So it is with the number of tokens that a loss is divided by. Raises a `ShardError` for what
        takes products to compute.
        """
        ops = self._makers(values)
        for each in ops:
            if self._is_long(each):
                raise ShardError(
                    f"'{op.name}' op reads a microbatch, and what all microbatches make together, "
                    f"by a '{each.name}' op: no pipeline can do that"
                )
        read = {value for each in ops for value in each.operands}
        for value in read & self.of.keys() & set(self.function.arguments) - self.early.keys():
            self._take_parts_of(value)
        for each in ops:
            if not self.early.keys() >= set(each.results):
                self._copy_early(each)
        handles = [*op.handle.operands, *captured(op.handle)]
        for value, handle in zip(self.reads[id(op)], handles, strict=True):
            if value in self.late.intersection(values):
                handle.replace_all_uses_with(self.early[value])
                self.late.discard(value)

    def _makers(self, values: Collection[int]) -> list[Op]:
        """The ops that values depend on, in order."""
        ops = self.function.blocks[0].ops
        maker = {result: each for each in ops for result in each.results}

        def before(value: int) -> Sequence[int]:
            return self.reads[id(maker[value])] if value in maker else ()

        found = set(reached(values, before))
        return [each for each in ops if not found.isdisjoint(each.results)]

    def _is_long(self, op: Op) -> bool:
        """Whether an op is a product, or has others in it."""
        if op.blocks or len(self.reads[id(op)]) > len(op.operands):
            return True
        rule = self.types.kinds.kind_in(self.function.values, op).rule
        return rule is not None and rule.is_product

    def _copy_early(self, op: Op) -> None:
        with ir.InsertionPoint(self._first), op.location:
            values = self.function.values
            copy = copy_onto(op.handle, [self.early.get(v, values[v].handle) for v in op.operands])
        for result in copy.results:
            if isinstance(result.type, ir.RankedTensorType):
                result.set_type(self.shardings.typed(result.type, None))
        self.early |= zip(op.results, copy.results, strict=True)

    @property
    def _first(self) -> ir.Operation:
        """The op before which all is that is early."""
        return self.function.blocks[0].ops[0].handle

    def _take_parts_of(self, argument: int) -> None:
        """Leave an argument whole, and let microbatches take their parts of it."""
        handle, sharding = self.function.values[argument].handle, self.of[argument]
        whole = Sharding.replicated(self.grid.name, len(sharding.split_axes))
        handle.set_type(self.shardings.typed(handle.type, None))
        with ir.InsertionPoint(self._first), self.function.handle.location:
            part = write_steps((AllSlice(0, (AXIS,)),), handle, whole, self.shardings)
        handle.replace_all_uses_except(part, part.owner.operation)
        self.early[argument] = handle

    def _drop_what_is_early(self) -> None:
        """Drop what nothing reads any more, now that it is computed early."""
        if self.early:
            block = self.function.blocks[0]
            made = (value for op in block.ops for value in op.results)
            late = {self.function.values[value].handle for value in made if value in self.early}
            late |= self.totals
            ops = reversed(operations(block.handle))
            drop_unused(op for op in ops if not late.isdisjoint(op.results))

    def _bring_operands(self, op: Op, made: Types) -> None:
        """Let an op read parts of what is the same for all microbatches, where it needs these."""
        of = self.of | made
        for flow in flows_through(op):
            target = of.get(flow.targets[0])
            if target is not None:
                for source, number in flow.sources:
                    self._bring(source, number, target, of)
        if op.name in FLOWS or op.name in ENDS or of.keys().isdisjoint(op.read):
            return
        needs = self.types.needs(op, of)
        for number, needed in needs.operands.items():
            self._bring(op, number, needed, of)
        for number, needed in zip(needs.inits, needs.results, strict=False):
            self._bring_init(op, number, needed, of)

    def _bring(self, op: Op, number: int, needed: Sharding, of: Mapping[int, Sharding]) -> None:
        """Let operand `number` be the part of a microbatch, if it is not."""
        value = op.operands[number]
        known = of.get(value)
        if known == needed or (known is None and not needed.axes):
            return
        if known is not None:
            raise ShardError(f"'{op.name}' op needs all microbatches of its operand {number}")
        if needed.partial:
            with ir.InsertionPoint(op.handle), op.location:
                type_ = self.shardings.typed(op.handle.operands[number].type, needed)
                part = MicrobatchOps(is_stablehlo(op.handle)).identity(needed.reduction, type_)
        else:
            part = self._part(value, needed)
        op.handle.operands[number] = part

    def _part(self, value: int, needed: Sharding) -> ir.Value:
        """A microbatch's part of a value: made as such, where that is cheap, or a slice."""
        if (value, needed) not in self.parts:
            self.parts[value, needed] = self._made_part(value, needed)
        return self.parts[value, needed]

    def _made_part(self, value: int, needed: Sharding) -> ir.Value:
        types, maker = self.types, self.types.maker.get(value)
        parts = None if value in self.early else types.parts(value, needed)
        if maker is not None and parts is not None:
            may = self._is_free if value in types.outer else types.may_be_part
            if all(may(maker.operands[number], each) for number, each in parts.items()):
                own = list(maker.handle.operands)
                for number, each in parts.items():
                    own[number] = self._part(maker.operands[number], each)
                with ir.InsertionPoint.after(maker.handle), maker.location:
                    copy = copy_onto(maker.handle, own)
                type_ = self.function.values[value].handle.type
                copy.results[0].set_type(self.shardings.typed(type_, needed))
                self.made_apart[value] = maker.handle
                return copy.results[0]
        whole = self._outside(value)
        (dim,) = (dim for dim, axes in enumerate(needed.split_axes) if axes)
        known = Sharding.replicated(self.grid.name, needed.rank)
        is_argument = isinstance(whole.owner, ir.Block)
        place = (
            ir.InsertionPoint(self._first)
            if is_argument
            else ir.InsertionPoint.after(whole.owner.operation)
        )
        with place, self.function.handle.location:
            return write_steps((AllSlice(dim, (AXIS,)),), whole, known, self.shardings)

    def _is_free(self, value: int, needed: Sharding) -> bool:
        """Whether a part of a value is made of constants alone."""
        parts = self.types.parts(value, needed)
        operands = self.types.maker[value].operands if parts is not None else ()
        return parts is not None and all(
            self._is_free(operands[number], each) for number, each in parts.items()
        )

    def _outside(self, value: int) -> ir.Value:
        """A value, made before the op of the first block in whose regions it is."""
        if value in self.types.outer:
            return self.early.get(value, self.function.values[value].handle)
        if value not in self.outside:
            maker = self.types.maker[value]
            made = [self._outside(each) for each in maker.operands]
            with ir.InsertionPoint(_outermost(maker.handle, self.function)), maker.location:
                copy = copy_onto(maker.handle, made)
            self.outside |= zip(maker.results, copy.results, strict=True)
        return self.outside[value]

    def _bring_init(self, op: Op, number: int, made: Sharding, of: Mapping[int, Sharding]) -> None:
        """Let a result start from a microbatch's part of its init.

        A partial result starts from the identity; the init is added to the total then.
        """
        handle = op.handle.operands[number]
        owner = handle.owner
        is_fresh = not isinstance(owner, ir.Block) and owner.name in FRESH
        if not made.partial and not is_fresh:
            self._bring(op, number, made, of)
            return
        with ir.InsertionPoint(op.handle), op.location:
            type_ = self.shardings.typed(handle.type, made)
            if made.partial:
                start = MicrobatchOps(is_stablehlo(op.handle)).identity(made.reduction, type_)
            else:
                start = build.empty(type_)
                if owner.name == "linalg.fill":
                    start = build.fill(owner.operands[0], start).results[0]
        op.handle.operands[number] = start
        changes_nothing = is_fresh and owner.name == "tensor.empty"
        if not made.partial or changes_nothing or reductions.is_identity(made.reduction, handle):
            return
        self.inits[id(op), number] = handle

    def _add_up(self, op: Op, number: int) -> None:
        """All-reduce a result over the microbatches, for all of its users."""
        value = op.results[number]
        made, handle = self.of[value], self.function.values[value].handle
        users = [(use.owner.operation, use.operand_number) for use in handle.uses]
        with ir.InsertionPoint.after(op.handle), op.location:
            step = AllReduce(made.partial, made.reduction)
            total = write_steps((step,), handle, made, self.shardings)
        self.totals.add(total)
        init = self._init_of(op, number)
        if init is not None:
            with ir.InsertionPoint.after(total.owner.operation), op.location:
                total = MicrobatchOps(is_stablehlo(op.handle)).combined(made.reduction, init, total)
            self.totals.add(total)
        for user, at in users:
            user.operands[at] = total
        del self.of[value]
        self.late.add(value)

    def _init_of(self, op: Op, result: int) -> ir.Value | None:
        """What the total of a result starts from, unless that changes nothing."""
        if op.blocks:
            return None
        rule = self.types.kinds.kind_in(self.function.values, op).rule
        return self.inits.get((id(op), rule.inits[result])) if rule and rule.inits else None

    def _retype_all(self, made: Mapping[int, Sharding | None]) -> None:
        for value, sharding in made.items():
            if sharding is not None:
                self._retype(value, sharding)

    def _retype(self, value: int, sharding: Sharding) -> None:
        handle = self.function.values[value].handle
        handle.set_type(self.shardings.typed(handle.type, sharding))
        self.of[value] = sharding


def _outermost(op: ir.Operation, function: Function) -> ir.Operation:
    """The op of the function's first block that holds `op`."""
    block = function.blocks[0].handle
    while op.block != block:
        op = op.parent.operation if isinstance(op.parent, ir.OpView) else op.parent
    return op


@dataclass
class MicrobatchProgram:
    """The ops of a function of one block, told apart by how they depend on the batch."""

    function: Function
    reads: Mapping[int, Sequence[int]]
    """The values that an op reads, also in its regions, by the op's id."""
    batched: set[int]
    """The values that depend on the batch."""
    ops: list[Op] = field(default_factory=list)
    """The ops that run for each microbatch."""
    once: list[Op] = field(default_factory=list)
    """The ops that run once, before all microbatches or beside them."""
    after: list[Op] = field(default_factory=list)
    """The ops that run once, after all microbatches."""
    totals: dict[int, tuple[int, AllReduce]] = field(default_factory=dict)
    """By total: the value that each microbatch adds to it, and the reduction."""
    slices: dict[int, tuple[int, AllSlice]] = field(default_factory=dict)
    """By a microbatch's slice of a value: that value, and the slice."""

    @classmethod
    def read(cls, handle: ir.Operation, arguments: Collection[int]) -> MicrobatchProgram:
        """Read the result of `split_batch`; the batch is in the `arguments` of these numbers."""
        function = read_function(handle)
        batched = {function.arguments[number] for number in arguments}
        program = cls(function, read_values(function), batched)
        program._classify()
        program._defer()
        return program

    @property
    def returned(self) -> Sequence[int]:
        """The values that the function returns."""
        return self.function.blocks[0].end.operands

    def _defer(self) -> None:
        """Defer ops that only ops after all microbatches read: those of momentum, say."""
        is_root = {each for each in self.function.arguments if self.function.values[each].is_tensor}
        for op in self.once:
            if not is_root.isdisjoint(self.reads[id(op)]):
                is_root.update(op.results)
        early = {value for op in self.ops for value in self.reads[id(op)]}
        early.update(source for source, _ in self.slices.values())
        late = {value for op in self.after for value in self.reads[id(op)]}
        deferred = set()
        for op in reversed(self.once):
            is_late = late.issuperset(op.results) and early.isdisjoint(op.results)
            if is_late and not is_root.isdisjoint(op.results):
                deferred.add(id(op))
                late.update(self.reads[id(op)])
            else:
                early.update(self.reads[id(op)])
        order = self.function.blocks[0].ops[:-1]
        after = deferred | {id(op) for op in self.after}
        self.after = [op for op in order if id(op) in after]
        self.once = [op for op in self.once if id(op) not in deferred]

    def _classify(self) -> None:
        late: set[int] = set()
        for op in self.function.blocks[0].ops[:-1]:
            local = read_local(op.name, op.handle.attributes)
            step = None if local is None else local[1]
            if isinstance(step, AllReduce):
                self.totals[op.results[0]] = op.operands[0], step
                late.update(op.results)
            elif isinstance(step, AllSlice):
                self.slices[op.results[0]] = op.operands[0], step
                self.batched.update(op.results)
            elif any(value in late for value in self.reads[id(op)]):
                self.after.append(op)
                late.update(op.results)
            elif any(value in self.batched for value in self.reads[id(op)]):
                self.ops.append(op)
                self.batched.update(op.results)
            else:
                self.once.append(op)
