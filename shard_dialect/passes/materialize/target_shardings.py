"""Read the target sharding of each value of a propagated function.

The target sharding is the one that the function's attributes have, except where it is uneven. If an
argument, a result or an annotation op of the function has an uneven sharding, its inferred uneven
shardings are kept too. In all other functions each split is reduced to the axes, or sub-axes, that
divide the dimension, and nothing is padded.

If sub-axes or several grids are in use, the shardings are moved to as few refined grids as
possible (`model.grid_refinement`), for all functions that call each other. So no later pass has to
handle sub-axes, and reshards between grids are left only where no grid has the axes of both.

A tensor of a stage is not sharded along axes of which the stage has only a part. Propagation knows
no stages: where a constant is used by all devices and by a stage, say, it may have given a tensor
of the stage a split along an axis along which the stage has one index.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import boundary
from shard_dialect.ir.grids import sub_clusters_of, write_cluster
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.annotation_ops import BOUNDARY_OPS, boundary_of
from shard_dialect.ir.mesh.attributes import SHARDING, STAGES, symbol
from shard_dialect.ir.mesh.sharding_attributes import Shardings, stages_named
from shard_dialect.ir.numbered_function import LOOPS, Block, Function, Op
from shard_dialect.ir.reading.constants import trips_of
from shard_dialect.ir.walk import body
from shard_dialect.model import (
    Assignment,
    Axes,
    Axis,
    Grid,
    ManualBoundary,
    Sharding,
    ShardingRule,
    SubCluster,
)
from shard_dialect.model.grid import full_axis
from shard_dialect.model.grid_refinement import Refinement, Use, common_refinements
from shard_dialect.model.sharding import Shape
from shard_dialect.model.sub_cluster import Place
from shard_dialect.passes.propagate.constraints import bound_loops, default_grid
from shard_dialect.passes.stages.assign_stages import Stages


@dataclass(frozen=True)
class StageShardings:
    """The shardings that tensors of one function may have on its stages."""

    function: Function
    shardings: Shardings

    @cached_property
    def transfers(self) -> list[Op]:
        """The ops that pass a tensor from one stage to another."""
        return [op for op in self.function.ops if STAGES in op.handle.attributes]

    @cached_property
    def _sub_clusters(self) -> Mapping[str, SubCluster]:
        return sub_clusters_of(self.function.handle.parent)

    def grids(self) -> set[str]:
        """The names of the grids that transfers are on."""
        return {symbol(op.handle.attributes["cluster"]) for op in self.transfers}

    def place(self, stage: str, grid: Grid) -> Place:
        """Where a stage is on `grid`, or all devices are."""
        part = self._sub_clusters.get(stage)
        return Place(grid) if part is None else part.place(self.shardings.grid(part.of), grid)

    def places(self, transfer: Op, grid: Grid) -> tuple[Place, Place]:
        """Where the source and the target of a transfer are on `grid`."""
        names = stages_named(transfer.handle)
        assert names is not None, "a transfer names its stages"
        source, target = (self.place(name, grid) for name in names)
        return source, target

    def allowed(self, of: Mapping[int, Sharding]) -> dict[int, Sharding]:
        """The shardings `of` values, without axes that the values' stages have not all of."""
        if not self.transfers:
            return dict(of)
        parts = self._sub_clusters.values()
        whole = next(iter(parts)).of if parts else ""
        stages = Stages.settled(self.function, whole)
        allowed = {}
        for value, sharding in of.items():
            stage, grid = stages.of_value(value), self.shardings.grid(sharding.grid)
            # Of a constant, say, which several stages may use, no axis of a stage.
            is_shared = stage is None and not stages.is_bound(value)
            axes = grid.stage_axes if is_shared else self.place(stage or whole, grid).axes
            allowed[value] = without_axes(sharding, axes)
        return allowed


MOST_PADDING = 1.0
"""The most padding of an uneven dimension that nobody annotated, as a share of its elements.

A device computes no more of it than where fewer devices split it evenly: of nine rows, three of
twelve on four devices, where none divides nine. With more padding, most devices have nothing.
"""
_TURNS = 2
"""The turns of a loop where that is not known: it is there to run more than once."""


