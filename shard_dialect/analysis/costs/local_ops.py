"""A program in the local form as plain Python: what the analyses of memory, compute and time read.

    %0 = stablehlo.dot_general %x, %w ...     Op("stablehlo.dot_general", operands=(%x, %w), ...)
    %1 = shard.all_reduce %0 on @grid ...     Op("shard.all_reduce", ..., step=AllReduce((0,)), ...)

Loops have their body as blocks, and how often it runs where that is known; calls lead to the
function that is called. Nothing here refers to the IR.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod

from shard_dialect.collectives import LocalStep
from shard_dialect.ir.numbered_function import LOOPS
from shard_dialect.model import Grid, Sharding
from shard_dialect.model.sharding import Shape
from shard_dialect.ops.operations import Flops, TensorInfo


@dataclass(frozen=True, slots=True)
class Value:
    """A value of one device: `tensor` is `None` for a scalar, which no analysis counts."""

    number: int
    name: str
    """As `%all_gather` or `%3` in the printed function."""
    tensor: TensorInfo | None

    @property
    def bytes(self) -> int:
        """The bytes of a tensor; 0 for a scalar."""
        return self.tensor.bytes if self.tensor else 0


@dataclass(frozen=True)
class Block:
    """A block: the values of its arguments, and its ops in order."""

    arguments: tuple[Value, ...]
    ops: tuple[Op, ...]


@dataclass(frozen=True)
class Op:
    """An op of one device's program.

    `captured` are the values that regions without blocks here read from outside. `trips` is how
    often the blocks of a loop run: 1 for other ops, `None` where it is not known. A collective has
    its `step` and `grid`; both halves of one that is split have them.
    """

    name: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    location: str | None
    flops: Flops | None = None
    """The arithmetic of one run, without that of its blocks; `None` where nothing is known."""
    is_splat: bool = False
    """Whether it is a constant of one repeated element."""
    captured: tuple[Value, ...] = ()
    blocks: tuple[Block, ...] = ()
    trips: int | None = 1
    callee: Function | None = None
    step: LocalStep | None = None
    grid: Grid | None = None
    position: tuple[int, int] | None = None
    """Of a branch by the position of the device: which of the program's numbers for positions it
    compares, and to what; its first block is for devices where they are equal, as for a stage."""
    shown: int | None = None
    """The number of the op of the graph from which it comes (`analysis.layers`)."""

    @property
    def reads(self) -> tuple[Value, ...]:
        """The operands, and what regions capture."""
        return self.operands + self.captured

    @property
    def is_loop(self) -> bool:
        """Whether the blocks run repeatedly."""
        return self.name in LOOPS


@dataclass(frozen=True)
class BoundaryInfo:
    """An argument or a result: its local type, and the global shape and sharding where known."""

    tensor: TensorInfo | None
    global_shape: Shape | None
    sharding: Sharding | None
    donated: bool
    """Whether a result may take the argument's memory: by `tf.aliasing_output` or
    `jax.buffer_donor`."""
    location: str | None
    aliases: int | None = None
    """The result that takes the argument's memory, if the program names one."""


@dataclass(frozen=True)
class Function:
    """A function of one device's program, with its values by number."""

    name: str
    blocks: tuple[Block, ...]
    arguments: tuple[BoundaryInfo, ...]
    results: tuple[BoundaryInfo, ...]

    @cached_property
    def body(self) -> Block:
        """The first block."""
        return self.blocks[0]

    @cached_property
    def returned(self) -> tuple[Value, ...]:
        """What the function returns, in whichever of its blocks; an endless one, nothing."""
        ends = (block.ops[-1] for block in self.blocks)
        return next((end.operands for end in ends if end.name == "func.return"), ())

    def walk(self) -> Iterator[Op]:
        """All ops, each before those inside it, callees left out."""

        def inside(blocks: tuple[Block, ...]) -> Iterator[Op]:
            for block in blocks:
                for op in block.ops:
                    yield op
                    yield from inside(op.blocks)

        return inside(self.blocks)


@dataclass(frozen=True)
class LocalProgram:
    """The function that each device runs, and the grids of the module."""

    entry: Function
    grids: Mapping[str, Grid]
    positions: int = 1
    """The number of positions, with as many devices each, for one of which this is the program."""

    @property
    def devices(self) -> int:
        """The number of devices of the largest grid; 1 without grids."""
        return max((grid.size for grid in self.grids.values() if grid.is_static), default=1)

    def by_position(self) -> list[LocalProgram]:
        """What the devices at each position run: of branches by position, their own block alone.

        A program without such branches is its own; so is one with more positions than are worth it.
        """
        found: dict[int, set[int]] = {}
        for op, _, _ in self.walk():
            if op.position is not None:
                found.setdefault(op.position[0], set()).add(op.position[1])
        count = prod(map(len, found.values()))
        if not found or count > _MOST_POSITIONS:
            return [self]
        return [
            replace(
                self,
                entry=replace(
                    self.entry, blocks=_at(self.entry.blocks, dict(zip(found, each, strict=True)))
                ),
                positions=count,
            )
            for each in product(*map(sorted, found.values()))
        ]

    def walk(self, *, most: bool = False) -> Iterator[tuple[Op, int, bool]]:
        """Each op that the entry runs, how often, and whether that is known; calls are followed.

        A loop whose number of trips is not known counts once. All branches count, or with `most`
        of each op the branch alone with the most arithmetic.
        """
        return _walk(self.entry.blocks, 1, True, most)


_MOST_POSITIONS = 256
"""The most positions whose programs are looked at one by one."""


def _at(blocks: tuple[Block, ...], position: Mapping[int, int]) -> tuple[Block, ...]:
    """The blocks, with the block alone of each branch that devices at a position take."""

    def own(op: Op) -> Op:
        blocks = op.blocks
        if op.position is not None:
            number, expected = op.position
            blocks = blocks[:1] if position[number] == expected else blocks[1:]
        return replace(op, blocks=_at(blocks, position)) if blocks else op

    return tuple(Block(each.arguments, tuple(map(own, each.ops))) for each in blocks)


def _walk(
    blocks: tuple[Block, ...], times: int, known: bool, most: bool
) -> Iterator[tuple[Op, int, bool]]:
    for block in blocks:
        for op in block.ops:
            yield op, times, known
            inside = times * (1 if op.trips is None else op.trips)
            inner = op.blocks
            if most and len(inner) > 1 and not op.is_loop:
                inner = (max(inner, key=_arithmetic),)
            yield from _walk(inner, inside, known and op.trips is not None, most)
            if op.callee:
                yield from _walk(op.callee.blocks, times, known, most)


def _arithmetic(block: Block) -> int:
    """The operations of a block, run once."""
    runs = _walk((block,), 1, True, True)
    return sum(op.flops.total * times for op, times, _ in runs if op.flops is not None)
