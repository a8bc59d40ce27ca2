"""What the passes on the local form share: the blocks that talk, and who needs what when."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.function import form_of, functions_of, name_of
from shard_dialect.ir.mesh.attributes import DEVICE
from shard_dialect.ir.shard.local_collectives import read_local
from shard_dialect.ir.walk import body, walk


def local_functions(module: ir.Operation) -> Iterator[ir.Operation]:
    """The functions that are in the local form."""
    return (handle for handle in functions_of(module) if form_of(handle) == "local")


def blocks_of(function: ir.Operation, wanted: Callable[[ir.Operation], bool]) -> list[ir.Block]:
    """The blocks, of loops and branches too, that hold a `wanted` op."""
    blocks: list[ir.Block] = []
    for op in walk(function):
        if wanted(op) and op.block not in blocks:
            blocks.append(op.block)
    return blocks


def made_at(order: Sequence[ir.Operation]) -> dict[ir.Value, int]:
    """The place of the op of a block that makes each value."""
    return {result: place for place, op in enumerate(order) for result in op.results}


def needed_at(order: Sequence[ir.Operation]) -> dict[ir.Value, int]:
    """The place of the first op of a block that uses each value, itself or inside of it."""
    needed: dict[ir.Value, int] = {}
    for place, op in enumerate(order):
        for inner in (op, *walk(op)):
            for operand in inner.operands:
                needed.setdefault(operand, place)
    return needed


@contextmanager
def collectives_kept(module: ir.Operation) -> Iterator[None]:
    """Meanwhile, have calls use what collectives give, in programs of one device.

    MLIR drops what is not used. Where all devices have one program, all leave it out; but others
    wait for a device that does not need what it gets.
    """
    handles = [each for each in functions_of(module) if DEVICE in each.attributes]
    declared: dict[ir.Type, ir.Operation] = {}
    for op in [op for handle in handles for op in walk(handle)]:
        if read_local(op.name, op.attributes) is None:
            continue
        type_ = op.results[0].type
        if type_ not in declared:
            with ir.InsertionPoint.at_block_begin(body(module)), ir.Location.unknown():
                name = f"mesh_kept_{len(declared)}"
                declared[type_] = build.declare(name, ir.FunctionType.get([type_], []))
        with ir.InsertionPoint.after(op), op.location:
            build.call(name_of(declared[type_]), [op.results[0]])
    yield
    names = {name_of(each) for each in declared.values()}
    for op in walk(module):
        if op.name == "func.call" and op.attributes["callee"].value in names:
            op.erase()
    for op in declared.values():
        op.erase()
