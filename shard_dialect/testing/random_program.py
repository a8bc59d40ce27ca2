"""Random annotated programs: chains of samples, in loops, branches and called functions.

A sample's results are operands of the samples after it, where types match; else the function gets
one more argument. Computed floats are no operands of ops for which rounding may decide the result
(`Trait.STEEP`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from random import Random

from shard_dialect.errors import as_symbol, quoted
from shard_dialect.model import Grid, Sharding
from shard_dialect.testing.placement import declaration, encoding
from shard_dialect.testing.random_collectives import COLLECTIVE, collective_program
from shard_dialect.testing.random_draws import EVEN, UNEVEN, Draws, chance
from shard_dialect.testing.random_shardings import any_grids, any_sharding, is_uneven
from shard_dialect.testing.random_shardy import SHARDY, shardy_program
from shard_dialect.testing.random_stages import STAGED, staged_program
from shard_dialect.testing.sample import Sample, Tensor
from shard_dialect.testing.sample_table import SAMPLES, can_be_narrow, jumps, moves, runnable

_LARGEST = 2**12
_DEEPEST = 2
_FLAG = Tensor((), "i1")
_MIXED = (("bf16",), ("f16",), ("bf16", "bf16"), ("f16", "bf16"))

SEVERAL_SIZES = "grids of several sizes"
UNEVEN_HALOS = "halos where shards are uneven"
FEATURES = (SEVERAL_SIZES, UNEVEN_HALOS)
"""What a program's text does not show at once."""

Isolated = Callable[[Callable[[Random], None]], None]
"""Runs a step of drawing with a generator of its own."""


@dataclass(frozen=True, slots=True)
class Program:
    """A module with `@main`, which can run on the devices of its grids."""

    text: str
    ops: tuple[str, ...]
    """The names of the drawn ops, in order."""
    unsharded: str = ""
    """The program without shardings, where `text` does not say it: with manual computations."""
    features: frozenset[str] = frozenset()
    """Those of `FEATURES` that it has."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class _Value:
    name: str
    type: Tensor
    is_exact: bool
    """Whether it has no rounding error: it comes from arguments or integers alone."""


@dataclass(frozen=True, slots=True)
class _Signature:
    name: str
    arguments: tuple[Tensor, ...]
    results: tuple[Tensor, ...]


@dataclass
class _Module:
    rng: Random
    grids: Sequence[Grid]
    is_even: bool
    names: Sequence[str]
    """The names of the ops to draw from, all with the same probability."""
    isolated: Isolated | None
    rare: Sequence[str] = ()
    """Those of `names` to draw more often than the others, all with the same probability."""
    precisions: Sequence[str] = ("f32",)
    """The float types that may replace a sample's f32."""
    ops: list[str] = field(default_factory=list)
    signatures: list[_Signature] = field(default_factory=list)
    count: int = 0
    has_extents: bool = False
    """Whether annotations have offsets or halos."""
    features: set[str] = field(default_factory=set)

    @property
    def flows(self) -> Sequence[Callable[[_Function], None]]:
        """Loops, branches and calls: only StableHLO's, if all ops are."""
        is_stablehlo = all(name.startswith("stablehlo.") for name in self.names)
        return [each for each in _FLOWS if not is_stablehlo or each not in (_for, _if)]

    def fresh(self) -> int:
        self.count += 1
        return self.count

    def step(self, take: Callable[[], None]) -> None:
        """Run a step, with a generator of its own if possible."""
        if self.isolated is None:
            take()
            return
        around = self.rng

        def with_own(rng: Random) -> None:
            self.rng = rng
            take()
            self.rng = around

        self.isolated(with_own)

    def sharding(self, tensor: Tensor, sub_axes: bool) -> Sharding:
        """A sharding on the first grid in most cases, or on another."""
        grid = self.grids[0] if chance(self.rng, 0.6) else self.rng.choice(self.grids)
        sharding = any_sharding(
            self.rng,
            tensor.shape,
            grid,
            even=self.is_even,
            sub_axes=sub_axes,
            extents=self.has_extents,
        )
        if sharding.halos and is_uneven(sharding, tensor.shape, grid):
            self.features.add(UNEVEN_HALOS)
        if grid.size < self.grids[0].size:
            self.features.add(SEVERAL_SIZES)
        return sharding


