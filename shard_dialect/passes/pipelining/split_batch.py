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
from shard_dialect.ir.numbered_function import Function, Op, read_function, read_values
from shard_dialect.ir.shard.local_collectives import read_local
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import Assignment, Grid, Sharding, ShardingRule
from shard_dialect.model.reached import reached
from shard_dialect.ops.op_table import OpKinds
from shard_dialect.passes.materialize.resharded_values import FRESH
from shard_dialect.passes.materialize.type_consistency import TypeChecks
from shard_dialect.passes.partition.partition import partition_function
from shard_dialect.passes.pipelining.microbatch_ops import MicrobatchOps
from shard_dialect.passes.pipelining.unroll_loops import BARRIER


def is_stablehlo(op: ir.Operation) -> bool:
    """Whether `op` is of StableHLO."""
    return bool(op.name.startswith("stablehlo."))


AXIS = 0
"""The axis of the grid of microbatches."""


def split_batch(
    function: ir.Operation, arguments: Collection[int], count: int, grid_name: str
) -> tuple[list[int | None], set[int]]:
    """Rewrite a function of one block to the program of one of `count` microbatches, in place.

    `arguments` are the numbers of those whose dimension 0 is the batch. Collectives on the grid
    `grid_name` tell where microbatches meet. Returns for each result the dimension that is split,
    or `None`, and the numbers of the arguments that are a microbatch's now: others are read whole,
    too. Raises a located `ShardError` where the function cannot be split.
    """
    module = function.parent
    grid = Grid(grid_name, (count,))
    with ir.InsertionPoint.at_block_begin(body(module)), function.location:
        write_cluster(grid)
    shardings = Shardings.of(module)
    splitter = _Splitter(read_function(function), shardings, grid)
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
    grid: Grid
    of: dict[int, Sharding] = field(default_factory=dict)
    """The shardings of the values that are split."""
    late: set[int] = field(default_factory=set)
    """The values that depend on totals of all microbatches."""
    early: dict[int, ir.Value] = field(default_factory=dict)
    """What is known of the whole batch before all microbatches."""
    totals: set[ir.Value] = field(default_factory=set)
    """The totals of what microbatches make."""
    kinds: OpKinds = field(default_factory=OpKinds)

    def run(self, arguments: Collection[int]) -> None:
        """Type all values; raise a located `ShardError` for an op that does not allow it."""
        for number in arguments:
            self._split_argument(number)
        self.reads = read_values(self.function)
        for op in self.function.blocks[0].ops[:-1]:
            with located(op.handle):
                self._type(op)
        self._drop_what_is_early()

    def _type(self, op: Op) -> None:
        """Type the results of an op by its operands."""
        read = self.reads[id(op)]
        if self.of.keys().isdisjoint(read):
            if not self.late.isdisjoint(read):
                self.late.update(op.results)
            return
        self._compute_early(op, self.late.intersection(read))
        if op.name == BARRIER:
            for value, result in zip(op.operands, op.results, strict=True):
                if value in self.of:
                    self._retype(result, self.of[value])
        elif op.blocks or len(read) > len(op.operands):
            raise ShardError(
                f"'{op.name}' op reads a microbatch in its regions: only ops with sharding rules "
                "can be split into microbatches"
            )
        else:
            self._split(op)

    def _split_argument(self, number: int) -> None:
        if not 0 <= number < len(self.function.arguments):
            raise ShardError(
                f"there is no argument {number}: {as_symbol(self.function.name)} has "
                f"{len(self.function.arguments)}"
            )
        value = self.function.arguments[number]
        shape = self.function.values[value].shape
        count = self.grid.size
        if not shape or shape[0] % count:
            found = "no size" if not shape else f"size {shape[0]}"
            raise error_at(
                self.function.handle.location,
                f"argument {number} of {as_symbol(self.function.name)} has {found} in dimension "
                f"0: expected a batch that {count} microbatches divide",
            )
        self._retype(value, Sharding(self.grid.name, ((AXIS,), *((),) * (len(shape) - 1))))

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
        for number, value in enumerate(op.operands):
            if value in values:
                op.handle.operands[number].replace_all_uses_with(self.early[value])
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
        rule = self.kinds.kind_in(self.function.values, op).rule
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

    def _split(self, op: Op) -> None:
        rule = self.kinds.kind_in(self.function.values, op).rule
        if rule is None:
            raise ShardError(f"'{op.name}' op has no sharding rule: its batch cannot be split")
        assignment = self._assignment(op, rule)
        for number, value in enumerate(op.operands):
            needed = rule.operand_sharding(number, assignment, self.grid)
            if needed is not None and number not in rule.inits:
                self._bring(op, number, value, needed)
        for number, value in enumerate(op.results):
            made = rule.result_sharding(number, assignment, self.grid)
            if made is None or not made.axes:
                raise ShardError(
                    f"'{op.name}' op does not pass the batch on to its result {number}"
                )
            init = self._bring_init(op, rule.inits[number], made) if rule.inits else None
            self._retype(value, made)
            if made.partial:
                self._add_up(op, value, made, init)

    def _assignment(self, op: Op, rule: ShardingRule) -> Assignment:
        """The factor of the op's rule that is the batch, assigned to the axis of microbatches."""
        factors: set[int] = set()
        for dims, value in zip(rule.operands, op.operands, strict=True):
            if dims is not None and value in self.of:
                by_factor = rule.factors_of(dims, self.of[value], self.grid)
                factors.update(factor for factor, axes in by_factor.items() if axes)
        if len(factors) != 1:
            raise ShardError(
                f"'{op.name}' op reads microbatches along {len(factors)} of its loops, each beside "
                "all others: no pipeline can do that"
            )
        (batch,) = factors
        if batch in rule.unsplit:
            raise ShardError(
                f"'{op.name}' op must not be split along its batch: its rule is {rule}"
            )
        if rule.sizes[batch] % self.grid.size:
            raise ShardError(
                f"'{op.name}' op cannot split its loop of size {rule.sizes[batch]} into "
                f"{self.grid.size} microbatches"
            )
        return tuple((AXIS,) if factor == batch else () for factor in range(len(rule.sizes)))

    def _bring(self, op: Op, number: int, value: int, needed: Sharding) -> None:
        """Let operand `number` be the slice of a microbatch, if it is not."""
        known = self.of.get(value, Sharding.replicated(self.grid.name, needed.rank))
        if known == needed:
            return
        if known.axes:
            raise ShardError(f"'{op.name}' op needs all microbatches of its operand {number}")
        (dim,) = (dim for dim, axes in enumerate(needed.split_axes) if axes)
        with ir.InsertionPoint(op.handle), op.location:
            handle = op.handle.operands[number]
            sliced = write_steps((AllSlice(dim, (AXIS,)),), handle, known, self.shardings)
        op.handle.operands[number] = sliced

    def _bring_init(self, op: Op, number: int, made: Sharding) -> ir.Value | None:
        """Let a result start from a microbatch's slice of its init.

        A partial result starts from the identity. Returns the init to add to the total then, unless
        it changes nothing.
        """
        handle = op.handle.operands[number]
        owner = handle.owner
        is_fresh = not isinstance(owner, ir.Block) and owner.name in FRESH
        if not made.partial and not is_fresh:
            self._bring(op, number, op.operands[number], made)
            return None
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
            return None
        return handle

    def _add_up(self, op: Op, value: int, made: Sharding, init: ir.Value | None) -> None:
        """All-reduce a result over the microbatches, for all of its users."""
        handle = self.function.values[value].handle
        users = [(use.owner.operation, use.operand_number) for use in handle.uses]
        with ir.InsertionPoint.after(op.handle), op.location:
            step = AllReduce(made.partial, made.reduction)
            total = write_steps((step,), handle, made, self.shardings)
        self.totals.add(total)
        if init is not None:
            with ir.InsertionPoint.after(total.owner.operation), op.location:
                total = MicrobatchOps(is_stablehlo(op.handle)).combined(made.reduction, init, total)
            self.totals.add(total)
        for user, number in users:
            user.operands[number] = total
        del self.of[value]
        self.late.add(value)

    def _retype(self, value: int, sharding: Sharding) -> None:
        handle = self.function.values[value].handle
        handle.set_type(self.shardings.typed(handle.type, sharding))
        self.of[value] = sharding


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
