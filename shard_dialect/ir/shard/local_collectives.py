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
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create
from shard_dialect.ir.mesh.attributes import DYNAMIC, expect_in, i64_array, integer, ints, symbol
from shard_dialect.ir.mesh.notation import read_axes, write_axes
from shard_dialect.ir.reading.spelling import scatter_dim
from shard_dialect.ir.shard.sharding_ops import axis_lists
from shard_dialect.model import (
    REDUCTIONS,
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    ChangeOffsets,
    CropHalo,
    Mask,
    Permute,
    ReduceScatter,
    Reduction,
    ShardingError,
    Step,
    UpdateHalo,
)
from shard_dialect.model.point_to_point import Message, Receive, Send
from shard_dialect.model.rooted_collectives import (
    Broadcast,
    Gather,
    Reduce,
    RootedStep,
    Scatter,
    Shift,
)

_Attributes = Mapping[str, ir.Attribute]
LocalStep = Step | RootedStep | Message
"""A step of the local form."""


def read_local(name: str, attributes: _Attributes) -> tuple[str, LocalStep] | None:
    """The grid's name and the step of a collective of the local form; `None` for any other op.

    Raises `ShardingError` for missing or invalid attributes, since dictionaries are not verified.
    """
    if name == "mesh.start":
        what = expect_in(attributes, "collective", ir.DictAttr, "a dictionary")
        return read_local(kind_of(what), what)
    if name in _READERS and "cluster" in attributes and "mesh_axis" in attributes:
        return _grid(attributes, "cluster"), _READERS[name](attributes)
    if name not in _READ:
        return None
    return _grid(attributes, "grid"), _READ[name](attributes)


def kind_of(what: ir.DictAttr) -> str:
    """The name of the collective that a dictionary describes."""
    return str(expect_in(what, "name", ir.StringAttr, "the name of a collective").value)


def described(op: ir.Operation) -> ir.DictAttr:
    """A collective as a dictionary: its attributes, and its `name`."""
    if op.name == "mesh.start":
        return op.attributes["collective"]
    attributes = {name: op.attributes[name] for name in op.attributes}
    return ir.DictAttr.get({**attributes, "name": ir.StringAttr.get(op.name)})


def write_local(step: Step | Broadcast, grid: str, operand: ir.Value, result: ir.Type) -> ir.Value:
    """Create the op of one step at the current insertion point; returns its result."""
    name, attributes = local_attributes(step, grid)
    return create(name, [result], [operand], attributes).results[0]


def local_attributes(step: Step | Broadcast, grid: str) -> tuple[str, dict[str, ir.Attribute]]:
    """The name and the attributes of the op of one step.

    Raises `ShardingError` for a crop, which is a slice, and a change of offsets, which is several.
    """
    if isinstance(step, CropHalo | ChangeOffsets):
        raise ShardingError(f"{step.kind} is no collective of the local form")
    name, attributes = _WRITE[type(step)](step)
    if isinstance(step, UpdateHalo):
        return name, attributes | {"grid": ir.FlatSymbolRefAttr.get(grid)}
    if name in _READERS:
        attributes["cluster"] = ir.FlatSymbolRefAttr.get(grid)
        attributes["mesh_axis"] = write_axes(step.axes)
        return name, attributes
    attributes["grid"] = ir.FlatSymbolRefAttr.get(grid)
    attributes["grid_axes"] = ir.Attribute.parse(f"array<i16: {', '.join(map(str, step.axes))}>")
    return name, attributes


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
    op.results[0].replace_all_uses_with(value)
    op.erase()
    return steps


def _update_halo(attributes: _Attributes) -> UpdateHalo:
    split = [(dim, axes) for dim, axes in enumerate(_lists(attributes)) if axes]
    sizes = _integers(attributes, "static_halo_sizes")
    if DYNAMIC in sizes:
        raise ShardingError("exchanges halos of a size that is not known: not supported yet")
    if len(split) != 1:
        raise ShardingError(
            f"exchanges halos of {len(split)} dimensions: expected an op for each of them"
        )
    if len(sizes) != 2:
        raise ShardingError(f"has {len(sizes)} sizes of the halos of one dimension: expected two")
    return UpdateHalo(*split[0], sizes[0], sizes[1])


def _lists(attributes: _Attributes) -> tuple[tuple[int, ...], ...]:
    attribute = attributes["split_axes"] if "split_axes" in attributes else None
    if not str(attribute).startswith("#shard<axisarray"):
        raise ShardingError(
            f"attribute 'split_axes' must be a list of lists of axes, found {attribute}"
        )
    return axis_lists(attribute)


def _axes(attributes: _Attributes) -> tuple[int, ...]:
    return tuple(_integers(attributes, "grid_axes")) if "grid_axes" in attributes else ()