def turns_of(op: Op) -> int:
    """How often the blocks of an op run, each time that the op does."""
    trips = trips_of(op.handle) if op.name in LOOPS else 1
    return _TURNS if trips is None else trips


def without_axes(sharding: Sharding, axes: Collection[Axis]) -> Sharding:
    """The sharding without the (sub-)axes of `axes`.

    >>> str(without_axes(Sharding("g", ((0, 1), (2,))), {0}))
    '[[1], [2]]'
    """

    def kept(each: Axes) -> Axes:
        return tuple(axis for axis in each if full_axis(axis) not in axes)

    if not any(full_axis(axis) in axes for axis in sharding.axes):
        return sharding
    split, partial = tuple(map(kept, sharding.split_axes)), kept(sharding.partial)
    return replace(sharding, split_axes=split, partial=partial, halos=(), offsets=())


@dataclass(frozen=True)
class Signature:
    """The shardings of a function's arguments and results; `None` for one that is not a tensor."""

    arguments: tuple[Sharding | None, ...]
    results: tuple[Sharding | None, ...]


@dataclass(frozen=True)
class TargetShardings:
    """The target shardings of one function's values and boundary.

    `of` has the target sharding of each value, by number; `uneven` has what propagation inferred of
    those that are kept even, where little padding would be needed. `loops` returns the annotated
    split of an op's loops, or `None` if the op has none. `grid` is the grid of values without a
    sharding.
    """

    function: Function
    grid: Grid
    of: dict[int, Sharding]
    signature: Signature
    loops: Callable[[Op, ShardingRule], Assignment | None]
    refinement_of: Callable[[Grid], Refinement | None]
    """The refinement of a manual computation's or a transfer's grid; `None` if not refined."""
    stages: StageShardings
    uneven: Mapping[int, Sharding]

    def grid_of(self, op: Op) -> Grid:
        """The grid to compute on: that of its first result that is sharded, or else operand."""
        for value in (*op.results, *op.operands):
            sharding = self.of.get(value)
            if sharding is not None and sharding.axes:
                return self.stages.shardings.grid(sharding.grid)
        return self.grid


def read_target_shardings(
    module: ir.Operation, functions: Sequence[Function], shardings: Shardings
) -> list[TargetShardings]:
    """The target shardings of each function; declares refined grids in `module`.

    Raises a located `ShardError` for a sharding that cannot be materialized yet.
    """
    readers = [_Reader(function, shardings) for function in functions]
    refinements: dict[str, dict[Use, Refinement | None]] = {}
    for names in _called_together(functions):
        uses = [use for each in readers if each.function.name in names for use in each.uses()]
        common = common_refinements(uses, shardings.grids.values())
        refinements |= dict.fromkeys(names, common)
        for refinement in common.values():
            if refinement is not None:
                _declare(module, refinement.fine, shardings)
    return [reader.targets(refinements[reader.function.name]) for reader in readers]


def _called_together(functions: Sequence[Function]) -> list[set[str]]:
    """The names of functions, those together that call each other, directly or not."""
    parts: list[set[str]] = []
    for function in functions:
        called = {function.name}
        for op in function.ops:
            if op.name == "func.call":
                called.add(op.handle.attributes["callee"].value)
        joined = [part for part in parts if not part.isdisjoint(called)]
        parts = [part for part in parts if part.isdisjoint(called)]
        parts.append(called.union(*joined))
    return parts


def _declare(module: ir.Operation, grid: Grid, shardings: Shardings) -> None:
    known = shardings.grids.get(grid.name, grid)
    if (known.shape, known.device_ids) != (grid.shape, grid.device_ids):
        raise ShardError(f"needs a grid {grid}, and the module has {known}: give that another name")
    if grid.name not in shardings.grids:
        shardings.grids[grid.name] = grid
        with ir.InsertionPoint.at_block_begin(body(module)), module.location:
            write_cluster(grid)


def _every_axis(grid: Grid) -> Use:
    return grid, tuple(range(grid.rank))


