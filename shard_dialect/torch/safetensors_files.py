"""Files of safetensors, read by slices: one file, or several with an index."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shard_dialect.errors import MissingExtra, ShardError, cannot, first_line_of

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
