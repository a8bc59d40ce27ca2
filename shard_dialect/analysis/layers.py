"""A program's ops with their layers, and the values between them with their shardings.

    %2 = stablehlo.dot_general %0, %1     LayeredOp("stablehlo.dot_general", ("decoder", "mlp"),
                                              inputs=(Input(0, 0), Input(1, 0)), ...)

It is read before the program is partitioned, while types say how tensors are sharded. What an op
costs is counted after that: each op's location gets a mark, which partition keeps. Calls are
inlined, and a region is a layer of its own; ops of loops and branches come before the op that
they are in, whose results they make.

The layer of an op is in its location, as a framework writes it:

    loc("jit(step)/decoder/layers_0/mlp/dot_general"("model.py":12:3))   decoder, layers_0, mlp

JAX writes the scopes around an op into its location, with slashes, the op's own name last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from shard_dialect.analysis.reasons.function_values import sharding_text
from shard_dialect.analysis.reasons.marks import collective_of, mark_shown
from shard_dialect.errors import as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text, name_in, names_in
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import Block, Function, Op, flows_between, read_functions

Layers = tuple[str, ...]
_JITTED = re.compile(r"jit\(.*\)")


def scope_of(location: ir.Location) -> Layers:
    """The scopes in a location, the outermost first; none where it names none."""
    path = next((name for name in names_in(location) if "/" in name), None)
    return () if path is None else scopes_in(path)


def scopes_in(path: str) -> Layers:
    """The scopes in a path, without those of `jax.jit` and without the op's own name.

    >>> scopes_in("jit(step)/transpose(jvp(decoder))/layers_0/mlp/dot_general")
    ('transpose(jvp(decoder))', 'layers_0', 'mlp')
    >>> scopes_in("jit(f)/jit(main)/add")
    ()
    """
    pieces = [piece for piece in path.split("/")[:-1] if piece]
    return tuple(piece for piece in pieces if not _JITTED.fullmatch(piece))


def beyond(scope: Layers, outer: Layers) -> Layers:
    """The part of a scope after that of an op around it.

    >>> beyond(("decoder", "while", "mlp"), ("decoder", "while"))
    ('mlp',)
    >>> beyond(("other",), ("decoder",))
    ('other',)
    """
    shared = 0
    while shared < min(len(scope), len(outer)) and scope[shared] == outer[shared]:
        shared += 1
    return scope[shared:]


ARGUMENTS: Layers = ("arguments",)
"""The layer of the entry's arguments."""
BLOCK_ARGUMENTS = "block arguments"
"""The name of the arguments of a block, as an op."""


@dataclass(frozen=True, slots=True)
class Output:
    """A value: its name as printed, its type without the sharding, and its sharding."""

    name: str
    type: str
    """As `8x64xf32`: the global shape, or the local one in a program that came partitioned."""
    sharding: str
    """As `[["data"], []]`; empty where the type has none."""


@dataclass(frozen=True, slots=True)
class Input:
    """An output of another op, both by number."""

    op: int
    output: int


@dataclass(frozen=True, slots=True)
class LayeredOp:
    """An op, an argument of the entry, or the arguments of a block."""

    name: str
    layers: Layers
    location: str | None
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    mark: int | None = None
    """The number in its mark; `None` for arguments. All calls of a function have its marks."""
    collective: int | None = None
    """The number in its mark as a collective."""


@dataclass(frozen=True)
class LayeredProgram:
    """The ops that the entry runs, each call of a function by itself."""

    ops: tuple[LayeredOp, ...]

    @cached_property
    def calls(self) -> tuple[int, ...]:
        """For each op, how many earlier ones have the same mark: those of earlier calls."""
        seen: dict[int, int] = {}
        found = []
        for op in self.ops:
            number = seen.get(op.mark, 0) if op.mark is not None else 0
            found.append(number)
            if op.mark is not None:
                seen[op.mark] = number + 1
        return tuple(found)


def read_layers(module: ir.Operation, entry: str) -> LayeredProgram:
    """Read a module in the distributed or local form, and mark its ops."""
    functions = read_functions(functions_of(module))
    return _Reader(functions, Shardings.of(module)).program(entry)


