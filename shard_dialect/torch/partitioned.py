"""`sd.torch.partition`: a module that runs on all devices of a mesh, called like the module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import BOUNDARY, boundary, functions_of, set_boundary
from shard_dialect.ir.mesh.attributes import SHARDING
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.compiled_program import CompiledProgram
from shard_dialect.search.auto_options import AutoOptions
from shard_dialect.torch.graph.tensor_trees import Leaves, Tensor, arguments_of
from shard_dialect.torch.held_state import HeldState
from shard_dialect.torch.lower_module import ENTRY, LoweredModule, lower_module
from shard_dialect.torch.plans.placement_lists import placements_of, sharding_of
from shard_dialect.torch.plans.plan_rules import Plan
from shard_dialect.torch.rank_tensors import RankTensors, device_mesh, on_ranks, placements


def partition(
    module: Any,
    args: Sequence[Any],
    plan: Plan | AutoOptions,
    mesh: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
    loss: Callable[..., Tensor] | None = None,
    targets: Sequence[Any] = (),
) -> Partitioned:
    """Partition a `torch.nn.Module` over a mesh, for arguments of these shapes.

    Where torch.distributed is initialized, each rank is a device, and all of them call this. Else
    the devices are threads of this process. With `loss`, the result computes it and the gradients.
    The options are those of `lower`. Raises `ShardError` where `lower` does, and for what cannot
    be partitioned.
    """
    lowered = lower_module(module, args, kwargs or {}, plan, mesh, loss, targets)
    return Partitioned(lowered, mesh)


class Partitioned:
    """A module that `sd.torch.partition` has returned; it holds a state of its own."""

    def __init__(self, lowered: LoweredModule, mesh: Any) -> None:
        self._flat = lowered.flat
        make_sayable(lowered)
        text = lowered.module.operation.get_asm(enable_debug_info=True)
        name = type(self._flat.module).__name__
        self.compiled = CompiledProgram(
            Source.of(text, name), "torch" if on_ranks() else "devices", ENTRY
        )
        """The program: its report, its text in each form, and checks."""
        program = self.compiled.program
        self._ranks: RankTensors | None = None
        if on_ranks():
            (rank,) = self.compiled.world.ranks
            on_mesh = device_mesh(mesh, lowered.grid)
            self._ranks = RankTensors(on_mesh, lowered.grid, program.grids, rank)
        self._state = HeldState(self._flat, program.arguments, self._ranks)
        self._grid = lowered.grid

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result, for tensors of the shapes that it was partitioned for.

        In one process, tensors are whole. On ranks, arguments are DTensors, whole tensors, or this
        rank's shards, and results are DTensors. With a loss, its targets follow the positional
        arguments, and the result is the loss and a dict of gradients by the parameters' names.
        """
        given = self._arguments(args, kwargs)
        tensors = [*self._state.complete().values(), *given.tensors.values()]
        results = list(self._run([each.detach() for each in tensors]))
        flat = self._flat
        assert flat.result is not None, "was exported"
        if flat.updated:
            count = len(flat.updated)
            for name, value in zip(flat.updated, results[-count:], strict=True):
                self._state.update(name, value)
            results = results[:-count]
        count = len(flat.result.tensors)
        found = flat.result.with_tensors(results[:count])
        if flat.loss is None:
            return found
        return found, dict(zip(flat.trained, results[count:], strict=True))

    def _arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Leaves:
        flat = self._flat
        positional, targets = args, ()
        if flat.loss is not None:
            cut = len(args) - flat.arguments.targets
            positional, targets = args[:cut], tuple(args[cut:])
        found = arguments_of(flat.module, positional, kwargs, flat.loss, targets)
        if not found.is_like(flat.arguments, shapes=self._ranks is None):
            raise ShardError(
                "the arguments differ from those that the module was partitioned for, in more than "
                "the elements of tensors: partition it for these, too"
            )
        return found

    def _run(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        if self._ranks is None:
            found = self.compiled(*tensors)
            return found if isinstance(found, tuple) else (found,)
        program, ranks = self.compiled.program, self._ranks
        named = zip(tensors, program.arguments, self._flat.names, strict=True)
        shards = [ranks.shard(*each) for each in named]
        (outputs,) = self.compiled.run_shards([shards])
        pairs = zip(outputs, program.results, strict=True)
        return [ranks.result(*each) for each in pairs]

    def plan(self) -> dict[str, list[Any]]:
        """The placements of parameters, arguments and results by name, which is a plan, too."""
        program = self.compiled.program
        names = [*self._flat.names, *self._flat.result_names]
        tensors = zip(names, [*program.arguments, *program.results], strict=True)
        return {name: placements(each, self._grid) for name, each in tensors}

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """The parameters, which an optimizer may change: whole tensors, on ranks DTensors."""
        held = self._state.tensors
        return ((name, held[name]) for name, _ in self._flat.module.named_parameters())

    def parameters(self) -> Iterator[Tensor]:
        """The same without names."""
        return (each for _, each in self.named_parameters())

    def state_dict(self, *, full: bool = True) -> dict[str, Tensor]:
        """The state as whole tensors, under the names of the module's `state_dict`.

        On ranks it gathers, so that all call it; with `full=False` it gives DTensors.
        """
        return self._state.state_dict(full)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take a state of whole tensors, of which ranks keep their shards, or of DTensors.

        Raises `ShardError` for names that are missing or unknown, and other shapes.
        """
        self._state.load_state_dict(state)

    def load_safetensors(self, path: str | Path) -> None:
        """Read the state from a file, from a `model.safetensors.index.json`, or from their folder.

        Each rank reads the slices that it holds. Raises `ShardError` as `load_state_dict` does.
        """
        self._state.load_safetensors(path)


def make_sayable(lowered: LoweredModule) -> None:
    """Propagate, in place; then replace what torch's placements cannot say at the boundary."""
    grid = lowered.grid
    with lowered.module.context, ir.Location.unknown():
        run_pipeline(lowered.module, "sink-reshapes,propagate")
        shardings = Shardings.of(lowered.module.operation)
        for function in functions_of(lowered.module.operation):
            type_ = function.attributes["function_type"].value
            for key, types in zip(BOUNDARY, (type_.inputs, type_.results), strict=True):
                entries = boundary(function, key)
                for entry, each in zip(entries, types, strict=True):
                    if SHARDING in entry:
                        found = shardings.read(entry[SHARDING], each.rank)
                        plain = placements_of(found, tuple(each.shape), grid)
                        entry[SHARDING] = shardings.write(sharding_of(plain, each.rank, grid))
                set_boundary(function, key, entries)