def _int(attributes: _Attributes, name: str) -> int:
    return integer(expect_in(attributes, name, ir.IntegerAttr, "an integer"))


def _integers(attributes: _Attributes, name: str) -> list[int]:
    return ints(attributes[name]) if name in attributes else []


def _grid(attributes: _Attributes, name: str) -> str:
    return symbol(expect_in(attributes, name, ir.FlatSymbolRefAttr, "the name of a grid"))


def _device(attributes: _Attributes, key: str) -> tuple[int, ...]:
    """The device that an op names, as an index along each axis of its group."""
    index = tuple(_integers(attributes, key))
    if DYNAMIC in index:
        raise ShardingError(f"has a {key} that is not known: not supported yet")
    return index


def _reduction(attributes: _Attributes) -> Reduction:
    if "reduction" not in attributes:
        return "sum"
    return _known(str(attributes["reduction"]).removeprefix("#shard<partial ").removesuffix(">"))


def _known(name: str) -> Reduction:
    if name not in REDUCTIONS:
        raise ShardingError(
            f"reduction '{name}' is not supported yet: expected one of {', '.join(REDUCTIONS)}"
        )
    return name


_READ: dict[str, Callable[[_Attributes], LocalStep]] = {
    "shard.all_gather": lambda a: AllGather(_int(a, "gather_axis"), _axes(a)),
    "shard.all_slice": lambda a: AllSlice(_int(a, "slice_axis"), _axes(a)),
    "shard.all_reduce": lambda a: AllReduce(_axes(a), _reduction(a)),
    "shard.reduce_scatter": lambda a: ReduceScatter(
        _int(a, scatter_dim()), _axes(a), _reduction(a)
    ),
    "shard.all_to_all": lambda a: AllToAll(_int(a, "concat_axis"), _int(a, "split_axis"), _axes(a)),
    "shard.update_halo": _update_halo,
    "shard.broadcast": lambda a: Broadcast(_axes(a), _device(a, "root")),
    "shard.gather": lambda a: Gather(_int(a, "gather_axis"), _axes(a), _device(a, "root")),
    "shard.reduce": lambda a: Reduce(_axes(a), _device(a, "root"), _reduction(a)),
    "shard.scatter": lambda a: Scatter(_int(a, scatter_dim()), _axes(a), _device(a, "root")),
    "shard.shift": lambda a: Shift(
        _axes(a), _int(a, "shift_axis"), _int(a, "offset"), "rotate" in a
    ),
    "shard.send": lambda a: Send(_axes(a), _device(a, "destination")),
    "shard.recv": lambda a: Receive(_axes(a), _device(a, "source") if "source" in a else None),
}


_READERS: dict[str, Callable[[_Attributes], Step]] = {
    "mesh.collective_permute": lambda a: Permute(
        read_axes(a["mesh_axis"]), tuple(_integers(a, "permutation"))
    ),
    "mesh.mask": lambda a: Mask(
        read_axes(a["mesh_axis"]),
        _known(expect_in(a, "reduction", ir.StringAttr, "the name of a reduction").value),
    ),
}


LOCAL_COLLECTIVES = tuple(_READ)
"""Upstream's ops that move data between devices, or slice it."""


def _index(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IndexType.get(), value)


def _partial(reduction: Reduction) -> ir.Attribute:
    return ir.Attribute.parse(f"#shard<partial {reduction}>")


_WRITE: dict[type, Callable[..., tuple[str, dict[str, ir.Attribute]]]] = {
    AllGather: lambda s: ("shard.all_gather", {"gather_axis": _index(s.dim)}),
    AllSlice: lambda s: ("shard.all_slice", {"slice_axis": _index(s.dim)}),
    AllReduce: lambda s: ("shard.all_reduce", {"reduction": _partial(s.reduction)}),
    ReduceScatter: lambda s: (
        "shard.reduce_scatter",
        {scatter_dim(): _index(s.dim), "reduction": _partial(s.reduction)},
    ),
    AllToAll: lambda s: (
        "shard.all_to_all",
        {"concat_axis": _index(s.source_dim), "split_axis": _index(s.target_dim)},
    ),
    Permute: lambda s: ("mesh.collective_permute", {"permutation": i64_array(s.permutation)}),
    Broadcast: lambda s: ("shard.broadcast", {"root": ir.DenseI64ArrayAttr.get(list(s.root))}),
    Mask: lambda s: ("mesh.mask", {"reduction": ir.StringAttr.get(s.reduction)}),
    UpdateHalo: lambda s: (
        "shard.update_halo",
        {
            "split_axes": ir.Attribute.parse(f"#shard<axisarray{[[]] * s.dim + [list(s.axes)]}>"),
            "static_halo_sizes": ir.DenseI64ArrayAttr.get([s.low, s.high]),
        },
    ),
}
