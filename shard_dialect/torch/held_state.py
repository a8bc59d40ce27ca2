"""The parameters and buffers of a partitioned module: of each, what this process holds.

In one process that is the whole tensor. On ranks it is the rank's shard, as a DTensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from shard_dialect.codegen.lowered_program import Boundary
from shard_dialect.errors import ShardError
from shard_dialect.torch.graph.flat_module import FlatModule, aliases_of
from shard_dialect.torch.graph.tensor_trees import Tensor
from shard_dialect.torch.rank_tensors import RankTensors
from shard_dialect.torch.safetensors_files import Slices, opened

Shard = Callable[[Any], Tensor]


class HeldState:
    """By name, as the module's own; a tensor that is shared is held once."""

    def __init__(
        self, flat: FlatModule, boundaries: Sequence[Boundary], ranks: RankTensors | None
    ) -> None:
        self._ranks = ranks
        self._boundaries = dict(zip(flat.state, boundaries, strict=False))
        self._aliases = aliases_of(flat)
        self._saved = list(flat.module.state_dict())
        parameters = dict(flat.module.named_parameters())
        self.tensors: dict[str, Tensor] = {}
        self._missing: set[str] = set()
        for name, each in flat.state.items():
            if each.is_meta:
                self._missing.add(name)
                each = torch.zeros(each.shape, dtype=each.dtype)
            held = self._held(name, each.detach())
            is_trained = name in parameters and parameters[name].requires_grad
            self.tensors[name] = (
                torch.nn.Parameter(held, requires_grad=is_trained) if name in parameters else held
            )

    def _held(self, name: str, whole: Tensor) -> Tensor:
        if self._ranks is None:
            return whole.clone()
        return self._ranks.distributed(whole, self._boundaries[name])

    def complete(self) -> Mapping[str, Tensor]:
        """The tensors. Raises `ShardError` if some of them have no data, and none was loaded."""
        if self._missing:
            names = ", ".join(sorted(self._missing)[:3])
            raise ShardError(
                f"the module was made on the meta device, and {len(self._missing)} of its tensors "
                f"({names}, ...) have no data: use load_state_dict or load_safetensors"
            )
        return self.tensors

    def update(self, name: str, value: Tensor) -> None:
        """Set a tensor to a value of the same kind."""
        with torch.no_grad():
            self.tensors[name].copy_(value)

    def state_dict(self, full: bool) -> dict[str, Tensor]:
        """The module's state; of ranks DTensors unless `full`, which all of them must ask for."""
        found = {name: self.complete()[self._aliases[name]].detach() for name in self._saved}
        if self._ranks is None or not full:
            return found
        return {name: each.full_tensor() for name, each in found.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take whole tensors or DTensors. Raises `ShardError` for missing or unknown names."""
        self._check(state)
        for name, value in state.items():
            self._load(name, tuple(value.shape), _slicer(value), value)

    def load_safetensors(self, path: str | Path) -> None:
        """Read what this process holds, and no more, from a file, a folder or an index of files."""
        with opened(Path(path)) as slices:
            self._check(slices.names)
            for name in slices.names:
                self._load(name, slices.shape(name), _reader(slices, name), None)

    def _check(self, given: Iterator[str] | Any) -> None:
        names = set(given)
        own = {name for name in self._saved if name not in names}
        others = {self._aliases[name] for name in names if name in self._aliases}
        missing = sorted(name for name in own if self._aliases[name] not in others)
        unknown = sorted(names - set(self._aliases))
        if missing or unknown:
            what = [f"without {', '.join(missing[:3])}"] if missing else []
            what += [f"with {', '.join(unknown[:3])}"] if unknown else []
            raise ShardError(f"this is no state of the module: {' and '.join(what)}")

    def _load(self, name: str, shape: tuple[int, ...], read: Shard, value: Any) -> None:
        own = self._aliases[name]
        held = self.tensors[own]
        if shape != tuple(held.shape):
            raise ShardError(f"has shape {list(shape)}: expected {list(held.shape)}", name)
        with torch.no_grad():
            if self._ranks is None:
                held.copy_(read(...))
            elif self._ranks.is_distributed(value):
                held.copy_(value.redistribute(held.device_mesh, held.placements))
            else:
                part = self._ranks.slices(self._boundaries[own])
                held.to_local().copy_(read(part))
        self._missing.discard(own)


def _slicer(whole: Tensor) -> Shard:
    return lambda part: whole[part]


def _reader(slices: Slices, name: str) -> Shard:
    return lambda part: slices.read(name, part)
