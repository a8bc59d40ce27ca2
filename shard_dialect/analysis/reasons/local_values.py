"""The values of a function in the local form, whose shardings follow from its boundary.

    %arg0: tensor<4x16xf32> {mesh.argument = tensor<8x16xf32, #mesh.shard<@g, [[0], []]>>}
    %0 = stablehlo.tanh %arg0                   [[0], []], by the op's sharding rule
    %1 = shard.all_gather %0 ... [0] axis = 0   [[], []], by the step

A local type has no sharding. The shardings of the arguments are followed through each op and
collective of the function, in its order. Values made of no tensor, and the dimensions that a
broadcast adds, may be split in any way. Where an op has no rule, where operands disagree, or where
dimensions merge, nothing is known of a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from shard_dialect.analysis.reasons.function_values import FunctionValues
from shard_dialect.analysis.reasons.why import Reason
from shard_dialect.collectives import LocalStep, Permute, Step, UpdateHalo
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text
from shard_dialect.ir.function import boundary, functions_of, name_of
from shard_dialect.ir.mesh.attributes import ARGUMENT, RESULT
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import FLOWS, Function, Op, flows_through
from shard_dialect.ir.shard.local_collectives import read_local
from shard_dialect.model import Axes, Reduction, Sharding, ShardingRule
from shard_dialect.model.factor_projection import Dims
from shard_dialect.ops.op_table import OpKinds

Boundary = list[Sharding | None]
"""`None` where nothing is known: without the global type, or where it is no tensor."""
Signature = tuple[Boundary, Boundary]
"""The shardings of a function's arguments and results, as its boundary has them."""


def signatures_of(module: ir.Operation, shardings: Shardings) -> dict[str, Signature]:
    """The signatures of a module's functions in the local form."""
    return {name_of(each): _signature(each, shardings) for each in functions_of(module)}


def _signature(function: ir.Operation, shardings: Shardings) -> Signature:
    grid = min(shardings.grids, default="")

    def read(type_: ir.Type) -> Sharding | None:
        replicated = isinstance(type_, ir.RankedTensorType) and type_.encoding is None
        return Sharding.replicated(grid, type_.rank) if replicated else shardings.of_type(type_)

    def of(key: str, name: str) -> Boundary:
        entries = boundary(function, key)
        return [read(each[name].value) if name in each else None for each in entries]

    return of("arg_attrs", ARGUMENT), of("res_attrs", RESULT)


@dataclass(frozen=True, slots=True)
class Known:
    """The known splits of a value; `None` for a dimension that may be split in any way."""

    grid: str
    split_axes: tuple[Axes | None, ...]
    partial: Axes = ()
    reduction: Reduction = "sum"

    @classmethod
    def of(cls, sharding: Sharding) -> Known:
        """All of a sharding, without its halos and offsets."""
        return cls(sharding.grid, sharding.split_axes, sharding.partial, sharding.reduction)

    def sharding(self) -> Sharding:
        """The sharding, where dimensions that may be split in any way are not split."""
        split = tuple(axes or () for axes in self.split_axes)
        return Sharding(self.grid, split, self.partial, self.reduction)

    def after(self, step: LocalStep) -> Known | None:
        """The known splits after a step; `None` where it does not fit."""
        if isinstance(step, UpdateHalo):
            return self
        if not isinstance(step, Step) or isinstance(step, Permute):
            return None  # a permutation of shards does not say which sharding it leads to
        try:
            after = step.after(self.sharding())
        except ShardError:
            return None
        dims = list(zip(self.split_axes, after.split_axes, strict=True))
        if any(before is None and axes for before, axes in dims):
            return None  # it is split along more than these
        split = tuple(before if before is None else axes for before, axes in dims)
        return Known(after.grid, split, after.partial, after.reduction)


