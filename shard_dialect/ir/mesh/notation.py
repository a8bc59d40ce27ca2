"""The RFC's notation of shardings in attributes, with our extensions, <-> the model.

    [[0], [], [1]]                                 split along axis 0, unsplit; partial over axis 1
    [[0], [], {max = [1]}]                         another reduction
    [["0:(1)2"], [], {open = [1], replicated = [1]}]   a sub-axis; open dimensions for propagation
    [[0], [], {halo = [[1, "?"], []]}]             a size that is only known when the program runs
    [[0], [], {fill = "max", halo = [[1, 1], []]}] the halo at the ends has the identity of max

If there are fewer lists than dimensions, the last dimensions are unsplit. One list more has the
axes of a partial sum.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.attributes import integer, ints
from shard_dialect.model import (
    REDUCTIONS,
    Annotation,
    Axes,
    Axis,
    Reduction,
    Sharding,
    ShardingError,
    SubAxis,
)
from shard_dialect.model.sharding import Sizes

_SUB_AXIS = re.compile(r"(\d{1,9}):\((\d{1,9})\)(\d{1,9})")
_ANNOTATION_ONLY = ("open", "priority", "replicated")
_FIELDS = (*REDUCTIONS, "fill", "halo", "offsets", *_ANNOTATION_ONLY)
UNKNOWN = "?"
"""The text of a size that an operand gives."""


def read_notation(grid: str, attribute: ir.Attribute, rank: int) -> Annotation:
    """The annotation `[[0], [], {...}]` of a tensor with `rank` dimensions on `grid`.

    Raises `ShardingError` where the attribute is malformed.
    """
    if not isinstance(attribute, ir.ArrayAttr):
        raise ShardingError(f"expected a list of lists of axes, found {attribute}")
    lists = list(attribute)
    fields = _fields(lists.pop()) if lists and isinstance(lists[-1], ir.DictAttr) else {}
    partial, reduction = _partial(fields)
    if len(lists) == rank + 1 and not partial:
        partial = read_axes(lists.pop())
    if len(lists) > rank:
        raise ShardingError(
            f"sharding {attribute} has split axes for {len(lists)} dimensions, "
            f"but the tensor has {rank}"
        )
    sharding = Sharding(
        grid,
        (*map(read_axes, lists), *((),) * (rank - len(lists))),
        partial,
        reduction,
        tuple(map(_sizes, _entries(fields, "halo"))),
        tuple(map(_sizes, _entries(fields, "offsets"))),
        _fill(fields),
    )
    return Annotation(
        sharding,
        tuple(ints(fields["open"])) if "open" in fields else (),
        tuple(map(_priority, _entries(fields, "priority"))),
        read_axes(fields["replicated"]) if "replicated" in fields else (),
    )


def only_sharding(annotation: Annotation, attribute: ir.Attribute) -> Sharding:
    """The sharding of an annotation. Raises `ShardingError` if it has more than a sharding."""
    if annotation != Annotation(annotation.sharding):
        raise ShardingError(f"{attribute} is no sharding: only annotations say {_only(annotation)}")
    return annotation.sharding


def read_axes(attribute: ir.Attribute) -> Axes:
    """The axes in the attribute `[0, "1:(1)2"]`. Raises `ShardingError`."""
    if isinstance(attribute, ir.ArrayAttr):
        return tuple(map(_axis, attribute))
    return tuple(ints(attribute))


def write_axes(axes: Sequence[Axis]) -> ir.ArrayAttr:
    """The attribute `[0, "1:(1)2"]`: the inverse of `read_axes`."""
    i64 = ir.IntegerType.get_signless(64)
    return ir.ArrayAttr.get(
        [
            ir.StringAttr.get(str(axis))
            if isinstance(axis, SubAxis)
            else ir.IntegerAttr.get(i64, axis)
            for axis in axes
        ]
    )


def _axis(entry: ir.Attribute) -> Axis:
    if isinstance(entry, ir.IntegerAttr):
        return integer(entry)
    match = _SUB_AXIS.fullmatch(entry.value) if isinstance(entry, ir.StringAttr) else None
    if match is None:
        raise ShardingError(f'expected an axis as 0, or a part of one as "0:(1)2", found {entry}')
    return SubAxis(*map(int, match.groups()))


def _fields(entry: ir.DictAttr) -> dict[str, ir.Attribute]:
    fields = {named.name: named.attr for named in entry}
    for name in fields:
        if name not in _FIELDS:
            raise ShardingError(
                f"unknown field '{name}' in {entry}: expected some of {', '.join(_FIELDS)}"
            )
    return fields


def _partial(fields: dict[str, ir.Attribute]) -> tuple[Axes, Reduction]:
    kinds = [name for name in REDUCTIONS if name in fields]
    if len(kinds) > 1:
        raise ShardingError(f"partial by {kinds[0]} and by {kinds[1]}: expected one reduction")
    if not kinds:
        return (), "sum"
    return read_axes(fields[kinds[0]]), kinds[0]


def _fill(fields: dict[str, ir.Attribute]) -> Reduction:
    if "fill" not in fields:
        return "sum"
    entry = fields["fill"]
    name = entry.value if isinstance(entry, ir.StringAttr) else None
    kind = next((each for each in REDUCTIONS if each == name), None)
    if kind is None or "halo" not in fields:
        raise ShardingError(f"fill is {entry}: expected one of {', '.join(REDUCTIONS)}, and a halo")
    return kind


def _entries(fields: dict[str, ir.Attribute], name: str) -> list[ir.Attribute]:
    if name not in fields:
        return []
    if not isinstance(fields[name], ir.ArrayAttr):
        raise ShardingError(f"'{name}' must have an entry for each dimension, found {fields[name]}")
    return list(fields[name])


def _sizes(entry: ir.Attribute) -> Sizes:
    if not isinstance(entry, ir.ArrayAttr):
        raise ShardingError(f"expected a list of sizes, found {entry}")
    return tuple(map(_size, entry))


def _size(entry: ir.Attribute) -> int | None:
    if isinstance(entry, ir.StringAttr) and entry.value == UNKNOWN:
        return None
    if not isinstance(entry, ir.IntegerAttr):
        raise ShardingError(
            f'expected a size, or "{UNKNOWN}" for one that an operand gives, found {entry}'
        )
    return integer(entry)


def _priority(entry: ir.Attribute) -> int | None:
    if isinstance(entry, ir.UnitAttr):
        return None
    if not isinstance(entry, ir.IntegerAttr):
        raise ShardingError(f"expected a priority, or `unit` for none, found {entry}")
    return integer(entry)


def _only(annotation: Annotation) -> str:
    extra_fields = (annotation.open, annotation.priorities, annotation.replicated)
    return " and ".join(n for n, each in zip(_ANNOTATION_ONLY, extra_fields, strict=True) if each)
