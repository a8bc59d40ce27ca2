"""The ops of a program, folded into the boxes that the page unfolds.

A program has thousands of ops, and few collectives. Each layer is a box; in it, ops with no
collective or other layer between them are one box, if they are connected:

    decoder
        layers_0
            12 ops
            all_gather
            8 ops
            reduce_scatter
        3 ops

Each box comes after those that it needs. What follows on ops of another layer is another box, so
that no two boxes need each other. No box has more than `MOST` others in it: of more, those that
follow each other are a box in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from shard_dialect.analysis.layered_costs import OpCost
from shard_dialect.analysis.layers import BLOCK_ARGUMENTS, LayeredProgram

MOST = 60
"""The most boxes right in one."""
_BESIDE = 8
"""The most boxes beside each other: more of them, none of which needs another, are in one."""


@dataclass(frozen=True, slots=True)
class Box:
    """A layer, or a number of ops or boxes without a name of their own."""

    title: str
    is_layer: bool
    kids: tuple[Kid, ...]

    def as_json(self) -> dict[str, object]:
        """The box for the page; an op in it is its number."""
        kids = [each if isinstance(each, int) else each.as_json() for each in self.kids]
        return {"title": self.title, "layer": self.is_layer, "kids": kids}


Kid = Box | int
"""What is in a box: another one, or an op by its number in the program."""


def fold(program: LayeredProgram, costs: Sequence[OpCost], name: str) -> Box:
    """The box of the whole program, which has this name."""
    kept = [
        number
        for number, op in enumerate(program.ops)
        if op.inputs and op.name not in ("func.return", BLOCK_ARGUMENTS)
    ]
    return _Folding(program, costs).box(name, kept, 0)


class _Folding:
    def __init__(self, program: LayeredProgram, costs: Sequence[OpCost]) -> None:
        self._ops = program.ops
        self._costs = costs

    def box(self, name: str, members: Sequence[int], depth: int) -> Box:
        """The box of a layer; `depth` is the number of layers around its ops."""
        units = self._units(members, depth)
        needs = self._needs([ops for _, ops in units])
        alone = [
            layer is not None or any(self._costs[each].collectives for each in ops)
            for layer, ops in units
        ]
        rows = _rows(needs, alone)
        groups: dict[int, list[int]] = {}
        for unit, first in enumerate(_groups(needs, rows, alone)):
            groups.setdefault(first, []).append(unit)
        lines: dict[int, list[Kid]] = {}
        for first in sorted(groups, key=lambda unit: rows[unit]):
            layer, ops = units[first]
            if layer is None:
                kid = _group([number for unit in groups[first] for number in units[unit][1]])
            else:
                kid = self.box(layer, ops, depth + 1)
            lines.setdefault(rows[first], []).append(kid)
        return Box(name, depth > 0, _parts([kid for line in lines.values() for kid in _line(line)]))

    def _units(self, members: Sequence[int], depth: int) -> list[tuple[str | None, list[int]]]:
        """The ops of a layer, those of a layer in it together as far as they follow each other."""
        units: list[tuple[str | None, list[int]]] = []
        for number in members:
            layers = self._ops[number].layers
            child = layers[depth] if len(layers) > depth else None
            if child is not None and units and units[-1][0] == child:
                units[-1][1].append(number)
            else:
                units.append((child, [number]))
        return units

    def _needs(self, units: Sequence[Sequence[int]]) -> list[list[int]]:
        owner = {number: unit for unit, ops in enumerate(units) for number in ops}
        return [
            sorted(
                {
                    owner[each.op]
                    for number in ops
                    for each in self._ops[number].inputs
                    if owner.get(each.op, unit) != unit
                }
            )
            for unit, ops in enumerate(units)
        ]


def _group(ops: Sequence[int]) -> Kid:
    return ops[0] if len(ops) == 1 else Box(f"{len(ops)} ops", False, _parts(ops))


def _line(kids: Sequence[Kid]) -> Sequence[Kid]:
    if len(kids) <= _BESIDE:
        return kids
    return [Box(f"{len(kids)} beside each other", False, _parts(kids))]


def _parts(kids: Sequence[Kid]) -> tuple[Kid, ...]:
    """The same, if need be in boxes that follow each other.

    >>> [len(each.kids) for each in _parts(range(70))]
    [35, 35]
    """
    if len(kids) <= MOST:
        return tuple(kids)
    count = -(-len(kids) // MOST)
    ends = [len(kids) * number // count for number in range(count + 1)]
    return _parts(
        [
            Box(f"part {number} of {count}", False, tuple(kids[start:end]))
            for number, (start, end) in enumerate(pairwise(ends), 1)
        ]
    )


def _rows(needs: Sequence[Sequence[int]], alone: Sequence[bool]) -> list[int]:
    """Collectives and layers in odd rows, other ops in even ones, as late as readers allow."""
    readers: list[list[int]] = [[] for _ in needs]
    for number, each in enumerate(needs):
        for source in each:
            readers[source].append(number)
    heights = [0] * len(needs)  # from below
    for number in range(len(needs) - 1, -1, -1):
        height = int(alone[number])
        for reader in readers[number]:
            other = heights[reader]
            if alone[number]:
                height = max(height, other + (1 if other % 2 == 0 else 2))
            else:
                height = max(height, other + other % 2)
        heights[number] = height
    top = max(heights, default=0) + max(heights, default=0) % 2
    return [top - height for height in heights]


def _groups(
    needs: Sequence[Sequence[int]], rows: Sequence[int], alone: Sequence[bool]
) -> list[int]:
    """For each unit the first of its group: ops of one row that are connected."""
    parent = list(range(len(needs)))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    for number, sources in enumerate(needs):
        for source in sources:
            if rows[source] == rows[number] and not alone[number]:
                one, other = sorted((root(source), root(number)))
                parent[other] = one
    return [root(number) for number in range(len(needs))]
