"""Emit a module in the local form as a Python program.

%0 = linalg.matmul ins(%x, %w) ...            product = x @ w  # 4x16xf32
%1 = shard.all_reduce %0 on @g                all_reduce = all_reduce(product, along_1)
       grid_axes = [1]

The `main` of an emitted file reads or draws inputs, runs the program, and writes results.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shard_dialect.abi.lowered_program import choose_entry, find_function
from shard_dialect.backends.python import helper_functions
from shard_dialect.backends.python.element_types import numpy_name
from shard_dialect.backends.python.ops import (
    collective_calls,
    control_flow_ops,
    conversions,
    elementwise,
)
from shard_dialect.backends.python.writer import (
    Names,
    Target,
    Writer,
    folded,
    in_docstring,
    own_name,
)
from shard_dialect.errors import ShardError, as_symbol, number_of
from shard_dialect.ir.bindings import PassManager, ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.context import load_dialects_of
from shard_dialect.ir.diagnostics import error_at, from_mlir, located
from shard_dialect.ir.function import (
    argument_names,
    boundary,
    form_of,
    functions_of,
    name_of,
    refuse_form,
    refuse_program_of_device,
)
from shard_dialect.ir.grids import sub_clusters_of
from shard_dialect.ir.mesh.attributes import ARGUMENT, RESULT, STAGE, symbol
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.reading.constants import write_resources_in_place
from shard_dialect.ir.shard.local_collectives import one_by_one
from shard_dialect.ir.verify import declares_no_grid
from shard_dialect.ir.walk import operations, walk
from shard_dialect.model import Grid
from shard_dialect.passes.decompose_chlo import decompose_where
from shard_dialect.passes.lower.check_meetings import check_meetings
from shard_dialect.passes.lower.computed_members import check_members
from shard_dialect.passes.lower.conversions import (
    branches_to_scf,
    decompose_linalg,
    expand_matmuls,
    refuse_custom_calls,
)
from shard_dialect.passes.lower.expansions import expand_registered_ops
from shard_dialect.passes.lower.to_stablehlo.to_stablehlo import as_stablehlo
from shard_dialect.passes.specialize.fold_grid_queries import (
    fold_collective_operands,
    fold_device_positions,
)


def _literal(text: str) -> str:
    r"""A Python literal in ASCII. JSON's escapes are Python's, but for what takes two of them.

    >>> print(_literal("é\n\U0001d431"))
    "\u00e9\n\U0001d431"
    """
    escaped = (f"\\U{ord(c):08x}" if ord(c) > 0xFFFF else json.dumps(c)[1:-1] for c in text)
    return f'"{"".join(escaped)}"'


def main(w: Writer, module: ir.Operation, entry: ir.Operation, shardings: Shardings) -> list[str]:
    """The `main` of the file: it reads or draws inputs, runs the program, and writes results."""
    names = [each[-1] for each in argument_names(entry)]
    _, arguments = _shards(w, module, entry, "arg_attrs", ARGUMENT, shardings)
    count, results = _shards(w, module, entry, "res_attrs", RESULT, shardings)
    given, made = (_elements(entry, which) for which in ("inputs", "results"))
    written = _write(w, made)
    call = f"{w.functions[name_of(entry)]}(*shards)"
    draws = "torch.Generator().manual_seed" if w.is_torch else "np.random.default_rng"
    return [
        "def main():",
        '    parser = argparse.ArgumentParser(description="Run on all ranks.")',
        '    parser.add_argument("--inputs", help="a .npz file of the arguments, or arg0, ...")',
        '    parser.add_argument("--outputs", help="a .npz file of result0, ... to write")',
        '    parser.add_argument("--seed", type=int, default=0, help="of random inputs")',
        "    options = parser.parse_args()",
        *_listed("names", [f"        {_literal(each)}," for each in names]),
        "    # Of each argument, and each result: the grid, the axes that split each dimension,",
        "    # the shape, the shape of a shard, and the type; of results who has them.",
        *_listed("arguments", arguments),
        *_listed("results", results),
        *(_listed("stored", _stored(made)) if "stored" in written else []),
        "    if options.inputs:",
        "        with np.load(options.inputs) as file:",
        '            lacks = [n for i, n in enumerate(names) if not {n, f"arg{i}"} & {*file}]',
        "            if lacks:",
        "                text = f\"error: '{options.inputs}' lacks {', '.join(lacks)}\"",
        "                raise SystemExit(text)",
        "            numbered = enumerate(names)",
        '            inputs = [file[n if n in file else f"arg{i}"] for i, n in numbered]',
        *_checked(given),
        *_read(w, given),
        "    else:",
        f"        generator = {draws}(options.seed)",
        "        inputs = [draw(each[2], each[4], generator) for each in arguments]",
        "    shards = [",
        "        take(whole, grid, split, local)",
        "        for whole, (grid, split, _, local, _) in zip(inputs, arguments, strict=True)",
        "    ]",
        *([] if count else [f"    {call}"]),
        f"    outputs = {('()', f'({call},)', call)[min(count, 2)]}",
        *_last_waits(w),
        *_gather_and_write(w, written),
        "",
        "",
        'if __name__ == "__main__":',
        "    main()",
    ]


def _gather_and_write(w: Writer, written: str) -> list[str]:
    """The end of `main`: rank 0 puts the results together, and writes each as `written`."""
    torch_gathers = [
        "    outputs = [each.cpu() for each in outputs]",
        "    everyone = [None] * dist.get_world_size() if rank == 0 else None",
        "    dist.gather_object(outputs, everyone)",
    ]
    mpi_gathers = ["    everyone = MPI.COMM_WORLD.gather(outputs, root=0)"]
    return [
        *(torch_gathers if w.is_torch else mpi_gathers),
        "    if rank == 0:",
        "        wholes = []",
        "        for i, (grid, split, shape, _, _, ranks) in enumerate(results):",
        "            held = [each[i] for each in everyone]",
        "            if ranks is not None:",
        "                held = [each if r in ranks else None for r, each in enumerate(held)]",
        "            wholes.append(put(held, grid, shape, split))",
        "        if options.outputs:",
        f'            named = {{f"result{{i}}": {written} for i, x in enumerate(wholes)}}',
        "            np.savez(options.outputs, **named)",
        "        else:",
        "            for each in wholes:",
        "                print(each)",
        *(["    dist.destroy_process_group()"] if w.is_torch else []),
    ]


def _elements(function: ir.Operation, which: str) -> list[str]:
    """The element types of the arguments, or results."""
    types = getattr(function.attributes["function_type"].value, which)
    return [str(each.element_type) for each in types if isinstance(each, ir.ShapedType)]


_RAW = {"torch": ("bf16", "ui16", "ui32", "ui64"), "mpi4py": ("bf16",)}
"""The elements whose bytes go through files: numpy and the target have different types for them."""


def _read(w: Writer, elements: Sequence[str]) -> list[str]:
    """The lines that make tensors of a file's arrays."""
    is_raw = any(each in _RAW[w.target] for each in elements)
    if not is_raw:
        whole = "        inputs = [torch.from_numpy(each) for each in inputs]"
        return [whole] if w.is_torch else []
    how = w.pick("x.view(each[4])", "from_bytes(x, each[4])")
    return [
        "        pairs = zip(inputs, arguments, strict=True)",
        f"        inputs = [{how} for x, each in pairs]",
    ]


