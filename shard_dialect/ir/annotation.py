"""What users write: annotations in upstream's and in the RFC's vocabulary.

    %s = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
    %1 = shard.shard %0 to %s : tensor<4x8xf32>                    %0 itself lies so
    %1 = shard.shard %0 to %s annotate_for_users : tensor<4x8xf32> its users see it so

    %1 = "mesh.annotate"(%0) {sharding = [[], [0]], required = true, as_result = true} : ...

The RFC's `sharding` is on the grid of the function's `mesh_cluster`, or names one itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from shard_dialect.ir.attributes import Shardings, is_sharding, read_axes, symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.model import Sharding, ShardingError

OPS = ("shard.shard", "mesh.annotate")
"""The ops that annotate the one tensor that they take and return."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """`for_users`: only the annotation's result lies so; else its operand does too."""

    sharding: Sharding
    for_users: bool


def read_annotation(op: ir.Operation, shardings: Shardings) -> Annotation | None:
    """What `op` annotates, or `None` if it is no annotation. Raises `ShardingError`."""
    if op.name == "shard.shard":
        return _read_shard(op, shardings)
    if op.name == "mesh.annotate":
        return _read_annotate(op, shardings)
    return None


def _read_shard(op: ir.Operation, shardings: Shardings) -> Annotation:
    type_ = op.operands[0].type
    source = op.operands[1].owner
    if isinstance(source, ir.Block) or source.operation.name != "shard.sharding":
        raise ShardingError("takes a sharding that no 'shard.sharding' op makes")
    split = split_axes(source.operation)
    if len(split) > type_.rank and any(split):
        raise ShardingError(
            f"has split axes {[list(axes) for axes in split]} for {len(split)} dimensions, "
            f"but the tensor has {type_.rank}"
        )
    sharding = Sharding(
        grid_name(source.operation), (*split[: type_.rank], *((),) * (type_.rank - len(split)))
    )
    return Annotation(
        shardings.checked(sharding, type_.rank), "annotate_for_users" in op.attributes
    )


def split_axes(op: ir.Operation) -> tuple[tuple[int, ...], ...]:
    """The split axes of a `shard.sharding`, one entry for each dimension that it speaks of."""
    for extra in ("static_halo_sizes", "static_sharded_dims_offsets"):
        if len(op.attributes[extra]):
            raise ShardingError(f"has {extra.removeprefix('static_')}, which are not supported yet")
    text = str(op.attributes["split_axes"]).removeprefix("#shard<axisarray").removesuffix(">")
    return tuple(tuple(axes) for axes in json.loads(text))


def grid_name(op: ir.Operation) -> str:
    """The grid that a `shard.sharding` is on."""
    return symbol(op.attributes["grid"])


def cluster_name(function: ir.Operation) -> str:
    """The grid that a function's `mesh_cluster` names."""
    return symbol(function.attributes["mesh_cluster"])


def _read_annotate(op: ir.Operation, shardings: Shardings) -> Annotation:
    type_ = op.operands[0].type
    if not isinstance(type_, ir.RankedTensorType):
        raise ShardingError(f"annotates a {type_}, not a ranked tensor")
    attribute = op.attributes["sharding"]
    if is_sharding(attribute):
        sharding = shardings.read(attribute, type_.rank)
    else:
        sharding = read_axes(_default_grid(op), attribute, type_.rank)
        shardings.checked(sharding, type_.rank)
    return Annotation(sharding, not flag(op, "as_result", default=True))


def flag(op: ir.Operation, name: str, default: bool) -> bool:
    """The value of `name = true`, of `name` alone (true), or `default` where it is not there."""
    if name not in op.attributes:
        return default
    attribute = op.attributes[name]
    if isinstance(attribute, ir.UnitAttr):
        return True
    if not isinstance(attribute, ir.BoolAttr):
        raise ShardingError(f"attribute '{name}' must be true or false, found {attribute}")
    return bool(attribute.value)


def _default_grid(op: ir.Operation) -> str:
    function = op.operation.parent
    while function is not None and "mesh_cluster" not in function.attributes:
        function = function.parent
    if function is None:
        raise ShardingError(
            "names no grid, and its function has no mesh_cluster: "
            "write #mesh.shard<@grid, [...]> or give the function {mesh_cluster = @grid}"
        )
    return cluster_name(function)
