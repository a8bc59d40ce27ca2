"""Replace calls by what the called functions do, where stages go through calls.

    func.func private @layer(%a: ... {mesh.sharding = ...})     %0 = "mesh.annotate"(%x) {...}
    %1 = call @layer(%x)                                        %1 = stablehlo.tanh %0

A device that is not of a stage has none of its tensors, so it cannot return them, and a function
with stages is inlined in what calls it, as are the functions that it calls. What is annotated at
their boundary is annotated for those who use it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import annotate
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.function import BOUNDARY, boundary, functions_of, is_private, name_of
from shard_dialect.ir.mesh.attributes import SHARDING
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.passes.specialize.clone_per_call import Calls, callee_of


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
    reached = _reached_from(reaching, calls)  # before the calls are erased
    for name in sorted(reaching & calls.functions.keys()):
        if not is_private(calls.functions[name]) or not _is_called(name, module):
            inline_calls(calls.functions[name], module)
    drop_uncalled(module, reached)


def inline_calls(function: ir.Operation, module: ir.Operation) -> None:
    """Inline the calls in a function, and those in what is inlined; there must be no recursion."""
    functions = {name_of(each): each for each in functions_of(module)}
    while calls := [op for op in walk(function) if op.name == "func.call"]:
        for call in calls:
            _inline(call, functions.get(callee_of(call)))


def drop_uncalled(module: ir.Operation, names: Collection[str]) -> None:
    """Erase the private ones of these functions that nobody calls any more."""
    dropped = True
    while dropped:
        dropped = False
        for function in functions_of(module):
            is_candidate = name_of(function) in names and is_private(function)
            if is_candidate and not _is_called(name_of(function), module):
                function.erase()
                dropped = True


def _reached_from(names: Collection[str], calls: Calls) -> set[str]:
    """The functions that these call, directly or not."""
    reached: set[str] = set()
    waiting = list(names)
    while waiting:
        for call in calls.calls.get(waiting.pop(), ()):
            if callee_of(call) not in reached:
                reached.add(callee_of(call))
                waiting.append(callee_of(call))
    return reached


def _is_called(name: str, module: ir.Operation) -> bool:
    return any(
        op.name == "func.call" and callee_of(op) == name
        for function in functions_of(module)
        for op in walk(function)
    )


def _inline(call: ir.Operation, callee: ir.Operation | None) -> None:
    if callee is None or len(callee.regions[0].blocks) > 1:
        what = "is only declared" if callee is None else "has branches between blocks"
        raise error_at(
            call.location,
            f"'func.call' op calls @{callee_of(call)}, which {what}: in a function with stages "
            "expected one block, to be inlined",
        )
    with ir.InsertionPoint(call), call.location:
        copy = callee.clone().operation
    arguments, results = (list(_annotations(callee, key)) for key in BOUNDARY)
    with ir.InsertionPoint(call), call.location:
        given = _annotated(list(call.operands), arguments)
    for argument, value in zip(body(copy).arguments, given, strict=True):
        argument.replace_all_uses_with(value)
    *inside, end = operations(body(copy))
    for op in inside:
        op.move_before(call)
    with ir.InsertionPoint(call), call.location:
        returned = _annotated(list(end.operands), results)
    for result, value in zip(call.results, returned, strict=True):
        result.replace_all_uses_with(value)
    call.erase()
    copy.erase()


def _annotations(function: ir.Operation, key: str) -> Iterator[ir.Attribute | None]:
    for entry in boundary(function, key):
        yield entry.get(SHARDING)


def _annotated(values: list[ir.Value], annotations: list[ir.Attribute | None]) -> list[ir.Value]:
    return [
        value if annotation is None else annotate(value, annotation, as_result=False)
        for value, annotation in zip(values, annotations, strict=True)
    ]
