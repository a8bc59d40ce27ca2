"""Helpers of the passes on the local form: blocks with collectives, definitions and uses."""

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


def blocks_of(
    function: ir.Operation, is_relevant: Callable[[ir.Operation], bool]
) -> list[ir.Block]:
    """The blocks, also of loops and branches, that hold an op that `is_relevant`."""
    blocks: list[ir.Block] = []
    for op in walk(function):
        if is_relevant(op) and op.block not in blocks:
            blocks.append(op.block)
    return blocks


def defined_at(order: Sequence[ir.Operation]) -> dict[ir.Value, int]:
    """For each value that `order`, the ops of a block, defines, the position of the op."""
    return {result: position for position, op in enumerate(order) for result in op.results}


def first_use_at(order: Sequence[ir.Operation]) -> dict[ir.Value, int]:
    """For each value, the position of the first op of `order` that uses it, also in regions."""
    needed: dict[ir.Value, int] = {}
    for position, op in enumerate(order):
        for inner in (op, *walk(op)):
            for operand in inner.operands:
                needed.setdefault(operand, position)
    return needed


@contextmanager
def collectives_kept(module: ir.Operation) -> Iterator[None]:
    """Keep the collectives in programs of one device alive meanwhile, by calls that use them.

    MLIR drops ops without uses. Where all devices run one program, all of them drop a collective.
    But in a program of one device it must stay, since the other devices of the group wait for it.
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
