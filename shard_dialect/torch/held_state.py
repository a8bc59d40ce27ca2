"""The parameters and buffers of a partitioned module: of each, the part in this process.

In one process that is the whole tensor. On ranks it is the rank's shard, as a DTensor.

Files of safetensors, read by slices: one file, or several with an index.
"""

from __future__ import annotations

import copy
import json
from collections import OrderedDict
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.modules.module import _IncompatibleKeys

from shard_dialect.abi.tensor_types import Array
from shard_dialect.errors import ShardError, cannot
from shard_dialect.runtime.array_files import map_safetensors
from shard_dialect.runtime.shards_of_arrays import like
from shard_dialect.torch.graph.flat_module import FlatModule, aliases_of, state_of
from shard_dialect.torch.graph.tensor_trees import Tensor
from shard_dialect.torch.rank_tensors import PlacedTensor, RankTensors, local_of
from shard_dialect.torch.shared_memory import cloned, refuse_shared

_INDEX = "model.safetensors.index.json"
_FILE = "model.safetensors"


def _tensors_in(path: Path) -> dict[str, Array]:
    """By name, the tensors of a file, of an index, or of a folder with either: mapped, not read."""
    found: dict[str, Array] = {}
    for file in _files(path):
        try:
            found |= map_safetensors(str(file))
        except OSError as error:
            raise cannot("read", str(file), error) from None
    return found


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        path = path / (_INDEX if (path / _INDEX).exists() else _FILE)
    if path.suffix != ".json":
        return [path]
    try:
        files = set(json.loads(path.read_text())["weight_map"].values())
    except OSError as error:
        raise cannot("read", str(path), error) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ShardError(f"'{path}' is no index of safetensors") from None
    return [path.parent / file for file in sorted(files)]


