"""Calls, branches and loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np

from shard_dialect.errors import as_symbol
from shard_dialect.proof.elementwise import selected
from shard_dialect.proof.machine import Data, Machine, Value, runs
from shard_dialect.proof.reading import Block, Op


@runs("func.call", "stablehlo.composite", "call")
def _call(m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]) -> Sequence[Value]:
    name = op.attributes.get("callee", op.attributes.get("decomposition"))
    if name not in m.program.functions:
        raise m.unproven(op, f"calls {as_symbol(name)}, which has no body")
    if name in m.calls:
        raise m.unproven(op, f"calls {as_symbol(name)}, which it is in: recursion is not followed")
    return m.call(m.program.functions[name], values)


@runs("scf.execute_region", "sdy.named_computation", "stablehlo.async_start")
def _execute(
    m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]
) -> Sequence[Value]:
    return m.run(op.body, known, values if op.body.arguments else ())


@runs("scf.if", "stablehlo.if")
def _if(m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]) -> Sequence[Value]:
    if values[0].is_symbolic and op.types:
        return _both(m, op, values[0], op.regions, known)
    taken = m.integers(values[0]) != 0
    return _branches(m, op, [taken, ~taken], op.regions, known)


def _both(
    m: Machine, op: Op, bit: Value, blocks: Sequence[Block], known: dict[int, Value]
) -> list[Value]:
    """The results of the first block where the bit is 1, else the second's; it is a polynomial."""
    with m.chosen_by(bit.data):
        yes, no = (m.run(block, known, ()) for block in blocks)
    return _chosen(m, op, bit, yes, no)


@runs("stablehlo.case", "scf.index_switch")
def _case(m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]) -> Sequence[Value]:
    bit = values[0].bit
    if bit is not None and op.name == "stablehlo.case" and len(op.regions) == 2:
        return _both(m, op, Value(bit, True), op.regions[::-1], known)
    index = m.integers(values[0])
    if op.name == "scf.index_switch":
        default, *blocks = op.regions
        numbers = list(op.attributes["cases"])
    else:
        *blocks, default = op.regions
        numbers = list(range(len(blocks)))
    taken = [index == number for number in numbers]
    rest = ~np.logical_or.reduce([np.zeros_like(index, bool), *taken])
    return _branches(m, op, [*taken, rest], [*blocks, default], known)


def _branches(
    m: Machine,
    op: Op,
    taken: Sequence[Data],
    blocks: Sequence[Block],
    known: dict[int, Value],
) -> list[Value]:
    """The results of the branch that each device takes."""
    results: list[Value] | None = None
    for devices, block in zip(taken, blocks, strict=True):
        if not np.any(devices):
            continue
        if np.all(devices):
            return m.run(block, known, ()) if block.ops else []
        with m.within(devices):
            own = m.run(block, known, ()) if block.ops else []
        results = own if results is None else _of_devices(m, op, devices, own, results)
    return results or []


def _of_devices(
    m: Machine, op: Op, devices: Data, yes: Sequence[Value], no: Sequence[Value]
) -> list[Value]:
    return _chosen(m, op, Value(devices.astype(np.int64), False), yes, no)


def _chosen(
    m: Machine, op: Op, which: Value, yes: Sequence[Value], no: Sequence[Value]
) -> list[Value]:
    return [
        selected(m, [which, a, b], type_) for a, b, type_ in zip(yes, no, op.types, strict=True)
    ]


@runs("scf.while", "stablehlo.while")
def _while(m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]) -> Sequence[Value]:
    condition, body = op.regions
    current, going = list(values), np.ones((1,) * m.axes, bool)
    turns = count()
    is_drawn = _compares_floats(condition)
    while True:
        m.turn(op, next(turns), is_drawn=is_drawn)
        go_on, *passed = m.run(condition, known, current)
        is_drawn = is_drawn or go_on.is_symbolic
        if op.name == "stablehlo.while":
            passed = current
        going = going & (m.integers(go_on) != 0)
        if not np.any(going):
            return passed
        if np.all(going):
            current = m.run(body, known, passed)
            continue
        with m.within(going):
            after = m.run(body, known, passed)
        current = _of_devices(m, op, going, after, current)


def _compares_floats(condition: Block) -> bool:
    return any(
        op.name in ("stablehlo.compare", "arith.cmpf") and op.operand_types[0].is_float
        for op in condition.ops
    )


@runs("scf.for")
def _for(m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]) -> Sequence[Value]:
    low, high, step = (m.integers(each) for each in values[:3])
    current = list(values[3:])
    here = np.ones((1,) * m.axes, bool) if m.active is None else m.active
    counter = low
    turns = count()
    while np.any(going := here & (counter < high)):
        stays = going & (step <= 0)
        m.require(op, ~stays)
        if np.any(stays):
            raise m.unproven(op, f"has a step of {int(step.min())}")
        m.turn(op, next(turns))
        given = [Value(counter, False), *current]
        if np.array_equal(np.broadcast_to(going, (going | here).shape), here | going):
            current = m.run(op.body, known, given)
        else:
            with m.within(going):
                after = m.run(op.body, known, given)
            current = _of_devices(m, op, going, after, current)
        counter = counter + step
    return current


@runs("tensor.generate")
def _generate(
    m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]
) -> Sequence[Value]:
    shape = op.type.shape
    if -1 in shape:
        raise m.unproven(op, "has a size that is only known when the program runs")
    points = [Value(each, False) for each in m.aranges(shape)]
    (made,) = m.run(op.body, known, points)
    return [m.full(made, shape)]


@runs("cf.assert", "shard.sharding", "mesh.sharding_group",
      "sdy.sharding_group")  # fmt: skip
def _nothing(
    m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]
) -> Sequence[Value]:
    """Says something of values, and computes nothing: a sharding has no elements."""
    return [Value(np.zeros((1,) * m.axes, np.int64), False) for _ in op.types]


@runs("shard.shard", "mesh.annotate", "mesh.reshard", "mesh.propagation_barrier",
      "sdy.sharding_constraint", "sdy.reshard", "sdy.propagation_barrier", "sdy.all_gather",
      "sdy.all_slice", "sdy.all_to_all", "sdy.collective_permute", "sdy.all_reduce",
      "sdy.reduce_scatter", "sdy.sharded_to_unreduced", "sdy.replicated_to_unreduced",
      "sdy.data_flow_edge", "mesh.all_gather", "mesh.all_reduce", "mesh.all_to_all",
      "mesh.exchange", "mesh.local_split", "mesh.reduce_scatter",
      "mesh.update_halo")  # fmt: skip
def _annotation(
    m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]
) -> Sequence[Value]:
    """Says where a tensor is to be: the tensor is the same."""
    return [values[0]]
