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
        sizes = [int(size) for size in found["tiles"].split(",")]
        devices = np.array(_devices(found, prod(sizes))).reshape(sizes)
        places = np.empty((devices.size, rank), np.int64)
        for place, device in np.ndenumerate(devices):
            places[device] = place[:rank]  # those after it replicate
        return cls(tuple(sizes[:rank]), places)

    def tile_of(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The sizes of the first tile; the last ones may have less of the tensor."""
        return tuple(-(-size // count) for size, count in zip(shape, self.counts, strict=True))


_TILED = re.compile(
    r"devices=\[(?P<tiles>[\d,]+)\](<=\[(?P<shape>[\d,]+)\](T\((?P<order>[\d,]+)\))?|(?P<list>[\d,]+))"
    r"(\s+last_tile_dim_replicate|\s+last_tile_dims=\{(replicated)(, *replicated)*\})?"
    r"(\s+metadata=\{.*\})?"
)


def _devices(found: re.Match[str], count: int) -> list[int]:
    if found["list"]:
        return [int(device) for device in found["list"].split(",")]
    devices = np.arange(count).reshape([int(size) for size in found["shape"].split(",")])
    if found["order"]:
        devices = devices.transpose([int(axis) for axis in found["order"].split(",")])
    listed: list[int] = devices.reshape(-1).tolist()
    return listed


def listed_shardings(text: str, count: int) -> list[str]:
    """The sharding of each of several results, of one text for all of them."""
    inner = text.strip()
    if not inner.startswith("{{") and not (count != 1 and inner == "{}"):
        return [inner] * count
    return re.findall(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", inner[1:-1])
