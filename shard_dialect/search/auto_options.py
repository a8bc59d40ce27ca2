"""What `opt --auto` and `sd.auto` are to look for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from shard_dialect.errors import ShardError
from shard_dialect.search.evaluate import Objective


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
    devices: int | None = None
    """The number of devices, for a module that has no grid: its shape is searched for, too."""
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
        if "grid=auto" in text and options.devices is None:
            raise ShardError("--auto: grid=auto needs devices=N, the number of devices")
        return options


AUTO = AutoOptions()
"""In the place of shardings: a search with the default options finds them."""


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
    "grid": lambda text: None if text == "auto" else tuple(map(int, text.split("x"))),
    "devices": int,
}
