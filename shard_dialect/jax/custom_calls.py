"""Calls of custom functions: partitioned by the user, or calls back to Python.

Calls of `custom_partitioning` become calls of the user's function for each device.

    custom_call @CustomSPMDPartitioning(%x) {backend_config = "KEY", sdy.sharding_rule = ...}
      -->
    func.call @mapped(%x)          the user's function for these shardings, in jax.shard_map

XLA's partitioner would call the user's `partition` with the shardings that have been propagated; as
it does not run, this does, once propagation has completed a copy of the program.

Calls back to Python (`debug.print`, `io_callback`, `pure_callback`): once, with global values.

    custom_call @xla_ffi_python_cpu_callback(%x) {sdy.sharding = <maximal, device 0>}
      --> partition -->
    %r = stablehlo.if (partition_id == 0) { custom_call(%whole) } else { zeros }
    stablehlo.all_reduce(%r)                                         what device 0 was told, for all

JAX names the device, the first unless the user says another. What it calls is unknown, so that the
partition makes operands whole. The tokens that order calls stay on the device.
Calls in manual computations are of each device: JAX has written no device on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from shard_dialect.abi.tensor_types import dtype_of
from shard_dialect.backends.xla.jax_functions import add_functions, jax_of_user
from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.mesh.attributes import SHARDINGS
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.walk import walk
from shard_dialect.jax.boundary import even_sharding, zeros
from shard_dialect.jax.jax_internals import UserPartition
from shard_dialect.jax.ordered_effects import is_token, tokens_of

_TARGET = "CustomSPMDPartitioning"
_INSPECTION = "InspectSharding"
_NUMBER = "partitioned_call"
_Specs = list[tuple[Any, ...]]


def number_calls(module: Any) -> list[Any]:
    """Number the calls of a module of JAX's; an op of its own makes each of their operands.

    Calls of `inspect_array_sharding`, which want to be told shardings, are among them.
    """
    from jaxlib.mlir import ir as jax_ir
    from jaxlib.mlir.dialects import stablehlo

    calls: list[Any] = []

    def visit(op: Any) -> Any:
        is_call = op.name == "stablehlo.custom_call"
        if is_call and _target(op) in (_TARGET, _INSPECTION):
            calls.append(op)
        return jax_ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for number, call in enumerate(calls):
        attribute = jax_ir.IntegerAttr.get(jax_ir.IntegerType.get_signless(64), number)
        call.attributes[_NUMBER] = attribute
        with jax_ir.InsertionPoint(call), call.location:
            for index, operand in enumerate(call.operands):
                call.operands[index] = stablehlo.convert(operand.type, operand)
    return calls


def specs_of_calls(module: ir.Operation) -> Mapping[int, tuple[_Specs, _Specs]]:
    """In the propagated form: how operands and results of each call are split, by axis names."""
    shardings = Shardings.of(module)
    found: dict[int, tuple[_Specs, _Specs]] = {}
    for op in walk(module):
        if _NUMBER in op.attributes:
            operands = [
                _specs(value.owner.operation, shardings)[0]
                if isinstance(value.owner, ir.Operation | ir.OpView)
                else ()
                for value in op.operands
            ]
            found[op.attributes[_NUMBER].value] = operands, _specs(op, shardings)
    return found


def _specs(op: ir.Operation, shardings: Shardings) -> _Specs:
    found: _Specs = [() for _ in op.results]
    if SHARDINGS not in op.attributes:
        return found
    for number, annotation in shardings.of_results(op).items():
        grid = shardings.grid(annotation.sharding.grid)
        even = even_sharding(annotation.sharding, tuple(op.results[number].type.shape), grid)
        found[number] = tuple(
            tuple(grid.axis_name(axis) for axis in axes if isinstance(axis, int)) or None
            for axes in even.split_axes
        )
    return found


@dataclass(frozen=True)
class Inspection:
    """A call of `inspect_array_sharding`: its remaining op, and the sharding of its operand."""

    type_: Any
    attributes: Mapping[str, Any]
    spec: tuple[Any, ...]

    def write(self, mesh: str, names: Sequence[str]) -> None:
        """Have XLA tell the sharding of a constant in the operand's place, at the insertion point.

        It is in the entry itself, where XLA knows shardings, and is of no other use.
        """
        from jaxlib.mlir import ir as jax_ir
        from jaxlib.mlir.dialects import sdy

        dims = [
            sdy.DimensionShardingAttr.get(
                [sdy.AxisRefAttr.get(name) for name in each or () if name in names], is_closed=True
            )
            for each in (*self.spec, *[()] * (len(self.type_.shape) - len(self.spec)))
        ]
        sharding = sdy.TensorShardingAttr.get(mesh, dims)
        made = sdy.ShardingConstraintOp(zeros(self.type_), sharding).result
        jax_ir.Operation.create(
            "stablehlo.custom_call", [self.type_], [made], dict(self.attributes)
        )


def replace_calls(module: Any, calls: Sequence[Any], specs: Mapping[int, Any]) -> list[Inspection]:
    """Replace each call by one of the function that the user gives for its shardings.

    Inspections are taken out, and returned.
    """
    from jaxlib.mlir import ir as jax_ir
    from jaxlib.mlir.dialects import func

    found: list[Inspection] = []
    for number, call in enumerate(calls):
        operands, results = specs.get(number, ([() for _ in call.operands], None))
        if _target(call) == _INSPECTION:
            found.append(_taken_out(call, operands[0]))
            continue
        lowered = _mapped(call, operands, results or [() for _ in call.results])
        mapped = lowered.compiler_ir("stablehlo")
        text = mapped.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
        name, types = add_functions(module, text, "main")
        wanted = [each.type for each in call.results]
        if list(types.results) != wanted:
            raise ShardError(
                f"custom_partitioning's function of a shard makes {_listed(types.results)} of all "
                f"shards, and the call {_listed(wanted)}: return shards of the results' shardings"
            )
        with jax_ir.InsertionPoint(call), call.location:
            made = func.CallOp(types.results, name, list(call.operands))
        for old, new in zip(call.results, made.results, strict=True):
            old.replace_all_uses_with(new)
        call.erase()
    return found


def _taken_out(call: Any, spec: tuple[Any, ...]) -> Inspection:
    attributes = {name: call.attributes[name] for name in call.attributes if name != _NUMBER}
    (operand,), (result,) = call.operands, call.results
    result.replace_all_uses_with(operand)
    call.erase()
    return Inspection(operand.type, attributes, spec)


def _target(call: Any) -> str:
    return str(call.attributes["call_target_name"].value)


def _mapped(call: Any, operands: _Specs, results: _Specs) -> Any:
    """The user's function, lowered as `jax.shard_map` of global arrays."""
    jax = jax_of_user()
    partition = UserPartition.of(call.attributes["backend_config"].value)
    if partition is None:
        raise ShardError(
            "custom_partitioning outside of a mesh: enter one with jax.set_mesh, or call the "
            "function of a shard in jax.shard_map"
        )

    def shape(value: Any, spec: tuple[Any, ...]) -> Any:
        spec = (*spec, *[None] * (len(value.type.shape) - len(spec)))
        sharding = jax.sharding.NamedSharding(partition.mesh, jax.sharding.PartitionSpec(*spec))
        with make_context():
            dtype = dtype_of(ir.Type.parse(str(value.type.element_type)))
        return jax.ShapeDtypeStruct(tuple(value.type.shape), dtype, sharding=sharding)

    arguments = partition.in_tree.unflatten(list(map(shape, call.operands, operands)))
    made = partition.out_tree.unflatten(list(map(shape, call.results, results)))
    mesh, function, out, into = partition.function(partition.mesh, arguments, made)
    mapped = jax.shard_map(
        function,
        mesh=mesh,
        in_specs=tuple(jax.tree.map(_spec_of, into)),
        out_specs=jax.tree.map(_spec_of, out),
        check_vma=False,
    )
    flat = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in jax.tree.leaves(arguments)]

    def of_global(*each: Any) -> Any:
        return jax.tree.leaves(mapped(*partition.in_tree.unflatten(each)))

    return jax.jit(of_global, keep_unused=True).lower(*flat)


