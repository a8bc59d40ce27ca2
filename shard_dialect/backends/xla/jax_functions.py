"""A partitioned program as a function for JAX to trace, of global arrays or of shards.

`call_local` calls the program of each device from a function that JAX traces:

    @jax.shard_map(mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    def local(x):
        return call_local(text, "main", [x], results)

The text is StableHLO whose devices are partitions. It becomes a part of the module that JAX lowers,
so that XLA compiles it and JAX calls it as any other function. Only public interfaces of JAX are
used: a primitive, its lowering, and `jax.shard_map`.

The function of global arrays is that in a `shard_map` over the boundary's shardings, which become a
mesh and partition specs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from math import prod
from typing import Any

from shard_dialect.abi.lowered_program import Boundary, Program
from shard_dialect.abi.tensor_types import TensorType
from shard_dialect.errors import MissingExtra, ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.model import Grid
from shard_dialect.model.grid import Axis
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.processes.startup import without_notices
from shard_dialect.runtime.local_programs import keep_connected, keep_reached, read_local_program

_numbers = count(1)


def call_local(
    text: str, entry: str, arguments: Sequence[Any], results: Sequence[TensorType]
) -> list[Any]:
    """The results of the function `entry` of `text`, under JAX's trace."""
    found: list[Any] = _primitive().bind(*arguments, text=text, entry=entry, results=tuple(results))
    return found


def jax_of_user() -> Any:
    """The module `jax`. Raises `MissingExtra` if it is not installed."""
    without_notices()
    try:
        import jax
    except ImportError:
        raise MissingExtra("jax, through which XLA runs programs,", "jax") from None
    return jax


@cache
def find_lapack() -> None:
    """Let calls of LAPACK, in programs that JAX exported elsewhere, find it.

    JAX looks for it when it lowers the first decomposition; a call before that would crash.
    """
    jax = jax_of_user()
    one = jax.ShapeDtypeStruct((1, 1), "float32")
    jax.jit(jax.numpy.linalg.cholesky).trace(one).lower(lowering_platforms=("cpu",))


@cache
def _primitive() -> Any:
    jax = jax_of_user()
    from jax.extend import core
    from jax.interpreters import mlir

    primitive: Any = core.Primitive("shard_dialect_local")
    primitive.multiple_results = True

    def shapes(*_: Any, text: str, entry: str, results: Sequence[TensorType]) -> list[Any]:
        return [jax.core.ShapedArray(each.shape, each.dtype) for each in results]

    primitive.def_abstract_eval(shapes)
    mlir.register_lowering(primitive, _lower)
    return primitive


def _lower(
    context: Any, *arguments: Any, text: str, entry: str, results: Sequence[TensorType]
) -> Any:
    from jaxlib.mlir.dialects import func

    name, types = add_functions(context.module_context.module, text, entry)
    return func.CallOp(types.results, name, list(arguments)).results


def add_functions(module: Any, text: str, entry: str) -> tuple[Any, Any]:
    """Put the functions of `text` into JAX's module, under new names; returns that of `entry`."""
    from jaxlib.mlir import ir

    source = ir.Module.parse(text)
    _keep_layouts_of_fft(source)
    prefix = f"shard_dialect.{next(_numbers)}"
    functions = [op.operation for op in source.body.operations]
    types: Any = None
    for function in functions:
        old = ir.StringAttr(function.attributes["sym_name"]).value
        if old == entry:
            types = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        new = f"{prefix}.{old}"
        ir.SymbolTable.replace_all_symbol_uses(old, new, source.operation)
        function.attributes["sym_name"] = ir.StringAttr.get(new)
        if function.name == "func.func":  # and not a mesh
            function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    for function in functions:
        function.clone(ip=ir.InsertionPoint.at_block_begin(module.body))
    return ir.FlatSymbolRefAttr.get(f"{prefix}.{entry}"), types


def _keep_layouts_of_fft(module: Any) -> None:
    """Constrain what Fourier transforms read and make to the layout that XLA:CPU has code for.

    XLA gives them the layouts of the ops around (a transpose, say), and then ends with an error.
    """
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    def constrained(value: Any) -> Any:
        rank = value.type.rank
        layout = f"dense<{[*range(rank)][::-1]}> : tensor<{rank}xindex>"
        layouts = ir.ArrayAttr.get([ir.Attribute.parse(layout)])
        return stablehlo.CustomCallOp(
            [value.type],
            [value],
            call_target_name="LayoutConstraint",
            api_version=ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1),
            operand_layouts=layouts,
            result_layouts=layouts,
        ).results[0]

    found: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name == "stablehlo.fft":
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in found:
        with ir.InsertionPoint(op), op.location:
            op.operands[0] = constrained(op.operands[0])
        with ir.InsertionPoint.after(op), op.location:
            made = constrained(op.results[0])
        op.results[0].replace_all_uses_except(made, [made.owner.operation])


@dataclass(frozen=True)
class JaxSpecs:
    """The shardings of a program's arguments and results on a mesh of JAX."""

    mesh: Any
    """A `jax.sharding.Mesh` with the axes of the program's grid, or of the finest of its grids."""
    arguments: Sequence[Any]
    """A `jax.sharding.PartitionSpec` for each argument."""
    results: Sequence[Any]

    @classmethod
    def of(cls, program: Program, mesh: Any) -> JaxSpecs:
        """The specs on `mesh`, or on a finer mesh of its devices if the program's grid is finer.

        Raises `ShardError` for shards of unequal sizes, which JAX does not have.
        """
        jax = jax_of_user()
        finest = finest_grid(program) or Grid("devices", (mesh.size,))
        names = [finest.axis_name(axis) for axis in range(finest.rank)]
        if (finest.shape, tuple(names)) != (mesh.devices.shape, mesh.axis_names):
            placed = mesh.devices.flatten()[list(finest.device_ids) or slice(None)]
            mesh = jax.sharding.Mesh(placed.reshape(finest.shape), names)

        def specs(entries: Sequence[Boundary]) -> list[Any]:
            splits = [splitting_axes(each, program, finest) for each in entries]
            return [jax.sharding.PartitionSpec(*(each or None for each in dims)) for dims in splits]

        return cls(mesh, specs(program.arguments), specs(program.results))