class _Reader:
    """All functions of a module; `ops` grows while calls are read."""

    def __init__(self, functions: Sequence[Function], shardings: Shardings) -> None:
        self.ops: list[LayeredOp] = []
        self._functions = {each.name: each for each in functions}
        self._states = {each.name: ir.AsmState(each.handle) for each in functions}
        self._shardings = shardings
        self._texts: dict[ir.Type, tuple[str, str]] = {}
        self._marks: dict[int, int] = {}
        for op in (op for each in functions for op in each.ops):
            self._marks[id(op)] = len(self._marks)
            mark_shown(op.handle, self._marks[id(op)])

    def program(self, name: str) -> LayeredProgram:
        function = self._functions[name]
        block = function.blocks[0].handle
        call = _Call(self, function, (name,))
        for number, value in enumerate(function.arguments):
            location = block.arguments[number].location
            named = name_in(location) or f"argument {number}"
            made = LayeredOp(
                named, ARGUMENTS, location_text(location), (), (self.output(function, value),)
            )
            call.values[value] = (Input(self.add(made), 0),)
        call.read((), ())
        return LayeredProgram(tuple(self.ops))

    def add(self, op: LayeredOp) -> int:
        self.ops.append(op)
        return len(self.ops) - 1

    def connect(self, number: int, inputs: Sequence[Input]) -> None:
        op = self.ops[number]
        self.ops[number] = replace(op, inputs=tuple(dict.fromkeys((*op.inputs, *inputs))))

    def output(self, function: Function, value: int) -> Output:
        """The texts about a value; those of each type are made once."""
        found = function.values[value]
        type_ = found.kind.type
        if type_ not in self._texts:
            sharding = self._shardings.of_type(type_)
            text = sharding_text(sharding, self._shardings.grid(sharding.grid)) if sharding else ""
            self._texts[type_] = (_type_text(type_), text)
        return Output(found.handle.get_name(self._states[function.name]), *self._texts[type_])

    def mark(self, op: Op) -> int:
        return self._marks[id(op)]

    def callee(self, op: Op) -> Function | None:
        if op.name != "func.call":
            return None
        return self._functions.get(op.handle.attributes["callee"].value)


class _Call:
    """One run of a function; `values` has what makes each of its values."""

    def __init__(self, reader: _Reader, function: Function, callers: Sequence[str]) -> None:
        self._reader = reader
        self._function = function
        self._callers = callers
        self.values: dict[int, tuple[Input, ...]] = {}

    def read(self, layers: Layers, scope: Layers) -> None:
        """Read the ops, which are in `layers`, and called from an op with a scope."""
        blocks = self._function.blocks
        for number, block in enumerate(blocks):
            if number:
                self._enter(block, layers, ())
            for op in block.ops:
                if op.name != "func.return" or len(self._callers) == 1:
                    self._op(op, layers, scope)
        for flow in flows_between(blocks):
            sources = [each for end, n in flow.sources for each in self.made(end.operands[n])]
            for target in flow.targets:
                self._reader.connect(self.values[target][0].op, sources)

    def made(self, *values: int) -> tuple[Input, ...]:
        """The ops that make these values."""
        return tuple(each for value in values for each in self.values.get(value, ()))

    def _enter(self, block: Block, layers: Layers, inputs: tuple[Input, ...]) -> None:
        """Make the arguments of a block an op of their own."""
        if block.arguments:
            outputs = tuple(self._reader.output(self._function, each) for each in block.arguments)
            made = self._reader.add(LayeredOp(BLOCK_ARGUMENTS, layers, None, inputs, outputs))
            for number, value in enumerate(block.arguments):
                self.values[value] = (Input(made, number),)

    def _op(self, op: Op, layers: Layers, outer: Layers) -> None:
        scope = scope_of(op.location)
        own = (*layers, *beyond(scope, outer))
        callee = self._reader.callee(op)
        if callee is not None and callee.name not in self._callers:
            self._inline(op, callee, (*own, as_symbol(callee.name)), scope)
            return
        mark = self._reader.mark(op)
        inside = self._blocks(op, (*own, f"{op.name} {mark}"), scope)
        made = self._reader.add(
            LayeredOp(
                op.name,
                own,
                location_text(op.location),
                tuple(dict.fromkeys((*self.made(*op.read), *inside))),
                tuple(self._reader.output(self._function, each) for each in op.results),
                mark,
                collective_of(op.location),
            )
        )
        for number, value in enumerate(op.results):
            self.values[value] = (Input(made, number),)

    def _blocks(self, op: Op, layers: Layers, scope: Layers) -> Iterator[Input]:
        """Read the blocks of an op; yield the ops at their ends."""
        for number, block in enumerate(op.blocks):
            inside = (*layers, f"block {number}") if len(op.blocks) > 1 else layers
            self._enter(block, inside, self.made(*op.operands))
            for each in block.ops:
                self._op(each, inside, scope)
            yield Input(len(self._reader.ops) - 1, 0)

    def _inline(self, op: Op, callee: Function, layers: Layers, scope: Layers) -> None:
        call = _Call(self._reader, callee, (*self._callers, callee.name))
        for value, operand in zip(callee.arguments, op.operands, strict=True):
            call.values[value] = self.made(operand)
        call.read(layers, scope)
        for number, value in enumerate(op.results):
            self.values[value] = call.made(*(each.operands[number] for each in callee.returns))


def _type_text(type_: ir.Type) -> str:
    if not isinstance(type_, ir.RankedTensorType):
        return str(type_)
    sizes = (
        "?" if type_.is_dynamic_dim(dim) else str(size) for dim, size in enumerate(type_.shape)
    )
    return "x".join([*sizes, str(type_.element_type)])
