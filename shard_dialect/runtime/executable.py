"""A lowered function compiled for this machine, which many devices can call.

The compiled code calls back for each collective, with its buffers. A `Communicator`, one for each
device, is passed to `Executable.run` and answers.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import Any, Protocol

import numpy as np

from shard_dialect.codegen.array_types import Array, TensorType
from shard_dialect.codegen.blas.numpy_blas import addresses
from shard_dialect.codegen.lowered_program import Site
from shard_dialect.codegen.machine_code import Code, Library, generate
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.passes.lower.mpi.mpi_code import BIND, FUNCTIONS
from shard_dialect.runtime.result_buffers import Frame, Results


class Communicator(Protocol):
    """One device's connection to the others."""

    rank: int

    def perform(self, site: Site, source: Array, target: Array) -> None:
        """Execute the collective of `site` on this device's shard `source`, into `target`."""


class Alone:
    """The communicator of a program without collectives."""

    rank = 0

    def perform(self, site: Site, source: Array, target: Array) -> None:
        """Never called."""
        raise ShardError("the unsharded program has a collective")


class Executable:
    """Compile the function `entry` of a module in the lowered form. The module is consumed."""

    def __init__(self, parsed: ir.Module, entry: str) -> None:
        self._start(*generate(parsed, entry))

    @classmethod
    def of(cls, code: Code, library: Library) -> Executable:
        """The executable of code that was compiled before."""
        executable = cls.__new__(cls)
        executable._start(code, library)
        return executable

    def _start(self, code: Code, library: Library) -> None:
        self.code, self.library = code, library
        self.program = code.program
        self._results = [Results(each.local) for each in self.program.results]
        self._frames: list[Frame] = []
        self._is_bound = not self.program.handles
        self._device = threading.local()
        rank = ctypes.CFUNCTYPE(ctypes.c_int64)(lambda: self._device.communicator.rank)
        callbacks = {name: _callback(self, site) for name, site in self.program.sites.items()}
        callbacks |= dict.fromkeys(self.program.ranks, rank)
        self._callbacks = {f"_mlir_ciface_{name}": each for name, each in callbacks.items()}
        known = {name: _address(each) for name, each in self._callbacks.items()}
        until_bound = dict.fromkeys(() if self._is_bound else FUNCTIONS, 0)
        self._table, self._entry = code.started(library, {**addresses(), **known, **until_bound})

    def bind(self, handles: Sequence[int], functions: Mapping[str, int]) -> None:
        """Pass the numbers that `Program.handles` describe, and MPI's functions, to native code."""
        self._table.replace(functions)
        values = np.array([handle % 2**64 for handle in handles], np.uint64)
        slots = values.ctypes.data + 8 * np.arange(len(values), dtype=np.int64)
        self.library.packed(BIND)(slots.ctypes.data)
        self._is_bound = True

    def run(self, inputs: Sequence[Array], communicator: Communicator) -> list[Array]:
        """Run on one device's shards; return its shards of the results.

        An exception of the communicator is raised here, once the code has run to its end: it cannot
        be stopped in the middle, so later collectives of this run do nothing.
        """
        if not self._is_bound:
            raise ShardError("the program calls MPI itself: run it by MPI, with --backend=mpi")
        outputs = [each.take() for each in self._results]
        frame = self._free_frame()
        arrays = [np.ascontiguousarray(array) for array in inputs]
        frame.point_at([*arrays, *outputs])
        self._device.communicator = communicator
        self._device.error = None
        self._entry(frame.address)
        self._frames.append(frame)
        if self._device.error is not None:
            raise self._device.error
        return outputs

    def _free_frame(self) -> Frame:
        with suppress(IndexError):  # another thread may take the last one
            return self._frames.pop()
        count = len(self.program.arguments) + len(self.program.results)
        return Frame(count, self.code.arena)

    def answer(self, site: Site, source: Array, target: Array) -> None:
        """Answer a collective of the code; an exception must not leave a C callback."""
        device = self._device
        if device.error is not None:
            return
        try:
            device.communicator.perform(site, source, target)
        except BaseException as error:  # `run` raises it again
            device.error = error


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _callback(executable: Executable, site: Site) -> Any:
    pointers = [ctypes.c_void_p] * (3 if site.phase else 2)
    signature = ctypes.CFUNCTYPE(None, *pointers)
    read, written = _views(site.source), _views(site.target)
    return signature(
        lambda source, target, *_: executable.answer(site, read(source), written(target))
    )


def _views(type_: TensorType) -> Callable[[int], Array]:
    """A function that gives the array of a buffer of this type, by the address of its descriptor.

    The threads of all devices call it while none of them computes, so it does little.
    """
    shape, dtype, size = type_.shape, type_.dtype, type_.dtype.itemsize
    if 0 in shape:
        return lambda descriptor: np.empty(shape, dtype)
    memory = ctypes.c_char * (prod(shape) * size)

    def view(descriptor: int) -> Array:
        _, aligned, offset = _Descriptor.from_address(descriptor)
        return np.ndarray(shape, dtype, memoryview(memory.from_address(aligned + offset * size)))

    return view


_Descriptor = ctypes.c_int64 * 3
"""The beginning of a descriptor: two addresses, and an offset in elements."""
