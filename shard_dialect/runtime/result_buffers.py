"""Memory that runs of an executable write to, kept between runs, since new memory is paged in."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence

import numpy as np

from shard_dialect.codegen.arena import ALIGNMENT
from shard_dialect.codegen.array_types import Array, TensorType

_KEPT = 65536
"""The size in bytes from which on a result's memory is reused."""


class Results:
    """Arrays for one result; memory is reused once nothing refers to its array."""

    def __init__(self, type_: TensorType) -> None:
        self._type = type_
        self._bytes = int(np.prod(type_.shape)) * type_.dtype.itemsize
        self._free: list[Array] = []

    def take(self) -> Array:
        """An array for the result, with old content."""
        if self._bytes < _KEPT:
            return np.empty(self._type.shape, self._type.dtype)
        try:  # devices are threads: another may take the last one
            memory = self._free.pop()
        except IndexError:
            memory = _aligned(self._bytes)
        # All views of the array refer to this object: numpy shortens chains of arrays.
        holder = (ctypes.c_char * self._bytes).from_buffer(memory.data)
        weakref.finalize(holder, self._free.append, memory).atexit = False
        return np.frombuffer(memoryview(holder), self._type.dtype).reshape(self._type.shape)


class Frame:
    """The arguments of one call: pointers to the buffers, and behind them that to the arena."""

    def __init__(self, count: int, arena: int) -> None:
        self._arena = _aligned(arena)
        self._pointers = np.zeros(count + 1, np.int64)
        # The engine calls with pointers to the arguments; the only one is the pointer to pointers.
        self._argument = np.array([self._pointers.ctypes.data], np.int64)
        self._slots = np.array([self._argument.ctypes.data], np.int64)
        self.address = self._slots.ctypes.data
        self._pointers[count] = _address(self._arena)

    def point_at(self, arrays: Sequence[Array]) -> None:
        """Let the code compute on these arrays."""
        for number, array in enumerate(arrays):
            self._pointers[number] = _address(array)


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _aligned(size: int) -> Array:
    """Bytes aligned to a cache line."""
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]