class HeldState:
    """By name, as the module's own; a tensor that is shared is held once."""

    def __init__(
        self,
        flat: FlatModule,
        placed: Sequence[PlacedTensor],
        ranks: RankTensors | None,
        makes: bool = True,
    ) -> None:
        """Without `makes`, the module has its own tensors already."""
        self._ranks = ranks
        self._placed = {each.name: each for each in placed}
        self._module: Any = None
        parameters = dict(flat.module.named_parameters())
        self._first: dict[str, Tensor] = {}
        self._missing: set[str] = set()
        if not makes:
            self._first = dict(flat.state)
            return
        whole = {}
        for name, each in flat.state.items():
            if each.is_meta:
                self._missing.add(name)
                each = torch.zeros(each.shape, dtype=each.dtype)
            whole[name] = each.detach()
        trained = {name for name, each in parameters.items() if each.requires_grad}
        for name, each in self._held(whole, {*trained, *flat.updated}).items():
            is_parameter = name in parameters
            self._first[name] = (
                torch.nn.Parameter(each, requires_grad=name in trained) if is_parameter else each
            )

    @property
    def _aliases(self) -> dict[str, str]:
        return aliases_of(self._module, self.tensors)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """By name: those of the module that we belong to, which its user may have exchanged."""
        return self._first if self._module is None else state_of(self._module)

    def belong_to(self, module: Any) -> None:
        """The tensors are those of this module from now on."""
        self._module, self._first = module, {}

    def __deepcopy__(self, memo: dict[int, Any]) -> HeldState:
        """The state of the copy of the module that has the tensors."""
        made = copy.copy(self)
        made._first = copy.deepcopy(self._first, memo)
        made._module = copy.deepcopy(self._module, memo)
        made._missing = set(self._missing)
        return made

    def _held(self, whole: Mapping[str, Tensor], changed: Collection[str]) -> dict[str, Tensor]:
        """In one process they share memory where the module's do, and on ranks they cannot."""
        if self._ranks is None:
            return cloned(whole)
        refuse_shared(changed, whole)
        return {
            name: self._ranks.distributed(each, self._placed[name].sharding)
            for name, each in whole.items()
        }

    def check_complete(self, tensors: Mapping[str, Tensor]) -> None:
        """Raise `ShardError` if some of our tensors have no data, and none was loaded."""
        missing = self._missing or {name for name, each in tensors.items() if each.is_meta}
        if missing:
            names = ", ".join(sorted(missing)[:3])
            raise ShardError(
                f"the module was made on the meta device, and {len(missing)} of its tensors "
                f"({names}, ...) have no data: use load_state_dict or load_safetensors; of a "
                "module changed in place, to_empty and what sets its parameters"
            )

    def update(self, values: Mapping[str, Tensor], exchanged: Container[str]) -> None:
        """Set tensors to values, on ranks DTensors; some buffers are `exchanged` for them."""
        tensors = self.tensors if values else {}
        with torch.no_grad():
            for name, value in values.items():
                own = tensors[name]
                is_distributed = self._ranks is not None and self._ranks.is_distributed(own)
                if name in exchanged or (own.shape, own.dtype) != (value.shape, value.dtype):
                    if is_distributed:
                        value = value.redistribute(own.device_mesh, own.placements)
                    owner, _, key = name.rpartition(".")
                    self._module.get_submodule(owner)._buffers[key] = value
                elif self._ranks is None:
                    own.copy_(value)
                else:
                    self._ranks.write(own, value)

    def gathered(self, state: dict[str, Any], full: bool) -> dict[str, Any]:
        """A `state_dict` of the module, of ranks with DTensors unless `full`, which all ask for."""
        self.check_complete(self.tensors)
        if self._ranks is not None and full:
            for name, each in state.items():
                if self._ranks.is_distributed(each):
                    state[name] = each.full_tensor()
        return state

    def load_state_dict(
        self, state: Mapping[str, Any], strict: bool, load: Callable[[Mapping[str, Any]], Any]
    ) -> Any:
        """Take whole tensors or DTensors, which the module's own `load` gets as they are held.

        Raises `ShardError` for other shapes and, if `strict`, for missing or unknown names.
        """
        tensors, aliases = self.tensors, self._aliases
        given: Any = OrderedDict(state)
        if hasattr(state, "_metadata"):
            given._metadata = state._metadata
        for name, value in state.items():
            if name in aliases:
                own = aliases[name]
                _check_shape(name, tuple(value.shape), tensors[own])
                given[name] = self._like_held(value, own, tensors[own])
        found = load(given)
        others = {aliases[name] for name in state if name in aliases}
        self._missing -= others
        missing = [name for name in found.missing_keys if aliases.get(name) not in others]
        if strict:
            _refuse_names(missing, found.unexpected_keys)
        return _IncompatibleKeys(missing, found.unexpected_keys)

    def _like_held(self, value: Tensor, name: str, held: Tensor) -> Tensor:
        if self._ranks is None or not self._ranks.is_distributed(held):
            return value
        if self._ranks.is_distributed(value):
            return value.redistribute(held.device_mesh, held.placements)
        return self._ranks.distributed(value, self._placed[name].sharding)

    def load_safetensors(self, path: str | Path) -> None:
        """Read what this process holds, and no more, from a file, a folder or an index of files."""
        arrays = _tensors_in(Path(path))
        self._check(arrays)
        tensors, aliases = self.tensors, self._aliases
        for name, array in arrays.items():
            own = aliases[name]
            held = tensors[own]
            _check_shape(name, array.shape, held)
            part: Any = ...
            if self._ranks is not None and self._ranks.is_distributed(held):
                part = self._ranks.slices(self._placed[own])
            with torch.no_grad():
                local_of(held).copy_(like(np.array(array[part]), torch.empty(0)))
            self._missing.discard(own)

    def _check(self, given: Iterable[str]) -> None:
        names, aliases = set(given), self._aliases
        others = {aliases[name] for name in names if name in aliases}
        saved = torch.nn.Module.state_dict(self._module)
        missing = [each for each in saved if each in aliases and aliases[each] not in others]
        _refuse_names(missing, sorted(names - set(aliases)))


def _check_shape(name: str, shape: tuple[int, ...], held: Tensor) -> None:
    if shape != tuple(held.shape):
        raise ShardError(f"has shape {list(shape)}: expected {list(held.shape)}", name)


def _refuse_names(missing: Sequence[str], unknown: Sequence[str]) -> None:
    if missing or unknown:
        what = [f"without {', '.join(missing[:3])}"] if missing else []
        what += [f"with {', '.join(unknown[:3])}"] if unknown else []
        raise ShardError(f"this is no state of the module: {' and '.join(what)}")
