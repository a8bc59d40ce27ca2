"""Shardings of HLO: which tile of a tensor each device has.

Written from the documentation of XLA's `HloSharding`, whose texts are

    {replicated}    {maximal device=1}    {devices=[2,1,4]<=[8] last_tile_dim_replicate}
    {devices=[2,2]0,2,1,3}    {devices=[4,1]<=[2,2]T(1,0)}    {{replicated}, {devices=...}}
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from shard_dialect.errors import ShardError


@dataclass(frozen=True, slots=True, eq=False)
class Tiles:
    """The number of tiles along each dimension, and which tile each device has."""

    counts: tuple[int, ...]
    places: NDArray[np.int64]
    """For each device, by its number, the place of its tile in each dimension."""

    @classmethod
    def read(cls, text: str, rank: int) -> Tiles | None:
        """From the text of a sharding; `None` of a tensor that each device has whole."""
        text = text.strip().removeprefix("{").removesuffix("}").strip()
        if text in ("replicated", ""):
            return None
        found = _TILED.fullmatch(text)
        if found is None or "manual" in text:
            raise ShardError(f"the sharding {{{text}}} of HLO is not known to the prover")
        sizes = _numbers(found["tiles"])
        devices = devices_in(found).reshape(sizes)
        places = np.empty((devices.size, rank), np.int64)
        for place, device in np.ndenumerate(devices):
            places[device] = place[:rank]  # those after it replicate
        return cls(tuple(sizes[:rank]), places)

    def tile_of(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The sizes of the first tile; the last ones may have less of the tensor."""
        return tuple(-(-size // count) for size, count in zip(shape, self.counts, strict=True))


_ORDER = r"\[(?P<shape>[\d,]+)\](?:T\((?P<order>[\d,]+)\))?"
_LIST = r"(?P<list>[\d,]+)"
DEVICES = rf"(?:{_ORDER}|{_LIST})"
"""The order of a mesh's devices in HLO: numbers that are transposed, or listed."""
_TILED = re.compile(
    rf"devices=\[(?P<tiles>[\d,]+)\](?:<={_ORDER}|{_LIST})"
    r"(\s+last_tile_dim_replicate|\s+last_tile_dims=\{(replicated)(, *replicated)*\})?"
    r"(\s+metadata=\{.*\})?"
)


def devices_in(found: re.Match[str]) -> NDArray[np.int64]:
    """The devices in the order that a match of `DEVICES` has."""
    if found["list"]:
        return np.array(_numbers(found["list"]))
    shape = _numbers(found["shape"])
    devices = np.arange(prod(shape)).reshape(shape)
    return devices.transpose(_numbers(found["order"]) if found["order"] else None).reshape(-1)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def groups_along(
    devices: Sequence[int], shape: Sequence[int], parts: Sequence[tuple[int, int, int]]
) -> list[list[int]]:
    """Devices of a mesh, in row-major order, that differ along parts of axes only.

    A part is its axis, the size of what is major to it in the axis, and its own. In a group the
    last part is the fastest.
    """
    places = np.stack(np.unravel_index(np.arange(len(devices)), tuple(shape)), -1)
    inside = np.zeros(len(devices), np.int64)
    outside = places.copy()
    for axis, before, size in parts:
        after = shape[axis] // (before * size)
        digit = places[:, axis] // after % size
        inside = inside * size + digit
        outside[:, axis] -= digit * after
    groups: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for key, at, device in zip(outside.tolist(), inside.tolist(), devices, strict=True):
        groups.setdefault(tuple(key), []).append((at, int(device)))
    return [[device for _, device in sorted(group)] for group in groups.values()]


def listed_shardings(text: str, count: int) -> list[str]:
    """The sharding of each of several results, of one text for all of them."""
    inner = text.strip()
    if not inner.startswith("{{") and not (count != 1 and inner == "{}"):
        return [inner] * count
    return re.findall(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", inner[1:-1])