class _Reader:
    def __init__(self, function: Function, shardings: Shardings) -> None:
        self.function = function
        self.shardings = shardings
        self.grid = default_grid(function, shardings)
        self.has_uneven_annotation = False
        with located(function.handle):
            self.signature = Signature(
                self._read_boundary("arg_attrs"), self._read_boundary("res_attrs")
            )
        self.of: dict[int, Sharding] = {}
        self.uneven: dict[int, Sharding] = {}
        self.boundaries: list[ManualBoundary] = []
        self.manual_grids: list[Grid] = []
        """The grids of manual computations, of which some have no boundary."""
        self.loop_uses: dict[int, Use] = {}
        """The grid and the axes of each op with annotated loops, by the op's id."""
        for number, sharding in zip(function.arguments, self.signature.arguments, strict=True):
            if sharding is not None:
                self.of[number] = sharding
        # All annotations are read before any target: the first uneven one lets all targets be
        # uneven.
        for op in function.ops:
            with located(op.handle):
                self._read_annotation(op)
        self._read_blocks(function.handle, function.blocks[1:])
        for op in function.ops:
            with located(op.handle):
                self._read(op)
        self._take_asked_for()
        self.stages = StageShardings(function, shardings)
        self.of = self.stages.allowed(self.of)
        self._check_grids()

    def uses(self) -> list[Use]:
        """The grids of the function's shardings, with the axes that each sharding uses."""
        return [
            *map(self._use, self.of.values()),
            *map(self._use, self.uneven.values()),
            *(self._use(each) for each in self._at_boundary() if each is not None),
            *(self._use(each.annotation.sharding) for each in self.boundaries),
            *map(_every_axis, self.manual_grids),
            *self.loop_uses.values(),
            *(_every_axis(self.shardings.grid(name)) for name in self.stages.grids()),
            (self.grid, ()),
        ]

    def _at_boundary(self) -> tuple[Sharding | None, ...]:
        """Of arguments too: a caller may hand over what the stage of the value has not all of."""
        return (*self.signature.arguments, *self.signature.results)

    def targets(self, refinements: dict[Use, Refinement | None]) -> TargetShardings:
        def refined(sharding: Sharding | None) -> Sharding | None:
            refinement = None if sharding is None else refinements[self._use(sharding)]
            return sharding if sharding is None or not refinement else refinement.refined(sharding)

        def loops(op: Op, rule: ShardingRule) -> Assignment | None:
            use = self.loop_uses.get(id(op))
            if use is None:
                return None
            loop_axes = bound_loops(op.handle, rule, self.shardings, use[0])
            refinement = refinements[use]
            if loop_axes is None or refinement is None:
                return loop_axes
            return tuple(map(refinement.refined_axes, loop_axes))

        of, uneven = (
            {value: refined(each) or each for value, each in shardings.items()}
            for shardings in (self.of, self.uneven)
        )
        signature = Signature(
            tuple(map(refined, self.signature.arguments)),
            tuple(map(refined, self.signature.results)),
        )
        for each in self.boundaries:
            fine = [refinements[self._use(each.annotation.sharding)]]
            if refinements[_every_axis(each.grid)] not in fine:
                raise error_at(
                    self.function.handle.location,
                    f"function {as_symbol(self.function.name)} has a manual computation on "
                    f"{each.grid} with a tensor sharded as {each.annotation}, whose sub-axes "
                    "cross others",
                )
        refinement = refinements[self.grid, ()]
        return TargetShardings(
            self.function,
            refinement.fine if refinement else self.grid,
            of,
            signature,
            loops,
            lambda grid: refinements[_every_axis(grid)],
            self.stages,
            uneven,
        )

    def _use(self, sharding: Sharding) -> Use:
        return self.shardings.grid(sharding.grid), sharding.axes

    def _read_boundary(self, key: str) -> tuple[Sharding | None, ...]:
        """The annotated shardings of the boundary, unchanged, because callers rely on them."""
        type_ = self.function.handle.attributes["function_type"].value
        types = type_.inputs if key == "arg_attrs" else type_.results
        annotations = []
        for entry, each in zip(boundary(self.function.handle, key), types, strict=True):
            sharding = None
            if SHARDING in entry and isinstance(each, ir.RankedTensorType):
                sharding = self.shardings.read_annotation(entry[SHARDING], each.rank).sharding
                if each.has_static_shape:
                    sharding = self._checked(sharding, tuple(each.shape))
            annotations.append(sharding)
        return tuple(annotations)

    def _read_annotation(self, op: Op) -> None:
        annotated = annotation_ops.read_annotation(op.handle, self.shardings)
        shape = self.function.values[op.operands[0]].shape if annotated else None
        if annotated is not None and shape is not None:
            self._checked(annotated.annotation.sharding, shape)

    def _checked(self, sharding: Sharding, shape: Shape) -> Sharding:
        """The annotated sharding without redundant offsets; notes whether it is uneven."""
        sharding.check_sizes_known()
        grid = self.shardings.grid(sharding.grid)
        sharding = sharding.without_needless_offsets(shape, grid)
        self.has_uneven_annotation |= sharding.uneven_dim(shape, grid) is not None
        return sharding

    def _read(self, op: Op) -> None:
        for number, annotation in self.shardings.of_results(op.handle).items():
            self._set_target(op.results[number], annotation.sharding)
        self._read_blocks(op.handle, op.blocks)
        if op.name in BOUNDARY_OPS:
            self.boundaries.append(boundary_of(op.handle, self.shardings))
            self.manual_grids.append(self.boundaries[-1].grid)
        if annotation_ops.is_manual(op.handle):
            self.manual_grids.append(annotation_ops.grid_of(op.handle, self.shardings))
        loops = annotation_ops.read_loops(op.handle, self.shardings)
        if loops is not None:
            name, axes = loops
            used = tuple(axis for each in axes for axis in each)
            self.loop_uses[id(op)] = self.shardings.grid(name), used

    def _read_blocks(self, handle: ir.Operation, blocks: Sequence[Block]) -> None:
        for block, by_argument in zip(blocks, self.shardings.of_blocks(handle), strict=False):
            for number, each in by_argument.items():
                self._set_target(block.arguments[number], each.sharding)

    def _set_target(self, value: int, sharding: Sharding) -> None:
        shape = self.function.values[value].shape
        if shape is None:
            return
        sharding.check_sizes_known()
        grid = self.shardings.grid(sharding.grid)
        sharding = sharding.without_needless_offsets(shape, grid)
        if self.has_uneven_annotation:
            self.of[value] = sharding
            return
        even = self.of[value] = sharding.without_uneven_axes(shape, grid)
        padded = sharding.without_uneven_axes(shape, grid, MOST_PADDING)
        if padded != even:
            self.uneven[value] = padded

    def _take_asked_for(self) -> None:
        """Let results that an annotation splits unevenly be made so, where that goes further.

        Propagation takes of such a split what devices divide: `[[0, 1]]` of two rows on four
        devices reaches the op that makes these rows as `[[0]]`.
        """
        for end in self.function.returns:
            for value, asked in zip(end.operands, self.signature.results, strict=True):
                made, shape = self.of.get(value), self.function.values[value].shape
                if asked is None or asked.partial or made is None or shape is None:
                    continue
                if asked.grid != made.grid or value in self.function.arguments:
                    continue
                grid = self.shardings.grid(asked.grid)
                if asked.bare.without_uneven_axes(shape, grid) == made:
                    self.of[value] = asked

    def _check_grids(self) -> None:
        """Raise unless all shardings are on grids of as many devices."""
        names = list(dict.fromkeys(sharding.grid for sharding in self.of.values()))
        names += [each.grid for each in self.signature.results if each and each.grid not in names]
        self.grid = self.shardings.grid(names[0]) if names else self.grid
        for name in names[1:]:
            grid = self.shardings.grid(name)
            if grid.size != self.grid.size:
                raise error_at(
                    self.function.handle.location,
                    f"function {as_symbol(self.function.name)} has tensors on {self.grid} and on "
                    f"{grid}: expected grids of as many devices",
                )
