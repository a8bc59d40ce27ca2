"""Upstream's `shard` collectives, which the local form uses, <-> the steps of a plan.

    AllGather(dim=1, axes=(0,)) on @g
    %0 = shard.all_gather %x on @g grid_axes = [0] gather_axis = 1
           : tensor<4x4xf32> -> tensor<4x8xf32>

A halo is exchanged in place: the operand has room for it (`passes.partition.partition` adds it),
which at the ends of the tensor already holds the fill.

`mesh.start` begins the collective in its attribute `collective`, and `mesh.done` waits for it.
`mesh.collective_permute` and `mesh.mask`, for which upstream has no op, stay in the local form, on
types without encoding and with the grid's name as `cluster`. The same attributes, in a dictionary,
describe a runtime call of the lowered form.

In a manual computation StableHLO's collectives are between devices, too
(`passes.manual.replica_group_collectives` translates them).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shard_dialect.collectives import Index, LocalStep, UpdateHalo
from shard_dialect.collectives.collective_record import CollectiveRecord, Kind, Spelling
from shard_dialect.collectives.collective_table import LOCAL, RECORDS, record_of
from shard_dialect.ir.bindings import ir, spelled
from shard_dialect.ir.building.build import create_value, replace_op
from shard_dialect.ir.mesh.attributes import (
    DYNAMIC,
    STAGES,
    expect_in,
    i64_array,
    integer,
    ints,
    symbol,
)
from shard_dialect.ir.mesh.notation import read_axes, write_axes
from shard_dialect.ir.shard.sharding_ops import axis_lists
from shard_dialect.model import REDUCTIONS, Reduction, ShardingError

_Attributes = Mapping[str, ir.Attribute]


def read_local(name: str, attributes: _Attributes) -> tuple[str, LocalStep] | None:
    """The grid's name and the step of a collective of the local form; `None` for any other op.

    Raises `ShardingError` for missing or invalid attributes, since dictionaries are not verified.
    """
    if name == "mesh.start":
        what = expect_in(attributes, "collective", ir.DictAttr, "a dictionary")
        started = read_local(kind_of(what), what)
        if started is not None and started[1].is_computed:
            raise ShardingError(
                f"starts a {started[1].kind} whose {started[1].names} the program computes as it "
                "runs: expected numbers"
            )
        return started
    record = LOCAL.get(name)
    if record is None or (
        _is_ours(name) and ("cluster" not in attributes or "mesh_axis" not in attributes)
    ):
        return None
    return _grid(attributes, "cluster" if _is_ours(name) else "grid"), _read(record, attributes)


def _is_ours(name: str) -> bool:
    return not name.startswith("shard.")


def _read(record: CollectiveRecord, attributes: _Attributes) -> LocalStep:
    assert record.local is not None, "it is found by its name"
    fields: dict[str, Any] = {"axes": _integers(attributes, "grid_axes")}
    for name, (kind, listed) in record.local.attributes.items():
        names, value = listed.split(), KINDS[kind].read(attributes, spelled(name))
        fields |= dict(zip(names, value if len(names) > 1 else [value], strict=True))
    return record.step(**fields)


NUMBER_LISTS = {
    name: attribute
    for name, record in LOCAL.items()
    if record.local is not None
    for attribute in record.local.of_kind("device", "sender", "halo")
}
"""The attribute of each op in which operands may stand for numbers."""


def kind_of(what: ir.DictAttr) -> str:
    """The name of the collective that a dictionary describes."""
    return str(expect_in(what, "name", ir.StringAttr, "the name of a collective").value)


def is_local(op: ir.Operation) -> bool:
    """Whether an op is a collective of the local form; those of `mesh` may be of others, too."""
    if op.name not in LOCAL or STAGES in op.attributes:
        return False
    return not _is_ours(op.name) or "cluster" in op.attributes


POSITIONS = (
    "shard.neighbors_linear_indices",
    "shard.process_linear_index",
    "shard.process_multi_index",
)
"""Ops of the local form that return the device's position."""
UNREAD = (
    "stablehlo.collective_broadcast",
    "stablehlo.cross-replica-sum",
    "stablehlo.recv",
    "stablehlo.replica_id",
    "stablehlo.send",
)
"""StableHLO's ops about single devices for which there is no collective."""
_OF_STABLEHLO = frozenset(
    (
        *(f"stablehlo.{each.of_stablehlo[0]}" for each in RECORDS.values() if each.of_stablehlo),
        *UNREAD,
        "stablehlo.partition_id",
    )
)


def is_of_stablehlo(name: str) -> bool:
    """Whether an op is a collective of StableHLO, or asks for the device's number."""
    return name in _OF_STABLEHLO


def is_between_devices(op: ir.Operation) -> bool:
    """Whether an op is about single devices, so that it has no meaning on global tensors."""
    return is_of_stablehlo(op.name) or op.name in (*POSITIONS, "mesh.idx") or is_local(op)


def described(op: ir.Operation) -> ir.DictAttr:
    """A collective as a dictionary: its attributes, and its `name`."""
    if op.name == "mesh.start":
        return op.attributes["collective"]
    attributes = {name: op.attributes[name] for name in op.attributes}
    return ir.DictAttr.get({**attributes, "name": ir.StringAttr.get(op.name)})


def write_local(step: LocalStep, grid: str, operand: ir.Value, result: ir.Type) -> ir.Value:
    """Create the op of one step at the current insertion point; returns its result."""
    name, attributes = local_attributes(step, grid)
    return create_value(name, result, [operand], attributes)


