"""A folder of one file a rank: each has the shards of one device, without padding.

    out/rank0.npz    result0, and result0.place: for each dimension start, stop, and global size
    out/rank1.npz    ...                        ranks: how many files; run: which run wrote them

Inputs are `arg0`, `arg1`, ... in the same way; their places may be left out. Where an argument has
halos, its shards hold them, as those of `scatter` do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from shard_dialect.codegen.array_types import Array, TensorType
from shard_dialect.codegen.lowered_program import Boundary, Program
from shard_dialect.errors import ShardError
from shard_dialect.model import Grid
from shard_dialect.processes.output_files import OutputFolder, file_of
from shard_dialect.runtime.array_files import arrays_in, checked

_PLACE, _RANKS, _RUN = ".place", "ranks", "run"
_Grids = Mapping[str, Grid]


def is_folder(path: str | None) -> bool:
    """Whether inputs or outputs are one file a rank."""
    return bool(path) and (str(path).endswith(os.sep) or Path(str(path)).is_dir())


def place_of(boundary: Boundary, rank: int, grids: _Grids) -> Array:
    """The place of a device's shard in its global tensor, one row a dimension."""
    shape = boundary.global_type.shape
    slices = boundary.shard(rank, grids)
    bounds = [each.indices(size)[:2] for each, size in zip(slices, shape, strict=True)]
    rows = [(a, max(a, b), size) for (a, b), size in zip(bounds, shape, strict=True)]
    return np.array(rows, np.int64).reshape(len(shape), 3)


def load_shards(folder: str, program: Program, rank: int) -> list[Array]:
    """Device `rank`'s shards of the arguments, padded to their local shapes."""
    path = file_of(folder, rank)
    arrays = arrays_in(path)
    places = {name: arrays.pop(name) for name in list(arrays) if name.endswith(_PLACE)}
    for name in (_RANKS, _RUN):
        arrays.pop(name, None)
    grids = program.grids
    held = [each.is_on(rank, grids) for each in program.arguments]
    here = [f"arg{number}" for number, is_held in enumerate(held) if is_held]
    if sorted(arrays) != sorted(here):
        found = ", ".join(sorted(arrays)) or "none"
        raise ShardError(f"'{path}' holds {found}; expected {', '.join(here) or 'none'}")
    shards = []
    for number, each in enumerate(program.arguments):
        name = f"arg{number}"
        if name not in here:
            shards.append(np.zeros(each.local.shape, each.local.dtype))
            continue
        place = place_of(each, rank, grids)
        given = places.get(name + _PLACE)
        if given is not None and not np.array_equal(given, place):
            raise ShardError(
                f"'{path}': {name} is {_text(given)} of its tensor, expected {_text(place)}"
            )
        halos = [sum(each.sharding.halo(dim)) if each.sharding else 0 for dim in range(len(place))]
        shape = tuple(
            int(stop - start) + halo for (start, stop, _), halo in zip(place, halos, strict=True)
        )
        type_ = TensorType(shape, each.global_type.dtype)
        shards.append(each.padded(checked(path, name, arrays[name], type_)))
    return shards


def save_shards(
    folder: OutputFolder, program: Program, shards: Sequence[Array], rank: int, run: str
) -> None:
    """Write device `rank`'s shards of the results, without padding."""
    arrays: dict[str, Array] = {_RANKS: np.array(program.devices), _RUN: np.array(run)}
    for number, (each, shard) in enumerate(zip(program.results, shards, strict=True)):
        if each.is_on(rank, program.grids):
            place = place_of(each, rank, program.grids)
            own = each.own(shard, rank, program.grids)
            arrays |= {f"result{number}": own, f"result{number}{_PLACE}": place}
    folder.replace(rank, lambda stream: np.savez(stream, allow_pickle=False, **arrays))


def join_shards(folder: str | os.PathLike[str]) -> dict[str, Array]:
    """Return the whole arrays of a folder that `run --outputs=FOLDER/` has written, by name.

    Raises `ShardError` if a file is missing, or is of another run.
    """
    first = arrays_in(file_of(os.fspath(folder), 0))
    if _RANKS not in first or _RUN not in first:
        raise ShardError(f"'{file_of(os.fspath(folder), 0)}' does not tell its run, as outputs do")
    joined: dict[str, Array] = {}
    missing: dict[str, int] = {}
    seen: set[tuple[str, bytes]] = set()
    for rank in range(int(first[_RANKS])):
        path = file_of(os.fspath(folder), rank)
        arrays = arrays_in(path)
        if str(arrays.get(_RUN)) != str(first[_RUN]):
            raise ShardError(f"'{path}' is of another run than '{file_of(os.fspath(folder), 0)}'")
        for name in arrays:
            if name + _PLACE in arrays:
                place, shard = arrays[name + _PLACE], arrays[name]
                shape = tuple(int(size) for size in place[:, 2])
                if name not in joined:
                    joined[name] = np.empty(shape, shard.dtype)
                    missing[name] = joined[name].size
                if (name, place.tobytes()) not in seen:
                    seen.add((name, place.tobytes()))
                    missing[name] -= shard.size
                joined[name][tuple(slice(int(a), int(b)) for a, b, _ in place)] = shard
    for name, number in missing.items():
        if number:
            raise ShardError(f"'{os.fspath(folder)}': {number} elements of {name} are missing")
    return joined


def _text(place: Array) -> str:
    rows = [f"{a}:{b} of {size}" for a, b, size in np.asarray(place).reshape(-1, 3).tolist()]
    return f"[{', '.join(rows)}]"
