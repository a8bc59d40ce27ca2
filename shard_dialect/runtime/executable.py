"""A lowered function compiled for this machine, ready to be called by many devices.

The compiled code calls back for each collective, with the buffers that it is on. `Executable.run`
says who answers: a `Communicator`, one for each device.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from shard_dialect.errors import ShardError
from shard_dialect.ir.attributes import (
    ARGUMENT,
    COLLECTIVE,
    FORM,
    RESULT,
    Shardings,
)
from shard_dialect.ir.bindings import PassManager, ir, part
from shard_dialect.ir.diagnostics import error_at, from_mlir, located
from shard_dialect.ir.local import read_local
from shard_dialect.ir.program import Function
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Grid, Sharding, Step
from shard_dialect.runtime.arrays import Array, TensorType, dtype_of
from shard_dialect.runtime.blas import call_blas

_TO_LLVM = (
    "builtin.module(func.func(convert-linalg-to-loops),lower-affine,convert-scf-to-cf,"
    "math-extend-to-supported-types,"
    "arith-emulate-unsupported-floats{source-types=bf16 target-type=f32},"
    "expand-strided-metadata,lower-affine,math-expand-ops,convert-math-to-llvm,"
    "convert-math-to-libm,arith-expand{include-bf16=true},convert-vector-to-llvm,finalize-memref-to-llvm,"
    "convert-index-to-llvm,convert-arith-to-llvm,convert-cf-to-llvm,convert-func-to-llvm,"
    "reconcile-unrealized-casts,canonicalize)"
)


class Communicator(Protocol):
    """One device's way to talk to the others."""

    def perform(self, site: Site, source: Array, target: Array) -> None:
        """Do the collective of `site` on this device's piece `source`, into `target`."""


@dataclass(frozen=True)
class Site:
    """A collective of the program: the step, on which grid, and the local types."""

    step: Step
    grid: Grid
    source: TensorType
    target: TensorType


@dataclass(frozen=True)
class Boundary:
    """One argument or result: its local type, its global type, and how the global one lies."""

    local: TensorType
    whole: TensorType
    sharding: Sharding | None
    """`None`: whole on every device."""

    def piece(self, rank: int, grids: Mapping[str, Grid]) -> tuple[slice, ...]:
        """The part of the global tensor that device `rank` holds."""
        if self.sharding is None:
            return (slice(None),) * len(self.whole.shape)
        return self.sharding.piece(rank, self.whole.shape, grids[self.sharding.grid])


class Executable:
    """Compile the function `entry` of a module in the lowered form. The module is used up."""

    def __init__(self, parsed: ir.Module, entry: str) -> None:
        module = parsed.operation
        with module.context, ir.Location.unknown():
            shardings = Shardings.of(module)
            function = _function(module, entry)
            self.grids = shardings.grids
            self.arguments = _boundary(function, ARGUMENT, shardings)
            self.results = _boundary(function, RESULT, shardings)
            self.sites = _sites(module, shardings)
            self.calls = _calls(module, entry, self.sites)
            called = call_blas(module)
            _strip(module, function)
            try:
                PassManager.parse(_TO_LLVM).run(module)
            except ir.MLIRError as error:
                raise from_mlir(error) from None
            self._load(parsed, entry, called)

    def _load(self, module: ir.Module, entry: str, called: dict[str, int]) -> None:
        for op in walk(module.operation):
            if not op.name.startswith("llvm."):
                raise error_at(op.location, "cannot be run: there is no lowering to LLVM for it")
        engine = part("execution_engine").ExecutionEngine(module, opt_level=3)
        self._engine = engine
        self._callbacks = {name: _callback(self, site) for name, site in self.sites.items()}
        for name, callback in self._callbacks.items():
            engine.register_runtime(name, callback)
        for name, address in called.items():
            engine.raw_register_runtime(name, ctypes.c_void_p(address))
        address = engine.raw_lookup(f"_mlir_ciface_{entry}")
        if not address:
            raise ShardError(f"cannot compile @{entry}: it calls functions that are not there")
        self._code = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)
        self._device = threading.local()

    def run(self, inputs: Sequence[Array], communicator: Communicator) -> list[Array]:
        """Run on one device's pieces; gives its pieces of the results.

        An exception of the communicator comes out here, once the code has run to its end: it
        cannot be stopped in the middle, so later collectives of this run do nothing.
        """
        outputs = [np.empty(each.local.shape, each.local.dtype) for each in self.results]
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

    @property
    def devices(self) -> int:
        """How many devices the program is for; 1 if it has nothing to do with a grid."""
        named = {each.sharding.grid for each in self.arguments + self.results if each.sharding}
        used = {site.grid for site in self.calls} | {self.grids[name] for name in named}
        sizes = sorted({grid.size for grid in used or self.grids.values() if grid.is_static})
        if len(sizes) > 1:
            raise ShardError(f"the program is for grids of {sizes[0]} and of {sizes[1]} devices")
        return sizes[0] if sizes else 1

    def scatter(self, inputs: Sequence[Array], rank: int) -> list[Array]:
        """Device `rank`'s pieces of the global `inputs`."""
        return [
            np.ascontiguousarray(array[each.piece(rank, self.grids)])
            for array, each in zip(inputs, self.arguments, strict=True)
        ]

    def gather(self, pieces: Sequence[Sequence[Array]]) -> list[Array]:
        """The global results from all devices' pieces, by rank."""
        outputs = []
        for number, each in enumerate(self.results):
            whole = np.empty(each.whole.shape, each.whole.dtype)
            for rank, of_device in enumerate(pieces):
                whole[each.piece(rank, self.grids)] = of_device[number]
            outputs.append(whole)
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


