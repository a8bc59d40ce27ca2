"""Partition a module, and keep for each collective of the local form why it is there.

`borrow_locations` gives ops that come without a place in a file that of the call of their function.

    func.func @main ... {
      func.call @_take(...)        loc("layer.py":12:3)
    }
    func.func private @_take ... {
      stablehlo.gather ...         loc("gather")            loc("gather"("layer.py":12:3))
    }

Frameworks write functions of their own, whose ops have only names. Of several calls, the first in
the order of the text gives its place.

`result_places` finds a function's results in the text of a file, since MLIR gives them no
locations.

    func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32> {...}, tensor<f32>)
                                           ^ 1:40               ^ 1:61

`forget_inferred` drops the shardings that an earlier propagation inferred, to learn their origins:

    %0 = "mesh.annotate"(%x) {sharding = ..., mesh.shardings = [...]}     stays
    %1 = math.exp %0 {mesh.shardings = [...]}                             loses its sharding

Propagation then finds the same shardings again, with their history. Where it does not, since
somebody has edited them, they stay, and explanations end at them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from shard_dialect.analysis.changes.annotations import Placed, annotations_in, mark_annotations
from shard_dialect.analysis.drawing import NamedSharding, named_shardings, typed_shardings
from shard_dialect.analysis.layers import LayeredProgram, read_layers
from shard_dialect.analysis.reasons.explanation import Reasons
from shard_dialect.analysis.reasons.marks import mark, mark_collective
from shard_dialect.analysis.reasons.why import Why
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text, name_in
from shard_dialect.ir.function import (
    boundary,
    forget_form,
    form_of,
    functions_of,
    name_of,
    set_boundary,
)
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.attributes import BLOCKS, SHARDING, SHARDINGS, drop_attributes
from shard_dialect.ir.printed_names import PrintedAs
from shard_dialect.ir.walk import operations, walk
from shard_dialect.passes.framework.pipeline import make_pass, run_pipeline, steps_of
from shard_dialect.passes.propagate.origins import Origins
from shard_dialect.passes.propagate.propagate_shardings import Propagated, PropagateShardings


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


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|->|[()\[\]{}<>,]')
_CLOSING = dict(zip("([{<", ")]}>", strict=True))


def result_places(text: str, function: str | None) -> list[str]:
    """The places of a function's results, given that of the function, all as `file:line:col`.

    Empty if the function is not there in the text.
    """
    found = re.fullmatch(r"(.*):(\d+):(\d+)", function or "", re.DOTALL)
    if found is None:
        return []
    file, line, column = found[1], int(found[2]), int(found[3])
    lines = text.splitlines(keepends=True)
    begin = sum(map(len, lines[: line - 1])) + column - 1
    if not text.startswith("func.func", begin):
        return []
    return [f"{file}:{_line_and_column(text, each)}" for each in _results(text, begin)]


def _results(text: str, begin: int) -> Iterator[int]:
    """The positions in a text at which the types of the results begin."""
    arguments = text.find("(", begin)
    after = _end(text, arguments) if arguments >= 0 else None
    arrow = re.compile(r"\s*->\s*").match(text, after) if after is not None else None
    if arrow is None:
        return
    if not text.startswith("(", arrow.end()):
        yield arrow.end()
        return
    for each in _parts(text, arrow.end()):
        start = re.compile(r"\s*").match(text, each)
        assert start is not None, "it matches nothing, too"
        yield start.end()


def _end(text: str, begin: int) -> int | None:
    """The position after the bracket that closes the one at `begin`."""
    expected: list[str] = []
    for token in _TOKEN.finditer(text, begin):
        if token[0] in _CLOSING:
            expected.append(_CLOSING[token[0]])
        elif expected and token[0] == expected[-1]:
            expected.pop()
            if not expected:
                return token.end()
    return None


def _parts(text: str, begin: int) -> Iterator[int]:
    """The positions after the bracket at `begin`, and after each comma in it."""
    expected: list[str] = []
    for token in _TOKEN.finditer(text, begin):
        if token[0] in _CLOSING:
            expected.append(_CLOSING[token[0]])
            if len(expected) == 1:
                yield token.end()
        elif token[0] == expected[-1]:
            expected.pop()
            if not expected:
                return
        elif token[0] == "," and len(expected) == 1:
            yield token.end()


def _line_and_column(text: str, position: int) -> str:
    before = text[:position]
    return f"{before.count(chr(10)) + 1}:{position - (before.rfind(chr(10)) + 1) + 1}"


def forget_inferred(module: ir.Module) -> None:
    """Take the inferred shardings from a module, in place, if propagation finds them again."""
    if not any(form_of(each) == "propagated" for each in functions_of(module.operation)):
        return
    text = module.operation.get_asm(enable_debug_info=True)
    again, before = (ir.Module.parse(text, module.context) for _ in range(2))
    _forget(again.operation)
    for each in (again, before):
        run_pipeline(each, "propagate")
    if again.operation.get_asm() == before.operation.get_asm():
        _forget(module.operation)


def _forget(module: ir.Operation) -> None:
    for function in functions_of(module):
        if form_of(function) != "propagated":
            continue
        forget_form(function)
        for op in walk(function):
            if op.name not in annotation_ops.OPS:
                drop_attributes(op, SHARDINGS, BLOCKS)
        _forget_boundary(function)


def _forget_boundary(function: ir.Operation) -> None:
    """Take what annotation ops say of arguments and results, too, from the boundary."""
    block = function.regions[0].blocks[0]
    arguments, results = boundary(function, "arg_attrs"), boundary(function, "res_attrs")
    for entry, argument in zip(arguments, block.arguments, strict=True):
        users = [use.owner.operation for use in argument.uses]
        if any(each.name in annotation_ops.OPS for each in users):
            entry.pop(SHARDING, None)
    for entry, value in zip(results, operations(block)[-1].operands, strict=False):
        maker = value.owner
        if not isinstance(maker, ir.Block) and maker.name in annotation_ops.OPS:
            entry.pop(SHARDING, None)
    set_boundary(function, "arg_attrs", arguments)
    set_boundary(function, "res_attrs", results)


@dataclass(frozen=True)
class Explained:
    """A partitioned module with the reasons of its collectives."""

    reasons: Mapping[int, Why]
    """By the number of the collective's mark."""
    origins: Origins | None
    """`None` if nothing was propagated."""
    tensors: tuple[NamedSharding, ...]
    """Those of the entry after propagation; none if the module was partitioned already."""
    arguments: Mapping[int, Placed]
    """The entry's arguments by number, with their places in the file."""
    layers: LayeredProgram
    """The ops of the program as it was before `partition`."""
    places: Mapping[str, str]
    """The places of the entry's values, by their names in a module that came in a later form."""


