"""Arrays of a file that are read by slices: they are mapped into memory, not read.

Of a mapped array a process holds what it has used, so a rank that takes its shard holds no more.

    .safetensors   u64 length, then JSON {"arg0": {"dtype": "F32", "shape": [8, 4],
                   "data_offsets": [0, 128]}, ...}, then the bytes
    .npz           a zip archive; members that are stored, not compressed, can be mapped
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
from math import prod
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np
from numpy.lib import format as npy

from shard_dialect.codegen.array_types import Array
from shard_dialect.errors import ShardError, shown

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
            name: _mapped(path, name, entry, begin, size)
            for name, entry in entries.items()
            if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError, AssertionError, RecursionError):
        raise _no_safetensors(path, "its header is no table of tensors") from None


def _mapped(path: str, name: str, entry: Any, begin: int, size: int) -> Array:
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
