"""The parameters and buffers of a partitioned module: of each, the part in this process.

In one process that is the whole tensor. On ranks it is the rank's shard, as a DTensor.

Files of safetensors, read by slices: one file, or several with an index.
"""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules.module import _IncompatibleKeys

from shard_dialect.errors import MissingExtra, ShardError, cannot, first_line_of
from shard_dialect.torch.graph.flat_module import FlatModule, aliases_of, state_of
from shard_dialect.torch.graph.tensor_trees import Tensor
from shard_dialect.torch.rank_tensors import PlacedTensor, RankTensors
from shard_dialect.torch.shared_memory import cloned, refuse_shared

_INDEX = "model.safetensors.index.json"
_FILE = "model.safetensors"


@dataclass(frozen=True)
class Slices:
    """The tensors of the files, by name."""

    names: Mapping[str, Any]
    """The open file of each."""

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, without reading it."""
        return tuple(self.names[name].get_slice(name).get_shape())

    def read(self, name: str, part: Any) -> Any:
        """A part of a tensor; no more of it is read."""
        if part is ... or part == ():
            return self.names[name].get_tensor(name)
        return self.names[name].get_slice(name)[part]


@contextmanager
def opened(path: Path) -> Iterator[Slices]:
    """Within a `with` block, the tensors of a file, of an index, or of a folder with either."""
    try:
        safetensors = importlib.import_module("safetensors")
    except ImportError:
        raise MissingExtra("safetensors", "torch") from None
    with ExitStack() as stack:
        names: dict[str, Any] = {}
        for file in _files(path):
            try:
                found = stack.enter_context(safetensors.safe_open(file, framework="pt"))
            except OSError as error:
                raise cannot("read", str(file), error) from None
            except safetensors.SafetensorError as error:
                raise ShardError(f"'{file}' is no safetensors: {first_line_of(error)}") from None
            names |= dict.fromkeys(found.keys(), found)
        yield Slices(names)


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


Shard = Callable[[Any], Tensor]


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
    def _saved(self) -> list[str]:
        """The names of the module's `state_dict`."""
        return list(torch.nn.Module.state_dict(self._module))

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

    def state_dict(self, full: bool) -> dict[str, Tensor]:
        """The module's state; of ranks DTensors unless `full`, which all of them must ask for."""
        tensors, aliases = self.tensors, self._aliases
        self.check_complete(tensors)
        found = {name: tensors[aliases[name]].detach() for name in self._saved}
        if self._ranks is None or not full:
            return found
        return {
            name: each.full_tensor() if self._ranks.is_distributed(each) else each
            for name, each in found.items()
        }

    def load_state_dict(self, state: Mapping[str, Tensor], strict: bool = True) -> Any:
        """Take whole tensors or DTensors. Raises `ShardError` for missing or unknown names."""
        missing, unknown = self._differences(state)
        if strict:
            self._check(state)
        tensors, aliases = self.tensors, self._aliases
        for name, value in state.items():
            if name not in unknown:
                own = aliases[name]
                self._load(name, own, tensors[own], tuple(value.shape), _slicer(value), value)
        return _IncompatibleKeys(missing, unknown)

    def load_safetensors(self, path: str | Path) -> None:
        """Read what this process holds, and no more, from a file, a folder or an index of files."""
        with opened(Path(path)) as slices:
            self._check(slices.names)
            tensors, aliases = self.tensors, self._aliases
            for name in slices.names:
                own, read = aliases[name], _reader(slices, name)
                self._load(name, own, tensors[own], slices.shape(name), read, None)

    def _differences(self, given: Iterable[str]) -> tuple[list[str], list[str]]:
        """The names that are missing, and those that are unknown."""
        names, aliases = set(given), self._aliases
        own = [name for name in self._saved if name not in names]
        others = {aliases[name] for name in names if name in aliases}
        missing = [name for name in own if aliases[name] not in others]
        return missing, sorted(names - set(aliases))

    def _check(self, given: Iterable[str]) -> None:
        missing, unknown = self._differences(given)
        if missing or unknown:
            what = [f"without {', '.join(missing[:3])}"] if missing else []
            what += [f"with {', '.join(unknown[:3])}"] if unknown else []
            raise ShardError(f"this is no state of the module: {' and '.join(what)}")

    def _load(
        self, name: str, own: str, held: Tensor, shape: tuple[int, ...], read: Shard, value: Any
    ) -> None:
        if shape != tuple(held.shape):
            raise ShardError(f"has shape {list(shape)}: expected {list(held.shape)}", name)
        with torch.no_grad():
            if self._ranks is None or not self._ranks.is_distributed(held):
                held.copy_(read(...))
            elif self._ranks.is_distributed(value):
                held.copy_(value.redistribute(held.device_mesh, held.placements))
            else:
                part = self._ranks.slices(self._placed[own])
                held.to_local().copy_(read(part))
        self._missing.discard(own)


def _slicer(whole: Tensor) -> Shard:
    return lambda part: whole[part]


def _reader(slices: Slices, name: str) -> Shard:
    return lambda part: slices.read(name, part)