def finest_grid(program: Program) -> Grid | None:
    """The grid of the boundary with most axes; the others' axes consist of its axes."""
    used = {each.sharding.grid for each in (*program.arguments, *program.results) if each.sharding}
    grids = sorted((program.grids[name] for name in used), key=lambda grid: grid.rank)
    return grids[-1] if grids else None


def splitting_axes(each: Boundary, program: Program, finest: Grid) -> list[tuple[str, ...]]:
    """For each dimension, the names of the axes of the finest grid that split it.

    Raises `ShardError` for shards of unequal sizes, which JAX does not have.
    """
    sharding, shape = each.sharding, each.global_type.shape
    if sharding is None:
        return [() for _ in shape]
    grid = program.grids[sharding.grid]
    found = []
    for dim, size in enumerate(shape):
        axes = sharding.split_axes[dim] if dim < len(sharding.split_axes) else ()
        if each.local.shape[dim] * grid.axes_size(axes) != size:
            raise ShardError(
                f"a tensor of shape {list(shape)} is sharded as {sharding}: jax has no arrays "
                f"whose shards along dimension {dim} differ in size"
            )
        fine = [one for axis in axes for one in refined_axes(grid, axis, finest)]
        found.append(tuple(finest.axis_name(axis) for axis in fine))
    return found


def partial_axes(each: Boundary, program: Program, finest: Grid) -> list[str]:
    """The names of the axes of the finest grid along which it is partial, a sum as JAX has them."""
    sharding = each.sharding
    if sharding is None:
        return []
    if sharding.reduction != "sum":
        raise ShardError(
            f"a result is sharded as {sharding}: jax has sums alone that are unreduced"
        )
    grid = program.grids[sharding.grid]
    fine = [one for axis in sharding.partial for one in refined_axes(grid, axis, finest)]
    return [finest.axis_name(axis) for axis in fine]


def refined_axes(grid: Grid, axis: Axis, finest: Grid) -> tuple[int, ...]:
    """The axes of `finest` that one axis of `grid`, on the same devices, consists of.

    Axes of one device split nothing: they are none of them.

    >>> refined_axes(Grid("g", (4, 2)), 0, Grid("h", (2, 2, 2)))
    (0, 1)
    >>> refined_axes(Grid("g", (1, 8)), 1, Grid("h", (1, 8)))
    (1,)
    """
    assert isinstance(axis, int), "grids of the local form have no sub-axes"
    inner = prod(size or 1 for size in grid.shape[axis + 1 :])
    size = grid.shape[axis] or 1
    sizes = [each or 1 for each in finest.shape]
    inside = [prod(sizes[each + 1 :]) for each in range(len(sizes))]
    members = tuple(
        each
        for each in range(len(sizes))
        if sizes[each] > 1 and inside[each] >= inner and inside[each] * sizes[each] <= inner * size
    )
    if prod(sizes[each] for each in members) != size or grid.device_ids != finest.device_ids:
        raise ShardError(f"axes of grid {grid} are no unions of those of grid {finest}")
    return members


@dataclass(frozen=True)
class PartitionedFunction:
    """The program that each device runs, and how its arguments and results are sharded."""

    text: str
    """StableHLO whose devices are partitions."""
    entry: str
    specs: JaxSpecs
    results: Sequence[TensorType]
    """The local types of the results."""

    @classmethod
    def of(cls, module: ir.Module, mesh: Any, entry: str = "main") -> PartitionedFunction:
        """Partition a module in any form over the devices of `mesh`. The module is consumed.

        Raises `ShardError` for what cannot be partitioned, or not be given back to JAX.
        """
        with module.context, ir.Location.unknown():
            keep_connected(module.operation, entry)
            run_pipeline(module, "spmd")
            keep_reached(module.operation, entry)
            program = read_local_program(module.operation, entry)
            specs = JaxSpecs.of(program, mesh)
            return cls.of_local(program, as_partitions(module), specs)

    @classmethod
    def of_local(cls, program: Program, text: str, specs: JaxSpecs) -> PartitionedFunction:
        """The function of a program whose text is StableHLO already."""
        return cls(text, program.entry, specs, [each.local for each in program.results])

    def __call__(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """The global results for global arguments, under a trace of JAX."""
        jax = jax_of_user()

        def local(*shards: Any) -> tuple[Any, ...]:
            return tuple(call_local(self.text, self.entry, shards, self.results))

        mapped: Callable[..., Sequence[Any]] = jax.shard_map(
            local,
            mesh=self.specs.mesh,
            in_specs=tuple(self.specs.arguments),
            out_specs=tuple(self.specs.results),
            check_vma=False,
        )
        return mapped(*arguments)


def as_partitions(module: ir.Module) -> str:
    """Lower a module in the local form to StableHLO whose devices are partitions; its text."""
    run_pipeline(module, "lower{target=stablehlo devices=partitions chlo}")
    text: str = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    return text
