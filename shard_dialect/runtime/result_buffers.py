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
    """The arguments of one call: descriptors of buffers, and the arena."""

    def __init__(self, types: Sequence[TensorType], arena: int) -> None:
        self._arena = _aligned(arena)
        shapes = [*(type_.shape for type_ in types), (arena,)]
        words: list[int] = []
        self._descriptor_starts: list[int] = []
        for shape in shapes:
            self._descriptor_starts.append(len(words))
            words += [0, 0, 0, *shape, *_strides(shape)]
        self._words = np.array(words, np.int64)
        start = self._words.ctypes.data
        # The engine calls with pointers to the arguments, which are pointers to descriptors.
        self._pointers = np.array([start + 8 * at for at in self._descriptor_starts], np.int64)
        start = self._pointers.ctypes.data
        self._slots = start + 8 * np.arange(len(self._pointers), dtype=np.int64)
        self.address = self._slots.ctypes.data
        self._point(len(types), self._arena)

    def point_at(self, arrays: Sequence[Array]) -> None:
        """Let the descriptors describe these arrays."""
        for number, array in enumerate(arrays):
            self._point(number, array)

    def _point(self, number: int, array: Array) -> None:
        start = self._descriptor_starts[number]
        self._words[start] = self._words[start + 1] = array.__array_interface__["data"][0]


def _strides(shape: Sequence[int]) -> list[int]:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * size)
    return strides[::-1][: len(shape)] if shape else []


def _aligned(size: int) -> Array:
    """Bytes aligned to a cache line."""
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]
