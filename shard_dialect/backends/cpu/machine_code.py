"""Machine code for a lowered function: compiled by LLVM here, or loaded from a cache.

Compiled code calls our functions through a table of addresses, which is passed to it:

    llvm.call @cblas_sgemm(...)    ->    %f = llvm.load %table[3]
                                         llvm.call %f(...)

So the code needs no linker to resolve these functions.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Protocol

from shard_dialect.abi.lowered_program import Program, find_function
from shard_dialect.abi.tensor_types import NARROW_FLOATS
from shard_dialect.backends.cpu.arena import Arena, use_arena
from shard_dialect.backends.cpu.convolutions import call_blas
from shard_dialect.backends.cpu.elementary_functions import (
    add_products_in_f32,
    convert_by_f32,
    expand,
    move_as_bits,
)
from shard_dialect.backends.cpu.floats_of_eight_bits import compute_in_f32
from shard_dialect.backends.cpu.kernels import KERNEL, Kernels, inline_small
from shard_dialect.backends.cpu.lower_loops import (
    mark_parallel,
    outline_loops,
    store_padded,
    to_loops,
)
from shard_dialect.backends.cpu.pieces import cut_into_pieces
from shard_dialect.backends.cpu.pointers import element_pointer, pass_pointers, pointer_type
from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import PassManager, ir, run_upstream, submodule
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.diagnostics import error_at, from_mlir, reporting
from shard_dialect.ir.function import drop_from_boundary, functions_of, name_of, rename_symbols
from shard_dialect.ir.grids import OPS as GRIDS
from shard_dialect.ir.mesh.attributes import (
    COLLECTIVE,
    DEVICE,
    FORM,
    LIBRARY_CALL,
    RANK,
    drop_attributes,
)
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.passes.lower.control_flow import for_llvm
from shard_dialect.passes.lower.mpi.mpi_code import BIND as MPI_BIND
from shard_dialect.passes.lower.mpi.mpi_code import functions_called
from shard_dialect.processes.to_parent import doing

BIND = "mesh.bind"
_TABLE = "mesh.table"
_TEXT = f"""
llvm.mlir.global internal @"{_TABLE}"() : !llvm.ptr {{
  %0 = llvm.mlir.zero : !llvm.ptr
  llvm.return %0 : !llvm.ptr
}}
llvm.func @"{BIND}"(%table: !llvm.ptr) {{
  %0 = llvm.mlir.addressof @"{_TABLE}" : !llvm.ptr
  llvm.store %table, %0 : !llvm.ptr, !llvm.ptr
  llvm.return
}}
"""


def call_through_table(module: ir.Operation, names: Sequence[str]) -> None:
    """In the LLVM dialect, call the declared functions `names` by their position in this list."""
    numbers = {name: number for number, name in enumerate(names)}
    first = operations(body(module))[0]
    parsed = ir.Module.parse(_TEXT)
    for op in operations(body(parsed.operation)):
        op.move_before(first)
    for op in walk(module):
        if op.name == "llvm.call" and "callee" in op.attributes:
            number = numbers.get(op.attributes["callee"].value)
            if number is not None:
                _call_by_address(op, number)
    for op in operations(body(module)):
        if op.name == "llvm.func" and op.attributes["sym_name"].value in numbers:
            op.erase()


def _call_by_address(op: ir.Operation, number: int) -> None:
    pointer = pointer_type()
    with ir.InsertionPoint(op), op.location:
        symbol = {"global_name": ir.FlatSymbolRefAttr.get(_TABLE)}
        table = build.create_value("llvm.mlir.addressof", pointer, [], symbol)
        table = build.create_value("llvm.load", pointer, [table])
        slot = element_pointer(table, build.integer(64), number)
        address = build.create_value("llvm.load", pointer, [slot])
        attributes = {
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1 + len(op.operands), 0]),
            "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
        }
        types = [result.type for result in op.results]
        new_call = build.create("llvm.call", types, [address, *op.operands], attributes)
    replace_op(op, *new_call.results)


class Table:
    """The table of addresses; it must live as long as the code may be called."""

    def __init__(self, addresses: Mapping[str, int], names: Sequence[str]) -> None:
        self._names = names
        self._entries = (ctypes.c_void_p * max(1, len(names)))(*(addresses[n] for n in names))

    def replace(self, addresses: Mapping[str, int]) -> None:
        """Set other addresses for some of the names."""
        for number, name in enumerate(self._names):
            self._entries[number] = addresses.get(name, self._entries[number])

    def bind(self, packed: Callable[[int], None]) -> None:
        """Pass the table to the code by the function `BIND`, which takes pointers to arguments."""
        table = ctypes.c_void_p(ctypes.addressof(self._entries))
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(table))
        packed(ctypes.addressof(arguments))


LEVEL = "SHARD_DIALECT_OPT_LEVEL"
"""The environment variable with LLVM's level of optimization, 0 to 3."""
_LEVELS = ("0", "1", "2", "3")

