"""Copy functions for each of their calls, merge equal copies again, and inline functions.

`clone-per-call` gives each call of a function its own copy, so that each can get its own shardings
or shapes; `merge-clones` merges equal copies again.

    call @layer(%x)          call @layer(%x)      @layer with the sharding of %x
    call @layer(%y)          call @layer_1(%y)    @layer_1 with that of %y, if it differs

Only private functions are copied: public ones keep their boundary for callers outside the module.
Source: Shardy, flatten-call-graph and unflatten-call-graph.

`inline_where_called` inlines functions with stages:

    func.func private @layer(%a: ... {mesh.sharding = ...})     %0 = "mesh.annotate"(%x) {...}
    %1 = call @layer(%x)                                        %1 = stablehlo.tanh %0

A device that is not of a stage has none of its tensors, so it cannot return them. Therefore a
function with stages is inlined in its callers, as are the functions that it calls. Annotations of
their boundary become annotations for the users of operands and results.

`inline-functions` inlines private functions that are called once, small ones, and others while the
module at most doubles, so that shardings and collectives move through them: JAX writes `jnp.where`
as a function. `no_inline` keeps a function, or a call.

`inline-named-computations` inlines these regions, so that shardings propagate through them:

    %1 = scf.execute_region -> tensor<4xf32> no_inline {       %0 = math.tanh %x
      %0 = math.tanh %x                                        %1 = "mesh.annotate"(%0) ...
      scf.yield %0
    } {mesh.named_computation = "f", mesh.shardings = [...]}
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from itertools import chain

from shard_dialect.errors import as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import annotate, inline_before, replace_op, replace_values
from shard_dialect.ir.diagnostics import error_at, names_in
from shard_dialect.ir.function import (
    BOUNDARY,
    boundary,
    form_of,
    functions_of,
    is_private,
    name_of,
    symbols_in,
)
from shard_dialect.ir.mesh.attributes import BLOCKS, NAMED, SHARDING, SHARDINGS, symbol
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model.reached import reached
from shard_dialect.passes.framework.base import UNCHANGED, Outcome, is_imported, needs

_MOST = 10_000
"""The largest number of copies; further calls share the existing functions."""


CLONE_OF = "mesh.clone_of"
"""On a function that `clone-per-call` has made: the name of the one that it is a copy of."""


@needs(ops=("func.call",), grid=True)
def clone_per_call(module: ir.Operation) -> Outcome:
    """Give each call of a private function a copy of its own; refuse recursion."""
    calls = Calls(module)
    calls.separate()
    for name, original in calls.original.items():
        calls.functions[name].attributes[CLONE_OF] = ir.FlatSymbolRefAttr.get(original)
    return None if calls.original else UNCHANGED


@needs(ops=("func.call",), grid=True)
def merge_clones(module: ir.Operation) -> Outcome:
    """Merge the copies that got equal shardings."""
    calls = Calls(module)
    for name, function in calls.functions.items():
        if CLONE_OF in function.attributes:
            calls.original[name] = symbol(function.attributes[CLONE_OF])
            del function.attributes[CLONE_OF]
    if not calls.original:
        return UNCHANGED
    calls.join()
    return None


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
                    # The first call keeps the original. A copy is walked like any function, so that
                    # functions which it calls are copied for it, too.
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
        # Callers compare their callees' names, so these must have been merged before.
        for name in self.callees_first():
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
                    raise error_at(
                        call.location, f"function {as_symbol(callee)} calls itself: without end"
                    )
                if callee in self.functions and callee not in done:
                    path.append((callee, iter(self.calls[callee])))
                    on_path.add(callee)

    def callees_first(self) -> list[str]:
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


_SMALL = 16
"""The most ops of a function that is inlined wherever it is called."""
_ADDED = 1024
"""The most ops that inlining larger functions adds, if the module has no more than that: then it
may double. Across calls nothing is moved or exchanged: of attention, whose gradient is another
function, both would gather what one of them had."""


@needs(ops=("func.call",), forms=("annotated",), grid=True, keeps=(is_imported,))
def inline_functions(module: ir.Operation) -> Outcome:
    """Inline private functions, but not with `no_inline`, nor so often that too much is added."""
    calls = Calls(module)
    calls.refuse_recursion()
    counts = Counter(callee_of(call) for each in calls.calls.values() for call in each)
    left = max(_ADDED, sum(len(walk(each)) for each in calls.functions.values()))
    inlined: dict[str, bool] = {}
    for name in calls.callees_first():
        for call in calls.calls[name]:
            callee_name = callee_of(call)
            callee = calls.functions.get(callee_name)
            if callee is None or "no_inline" in call.attributes:
                continue
            if callee_name not in inlined:
                added = _added_by_inlining(callee, counts[callee_name])
                inlined[callee_name] = added is not None and added <= left
                left -= added if added and inlined[callee_name] else 0
            if inlined[callee_name]:
                inline_call(call, callee)
    names = {name for name, is_inlined in inlined.items() if is_inlined}
    drop_uncalled(module, names)
    return None if names else UNCHANGED


@needs(ops=("func.call",), forms=("annotated",))
def inline_for_one_device(module: ir.Operation) -> Outcome:
    """Inline the same functions of a program without a grid, which only `lower` changes.

    So buffers that loops carry are not copied for calls, and loops are fused across these.
    """
    return inline_functions(module)


def _added_by_inlining(function: ir.Operation, times: int) -> int | None:
    """The ops that are added where a function is called; `None` if it is not to be inlined."""
    if not is_private(function) or len(function.regions[0].blocks) != 1:
        return None
    if "no_inline" in function.attributes or form_of(function) != "annotated":
        return None
    ops = walk(function)
    if any(op.name == "func.call" for op in ops) and times > 1:
        return None  # of a larger function, or one without a body
    return 0 if len(ops) <= _SMALL else (times - 1) * len(ops)


def inline_where_called(module: ir.Operation, names: Collection[str]) -> None:
    """Inline all calls in the functions that reach these, or are these; drop private callees.

    Raises a located `ShardError` for recursion, and for functions of several blocks or none.
    """
    calls = Calls(module)
    reaching = {*names}
    for _ in calls.functions:  # as often as a chain of calls can be long
        inside = {
            caller
            for caller, its in calls.calls.items()
            if any(callee_of(call) in reaching for call in its)
        }
        if inside <= reaching:
            break
        reaching |= inside
    if not any(calls.calls[name] for name in reaching if name in calls.calls):
        return
    calls.refuse_recursion()
    found = _reached_from(reaching, calls)  # before the calls are erased
    for name in sorted(reaching & calls.functions.keys()):
        if not is_private(calls.functions[name]) or not _is_called(name, module):
            inline_calls(calls.functions[name], module)
    drop_uncalled(module, found)


def inline_calls(function: ir.Operation, module: ir.Operation) -> None:
    """Inline the calls in a function, also those in inlined bodies; there must be no recursion."""
    functions = {name_of(each): each for each in functions_of(module)}
    while calls := [op for op in walk(function) if op.name == "func.call"]:
        for call in calls:
            inline_call(call, functions.get(callee_of(call)))


def drop_uncalled(module: ir.Operation, names: Collection[str]) -> None:
    """Erase the private ones of these functions that no op names any more."""
    functions = {name_of(each): each for each in functions_of(module)}
    named = {name: symbols_in(each) for name, each in functions.items()}
    candidates = {name for name in names if name in functions and is_private(functions[name])}
    while dropped := candidates & named.keys() - set().union(*named.values()):
        for name in dropped:
            functions[name].erase()
            del named[name]


def _reached_from(names: Collection[str], calls: Calls) -> set[str]:
    """The functions that these call, directly or not."""

    def callees(name: str) -> list[str]:
        return [callee_of(call) for call in calls.calls.get(name, ())]

    return set(reached(chain.from_iterable(map(callees, names)), callees))


def _is_called(name: str, module: ir.Operation) -> bool:
    return any(
        op.name == "func.call" and callee_of(op) == name
        for function in functions_of(module)
        for op in walk(function)
    )


def inline_call(call: ir.Operation, callee: ir.Operation | None) -> None:
    """Put the ops of a function of one block in the place of a call; drop the call.

    Raises a located `ShardError` for a function of several blocks or none.
    """
    if callee is None or len(callee.regions[0].blocks) > 1:
        what = "is only declared" if callee is None else "has branches between blocks"
        raise error_at(
            call.location,
            f"'func.call' op calls {as_symbol(callee_of(call))}, which {what}: in a "
            "function with stages "
            "expected one block, to be inlined",
        )
    with ir.InsertionPoint(call), call.location:
        copy = callee.clone().operation
        given = annotated(call.operands, callee, "arg_attrs")
    replace_values(body(copy).arguments, given)
    place = call.location
    if not any("/" in name for name in names_in(place)):  # in a scope of its own, as JAX writes one
        place = ir.Location.name(f"{as_symbol(callee_of(call))}/call", place)
    for op in walk(copy):
        op.location = ir.Location.callsite(op.location, [place])
    returned = inline_before(call, body(copy))
    with ir.InsertionPoint(call), call.location:
        returned = annotated(returned, callee, "res_attrs")
    replace_op(call, *returned)
    copy.erase()


def annotated(values: Iterable[ir.Value], function: ir.Operation, key: str) -> list[ir.Value]:
    """The values with the shardings of a function's arguments or results (`BOUNDARY`)."""
    return [
        annotate(value, entry[SHARDING], as_result=False) if SHARDING in entry else value
        for value, entry in zip(values, boundary(function, key), strict=True)
    ]


@needs(ops=("scf.execute_region",), forms=("annotated", "propagated"), grid=True)
def inline_named_computations(module: ir.Operation) -> None:
    """Replace each named computation by the ops of its body.

    The shardings of its results become annotation ops.
    """
    for function in functions_of(module):
        for op in reversed(walk(function)) if form_of(function) in _FORMS else ():  # inner first
            if op.name == "scf.execute_region" and NAMED in op.attributes:
                _inline_composite(op)


_FORMS = ("annotated", "propagated")


def _inline_composite(op: ir.Operation) -> None:
    yielded = inline_before(op, body(op))
    shardings = list(op.attributes[SHARDINGS]) if SHARDINGS in op.attributes else []
    if len(shardings) != len(op.results):  # a pass of MLIR has dropped results
        shardings = []
    with ir.InsertionPoint(op), op.location:
        for number, sharding in enumerate(shardings):
            is_tensor = isinstance(yielded[number].type, ir.RankedTensorType)
            if is_tensor and not isinstance(sharding, ir.UnitAttr):
                yielded[number] = annotate(yielded[number], sharding, as_result=False)
    replace_op(op, *yielded)
