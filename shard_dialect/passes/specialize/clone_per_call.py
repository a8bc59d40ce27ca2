"""Give each call of a function its own copy, so that each can get its own shardings or shapes.

    call @layer(%x)          call @layer(%x)      @layer with the sharding of %x
    call @layer(%y)          call @layer_1(%y)    @layer_1 with that of %y, if it differs

Afterwards equal copies are merged again. Only private functions are copied: public ones keep their
boundary for callers outside the module.

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
"""The largest number of copies; further calls share the existing functions."""


@dataclass
class Calls:
    """The functions of one module, their calls, and the copies of functions."""

    module: ir.Operation
    original: dict[str, str] = field(default_factory=dict)
    """The name of the function that each copy is a copy of."""

    _last: dict[str, tuple[str, int]] = field(default_factory=dict)
    """For each function its last copy, and the number at which to continue for its name."""

    def __post_init__(self) -> None:
        self.functions = {name_of(op): op for op in functions_of(self.module)}
        self.calls = {name: _calls(op) for name, op in self.functions.items()}

    def separate(self) -> None:
        """Give each call of a private function a copy of its own; raise for recursion."""
        self.refuse_recursion()
        names = {name_of(op) for op in operations(body(self.module)) if "sym_name" in op.attributes}
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
                    callee = self._copy(callee, names)
                    call.attributes["callee"] = ir.FlatSymbolRefAttr.get(callee)
                claimed.add(callee)
                waiting.append(callee)

    def _copy(self, callee: str, names: set[str]) -> str:
        origin = self.original.get(callee, callee)
        last, number = self._last.get(origin, (origin, 1))
        while (name := f"{origin}_{number}") in names:
            number += 1
        names.add(name)
        self._last[origin] = name, number + 1
        with ir.InsertionPoint.after(self.functions[last]):
            copy = self.functions[callee].clone().operation
        copy.attributes["sym_name"] = ir.StringAttr.get(name)
        self.functions[name] = copy
        self.calls[name] = _calls(copy)
        self.original[name] = origin
        return name

    def join(self, key_of: Callable[[ir.Operation], Hashable] | None = None) -> None:
        """Merge equal copies into the first of them, callees before callers.

        Copies are equal if `key_of` returns equal keys: by default, if their shardings are equal.
        """
        key_of = key_of or _shardings_of
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
            key = (self.original.get(name, name), key_of(self.functions[name]))
            if name in self.original and key in kept:
                became[name] = kept[key]
                self.functions[name].erase()
            else:
                kept[key] = name

    def refuse_recursion(self) -> None:
        """Raise a located `ShardError` where a function calls itself, directly or not."""
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
        """The names of functions, callees before callers, and originals before their copies.

        All copies of one function have the same height, as they call copies of the same functions.
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
    """Everything in which copies of one function can differ: shardings and callees."""
    keys = (SHARDINGS, BLOCKS, "callee")
    ops = (
        (op.name, *[op.attributes[key] if key in op.attributes else None for key in keys])
        for op in walk(function)
    )
    boundary = [key for key in BOUNDARY if key in function.attributes]
    return (*[function.attributes[key] for key in boundary], *ops)
