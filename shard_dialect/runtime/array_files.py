"""Arrays in files: random inputs, `.npz` and `.safetensors` files, and one file a rank.

Arrays of a file that are read by slices are mapped into memory, not read. Of a mapped array a
process holds what it has used, so a rank that takes its shard holds no more.

    .safetensors   u64 length, then JSON {"arg0": {"dtype": "F32", "shape": [8, 4],
                   "data_offsets": [0, 128]}, ...}, then the bytes
    .npz           a zip archive; members that are stored, not compressed, can be mapped

A folder may have one file a rank: each has the shards of one device, without padding.

    out/rank0.npz    result0, and result0.place: for each dimension start, stop, and global size
    out/rank1.npz    ...                        ranks: how many files; run: which run wrote them

Inputs have the names of the arguments, or `arg0`, `arg1`, ...; their places may be left out. Where
an argument has halos, its shards hold them, as those of `scatter` do.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
from collections.abc import Mapping, Sequence
from itertools import chain, compress
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np
from numpy.lib import format as npy

from shard_dialect.abi.lowered_program import Boundary, Program
from shard_dialect.abi.tensor_types import Array, TensorType
from shard_dialect.errors import ShardError, cannot, shown
from shard_dialect.model import Grid
from shard_dialect.model.sharding import Shape
from shard_dialect.processes.atomic_files import Output, OutputFolder, file_of

_DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U64": np.uint64,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
    "BOOL": np.bool_,
    "C64": np.complex64,
}
"""The element types of safetensors that programs can have."""
_LONGEST_HEADER = 100_000_000
"""The largest header, in bytes, by the definition of the format."""
_MAPPED = 1 << 20
"""Members of a `.npz` file that are smaller, in bytes, are read."""
_LOCAL_HEADER = 30


def safetensors_header(path: str) -> bytes:
    """The header of a safetensors file. Raises `OSError`, or `ShardError` if it has none."""
    with open(path, "rb") as file:
        start = file.read(8)
        (length,) = struct.unpack("<Q", start) if len(start) == 8 else (0,)
        header = file.read(length) if length <= _LONGEST_HEADER else b""
    if not header or len(header) < length:
        raise _no_safetensors(path, "it has no header")
    return header


def map_safetensors(path: str) -> dict[str, Array]:
    """The arrays of a safetensors file, mapped. Raises `OSError` and `ShardError`."""
    header = safetensors_header(path)
    begin, size = 8 + len(header), os.path.getsize(path)
    try:
        entries = json.loads(header)
        assert isinstance(entries, dict), "its header is an object"
        return {
            name: _mapped_member(path, name, entry, begin, size)
            for name, entry in entries.items()
            if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError, AssertionError, RecursionError):
        raise _no_safetensors(path, "its header is no table of tensors") from None


def _mapped_member(path: str, name: str, entry: Any, begin: int, size: int) -> Array:
    if entry["dtype"] not in _DTYPES:
        known = ", ".join(_DTYPES)
        raise ShardError(
            f"'{path}': {shown(name)} has dtype {shown(str(entry['dtype']))}, expected {known}"
        )
    dtype = np.dtype(_DTYPES[entry["dtype"]])
    shape = tuple(map(_size, entry["shape"]))
    start, stop = map(_size, entry["data_offsets"])
    length = prod(shape) * dtype.itemsize
    if stop - start != length or begin + stop > size:
        held = max(0, min(stop, size - begin) - start)
        raise ShardError(f"'{path}': {shown(name)} has {held} bytes, expected {length}")
    return _map(path, dtype, shape, begin + start)


def _size(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no size")
    return value


def _no_safetensors(path: str, why: str) -> ShardError:
    return ShardError(f"cannot read '{path}': it is no safetensors file: {why}")


def map_member(stream: BinaryIO, path: str, member: zipfile.ZipInfo) -> Array | None:
    """An array of a `.npz` file, mapped; `None` if it is to be read. Raises what numpy raises."""
    if member.compress_type != zipfile.ZIP_STORED or member.file_size < _MAPPED:
        return None
    stream.seek(member.header_offset)
    local = stream.read(_LOCAL_HEADER)
    name, extra = struct.unpack("<HH", local[26:])
    stream.seek(member.header_offset + _LOCAL_HEADER + name + extra)
    begin = stream.tell()
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        return None
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, is_fortran, dtype = read(stream)
    header = stream.tell() - begin
    if dtype.hasobject or is_fortran or header + prod(shape) * dtype.itemsize != member.file_size:
        return None
    return _map(path, dtype, shape, stream.tell())


def _map(path: str, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int) -> Array:
    if not prod(shape):
        return np.empty(shape, dtype)
    return np.asarray(np.memmap(path, dtype, "r", offset, shape))


SAFETENSORS = ".safetensors"


def shapes_in(path: str) -> dict[str, Shape]:
    """The shapes of a file's arrays."""
    return {name: array.shape for name, array in arrays_in(path).items()}