def _checked(elements: Sequence[str]) -> list[str]:
    """The lines that refuse arrays of other types and shapes, of which shards could be cut, too."""
    types = [np.dtype("V2" if each == "bf16" else numpy_name(each)) for each in elements]
    kinds = ", ".join(f'"{each.kind}{each.itemsize}"' for each in types)
    return [
        f"        kinds = [{kinds}]  # of elements, and their bytes",
        "        for name, x, each, kind in zip(names, inputs, arguments, kinds, strict=True):",
        '            found, shape = f"{x.dtype.kind}{x.dtype.itemsize}", list(x.shape)',
        "            if (found, shape) != (kind, each[2]):",
        '                text = f"{name} is {found} {shape}, expected {kind} {each[2]}"',
        "                raise SystemExit(f\"error: '{options.inputs}': {text}\")",
    ]


def _write(w: Writer, elements: Sequence[str]) -> str:
    """The expression for the array to write of the tensor `x`, the `i`th."""
    if not w.is_torch:
        return "x"
    is_raw = any(each in _RAW[w.target] for each in elements)
    return "to_bytes(x, stored[i])" if is_raw else "x.numpy()"


def _stored(elements: Sequence[str]) -> list[str]:
    """The types of arrays in files."""
    types = ["V2" if each == "bf16" else numpy_name(each) for each in elements]
    return [f'        "{each}",' for each in types]


def _last_waits(w: Writer) -> list[str]:
    """Wait for messages in transit, which end with their sender."""
    if not any(line.strip().startswith("send(") for line in w.lines):
        return []
    if w.is_torch:
        return ["    for work, _ in on_the_way:", "        work.wait()"]
    return ["    MPI.Request.Waitall(on_the_way)"]


def _listed(name: str, rows: Sequence[str]) -> list[str]:
    return [f"    {name} = [", *rows, "    ]"] if rows else [f"    {name} = []"]


