"""Marks: names of ops in their locations, which passes keep, so that they are found again later.

loc("shard_dialect.op 0:17"(loc("model.mlir":18:8)))
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import names_in

_OP = "shard_dialect.op"
_COLLECTIVE = "shard_dialect.collective"
_ANNOTATION = "shard_dialect.annotation"
_SHOWN = "shard_dialect.shown"


@dataclass(frozen=True, slots=True)
class Mark:
    """The op with the index `op` in the propagated function with the index `function`."""

    function: int
    op: int


def mark(handle: ir.Operation, function: int, op: int) -> None:
    """Mark an op of the propagated form."""
    handle.location = ir.Location.name(f"{_OP} {function}:{op}", handle.location)


def mark_of(location: ir.Location) -> Mark | None:
    """The mark of the op that a location is of."""
    for name in names_in(location):
        match = re.fullmatch(rf"{_OP} (\d+):(\d+)", name)
        if match:
            return Mark(int(match[1]), int(match[2]))
    return None


def mark_collective(handle: ir.Operation, number: int) -> None:
    """Mark a collective of the distributed form."""
    handle.location = ir.Location.name(f"{_COLLECTIVE} {number}", handle.location)


def collective_of(location: ir.Location) -> int | None:
    """The number of the collective that a location is of, the first one of a bundle."""
    return next(iter(collectives_of(location)), None)


def collectives_of(location: ir.Location) -> tuple[int, ...]:
    """The numbers of the collectives that a location is of: several, if they are bundled."""
    return tuple(dict.fromkeys(_numbers(_COLLECTIVE, location)))


def mark_annotation(handle: ir.Operation, number: int) -> None:
    """Mark an annotation op of the annotated form."""
    handle.location = ir.Location.name(f"{_ANNOTATION} {number}", handle.location)


def annotation_of(location: ir.Location) -> int | None:
    """The number of the annotation op that a location is of."""
    return next(_numbers(_ANNOTATION, location), None)


def mark_shown(handle: ir.Operation, number: int) -> None:
    """Mark an op of the graph that is shown."""
    handle.location = ir.Location.name(f"{_SHOWN} {number}", handle.location)


def shown_in(location: ir.Location) -> int | None:
    """The number of the op of the graph that a location is of."""
    return next(_numbers(_SHOWN, location), None)


def _numbers(kind: str, location: ir.Location) -> Iterator[int]:
    """The numbers of the marks of a kind on a location."""
    matches = (re.fullmatch(rf"{kind} (\d+)", name) for name in names_in(location))
    return (int(match[1]) for match in matches if match)
