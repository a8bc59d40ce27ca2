"""From the module of a function that JAX has lowered to the one that XLA compiles.

    func @main(%x {sdy.sharding = <@mesh, [{"x"}, {}]>}) { ... }        global tensors
      -->
    func @main(%x {sdy.sharding = <@mesh, [{"x"}, {}]>}) {
      sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}, {}]>] ... { call @local }
    }
    func @local(%x) { ... }                                             what each device does

The boundary stays as it was, with all that JAX has written on it. Nothing is left to partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shard_dialect.abi.lowered_program import Boundary, Program
from shard_dialect.backends.xla.jax_functions import (
    add_functions,
    as_partitions,
    finest_grid,
    partial_axes,
    splitting_axes,
)
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source, generic_text
from shard_dialect.jax import custom_calls
from shard_dialect.jax.boundary import make_even, stack, unreduced_axes
from shard_dialect.jax.custom_calls import Inspection, number_calls, replace_calls, specs_of_calls
from shard_dialect.jax.ordered_effects import (
    hide_tokens,
    is_token,
    show_tokens,
    tensors_of,
    tokens_of,
)
from shard_dialect.model import Grid
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.passes.pipelines import Spmd
from shard_dialect.runtime.local_programs import keep_reached, read_local_program

_PASSES = Spmd().steps()
_PROPAGATE = _PASSES.index("propagate") + 1
_UNTIL_COMPLETE = ",".join(["import", "inline{default-pipeline=}", *_PASSES[:_PROPAGATE]])
"""Functions of JAX are inlined, as XLA does: each call has shardings of its own."""
_LOCAL = _PASSES.index("partition")
_FROM_COMPLETE = ",".join(
    [*_PASSES[_PROPAGATE:_LOCAL], "join-pieces", "partition", "cse", *_PASSES[_LOCAL + 1 :]]
)
"""XLA does not merge equal collectives, so that equal ops are merged before it sees them."""
_ENTRY = "main"
_DEVICES = "shard_dialect.devices"


def partition_module(module: Any) -> Any:
    """Partition a module of JAX's, which stays as it is. Raises `ShardError`."""
    with module.context:
        copy = module.operation.clone()
        hide_tokens(_entry_of(copy))
        stack(_entry_of(copy), copy)
        inspections: list[Inspection] = []
        if calls := number_calls(copy):
            inspections = replace_calls(copy, calls, _propagated_specs(copy))
        return partition_read(_read(copy), module, inspections)


def _propagated_specs(module: Any) -> Mapping[int, Any]:
    """The shardings of the calls that `number_calls` has numbered."""
    own = _read(module.operation.clone())
    with own.context, ir.Location.unknown():
        run_pipeline(own, _UNTIL_COMPLETE)
        return specs_of_calls(own.operation)


def read_module(module: Any) -> ir.Module:
    """A module of JAX's in our own bindings, with our own context."""
    with module.context:
        return _read(module.operation.clone())


def _read(copy: Any) -> ir.Module:
    custom_calls.mark(copy)
    with make_context():
        return Source.of(generic_text(copy), "a JAX function").parse()


def partition_read(own: ir.Module, module: Any, inspections: Sequence[Inspection] = ()) -> Any:
    """Partition a module that `read_module` has read, annotated further perhaps. It is consumed."""
    with own.context, ir.Location.unknown():
        run_pipeline(own, _UNTIL_COMPLETE)
        make_even(own.operation, _ENTRY)
        run_pipeline(own, _FROM_COMPLETE)
        keep_reached(own.operation, _ENTRY)
        program = read_local_program(own.operation, _ENTRY, partial_results=True)
        return _Written(module, program, inspections).module(as_partitions(own))