def any_program(
    rng: Random,
    ops: Sequence[str] | None = None,
    isolated: Isolated | None = None,
    rare: Sequence[str] = (),
) -> Program:
    """A program of samples of these ops, or of all that can be run; the same for one seed.

    Most samples are of `rare` ops, if there are any. One in ten has symbols of any text.
    """
    program = _with_plain_names(rng, ops, isolated, rare)
    if not chance(rng, 0.1):
        return program
    declared = dict.fromkeys(_DECLARED.findall(program.text))
    declared.pop("main", None)
    odd = dict(zip(declared, rng.sample(_ODD, len(_ODD)), strict=False))

    def renamed(match: re.Match[str]) -> str:
        name = str(odd.get(match[2], match[2]))
        return f"sym_name = {quoted(name)}" if match[1] else as_symbol(name)

    return replace(program, text=_SYMBOL.sub(renamed, program.text))


_DECLARED = re.compile(
    r'(?:\bfunc\.func (?:\w+ )?@|\bshard\.grid @|\bsdy\.mesh @|\bsym_name = ")([\w$]+)'
)
_SYMBOL = re.compile(r'(?:@|\b(sym_name = )")([\w$]+)(?(1)")')
_ODD = ("a b", "1", "@", 'q"q', "é", "x.y-z", "(", "->", "//", "{", "main.1", "-", "#0", "%a", "\\")


def _with_plain_names(
    rng: Random, ops: Sequence[str] | None, isolated: Isolated | None, rare: Sequence[str]
) -> Program:
    names = sorted(ops) if ops is not None else runnable()
    # Hypothesis shrinks it to 0.
    kind = rng.randrange(100) if set(names) >= STAGED | SHARDY | COLLECTIVE else 0
    if kind >= 92:
        text = staged_program(rng)
        return Program(text, tuple(re.findall(r"stablehlo\.\w+", text)))
    if kind >= 60:
        text, unsharded = shardy_program(rng) if kind >= 72 else collective_program(rng)
        features = frozenset({SEVERAL_SIZES} if "<@small," in text else ())
        return Program(text, tuple(re.findall(r"stablehlo\.\w+", unsharded)), unsharded, features)
    module = _Module(rng, any_grids(rng), not chance(rng, 0.4), names, isolated, rare)
    if chance(rng, 0.35):
        module.precisions = ("f32", *rng.choice(_MIXED))
    module.has_extents = chance(rng, 0.4)
    functions = []
    if chance(rng, 0.25):
        functions.append(_Function(module).written("f", "private ", most=3))
    functions.append(_Function(module).written("main", "", most=8))
    text = "".join(map(declaration, module.grids)) + "\n".join(functions)
    return Program(text, tuple(module.ops), features=frozenset(module.features))


