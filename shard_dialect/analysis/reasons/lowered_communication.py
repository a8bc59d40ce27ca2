"""The collectives of a program in the lowered form, and what is beside them.

Buffers have no shardings, so a why tells only which op makes the operand, and which one takes the
result, at the places that the locations of the file say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shard_dialect.analysis.costs.local_ops import Block, LocalProgram, Op
from shard_dialect.analysis.costs.lowered_ops import LocalTypes
from shard_dialect.analysis.reasons.communication import Collective
from shard_dialect.analysis.reasons.why import Reason
from shard_dialect.model import AllSlice, Mask
from shard_dialect.model.devices.collective_time import seconds
from shard_dialect.model.devices.device_model import DeviceModel


def lowered_collectives(
    program: LocalProgram, types: LocalTypes, device_model: DeviceModel
) -> Iterator[Collective]:
    """The collectives that the entry performs, in the order of the text, also through callees."""
    for block, place, times, open_loop in _performed(program.entry.blocks, 1, None):
        yield _collective(block, place, times, open_loop, types, device_model)


def _performed(
    blocks: Sequence[Block], times: int, open_loop: str | None
) -> Iterator[tuple[Block, int, int, str | None]]:
    """The block of each collective, its place there, how often it runs, and an open loop."""
    for block in blocks:
        for place, op in enumerate(block.ops):
            is_local = op.step is None or isinstance(op.step, AllSlice | Mask)
            if not is_local and op.name != "mesh.done":
                yield block, place, times, open_loop
            inner = open_loop if op.trips is not None else (op.location or op.name)
            trips = 1 if op.trips is None else op.trips
            yield from _performed(op.blocks, times * trips, inner)
            if op.callee is not None:
                yield from _performed(op.callee.blocks, times, open_loop)


def _collective(
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