_WIDENED = "builtin.module(math-extend-to-supported-types)"
# math-expand-ops is wrong for powers, and inexact near 0 for others: only for ops without another.
_TO_LLVM = (
    "builtin.module(lower-affine,convert-scf-to-cf,"
    "convert-complex-to-standard,"
    "arith-emulate-unsupported-floats{source-types=bf16 target-type=f32},"
    "expand-strided-metadata,lower-affine,math-expand-ops{ops=clampf,fpowi},convert-math-to-llvm,"
    "convert-math-to-libm,arith-expand{include-bf16=true},convert-vector-to-llvm,"
    "convert-complex-to-llvm,finalize-memref-to-llvm,convert-index-to-llvm,convert-arith-to-llvm,"
    "convert-cf-to-llvm,convert-ub-to-llvm,convert-func-to-llvm,reconcile-unrealized-casts)"
)
_SIMPLER = "builtin.module(canonicalize)"


class Library(Protocol):
    """A loaded library of compiled code."""

    def packed(self, name: str) -> Callable[[int], None]:
        """The function that takes pointers to the arguments of the function `name`."""

    def write_library(self, path: Path) -> bool:
        """Write it as a shared library; return whether that worked."""


@dataclass(frozen=True)
class Code:
    """The interface of compiled code for its caller."""

    program: Program
    arena: int
    """The size in bytes of its arena."""
    names: tuple[str, ...]
    """The names of our functions that it calls."""
    donated: tuple[tuple[int, int], ...]
    """The arguments that are in the arena when a run starts, and where, in bytes."""

    @property
    def symbol(self) -> str:
        """The name of the entry's function."""
        return _PREFIX + self.program.entry

    def started(self, library: Library, addresses: Mapping[str, int]) -> tuple[Table, Entry]:
        """Bind the code to the addresses; return its table and the function to call."""
        table = Table(addresses, self.names)
        table.bind(library.packed(BIND))
        return table, library.packed(self.symbol)


Entry = Callable[[int], None]


@dataclass(frozen=True)
class LoopCode:
    """A program whose ops on tensors are loops over buffers, and calls of products and kernels."""

    program: Program
    function: ir.Operation
    called: list[str]
    arena: Arena


def to_loop_code(module: ir.Operation, entry: str) -> LoopCode:
    """Bring the function `entry` of a module in the lowered form to loops, in place."""
    program = Program.read(module, entry)
    function = find_function(module, entry)
    _rename(module, function)
    inline_small(module)
    kernels = Kernels(module)
    called = call_blas(module, kernels)
    to_loops(module, kernels)
    outline_loops(module, kernels, called)
    return LoopCode(program, function, called, use_arena(function))


def generate(parsed: ir.Module, entry: str) -> tuple[Code, Engine]:
    """Compile the function `entry` of a module in the lowered form, which is consumed."""
    code = to_llvm(parsed, entry)
    doing("LLVM")
    with parsed.context, ir.Location.unknown():
        return code, Engine(parsed, code.symbol)


def to_llvm(parsed: ir.Module, entry: str) -> Code:
    """Bring a module in the lowered form to the LLVM dialect, in place."""
    module = parsed.operation
    with module.context, ir.Location.unknown():
        defined = set(map(name_of, functions_of(module)))  # collectives, where they call MPI
        loops = to_loop_code(module, entry)
        program, function, called = loops.program, loops.function, loops.called
        pass_pointers(module, function)
        compute_in_f32(module)
        run_upstream(_WIDENED, module)
        expand(module)
        add_products_in_f32(module)
        convert_by_f32(module)
        _strip(module, function)
        answered = (
            f"_mlir_ciface_{name}"
            for name in (*program.sites, *program.ranks, *program.library_calls)
            if name not in defined
        )
        names = (*answered, *called, *functions_called(module))
        try:
            run_upstream(_TO_LLVM, module)
            PassManager.parse(_SIMPLER).run(module)
            move_as_bits(module)
            for_llvm(module)
            store_padded(module)
            mark_parallel(module)
            cut_into_pieces(module)
            call_through_table(module, names)
        except ir.MLIRError as error:
            raise from_mlir(error) from None
        for op in walk(module):
            if not op.name.startswith("llvm."):
                types = {str(each.type) for each in (*op.operands, *op.results)}
                if narrow := sorted(types & NARROW_FLOATS):
                    raise error_at(
                        op.location,
                        f"elements of type {narrow[0]} are only moved by our own code: "
                        "--backend=xla computes with them",
                    )
                raise error_at(
                    op.location,
                    f"'{op.name}' op cannot be run: there is no lowering to LLVM for it",
                )
        return Code(program, loops.arena.bytes, names, loops.arena.donated)


