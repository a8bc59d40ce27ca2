"""The boundary of functions of JAX: even shardings, and unreduced arguments.

The nearest shardings that JAX has arrays for: those whose shards are of one size.

    result tensor<6x8xf32> {mesh.sharding = <@mesh, [[0, 1], []]>}      2x4 devices
      --> {mesh.sharding = <@mesh, [[0], []]>}

Inside of a function dimensions may be split unevenly, and along parts of axes; of an argument or a
result the whole axes are kept, from the major one on, that divide its size.

Arguments of JAX that are `unreduced`: each device holds a summand.

    func @main(%x: tensor<8xf32> {<@mesh, [{}], unreduced={"a"}>})
      -->
    func @main(%x: tensor<4x8xf32> {<@mesh, [{"a"}, {}]>}) {
      %sum = stablehlo.reduce(%x) across dimensions = [0]       partial, as each device has one line

In a global program only a value that an op makes can be partial. So the summands become the lines
of a tensor, one for each device, and their sum is what the program reads.

Zeros, in modules of jaxlib's bindings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from math import prod
from typing import Any

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import BOUNDARY, boundary, functions_of, name_of, set_boundary
from shard_dialect.ir.mesh.attributes import SHARDING
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.model import Axes, Grid, Sharding, SubAxis


def make_even(module: ir.Operation, entry: str) -> None:
    """Change the shardings of the entry's boundary, in the propagated form, to even ones."""
    shardings = Shardings.of(module)
    function = next(op for op in functions_of(module) if name_of(op) == entry)
    type_ = function.attributes["function_type"].value
    for key, types in zip(BOUNDARY, (type_.inputs, type_.results), strict=True):
        entries = boundary(function, key)
        for attributes, each in zip(entries, types, strict=True):
            if SHARDING in attributes:
                annotation = shardings.read_annotation(attributes[SHARDING], each.rank)
                grid = shardings.grid(annotation.grid)
                even = even_sharding(annotation.sharding, tuple(each.shape), grid)
                if even != annotation.sharding:
                    attributes[SHARDING] = shardings.write(replace(annotation, sharding=even))
        set_boundary(function, key, entries)


def even_sharding(sharding: Sharding, shape: tuple[int, ...], grid: Grid) -> Sharding:
    """The sharding without the minor axes that do not divide the sizes, or are parts of axes.

    >>> grid = Grid("g", (2, 4))
    >>> str(even_sharding(Sharding("g", ((0, 1), ())), (6, 8), grid))
    '[[0], []]'
    >>> str(even_sharding(Sharding("g", ((0, SubAxis(1, 1, 2)), ())), (8, 8), grid))
    '[[0], []]'
    """

    def even(axes: Axes, size: int) -> Axes:
        whole = tuple(takewhile(lambda axis: not isinstance(axis, SubAxis), axes))
        prefixes = (whole[: count + 1] for count in range(len(whole)))
        kept = list(takewhile(lambda each: size % grid.axes_size(each) == 0, prefixes))
        return kept[-1] if kept else ()

    axes = tuple(map(even, sharding.split_axes, shape))
    return replace(sharding, split_axes=axes)


def zeros(type_: Any) -> Any:
    """A tensor of zeros, created at the insertion point."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    tensor = ir.RankedTensorType(type_)
    element = tensor.element_type
    if isinstance(element, ir.ComplexType):
        part = zeros(ir.RankedTensorType.get(tensor.shape, ir.ComplexType(element).element_type))
        return stablehlo.ComplexOp(part, part).result
    is_integer = isinstance(element, ir.IntegerType)
    zero = ir.IntegerAttr.get(element, 0) if is_integer else ir.FloatAttr.get(element, 0.0)
    return stablehlo.ConstantOp(ir.DenseElementsAttr.get_splat(tensor, zero)).result


SDY_SHARDING = "sdy.sharding"
_CONSTRAINT = "sdy.sharding_constraint"


def unreduced_axes(function: Any) -> list[Sequence[Any]]:
    """For each argument of a function of JAX's, the axes along which it is unreduced."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    if "arg_attrs" not in function.attributes:
        return [() for _ in function.regions[0].blocks[0].arguments]
    entries = map(ir.DictAttr, function.attributes["arg_attrs"])
    return [
        sdy.TensorShardingAttr(entry[SDY_SHARDING]).unreduced_axes if SDY_SHARDING in entry else ()
        for entry in entries
    ]


