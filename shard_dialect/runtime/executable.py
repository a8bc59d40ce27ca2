"""A lowered function compiled for this machine, which many devices can call.

The compiled code calls back for each collective, with its buffers. A `Communicator`, one for each
device, is passed to `Executable.run` and answers.

The memory that a run writes to is allocated for it, and freed: the next run may get the same from
the allocator, and so may others in between. Results of one program that are donated to another are
written to where that has them in its arena (`Executable.hand_over`).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, ClassVar, Protocol
from weakref import WeakValueDictionary

import numpy as np

from shard_dialect.abi.lowered_program import LibraryCall, Site
from shard_dialect.abi.tensor_types import Array, TensorType
from shard_dialect.backends.cpu.arena import ALIGNMENT
from shard_dialect.backends.cpu.blas import addresses
from shard_dialect.backends.cpu.machine_code import Code, Library, generate
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ops.library_calls import TORCH_TARGET
from shard_dialect.passes.lower.mpi.mpi_code import BIND, FUNCTIONS
from shard_dialect.runtime.lapack_calls import call_lapack
from shard_dialect.runtime.torch_calls import call_torch


class Frame:
    """The arguments of one call: pointers to the buffers, and behind them that to the arena."""

    def __init__(self, count: int) -> None:
        self._pointers = np.zeros(count + 1, np.int64)
        # The engine calls with pointers to the arguments; the only one is the pointer to pointers.
        self._argument = np.array([self._pointers.ctypes.data], np.int64)
        self._slots = np.array([self._argument.ctypes.data], np.int64)
        self.address = self._slots.ctypes.data

    def point_at(self, arrays: Sequence[Array]) -> None:
        """Let the code compute on these arrays."""
        for number, array in enumerate(arrays):
            self._pointers[number] = _address_of(array)


def _address_of(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


class Memory:
    """Bytes aligned to a cache line."""

    _owners: ClassVar[WeakValueDictionary[int, Array]] = WeakValueDictionary()
    """By the address of the first aligned byte, what is not freed yet."""

    def __init__(self, size: int, owner: Array | None = None) -> None:
        self.owner = np.empty(size + ALIGNMENT, np.uint8) if owner is None else owner
        start = -self.owner.ctypes.data % ALIGNMENT
        self.bytes = self.owner[start : start + size]
        self._owners[_address_of(self.bytes)] = self.owner

    @classmethod
    def at(cls, address: int, size: int) -> Memory | None:
        """The memory of such a size that begins there, if some does."""
        owner = cls._owners.get(address)
        return cls(size, owner) if owner is not None and owner.size == size + ALIGNMENT else None

    def part(self, offset: int, type_: TensorType) -> Array:
        """The array at such an offset."""
        end = offset + prod(type_.shape) * type_.dtype.itemsize
        return self.bytes[offset:end].view(type_.dtype).reshape(type_.shape)


class Communicator(Protocol):
    """One device's connection to the others."""

    rank: int

    def perform(self, site: Site, source: Array, target: Array) -> None:
        """Execute the collective of `site` on this device's shard `source`, into `target`."""


class CallingCommunicator(Communicator, Protocol):
    """One for programs that call more than collectives."""

    def call(self, function: Callable[..., None], *arguments: object) -> None:
        """Call a function that may raise, while other devices wait for this one."""


