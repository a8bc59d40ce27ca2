"""The rates of one device and of its network: a small TOML file, as a plain value.

    name = "two hosts of four"
    sources = ["https://..."]

    [flops]                     # per second, by element type
    f32 = 19.5e12

    [memory]
    bytes = 80e9
    bytes_per_second = 2.0e12
    cache_bytes = 40e6          # 0 if it is left out

    [efficiency]                # what programs reach of the rates; 1 where it is left out
    products = 0.7
    memory = 0.85
    network = 0.8

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
`docs/device-models.md` describes the format. The same is written in Python as `DeviceModel(...)`,
which `register_device_model` gives a name.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from shard_dialect.errors import ShardError, cannot, did_you_mean, first_line_of, value_text

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


@dataclass(frozen=True, slots=True)
class Efficiency:
    """The part of each peak rate that programs reach."""

    products: float = 1.0
    memory: float = 1.0
    network: float = 1.0


@dataclass(frozen=True)
class DeviceModel:
    """The rates at which a device computes, stores and sends; the innermost level is first."""

    name: str
    flops: tuple[tuple[str, float], ...]
    """The floating-point operations of matrix products per second; given as a dict, too."""
    memory_bytes: int
    memory_bytes_per_second: float
    network: tuple[NetworkLevel, ...] = ()
    sources: tuple[str, ...] = ()
    cache_bytes: int = 0
    """The bytes that stay on the chip: what was touched so lately is not read from the memory."""
    efficiency: Efficiency = Efficiency()

    def __init__(
        self,
        name: str,
        flops: Mapping[str, float] | Sequence[tuple[str, float]],
        memory_bytes: int,
        memory_bytes_per_second: float,
        network: Sequence[NetworkLevel] = (),
        sources: Sequence[str] = (),
        cache_bytes: int = 0,
        efficiency: Efficiency = Efficiency(),
    ) -> None:
        """Raise `ShardError` for what no device has."""
        if isinstance(flops, list | tuple) and all(map(_is_pair, flops)):
            flops = dict(flops)
        is_named = isinstance(flops, Mapping) and all(isinstance(each, str) for each in flops)
        _expect(is_named, "'flops'", "a dict, or pairs, of rates by element types", flops)
        _expect_all("'network'", "NetworkLevels", network, NetworkLevel)
        _expect_all("'sources'", "strings", sources, str)
        _expect(type(efficiency) is Efficiency, "'efficiency'", "an Efficiency", efficiency)
        rates = tuple(dict(flops).items())
        memory = memory_bytes, memory_bytes_per_second
        given = name, rates, *memory, tuple(network), tuple(sources), cache_bytes, efficiency
        for field, value in zip(fields(self), given, strict=True):
            object.__setattr__(self, field.name, value)
        _check(self._data())

    def _data(self) -> dict[str, Any]:
        """As in the file."""
        return {
            "name": self.name,
            "flops": dict(self.flops),
            "memory": {
                "bytes": self.memory_bytes,
                "bytes_per_second": self.memory_bytes_per_second,
                "cache_bytes": self.cache_bytes,
            },
            "efficiency": _as_given(self.efficiency),
            "network": list(map(_as_given, self.network)),
            "sources": list(self.sources),
        }

    @classmethod
    def read(cls, given: str | DeviceModel) -> DeviceModel:
        """The device model of this name, that in a file of the user, or the one that is given.

        Raises `ShardError` for a file that cannot be read, and for one with a mistake.

        >>> DeviceModel.read("h100").network[0].name
        'NVLink'
        """
        if type(given) is DeviceModel:
            return given
        if not isinstance(given, str):
            raise ShardError(
                f"the device model is a {type(given).__name__}: give its name, or a DeviceModel"
                f"{_NO_SUBCLASS if isinstance(given, DeviceModel) else ''}"
            )
        if given in _REGISTERED:
            return _REGISTERED[given]
        names = device_model_names()
        path = Path(given)
        if given in names:
            path = _FOLDER / f"{given}.toml"
        elif path.suffix != ".toml":
            raise ShardError(
                f"no device model is named '{given}': expected one of {', '.join(names)}, "
                f"or a file that ends in .toml{did_you_mean(given, names)}"
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
            *([f"cache_bytes = {self.cache_bytes}"] if self.cache_bytes else []),
        ]
        if self.efficiency != Efficiency():
            lines += [
                "\n[efficiency]",
                *(f"{key} = {part:.4g}" for key, part in asdict(self.efficiency).items()),
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
        """What products reach; as with the lowest rate for an element type that is not listed."""
        peak = self._rates.get(element) or min(self._rates.values())
        return peak * self.efficiency.products

    def op_seconds(self, flops: float, element: str, touched: float) -> tuple[float, float]:
        """The seconds of an op's arithmetic, and those of its traffic with the memory in bytes.

        The op takes the longer of the two (the roofline model).
        """
        moving = touched / (self.memory_bytes_per_second * self.efficiency.memory)
        return flops / self.flops_per_second(element), moving

    @cached_property
    def links(self) -> tuple[NetworkLevel, ...]:
        """The network with the bandwidth that programs reach."""
        part = self.efficiency.network
        return tuple(
            replace(level, bytes_per_second=level.bytes_per_second * part) for level in self.network
        )

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


_REGISTERED: dict[str, DeviceModel] = {}


def register_device_model(name: str, model: DeviceModel) -> None:
    """Let `name` stand for a device model wherever one is named, as in `--device-model`.

    Raises `ShardError` for a name that another one has.
    """
    if type(model) is not DeviceModel:
        itself = _NO_SUBCLASS if isinstance(model, DeviceModel) else ""
        raise ShardError(
            f"device model '{name}' is a {type(model).__name__}: give a DeviceModel{itself}"
        )
    if name in device_model_names() and _REGISTERED.get(name) != model:
        raise ShardError(f"there is a device model '{name}' already")
    _REGISTERED[name] = model


def device_model_names() -> list[str]:
    """The names of the device models that come with the package, and of those registered."""
    return sorted({*(path.stem for path in _FOLDER.glob("*.toml")), *_REGISTERED})


_MOST = 1e100
_NO_SUBCLASS = " itself, since its methods are not called for each price"


def _as_given(given: Efficiency | NetworkLevel) -> dict[str, Any]:
    """The fields; unlike `asdict`, it copies none."""
    return {each.name: getattr(given, each.name) for each in fields(given)}


def _is_pair(each: object) -> bool:
    return isinstance(each, list | tuple) and len(each) == 2 and isinstance(each[0], str)


def _expect_all(what: str, expected: str, found: object, kind: type) -> None:
    """Raise `ShardError` unless `found` is a list of these."""
    holds = isinstance(found, list | tuple) and all(type(each) is kind for each in found)
    _expect(holds, what, f"a list of {expected}", found)


def _model(data: dict[str, Any]) -> DeviceModel:
    _check(data)
    return DeviceModel(
        data["name"],
        tuple((each, float(rate)) for each, rate in data["flops"].items()),
        int(data["memory"]["bytes"]),
        float(data["memory"]["bytes_per_second"]),
        tuple(NetworkLevel(**{"devices": None, **each}) for each in data.get("network", [])),
        tuple(data.get("sources", [])),
        int(data["memory"].get("cache_bytes", 0)),
        Efficiency(**data.get("efficiency", {})),
    )


def _check(data: Mapping[str, Any]) -> None:
    where = "the device model"
    _expect_keys(data, where, ("name", "flops", "memory"), ("sources", "network", "efficiency"))
    efficiency = data.get("efficiency", {})
    tables = {"flops": data["flops"], "memory": data["memory"], "efficiency": efficiency}
    for key, table in tables.items():
        _expect(isinstance(table, dict), f"'{key}'", "a table", table)
    sources = data.get("sources", [])
    are_texts = isinstance(sources, list) and all(isinstance(each, str) for each in sources)
    _expect(are_texts, "'sources'", "a list of strings", sources)
    memory = data["memory"]
    _expect_keys(memory, "[memory]", ("bytes", "bytes_per_second"), ("cache_bytes",))
    _expect_keys(efficiency, "[efficiency]", (), ("products", "memory", "network"))
    _expect(bool(data["flops"]), "[flops]", "a rate for at least one element type", data["flops"])
    levels = data.get("network", [])
    are_tables = isinstance(levels, list) and all(isinstance(each, dict) for each in levels)
    _expect(are_tables, "'network'", "a list of tables", levels)
    _expect_name(data, where)
    for each in data["flops"]:
        _expect_positive(data["flops"], each, "[flops]")
    _expect_positive(memory, "bytes", "[memory]")
    _expect_positive(memory, "bytes_per_second", "[memory]")
    if "cache_bytes" in memory:
        _expect_positive(memory, "cache_bytes", "[memory]", least=0)
    for each in efficiency:
        _expect_positive(efficiency, each, "[efficiency]")
        _expect(efficiency[each] <= 1, f"'{each}' of [efficiency]", "at most 1", efficiency[each])
    for number, each in enumerate(levels, 1):
        _check_level(each, f"network level {number}")
    _check_sizes(levels)


def _check_level(data: Mapping[str, Any], where: str) -> None:
    _expect_keys(data, where, ("name", "bytes_per_second", "latency"), ("devices", "ring"))
    devices, ring = data.get("devices"), data.get("ring", False)
    is_count = devices is None or (type(devices) is int and devices > 0)
    _expect(is_count, f"'devices' of {where}", "a positive integer", devices)
    _expect(isinstance(ring, bool), f"'ring' of {where}", "true or false", ring)
    _expect_name(data, where)
    _expect_positive(data, "bytes_per_second", where)
    _expect_positive(data, "latency", where, least=0)


def _check_sizes(network: Sequence[Mapping[str, Any]]) -> None:
    sizes = [level.get("devices") for level in network]
    for number, (inner, outer) in enumerate(pairwise(sizes), 1):
        if inner is None:
            raise ShardError(f"network level {number} has no 'devices': only the last may omit it")
        if outer is not None and outer % inner:
            raise ShardError(
                f"network level {number + 1} joins {outer} devices: expected a multiple of "
                f"the {inner} of the level inside it"
            )
    for number, (level, size) in enumerate(zip(network, sizes, strict=True), 1):
        if level.get("ring") and size is None:
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
        raise ShardError(f"{what} must be {expected}, found {value_text(found)}")


def _expect_name(data: Mapping[str, Any], where: str) -> None:
    _expect(isinstance(data["name"], str), f"'name' of {where}", "a string", data["name"])


def _expect_positive(
    data: Mapping[str, Any], key: str, where: str, least: float | None = None
) -> None:
    """A finite number above 0, or from `least` on."""
    number = data[key]
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    is_number = is_number and number <= _MOST
    in_range = is_number and (number > 0 if least is None else number >= least)
    expected = "a positive number" if least is None else f"a number, at least {least}"
    _expect(in_range, f"'{key}' of {where}", expected, number)