def choose_entry(module: ir.Operation, name: str | None) -> str:
    """The function to run: `name`, else `main`, else the only public one."""
    public = [
        op.attributes["sym_name"].value
        for op in operations(body(module))
        if op.name == "func.func"
        and len(op.regions[0].blocks)
        and "sym_visibility" not in op.attributes
    ]
    names = ", ".join(f"@{each}" for each in public) or "none"
    if name is not None:
        _function(module, name)
        return name
    if "main" in public:
        return "main"
    if len(public) != 1:
        raise ShardError(
            f"which function to run is not clear: name one with --entry; there are {names}"
        )
    return public[0]


def _function(module: ir.Operation, name: str) -> ir.Operation:
    functions = {
        op.attributes["sym_name"].value: op
        for op in operations(body(module))
        if op.name == "func.func" and len(op.regions[0].blocks)
    }
    if name not in functions:
        known = ", ".join(f"@{each}" for each in functions) or "none"
        raise ShardError(f"there is no function @{name} to run; there are {known}")
    return functions[name]


def _boundary(handle: ir.Operation, key: str, shardings: Shardings) -> list[Boundary]:
    """The arguments (or results, which the lowered form has as its last arguments)."""
    function = Function(handle, "")
    found = []
    types = handle.attributes["function_type"].value
    if types.results:
        raise error_at(handle.location, f"cannot run a function that returns a {types.results[0]}")
    for type_, attributes in zip(types.inputs, function.boundary("arg_attrs"), strict=True):
        is_result = RESULT in attributes
        if is_result != (key == RESULT):
            continue
        if not isinstance(type_, ir.MemRefType) or not type_.has_static_shape:
            raise error_at(
                handle.location, f"cannot run a function on a {type_}: only tensors of known size"
            )
        local = _tensor_type(type_)
        whole, sharding = local, None
        if key in attributes:
            global_type = attributes[key].value
            whole = _tensor_type(global_type)
            sharding = shardings.of_type(global_type)
            if sharding is not None and sharding.partial:
                raise error_at(
                    handle.location,
                    f"cannot run a function whose argument or result is partial: {sharding}",
                )
        found.append(Boundary(local, whole, sharding))
    return found


def _tensor_type(type_: ir.ShapedType) -> TensorType:
    return TensorType(tuple(type_.shape), dtype_of(type_.element_type))


def _sites(module: ir.Operation, shardings: Shardings) -> dict[str, Site]:
    """The declared collectives by the name of their runtime function."""
    sites = {}
    for op in operations(body(module)):
        if COLLECTIVE not in op.attributes:
            continue
        what = op.attributes[COLLECTIVE]
        read = read_local(what["name"].value, what)
        if read is None:
            raise error_at(op.location, f"{what['name']} cannot be run yet")
        source, target = map(_tensor_type, op.attributes["function_type"].value.inputs)
        sites[op.attributes["sym_name"].value] = Site(
            read[1], shardings.grid(read[0]), source, target
        )
    return sites


_RUNTIME = ("dealloc_helper",)
"""Functions that upstream's passes make, and that call nothing of ours."""


def _calls(
    module: ir.Operation, entry: str, sites: dict[str, Site], callers: tuple[str, ...] = ()
) -> list[Site]:
    """The collectives that `entry` calls, in the order of the text, calls of calls included."""
    calls = []
    for op in walk(_function(module, entry)):
        if op.name != "func.call":
            continue
        callee = op.attributes["callee"].value
        if callee in (*callers, entry):
            raise error_at(op.location, f"cannot run @{callee}, which calls itself")
        if callee in sites:
            calls.append(sites[callee])
        elif callee not in _RUNTIME:
            with located(op):
                if _is_external(module, callee):
                    raise ShardError(f"cannot run @{callee}: it is only declared")
                calls += _calls(module, callee, sites, (*callers, entry))
    return calls


def _is_external(module: ir.Operation, name: str) -> bool:
    return any(
        op.name == "func.func"
        and op.attributes["sym_name"].value == name
        and not len(op.regions[0].blocks)
        for op in operations(body(module))
    )


def _strip(module: ir.Operation, entry: ir.Operation) -> None:
    """Drop what LLVM does not know: grids, and our attributes."""
    for op in operations(body(module)):
        if op.name == "shard.grid":
            op.erase()
            continue
        if op.name != "func.func":
            continue
        function = Function(op, "")
        for key in ("arg_attrs", "res_attrs"):
            kept = [
                {name: each for name, each in entry.items() if not name.startswith("mesh.")}
                for entry in function.boundary(key)
            ]
            function.set_boundary(key, kept)
        for name in (FORM, COLLECTIVE):
            if name in op.attributes:
                del op.attributes[name]
    entry.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()


def _callback(executable: Executable, site: Site) -> object:
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    return signature(lambda source, target: executable.answer(site, source, target))


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