Names = Sequence[tuple[str, ...]]
"""The names that each argument may have in a file, the one that messages give last."""


def load_inputs(path: str, types: Sequence[TensorType], named: Names = ()) -> list[Array]:
    """The arrays of a file for arguments, `arg0` and so on; raise unless their types are `types`.

    Large ones are mapped, if the file allows, so that a process that uses a part holds no more.
    """
    arrays = arrays_in(path)
    names = _chosen(path, arrays, named or [(f"arg{index}",) for index in range(len(types))])
    return [
        checked(path, name, arrays[name], type_) for name, type_ in zip(names, types, strict=True)
    ]


def _chosen(path: str, arrays: Mapping[str, Array], named: Names) -> list[str]:
    """The name under which a file has each argument; raise unless it has these only, once each."""
    chosen = [[each for each in names if each in arrays] for names in named]
    if sorted(arrays) != sorted(chain.from_iterable(chosen)) or any(len(e) != 1 for e in chosen):
        found = ", ".join(sorted(arrays)) or "none"
        expected = ", ".join(names[-1] for names in named) or "none"
        lacking = [names[-1] for names in named if not any(each in arrays for each in names)]
        lacks = f": it lacks {', '.join(lacking)}" if lacking else ""
        raise ShardError(f"'{path}' holds {found}; expected {expected}{lacks}")
    return [name for (name,) in chosen]


def checked(path: str, name: str, array: Array, type_: TensorType) -> Array:
    """An array of a file, as a tensor of this type; raise `ShardError` unless it is one."""
    _check_type(path, name, array, type_)
    return np.asarray(array.view(type_.dtype), order="C")


def arrays_in(path: str) -> dict[str, Array]:
    """The arrays of a file by name, mapped or read. Raises `ShardError`."""
    try:
        if path.endswith(SAFETENSORS):
            return map_safetensors(path)
        with open(path, "rb") as stream, np.load(stream) as file:
            mapped = _mapped(path)
            return {
                name: mapped[name] if name in mapped else _read(path, file, name)
                for name in file.files
            }
    except OSError as error:
        raise cannot("read", path, error) from None
    except (ShardError, MemoryError):
        raise
    except Exception as error:  # whatever numpy, zipfile and zlib raise for its content
        is_unknown = isinstance(error, NotImplementedError | RuntimeError)
        reason = f": {error}" if is_unknown else ""
        raise ShardError(f"cannot read '{path}': it is no .npz file of arrays{reason}") from None


def _mapped(path: str) -> dict[str, Array]:
    with zipfile.ZipFile(path) as file, open(path, "rb") as stream:
        found = {
            member.filename.removesuffix(".npy"): map_member(stream, path, member)
            for member in file.infolist()
            if member.filename.endswith(".npy")
        }
    return {name: array for name, array in found.items() if array is not None}


def _read(path: str, file: Mapping[str, Array], name: str) -> Array:
    try:
        return file[name]
    except ValueError as error:
        if "Object arrays" in str(error):
            raise ShardError(f"'{path}': {name} has dtype object: its elements are none") from None
        raise


def _check_type(path: str, name: str, array: Array, type_: TensorType) -> None:
    if array.dtype.names is not None:
        raise ShardError(
            f"'{path}': {name} has the structured dtype {array.dtype}, expected {type_.dtype}"
        )
    if array.shape != type_.shape:
        raise ShardError(
            f"'{path}': {name} has shape {_shape(array.shape)}, expected {_shape(type_.shape)}"
        )
    # numpy writes element types that it does not know, such as bf16, as raw bytes.
    is_known = type_.dtype.isbuiltin == 1
    raw = array.dtype.type is np.void and array.dtype.itemsize == type_.dtype.itemsize
    if array.dtype != type_.dtype and (is_known or not raw):
        raise ShardError(f"'{path}': {name} has dtype {array.dtype}, expected {type_.dtype}")


def _shape(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "()"


def save_outputs(file: Output, outputs: Sequence[Array]) -> None:
    """Write `result0`, `result1`, ... to a `.npz` file."""
    arrays: Mapping[str, Array] = {f"result{i}": each for i, each in enumerate(outputs)}
    file.replace(lambda stream: np.savez(stream, allow_pickle=False, **arrays))


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
    own = {_RANKS, _RUN}
    named = [
        tuple(name for name in names if name not in own and not name.endswith(_PLACE))
        for names in program.argument_names()
    ]
    names = iter(_chosen(path, arrays, list(compress(named, held))))
    shards = []
    for each, is_held in zip(program.arguments, held, strict=True):
        if not is_held:
            shards.append(np.zeros(each.local.shape, each.local.dtype))
            continue
        name = next(names)
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
