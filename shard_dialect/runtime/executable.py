"""A lowered function compiled for this machine, ready to be called by many devices.

The compiled code calls back for each collective, with the buffers that it is on. `Executable.run`
says who answers: a `Communicator`, one for each device.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from shard_dialect.errors import ShardError
from shard_dialect.ir.attributes import COLLECTIVE, FORM, RANK
from shard_dialect.ir.bindings import PassManager, ir, part
from shard_dialect.ir.diagnostics import error_at, from_mlir
from shard_dialect.ir.function import drop_from_boundary
from shard_dialect.ir.grids import OPS as GRIDS
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.passes.mpi_code import BIND
from shard_dialect.runtime.arrays import Array, TensorType
from shard_dialect.runtime.blas import call_blas
from shard_dialect.runtime.lowered import Program, Site, find_function

_TO_LLVM = (
    "builtin.module(func.func(convert-linalg-to-loops),lower-affine,convert-scf-to-cf,"
    "convert-complex-to-standard,"
    "math-extend-to-supported-types,"
    "arith-emulate-unsupported-floats{source-types=bf16 target-type=f32},"
    "expand-strided-metadata,lower-affine,math-expand-ops,convert-math-to-llvm,"
    "convert-math-to-libm,arith-expand{include-bf16=true},convert-vector-to-llvm,"
    "convert-complex-to-llvm,finalize-memref-to-llvm,convert-index-to-llvm,convert-arith-to-llvm,"
    "convert-cf-to-llvm,convert-ub-to-llvm,convert-func-to-llvm,"
    "reconcile-unrealized-casts,canonicalize)"
)


class Communicator(Protocol):
    """One device's way to talk to the others."""

    rank: int

    def perform(self, site: Site, source: Array, target: Array) -> None:
        """Do the collective of `site` on this device's piece `source`, into `target`."""


class Executable:
    """Compile the function `entry` of a module in the lowered form. The module is used up."""

    def __init__(self, parsed: ir.Module, entry: str) -> None:
        module = parsed.operation
        with module.context, ir.Location.unknown():
            self.program = Program.read(module, entry)
            function = find_function(module, entry)
            called = call_blas(module) | _native(self.program)
            _strip(module, function)
            try:
                PassManager.parse(_TO_LLVM).run(module)
            except ir.MLIRError as error:
                raise from_mlir(error) from None
            self._load(parsed, entry, called)

    def _load(self, module: ir.Module, entry: str, called: dict[str, int]) -> None:
        for op in walk(module.operation):
            if not op.name.startswith("llvm."):
                raise error_at(
                    op.location,
                    f"'{op.name}' op cannot be run: there is no lowering to LLVM for it",
                )
        engine = part("execution_engine").ExecutionEngine(module, opt_level=3)
        self._engine = engine
        self._device = threading.local()
        sites = self.program.sites.items()
        self._callbacks = {name: _callback(self, site) for name, site in sites}
        rank = ctypes.CFUNCTYPE(ctypes.c_int64)(lambda: self._device.communicator.rank)
        self._callbacks |= dict.fromkeys(self.program.ranks, rank)
        if not self.program.handles:  # else the module's functions have bodies
            for name, callback in self._callbacks.items():
                engine.register_runtime(name, callback)
        for name, address in called.items():
            engine.raw_register_runtime(name, ctypes.c_void_p(address))
        address = engine.raw_lookup(f"_mlir_ciface_{entry}")
        if not address:
            raise ShardError(f"cannot compile @{entry}: it calls functions that are not there")
        self._code = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)

    def bind(self, handles: Sequence[int]) -> None:
        """Tell native code the numbers that `Program.handles` describe."""
        values = np.array([handle % 2**64 for handle in handles], np.uint64)
        slots = values.ctypes.data + 8 * np.arange(len(values), dtype=np.int64)
        packed = self._engine.raw_lookup(BIND)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(packed)(slots.ctypes.data)

    def run(self, inputs: Sequence[Array], communicator: Communicator) -> list[Array]:
        """Run on one device's pieces; gives its pieces of the results.

        An exception of the communicator comes out here, once the code has run to its end: it
        cannot be stopped in the middle, so later collectives of this run do nothing.
        """
        outputs = [np.empty(each.local.shape, each.local.dtype) for each in self.program.results]
        buffers = [np.ascontiguousarray(array) for array in inputs]
        buffers += outputs
        descriptors = [_descriptor(buffer) for buffer in buffers]
        pointers = np.array([each.ctypes.data for each in descriptors], np.int64)
        slots = pointers.ctypes.data + 8 * np.arange(len(pointers), dtype=np.int64)
        self._device.communicator = communicator
        self._device.error = None
        self._code(slots.ctypes.data)
        if self._device.error is not None:
            raise self._device.error
        return outputs

    def answer(self, site: Site, source: int, target: int) -> None:
        """What the code calls for a collective; an exception must not leave a C callback."""
        device = self._device
        if device.error is not None:
            return
        try:
            device.communicator.perform(
                site, _view(source, site.source), _view(target, site.target)
            )
        except BaseException as error:  # `run` raises it again
            device.error = error


def _native(program: Program) -> dict[str, int]:
    """The functions of MPI, where the code calls them itself."""
    if not program.handles:
        return {}
    from shard_dialect.runtime.native_mpi import functions

    return functions()


def _strip(module: ir.Operation, entry: ir.Operation) -> None:
    """Drop what LLVM does not know: grids, and our attributes."""
    for op in operations(body(module)):
        if op.name in GRIDS:
            op.erase()
            continue
        if op.name != "func.func":
            continue
        drop_from_boundary(op, "mesh.")
        for name in (FORM, COLLECTIVE, RANK):
            if name in op.attributes:
                del op.attributes[name]
    entry.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()


def _callback(executable: Executable, site: Site) -> object:
    pointers = [ctypes.c_void_p] * (3 if site.phase else 2)
    signature = ctypes.CFUNCTYPE(None, *pointers)
    return signature(lambda source, target, *_: executable.answer(site, source, target))


def _descriptor(array: Array) -> Array:
    """MLIR's descriptor of a contiguous buffer: two pointers, offset, sizes, strides."""
    strides = [stride // max(1, array.itemsize) for stride in array.strides]
    address = array.ctypes.data
    return np.array([address, address, 0, *array.shape, *strides], np.int64)


def _view(descriptor: int, type_: TensorType) -> Array:
    """The buffer that a descriptor in memory points at."""
    _, aligned, offset = (ctypes.c_int64 * 3).from_address(descriptor)
    count = int(np.prod(type_.shape))
    size = type_.dtype.itemsize
    if not count:
        return np.empty(type_.shape, type_.dtype)
    memory = (ctypes.c_char * (count * size)).from_address(aligned + offset * size)
    return np.frombuffer(memoryview(memory), type_.dtype).reshape(type_.shape)
