"""Assign each op of a function to a stage of a pipeline.

    %1 = stablehlo.dot_general %x, %w      with %x on @first, these ops are on @first,
    %2 = stablehlo.tanh %1
    %3 = "mesh.collective_permute"(%2)     until a tensor is passed on:
    %4 = stablehlo.dot_general %3, %v      this op, and %v, are on @second

The operands and results of an op are on one stage, so the annotation of any of these values decides
it (union-find). An op whose result is annotated on another stage than an operand is known to be on
has that operand passed on to it; so has an op whose operands are known to be on several stages, to
all devices or to the first operand's stage. A value that depends on constants and scalar arguments
alone is free: it belongs to the stage that uses it. All devices run an op without a stage.

A loop or branch is on one stage as a whole, unless it has ops of several stages inside. Then it is
open: all devices run it, each value that it carries is on a stage of its own, to which its blocks
pass on what they yield, and what decides on its control flow must be free, or computed by all
devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.function import BOUNDARY
from shard_dialect.ir.mesh.annotation_ops import TO_LOCAL
from shard_dialect.ir.mesh.sharding_attributes import stages_at, stages_named
from shard_dialect.ir.numbered_function import ENDS, FLOWS, Block, Function, Op, flows_through

Named = Mapping[int, str]
"""The stages of some results or block arguments, by their number."""


@dataclass(frozen=True)
class StageAnnotations:
    """The stages that annotations give, before any is inferred.

    `arguments` and `results` give the stages of the function's boundary. `of_results` and
    `of_blocks` return the stages of an op's results, and of its blocks' arguments, `for_users` the
    stage on which only the users of its result read it, and `transfer_of` the source (if known) and
    target of an op that passes its operand on. All devices, too, may have a name, as a stage has.
    """

    arguments: Sequence[str | None]
    results: Sequence[str | None]
    transfer_of: Callable[[ir.Operation], tuple[str | None, str] | None]
    of_results: Callable[[ir.Operation], Named] = lambda op: {}
    of_blocks: Callable[[ir.Operation], Sequence[Named]] = lambda op: ()
    for_users: Callable[[ir.Operation], str | None] = lambda op: None


@dataclass
class Stages:
    """The stages of the ops and values of a function of one block.

    Raises a located `ShardError` where values of two stages meet. `crossings` are the annotations
    for users on another stage than the value's. `open_ops` are the ids of the open ops.
    """

    function: Function
    annotations: StageAnnotations
    everyone: str = ""
    """The name of all devices."""
    crossings: list[Op] = field(default_factory=list)
    operand_crossings: list[tuple[Op, int, str]] = field(default_factory=list)
    """The operands, by number, of ops whose result is annotated on another stage, and of returns;
    with this stage."""
    open_ops: set[int] = field(default_factory=set)

    @classmethod
    def settled(cls, function: Function, whole: str) -> Stages:
        """The stages of a function that `stages-to-grid` has rewritten, for a grid `whole`.

        No annotation names one any more: an argument that has none is on all devices.
        """
        arguments, results = (stages_at(function.handle, key) for key in BOUNDARY)
        for number, value in enumerate(function.arguments):
            if function.values[value].is_tensor:
                arguments[number] = arguments[number] or whole
        return cls(function, StageAnnotations(arguments, results, stages_named), whole)

    def __post_init__(self) -> None:
        function, count = self.function, len(self.function.values)
        self._unit = {id(op): count + at for at, op in enumerate(function.ops)}
        self._parent = list(range(count + len(function.ops)))
        self._stage: dict[int, str] = {}
        self._bound: set[int] = set()
        self._bind(value for value in function.arguments if function.values[value].is_tensor)
        self._read = frozenset(value for op in function.ops for value in op.read)
        self._flowing: dict[int, list[tuple[int, int]]] = {}
        """For the end of a block of an open op, by its id: the operands that flow to a value."""
        for value, stage in zip(function.arguments, self.annotations.arguments, strict=True):
            if stage is not None:
                self._put(value, stage, function.ops[0])
        self._join(function.blocks, None)
        for op in function.ops:
            users_stage = self.annotations.for_users(op.handle)
            if users_stage is not None:
                self._note_users_stage(op, users_stage)
        self._assign_free()
        self._check_control()

    def of_value(self, value: int) -> str | None:
        """The stage of a value, or `None`."""
        return self._stage.get(self._root(value))

    def of_op(self, op: Op) -> str | None:
        """The stage of an op, or `None`."""
        return self._stage.get(self._root(self._unit[id(op)]))

    def is_bound(self, value: int) -> bool:
        """Whether the value depends on a tensor argument, or on an annotated value."""
        return value in self._bound

    def is_free(self, op: Op) -> bool:
        """Whether the op depends on constants and scalar arguments alone."""
        return self._bound.isdisjoint(_values_at(op))

    def _bind(self, values: Iterable[int]) -> None:
        """Note values that are not free, and those that depend on these, or on annotated ones."""
        function, bound, before = self.function, self._bound, -1
        bound.update(values)
        # A loop's argument is bound by the value that its end yields, which comes after its users.
        while len(bound) != before:
            before = len(bound)
            for op in function.ops:
                named = [op.results[number] for number in self.annotations.of_results(op.handle)]
                for flow in flows_through(op):
                    if any(user.operands[number] in bound for user, number in flow.sources):
                        bound.update(flow.targets)
                if op.name not in FLOWS and not bound.isdisjoint(op.read):
                    bound.update(op.results)
                bound.update(named)
                for block, stages in zip(
                    op.blocks, self.annotations.of_blocks(op.handle), strict=False
                ):
                    bound.update(block.arguments[number] for number in stages)
                if self._moves(op):
                    bound.update(op.results)

    def _moves(self, op: Op) -> bool:
        return (
            self.annotations.transfer_of(op.handle) is not None
            or self.annotations.for_users(op.handle) is not None
        )

    def _has_several(self, op: Op) -> bool:
        """Whether ops in the op's blocks move values, or name several stages or another one."""
        names: set[str] = set()
        for inner in _inside(op.blocks):
            if self.annotations.transfer_of(inner.handle) is not None:
                return True
            users_stage = self.annotations.for_users(inner.handle)
            names.update([users_stage] if users_stage is not None else [])
            names.update(self.annotations.of_results(inner.handle).values())
        # What ops inside make is not yet on a stage: what they read from outside may be.
        read = {value for inner in _inside(op.blocks) for value in inner.read}
        names |= self._known(read)
        return bool(names) and len(names | self._known(op.read)) > 1

    def _known(self, values: Iterable[int]) -> set[str]:
        """The stages that values are known to be on."""
        stages = (self.of_value(value) for value in values if value in self._bound)
        return {stage for stage in stages if stage is not None}

    def _join(self, blocks: Sequence[Block], around: Op | None) -> None:
        """Unite values of one stage in the blocks of `around`, a closed op, or of an open one."""
        for block in blocks:
            for op in block.ops:
                if op.blocks and self._has_several(op):
                    self.open_ops.add(id(op))
                elif op.blocks and not self.is_free(op):
                    # Its devices alone know what it makes, be it of constants, as a counter is.
                    free = [value for value in op.results if value not in self._bound]
                    if not self._read.isdisjoint(free):
                        self._bind(free)
                self._join_op(op, around)
                self._join(op.blocks, around or (None if id(op) in self.open_ops else op))

    def _put_annotated(self, op: Op) -> Named:
        """Put the op's results and block arguments on the stages that annotations name.

        Returns those of the results.
        """
        of_results = self.annotations.of_results(op.handle)
        for number, stage in of_results.items():
            self._put(op.results[number], stage, op)
        for block, stages in zip(op.blocks, self.annotations.of_blocks(op.handle), strict=False):
            for number, stage in stages.items():
                self._put(block.arguments[number], stage, op)
        return of_results

    def _join_op(self, op: Op, around: Op | None) -> None:
        """Unite the values of an op that are on one stage."""
        transfer, unit = self.annotations.transfer_of(op.handle), self._unit[id(op)]
        users_stage = self.annotations.for_users(op.handle)
        of_results = self._put_annotated(op)
        crossing: set[int] = set()
        if op.name == TO_LOCAL:  # its operand is of the function around the manual computation
            crossing = self._crossing(op, of_results.get(0))
        if around is not None:
            inside = [value for value in (*op.operands, *op.results) if value not in crossing]
            self._unite_bound(self._unit[id(around)], inside, op)
        if op.name == "func.return":
            self._return(op)
        elif transfer is not None:
            source, target = transfer
            if source is not None:
                self._put(op.operands[0], source, op)
            self._put(op.results[0], target, op)
            self._unite_bound(op.results[0], op.operands[1:], op)
        elif users_stage is not None:
            self._put(op.results[0], users_stage, op)
        elif id(op) in self.open_ops:
            self._carry(op)
        elif id(op) in self._flowing:
            self._end(op)
        elif op.name not in ENDS:
            stage = next(iter(of_results.values()), None) or self._stage_of_join(op)
            crossing = crossing or self._crossing(op, stage)
            kept = [value for value in _values_at(op) if value not in crossing]
            self._unite_bound(unit, kept, op)

    def _stage_of_join(self, op: Op) -> str | None:
        """The stage to which operands of several known stages are passed on, if an op has such.

        It is all devices if one of them is there, or else the first operand's.
        """
        stages = [self.of_value(value) for value in op.operands if value in self._bound]
        found = list(dict.fromkeys(each for each in stages if each is not None))
        if len(found) < 2:
            return None
        return self.everyone if self.everyone in found else found[0]

    def _crossing(self, op: Op, stage: str | None) -> set[int]:
        """Note the operands that are to be passed on to the stage of the op's annotated result."""
        found: set[int] = set()
        if stage is None:
            return found
        for number, value in enumerate(op.operands):
            if value in self._bound and self.of_value(value) not in (None, stage):
                self.operand_crossings.append((op, number, stage))
                found.add(value)
        return found

    def _carry(self, op: Op) -> None:
        """Unite the values that an open op carries; those of its blocks at their ends."""
        for flow in flows_through(op):
            values = [*flow.targets]
            for user, number in flow.sources:
                if user is op:
                    values.append(op.operands[number])
                else:
                    self._flowing.setdefault(id(user), []).append((number, flow.targets[0]))
            self._unite_bound(flow.targets[0], values, op)

    def _end(self, op: Op) -> None:
        """Unite what the end of a block yields with what carries it, or note that it is passed on.

        All values of one stage in the block are united by now.
        """
        for number, target in self._flowing[id(op)]:
            value, stage = op.operands[number], self.of_value(target)
            if value not in self._bound:
                continue
            if stage is None or self.of_value(value) in (None, stage):
                self._unite(value, target, op)
            else:
                self.operand_crossings.append((op, number, stage))

    def _return(self, op: Op) -> None:
        for number, (value, stage) in enumerate(
            zip(op.operands, self.annotations.results, strict=True)
        ):
            if stage is None or value not in self._bound:
                continue
            if self.of_value(value) in (None, stage):
                self._put(value, stage, op)
            else:  # the return is the last op: all values of one stage are united by now
                self.operand_crossings.append((op, number, stage))

    def _unite_bound(self, unit: int, values: Sequence[int], op: Op) -> None:
        for value in values:
            if value in self._bound:
                self._unite(value, unit, op)

    def _note_users_stage(self, op: Op, users_stage: str) -> None:
        """Unite an annotation for users with its operand, or note a crossing to another stage."""
        value = op.operands[0]
        if self.of_value(value) not in (None, users_stage):
            self.crossings.append(op)
        elif value in self._bound:
            self._unite(value, op.results[0], op)

    def _assign_free(self) -> None:
        """Put an op that makes free values on the stage of its users, if they have one."""
        users: dict[int, set[str | None]] = {}
        targets = {
            (id(user), number): flow.targets[0]
            for op in self.function.ops
            if id(op) in self.open_ops
            for flow in flows_through(op)
            for user, number in flow.sources
        }
        # Users first: a free op's stage is known once those of its users are.
        for op in reversed(self.function.ops):
            unit = self._root(self._unit[id(op)])
            is_free = id(op) not in self.open_ops and self.is_free(op)
            if is_free and unit not in self._stage and op.name not in ENDS and op.results:
                stages = set().union(*(users.get(value, set()) for value in op.results))
                found = next(iter(stages)) if len(stages) == 1 else None
                if found is not None:
                    self._stage[unit] = found
                    for value in op.results:
                        self._stage[self._root(value)] = found
            transfer = self.annotations.transfer_of(op.handle)
            own = self.of_op(op)
            for number, value in enumerate(op.operands):
                stage = own
                if transfer is not None:
                    stage = transfer[1 if number else 0]
                elif op.name == "func.return":
                    stage = self.annotations.results[number]
                elif (id(op), number) in targets:
                    stage = self.of_value(targets[id(op), number])
                users.setdefault(value, set()).add(stage)
            for value in op.read[len(op.operands) :]:
                users.setdefault(value, set()).add(own)

    def _check_control(self) -> None:
        """Raise if a value of a stage decides on the control flow of all devices."""
        for op in self.function.ops:
            if id(op) not in self.open_ops:
                continue
            flowing = {
                (id(user), number) for flow in flows_through(op) for user, number in flow.sources
            }
            for user in (op, *(block.end for block in op.blocks)):
                for number, value in enumerate(user.operands):
                    stage = self.of_value(value)
                    is_of_stage = value in self._bound and stage not in (None, self.everyone)
                    if (id(user), number) not in flowing and is_of_stage:
                        raise error_at(
                            user.location,
                            f"'{op.name}' op has several stages inside, and its control flow "
                            f"depends on a value of {as_symbol(str(stage))}: pass it on to all "
                            "devices",
                        )

    def _root(self, unit: int) -> int:
        while self._parent[unit] != unit:
            self._parent[unit] = self._parent[self._parent[unit]]
            unit = self._parent[unit]
        return unit

    def _put(self, unit: int, stage: str, op: Op) -> None:
        root = self._root(unit)
        stage_before = self._stage.setdefault(root, stage)
        if stage_before != stage:
            raise _meet(op, stage_before, stage)

    def _unite(self, a: int, b: int, op: Op) -> None:
        first, second = self._root(a), self._root(b)
        if first == second:
            return
        stage = self._stage.get(first)
        if stage is not None:
            self._put(second, stage, op)
        self._parent[first] = second


def _inside(blocks: Sequence[Block]) -> Iterator[Op]:
    for block in blocks:
        for op in block.ops:
            yield op
            yield from _inside(op.blocks)


def _values_at(op: Op) -> list[int]:
    """The values that an op reads or makes, and its blocks' arguments."""
    arguments = [value for block in op.blocks for value in block.arguments]
    return [*op.read, *arguments, *op.results]


def _meet(op: Op, a: str, b: str) -> ShardError:
    return error_at(
        op.location,
        f"'{op.name}' op is where values of two stages meet, {as_symbol(a)} and {as_symbol(b)}: "
        "pass one on, by an annotation on the other's devices before this op, or by "
        "'mesh.collective_permute'",
    )