def _shards(
    w: Writer,
    module: ir.Operation,
    function: ir.Operation,
    where: str,
    key: str,
    shardings: Shardings,
) -> tuple[int, list[str]]:
    """The number of rows, and a row with the shape and sharding of each argument or result."""
    type_ = function.attributes["function_type"].value
    types = type_.inputs if where == "arg_attrs" else type_.results
    sub_clusters, rows = sub_clusters_of(module), []
    for local, attributes in zip(types, boundary(function, where), strict=True):
        if not isinstance(local, ir.RankedTensorType) or not local.has_static_shape:
            raise error_at(
                function.location, f"a {local} is neither drawn nor written: a tensor is"
            )
        global_type = attributes[key].value if key in attributes else local
        sharding = shardings.of_type(global_type)
        if sharding is not None and (sharding.partial or sharding.halos or sharding.offsets):
            raise error_at(function.location, f"a tensor sharded as {sharding} has no Python")
        first = next(iter(w.grid_names.values()), "np.arange(1)")
        grid = w.grid_names[sharding.grid] if sharding else first
        split = (
            [list(each) for each in sharding.split_axes]
            if sharding
            else [[] for _ in global_type.shape]
        )
        dtype = w.dtype(local.element_type, function.location)
        row = f"{grid}, {split}, {list(global_type.shape)}, {list(local.shape)}, {dtype}"
        if where == "res_attrs":
            sub_cluster = sub_clusters[symbol(attributes[STAGE])] if STAGE in attributes else None
            held = sub_cluster and [
                r
                for r in range(w.grids[sub_cluster.of].size)
                if sub_cluster.holds(r, w.grids[sub_cluster.of])
            ]
            row += f", {held}"
        rows += folded(f"        ({row})", after=",")
    return len(types), rows


TARGETS: tuple[Target, ...] = ("mpi4py", "torch")
_GENERIC = (
    "builtin.module(func.func(tosa-optional-decompositions,tosa-to-scf,tosa-to-linalg-named,tosa-to-linalg,"
    "tosa-to-arith{include-apply-rescale=true},tosa-to-tensor,canonicalize{test-convergence=false},"
    "linalg-generalize-named-ops))"
)


@dataclass(frozen=True)
class EmittedFunctions:
    """A program in Python without its `main`, for a caller on devices that have joined."""

    imports: str
    start: str
    """It joins the other devices, and finds this one's `rank` and `device`."""
    body: str
    """The rest of the text: it creates groups and defines functions."""
    entry: str
    """The name of the function to call with shards."""


def emit_python(module: ir.Module, target: Target) -> str:
    """Return the program of a module as the text of a Python file. The module is consumed."""
    root = module.operation
    shardings, entry = _prepared(root, None, target)
    w = _written(root, target, shardings, entry)
    lines = [*w.lines, "", "", *main(w, root, entry, shardings)]
    imports, start, rest = _file(w, "\n".join(lines))
    text = "\n\n\n".join(each for each in (start, rest) if each)
    return "\n".join([*_head(w, entry, imports), "", imports, "", text]) + "\n"


def emit_functions(module: ir.Module, target: Target, entry: str) -> EmittedFunctions:
    """Return the program that starts at the function `entry`. The module is consumed."""
    root = module.operation
    shardings, function = _prepared(root, entry, target)
    w = _written(root, target, shardings, function)
    imports, start, body = _file(w, "\n".join(w.lines))
    return EmittedFunctions(imports, start, body + "\n", w.functions[entry])


def _prepared(
    root: ir.Operation, name: str | None, target: Target
) -> tuple[Shardings, ir.Operation]:
    """Simplify a module to ops that are written; return its shardings and its entry."""
    functions = functions_of(root)
    no_grid = declares_no_grid(root)  # then all forms are one
    for function in functions:
        if form_of(function) != "local" and not no_grid:
            raise refuse_form(function, ": the local form (--spmd) is written in Python")
        if name is not None:
            refuse_program_of_device(function, "in Python all devices run one")
    if not functions:
        raise ShardError("there is no function to write in Python")
    write_resources_in_place(root)
    branches_to_scf(root)
    fold_device_positions(root)
    fold_collective_operands(root)
    check_meetings(root)
    check_members(root)
    for op in list(walk(root)):
        if op.name == "shard.update_halo":
            one_by_one(op)
    try:
        decompose_where(root, lambda op: not elementwise.has_template(op, target == "torch"))
        expand_registered_ops(root, "python")
        refuse_custom_calls(root)
        expand_matmuls(walk(root))
        decompose_linalg(root)
        PassManager.parse(_GENERIC).run(root)
    except ir.MLIRError as error:
        raise from_mlir(error) from None
    return Shardings.of(root), find_function(root, choose_entry(root, name))


def _written(
    root: ir.Operation, target: Target, shardings: Shardings, entry: ir.Operation
) -> Writer:
    """Write all functions, the entry last."""
    w = Writer(target, shardings.grids, Names(helper_functions.names(target) | {"main"}))
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


