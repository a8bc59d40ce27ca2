"""The collectives of a program in the local form: bytes, seconds, and why they are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from shard_dialect.analysis.reasons.marks import collective_of, shown_in
from shard_dialect.analysis.reasons.why import Reason, Why
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import located, location_text
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.read_function import read_type
from shard_dialect.ir.reading.loop_trips import Runs, runs_in
from shard_dialect.ir.shard.local_collectives import LocalStep, read_local
from shard_dialect.model import AllSlice, Grid, Mask
from shard_dialect.model.devices.collective_time import seconds
from shard_dialect.model.devices.device_model import DeviceModel


@dataclass(frozen=True)
class Collective:
    """One collective of a program, for each device."""

    kind: str
    axes: tuple[str, ...]
    """The grid axes along which devices talk, by name if the grid has names."""
    group: int
    """The number of devices that talk to each other."""
    operand: str
    """The type of the operand on a device, as `2x4xf32`."""
    result: str
    bytes: int
    """The bytes that each device sends, all `times` together."""
    seconds: float
    """The time that it takes on the device model, all `times` together."""
    times: int
    """How often it runs; a loop counts once where that is not known."""
    open_loop: str | None
    """The place, or else the name, of a loop around it whose number of runs is not known."""
    location: str | None
    """The place of the op that wanted it."""
    why: tuple[Reason, ...]
    readers: tuple[Reason, ...]
    """The ops that share its result."""
    step: LocalStep
    grid: Grid
    shown: int | None = None
    """The number of the op of the graph from which it comes (`analysis.layers`)."""

    def as_json(self) -> dict[str, object]:
        """The fields of the JSON report."""
        return {
            "kind": self.kind,
            "axes": list(self.axes),
            "group": self.group,
            "operand": self.operand,
            "result": self.result,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "times": self.times,
            "open_loop": self.open_loop,
            "location": self.location,
            "why": [asdict(each) for each in self.why],
            "readers": [asdict(each) for each in self.readers],
        }


def read_collectives(
    module: ir.Operation, entry: str, reasons: Mapping[int, Why], device_model: DeviceModel
) -> Iterator[tuple[Collective, Why]]:
    """The collectives that `entry` calls, in the order of the text, also through callees."""
    functions = {name_of(op): op for op in functions_of(module)}
    grids = grids_of(module)
    for runs in _called(functions, Runs(functions[entry]), ()):
        op = runs.op
        with located(op):
            read = read_local(op.name, {name: op.attributes[name] for name in op.attributes})
        if read is None or isinstance(read[1], AllSlice | Mask):
            continue
        number = collective_of(op.location)
        why = reasons.get(number, Why(())) if number is not None else Why(())
        with located(op):
            yield _collective(runs, grids[read[0]], read[1], why, device_model), why


def _called(
    functions: Mapping[str, ir.Operation], called: Runs, callers: Sequence[str]
) -> Iterator[Runs]:
    """The ops of a function and of those that it calls, at each call of them."""
    name = name_of(called.op)
    for inner in runs_in(called.op):
        runs = Runs(inner.op, called.times * inner.times, called.open_loop or inner.open_loop)
        if inner.op.name != "func.call":
            yield runs
            continue
        callee = inner.op.attributes["callee"].value
        if callee in functions and callee not in callers:
            yield from _called(functions, replace(runs, op=functions[callee]), (*callers, name))


def _collective(
    runs: Runs, grid: Grid, step: LocalStep, why: Why, device_model: DeviceModel
) -> Collective:
    op, loop = runs.op, runs.open_loop
    source = op.operands[0].type
    result = op.results[0].type if len(op.results) else source
    group = grid.axes_size(step.axes)
    shape, itemsize = tuple(source.shape), read_type(source).itemsize
    place = location_text(op.location)
    written = Reason(f"'{op.name}' op is the program's own", place, annotation=True)
    return Collective(
        step.kind,
        grid.axes_names(step.axes),
        group,
        _shape_text(source),
        _shape_text(result),
        step.bytes_moved(group, shape, itemsize) * runs.times,
        seconds(step, grid, shape, itemsize, device_model) * runs.times,
        runs.times,
        (location_text(loop.location) or loop.name) if loop else None,
        place,
        why.steps or (written,),
        why.readers,
        step,
        grid,
        shown_in(op.location),
    )


def _shape_text(type_: ir.Type) -> str:
    sizes = [str(size) for size in type_.shape]
    return "x".join([*sizes, str(type_.element_type)])
