"""The rates of one device and of its network: a small TOML file, as a plain value.

    name = "two hosts of four"
    sources = ["https://..."]

    [flops]                     # per second, by element type
    f32 = 19.5e12

    [memory]
    bytes = 80e9
    bytes_per_second = 2.0e12

    [[network]]                 # the innermost level first
    name = "NVLink"
    devices = 4                 # devices 0 to 3 are joined by it, and 4 to 7, and so on
    bytes_per_second = 300e9    # what one device sends, while it receives as much
    latency = 1.9e-6            # seconds

    [[network]]
    name = "InfiniBand"         # the outermost level may leave out `devices`: it joins them all
    bytes_per_second = 25e9
    latency = 4.0e-6

A level with `ring = true` is a dimension of a torus: each device has a link to both neighbours.
`docs/device-models.md` describes the format.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from shard_dialect.errors import ShardError, cannot, first_line_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class NetworkLevel:
    """A level of the network; `devices` is the size of the groups that it joins, `None` for any.

    A device sends `bytes_per_second` over all its links of this level together. On a `ring` these
    are two links, one to each neighbour; else a switch leads to every device.
    """

    name: str
    devices: int | None
    bytes_per_second: float
    latency: float
    ring: bool = False


@dataclass(frozen=True)
class DeviceModel:
    """The rates at which a device computes, stores and sends; the innermost level is first."""

    name: str
    sources: tuple[str, ...]
    flops: tuple[tuple[str, float], ...]
    """The floating-point operations of matrix products per second, by element type."""
    memory_bytes: int
    memory_bytes_per_second: float
    network: tuple[NetworkLevel, ...]

    @classmethod
    def read(cls, name_or_path: str) -> DeviceModel:
        """The device model of this name that comes with the package, or that in a file of the user.

        Raises `ShardError` for a file that cannot be read, and for one with a mistake.

        >>> DeviceModel.read("h100").network[0].name
        'NVLink'
        """
        names = device_model_names()
        path = Path(name_or_path)
        if name_or_path in names:
            path = _FOLDER / f"{name_or_path}.toml"
        elif path.suffix != ".toml":
            raise ShardError(
                f"no device model is named '{name_or_path}': expected one of {', '.join(names)}, "
                "or a file that ends in .toml"
            )
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise cannot("read the device model", str(path), error) from None
        except UnicodeDecodeError as error:
            raise ShardError(f"cannot read the device model: {first_line_of(error)}") from None
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, file: str = "<text>") -> DeviceModel:
        """The device model that a text describes; errors name `file`."""
        try:
            return _model(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise ShardError(f"is no TOML: {first_line_of(error)}", f"{file}:1:1") from None
        except ShardError as error:
            raise error.at(f"{file}:1:1") from None

    def to_toml(self) -> str:
        """The text that `parse` reads."""
        lines = [
            f"name = {json.dumps(self.name)}",
            f"sources = {json.dumps(self.sources)}",
            "\n[flops]",
            *(f"{element} = {rate:.4g}" for element, rate in self.flops),
            "\n[memory]",
            f"bytes = {self.memory_bytes}",
            f"bytes_per_second = {self.memory_bytes_per_second:.4g}",
        ]
        for level in self.network:
            lines += [
                "\n[[network]]",
                f"name = {json.dumps(level.name)}",
                *([] if level.devices is None else [f"devices = {level.devices}"]),
                f"bytes_per_second = {level.bytes_per_second:.4g}",
                f"latency = {level.latency:.4g}",
                *(["ring = true"] if level.ring else []),
            ]
        return "\n".join(lines) + "\n"

    @cached_property
    def _rates(self) -> dict[str, float]:
        return dict(self.flops)

    def flops_per_second(self, element: str) -> float:
        """The rate for this element type; the lowest rate for one that the model does not list."""
        return self._rates.get(element) or min(self._rates.values())

    def place(self, device: int) -> tuple[int, ...]:
        """The position of a device in each level, the innermost first.

        >>> DeviceModel.read("h100").place(13)  # the sixth device of the second node
        (5, 1)
        """
        position, inner = [], 1
        for level in self.network:
            outer = level.devices
            position.append((device if outer is None else device % outer) // inner)
            inner = outer or inner
        return tuple(position)

    def check_size(self, devices: int) -> None:
        """Raise `ShardError` unless the outermost level joins as many devices."""
        most = self.network[-1].devices if self.network else 1
        if most is not None and devices > most:
            raise ShardError(
                f"the program runs on {devices} devices, device model '{self.name}' has {most}: "
                "choose another, or write one with a further network level"
            )


def device_model_names() -> list[str]:
    """The names of the device models that come with the package."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def _model(data: dict[str, Any]) -> DeviceModel:
    where = "the device model"
    _expect_keys(data, where, ("name", "flops", "memory"), ("sources", "network"))
    for key in ("flops", "memory"):
        _expect(isinstance(data[key], dict), f"'{key}'", "a table", data[key])
    sources = data.get("sources", [])
    are_texts = isinstance(sources, list) and all(isinstance(each, str) for each in sources)
    _expect(are_texts, "'sources'", "a list of strings", sources)
    memory = data["memory"]
    _expect_keys(memory, "[memory]", ("bytes", "bytes_per_second"))
    _expect(bool(data["flops"]), "[flops]", "a rate for at least one element type", data["flops"])
    levels = data.get("network", [])
    are_tables = isinstance(levels, list) and all(isinstance(each, dict) for each in levels)
    _expect(are_tables, "'network'", "a list of tables", levels)
    network = tuple(_level(each, number) for number, each in enumerate(levels, 1))
    _check_sizes(network)
    return DeviceModel(
        _text(data, "name", where),
        tuple(sources),
        tuple((each, _positive(data["flops"], each, "[flops]")) for each in data["flops"]),
        int(_positive(memory, "bytes", "[memory]")),
        _positive(memory, "bytes_per_second", "[memory]"),
        network,
    )