def _function(w: Writer, function: ir.Operation) -> None:
    if len(list(function.regions[0].blocks)) != 1:
        raise error_at(
            function.location, "a function of several blocks cannot be written in Python"
        )
    outer, w.names, start = w.names, Names(w.names.used), len(w.lines)
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
    w.lines[start:start], w.bodies = [*(["", ""] if start and w.bodies else []), *w.bodies], []
    w.names = outer
    w.names.used.update(w.groups.values(), w.called)


def _block(w: Writer, block: ir.Block) -> ir.Operation:
    """Write all ops but the last, and return that."""
    *inside, last = operations(block)
    for op in inside:
        with located(op):  # an op of a body may have no place of its own
            _write_op(w, op)
    return last


def _write_op(w: Writer, op: ir.Operation) -> None:
    """Write an op; one without Python of its own as the ops of StableHLO that its record makes."""
    if op.name == hlo.CAST:
        conversions.between_scalars(w, op.results[0], op.operands[0])
        return
    if op.name in control_flow_ops.TABLE:
        control_flow_ops.TABLE[op.name](w, op, _block)
        return
    written, named = len(w.lines), set(w.names.used)
    try:
        (collective_calls.writes(op) or elementwise.write)(w, op)
    except ShardError:
        if op.name.startswith("stablehlo."):
            raise
        made = _as_stablehlo(op)
        if made is None:
            raise
        del w.lines[written:]
        w.names.used = named
        ops, values = made
        for each in ops:
            _write_op(w, each)
        for result, value in zip(op.results, values, strict=True):
            conversions.between_scalars(w, result, value)


def _as_stablehlo(op: ir.Operation) -> tuple[list[ir.Operation], list[ir.Value]] | None:
    """New ops in front of an op, and its results by them; `None` if StableHLO has none for it."""
    load_dialects_of("stablehlo.", op.context)
    first = operations(op.block).index(op)
    inside = walk(op)
    values = {each for user in inside for each in user.results}
    for block in (block for user in (op, *inside) for region in user.regions for block in region):
        values.update(block.arguments)
    with ir.InsertionPoint(op), op.location:
        try:
            for user in (op, *inside):
                for number, each in enumerate(list(user.operands)):
                    if each not in values:
                        user.operands[number] = hlo.as_type(each, hlo.tensor_type(each.type))
            made = as_stablehlo(op)
        except ShardError:
            return None
    ops = operations(op.block)
    return ops[first : ops.index(op)], made


def _devices(w: Writer) -> int:
    return max((grid.size for grid in w.grids.values()), default=1)


def _launch(w: Writer) -> str:
    count = _devices(w)
    return w.pick(f"mpiexec -n {count} python", f"torchrun --nproc-per-node={count}")


def _head(w: Writer, entry: ir.Operation, imports: str) -> list[str]:
    """The docstring of the file."""
    needs_scipy = ["LAPACK is scipy's: pip install scipy."] if "scipy" in imports else []
    devices = number_of(_devices(w), "device")
    return [
        f'"""{in_docstring(as_symbol(name_of(entry)))} on {devices}: what each of them does.',
        "",
        f"    {_launch(w)} FILE --inputs in.npz --outputs out.npz",
        "",
        "Inputs and outputs are global tensors; without --inputs random ones are drawn.",
        *needs_scipy,
        '"""',
    ]


def _ranks(grid: Grid) -> str:
    """The expression for the ranks of a grid's devices, by their positions."""
    devices = f"array({list(grid.device_ids)})" if grid.device_ids else f"arange({grid.size})"
    return f"np.{devices}" if grid.rank == 1 else f"np.{devices}.reshape({grid.shape})"


def _file(w: Writer, body: str) -> tuple[str, str, str]:
    """The imports, what joins the devices, and the rest: helpers, groups, functions in `body`."""
    used = helper_functions.needed(w.target, body + ("\njoin" if w.groups else ""))
    grids = [f"{w.grid_names[name]} = {_ranks(grid)}" for name, grid in w.grids.items()]
    start = [
        *helper_functions.start(w.target),
        f"if {w.pick('MPI.COMM_WORLD.Get_size()', 'dist.get_world_size()')} != {_devices(w)}:",
        f'    raise SystemExit("error: start {_devices(w)} ranks: {_launch(w)} FILE")',
    ]
    groups = [
        line
        for (grid, axes), name in w.groups.items()
        for line in folded(f"{name} = join({', '.join([w.grid_names[grid], *map(str, axes)])})")
    ]
    parts = ["\n".join(start), "\n".join(grids), *used, "\n".join(groups), body.strip("\n")]
    text = "\n\n\n".join(filter(None, parts[1:]))
    return helper_functions.imports(w.target, "\n".join(parts)), parts[0], text
