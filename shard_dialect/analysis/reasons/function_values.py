"""The values of a distributed function, with what propagation knew of them."""

from __future__ import annotations

from collections.abc import Iterator

from shard_dialect.analysis.reasons.marks import mark_of
from shard_dialect.analysis.reasons.why import Reason
from shard_dialect.collectives.collective_table import LOCAL
from shard_dialect.ir.diagnostics import location_text, name_in
from shard_dialect.ir.mesh.mesh_collectives import read_collective
from shard_dialect.ir.mesh.mesh_dialect import COLLECTIVES
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import Function, Op
from shard_dialect.model import Axes, Axis, Grid, Sharding
from shard_dialect.model.grid import overlap
from shard_dialect.passes.propagate.origins import Origins
from shard_dialect.propagation.graph import NO_TENSOR

_COLLECTIVES = (*COLLECTIVES, "mesh.start", "mesh.done")
"""Those of the distributed form, and those of the local one."""


class FunctionValues:
    """The values of one distributed function: where they are made and read, and their origins."""

    def __init__(self, function: Function, shardings: Shardings, origins: Origins | None) -> None:
        self.function = function
        self.shardings = shardings
        self.origins = origins
        self.maker = {value: op for op in function.ops for value in op.results}
        self.readers: dict[int, list[Op]] = {}
        for op in function.ops:
            for value in dict.fromkeys(op.read):
                self.readers.setdefault(value, []).append(op)
        self._block_arguments = {
            value: (op, block, number)
            for op in function.ops
            for block, each in enumerate(op.blocks)
            for number, value in enumerate(each.arguments)
        }
        names = [each.name for each in origins.graph.functions] if origins else []
        self._index = names.index(function.name) if function.name in names else None

    def is_collective(self, op: Op) -> bool:
        """Whether an op changes the sharding of a value, and nothing else."""
        return op.name in _COLLECTIVES or op.name in LOCAL

    def collective(self, op: Op) -> tuple[str, Axes]:
        """The grid of a collective, and its axes."""
        read = read_collective(op.handle)
        axes = dict.fromkeys(axis for step in read.steps for axis in step.axes)
        return read.source.grid, tuple(axes)

    def as_text(self, sharding: Sharding | None) -> str:
        """A sharding after a verb: ` as [[0], []]`."""
        return f" as {self.text(sharding) if sharding else 'replicated'}"

    def in_type(self, number: int) -> Reason | None:
        """The sharding in an argument's type, where nothing was propagated; `None` without one."""
        argument = self.function.handle.regions[0].blocks[0].arguments[number]
        sharding = self.sharding(self.function.arguments[number])
        shown = self.text(sharding) if sharding else "replicated"
        text = f"{self.argument_text(number)} is annotated {shown} by its type"
        return Reason(text, location_text(argument.location), annotation=True)

    def returned(self, number: int) -> Reason | None:
        """The sharding in a result's type, where nothing was propagated; `None` if it has none."""
        (end,) = self.function.returns[:1]
        sharding = self.sharding(end.operands[number])
        if sharding is None:
            return None
        text = f"result {number} is annotated {self.text(sharding)} by its type"
        return Reason(text, location_text(end.location), annotation=True)

    def sharding(self, value: int) -> Sharding | None:
        """The sharding in the value's type."""
        return self.shardings.of_type(self.function.values[value].kind.type)

    def original(self, op: Op) -> tuple[int, Op] | None:
        """The op of the propagated form from which `op` is made, after its function's index."""
        mark = mark_of(op.location)
        if self.origins is None or mark is None:
            return None
        original = self.origins.graph.functions[mark.function].ops[mark.op]
        is_same = original.name == op.name and len(original.results) == len(op.results)
        return (mark.function, original) if is_same else None

    def graph_value(self, value: int) -> int:
        """The number that propagation's graph has for a value; `NO_TENSOR` if it has none."""
        found = self._propagated(value)
        if found is None or self.origins is None:
            return NO_TENSOR
        return self.origins.graph.number_of(*found)

    def _propagated(self, value: int) -> tuple[int, int] | None:
        if value in self.function.arguments:
            if self._index is None or self.origins is None:
                return None
            arguments = self.origins.graph.functions[self._index].arguments
            number = self.function.arguments.index(value)
            return (self._index, arguments[number]) if number < len(arguments) else None
        if value in self._block_arguments:
            op, block, number = self._block_arguments[value]
            original = self.original(op)
            if original is None or len(original[1].blocks) != len(op.blocks):
                return None
            arguments = original[1].blocks[block].arguments
            return (original[0], arguments[number]) if number < len(arguments) else None
        if value not in self.maker:  # an argument of a later block of the function
            return None
        op = self.maker[value]
        original = self.original(op)
        if original is None:
            return None
        return original[0], original[1].results[op.results.index(value)]

    def known(self, number: int) -> Sharding | None:
        """The sharding that propagation gave a value of its graph."""
        if number == NO_TENSOR or self.origins is None:
            return None
        annotation = self.origins.engine.known(number)
        return annotation.sharding if annotation is not None else None

    def same_axis(
        self, sharding: Sharding | None, known: Sharding | None, axis: Axis
    ) -> Axis | None:
        """The axis as propagation knows it; `None` where the grid was refined since."""
        return axis if sharding and known and sharding.grid == known.grid else None

    def text(self, sharding: Sharding) -> str:
        """A sharding with the names of the grid's axes."""
        return sharding_text(sharding, self.shardings.grid(sharding.grid))

    def argument_text(self, number: int) -> str:
        """An argument of the function, with the name that a framework has given it."""
        block = self.function.handle.regions[0].blocks[0]
        name = name_in(block.arguments[number].location)
        return f"argument {number}, {name}," if name else f"argument {number}"

    def axes_text(self, axes: Axes, sharding: Sharding) -> str:
        """Axes by their names in the sharding's grid."""
        return self.shardings.grid(sharding.grid).axes_text(axes)

    def made_as(self, value: int) -> int:
        """The value that collectives have turned into `value`."""
        while value in self.maker and self.is_collective(self.maker[value]):
            value = self.maker[value].operands[0]
        return value

    def read_by(self, value: int) -> Iterator[Op]:
        """The ops that read `value`, also after further collectives."""
        for op in self.readers.get(value, ()):
            if self.is_collective(op):
                yield from self.read_by(op.results[0])
            else:
                yield op


