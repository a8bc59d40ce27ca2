"""What compiled HLO communicates and multiplies on one device, read from its text.

    %all-reduce = f32[8,4] all-reduce(%dot), replica_groups=[2,4]<=[8], ...    2 * 3/4 * 128 bytes

Loop bodies count as often as the loop is known to run; of branches all count. An all-reduce of
which every user takes only this device's slice is counted as the reduce-scatter that XLA makes of
the two for GPUs, and not for CPUs; a note keeps what was read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from benchmarks.tally import COSTS, Tally

_KINDS = {
    "all-gather": "all_gather",
    "all-reduce": "all_reduce",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "collective-permute": "collective_permute",
}
"""Each also as `-start`; its `-done` moves nothing."""
_OTHERS = ("collective-broadcast", "ragged-all-to-all", "send", "recv")

_OP = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = (.*)$")
_OPCODE = re.compile(r"^\s*([\w\-]+)\((.*)$")
_SHAPE = re.compile(r"\b(pred|bf16|[sufc]\d+\w*)\[([\d,]*)\]")
_CALLS = re.compile(r"\b(calls|to_apply|body|condition|branch_computations)=(\{[^}]*\}|%?[\w.\-]+)")
_TRIPS = re.compile(r"known_trip_count\W+n\W+(\d+)")


@dataclass(frozen=True)
class Op:
    """An instruction; `attributes` is the text behind its operands."""

    name: str
    type: str
    opcode: str
    operands: tuple[str, ...]
    attributes: str
    is_root: bool = False

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """That of the first tensor of its type."""
        found = _SHAPE.search(self.type)
        return _dims(found[2]) if found else ()

    @cached_property
    def bytes(self) -> int:
        return sum(_itemsize(e) * prod(_dims(dims)) for e, dims in _SHAPE.findall(self.type))

    def dims_of(self, name: str) -> list[int]:
        found = re.search(rf"\b{name}=\{{([\d,]*)\}}", self.attributes)
        return list(_dims(found[1])) if found else []


@dataclass
class Module:
    """The computations of a module by name, each its ops by name."""

    entry: str = ""
    devices: int = 1
    computations: dict[str, dict[str, Op]] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> Module:
        module = cls()
        ops: dict[str, Op] = {}
        for line in text.splitlines():
            if line.startswith("HloModule"):
                for kind in ("num_partitions", "replica_count"):
                    found = re.search(rf"\b{kind}=(\d+)", line)
                    module.devices *= int(found[1]) if found else 1
            elif line.endswith("{") and not line.startswith(" "):
                ops = {}
                name = line.removeprefix("ENTRY ").split()[0].lstrip("%")
                module.computations[name] = ops
                if line.startswith("ENTRY "):
                    module.entry = name
            else:
                op = _read_op(line)
                if op:
                    ops[op.name] = op
        return module

    def run(self, tally: Tally) -> Iterator[tuple[Op, dict[str, Op], int]]:
        """The ops that are run, the computation of each, and how often."""
        return self._run(self.entry, 1, tally)

    def _run(self, name: str, times: int, tally: Tally) -> Iterator[tuple[Op, dict[str, Op], int]]:
        ops = self.computations[name]
        for op in ops.values():
            yield op, ops, times
            often = _trips(op)
            if often is None:
                tally.note("the body of a loop counts once: how often it runs is not known")
                often = 1
            if op.opcode in ("async-update", "async-done"):
                continue  # names what its async-start has called
            for role, names in _CALLS.findall(op.attributes):
                more = int(role == "condition")
                for each in re.findall(r"[\w.\-]+", names):
                    yield from self._run(each, times * (often + more), tally)

    def users(self, ops: dict[str, Op], name: str) -> Iterator[Op]:
        """What reads a value, through what only passes it on, and in fusions; what returns it."""
        if ops[name].is_root:
            yield ops[name]
        for op in ops.values():
            for place, operand in enumerate(op.operands):
                if operand != name:
                    continue
                if op.opcode in ("bitcast", "copy", "get-tuple-element", "reshape"):
                    yield from self.users(ops, op.name)
                elif op.opcode == "fusion":
                    inside = self.computations[_CALLS.findall(op.attributes)[0][1].lstrip("%")]
                    yield from self.users(inside, _parameter(inside, place))
                else:
                    yield op


def tally_of(text: str) -> Tally:
    """What a compiled module's entry does on one device."""
    module = Module.read(text)
    tally, sliced, more = Tally(), 0, 0
    for op, ops, times in module.run(tally):
        tally.flops += _flops(op, ops) * times
        opcode = op.opcode.removesuffix("-start")
        if opcode in _OTHERS:
            tally.note(f"without {opcode}, which is not counted")
        if opcode not in _KINDS:
            continue
        kind, n = _KINDS[opcode], group_size(op.attributes, module.devices)
        operand_bytes = sum(ops[operand].bytes for operand in op.operands)
        if kind == "all_reduce" and _is_only_sliced(module, ops, op, n):
            kind, sliced = "reduce_scatter", sliced + times
            more += times * (COSTS["all_reduce"](n, operand_bytes) - COSTS[kind](n, operand_bytes))
        tally.add(kind, COSTS[kind](n, operand_bytes), times)
    if sliced:
        what = "all_reduce and slice counted as reduce_scatter"
        tally.note(f"{sliced} {what}: {more:,} bytes more as compiled")
    return tally


