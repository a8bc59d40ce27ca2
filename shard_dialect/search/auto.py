"""Annotates what the user has not, as cheaply as a search finds: `opt --auto`, `sd.auto`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from shard_dialect.analysis.changes.annotations import annotations_in
from shard_dialect.analysis.reasons.explained_passes import imported
from shard_dialect.codegen.lowered_program import choose_entry
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import form_of, functions_of, name_of
from shard_dialect.ir.grids import grids_of
from shard_dialect.model import Grid
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.search.best_first import PROVEN, Found, Search
from shard_dialect.search.dimension_groups import dimensions_of
from shard_dialect.search.evaluate import Costs, Evaluator, Objective
from shard_dialect.search.guide import Guide
from shard_dialect.search.integer_program import is_available
from shard_dialect.search.plan import Plan
from shard_dialect.search.searched_function import searched_function

GRID = "grid"
"""The name of a grid that the module does not have yet."""


@dataclass(frozen=True)
class AutoOptions:
    """What to look for, and for how long."""

    objective: Objective = "time"
    memory_limit: int | None = None
    """The bytes that a device has."""
    device_model: str = "h100"
    seconds: float = 60.0
    grid: tuple[int, ...] | None = None
    """The shape of the grid, for a module that has none."""
    axis_names: tuple[str, ...] = ()
    """The names of that grid's axes."""

    @classmethod
    def read(cls, text: str) -> AutoOptions:
        """The options in a text, as `opt --auto` takes it. Raises `ShardError`.

        >>> options = AutoOptions.read("grid=2x4 objective=bytes memory-limit=16GiB")
        >>> options.grid, options.objective, options.memory_limit
        ((2, 4), 'bytes', 17179869184)
        """
        options = cls()
        for each in text.strip("{}").replace(",", " ").split():
            name, _, value = each.partition("=")
            if name not in _READERS:
                known = ", ".join(_READERS)
                raise ShardError(f"--auto has no option '{name}': expected {known}")
            try:
                options = replace(options, **{name.replace("-", "_"): _READERS[name](value)})
            except ValueError:
                raise ShardError(f"--auto: cannot read {name}={value}") from None
        return options


AUTO = AutoOptions()
"""In the place of shardings: a search with the default options finds them."""


@dataclass(frozen=True)
class AutoResult:
    """What a search has found."""

    module: ir.Module
    """The program with annotations of arguments and results where it had none."""
    found: Found

    @property
    def costs(self) -> Costs:
        """What the program then costs each device."""
        return self.found.costs

    @property
    def is_proven(self) -> bool:
        """Whether no plan is better: all were evaluated, or the bound is met."""
        return self.found.is_proven

    def __str__(self) -> str:
        found = self.found
        all_ = "all " if found.is_exhausted else ""
        text = f"{found.costs}: the best of {all_}{found.evaluated} plans that were tried"
        if found.gap is None:
            return text
        if found.gap < PROVEN:
            return f"{text}, and no other is better"
        return f"{text}, and no other is better by more than {found.gap:.1%}"