class _Function:
    """A function under construction."""

    def __init__(self, module: _Module) -> None:
        self.module = module
        self.arguments: list[_Value] = []
        self.values: list[_Value] = []
        self.used: set[str] = set()
        self.annotated: set[str] = set()
        """The names of annotated values, and of annotations' results."""
        self.lines: list[str] = []
        self.depth = 0

    @property
    def rng(self) -> Random:
        return self.module.rng

    def written(self, name: str, visibility: str, most: int) -> str:
        self.steps(most)
        results = [each for each in self.values if each.name not in self.used][-4:]
        results = results or self.values[-1:]
        if visibility:
            results = results[-1:]
        operands = ", ".join(
            f"{each.name}: {each.type}{self.on_boundary(each)}" for each in self.arguments
        )
        result = ", ".join(f"{each.type}{self.on_boundary(each)}" for each in results)
        types = tuple(each.type for each in self.arguments), tuple(each.type for each in results)
        self.module.signatures.append(_Signature(name, *types))
        returned = f"{_names(results)} : {_types(results)}" if results else ""
        return "\n".join(
            [
                f"func.func {visibility}{as_symbol(name)}({operands}) -> ({result}) {{",
                *self.lines,
                f"return {returned}",
                "}\n",
            ]
        )

    def steps(self, most: int) -> None:
        """One or more samples, and what holds some."""
        for _ in range(self.rng.randint(1, most)):
            self.module.step(self.step)

    def step(self) -> None:
        if self.depth < _DEEPEST and chance(self.rng, 0.1):
            self.rng.choice(self.module.flows)(self)
        else:
            self.sample()
        if chance(self.rng, 0.3):
            self.annotate()

    # Values

    def known(self) -> list[_Value]:
        return [
            each for each in (*self.values, *self.arguments) if prod(each.type.shape) <= _LARGEST
        ]

    def argument(self, type_: Tensor) -> _Value:
        result = _Value(f"%a{self.module.fresh()}", type_, is_exact=True)
        self.arguments.append(result)
        return result

    def find(self, type_: Tensor, exact: bool = False) -> _Value:
        """A value of this type: one of the latest, or a new argument."""
        values = [
            each
            for each in (*self.arguments, *self.values)
            if each.type == type_ and (each.is_exact or not exact)
        ]
        others = [] if values or exact else self.in_other_precisions(type_)
        if values and not chance(self.rng, 0.15):
            value = self.rng.choice(values[-3:])
        elif others and not chance(self.rng, 0.3):
            value = self.converted(self.rng.choice(others[-3:]), type_)
        else:
            value = self.argument(type_)
        self.used.add(value.name)
        return value

    def in_other_precisions(self, type_: Tensor) -> list[_Value]:
        """Floats of the same shape that a program of several precisions may convert."""
        precisions = self.module.precisions
        if len(precisions) == 1 or type_.element not in precisions:
            return []
        return [
            each
            for each in (*self.arguments, *self.values)
            if each.type.element in precisions and each.type.of(type_.element) == type_
        ]

    def converted(self, value: _Value, type_: Tensor) -> _Value:
        name = f"%c{self.module.fresh()}"
        text = f"stablehlo.convert {value.name} : ({value.type}) -> {type_}"
        self.lines.append(f"{name} = {text}")
        self.used.add(value.name)
        return self.add_results([type_], name)[0]

    def add_results(self, types: Sequence[Tensor], name: str, exact: bool = False) -> list[_Value]:
        several = len(types) > 1
        values = [
            _Value(f"{name}#{number}" if several else name, type_, exact or not type_.is_float)
            for number, type_ in enumerate(types)
        ]
        self.values += values
        return values

    # Ops

    def sample(self) -> None:
        rare = self.module.rare
        op = self.rng.choice(rare if rare and chance(self.rng, 0.8) else self.module.names)
        sizes = EVEN if self.module.is_even else UNEVEN + EVEN
        drawn: Sample = SAMPLES[op](Draws(self.rng, sizes, [each.type for each in self.known()]))
        precision = self.rng.choice(self.module.precisions)
        if precision != "f32" and can_be_narrow(drawn):
            drawn = drawn.in_precision(precision)
        needs_exact = jumps(op) or drawn.jumps
        operands = [self.find(type_, needs_exact) for type_ in drawn.operands]
        number = self.module.fresh()
        name = f"%v{number}"
        self.lines.append(drawn.renamed([each.name for each in operands], name, f"n{number}_"))
        is_exact = moves(op) and all(each.is_exact for each in operands)
        self.add_results(drawn.results, name, is_exact)
        self.module.ops.append(op)

    def annotate(self) -> None:
        """Annotate the latest value: itself, or for its users."""
        if not self.values or self.values[-1].name in self.annotated:
            return
        value, number = self.values[-1], self.module.fresh()
        name, kind = f"%s{number}", self.rng.randrange(3 if value.type.shape else 2)
        sharding = self.module.sharding(value.type, sub_axes=kind < 2)
        if kind < 2:
            as_result = "true" if kind == 0 else "false"
            self.lines.append(
                f'{name} = "mesh.annotate"({value.name}) {{sharding = '
                f"#mesh.shard<{as_symbol(sharding.grid)}, {sharding}>, required = true, "
                f"as_result = {as_result}}} : ({value.type}) -> {value.type}"
            )
        else:
            for_users = " annotate_for_users" if chance(self.rng, 0.5) else ""
            axes = [list(each) for each in sharding.split_axes]
            on_grid = f"{as_symbol(sharding.grid)} split_axes = {axes}"
            self.lines += [
                f"%l{number} = shard.sharding {on_grid}{self.extents(sharding)} : !shard.sharding",
                f"{name} = shard.shard {value.name} to %l{number}{for_users} : {value.type}",
            ]
        self.annotated |= {value.name, name}
        self.used.add(value.name)
        self.values.append(replace(value, name=name))

    def extents(self, sharding: Sharding) -> str:
        """The halos or offsets in upstream's words; some numbers are constants of the program."""
        split = [dim for dim, axes in enumerate(sharding.split_axes) if axes]
        if sharding.halos:
            name, sizes = "halo_sizes", [size for dim in split for size in sharding.halo(dim)]
        elif sharding.offsets:
            name = "sharded_dims_offsets"
            sizes = [at or 0 for dim in split for at in sharding.offsets[dim]]
        else:
            return ""
        texts = [self.number(size, "i64") if chance(self.rng, 0.1) else str(size) for size in sizes]
        return f" {name} = [{', '.join(texts)}]"

    def on_boundary(self, value: _Value) -> str:
        if not chance(self.rng, 0.5) or value.name in self.annotated:
            return ""
        self.annotated.add(value.name)
        return encoding(self.module.sharding(value.type, sub_axes=True))

    # Control flow

    def region(
        self, operands: Sequence[_Value], types: Sequence[Tensor]
    ) -> tuple[list[str], list[_Value]]:
        """The lines of a region that may use `operands`, and values of these types that end it."""
        lines, count, used = self.lines, len(self.values), set(self.used)
        self.lines = []
        self.values = [*self.values, *operands]
        self.depth += 1
        self.steps(3)
        ends = []
        for type_ in types:
            inside = [each for each in self.values[count:] if each.type == type_]
            ends.append(inside[-1] if inside else self.find(type_))
        self.depth -= 1
        inside_lines, self.lines = self.lines, lines
        self.values = self.values[:count]
        self.used |= used
        return inside_lines, ends

    def carried(self) -> list[_Value]:
        """One or two loop-carried values, or results; StableHLO has no `index`."""
        known = [each for each in self.known() if each.type.element != "index"]
        if not known:
            return [self.argument(Tensor((12, 12) if self.module.is_even else (5, 12)))]
        values = [self.rng.choice(known[-4:]) for _ in range(self.rng.randint(1, 2))]
        self.used |= {each.name for each in values}
        return values

    def block_arguments(self, inits: Sequence[_Value]) -> list[_Value]:
        return [
            _Value(f"%b{self.module.fresh()}", each.type, not each.type.is_float) for each in inits
        ]

    def number(self, value: int, type_: str) -> str:
        name = f"%k{self.module.fresh()}"
        text = (
            f"stablehlo.constant dense<{value}>" if "tensor" in type_ else f"arith.constant {value}"
        )
        self.lines.append(f"{name} = {text} : {type_}")
        return name