def stack(function: Any, module: Any) -> None:
    """Give the unreduced arguments of a function a first dimension, split along these axes."""
    from jaxlib.mlir import ir

    _copy_before_constraints(module)
    axes = unreduced_axes(function)
    if not any(axes):
        return
    sizes = _axis_sizes(module)
    entries = list(map(ir.DictAttr, function.attributes["arg_attrs"]))
    block = function.regions[0].blocks[0]
    for number, each in enumerate(axes):
        if each:
            argument = block.arguments[number]
            entries[number] = _stacked(argument, entries[number], each, sizes)
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(entries)
    old = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    types = [each.type for each in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, old.results))


def _stacked(argument: Any, entry: Any, axes: Sequence[Any], sizes: dict[str, int]) -> Any:
    """Stack one argument; return its attributes."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy, stablehlo

    sharding = sdy.TensorShardingAttr(entry[SDY_SHARDING])
    named = [sdy.AxisRefAttr(axis) for axis in axes]
    count = prod(_size(axis, sizes) for axis in named)
    type_ = ir.RankedTensorType(argument.type)
    place = argument.owner.owner.location
    scalar = ir.RankedTensorType.get([], type_.element_type, loc=place)
    stacked = ir.RankedTensorType.get([count, *type_.shape], type_.element_type, loc=place)
    with ir.InsertionPoint.at_block_begin(argument.owner), place:
        zero = zeros(scalar)
        summed = stablehlo.ReduceOp([type_], [argument], [zero], [0])
        kept = sdy.ShardingConstraintOp(summed.results[0], sharding).result
    with place:
        block = summed.regions[0].blocks.append(scalar, scalar)
    with ir.InsertionPoint(block), place:
        stablehlo.ReturnOp([stablehlo.AddOp(*block.arguments).result])
    argument.replace_all_uses_except(kept, summed.operation)
    argument.set_type(stacked)
    first = sdy.DimensionShardingAttr.get(named, is_closed=True)
    dims = [first, *sharding.dimension_shardings]
    made = sdy.TensorShardingAttr.get(sharding.mesh_or_ref, dims)
    return ir.DictAttr.get({**{each.name: each.attr for each in entry}, SDY_SHARDING: made})


def _copy_before_constraints(module: Any) -> None:
    """Let constraints to unreduced shardings be on the result of an op, and not on an argument."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy, stablehlo

    found: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name == _CONSTRAINT and isinstance(op.operands[0].owner, ir.Block):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in found:
        if sdy.TensorShardingAttr(op.attributes["sharding"]).unreduced_axes:
            argument = op.operands[0]
            with ir.InsertionPoint(op), op.location:
                op.operands[0] = stablehlo.convert(argument.type, argument)


def _axis_sizes(module: Any) -> dict[str, int]:
    """The size of each axis of the meshes."""
    from jaxlib.mlir.dialects import sdy

    blocks = module.operation.regions[0].blocks
    meshes = [op for op in blocks[0].operations if op.operation.name == "sdy.mesh"]
    axes = [axis for mesh in meshes for axis in sdy.MeshAttr(mesh.attributes["mesh"]).axes]
    return {each.name: each.size for each in map(sdy.MeshAxisAttr, axes)}


def _size(axis: Any, sizes: dict[str, int]) -> int:
    from jaxlib.mlir.dialects import sdy

    part = axis.sub_axis_info
    return sizes[axis.name] if part is None else int(sdy.SubAxisInfoAttr(part).size)