def auto(
    module: ir.Module,
    options: AutoOptions,
    entry: str | None = None,
    tell: Callable[[Plan, Costs, int], None] = lambda *_: None,
) -> AutoResult:
    """Find annotations for the arguments and results of a module that have none.

    The annotations of the module hold, and it is not changed. `tell` is called with each better
    plan. Raises `ShardError` if the module has no grid and none is asked for, if it is partitioned
    already, or if no plan fits the memory limit.
    """
    name = choose_entry(module.operation, entry)
    function = next(op for op in functions_of(module.operation) if name_of(op) == name)
    if form_of(function) not in ("annotated", "propagated"):
        raise ShardError(f"function @{name} is partitioned already: there is nothing to find")
    text = _with_grid(module.operation.get_asm(enable_debug_info=True), module, options)
    start = imported(text)
    grid = _grid_of(start)
    text = start.operation.get_asm(enable_debug_info=True)
    free = _free(start.operation, name)
    device_model = DeviceModel.read(options.device_model)
    function = searched_function(start, name)
    simplified = searched_function(_simplified(text), name)
    if function is None or simplified is None:
        raise ShardError(f"@{name} has no tensors: there is nothing to find")
    evaluator = Evaluator(
        text,
        name,
        grid.name,
        device_model,
        options.objective,
        options.memory_limit,
        function.sites,
    )
    guide = Guide.of(
        function, simplified, grid, device_model, options.objective, options.memory_limit, free
    )
    search = Search(
        evaluator,
        dimensions_of(function),
        grid,
        free,
        options.seconds,
        tell,
        guide if is_available() else None,
    )
    found = search.run()
    if found is None:
        evaluator.known_costs(Plan())  # raises what is wrong with the program as it is
        raise ShardError(f"no sharding of @{name} can be partitioned")
    if found.score.excess:
        raise ShardError(
            f"no sharding was found with which @{name} takes {options.memory_limit} bytes on a "
            f"device: the best one takes {found.costs.peak}, {found.score.excess} too many"
        )
    return AutoResult(evaluator.annotated(found.plan), found)


def _simplified(text: str) -> ir.Module:
    """The module as upstream's passes simplify it."""
    module = ir.Module.parse(text)
    run_pipeline(module, "canonicalize,cse")
    return module


def _free(module: ir.Operation, entry: str) -> frozenset[int]:
    """The numbers of the entry's arguments and results that have no annotation."""
    function = next(op for op in functions_of(module) if name_of(op) == entry)
    arguments = len(function.regions[0].blocks[0].arguments)
    return frozenset(
        each.site.number + (arguments if each.site.kind == "result" else 0)
        for each in annotations_in(module)
        if each.site.function == entry and each.annotation is None
    )


def _with_grid(text: str, module: ir.Module, options: AutoOptions) -> str:
    """The module's text, with the grid that is asked for."""
    grids = grids_of(module.operation)
    if options.grid is None or grids:
        if options.grid is not None and all(each.shape != options.grid for each in grids.values()):
            (first, *_) = grids.values()
            asked = "x".join(map(str, options.grid))
            raise ShardError(f"a grid of {asked} is asked for, and the module has {first}")
        return text
    copy = ir.Module.parse(text, module.context)
    shape = "x".join(map(str, options.grid))
    names = ", ".join(map(json.dumps, options.axis_names))
    attributes = f" {{mesh.axis_names = [{names}]}}" if names else ""
    declared = ir.Module.parse(f"shard.grid @{GRID}(shape = {shape}){attributes}", module.context)
    op = declared.body.operations[0].operation.detach_from_parent()
    ir.InsertionPoint.at_block_begin(copy.body).insert(op)
    return copy.operation.get_asm(enable_debug_info=True)


_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "": 1}


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(KiB|MiB|GiB|TiB|)", text)
    if match is None:
        raise ShardError(f"--auto: memory-limit={text} is no size: write 500000, 512MiB, 16GiB")
    return int(float(match[1]) * _UNITS[match[2]])


def _objective(text: str) -> Objective:
    match text:
        case "time" | "bytes" | "memory":
            return text
    raise ShardError(f"--auto: objective={text} is none: expected time, bytes or memory")


_READERS: dict[str, Callable[[str], Any]] = {
    "objective": _objective,
    "memory-limit": _bytes,
    "device-model": str,
    "seconds": float,
    "grid": lambda text: tuple(map(int, text.split("x"))),
}


def _grid_of(module: ir.Module) -> Grid:
    grids = [each for each in grids_of(module.operation).values() if each.shape]
    if not grids:
        raise ShardError("the module has no grid: say which devices there are, as in grid=2x4")
    if len(grids) > 1:
        names = ", ".join(f"@{each.name}" for each in grids)
        raise ShardError(f"the module has several grids ({names}): a search uses one")
    if not grids[0].is_static:
        raise ShardError(f"grid {grids[0]} has unknown sizes: give them by --specialize=grid=...")
    return grids[0]
