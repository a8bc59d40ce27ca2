"""Emit a module in the local form as a Python program.

%0 = linalg.matmul ins(%x, %w) ...            product = x @ w  # 4x16xf32
%1 = shard.all_reduce %0 on @g                all_reduce = all_reduce(product, along_1)
       grid_axes = [1]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from shard_dialect.emit import main_function, shared_functions
from shard_dialect.emit.ops import (
    collective_calls,
    constant_ops,
    control_flow_ops,
    conversions,
    elementwise,
    indexed_access,
    linalg_ops,
    sorting,
    stablehlo_ops,
    tensor_ops,
)
from shard_dialect.emit.python_text import Names, folded, in_docstring
from shard_dialect.emit.writer import Target, Writer, own_name
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import PassManager, ir
from shard_dialect.ir.diagnostics import error_at, from_mlir, located
from shard_dialect.ir.function import form_of, functions_of, name_of, refuse_form
from shard_dialect.ir.mesh.attributes import DEVICE
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.no_grid import declares_no_grid
from shard_dialect.ir.shard.local_collectives import one_by_one
from shard_dialect.ir.walk import operations, walk
from shard_dialect.model import Grid
from shard_dialect.passes.lower.expansions import lower_registered
from shard_dialect.passes.lower.refuse_custom_calls import refuse_custom_calls
from shard_dialect.passes.lower.tosa_zero_points import expand_matmuls
from shard_dialect.passes.specialize.device_positions import to_arithmetic

TARGETS: tuple[Target, ...] = ("mpi4py", "torch")
_GENERIC = (
    "builtin.module(func.func(tosa-optional-decompositions,tosa-to-linalg-named,tosa-to-linalg,"
    "tosa-to-arith{include-apply-rescale=true},tosa-to-tensor,canonicalize{test-convergence=false},"
    "linalg-generalize-named-ops))"
)
TABLE: Mapping[str, Callable[[Writer, ir.Operation], None]] = {
    **elementwise.TABLE,
    **conversions.TABLE,
    **constant_ops.TABLE,
    **linalg_ops.TABLE,
    **tensor_ops.TABLE,
    **stablehlo_ops.TABLE,
    **indexed_access.TABLE,
    **sorting.TABLE,
    **collective_calls.TABLE,
}


@dataclass(frozen=True)
class EmittedFunctions:
    """A program in Python without its `main`, for one who has joined the devices and calls it."""

    imports: str
    body: str
    """The rest of the text: it creates groups and defines functions."""
    entry: str
    """The name of the function to call with shards."""


def emit_python(module: ir.Module, target: Target) -> str:
    """Return the program of a module as the text of a Python file. The module is consumed."""
    root = module.operation
    shardings, entry = _prepared(root, None)
    w = _written(root, target, shardings, entry)
    lines = [*w.lines, "", "", *main_function.main(w, root, entry, shardings)]
    return "\n".join([*_head(w, entry), "", *_file(w, "\n".join(lines))]) + "\n"


def emit_functions(module: ir.Module, target: Target, entry: str) -> EmittedFunctions:
    """Return the program that starts at the function `entry`. The module is consumed."""
    root = module.operation
    shardings, function = _prepared(root, entry)
    w = _written(root, target, shardings, function)
    imports, _, body = _file(w, "\n".join(w.lines))
    return EmittedFunctions(imports, body + "\n", w.functions[entry])


def _prepared(root: ir.Operation, name: str | None) -> tuple[Shardings, ir.Operation]:
    """Simplify a module to ops that are written; return its shardings and its entry."""
    functions = functions_of(root)
    no_grid = declares_no_grid(root)  # then all forms are one
    for function in functions:
        if form_of(function) != "local" and not no_grid:
            raise refuse_form(function, ": the local form (--spmd) is written in Python")
        if name is not None and DEVICE in function.attributes:
            raise error_at(
                function.location,
                f"@{name_of(function)} is the program of one device: in Python all devices run one",
            )
    if not functions:
        raise ShardError("there is no function to write in Python")
    to_arithmetic(root)
    for op in list(walk(root)):
        if op.name == "shard.update_halo":
            one_by_one(op)
    try:
        lower_registered(root)
        refuse_custom_calls(root)
        expand_matmuls(walk(root))
        PassManager.parse(_GENERIC).run(root)
    except ir.MLIRError as error:
        raise from_mlir(error) from None
    entry = _entry(functions) if name is None else _find(functions, name)
    return Shardings.of(root), entry


def _find(functions: Sequence[ir.Operation], name: str) -> ir.Operation:
    """The function of this name."""
    return next(each for each in functions if name_of(each) == name)


def _written(
    root: ir.Operation, target: Target, shardings: Shardings, entry: ir.Operation
) -> Writer:
    """Write all functions, the entry last."""
    w = Writer(target, shardings.grids, Names(shared_functions.names(target) | {"main"}))
    for name in w.grids:
        w.grid_names[name] = w.names.new(f"grid_{name}").upper() if len(w.grids) > 1 else "GRID"
    w.functions[name_of(entry)] = w.names.new("program")
    functions = functions_of(root)
    for function in functions:
        if function != entry:
            w.functions[name_of(function)] = w.names.new(name_of(function))
    for function in sorted(functions, key=lambda each: each == entry):
        _function(w, function)
    return w


def _entry(functions: Sequence[ir.Operation]) -> ir.Operation:
    named = {name_of(each): each for each in functions}
    public = [
        each
        for each in functions
        if "sym_visibility" not in each.attributes
        or each.attributes["sym_visibility"].value == "public"
    ]
    if "main" in named:
        return named["main"]
    if len(public) != 1:
        raise ShardError("which function to run is not clear: name one of them @main")
    return public[0]


def _function(w: Writer, function: ir.Operation) -> None:
    if len(list(function.regions[0].blocks)) != 1:
        raise error_at(
            function.location, "a function of several blocks cannot be written in Python"
        )
    outer, w.names = w.names, Names(w.names.used)
    block = function.regions[0].blocks[0]
    names = [
        w.name(argument, own_name(argument) or f"arg{number}")
        for number, argument in enumerate(block.arguments)
    ]
    w.lines += ["", ""] if w.lines else []
    w.line(f"def {w.functions[name_of(function)]}({', '.join(names)}):")
    with w.indented(), located(function):
        last = _block(w, block)
        w.line(f"return {', '.join(w.uses(last))}".rstrip())
    w.names = outer
    w.names.used.update(w.groups.values())


def _block(w: Writer, block: ir.Block) -> ir.Operation:
    """Write all ops but the last, and return that."""
    *inside, last = operations(block)
    for op in inside:
        with located(op):  # an op of a body may have no place of its own
            if op.name in control_flow_ops.TABLE:
                control_flow_ops.TABLE[op.name](w, op, _block)
            elif op.name in TABLE:
                TABLE[op.name](w, op)
            else:
                raise w.refuse(op)
    return last


def _devices(w: Writer) -> int:
    return max((grid.size for grid in w.grids.values()), default=1)


def _launch(w: Writer) -> str:
    count = _devices(w)
    return w.pick(f"mpiexec -n {count} python", f"torchrun --nproc-per-node={count}")


def _head(w: Writer, entry: ir.Operation) -> list[str]:
    """The docstring of the file."""
    return [
        f'"""@{in_docstring(name_of(entry))} on {_devices(w)} devices: what each of them does.',
        "",
        f"    {_launch(w)} FILE --inputs in.npz --outputs out.npz",
        "",
        "Inputs and outputs are global tensors; without --inputs random ones are drawn.",
        '"""',
    ]