class _Written:
    """The module for XLA, with the boundary of `module`."""

    def __init__(self, module: Any, program: Program, inspections: Sequence[Inspection]) -> None:
        self.source, self.program, self.inspections = module, program, inspections
        count = module.operation.attributes["mhlo.num_partitions"].value
        self.grid = finest_grid(program) or Grid(_DEVICES, (count,))
        self.names = [self.grid.axis_name(axis) for axis in range(self.grid.rank)]

    def module(self, text: str) -> Any:
        """With the functions of `text` beside the entry, which calls theirs."""
        from jaxlib.mlir import ir as jax_ir
        from jaxlib.mlir.dialects import func, sdy, stablehlo

        with self.source.context, self.source.operation.location:
            made = jax_ir.Module.create()
            _copy_attributes(self.source.operation, made.operation)
            declared = self._meshes(jax_ir.InsertionPoint(made.body))
            old = _entry_of(self.source.operation)
            at_end = jax_ir.InsertionPoint(made.body)
            make: Any = func.FuncOp
            entry = make(_ENTRY, old.type, visibility="public", ip=at_end)
            _copy_attributes(old.operation, entry.operation)
            callee, types = add_functions(made, text, _ENTRY)
            stacked = [
                bool(axes)
                for axes, each in zip(unreduced_axes(old.operation), old.arguments, strict=True)
                if not is_token(each)
            ]
            results = self.program.results
            show_tokens(_function(made, callee.value))
            # XLA drops empty operands, and refuses a manual computation that had no others.
            no_elements = all(0 in jax_ir.RankedTensorType(each).shape for each in types.inputs)
            with jax_ir.InsertionPoint(entry.add_entry_block()):
                operands = [] if no_elements else tensors_of(entry.arguments)
                tokens = tokens_of(entry.arguments)
                kinds = [each.type for each in tokens]
                manual = sdy.ManualComputationOp(
                    [*(each for each in old.type.results if each not in kinds), *kinds],
                    [*operands, *tokens],
                    self._shardings(
                        declared, self.program.arguments[: len(operands)], stacked, len(tokens)
                    ),
                    self._shardings(declared, results, [False] * len(results), len(tokens)),
                    sdy.ManualAxesAttr.get([jax_ir.StringAttr.get(name) for name in self.names]),
                )
                for each in self.inspections:
                    each.write(declared, self.names)
                # JAX has tokens first.
                func.ReturnOp([*tokens_of(manual.results), *tensors_of(manual.results)])
            local = [
                _line(each) if first else each
                for each, first in zip(types.inputs, stacked, strict=True)
            ]
            block = manual.body.blocks.append(*local[: len(operands)], *kinds)
            with jax_ir.InsertionPoint(block):
                pairs = zip(tensors_of(block.arguments), types.inputs, strict=not no_elements)
                arguments = [stablehlo.reshape(type_, each) for each, type_ in pairs] or [
                    _empty(type_) for type_ in types.inputs
                ]
                arguments += tokens_of(block.arguments)
                call = func.CallOp([*types.results, *kinds], callee, arguments)
                sdy.ReturnOp(list(call.results))
            custom_calls.run_once(made)
            made.operation.verify()
            return made

    def _meshes(self, point: Any) -> str:
        """Declare the meshes of the source, and that of the program; return the latter's name."""
        from jaxlib.mlir.dialects import sdy

        for op in self.source.body.operations:
            if op.operation.name == "sdy.mesh":
                op.operation.clone(ip=point)
        axes = [
            sdy.MeshAxisAttr.get(name, size or 1)
            for name, size in zip(self.names, self.grid.shape, strict=True)
        ]
        mesh = sdy.MeshAttr.get(axes, list(self.grid.device_ids))
        sdy.MeshOp(_DEVICES, mesh, ip=point)
        return _DEVICES

    def _shardings(
        self, mesh: str, entries: Sequence[Boundary], stacked: Sequence[bool], tokens: int
    ) -> Any:
        from jaxlib.mlir.dialects import sdy

        def axes(names: Sequence[str]) -> list[Any]:
            return [sdy.AxisRefAttr.get(name) for name in names]

        def sharding(each: Boundary, stacked: bool) -> Any:
            dims = splitting_axes(each, self.program, self.grid)
            unreduced = dims.pop(0) if stacked else partial_axes(each, self.program, self.grid)
            closed = [sdy.DimensionShardingAttr.get(axes(dim), is_closed=True) for dim in dims]
            return sdy.TensorShardingAttr.get(mesh, closed, unreduced_axes=axes(unreduced))

        of_tokens = [sdy.TensorShardingAttr.get(mesh, [])] * tokens
        return sdy.TensorShardingPerValueAttr.get([*map(sharding, entries, stacked), *of_tokens])


def _entry_of(module: Any) -> Any:
    return _function(module, _ENTRY)


def _function(module: Any, name: str) -> Any:
    functions = [op for op in module.operation.regions[0].blocks[0].operations if _is_function(op)]
    return next(op for op in functions if op.name.value == name)


def _is_function(op: Any) -> bool:
    return bool(op.operation.name == "func.func")


def _line(type_: Any) -> Any:
    """The type of the one line that a device has of a stack."""
    from jaxlib.mlir import ir as jax_ir

    tensor = jax_ir.RankedTensorType(type_)
    return jax_ir.RankedTensorType.get(tensor.shape[1:], tensor.element_type)


def _empty(type_: Any) -> Any:
    """A constant without elements, as text: bindings have no class for one of complex numbers."""
    from jaxlib.mlir import ir as jax_ir

    text = f'"stablehlo.constant"() <{{value = dense<> : {type_}}}> : () -> {type_}'
    constant = jax_ir.Operation.parse(text)
    jax_ir.InsertionPoint.current.insert(constant)
    return constant.results[0]


def _copy_attributes(source: Any, target: Any) -> None:
    for name in source.attributes:
        target.attributes[name] = source.attributes[name]