def _names(values: Sequence[_Value]) -> str:
    return ", ".join(each.name for each in values)


def _types(values: Sequence[_Value]) -> str:
    return ", ".join(str(each.type) for each in values)


def _bound(function: _Function, types: Sequence[Tensor], head: str) -> None:
    """`%v:2 = head`, and its results as values."""
    name = f"%v{function.module.fresh()}"
    several = f":{len(types)}" if len(types) > 1 else ""
    function.lines.append(f"{name}{several} = {head}")
    function.add_results(types, name)


def _for(function: _Function) -> None:
    inits = function.carried()
    types = [each.type for each in inits]
    low, high, step = (function.number(each, "index") for each in (0, function.rng.randrange(4), 1))
    operands = function.block_arguments(inits)
    inside, ends = function.region(operands, types)
    pairs = ", ".join(f"{a.name} = {b.name}" for a, b in zip(operands, inits, strict=True))
    head = (
        f"scf.for %i{function.module.fresh()} = {low} to {high} step {step} iter_args({pairs}) -> "
        f"({_types(inits)}) {{"
    )
    text = "\n".join([head, *inside, f"scf.yield {_names(ends)} : {_types(ends)}", "}"])
    _bound(function, types, text)
    function.module.ops.append("scf.for")


def _if(function: _Function) -> None:
    shown = function.carried()
    types = [each.type for each in shown]
    flag, name = function.find(_FLAG), f"%p{function.module.fresh()}"
    function.lines.append(f"{name} = tensor.extract {flag.name}[] : {_FLAG}")
    parts = [f"scf.if {name} -> ({_types(shown)}) {{"]
    for last in ("} else {", "}"):
        inside, ends = function.region([], types)
        parts += [*inside, f"scf.yield {_names(ends)} : {_types(ends)}", last]
    _bound(function, types, "\n".join(parts))
    function.module.ops.append("scf.if")