def local_attributes(step: LocalStep, grid: str) -> tuple[str, dict[str, ir.Attribute]]:
    """The name and the attributes of the op of one step.

    Raises `ShardingError` for a crop, which is a slice, and a change of offsets, which is several.
    """
    spelling = record_of(step).local
    if spelling is None:
        raise ShardingError(f"{step.kind} is no collective of the local form")
    attributes = attributes_of(step, spelling)
    name = ir.FlatSymbolRefAttr.get(grid)
    if _is_ours(spelling.name):
        attributes["cluster"] = name
    else:
        attributes["grid"] = name
        if not any("axes" in fields.split() for _, fields in spelling.attributes.values()):
            listed = ", ".join(map(str, step.axes))
            attributes["grid_axes"] = ir.Attribute.parse(f"array<i16: {listed}>")
    return spelling.name, attributes


def attributes_of(
    step: LocalStep, spelling: Spelling, fields: Collection[str] | None = None
) -> dict[str, ir.Attribute]:
    """The attributes of the op of a step, or those that hold any of these fields of the step."""
    written = {}
    for name, (kind, listed) in spelling.attributes.items():
        held = listed.split()
        if fields is not None and not set(fields) & set(held):
            continue
        attribute = KINDS[kind].write(*(getattr(step, each) for each in held))
        if attribute is not None:
            written[spelled(name)] = attribute
    return written


def one_by_one(op: ir.Operation) -> list[ir.Operation]:
    """The op itself; an update of halos in several dimensions is replaced by one op for each."""
    if op.name != "shard.update_halo":
        return [op]
    lists = axis_lists(op.attributes["split_axes"])
    split = [(dim, axes) for dim, axes in enumerate(lists) if axes]
    if len(split) < 2:
        return [op]
    sizes = iter(op.attributes["static_halo_sizes"])
    value, steps = op.operands[0], []
    with ir.InsertionPoint(op), op.location:
        for dim, axes in split:
            step = UpdateHalo(dim, axes, next(sizes), next(sizes))
            value = write_local(step, symbol(op.attributes["grid"]), value, value.type)
            steps.append(value.owner.operation)
    replace_op(op, value)
    return steps


def _lists(attributes: _Attributes, key: str) -> tuple[tuple[int, ...], ...]:
    attribute = attributes[key] if key in attributes else None
    if not str(attribute).startswith("#shard<axisarray"):
        raise ShardingError(f"attribute '{key}' must be a list of lists of axes, found {attribute}")
    return axis_lists(attribute)


def _split(attributes: _Attributes, key: str) -> tuple[int, tuple[int, ...]]:
    split = [(dim, axes) for dim, axes in enumerate(_lists(attributes, key)) if axes]
    if len(split) != 1:
        raise ShardingError(
            f"exchanges halos of {len(split)} dimensions: expected an op for each of them"
        )
    return split[0]


def _halo(attributes: _Attributes, key: str) -> tuple[int, ...]:
    sizes = _integers(attributes, key)
    if DYNAMIC in sizes:
        raise ShardingError(
            "has a halo size that the program computes as it runs: expected numbers, or what is "
            "computed from constants alone"
        )
    if len(sizes) != 2:
        raise ShardingError(f"has {len(sizes)} sizes of the halos of one dimension: expected two")
    return sizes


def _int(attributes: _Attributes, name: str) -> int:
    return integer(expect_in(attributes, name, ir.IntegerAttr, "an integer"))


def _integers(attributes: _Attributes, name: str) -> tuple[int, ...]:
    return tuple(ints(attributes[name])) if name in attributes else ()


def _grid(attributes: _Attributes, name: str) -> str:
    return symbol(expect_in(attributes, name, ir.FlatSymbolRefAttr, "the name of a grid"))


def _reduction(attributes: _Attributes, key: str) -> Reduction:
    if key not in attributes:
        return "sum"
    return _known(str(attributes[key]).removeprefix("#shard<partial ").removesuffix(">"))


def _known(name: str) -> Reduction:
    if name not in REDUCTIONS:
        raise ShardingError(
            f"reduction '{name}' is not supported yet: expected one of {', '.join(REDUCTIONS)}"
        )
    return name


@dataclass(frozen=True)
class _Codec:
    """How attributes of a kind are read, and written; `None` is no attribute."""

    read: Callable[[_Attributes, str], Any]
    write: Callable[..., ir.Attribute | None]


def _index(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IndexType.get(), value)


def _dense(numbers: Sequence[int | None]) -> ir.Attribute:
    return ir.DenseI64ArrayAttr.get([DYNAMIC if each is None else each for each in numbers])


def _member(attributes: _Attributes, name: str) -> Index:
    return tuple(None if each == DYNAMIC else each for each in _integers(attributes, name))


KINDS: dict[Kind, _Codec] = {
    "axes": _Codec(lambda attributes, name: read_axes(attributes[name]), write_axes),
    "dimension": _Codec(_int, _index),
    "axis": _Codec(_int, _index),
    "number": _Codec(_int, lambda number: i64_array([number])[0]),
    "list": _Codec(_integers, i64_array),
    "device": _Codec(_member, _dense),
    "sender": _Codec(
        lambda attributes, name: _member(attributes, name) if name in attributes else None,
        lambda index: None if index is None else _dense(index),
    ),
    "halo": _Codec(_halo, lambda low, high: _dense([low, high])),
    "flag": _Codec(
        lambda attributes, name: name in attributes,
        lambda is_set: ir.UnitAttr.get() if is_set else None,
    ),
    "reduction": _Codec(_reduction, lambda kind: ir.Attribute.parse(f"#shard<partial {kind}>")),
    "name": _Codec(
        lambda attributes, name: _known(
            expect_in(attributes, name, ir.StringAttr, "the name of a reduction").value
        ),
        ir.StringAttr.get,
    ),
    "split": _Codec(
        _split,
        lambda dim, axes: ir.Attribute.parse(f"#shard<axisarray{[[]] * dim + [list(axes)]}>"),
    ),
}