def _spec_of(sharding: Any) -> Any:
    return sharding.spec


def _listed(types: Sequence[Any]) -> str:
    return ", ".join(map(str, types))


_ONCE = "runs_once"
_CALL = "stablehlo.custom_call"
_SHARDING = "sdy.sharding"
_CHANNEL = 1 << 20
"""The number of the first channel that no other collective has."""


def mark(module: Any) -> None:
    """Mark the calls of a module of JAX's that one device makes, with its number."""
    from jaxlib.mlir import ir

    calls = _calls(module)
    one_device = _meshes_of_one_device(module) if calls else {}
    for call in calls:
        if _SHARDING in call.attributes:
            text = str(call.attributes[_SHARDING])
            device = next((one_device[name] for name in one_device if name in text), None)
            if device is not None and "_partitioned_" not in _target(call):
                unsigned = ir.IntegerType.get_unsigned(32)
                call.attributes[_ONCE] = ir.IntegerAttr.get(unsigned, device)
            del call.attributes[_SHARDING]


def _meshes_of_one_device(module: Any) -> dict[str, int]:
    """The device of each mesh that has one, and no axes, by how shardings name the mesh."""
    from jaxlib.mlir.dialects import sdy

    found: dict[str, int] = {}
    for op in module.regions[0].blocks[0].operations:
        if op.name == "sdy.mesh":
            mesh = sdy.MeshAttr(op.attributes["mesh"])
            if mesh.device_ids and not mesh.axes:
                found[f"<{as_symbol(op.attributes['sym_name'].value)},"] = mesh.device_ids[0]
    return found


