"""Read the target sharding of each value of a propagated function.

The target sharding is the one that the function's attributes have, except where it is uneven. If an
argument, a result or an annotation op of the function has an uneven sharding, its inferred uneven
shardings are kept too. In all other functions each split is reduced to the axes, or sub-axes, that
divide the dimension, and nothing is padded. If sub-axes are in use, the grid is refined for the
whole module (`model.grid_refinement`), so that no later pass has to handle sub-axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import boundary
from shard_dialect.ir.grids import write_cluster
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.attributes import SHARDING
from shard_dialect.ir.mesh.manual_computation import BOUNDARY_OPS, boundary_of
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import Block, Function, Op
from shard_dialect.ir.walk import body
from shard_dialect.model import Assignment, Grid, Sharding, ShardingRule
from shard_dialect.model.axis import Axis
from shard_dialect.model.grid_refinement import Refinement
from shard_dialect.model.sharding import Shape
from shard_dialect.passes.propagate.constraints import default_grid
from shard_dialect.passes.propagate.loop_shardings import bound_loops


@dataclass(frozen=True)
class Signature:
    """The shardings of a function's arguments and results; `None` for one that is not a tensor."""

    arguments: tuple[Sharding | None, ...]
    results: tuple[Sharding | None, ...]


@dataclass(frozen=True)
class TargetShardings:
    """The target shardings of one function's values and boundary, on one grid.

    `of` has the target sharding of each value, by number. `loops` returns the annotated split of an
    op's loops, or `None` if the op has none.
    """

    function: Function
    grid: Grid
    of: dict[int, Sharding]
    signature: Signature
    loops: Callable[[Op, ShardingRule], Assignment | None]
    fine: Refinement | None
    """The refinement whose grid `of` is on; `None` if the grid was not refined."""


def read_target_shardings(
    module: ir.Operation, functions: Sequence[Function], shardings: Shardings
) -> list[TargetShardings]:
    """The target shardings of each function; declares refined grids in `module`.

    Raises a located `ShardError` for a sharding that cannot be materialized yet.
    """
    readers = [_Reader(function, shardings) for function in functions]
    used: dict[str, set[Axis]] = {}
    for reader in readers:
        for sharding in reader.all():
            used.setdefault(sharding.grid, set()).update(sharding.axes)
    fine = {}
    for name, axes in used.items():
        first = next(reader for reader in readers if reader.grid.name == name)
        with located(first.function.handle):
            refinement = Refinement.of(shardings.grid(name), axes)
        if refinement is not None:
            fine[name] = refinement
            _declare(module, refinement.fine, shardings)
    return [reader.targets(fine.get(reader.grid.name)) for reader in readers]


def _declare(module: ir.Operation, grid: Grid, shardings: Shardings) -> None:
    if grid.name not in shardings.grids:
        shardings.grids[grid.name] = grid
        with ir.InsertionPoint.at_block_begin(body(module)), module.location:
            write_cluster(grid)


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
        self.boundaries: list[Sharding] = []
        """The annotated shardings of the manual boundaries."""
        for number, sharding in zip(function.arguments, self.signature.arguments, strict=True):
            if sharding is not None:
                self.of[number] = sharding
        for op in function.ops:
            with located(op.handle):
                self._read_annotation(op)
        self._read_blocks(function.handle, function.blocks[1:])
        for op in function.ops:
            with located(op.handle):
                self._read(op)
        self._check_grid()

    def all(self) -> list[Sharding]:
        results = [each for each in self.signature.results if each is not None]
        return [*self.of.values(), *self.boundaries, *results]

    def targets(self, fine: Refinement | None) -> TargetShardings:
        def refined(sharding: Sharding | None) -> Sharding | None:
            return fine.refined(sharding) if fine and sharding else sharding

        def loops(op: Op, rule: ShardingRule) -> Assignment | None:
            loop_axes = bound_loops(op.handle, rule, self.shardings, self.grid)
            return tuple(map(fine.refined_axes, loop_axes)) if fine and loop_axes else loop_axes

        of = {value: fine.refined(each) if fine else each for value, each in self.of.items()}
        signature = Signature(
            tuple(map(refined, self.signature.arguments)),
            tuple(map(refined, self.signature.results)),
        )
        return TargetShardings(
            self.function, fine.fine if fine else self.grid, of, signature, loops, fine
        )

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
            self.boundaries.append(boundary_of(op.handle, self.shardings).annotation.sharding)

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
        self.of[value] = (
            sharding if self.has_uneven_annotation else sharding.without_uneven_axes(shape, grid)
        )

    def _check_grid(self) -> None:
        """Raise unless all shardings are on one grid, whose devices are in the default order."""
        names = list(dict.fromkeys(sharding.grid for sharding in self.all()))
        if len(names) > 1:
            raise error_at(
                self.function.handle.location,
                f"function @{self.function.name} has tensors on grids @{names[0]} and "
                f"@{names[1]}: one grid a function is supported yet",
            )
        self.grid = self.shardings.grid(names[0]) if names else self.grid
        if self.grid.device_ids:
            raise error_at(
                self.function.handle.location,
                f"grid {self.grid} of function @{self.function.name} has its devices in an order "
                "of its own: that is not followed yet",
            )
