"""Give ops that come without a place in a file that of the call of their function.

    func.func @main ... {
      func.call @_take(...)        loc("layer.py":12:3)
    }
    func.func private @_take ... {
      stablehlo.gather ...         loc("gather")            loc("gather"("layer.py":12:3))
    }

Frameworks write functions of their own, whose ops have only names. Of several calls, the first in
the order of the text gives its place.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text, name_in
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.walk import walk


def borrow_locations(module: ir.Operation) -> None:
    """Change the locations of the module's ops in place."""
    functions = {name_of(op): op for op in functions_of(module)}
    called = {
        op.attributes["callee"].value
        for function in functions.values()
        for op in walk(function)
        if op.name == "func.call"
    }
    done: set[str] = set()
    waiting: list[tuple[str, ir.Location | None]] = [
        (name, None) for name in reversed(functions) if name not in called
    ]
    while waiting:
        name, place = waiting.pop()
        if name in done:
            continue
        done.add(name)
        calls = []
        for op in walk(functions[name]):
            if place is not None and location_text(op.location) is None:
                own = name_in(op.location)
                op.location = ir.Location.name(own, place) if own else place
            if op.name == "func.call" and op.attributes["callee"].value in functions:
                is_placed = location_text(op.location) is not None
                calls.append((op.attributes["callee"].value, op.location if is_placed else place))
        waiting += reversed(calls)
