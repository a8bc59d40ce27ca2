"""The `main` of an emitted file: reads or draws inputs, runs the program, and writes results."""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.emit.element_types import numpy_name
from shard_dialect.emit.python_text import folded
from shard_dialect.emit.writer import Writer
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.function import boundary, name_of
from shard_dialect.ir.grids import sub_clusters_of
from shard_dialect.ir.mesh.attributes import ARGUMENT, RESULT, STAGE, symbol
from shard_dialect.ir.mesh.sharding_attributes import Shardings


def main(w: Writer, module: ir.Operation, entry: ir.Operation, shardings: Shardings) -> list[str]:
    """The `main` of the file: it reads or draws inputs, runs the program, and writes results."""
    _, first = _shards(w, module, entry, "arg_attrs", ARGUMENT, shardings)
    count, second = _shards(w, module, entry, "res_attrs", RESULT, shardings)
    torch = w.is_torch
    call = f"{w.functions[name_of(entry)]}(*shards)"
    given, made = (_elements(entry, which) for which in ("inputs", "results"))
    read, written = _read(w, given), _write(w, made)
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
        *(_listed("stored", _stored(made)) if "stored" in written else []),
        "    if options.inputs:",
        "        with np.load(options.inputs) as file:",
        '            inputs = [file[f"arg{i}"] for i in range(len(arguments))]',
        *read,
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
        f'            named = {{f"result{{i}}": {written} for i, x in enumerate(wholes)}}',
        "            np.savez(options.outputs, **named)",
        "        else:",
        "            for each in wholes:",
        "                print(each)",
    ]
    lines += ["    dist.destroy_process_group()"] if torch else []
    return [*lines, "", "", 'if __name__ == "__main__":', "    main()"]


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