def imported(text: str) -> ir.Module:
    """The module in a text, in the current context, with its annotations imported."""
    module = ir.Module.parse(text)
    run_pipeline(module, "import")
    return module


def partition_explained(
    module: ir.Module, entry: str, text: str | None = None, printed_as: PrintedAs = "mesh"
) -> Explained:
    """Bring a module in any form to the local form, in place, with its collectives marked.

    `text` is that of the user's file, in which the arguments of the function `entry` have names;
    the values inside have those that they are printed with. Raises a located `ShardError` for what
    cannot be partitioned.
    """
    places = _places(module.operation, entry)
    run_pipeline(module, "import")
    forget_inferred(module)
    borrow_locations(module.operation)
    mark_annotations(module.operation)
    arguments = {
        each.site.number: each
        for each in annotations_in(module.operation)
        if (each.site.kind, each.site.function) == ("argument", entry)
    }
    recording = _Recording()
    reasons: dict[int, Why] = {}
    tensors: tuple[NamedSharding, ...] = ()
    layers = LayeredProgram(())
    for name in steps_of("spmd"):
        if name == "partition":
            reasons = _mark_collectives(module, recording.origins)
            layers = read_layers(module.operation, entry)
            run_pipeline(module, f"{name},canonicalize,cse")  # nobody runs what nobody uses
        else:
            (recording if name == recording.name else make_pass(name)).run(module)
        if name == _PROPAGATED and recording.origins is not None:
            _place_results(recording.origins, text)
            tensors = tuple(named_shardings(module.operation, entry, printed_as, recording.origins))
        elif name == _PROPAGATED:
            tensors = tuple(typed_shardings(module.operation, entry))
    given = places if recording.origins is None else {}
    return Explained(reasons, recording.origins, tensors, arguments, layers, given)


def _places(module: ir.Operation, entry: str) -> dict[str, str]:
    state = ir.AsmState(module)
    function = next(op for op in functions_of(module) if name_of(op) == entry)
    return {
        result.get_name(state).partition("#")[0]: place
        for op in walk(function)
        if (place := location_text(op.location)) is not None
        for result in op.results
    }


def _place_results(origins: Origins, text: str | None) -> None:
    for index in range(len(origins.graph.functions) if text else 0):
        assert text is not None, "there is one"
        for number, each in enumerate(result_places(text, origins.place_of_function(index))):
            origins.result_places[index, number] = each


def _mark_collectives(module: ir.Module, origins: Origins | None) -> dict[int, Why]:
    reasons = {}
    found = list(Reasons(module.operation, origins).of_collectives())
    for number, (handle, why) in enumerate(found):
        mark_collective(handle, number)
        reasons[number] = why
    return reasons


_PROPAGATED = "merge-clones"
"""The last step of `propagate`."""


class _Recording(PropagateShardings):
    """Propagation that keeps where shardings come from, and marks the ops."""

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "origins", None)

    origins: Origins | None

    def observe(self, found: Propagated) -> None:
        object.__setattr__(self, "origins", Origins(found.graph, found.engine))
        for number, function in enumerate(found.graph.functions):
            for index, op in enumerate(function.ops):
                mark(op.handle, number, index)