class Alone:
    """The communicator of a program without collectives."""

    rank = 0

    def perform(self, site: Site, source: Array, target: Array) -> None:
        """Never called."""
        raise ShardError("the unsharded program has a collective")

    def call(self, function: Callable[..., None], *arguments: object) -> None:
        """As `CallingCommunicator.call`."""
        function(*arguments)


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
        self._frames: list[Frame] = []
        self._is_bound = not self.program.handles
        self._handed: tuple[int, Mapping[int, int]] = 0, {}
        self._device = threading.local()
        rank = ctypes.CFUNCTYPE(ctypes.c_int64)(lambda: self._device.communicator.rank)
        callbacks = {name: _callback(self, site) for name, site in self.program.sites.items()}
        callbacks |= dict.fromkeys(self.program.ranks, rank)
        calls = self.program.library_calls
        callbacks |= {name: _library_callback(self, each) for name, each in calls.items()}
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

    def hand_over(self, following: Executable, pairs: Mapping[int, int]) -> None:
        """Let later runs write results, by numbers, where another program has arguments of its own.

        They are in its arena, if it has them as donated.
        """
        donated = dict(following.code.donated)
        places = {result: donated[number] for result, number in pairs.items() if number in donated}
        self._handed = following.code.arena, places

    def run(self, inputs: Sequence[Array], communicator: CallingCommunicator) -> list[Array]:
        """Run on one device's shards; return its shards of the results.

        An exception of the communicator is raised here, once the code has run to its end: it cannot
        be stopped in the middle, so later collectives of this run do nothing.
        """
        if not self._is_bound:
            raise ShardError("the program calls MPI itself: run it by MPI, with --backend=mpi")
        outputs = self._outputs()
        frame = self._free_frame()
        arrays = [np.ascontiguousarray(array) for array in inputs]
        arena = self._arena(arrays)
        frame.point_at([*arrays, *outputs, arena.bytes])
        self._device.communicator = communicator
        self._device.error = None
        self._entry(frame.address)
        self._frames.append(frame)
        if self._device.error is not None:
            raise self._device.error
        return outputs

    def _outputs(self) -> list[Array]:
        size, places = self._handed
        memory = Memory(size) if places else None
        types = [each.local for each in self.program.results]
        return [
            memory.part(places[number], type_)
            if memory is not None and number in places
            else Memory(prod(type_.shape) * type_.dtype.itemsize).part(0, type_)
            for number, type_ in enumerate(types)
        ]

    def _arena(self, arrays: Sequence[Array]) -> Memory:
        """That with the donated arguments, which are copied to one if they are elsewhere."""
        size, donated = self.code.arena, self.code.donated
        starts = {_address_of(arrays[number]) - offset for number, offset in donated}
        found = Memory.at(starts.pop(), size) if len(starts) == 1 else None
        if found is None:
            found = Memory(size)
            for number, offset in donated:
                found.part(offset, self.program.arguments[number].local)[...] = arrays[number]
        return found

    def _free_frame(self) -> Frame:
        with suppress(IndexError):  # another thread may take the last one
            return self._frames.pop()
        count = len(self.program.arguments) + len(self.program.results)
        return Frame(count)

    def answer(self, work: Callable[[CallingCommunicator], None]) -> None:
        """Do what the code calls back for; an exception must not leave a C callback."""
        device = self._device
        if device.error is not None:
            return
        try:
            work(device.communicator)
        except BaseException as error:  # `run` raises it again
            device.error = error


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _library_callback(executable: Executable, call: LibraryCall) -> Any:
    function = call_torch if call.target == TORCH_TARGET else partial(call_lapack, call.target)
    read, written = (list(map(_views, each)) for each in (call.operands, call.results))
    count = len(read)

    def answer(*descriptors: int) -> None:
        pairs = [each(at) for each, at in zip((*read, *written), descriptors, strict=True)]
        executable.answer(lambda by: by.call(function, call.text, pairs[:count], pairs[count:]))

    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (count + len(written)))(answer)


def _callback(executable: Executable, site: Site) -> Any:
    pointers = [ctypes.c_void_p] * (3 if site.phase else 2)
    read, written = _views(site.source), _views(site.target)
    if site.step.is_computed:
        sizes = site.grid.sizes_along(site.step.axes)
        return ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64)(
            lambda source, target, member: executable.answer(
                lambda by: by.perform(
                    replace(site, step=site.step.naming(member, sizes)),
                    read(source),
                    written(target),
                )
            )
        )
    signature = ctypes.CFUNCTYPE(None, *pointers)
    return signature(
        lambda source, target, *_: executable.answer(
            lambda by: by.perform(site, read(source), written(target))
        )
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
