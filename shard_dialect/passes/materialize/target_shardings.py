"""What materialization is to bring about: how each value of a propagated function is to lie.

As it is written, but for splits that do not divide their dimension. Where an argument, a result or
an annotation op of the function says such a split, its inferred ones stay as well; in all other
functions they are taken as far as they divide, and nothing is padded. Where sub-axes are in use the
grid is refined (`model.refinement`), for the whole module, so that nothing after this pass knows of
them.
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
from shard_dialect.ir.mesh.manual_computation import EDGES, boundary_of
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered import Block, Function, Op
from shard_dialect.ir.walk import body
from shard_dialect.model import Assignment, Grid, Sharding, ShardingRule
from shard_dialect.model.axis import Axis
from shard_dialect.model.refinement import Refinement
from shard_dialect.model.sharding import Shape
from shard_dialect.passes.propagate.constraints import default_grid, refuse_unknown_shards
from shard_dialect.passes.propagate.loop_shardings import bound_loops


@dataclass(frozen=True)
class Signature:
    """The shardings of a function's arguments and results, `None` for what is no tensor."""

    arguments: tuple[Sharding | None, ...]
    results: tuple[Sharding | None, ...]


@dataclass(frozen=True)
class TargetShardings:
    """One function: the sharding of each of its values, on one grid, that of its boundary, and how
    ops say that their loops are split.
    """

    function: Function
    grid: Grid
    of: dict[int, Sharding]
    signature: Signature
    loops: Callable[[Op, ShardingRule], Assignment | None]
    fine: Refinement | None
    """The finer grid that `of` is on, if it is one."""


def read_target_shardings(
    module: ir.Operation, functions: Sequence[Function], shardings: Shardings
) -> list[TargetShardings]:
    """For each function; raises a located `ShardError` for what cannot be brought about yet."""
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
    return [reader.wanted(fine.get(reader.grid.name)) for reader in readers]


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
        self.says_uneven = False
        with located(function.handle):
            self.signature = Signature(self._said("arg_attrs"), self._said("res_attrs"))
        self.of: dict[int, Sharding] = {}
        self.edges: list[Sharding] = []
        """Of what goes in and out of manual computations, as is said there."""
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
        return [*self.of.values(), *self.edges, *results]

    def wanted(self, fine: Refinement | None) -> TargetShardings:
        def refined(sharding: Sharding | None) -> Sharding | None:
            return fine.refined(sharding) if fine and sharding else sharding

        def loops(op: Op, rule: ShardingRule) -> Assignment | None:
            found = bound_loops(op.handle, rule, self.shardings, self.grid)
            return tuple(map(fine.refined_axes, found)) if fine and found else found

        of = {value: fine.refined(each) if fine else each for value, each in self.of.items()}
        signature = Signature(
            tuple(map(refined, self.signature.arguments)),
            tuple(map(refined, self.signature.results)),
        )
        return TargetShardings(
            self.function, fine.fine if fine else self.grid, of, signature, loops, fine
        )

    def _said(self, key: str) -> tuple[Sharding | None, ...]:
        """The boundary must be as it is written: callers rely on it."""
        type_ = self.function.handle.attributes["function_type"].value
        types = type_.inputs if key == "arg_attrs" else type_.results
        found = []
        for entry, each in zip(boundary(self.function.handle, key), types, strict=True):
            sharding = None
            if SHARDING in entry and isinstance(each, ir.RankedTensorType):
                sharding = self.shardings.read_annotation(entry[SHARDING], each.rank).sharding
                if each.has_static_shape:
                    sharding = self._note(sharding, tuple(each.shape))
            found.append(sharding)
        return tuple(found)

    def _read_annotation(self, op: Op) -> None:
        annotated = annotation_ops.read_annotation(op.handle, self.shardings)
        shape = self.function.values[op.operands[0]].shape if annotated else None
        if annotated is not None and shape is not None:
            self._note(annotated.said.sharding, shape)

    def _note(self, sharding: Sharding, shape: Shape) -> Sharding:
        """Note whether what is said is uneven; the same in the fewest words."""
        refuse_unknown_shards(sharding)
        grid = self.shardings.grid(sharding.grid)
        sharding = sharding.without_needless_offsets(shape, grid)
        self.says_uneven |= sharding.uneven_dim(shape, grid) is not None
        return sharding

    def _read(self, op: Op) -> None:
        for place, said in self.shardings.of_results(op.handle).items():
            self._want(op.results[place], said.sharding)
        self._read_blocks(op.handle, op.blocks)

        if op.name in EDGES:
            self.edges.append(boundary_of(op.handle, self.shardings).said.sharding)

    def _read_blocks(self, handle: ir.Operation, blocks: Sequence[Block]) -> None:
        for block, said in zip(blocks, self.shardings.of_blocks(handle), strict=False):
            for place, each in said.items():
                self._want(block.arguments[place], each.sharding)

    def _want(self, value: int, sharding: Sharding) -> None:
        shape = self.function.values[value].shape
        if shape is None:
            return
        refuse_unknown_shards(sharding)
        grid = self.shardings.grid(sharding.grid)
        sharding = sharding.without_needless_offsets(shape, grid)
        self.of[value] = sharding if self.says_uneven else sharding.even_part(shape, grid)

    def _check_grid(self) -> None:
        """One grid, with devices in their own order."""
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
