"""Emit loops, branches and calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from shard_dialect.backends.python.ops import tensor_ops
from shard_dialect.backends.python.writer import Writer
from shard_dialect.errors import as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.attributes import DYNAMIC
from shard_dialect.ir.walk import operations

Block = Callable[[Writer, ir.Block], ir.Operation]
"""Writes the ops of a block but the last, and returns that."""


def for_(w: Writer, op: ir.Operation, write: Block) -> None:
    """Write an `scf.for` as a `for`."""
    operands = list(op.operands)
    low, high, step = (w.literals.get(each) or w.use(each) for each in operands[:3])
    inits = [w.use(each) for each in operands[3:]]
    body = op.regions[0].blocks[0]
    carried = _loop_variables(w, list(body.arguments)[1:], inits)
    (counter,) = list(body.arguments)[:1]
    index = w.name(counter, "i")
    if not isinstance(counter.type, ir.IndexType):
        w.values[counter] = w.scalar(index, counter.type, op.location)
    bounds = f"{low}, {high}, {step}" if step != "1" else f"{low}, {high}"
    w.line(f"for {index} in range({bounds if (low, step) != ('0', '1') else high}):")
    _branch(w, body, carried, write)
    for result, name in zip(op.results, carried, strict=True):
        w.values[result] = name


def forall(w: Writer, op: ir.Operation, write: Block) -> None:
    """Write an `scf.forall` as loops in which iterations write their slices of copies."""
    operands = iter(op.operands)
    bounds = []
    for name in ("staticLowerBound", "staticUpperBound", "staticStep"):
        static = op.attributes[name]
        bounds.append([w.use(next(operands)) if at == DYNAMIC else str(at) for at in static])
    rank, body = len(bounds[0]), op.regions[0].blocks[0]
    outs = list(body.arguments)[rank:]
    for argument, shared, result in zip(outs, operands, op.results, strict=True):
        w.values[argument] = w.use(shared)
        w.define(result, w.fresh(shared), "written")
    counters = [w.name(each, "i") for each in list(body.arguments)[:rank]]
    with ExitStack() as nest:
        for counter, *span in zip(counters, *bounds, strict=True):
            w.line(f"for {counter} in range({', '.join(span)}):")
            nest.enter_context(w.indented())
        for each in operations(write(w, body).regions[0].blocks[0]):
            into = op.results[outs.index(each.operands[1])]
            tensor_ops.write_slice(w, each, w.values[into])


def _loop_variables(w: Writer, arguments: Sequence[ir.Value], inits: Sequence[str]) -> list[str]:
    """Write the loop-carried variables with their initial values."""
    names = [w.name(argument, "carried") for argument in arguments]
    for name, init in zip(names, inits, strict=True):
        w.line(f"{name} = {init}")
    return names


def _assign(w: Writer, names: Sequence[str], values: Sequence[str]) -> None:
    pairs = [(name, value) for name, value in zip(names, values, strict=True) if name != value]
    if pairs:
        left, right = (", ".join(each) for each in zip(*pairs, strict=True))
        w.line(f"{left} = {right}")


def assert_(w: Writer, op: ir.Operation, _: Block) -> None:
    """Write a `cf.assert` as an `assert`."""
    (condition,) = w.uses(op)
    w.line(f"assert {condition}, {op.attributes['msg'].value!r}")


def if_(w: Writer, op: ir.Operation, write: Block) -> None:
    """Write an `scf.if` as an `if`."""
    names = [w.names.new("chosen") for _ in op.results]
    (condition,) = w.uses(op)
    w.line(f"if {condition}:")
    for number, region in enumerate(op.regions):
        blocks = list(region.blocks)
        if not blocks or (number and not names and len(operations(blocks[0])) < 2):
            continue
        if number:
            w.line("else:")
        _branch(w, blocks[0], names, write)
    for result, name in zip(op.results, names, strict=True):
        w.values[result] = name


def _branch(w: Writer, block: ir.Block, names: Sequence[str], write: Block) -> None:
    """Write a branch, or a loop's body, and assign its results to the names."""
    with w.indented():
        before = len(w.lines)
        _assign(w, names, w.uses(write(w, block)))
        if len(w.lines) == before:
            w.line("pass")


