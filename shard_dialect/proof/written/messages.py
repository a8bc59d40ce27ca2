"""What a child process is asked, and answers: a line of JSON, then the bytes of its `arrays`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np


def read_message(file: BinaryIO) -> tuple[dict[str, Any], list[Any]] | None:
    """A message and its arrays; `None` at the end."""
    line = file.readline()
    if not line:
        return None
    message = json.loads(line)
    found = []
    for shape, dtype in message["arrays"]:
        if dtype not in _SENT:
            raise ValueError(f"an array of {dtype}")
        count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        data = file.read(count)
        if len(data) != count:
            return None
        found.append(np.frombuffer(bytearray(data), dtype).reshape(shape))
    return message, found


_SENT = frozenset(
    "uint64 int64 float32 float64 float16 int32 int16 int8 uint8 uint16 uint32 bool complex64 "
    "complex128".split()
)


def write_message(file: BinaryIO, message: Mapping[str, Any], given: Sequence[Any]) -> None:
    """A message and its arrays."""
    listed = [(each.shape, str(each.dtype)) for each in given]
    file.write(json.dumps({**message, "arrays": listed}).encode() + b"\n")
    for each in given:
        file.write(np.ascontiguousarray(each).tobytes())
    file.flush()