def run_once(module: Any) -> None:
    """Let one device alone make each call that is marked, where devices are partitions."""
    devices = module.operation.attributes["mhlo.num_partitions"].value
    for number, call in enumerate([each for each in _calls(module) if _ONCE in each.attributes]):
        device = call.attributes[_ONCE]
        del call.attributes[_ONCE]
        _wrap(call, device, partial(_from_caller, channel=_CHANNEL + number, devices=devices))


def _calls(module: Any) -> list[Any]:
    from jaxlib.mlir import ir

    found: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name == _CALL and "_callback" in str(op.attributes["call_target_name"]):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _wrap(call: Any, caller: Any, shared: Callable[[Any], Any]) -> None:
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    types = [each.type for each in call.results]
    with ir.InsertionPoint(call), call.location:
        device = stablehlo.PartitionIdOp().result
        number = stablehlo.ConstantOp(ir.DenseElementsAttr.get_splat(device.type, caller)).result
        equal = stablehlo.ComparisonDirectionAttr.get("EQ")
        is_caller = stablehlo.CompareOp(device, number, equal).result
        branches = stablehlo.IfOp(types, is_caller)
        results = [each if is_token(each) else shared(each) for each in branches.results]
    for old, new in zip(call.results, results, strict=True):
        old.replace_all_uses_with(new)
    with ir.InsertionPoint(branches.true_branch.blocks.append()), call.location:
        end = stablehlo.ReturnOp(list(call.results))
    call.move_before(end.operation)
    tokens = iter(tokens_of(call.operands))
    with ir.InsertionPoint(branches.false_branch.blocks.append()), call.location:
        stablehlo.ReturnOp(
            [next(tokens) if is_token(each) else zeros(each.type) for each in call.results]
        )


def _from_caller(value: Any, channel: int, devices: int) -> Any:
    """The value of the device that makes the call, on all, where the others have zeros."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    all_devices: Any = np.arange(devices)[None]
    groups = ir.DenseElementsAttr.get(all_devices)
    handle = stablehlo.ChannelHandle.get(channel, 1)
    summed = stablehlo.AllReduceOp(
        [value.type], [value], groups, channel_handle=handle, use_global_device_ids=True
    )
    scalar = ir.RankedTensorType.get([], ir.RankedTensorType(value.type).element_type)
    with ir.InsertionPoint(summed.computation.blocks.append(scalar, scalar)) as point:
        add = stablehlo.OrOp if str(scalar.element_type) == "i1" else stablehlo.AddOp
        stablehlo.ReturnOp([add(*point.block.arguments).result])
    return summed.results[0]