def _while(function: _Function) -> None:
    inits = function.carried()
    types = [each.type for each in inits]
    counter = Tensor((), "i32")
    zero, limit, one = (
        function.number(each, str(counter)) for each in (0, function.rng.randrange(4), 1)
    )
    operands = function.block_arguments(inits)
    at, flag, step = (f"%{letter}{function.module.fresh()}" for letter in "ipj")
    inside, ends = function.region(operands, types)
    pairs = ", ".join(f"{a.name} = {b.name}" for a, b in zip(operands, inits, strict=True))
    text = "\n".join(
        [
            f"stablehlo.while({at} = {zero}, {pairs}) : {counter}, {_types(inits)}",
            "cond {",
            f"{flag} = stablehlo.compare LT, {at}, {limit} : ({counter}, {counter}) -> tensor<i1>",
            f"stablehlo.return {flag} : tensor<i1>",
            "} do {",
            *inside,
            f"{step} = stablehlo.add {at}, {one} : {counter}",
            f"stablehlo.return {step}, {_names(ends)} : {counter}, {_types(ends)}",
            "}",
        ]
    )
    _bound(function, [counter, *types], text)
    function.module.ops.append("stablehlo.while")


def _case(function: _Function) -> None:
    shown = function.carried()
    types = [each.type for each in shown]
    which = function.find(Tensor((), "i32"))
    branches = []
    for _ in range(function.rng.randint(1, 3)):
        inside, ends = function.region([], types)
        lines = [*inside, f"stablehlo.return {_names(ends)} : {_types(ends)}"]
        branches.append("{\n" + "\n".join(lines) + "\n}")
    text = (
        f'"stablehlo.case"({which.name}) ({", ".join(branches)}) : ({which.type}) -> '
        f"({_types(shown)})"
    )
    _bound(function, types, text)
    function.module.ops.append("stablehlo.case")


def _call(function: _Function) -> None:
    callable_functions = [each for each in function.module.signatures if each.results]
    if not callable_functions:
        return
    called = function.rng.choice(callable_functions)
    operands = [function.find(type_) for type_ in called.arguments]
    result = ", ".join(map(str, called.results))
    name, types = as_symbol(called.name), _types(operands)
    text = f"func.call {name}({_names(operands)}) : ({types}) -> ({result})"
    _bound(function, called.results, text)
    function.module.ops.append("func.call")


_FLOWS: tuple[Callable[[_Function], None], ...] = (_for, _if, _call, _while, _case)
