"""The values of a function in the local form, whose shardings follow from its boundary.

    %arg0: tensor<4x16xf32> {mesh.argument = tensor<8x16xf32, #mesh.shard<@g, [[0], []]>>}
    %0 = stablehlo.tanh %arg0                   [[0], []], by the op's sharding rule
    %1 = shard.all_gather %0 ... [0] axis = 0   [[], []], by the step

A local type says nothing of a sharding. What each op and collective makes of those of the arguments
is followed through the function, in its order. Where an op has no rule, where operands disagree, or
where a dimension of size 1 leaves open which dimension is split, nothing is known of a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shard_dialect.analysis.reasons.function_values import FunctionValues
from shard_dialect.analysis.reasons.why import Reason
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text
from shard_dialect.ir.function import boundary, functions_of, name_of
from shard_dialect.ir.mesh.attributes import ARGUMENT, RESULT
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import Function, Op
from shard_dialect.ir.region_flow import FLOWS, flows_through
from shard_dialect.ir.shard.local_collectives import LocalStep, read_local
from shard_dialect.model import Axes, Grid, Sharding, ShardingRule, UpdateHalo
from shard_dialect.rules.op_kinds import OpKinds

Signature = tuple[list[Sharding | None], list[Sharding | None]]
"""The shardings of a function's arguments and results, as its boundary has them."""


def signatures_of(module: ir.Operation, shardings: Shardings) -> dict[str, Signature]:
    """The signatures of a module's functions in the local form."""
    return {name_of(each): _signature(each, shardings) for each in functions_of(module)}


def _signature(function: ir.Operation, shardings: Shardings) -> Signature:
    def of(key: str, name: str) -> list[Sharding | None]:
        entries = boundary(function, key)
        return [shardings.of_type(each[name].value) if name in each else None for each in entries]

    return of("arg_attrs", ARGUMENT), of("res_attrs", RESULT)


class LocalValues(FunctionValues):
    """The values of one function in the local form."""

    def __init__(
        self, function: Function, shardings: Shardings, signatures: Mapping[str, Signature]
    ) -> None:
        super().__init__(function, shardings, None)
        self._signatures = signatures
        self._kinds = OpKinds()
        self._known: dict[int, Sharding] = {}
        self._free: set[int] = set()
        """Values that are made of no tensor: any device has what it needs of them."""
        of_arguments = signatures[function.name][0]
        for value, sharding in zip(function.arguments, of_arguments, strict=True):
            self._set(value, sharding)
        for op in _with_insides(function):
            self._infer(op)

    def sharding(self, value: int) -> Sharding | None:
        """The sharding that follows from the boundary; `None` where nothing is known."""
        return self._known.get(value)

    def as_text(self, sharding: Sharding | None) -> str:
        """As `[[0], []]`, after a verb; nothing where it is not known."""
        return f" as {self.text(sharding)}" if sharding else ""

    def collective(self, op: Op) -> tuple[str, Axes]:
        """The grid of a collective, and its axes."""
        read = _step_of(op)
        assert read is not None, "it is a collective of the local form"
        return read[0], read[1].axes

    def in_type(self, number: int) -> Reason:
        """What the boundary says of an argument."""
        argument = self.function.handle.regions[0].blocks[0].arguments[number]
        sharding = self._signatures[self.function.name][0][number]
        shown = self.text(sharding) if sharding else "replicated"
        text = f"{self.argument_text(number)} is {shown} at the boundary"
        return Reason(text, location_text(argument.location), annotation=True)

    def returned(self, number: int) -> Reason | None:
        """What the boundary says of a result."""
        sharding = self._signatures[self.function.name][1][number]
        shown = self.text(sharding) if sharding else "replicated"
        place = location_text(self.function.handle.location)
        return Reason(f"result {number} is {shown} at the boundary", place, annotation=True)

    def _set(self, value: int, sharding: Sharding | None) -> None:
        shape = self.function.values[value].shape
        if sharding is not None and shape is not None and sharding.rank == len(shape):
            self._known[value] = sharding.bare

    def _infer(self, op: Op) -> None:
        tensors = [value for value in op.read if self.function.values[value].is_tensor]
        if op.name in FLOWS:
            for flow in flows_through(op):
                (source, number), *_ = flow.sources
                for target in flow.targets:
                    self._set(target, self._known.get(source.operands[number]))
            return
        if op.name == "func.call":
            _, results = self._signatures.get(op.handle.attributes["callee"].value, ([], []))
            for value, sharding in zip(op.results, results, strict=False):
                self._set(value, sharding)
            return
        if self.is_collective(op):
            if op.operands and op.results:
                self._set(op.results[0], self._after(op))
            return
        if all(value in self._free for value in tensors):
            self._free.update(op.results)
            return
        for value, sharding in zip(op.results, self._computed(op), strict=True):
            self._set(value, sharding)

    def _after(self, op: Op) -> Sharding | None:
        source = self._known.get(op.operands[0])
        if source is None or op.name == "mesh.done":
            return source
        read = _step_of(op)
        if read is None or read[0] != source.grid or not hasattr(read[1], "after"):
            return None
        if isinstance(read[1], UpdateHalo):
            return source
        try:
            return read[1].after(source)
        except ShardError:
            return None

    def _computed(self, op: Op) -> Sequence[Sharding | None]:
        """The shardings of the results of an op without collectives."""
        nothing: list[Sharding | None] = [None] * len(op.results)
        try:
            rule = self._kinds.kind_in(self.function.values, op).rule
            inputs = [self._known.get(value) for value in op.operands]
            grids = {each.grid for each in inputs if each is not None}
            if rule is None or len(grids) != 1 or op.captures or not self._all_known(op, rule):
                return nothing
            grid = self.shardings.grid(grids.pop())
            assignment = _assignment(rule, inputs, grid)
            if assignment is None:
                return nothing
            found = [rule.result_sharding(n, assignment, grid) for n in range(len(op.results))]
            return [_also_partial(each, inputs) if each else None for each in found]
        except ShardError:
            return nothing

    def _all_known(self, op: Op, rule: ShardingRule) -> bool:
        return all(
            value in self._known or value in self._free or not self.function.values[value].is_tensor
            for number, value in enumerate(op.operands)
            if number not in rule.inits
        )