class LocalValues(FunctionValues):
    """The values of one function in the local form."""

    def __init__(
        self, function: Function, shardings: Shardings, signatures: Mapping[str, Signature]
    ) -> None:
        super().__init__(function, shardings, None)
        self._signatures = signatures
        self._kinds = OpKinds()
        self._known: dict[int, Known] = {}
        self._grid = min(shardings.grids, default="")
        for value, sharding in zip(function.arguments, signatures[function.name][0], strict=True):
            if sharding is not None:
                self._known[value] = Known.of(sharding)
        for op in _with_insides(function):
            self._infer(op)

    def sharding(self, value: int) -> Sharding | None:
        """The sharding that follows from the boundary; `None` where not all of it is known."""
        known = self._known.get(value)
        return None if known is None or None in known.split_axes else known.sharding()

    def as_text(self, sharding: Sharding | None) -> str:
        """As `[[0], []]`, after a verb; nothing where it is not known."""
        return f" as {self.text(sharding)}" if sharding else ""

    def is_collective(self, op: Op) -> bool:
        """Whether an op is a collective of the local form, or the end of one."""
        return super().is_collective(op) and (op.name == "mesh.done" or _step_of(op) is not None)

    def collective(self, op: Op) -> tuple[str, Axes]:
        """The grid of a collective, and its axes."""
        read = _step_of(op)
        assert read is not None, "it is a collective of the local form"
        return read[0], read[1].axes

    def in_type(self, number: int) -> Reason | None:
        """The splits of an argument at the boundary."""
        argument = self.function.handle.regions[0].blocks[0].arguments[number]
        sharding = self._signatures[self.function.name][0][number]
        if sharding is None:
            return None
        text = f"{self.argument_text(number)} is {self.text(sharding)} at the boundary"
        return Reason(text, location_text(argument.location), annotation=True)

    def returned(self, number: int) -> Reason | None:
        """The splits of a result at the boundary."""
        sharding = self._signatures[self.function.name][1][number]
        if sharding is None:
            return None
        text = f"result {number} is {self.text(sharding)} at the boundary"
        return Reason(text, location_text(self.function.handle.location), annotation=True)

    def _infer(self, op: Op) -> None:
        for value, known in zip(op.results, self._results(op), strict=False):
            shape = self.function.values[value].shape
            if known is not None and shape is not None and len(known.split_axes) == len(shape):
                self._known[value] = known

    def _results(self, op: Op) -> Sequence[Known | None]:
        if op.name in FLOWS:
            for flow in flows_through(op):
                (source, number), *_ = flow.sources
                known = self._known.get(source.operands[number])
                if known is not None:
                    self._known |= dict.fromkeys(flow.targets, known)
            return ()
        if op.name == "func.call":
            _, results = self._signatures.get(op.handle.attributes["callee"].value, ([], []))
            return [Known.of(each) if each else None for each in results]
        if self.is_collective(op):
            known = self._known.get(op.operands[0]) if op.operands else None
            read = None if op.name == "mesh.done" else _step_of(op)
            if known is None or read is None:
                return [known]
            return [known.after(read[1]) if read[0] == known.grid else None]
        if not any(self.function.values[value].is_tensor for value in op.read):
            return [self._anyhow(value) for value in op.results]
        try:
            return self._computed(op)
        except ShardError:  # the rule does not allow these shardings
            return ()

    def _anyhow(self, value: int) -> Known | None:
        """A value of which each device may have any part."""
        shape = self.function.values[value].shape
        return None if shape is None else Known(self._grid, (None,) * len(shape))

    def _computed(self, op: Op) -> Sequence[Known | None]:
        """The known splits of the results of an op without collectives."""
        rule = self._kinds.kind_in(self.function.values, op).rule
        read = [
            self._known.get(value)
            for number, value in enumerate(op.operands)
            if rule is not None and number not in rule.inits and rule.operands[number] is not None
        ]
        inputs = [known for known in read if known is not None]
        if rule is None or len(inputs) != len(read) or not inputs or op.captures:
            return ()
        if len({known.grid for known in inputs}) > 1 or not _is_plain(rule, inputs):
            return ()
        axes_of = _axes_of_factors(rule, inputs)
        if axes_of is None:
            return ()
        grid = self.shardings.grid(inputs[0].grid)
        assignment = tuple(axes_of.get(factor) or () for factor in range(len(rule.sizes)))
        return [
            _known_result(rule.result_sharding(number, assignment, grid), dims, axes_of, inputs)
            for number, dims in enumerate(rule.results)
        ]


def _known_result(
    result: Sharding | None,
    dims: Dims | None,
    axes_of: Mapping[int, Axes | None],
    inputs: Sequence[Known],
) -> Known | None:
    if result is None or dims is None:
        return None
    split = tuple(axes_of.get(dim[0]) if dim else () for dim in dims)
    partial = {(each.partial, each.reduction) for each in inputs if each.partial}
    if not partial:
        return replace(Known.of(result), split_axes=split)
    if len(partial) > 1 or result.partial:
        return None
    return Known(result.grid, split, *partial.pop())


def _step_of(op: Op) -> tuple[str, LocalStep] | None:
    return read_local(op.name, op.handle.attributes)


def _with_insides(function: Function) -> list[Op]:
    """All ops, those with regions before the ops in them."""
    found: list[Op] = []

    def visit(ops: Sequence[Op]) -> None:
        for op in ops:
            found.append(op)
            for block in op.blocks:
                visit(block.ops)

    for block in function.blocks:
        visit(block.ops)
    return found


def _axes_of_factors(rule: ShardingRule, inputs: Sequence[Known]) -> dict[int, Axes | None] | None:
    """The axes that split each factor, `None` for any; nothing where operands disagree."""
    operands = [
        dims for number, dims in enumerate(rule.operands) if dims and number not in rule.inits
    ]
    axes_of: dict[int, Axes | None] = {}
    tensors = [known for known in inputs if known.split_axes]
    for dims, known in zip(operands, tensors, strict=True):
        for dim, axes in zip(dims, known.split_axes, strict=True):
            if dim and axes_of.setdefault(dim[0], axes) is None:
                axes_of[dim[0]] = axes
            elif dim and axes is not None and axes_of[dim[0]] != axes:
                return None
    for factor, axes in axes_of.items():
        if not (_passes(rule, factor) if axes else axes == () or factor not in rule.reduction_of):
            return None
    used = [axis for axes in axes_of.values() for axis in axes or ()]
    return axes_of if len(used) == len(set(used)) else None


def _passes(rule: ShardingRule, factor: int) -> bool:
    """Whether a split of the factor is one of the results, or makes them partial."""
    if factor in rule.need_replication | rule.permuted | rule.blocked:
        return False
    in_results = {each for dims in rule.results for dim in dims or () for each in dim}
    return factor in in_results or factor in rule.reduction_of


def _is_plain(rule: ShardingRule, inputs: Sequence[Known]) -> bool:
    """Whether each dimension is one factor, or no dimension is split: a merge tells no more."""
    tensors = [dims for dims in (*rule.operands, *rule.results) if dims is not None]
    if all(len(dim) == 1 for dims in tensors for dim in dims):
        return True
    return all(axes == () for known in inputs for axes in known.split_axes) and all(
        len(dim) <= 1 for dims in tensors for dim in dims
    )
