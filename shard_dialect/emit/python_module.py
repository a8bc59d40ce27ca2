"""Emit a module in the local form as a Python program.

%0 = linalg.matmul ins(%x, %w) ...            product = x @ w  # 4x16xf32
%1 = shard.all_reduce %0 on @g                all_reduce = all_reduce(product, along_1)
       grid_axes = [1]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from shard_dialect.emit import (
    collective_calls,
    control_flow_ops,
    elementwise,
    indexed_access,
    linalg_ops,
    shared_functions,
    sorting,
    stablehlo_ops,
    tensor_ops,
)
from shard_dialect.emit.python_text import Names, folded, in_docstring
from shard_dialect.emit.writer import Target, Writer, own_name
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import PassManager, ir
from shard_dialect.ir.diagnostics import error_at, from_mlir
from shard_dialect.ir.function import boundary, form_of, functions_of, name_of, refuse_form
from shard_dialect.ir.grids import sub_clusters_of
from shard_dialect.ir.mesh.attributes import ARGUMENT, RESULT, STAGE, symbol
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.shard.local_collectives import one_by_one
from shard_dialect.ir.walk import operations, walk

TARGETS: tuple[Target, ...] = ("mpi4py", "torch")
_GENERIC = (
    "builtin.module(func.func(tosa-optional-decompositions,tosa-to-linalg-named,tosa-to-linalg,"
    "tosa-to-arith{include-apply-rescale=true},tosa-to-tensor,canonicalize{test-convergence=false},"
    "linalg-generalize-named-ops))"
)
TABLE: Mapping[str, Callable[[Writer, ir.Operation], None]] = {
    **elementwise.TABLE,
    **linalg_ops.TABLE,
    **tensor_ops.TABLE,
    **stablehlo_ops.TABLE,
    **indexed_access.TABLE,
    **sorting.TABLE,
    **collective_calls.TABLE,
}


def emit_python(module: ir.Module, target: Target) -> str:
    """Return the program of a module as the text of a Python file. The module is consumed."""
    root = module.operation
    functions = functions_of(root)
    for function in functions:
        if form_of(function) != "local":
            raise refuse_form(function, ": --emit-python writes the local form (--spmd)")
    if not functions:
        raise ShardError("there is no function to write in Python")
    for op in list(walk(root)):
        if op.name == "shard.update_halo":
            one_by_one(op)
    try:
        PassManager.parse(_GENERIC).run(root)
    except ir.MLIRError as error:
        raise from_mlir(error) from None
    shardings = Shardings.of(root)
    entry = _entry(functions)
    w = Writer(target, shardings.grids, Names(shared_functions.names(target) | {"main"}))
    for name in w.grids:
        w.grid_names[name] = w.names.new(f"grid_{name}").upper() if len(w.grids) > 1 else "GRID"
    for function in functions:
        name = "program" if function == entry else name_of(function)
        w.functions[name_of(function)] = w.names.new(name)
    for function in sorted(functions, key=lambda each: each == entry):
        _function(w, function)
    lines = [*w.lines, "", "", *_main(w, root, entry, shardings)]
    return _file(w, entry, "\n".join(lines))


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
    with w.indented():
        last = _block(w, block)
        w.line(f"return {', '.join(w.uses(last))}".rstrip())
    w.names = outer
    w.names.used.update(w.groups.values())


def _block(w: Writer, block: ir.Block) -> ir.Operation:
    """Write all ops but the last, and return that."""
    *inside, last = operations(block)
    for op in inside:
        if op.name in control_flow_ops.TABLE:
            control_flow_ops.TABLE[op.name](w, op, _block)
        elif op.name in TABLE:
            TABLE[op.name](w, op)
        else:
            raise w.refuse(op)
    return last


def _main(w: Writer, module: ir.Operation, entry: ir.Operation, shardings: Shardings) -> list[str]:
    """The `main` of the file: it reads or draws inputs, runs the program, and writes results."""
    _, first = _shards(w, module, entry, "arg_attrs", ARGUMENT, shardings)
    count, second = _shards(w, module, entry, "res_attrs", RESULT, shardings)
    torch = w.is_torch
    call = f"{w.functions[name_of(entry)]}(*shards)"
    # numpy has no bf16: files hold its bytes instead.
    is_raw = any("torch.bfloat16" in row for row in (*first, *second))
    read, written = (
        ("from_bytes", "to_bytes(each)") if is_raw else ("torch.from_numpy", "each.numpy()")
    )
    written = written if torch else "each"
    lines = [
        "def main():",
        '    parser = argparse.ArgumentParser(description="Run on all ranks.")',
        '    parser.add_argument("--inputs", help="a .npz file of arg0, arg1, ...")',
        '    parser.add_argument("--outputs", help="a .npz file of result0, ... to write")',
        '    parser.add_argument("--seed", type=int, default=0, help="of random inputs")',
        "    options = parser.parse_args()",
        "    # Of each argument, and each result: the grid, the axes that split each dimension,",
        "    # the shape, the shape of a shard, and the type; of results who has them.",
        *_listed("arguments", first),
        *_listed("results", second),
        "    if options.inputs:",
        "        with np.load(options.inputs) as file:",
        '            inputs = [file[f"arg{i}"] for i in range(len(arguments))]',
        *([f"        inputs = [{read}(each) for each in inputs]"] if torch else []),
        "    else:",
        "        generator = "
        + (
            "torch.Generator().manual_seed(options.seed)"
            if torch
            else "np.random.default_rng(options.seed)"
        ),
        "        inputs = [draw(each[2], each[4], generator) for each in arguments]",
        "    shards = [",
        "        take(whole, grid, split, local)",
        "        for whole, (grid, split, _, local, _) in zip(inputs, arguments, strict=True)",
        "    ]",
        *{0: [f"    {call}", "    outputs = ()"], 1: [f"    outputs = ({call},)"]}.get(
            count, [f"    outputs = {call}"]
        ),
    ]
    lines += _last_waits(w)
    if torch:
        lines += [
            "    outputs = [each.cpu() for each in outputs]",
            "    everyone = [None] * dist.get_world_size() if rank == 0 else None",
            "    dist.gather_object(outputs, everyone)",
        ]
    else:
        lines += ["    everyone = MPI.COMM_WORLD.gather(outputs, root=0)"]
    lines += [
        "    if rank == 0:",
        "        wholes = []",
        "        for i, (grid, split, shape, _, _, ranks) in enumerate(results):",
        "            held = [each[i] for each in everyone]",
        "            if ranks is not None:",
        "                held = [each if r in ranks else None for r, each in enumerate(held)]",
        "            wholes.append(put(held, grid, shape, split))",
        "        if options.outputs:",
        f'            named = {{f"result{{i}}": {written} for i, each in enumerate(wholes)}}',
        "            np.savez(options.outputs, **named)",
        "        else:",
        "            for each in wholes:",
        "                print(each)",
    ]
    lines += ["    dist.destroy_process_group()"] if torch else []
    return [*lines, "", "", 'if __name__ == "__main__":', "    main()"]


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
        grid = (
            w.grid_names[sharding.grid] if sharding else next(iter(w.grid_names.values()), "(1,)")
        )
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


def _file(w: Writer, entry: ir.Operation, body: str) -> str:
    count = max((grid.size for grid in w.grids.values()), default=1)
    launch = {
        "mpi4py": f"mpiexec -n {count} python",
        "torch": f"torchrun --nproc-per-node={count}",
    }[w.target]
    head = [
        f'"""@{in_docstring(name_of(entry))} on {count} devices: what each of them does.',
        "",
        f"    {launch} FILE --inputs in.npz --outputs out.npz",
        "",
        "Inputs and outputs are global tensors; without --inputs random ones are drawn.",
        '"""',
    ]
    used = shared_functions.needed(w.target, body + ("\njoin(" if w.groups else ""))
    grids = [f"{w.grid_names[name]} = {tuple(grid.shape)}" for name, grid in w.grids.items()]
    start = [
        *shared_functions.start(w.target),
        f"if {w.pick('MPI.COMM_WORLD.Get_size()', 'dist.get_world_size()')} != {count}:",
        f'    raise SystemExit("error: start {count} ranks: {launch} FILE")',
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
    return "\n".join([*head, "", shared_functions.imports(w.target, text), "", text]) + "\n"