def _ranks(grid: Grid) -> str:
    """The expression for the ranks of a grid's devices, by their positions."""
    devices = f"array({list(grid.device_ids)})" if grid.device_ids else f"arange({grid.size})"
    return f"np.{devices}" if grid.rank == 1 else f"np.{devices}.reshape({grid.shape})"


def _file(w: Writer, body: str) -> tuple[str, str, str]:
    """The imports, an empty line, and the rest: helpers, groups, and the functions in `body`."""
    used = shared_functions.needed(w.target, body + ("\njoin(" if w.groups else ""))
    grids = [f"{w.grid_names[name]} = {_ranks(grid)}" for name, grid in w.grids.items()]
    start = [
        *shared_functions.start(w.target),
        f"if {w.pick('MPI.COMM_WORLD.Get_size()', 'dist.get_world_size()')} != {_devices(w)}:",
        f'    raise SystemExit("error: start {_devices(w)} ranks: {_launch(w)} FILE")',
    ]
    groups = [
        line
        for (grid, axes), name in w.groups.items()
        for line in folded(f"{name} = join({', '.join([w.grid_names[grid], *map(str, axes)])})")
    ]
    text = "\n\n\n".join(
        each
        for each in ["\n".join([*grids, *start]), *used, "\n".join(groups), body.strip("\n")]
        if each
    )
    return shared_functions.imports(w.target, text), "", text