def _step_of(op: Op) -> tuple[str, LocalStep] | None:
    attributes = op.handle.attributes
    return read_local(op.name, {name: attributes[name] for name in attributes})


def _with_insides(function: Function) -> list[Op]:
    """All ops, those with regions before what is in them."""
    found: list[Op] = []

    def visit(ops: Sequence[Op]) -> None:
        for op in ops:
            found.append(op)
            for block in op.blocks:
                visit(block.ops)

    for block in function.blocks:
        visit(block.ops)
    return found


def _assignment(
    rule: ShardingRule, inputs: Sequence[Sharding | None], grid: Grid
) -> tuple[Axes, ...] | None:
    """The axes that split each factor; `None` where operands disagree, or dimensions merge."""
    axes_of: dict[int, Axes] = {}
    for number, (dims, sharding) in enumerate(zip(rule.operands, inputs, strict=True)):
        if dims is None or sharding is None or number in rule.inits:
            continue
        if any(sharding.split_axes) and not _is_plain(rule):
            return None
        for factor, axes in rule.factors_of(dims, sharding, grid).items():
            if axes_of.setdefault(factor, axes) != axes:
                return None
    assigned = tuple(axes_of.get(factor, ()) for factor in range(len(rule.sizes)))
    if not all(_passes(rule, factor) for factor, axes in enumerate(assigned) if axes):
        return None
    used = [axis for axes in assigned for axis in axes]
    return assigned if len(used) == len(set(used)) else None


def _passes(rule: ShardingRule, factor: int) -> bool:
    """Whether a split of the factor is one of the results, or makes them partial."""
    if factor in rule.need_replication | rule.permuted | rule.blocked:
        return False
    in_results = {each for dims in rule.results for dim in dims or () for each in dim}
    return factor in in_results or factor in rule.reduction_of


def _is_plain(rule: ShardingRule) -> bool:
    """Whether each dimension is one factor: what merges or splits dimensions tells no more."""
    tensors = [dims for dims in (*rule.operands, *rule.results) if dims is not None]
    return all(len(dim) == 1 for dims in tensors for dim in dims)


def _also_partial(result: Sharding, inputs: Sequence[Sharding | None]) -> Sharding | None:
    """The result, partial as operands are; `None` where they are so in different ways."""
    partial = {(each.partial, each.reduction) for each in inputs if each and each.partial}
    if not partial:
        return result
    if len(partial) > 1 or result.partial:
        return None
    axes, reduction = partial.pop()
    return result.with_partial(axes, reduction)
