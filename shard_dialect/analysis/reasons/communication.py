"""The collectives of a program, in the local and in the lowered form: bytes, seconds, reasons.

In the local form a reason leads back to annotations. In the lowered form buffers have no shardings,
so a reason tells only which op makes the operand, and which one takes the result, at the places of
the file's locations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from shard_dialect.analysis.costs.local_ops import Block, LocalProgram, Op
from shard_dialect.analysis.costs.lowered_ops import LocalTypes
from shard_dialect.analysis.layers import scope_of
from shard_dialect.analysis.reasons.marks import collectives_of, shown_in
from shard_dialect.analysis.reasons.why import Reason, Why
from shard_dialect.collectives import LocalStep
from shard_dialect.collectives.collective_time import seconds
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import located, location_text
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.numbered_function import read_type
from shard_dialect.ir.reading.constants import Runs, runs_in
from shard_dialect.ir.shard.local_collectives import read_local
from shard_dialect.model import Grid
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
    layer: str | None
    """The layer of that op, as a framework names it: `decoder/layers.0/mlp`."""
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
            "layer": self.layer,
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
            read = read_local(op.name, op.attributes)
        if read is None or not read[1].communicates:
            continue
        numbers = collectives_of(op.location)
        why = Why.of_bundle([reasons.get(each, Why(())) for each in numbers] or [Why(())])
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
        "/".join(scope_of(op.location)) or None,
        why.steps or (written,),
        why.readers,
        step,
        grid,
        shown_in(op.location),
    )


def _shape_text(type_: ir.Type) -> str:
    sizes = [str(size) for size in type_.shape]
    return "x".join([*sizes, str(type_.element_type)])


def lowered_collectives(
    program: LocalProgram, types: LocalTypes, device_model: DeviceModel
) -> Iterator[Collective]:
    """The collectives that the entry performs, in the order of the text, also through callees."""
    for block, place, times, open_loop in _performed(program.entry.blocks, 1, None):
        yield _lowered_collective(block, place, times, open_loop, types, device_model)


def _performed(
    blocks: Sequence[Block], times: int, open_loop: str | None
) -> Iterator[tuple[Block, int, int, str | None]]:
    """The block of each collective, its place there, how often it runs, and an open loop."""
    for block in blocks:
        for place, op in enumerate(block.ops):
            if op.step is not None and op.step.communicates and op.name != "mesh.done":
                yield block, place, times, open_loop
            inner = open_loop if op.trips is not None else (op.location or op.name)
            trips = 1 if op.trips is None else op.trips
            yield from _performed(op.blocks, times * trips, inner)
            if op.callee is not None:
                yield from _performed(op.callee.blocks, times, open_loop)


def _lowered_collective(
    block: Block,
    place: int,
    times: int,
    open_loop: str | None,
    types: LocalTypes,
    model: DeviceModel,
) -> Collective:
    op = block.ops[place]
    step, grid, source = op.step, op.grid, op.operands[0].tensor
    assert step is not None, "it is a collective"
    assert grid is not None, "it is a collective"
    assert source is not None, "it has a buffer of known size"
    group = grid.axes_size(step.axes)
    readers = tuple(_readers(block, place))
    buffers = str(source), str(_done(block, op).results[0].tensor)
    operand, result = types.get(id(op), buffers)
    return Collective(
        step.kind,
        grid.axes_names(step.axes),
        group,
        operand,
        result,
        step.bytes_moved(group, source.shape, source.itemsize) * times,
        seconds(step, grid, source.shape, source.itemsize, model) * times,
        times,
        open_loop,
        op.location,
        None,
        (_meeting(block, place, readers),),
        readers,
        step,
        grid,
    )


def _done(block: Block, op: Op) -> Op:
    """The end of a collective that is split in two; else the op itself."""
    if op.name != "mesh.start":
        return op
    handle = op.results[0].number
    ends = (e for e in block.ops if e.name == "mesh.done" and e.operands[0].number == handle)
    return next(ends, op)


def _meeting(block: Block, place: int, readers: Sequence[Reason]) -> Reason:
    operand = block.ops[place].operands[0]
    before = (each for each in reversed(block.ops[:place]) if _writes(each, operand.number))
    maker = next(before, None)
    what = f"'{maker.name}' op makes the value" if maker else f"{operand.name} comes"
    taken = f", {readers[0].text.removesuffix(' reads it')} takes it" if readers else ""
    return Reason(f"{what}{taken}", readers[0].location if readers else block.ops[place].location)


def _writes(op: Op, number: int) -> bool:
    return op.name != "memref.alloc" and any(each.number == number for each in op.results)


def _readers(block: Block, place: int) -> Iterator[Reason]:
    """The ops that read the result before anything else is written there."""
    op = block.ops[place]
    done = _done(block, op)
    result = done.results[0].number
    after = next((n for n, each in enumerate(block.ops) if each is done), place)
    for each in block.ops[after + 1 :]:
        if any(value.number == result for value in each.reads):
            yield Reason(f"'{each.name}' op reads it", each.location)
        if _writes(each, result):
            return