_PARTIAL = {
    "sum": ("partial sums", "sums"),
    "average": ("partial averages", "averages"),
    "product": ("partial products", "multiplies"),
    "max": ("partial maxima", "takes the maximum"),
    "min": ("partial minima", "takes the minimum"),
}
"""For reductions: what devices have before it, and what an op does that leaves this."""


def sharding_text(sharding: Sharding, grid: Grid) -> str:
    """A sharding with the names of its grid's axes: `[["data"], []]`."""
    split = ", ".join(grid.axes_text(axes) for axes in sharding.split_axes)
    text = f"[{split}]"
    for dim in range(sharding.rank):
        low, high = sharding.halo(dim)
        text += f", halo of {low} and {high} in dimension {dim}" if low or high else ""
    if sharding.partial:
        text += f", {partial_results(sharding)} along {grid.axes_text(sharding.partial)}"
    return text


def partial_results(sharding: Sharding) -> str:
    """The shards of a partial tensor, in words: `partial sums`."""
    return _PARTIAL.get(sharding.reduction, (f"partial results of {sharding.reduction}", ""))[0]


def reducing(sharding: Sharding) -> str:
    """The verb of an op that makes a tensor partial: it `sums`, or `takes the maximum`."""
    return _PARTIAL.get(sharding.reduction, ("", f"reduces by {sharding.reduction}"))[1]


def dim_along(sharding: Sharding | None, axis: Axis) -> int | None:
    """The dimension that is split along an axis, or a part of it."""
    for dim, axes in enumerate(sharding.split_axes if sharding else ()):
        if any(overlap(axis, each) for each in axes):
            return dim
    return None


def is_known(sharding: Sharding | None, propagated: Sharding | None, axis: Axis, dim: int) -> bool:
    """Whether propagation has split a dimension along an axis of a sharding.

    Materialization may have refined the grid, and then the axes have other numbers.
    """
    if sharding is None or propagated is None:
        return False
    if sharding.grid != propagated.grid:
        return bool(propagated.split_axes[dim])
    return dim_along(propagated, axis) == dim


def at(text: str, op: Op) -> Reason:
    """A reason with the place of an op."""
    return Reason(text, location_text(op.location))
