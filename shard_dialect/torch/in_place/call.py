"""One call of a module that was changed in place.

On ranks, its arguments and its results are this rank's part of the batch, as of torch's modules:
along the dimensions that `fully_shard` was given, plain tensors are shards of dimension 0, along
all others the same on all ranks.

    x : 4x16 on each rank    ->   DTensor 8x16, [Shard(0), Replicate()]
    y : 8x16, [Shard(0), Replicate()]   ->   4x16 on each rank

The loss of a rank is about its part. As in torch, gradients are the means of those of all ranks'
losses along these dimensions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.utils import _pytree as pytree

from shard_dialect.errors import ShardError
from shard_dialect.model import Grid
from shard_dialect.torch.engine import Engine, tracing
from shard_dialect.torch.graph.flat_module import FlatModule
from shard_dialect.torch.graph.tensor_trees import Tensor, arguments_of, know_caches
from shard_dialect.torch.in_place.mesh_axes import size_along
from shard_dialect.torch.in_place.notes import Note, compiler_of, noted, plan_of
from shard_dialect.torch.lower_module import lower_module
from shard_dialect.torch.module_code import spaces_of
from shard_dialect.torch.plans.placement_lists import ByAxis
from shard_dialect.torch.plans.plan_rules import layouts_of


@dataclass
class Call:
    """One call of a module that was changed in place."""

    module: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]

    def run(self) -> Any:
        """The results, on ranks as this rank's plain tensors, or DTensors along styles' axes."""
        know_caches()
        self.notes = noted(self.module)
        mesh_axes = self.notes[0][2].axes
        self.mesh, self.grid, self.ranks = mesh_axes.mesh, mesh_axes.grid, mesh_axes.ranks()
        data = [axis for _, _, note in self.notes if note.style is None for axis in note.axes.axes]
        self.data = sorted(set(data))
        placed = self._placements()
        if self.ranks is None:
            return self._engine(placed, self.args, self.kwargs)(self.args, self.kwargs)
        agree = self._agreement()
        args, kwargs = self._distributed(placed)
        if self.module._engine is None:
            agree()
        if self.module._engine is None and self._has_split_inputs():
            # What a style says of an argument of the whole module is known once it is traced.
            vars(self.module)["_given"] = self._by_styles(placed, args, kwargs)
            placed = self._placements()
            args, kwargs = self._distributed(placed)
        engine = self._engine(placed, args, kwargs)
        leaves = pytree.tree_leaves((args, kwargs))
        sizes = {each.shape[0] for each in leaves if isinstance(each, DTensor) and each.dim()}
        found = engine(args, kwargs, agree)
        return pytree.tree_map(lambda each: self._local(each, sizes), found)

    def _engine(self, placed: Mapping[str, ByAxis], args: Any, kwargs: Any) -> Engine:
        engine: Engine | None = self.module._engine
        if engine is None:
            engine = Engine(
                self.module,
                plan_of(self.module),
                self.mesh,
                None,
                args,
                kwargs,
                (),
                "counter",
                placed,
                in_place=True,
                compiler=compiler_of(self.notes),
            )
            if self.ranks is not None:
                engine.scales = partial(_scales, self.notes, self.grid, self.data)
            vars(self.module)["_engine"] = engine
        engine.arguments = placed
        return engine

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        return arguments_of(self.module, self.args, self.kwargs, None, ()).tensors

    def _placements(self) -> dict[str, ByAxis]:
        """DTensors as they are; of others the first dimension is the batch, if it can be split."""
        found: dict[str, ByAxis] = {}
        count = size_along(self.grid, self.data)
        given: Mapping[str, ByAxis] = vars(self.module).get("_given", {})
        for name, each in self._tensors.items():
            if isinstance(each, DTensor):
                found[name] = dict(enumerate(each.placements))
            elif each.dim() and (self.ranks is not None or not each.shape[0] % count):
                found[name] = {**given.get(name, {}), **{axis: Shard(0) for axis in self.data}}
        return found

    def _distributed(self, placed: Mapping[str, ByAxis]) -> tuple[Any, Any]:
        """The arguments as DTensors."""
        names = iter(self._tensors)

        def one(each: Any) -> Any:
            if not isinstance(each, torch.Tensor):
                return each
            name = next(names)
            if isinstance(each, DTensor):
                return each
            by_axis = placed.get(name, {})
            placements = [by_axis.get(axis, Replicate()) for axis in range(self.grid.rank)]
            return DTensor.from_local(each, self.mesh, placements, run_check=False)

        kwargs = dict(sorted(self.kwargs.items()))  # the order of their names
        found: tuple[Any, Any] = pytree.tree_map(one, (tuple(self.args), kwargs))
        return found

    def _has_split_inputs(self) -> bool:
        styles = [
            layouts_of(note.style, each, name) for name, each, note in self.notes if note.style
        ]
        return any(
            placement is not None and placement.is_shard()
            for each in styles
            for placement in each.given
        )

    def _by_styles(self, placed: Mapping[str, ByAxis], args: Any, kwargs: Any) -> Any:
        """The layouts that styles say arguments of the whole module have."""
        plan = plan_of(self.module)
        with tracing():
            given = arguments_of(self.module, args, kwargs, None, ())
            flat = FlatModule(self.module, spaces_of(self.module, {}), given)
            lowered = lower_module(flat, plan, self.mesh, placed)
        return {name: lowered.placed.given.get(name, {}) for name in self._tensors}

    def _local(self, result: Any, sizes: set[int]) -> Any:
        """A result as torch's module would give it to this rank."""
        if not isinstance(result, DTensor):
            return result
        placements = list(result.placements)
        for axis in self.data:
            is_batch = result.dim() and result.shape[0] in sizes
            if placements[axis].is_replicate() and is_batch:
                placements[axis] = Shard(0)
        if placements != list(result.placements):
            result = result.redistribute(self.mesh, placements)
        gradients = [
            Partial() if each.is_replicate() and axis in self.data else each
            for axis, each in enumerate(placements)
        ]
        own = result.to_local(grad_placements=gradients)
        others = [axis for axis in range(self.grid.rank) if axis not in self.data]
        if all(placements[axis].is_replicate() for axis in others):
            return own
        if not self.data:
            return result
        shape = list(result.shape)
        for axis in self.data:
            if placements[axis].is_shard():
                shape[placements[axis].dim] = own.shape[placements[axis].dim]
        names = tuple(self.grid.axis_name(axis) for axis in others)
        stride = torch.empty(shape, device="meta").stride()
        return DTensor.from_local(
            own,
            self.mesh[names],
            [placements[axis] for axis in others],
            run_check=False,
            shape=torch.Size(shape),
            stride=stride,
        )

    def _agreement(self) -> Callable[[], None]:
        """Ask the other ranks, and return what waits for them: it raises on all of them alike.

        They must call one module, with arguments of one kind, before anything runs or compiles.
        """
        leaves = pytree.tree_leaves((self.args, dict(sorted(self.kwargs.items()))))
        plain = (bool, int, float, str)
        kinds = [
            (tuple(each.shape), str(each.dtype))
            if isinstance(each, torch.Tensor)
            else repr(each if isinstance(each, plain) else type(each))
            for each in leaves
        ]
        said = repr((type(self.module).__name__, sorted(self.module._parameters), kinds))
        number = int.from_bytes(hashlib.sha256(said.encode()).digest()[:7], "big")
        both = torch.tensor([number, -number], device=self.mesh.device_type)
        work = dist.all_reduce(both, dist.ReduceOp.MAX, async_op=True)

        is_first = self.module._engine is None

        @cache
        def agree() -> None:
            work.wait()
            if both.device.type != "cpu" and not is_first:  # nobody waits for the device
                torch._assert_async(both[0] == -both[1], "the ranks call a module with other sizes")
            elif both[0] != -both[1]:
                shapes = ", ".join(str(list(each[0])) for each in kinds if isinstance(each, tuple))
                raise ShardError(
                    f"the ranks call {type(self.module).__name__} with other shapes, types or "
                    f"constants (here {shapes}): it is one program, so give all of them the same; "
                    "drop or fill the last batch"
                )

        return agree


def _scales(
    notes: Sequence[tuple[str, Any, Note]], grid: Grid, data: Sequence[int], names: Iterable[str]
) -> dict[str, float]:
    """What each parameter's gradient is multiplied by: the innermost module decides."""
    scales: dict[str, float] = {}
    for name, module, note in notes:
        if note.style is None:
            own = vars(module).get("_divide_factor")
            scale = 1 / own if own else 1 / size_along(grid, note.axes.axes)
            scales.setdefault(f"{name}." if name else "", scale)
    default = 1 / size_along(grid, data)
    return {
        name: next((scale for start, scale in scales.items() if name.startswith(start)), default)
        for name in names
    }
