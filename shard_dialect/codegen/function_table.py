"""Call our functions from compiled code through a table of addresses, which is passed to it.

    llvm.call @cblas_sgemm(...)    ->    %f = llvm.load %table[3]
                                         llvm.call %f(...)

So the code needs no linker to resolve these functions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.walk import body, operations, walk

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
    pointer = ir.Type.parse("!llvm.ptr")
    i64 = ir.IntegerType.get_signless(64)
    with ir.InsertionPoint(op), op.location:
        symbol = {"global_name": ir.FlatSymbolRefAttr.get(_TABLE)}
        table = build.create("llvm.mlir.addressof", [pointer], [], symbol).results[0]
        table = build.create("llvm.load", [pointer], [table]).results[0]
        entry_number = {
            "rawConstantIndices": ir.DenseI32ArrayAttr.get([number]),
            "elem_type": ir.TypeAttr.get(i64),
        }
        slot = build.create("llvm.getelementptr", [pointer], [table], entry_number).results[0]
        address = build.create("llvm.load", [pointer], [slot]).results[0]
        attributes = {
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1 + len(op.operands), 0]),
            "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
        }
        types = [result.type for result in op.results]
        new_call = build.create("llvm.call", types, [address, *op.operands], attributes)
    for old, new in zip(op.results, new_call.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


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