def opt_level() -> int:
    """LLVM's level of optimization: 2 where the environment names none.

    Raises `ShardError` if it names no level.
    """
    text = os.environ.get(LEVEL, "2")
    if text not in _LEVELS:
        raise ShardError(f"{LEVEL} must be one of {', '.join(_LEVELS)}, found '{text}'")
    return int(text)


class Engine:
    """Code that LLVM has just compiled."""

    def __init__(self, module: ir.Module, symbol: str) -> None:
        with reporting(module.context):
            engine = submodule("execution_engine").ExecutionEngine(
                module, opt_level=opt_level(), enable_pic=True
            )
        if not engine.raw_lookup(symbol):
            name = symbol.rpartition(_PREFIX)[2]
            raise ShardError(
                f"cannot compile {as_symbol(name)}: it calls functions that are not there"
            )
        self._engine = engine

    def packed(self, name: str) -> Callable[[int], None]:
        """The function that takes pointers to the arguments of `name`."""
        return _called(self._engine.raw_lookup(name))

    def write_library(self, path: Path) -> bool:
        """Link the code to a shared library; return whether that worked."""
        linker = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if linker is None or not self.has_object():
            return False
        with self.object_file() as memory:
            object_file = f"/proc/self/fd/{memory.fileno()}"
            command = [linker, "-shared", "-o", str(path), object_file, "-lm"]
            done = subprocess.run(
                command, capture_output=True, check=False, pass_fds=[memory.fileno()]
            )
        return done.returncode == 0

    @staticmethod
    def has_object() -> bool:
        """Whether `object_file` can be written: not where files have a largest size."""
        is_limited = resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY
        return not is_limited and hasattr(os, "memfd_create")

    @contextmanager
    def object_file(self) -> Iterator[IO[bytes]]:
        """The code as an object file in memory, for the `with` body.

        LLVM ends the process if it cannot write the file: memory is not full as disks are.
        """
        with open(os.memfd_create("code"), "w+b") as memory:
            self._engine.dump_to_object_file(f"/proc/self/fd/{memory.fileno()}")
            yield memory


class SharedLibrary:
    """Code that was compiled before. Raises `OSError` if it cannot be loaded."""

    def __init__(self, path: Path, file: Path, digest: str) -> None:
        self._library = ctypes.CDLL(str(path))
        self._file, self._digest = file, digest
        self.handle = self._library._handle
        """The same for the same library, however often it is loaded."""

    def packed(self, name: str) -> Callable[[int], None]:
        """The function that takes pointers to the arguments of `name`."""
        address = ctypes.cast(getattr(self._library, f"_mlir_{name}"), ctypes.c_void_p).value
        return _called(address or 0)

    def write_library(self, path: Path) -> bool:
        """Copy the file, if it still is what was loaded."""
        try:
            content = self._file.read_bytes()
        except OSError:
            return False
        if sha256(content).hexdigest() != self._digest:
            return False
        path.write_bytes(content)
        return True


def _called(address: int) -> Callable[[int], None]:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)


_PREFIX = "mesh.code."


def _rename(module: ir.Operation, entry: ir.Operation) -> None:
    """Rename functions, so that none clashes with a library's: a user's @sin is not libm's.

    The entry stays public, or it would be dropped when its callees are inlined.
    """
    entry.attributes["sym_visibility"] = ir.StringAttr.get("public")
    functions = [op for op in functions_of(module) if name_of(op) != MPI_BIND]
    renamed = {name_of(op): f"{_PREFIX}{name_of(op)}" for op in functions}
    for op in functions:
        op.attributes["sym_name"] = ir.StringAttr.get(renamed[name_of(op)])
    rename_symbols(module, renamed)


def _strip(module: ir.Operation, entry: ir.Operation) -> None:
    """Drop grids, and attributes of `mesh`, which LLVM does not know."""
    for op in operations(body(module)):
        if op.name in GRIDS:
            op.erase()
            continue
        if op.name != "func.func":
            continue
        drop_from_boundary(op, "mesh.")
        drop_attributes(op, FORM, COLLECTIVE, RANK, LIBRARY_CALL, DEVICE, KERNEL)
    entry.attributes["llvm.no_inline"] = ir.UnitAttr.get()
