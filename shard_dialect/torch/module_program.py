"""A module partitioned for arguments of certain shapes, in one state of torch and of the module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import torch

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import BOUNDARY, boundary, returns_of, set_boundary
from shard_dialect.ir.mesh.attributes import SHARDING
from shard_dialect.ir.mesh.mesh_dialect import is_reshard
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.reading.source import Source
from shard_dialect.model import Sharding
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.compiled_program import Backend, CompiledProgram, Compiler
from shard_dialect.runtime.shards_of_arrays import like, to_numpy
from shard_dialect.torch.ambient_state import State
from shard_dialect.torch.graph.complex_parts import as_real
from shard_dialect.torch.graph.decisions import Decision, check_path
from shard_dialect.torch.graph.flat_module import FlatModule
from shard_dialect.torch.graph.forward_and_backward import SAVED, Part
from shard_dialect.torch.graph.index_checks import IndexCheck
from shard_dialect.torch.graph.kept_values import Place
from shard_dialect.torch.graph.tensor_trees import Leaves, Tensor
from shard_dialect.torch.lower_module import ENTRY, Backward, LoweredModule, entry_of
from shard_dialect.torch.plans.placement_lists import ByAxis, placements_of, sayable
from shard_dialect.torch.rank_tensors import PlacedTensor, RankTensors, on_ranks


@dataclass(frozen=True)
class ModuleProgram:
    """One compiled program of a partitioned module."""

    flat: FlatModule
    part: Part
    """What of the module it computes."""
    states: dict[State, Mapping[Place, Any]]
    """Each `ambient_state` that it is for, and what a call leaves then, by place."""
    text: bytes
    """A digest of the program as it was imported."""
    compiled: CompiledProgram
    arguments: Sequence[PlacedTensor]
    results: Sequence[PlacedTensor]
    derivative: Backward | None
    """What it is differentiated by."""
    propagated: Mapping[str, Sharding]
    """By name, the shardings that propagation chose for what is saved in others."""

    @classmethod
    def of(
        cls,
        lowered: LoweredModule,
        states: dict[State, Mapping[Place, Any]],
        compiler: Compiler = "cpu",
    ) -> ModuleProgram:
        """Compile for the ranks of torch.distributed, or for devices of this process."""
        flat, grid = lowered.flat, lowered.grid
        digest = lowered.digest
        shardings, propagated = make_sayable(lowered)
        text = lowered.module.operation.get_asm(enable_debug_info=True)
        source = Source.of(text, flat.name)
        backend: Backend = "torch" if on_ranks() else "devices"
        compiled = CompiledProgram(source, backend, ENTRY, compiler=compiler)
        program = compiled.program
        names = [*lowered.part.names, *lowered.part.result_names]
        boundaries = [*program.arguments, *program.results]
        complex_ = flat.complex_names
        placed = [
            PlacedTensor(name, boundary, own, placements_of(own, grid), name in complex_)
            for name, boundary, own in zip(names, boundaries, shardings, strict=True)
        ]
        for each in placed:
            for rank in compiled.world.ranks:
                each.check(rank, grid, program.grids)
        cut = len(program.arguments)
        arguments, results = placed[:cut], placed[cut:]
        return cls(
            flat,
            lowered.part,
            states,
            digest,
            compiled,
            arguments,
            results,
            lowered.backward,
            propagated,
        )

    @cached_property
    def backward(self) -> ModuleProgram:
        """The program of the gradients of a program that derives, compiled when it is asked for."""
        assert self.derivative is not None, "has derivatives"
        placed = {each.name: each.placements for each in (*self.arguments, *self.results)}
        grid = self.derivative.placed.grid
        saved = {each.name: each.sharding for each in self.results if each.name in self.propagated}
        placed |= {name: placements_of(each, grid) for name, each in self.propagated.items()}
        compiler: Compiler = "torch" if self.compiled.is_of_torch else "cpu"
        found = ModuleProgram.of(self.derivative.lowered(placed, saved), {}, compiler)
        if on_ranks():
            given = {each.name: number for number, each in enumerate(found.arguments)}
            named = enumerate(each.name for each in self.results)
            pairs = {number: given[name] for number, name in named if name.startswith(SAVED)}
            self.compiled.hand_over(found.compiled, pairs)
        return found

    def takes(self, arguments: Leaves, state: State | None, shapes: bool) -> bool:
        """Whether it is for such arguments; without `shapes`, ones of other shapes, too.

        Without a state, it is for them in some state.
        """
        is_like = arguments.is_like(self.flat.arguments, shapes)
        return is_like and (state is None or state in self.states)

    def run(self, tensors: Sequence[Tensor], ranks: RankTensors | None) -> list[Tensor]:
        """The results for tensors of all names. Raises `IndexOutOfRange` for a wrong index.

        On ranks what is saved for another program is no DTensor, but as the program has it.
        """
        if ranks is None:
            found = self.compiled(*(as_real(each.detach()) for each in tensors))
            results = list(found if isinstance(found, tuple) else (found,))
            if not tensors:  # the results are numpy's
                results = [like(each, torch.empty(0)) for each in results]
            count = len(results) - len(self.part.checks)
            self._check(results[count:])
            return [a.of_program(b) for a, b in zip(self.results, results[:count], strict=False)]
        given = list(zip(tensors, self.arguments, strict=True))
        if self.compiled.is_of_torch:
            shards = [ranks.shard_tensor(*each) for each in given]
            outputs = self.compiled.run_tensors(shards, ranks.device)
        else:
            (outputs,) = self.compiled.run_shards([[ranks.shard(*each) for each in given]])
        count = len(outputs) - len(self.part.checks)
        pairs = list(zip(outputs, self.results, strict=True))
        self._check([ranks.own(*each) for each in pairs[count:]])
        return [ranks.result(*each) for each in pairs[:count]]

    def _check(self, indices: Sequence[Any]) -> None:
        pairs = list(zip(self.part.checks, indices, strict=True))
        decided = [each.found(to_numpy(own)) for each, own in pairs if isinstance(each, Decision)]
        before = self.part.before
        check_path((*before, *self.part.path), [*before, *decided])
        for each, own in pairs:
            if isinstance(each, IndexCheck):
                each.check(own)

    def placements(self) -> Mapping[str, Sequence[Any]]:
        """By name, of what comes in and goes out."""
        count = len(self.results) - len(self.part.checks)
        return {
            each.name: list(each.placements)
            for each in (*self.arguments, *self.results[:count])
            if not each.name.startswith(SAVED)
        }


def make_sayable(lowered: LoweredModule) -> tuple[list[Sharding], dict[str, Sharding]]:
    """Propagate, in place; then replace what torch's placements cannot say at the boundary.

    Returns what each argument and each result has then, on the user's mesh: the compiler may split
    the dimensions of the mesh, and say the same by these. What is saved as it is computed comes by
    name, too, as propagation chose it.
    """
    found: list[Sharding] = []
    propagated: dict[str, Sharding] = {}
    names = iter((*lowered.part.names, *lowered.part.result_names))
    with lowered.module.context, ir.Location.unknown():
        run_pipeline(lowered.module, "sink-reshapes,batch-gathers,compose-slices,propagate")
        shardings = Shardings.of(lowered.module.operation)
        function = entry_of(lowered.module.operation)
        stored = lowered.saved or _where_computed(lowered)
        type_ = function.attributes["function_type"].value
        for key, types in zip(BOUNDARY, (type_.inputs, type_.results), strict=True):
            entries = boundary(function, key)
            for entry, each in zip(entries, types, strict=True):
                own = shardings.read(entry[SHARDING], each.rank) if SHARDING in entry else None
                name = next(names)
                given = lowered.placed.given.get(name, {})
                plain = _said(lowered, name, own, tuple(each.shape), given)
                if name in stored:
                    propagated[name] = plain
                    plain = _said(lowered, name, stored[name], tuple(each.shape), {})
                entry[SHARDING] = shardings.write(plain)
                found.append(plain)
            set_boundary(function, key, entries)
    return found, propagated


def _said(
    lowered: LoweredModule, name: str, own: Sharding | None, shape: Sequence[int], given: ByAxis
) -> Sharding:
    """The nearest sharding of an argument or a result that torch's placements can say."""
    plain = sayable(own, shape, lowered.grid, given)
    if name in lowered.flat.complex_names:  # both parts of a number stay together
        return replace(plain, split_axes=(*plain.split_axes[:-1], ()))
    return plain


def _where_computed(lowered: LoweredModule) -> dict[str, Sharding]:
    """The shardings in which the program computes what it saves, by its names.

    Nobody has asked for others, which propagation has chosen before it was known what they cost.
    """
    names = lowered.part.result_names
    if not any(name.startswith(SAVED) for name in names):
        return {}
    copy = lowered.module.operation.clone()
    run_pipeline(copy, "materialize,optimize-collectives")
    shardings = Shardings.of(copy)
    (end,) = returns_of(entry_of(copy))
    found = {}
    for name, value in zip(names, end.operands, strict=True):
        source = value
        while not isinstance(source.owner, ir.Block) and is_reshard(source.owner):
            source = source.owner.operands[0]
        own, said = (shardings.of_type(each.type) for each in (source, value))
        if not name.startswith(SAVED) or own is None or said is None or own.partial:
            continue
        if own.grid == said.grid == lowered.grid.name:  # and of no finer one
            shape = tuple(value.type.shape)
            sizes = [prod(each.local_shape(shape, lowered.grid)) for each in (own, said)]
            if sizes[0] <= sizes[1]:
                found[name] = own
    return found
