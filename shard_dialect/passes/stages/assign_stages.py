"""Assign each op of a function to a stage of a pipeline.

    %1 = stablehlo.dot_general %x, %w      with %x on @first, these ops are on @first,
    %2 = stablehlo.tanh %1
    %3 = "mesh.collective_permute"(%2)     until a tensor is passed on:
    %4 = stablehlo.dot_general %3, %v      this op, and %v, are on @second

The operands and results of an op are on one stage, so the annotation of any of these values decides
it (union-find). An op that depends on constants and scalar arguments alone belongs to the stage
that uses it. All devices run an op without a stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.walk import body, operations, walk


@dataclass(frozen=True)
class StageAnnotations:
    """The stages that annotations give, before any is inferred.

    `arguments` and `results` give the stages of the function's boundary. `by` returns the stages
    that an op names, `for_users` the stage on which only the users of its result read it, and
    `transfer_of` the source (if known) and target of an op that passes its operand on.
    """

    arguments: Sequence[str | None]
    results: Sequence[str | None]
    transfer_of: Callable[[ir.Operation], tuple[str | None, str] | None]
    by: Callable[[ir.Operation], Sequence[str]] = lambda op: ()
    for_users: Callable[[ir.Operation], str | None] = lambda op: None


def operands_of(op: ir.Operation) -> Iterator[ir.Value]:
    """Yield the operands of an op, and of the ops in its regions."""
    yield from op.operands
    for inner in walk(op) if len(op.regions) else ():
        yield from inner.operands


@dataclass
class Stages:
    """The stages of the ops and arguments of a function of one block.

    Raises a located `ShardError` where values of two stages meet. `crossings` are the annotations
    for users on another stage than the value's.
    """

    function: ir.Operation
    annotations: StageAnnotations
    crossings: list[ir.Operation] = field(default_factory=list)

    def __post_init__(self) -> None:
        block = body(self.function)
        self._arguments = len(block.arguments)
        self._ops = operations(block)
        self._unit = {value: at for at, value in enumerate(block.arguments)}
        for at, op in enumerate(self._ops):
            for inner in (op, *(walk(op) if len(op.regions) else ())):
                for value in _defined_by(inner):
                    self._unit[value] = self._arguments + at
        count = self._arguments + len(self._ops)
        self._parent = list(range(count))
        self._stage: list[str | None] = [*self.annotations.arguments, *[None] * len(self._ops)]
        # Every device gets the arguments that are not tensors.
        scalars = [not isinstance(value.type, ir.ShapedType) for value in block.arguments]
        self._is_free = [*scalars, *[False] * len(self._ops)]
        self._join()
        self._assign_unconstrained()

    def of_argument(self, number: int) -> str | None:
        """The stage of an argument, or `None`."""
        return self._stage[self._root(number)]

    def of_value(self, value: ir.Value) -> str | None:
        """The stage of a value, or `None`."""
        return self._stage[self._root(self._unit[value])]

    def of_ops(self) -> list[tuple[ir.Operation, str | None]]:
        """The ops of the function's block in order, each with its stage."""
        return [
            (op, self._stage[self._root(self._arguments + at)]) for at, op in enumerate(self._ops)
        ]

    def _join(self) -> None:
        for at, op in enumerate(self._ops, self._arguments):
            transfer, users_stage = self.annotations.transfer_of(op), self.annotations.for_users(op)
            if op.name == "func.return":
                self._return(op)
            elif transfer is not None:
                source, target = transfer
                if source is not None:
                    self._put(self._unit[op.operands[0]], source, op)
                self._put(at, target, op)
            elif users_stage is not None:
                self._put(at, users_stage, op)
            else:
                self._join_operands(op, at)
        for at, op in enumerate(self._ops, self._arguments):
            users_stage = self.annotations.for_users(op)
            if users_stage is not None:
                self._note_users_stage(op, at, users_stage)

    def _join_operands(self, op: ir.Operation, at: int) -> None:
        """Put an op on the stage of its operands, and on the stage that it names."""
        named = self.annotations.by(op)
        for stage in named:
            self._put(at, stage, op)
        units = {self._unit[value] for value in operands_of(op)} - {at}
        bound = [unit for unit in units if not self._is_free[unit]]
        self._is_free[at] = not named and not bound
        for unit in bound:
            self._unite(unit, at, op)

    def _note_users_stage(self, op: ir.Operation, at: int, stage: str) -> None:
        """Unite an annotation for users with its operand, or note a crossing to another stage."""
        unit = self._unit[op.operands[0]]
        if self._stage[self._root(unit)] not in (None, stage):
            self.crossings.append(op)
        elif not self._is_free[unit]:
            self._unite(unit, at, op)

    def _return(self, op: ir.Operation) -> None:
        for value, stage in zip(op.operands, self.annotations.results, strict=True):
            if stage is not None and not self._is_free[self._unit[value]]:
                self._put(self._unit[value], stage, op)

    def _assign_unconstrained(self) -> None:
        """Put an op that depends on constants alone on the stage of its users, if they have one."""
        users: dict[int, set[str | None]] = {}
        for at in range(len(self._parent) - 1, self._arguments - 1, -1):
            op = self._ops[at - self._arguments]
            if self._is_free[at]:
                stages = users.get(at, {None})
                self._stage[at] = next(iter(stages)) if len(stages) == 1 else None
            transfer = self.annotations.transfer_of(op)
            stage = transfer[0] if transfer else self._stage[self._root(at)]
            for number, value in enumerate(operands_of(op)):
                if op.name == "func.return":
                    stage = self.annotations.results[number]
                users.setdefault(self._unit[value], set()).add(stage)

    def _root(self, unit: int) -> int:
        while self._parent[unit] != unit:
            self._parent[unit] = self._parent[self._parent[unit]]
            unit = self._parent[unit]
        return unit

    def _put(self, unit: int, stage: str, op: ir.Operation) -> None:
        root = self._root(unit)
        stage_before = self._stage[root]
        if stage_before is not None and stage_before != stage:
            raise _meet(op, stage_before, stage)
        self._stage[root] = stage

    def _unite(self, a: int, b: int, op: ir.Operation) -> None:
        first, second = self._root(a), self._root(b)
        stage = self._stage[first]
        if stage is not None:
            self._put(second, stage, op)
        self._parent[first] = second


def _defined_by(op: ir.Operation) -> list[ir.Value]:
    values = list(op.results)
    for region in op.regions if len(op.regions) else ():
        for block in region.blocks:
            values += block.arguments
    return values


def _meet(op: ir.Operation, a: str, b: str) -> ShardError:
    return error_at(
        op.location,
        f"'{op.name}' op is where values of two stages meet, @{a} and @{b}: pass one on, by "
        f"'mesh.collective_permute'",
    )