def _level(data: dict[str, Any], number: int) -> NetworkLevel:
    where = f"network level {number}"
    _expect_keys(data, where, ("name", "bytes_per_second", "latency"), ("devices", "ring"))
    devices, ring = data.get("devices"), data.get("ring", False)
    is_count = devices is None or (type(devices) is int and devices > 0)
    _expect(is_count, f"'devices' of {where}", "a positive integer", devices)
    _expect(isinstance(ring, bool), f"'ring' of {where}", "true or false", ring)
    return NetworkLevel(
        _text(data, "name", where),
        devices,
        _positive(data, "bytes_per_second", where),
        _positive(data, "latency", where, least=0),
        ring,
    )


def _check_sizes(network: tuple[NetworkLevel, ...]) -> None:
    for number, (inner, outer) in enumerate(pairwise(network), 1):
        if inner.devices is None:
            raise ShardError(f"network level {number} has no 'devices': only the last may omit it")
        if outer.devices is not None and outer.devices % inner.devices:
            raise ShardError(
                f"network level {number + 1} joins {outer.devices} devices: expected a multiple of "
                f"the {inner.devices} of the level inside it"
            )
    for number, level in enumerate(network, 1):
        if level.ring and level.devices is None:
            raise ShardError(f"network level {number} is a ring: expected 'devices', its size")


def _expect_keys(
    data: Mapping[str, Any], where: str, needed: tuple[str, ...], optional: tuple[str, ...] = ()
) -> None:
    missing = [f"'{key}'" for key in needed if key not in data]
    if missing:
        raise ShardError(f"{where} has no {', no '.join(missing)}")
    for key in data:
        if key not in needed + optional:
            known = ", ".join(needed + optional)
            raise ShardError(f"{where} has an unknown key '{key}': expected {known}")


def _expect(holds: bool, what: str, expected: str, found: object) -> None:
    if not holds:
        raise ShardError(f"{what} must be {expected}, found {found!r}")


def _text(data: Mapping[str, Any], key: str, where: str) -> str:
    _expect(isinstance(data[key], str), f"'{key}' of {where}", "a string", data[key])
    return str(data[key])


def _positive(data: Mapping[str, Any], key: str, where: str, least: float | None = None) -> float:
    """A finite number above 0, or from `least` on."""
    number = data[key]
    is_number = type(number) in (int, float) and number < float("inf")
    in_range = is_number and (number > 0 if least is None else number >= least)
    expected = "a positive number" if least is None else f"a number, at least {least}"
    _expect(in_range, f"'{key}' of {where}", expected, number)
    return float(number)