def group_size(attributes: str, devices: int) -> int:
    """How many devices talk to each other, by the replica groups.

    >>> [group_size(f"replica_groups={text}", 8) for text in ("{{0,4},{1,5}}", "[2,4]<=[8]", "{}")]
    [2, 4, 8]
    >>> group_size("replica_groups=mesh['a'=2,'b'=4], device_ids=([2,4]T(1,0)) {'a','b':(1)2}", 8)
    4
    """
    found = re.search(
        r"replica_groups=mesh\[([^\]]*)\](?:,? device_ids=\S*)? \{([^}]*)\}", attributes
    )
    if found:
        sizes = {name: int(size) for name, size in re.findall(r"'([^']+)'=(\d+)", found[1])}
        axes = re.findall(r"'([^']+)'(?::\(\d+\)(\d+))?", found[2])
        return prod(int(part) if part else sizes[name] for name, part in axes)
    found = re.search(r"replica_groups=\[\d+,(\d+)\]<=", attributes)
    if found:
        return int(found[1])
    found = re.search(r"replica_groups=\{\{([\d,]+)\}", attributes)
    if found:
        return len(_dims(found[1]))
    found = re.search(r"replica_groups=(?!\{\}).{,60}", attributes)
    if found:
        raise ValueError(f"cannot read {found[0]}")
    return devices


def _is_only_sliced(module: Module, ops: dict[str, Op], op: Op, n: int) -> bool:
    """Whether each device keeps an n-th of what was reduced."""
    users = list(module.users(ops, op.name))
    return bool(users) and all(
        user.opcode == "dynamic-slice" and prod(user.shape) * n == prod(op.shape) for user in users
    )


def _flops(op: Op, ops: dict[str, Op]) -> int:
    """A multiplication and an addition for each step of the loops of a product."""
    if op.opcode == "dot":
        left = ops[op.operands[0]].shape
        return 2 * prod(op.shape) * prod(left[dim] for dim in op.dims_of("lhs_contracting_dims"))
    if op.opcode == "convolution":
        labels = re.search(r"dim_labels=\w+_(\w+)->", op.attributes)
        kernel = ops[op.operands[1]].shape
        features = kernel[labels[1].index("o")] if labels else 1
        return 2 * prod(op.shape) * prod(kernel) // features
    return 0


def _read_op(line: str) -> Op | None:
    found = _OP.match(re.sub(r"/\*.*?\*/", "", line))
    if found is None:
        return None
    is_root, name, text = found.groups()
    type_, rest = _balanced(text[1:]) if text.startswith("(") else text.split(" ", 1)
    called = _OPCODE.match(rest)
    if called is None:
        return None
    inside, attributes = _balanced(called[2])
    names = re.findall(r"%([\w.\-]+)", inside) or [inside]
    return Op(name, type_, called[1], tuple(filter(None, names)), attributes, bool(is_root))


def _balanced(text: str) -> tuple[str, str]:
    """What stands in front of the parenthesis that closes, and behind it."""
    depth = 1
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if not depth:
            return text[:at], text[at + 1 :]
    return text, ""


def _parameter(ops: dict[str, Op], number: int) -> str:
    found = (op for op in ops.values() if op.opcode == "parameter")
    return next(op.name for op in found if op.operands == (str(number),))


def _trips(op: Op) -> int | None:
    """How often a loop runs, `None` where that is not known; 1 for other ops."""
    if op.opcode != "while":
        return 1
    found = _TRIPS.search(op.attributes)
    return int(found[1]) if found else None


def _dims(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(",") if each)


def _itemsize(element: str) -> int:
    """In bytes; what has fewer bits than eight takes a whole one."""
    bits = re.search(r"\d+", element)
    return max(1, int(bits[0]) // 8) if bits else 1
