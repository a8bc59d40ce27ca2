"""Functions called more than once, each call on its own while shardings are propagated.

    call @layer(%x)          call @layer(%x)      @layer as %x has it
    call @layer(%y)          call @layer_1(%y)    @layer_1 as %y has it, if that is another way

Copies that came out alike are one function again. Only private functions are copied: the others
are as they are annotated for whoever else calls them.

Source: Shardy, flatten-call-graph and unflatten-call-graph.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.function import BOUNDARY, functions_of, is_private, name_of
from shard_dialect.ir.mesh.attributes import BLOCKS, SHARDINGS
from shard_dialect.ir.walk import body, operations, walk

_MOST = 10_000
"""The number of copies at which the rest of the calls share what there is."""


@dataclass
class Calls:
    """The functions of one module, and the copies made of them."""

    module: ir.Operation
    original: dict[str, str] = field(default_factory=dict)
    """The name of the function that each copy is a copy of."""

    _last: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Of each function the last copy, and the number to go on from for its name."""

    def __post_init__(self) -> None:
        self.functions = {name_of(op): op for op in functions_of(self.module)}
        self.calls = {name: _calls(op) for name, op in self.functions.items()}

    def separate(self) -> None:
        """Let each call of a private function have a copy to itself."""
        self.refuse_recursion()
        taken = {name_of(op) for op in operations(body(self.module)) if "sym_name" in op.attributes}
        called = {callee_of(call) for calls in self.calls.values() for call in calls}
        waiting = deque(
            name for name, op in self.functions.items() if name not in called or not is_private(op)
        )
        claimed: set[str] = set()
        while waiting:
            for call in self.calls[waiting.popleft()]:
                callee = callee_of(call)
                if callee not in self.functions or not is_private(self.functions[callee]):
                    continue
                if callee in claimed:
                    if len(self.original) == _MOST:
                        continue
                    callee = self._copy(callee, taken)
                    call.attributes["callee"] = ir.FlatSymbolRefAttr.get(callee)
                claimed.add(callee)
                waiting.append(callee)

    def _copy(self, callee: str, taken: set[str]) -> str:
        origin = self.original.get(callee, callee)
        last, number = self._last.get(origin, (origin, 1))
        while (name := f"{origin}_{number}") in taken:
            number += 1
        taken.add(name)
        self._last[origin] = name, number + 1
        with ir.InsertionPoint.after(self.functions[last]):
            made = self.functions[callee].clone().operation
        made.attributes["sym_name"] = ir.StringAttr.get(name)
        self.functions[name] = made
        self.calls[name] = _calls(made)
        self.original[name] = origin
        return name

    def join(self, alike: Callable[[ir.Operation], Hashable] | None = None) -> None:
        """Let the first of the copies that are alike be all; those that call nothing go first.

        Alike are those of which `alike` says the same: by default, in how tensors lie.
        """
        alike = alike or _shardings_of
        if not self.original:
            return
        kept: dict[tuple[str, Hashable], str] = {}
        became: dict[str, str] = {}
        copied = {*self.original, *self.original.values()}
        for name in self._callees_first():
            for call in self.calls[name]:
                if callee_of(call) in became:
                    callee = ir.FlatSymbolRefAttr.get(became[callee_of(call)])
                    call.attributes["callee"] = callee
            if name not in copied:
                continue
            key = (self.original.get(name, name), alike(self.functions[name]))
            if name in self.original and key in kept:
                became[name] = kept[key]
                self.functions[name].erase()
            else:
                kept[key] = name

    def refuse_recursion(self) -> None:
        """Raise where a function calls itself, through others perhaps."""
        done: set[str] = set()
        for start in self.functions:
            path = [(start, iter(self.calls[start]))] if start not in done else []
            on_path = {start}
            while path:
                name, calls = path[-1]
                call = next(calls, None)
                if call is None:
                    done.add(name)
                    on_path.discard(name)
                    path.pop()
                    continue
                callee = callee_of(call)
                if callee in on_path:
                    raise error_at(call.location, f"function @{callee} calls itself: without end")
                if callee in self.functions and callee not in done:
                    path.append((callee, iter(self.calls[callee])))
                    on_path.add(callee)

    def _callees_first(self) -> list[str]:
        """The names of functions, each behind those that it calls; then originals before copies.

        All copies of one function come together, as they call copies of the same.
        """
        heights: dict[str, int] = {}
        path = [(name, False) for name in self.functions]
        while path:
            name, is_left = path.pop()
            inside = [each for each in map(callee_of, self.calls[name]) if each in self.functions]
            if is_left:
                heights[name] = max((heights[each] + 1 for each in inside), default=0)
            elif name not in heights:
                path.append((name, True))
                path += [(each, False) for each in inside if each not in heights]
        return sorted(self.functions, key=lambda name: heights[name])


def _calls(function: ir.Operation) -> list[ir.Operation]:
    return [op for op in walk(function) if op.name == "func.call"]


def callee_of(call: ir.Operation) -> str:
    """The name of the function that a `func.call` calls."""
    return str(call.attributes["callee"].value)


def _shardings_of(function: ir.Operation) -> Hashable:
    """All in which copies of one function can differ."""
    keys = (SHARDINGS, BLOCKS, "callee")
    ops = (
        (op.name, *[op.attributes[key] if key in op.attributes else None for key in keys])
        for op in walk(function)
    )
    boundary = [key for key in BOUNDARY if key in function.attributes]
    return (*[function.attributes[key] for key in boundary], *ops)
