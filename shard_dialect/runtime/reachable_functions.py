"""Which functions of a module have to do with the one that is run.

@main calls @layer                    reached from @main: @main and @layer
@train calls @main and @loss          connected with it: @train and @loss, too
@other                                neither
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.walk import walk
from shard_dialect.passes.lower.mpi.mpi_code import BIND

_Named = Mapping[str, set[str]]


def keep_reached(module: ir.Operation, entry: str) -> None:
    """Drop the functions that `entry` does not call, directly or not."""
    named = _named(module)
    _keep(module, _closure([entry], named))


def keep_connected(module: ir.Operation, entry: str) -> None:
    """Drop the functions that neither `entry` calls, nor its callers, directly or not.

    Shardings in callers may propagate to `entry`.
    """
    named = _named(module)
    callers: dict[str, set[str]] = {name: set() for name in named}
    for name, others in named.items():
        for other in others:
            callers[other].add(name)
    _keep(module, _closure(_closure([entry], callers), named))


def _named(module: ir.Operation) -> _Named:
    """For each function with a body, the other functions that it refers to."""
    functions = {name_of(op): op for op in functions_of(module)}
    return {
        name: {
            inner.attributes[key].value
            for inner in walk(op)
            for key in inner.attributes
            if isinstance(inner.attributes[key], ir.FlatSymbolRefAttr)
        }
        & functions.keys()
        for name, op in functions.items()
    }


def _closure(names: Iterable[str], to: _Named) -> set[str]:
    reached: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += to[name]
    return reached


def _keep(module: ir.Operation, names: set[str]) -> None:
    for op in functions_of(module):
        if name_of(op) not in names and name_of(op) != BIND:
            op.erase()
