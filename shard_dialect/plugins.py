"""Plugins: Python that on import registers passes, rules and dialects of a user's own.

    from shard_dialect import Pass, register_dialect, register_pass, sharding_rule

They are named by `--load-plugin` (a file, or a module that can be imported), or installed: the
entry points of packages in the group `shard_dialect.plugins` are loaded always.

    [project.entry-points."shard_dialect.plugins"]
    mine = "my_package.sharding"
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from shard_dialect.errors import FAILURES, ShardError, brief, cannot, raised_in
from shard_dialect.processes.code_of_users import in_code_of_user

GROUP = "shard_dialect.plugins"
_loaded: dict[str, ModuleType | None] = {}


def add_argument(parser: argparse._ActionsContainer) -> None:
    """Add `--load-plugin` to a program's parser."""
    parser.add_argument(
        "--load-plugin",
        action="append",
        default=[],
        metavar="FILE_OR_MODULE",
        help="import Python that registers passes, rules or dialects; may be repeated",
    )


def load(named: Sequence[str] = ()) -> None:
    """Load the installed plugins and those named, each once in a process. Raises `ShardError`."""
    for value in _installed():
        _load_once(value, f"the installed plugin '{value}'")
    for name in named:
        _load_once(name, f"plugin '{name}'")


def files(named: Sequence[str]) -> list[str]:
    """The files that these names may load. Nothing is imported to find them."""
    paths = [name for name in named if _is_file(name)]
    for name in named:
        candidates = [Path(folder, *name.split(".")) for folder in sys.path if not _is_file(name)]
        paths += [f"{each}.py" for each in candidates]
        paths += [str(each / "__init__.py") for each in candidates]
    return paths


def _is_file(name: str) -> bool:
    return name.endswith(".py") or os.sep in name


def are_loaded() -> bool:
    """Whether there is any plugin."""
    return bool(_loaded)


def texts() -> list[bytes]:
    """The contents of all loaded plugins."""
    paths = [Path(getattr(module, "__file__", None) or "") for module in _loaded.values()]
    return [path.read_bytes() for path in paths if path.is_file()]


def _load_once(name: str, shown: str) -> None:
    if name in _loaded:
        return
    import_it = _import_file if _is_file(name) else _import_module
    _loaded[name] = _guarded(lambda: import_it(name), shown)


def _guarded(import_it: Callable[[], ModuleType], shown: str) -> ModuleType:
    """Run an import; whatever it raises becomes one error line, at the plugin's own line."""
    try:
        with in_code_of_user(shown):
            return import_it()
    except FAILURES as error:
        if isinstance(error, SyntaxError) and error.filename:
            location = f"{error.filename}:{error.lineno}:{error.offset or 1}"
            raise ShardError(f"cannot load {shown}: {error.msg}", location) from None
        if isinstance(error, ShardError) and error.location:
            raise
        message = error.message if isinstance(error, ShardError) else brief(error)
        place = next((each.location for each in raised_in(error)), None)
        raise ShardError(f"cannot load {shown}: {message}", place) from None


def _import_file(path: str) -> ModuleType:
    from importlib.util import module_from_spec, spec_from_file_location

    try:
        Path(path).read_bytes()
    except OSError as error:
        raise cannot("read", path, error) from None
    name = f"shard_dialect_plugin_{Path(path).stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ShardError(f"'{path}' is not a Python file: its name should end in .py")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and `inspect` look there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _import_module(name: str) -> ModuleType:
    from importlib import import_module

    return import_module(name)


def _installed() -> Sequence[str]:
    """The modules of installed plugins, which are looked for where something has been installed."""
    return _installed_in(tuple((folder, _changed(folder)) for folder in sys.path))


def _changed(folder: str) -> int:
    """When something was put into a folder, or taken from it."""
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=1)
def _installed_in(folders: Sequence[tuple[str, int]]) -> Sequence[str]:
    """Those in `sys.path` as it is. `importlib.metadata` takes 30 ms, so files are read."""
    group = GROUP.encode()
    for folder, _ in folders:
        try:
            entries = list(os.scandir(folder or "."))
        except OSError:
            continue
        for entry in entries:
            if entry.name.endswith((".dist-info", ".egg-info")):
                try:
                    with open(f"{entry.path}/entry_points.txt", "rb") as file:
                        text = file.read()
                except OSError:
                    continue
                if group in text:
                    return tuple(_values())
    return ()


def _values() -> Iterator[str]:
    from importlib.metadata import entry_points

    for each in entry_points(group=GROUP):
        yield each.module