def index_switch(w: Writer, op: ir.Operation, write: Block) -> None:
    """Write an `scf.index_switch` as a `match`."""
    default, *regions = op.regions
    cases = zip(op.attributes["cases"], regions, strict=True)
    _match(w, op, [*((str(case), region) for case, region in cases), ("_", default)], write)


def case(w: Writer, op: ir.Operation, write: Block) -> None:
    """Write a `stablehlo.case`; its last branch is the default."""
    *regions, last = op.regions
    cases = [(str(number), region) for number, region in enumerate(regions)]
    _match(w, op, [*cases, ("_", last)], write)


def _match(
    w: Writer, op: ir.Operation, cases: Sequence[tuple[str, ir.Region]], write: Block
) -> None:
    names = [w.names.new("chosen") for _ in op.results]
    (which,) = w.uses(op)
    is_python = isinstance(op.operands[0].type, ir.IndexType)
    w.line(f"match {which}:" if is_python else f"match int({which}):")
    with w.indented():
        for pattern, region in cases:
            w.line(f"case {pattern}:")
            _branch(w, region.blocks[0], names, write)
    for result, name in zip(op.results, names, strict=True):
        w.values[result] = name


def while_(w: Writer, op: ir.Operation, write: Block) -> None:
    """Write an `scf.while` as a `while True` with a break."""
    before, after = (region.blocks[0] for region in op.regions)
    carried = _loop_variables(w, list(before.arguments), w.uses(op))
    names = [w.name(argument, "passed") for argument in after.arguments]
    w.line("while True:")
    with w.indented():
        goes_on, *forwarded = w.uses(write(w, before))
        _assign(w, names, forwarded)
        _leave_unless(w, goes_on)
        _assign(w, carried, w.uses(write(w, after)))
    for result, name in zip(op.results, names, strict=True):
        w.values[result] = name


def _leave_unless(w: Writer, goes_on: str) -> None:
    w.line(f"if not {goes_on}:")
    with w.indented():
        w.line("break")


def stablehlo_while(w: Writer, op: ir.Operation, write: Block) -> None:
    """Write a `stablehlo.while` as a `while True` with a break."""
    condition, body = (region.blocks[0] for region in op.regions)
    carried = _loop_variables(w, list(condition.arguments), w.uses(op))
    for argument, name in zip(body.arguments, carried, strict=True):
        w.values[argument] = name
    w.line("while True:")
    with w.indented():
        (goes_on,) = w.uses(write(w, condition))
        _leave_unless(w, goes_on)
        _assign(w, carried, w.uses(write(w, body)))
    for result, name in zip(op.results, carried, strict=True):
        w.values[result] = name


def region(w: Writer, op: ir.Operation, write: Block) -> None:
    """Write the body of a region that runs once."""
    if len(list(op.regions[0].blocks)) != 1:
        raise w.refuse(op, "it has several blocks")
    last = write(w, op.regions[0].blocks[0])
    for result, value in zip(op.results, last.operands, strict=True):
        w.values[result] = w.use(value)


def call(w: Writer, op: ir.Operation, write: Block) -> None:
    """Write a call of a function."""
    callee = op.attributes["callee"].value
    if callee not in w.functions:
        raise w.refuse(op, f"{as_symbol(callee)} has no body")
    text = f"{w.functions[callee]}({', '.join(w.uses(op))})"
    if len(op.results) == 1:
        w.define(op.results[0], text, "result")
        return
    names = [w.name(result, "result") for result in op.results]
    w.line(f"{', '.join(names)} = {text}" if names else text)


TABLE: dict[str, Callable[[Writer, ir.Operation, Block], None]] = {
    "scf.for": for_,
    "cf.assert": assert_,
    "scf.forall": forall,
    "scf.if": if_,
    "scf.index_switch": index_switch,
    "scf.while": while_,
    "scf.execute_region": region,
    "stablehlo.while": stablehlo_while,
    "stablehlo.if": if_,
    "stablehlo.case": case,
    "func.call": call,
}
