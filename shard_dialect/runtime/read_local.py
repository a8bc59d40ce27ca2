"""Read a program in the local form: its boundary, and its collectives.

`codegen.lowered_program` reads the same of the lowered form.
"""

from __future__ import annotations

from collections.abc import Mapping

from shard_dialect.codegen.array_types import TensorType, dtype_of
from shard_dialect.codegen.lowered_program import (
    Boundary,
    Program,
    Site,
    find_function,
    read_boundary,
)
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import boundary, functions_of, name_of
from shard_dialect.ir.grids import sub_clusters_of
from shard_dialect.ir.mesh.attributes import ARGUMENT, RESULT
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.reading.loop_trips import runs_in
from shard_dialect.ir.shard.local_collectives import one_by_one, read_local


def read_local_program(module: ir.Operation, entry: str) -> Program:
    """Read the function `entry`. Raises `ShardError` for what cannot be run.

    Updates of several halos in one op are replaced by one op for each.
    """
    shardings = Shardings.of(module)
    function = find_function(module, entry)
    functions = {name_of(op): op for op in functions_of(module)}
    type_ = function.attributes["function_type"].value
    stages = sub_clusters_of(module)

    def read(key: str, types: list[ir.Type], name: str) -> list[Boundary]:
        entries = boundary(function, key)
        return [
            read_boundary(function, each, attributes, name, shardings, stages)
            for each, attributes in zip(types, entries, strict=True)
        ]

    return Program(
        entry,
        shardings.grids,
        read("arg_attrs", type_.inputs, ARGUMENT),
        read("res_attrs", type_.results, RESULT),
        sites={},
        ranks={},
        handles=(),
        calls=_calls(functions, entry, shardings, {}),
    )


def _calls(
    functions: Mapping[str, ir.Operation],
    entry: str,
    shardings: Shardings,
    known: dict[str, list[Site]],
) -> list[Site]:
    """The collectives of `entry` in the order of the text, also through callees."""
    calls: list[Site] = []
    for runs in list(runs_in(functions[entry])):
        op = runs.op
        with located(op):
            if op.name == "func.call":
                callee = op.attributes["callee"].value
                if callee not in functions:
                    raise ShardError(f"cannot run @{callee}: it is only declared")
                if callee not in known:
                    known[callee] = _calls(functions, callee, shardings, known)
                calls += [site.run(runs) for site in known[callee]]
            elif op.name.startswith(("shard.", "mesh.")):
                sites = [_site(each, shardings) for each in one_by_one(op)]
                calls += [site.run(runs) for site in sites if site is not None]
    return calls


def _site(op: ir.Operation, shardings: Shardings) -> Site | None:
    read = read_local(op.name, {name: op.attributes[name] for name in op.attributes})
    if read is None:
        return None
    types = [op.operands[0].type, op.results[0].type]
    if any(not isinstance(each, ir.RankedTensorType) for each in types):
        raise error_at(
            op.location,
            f"'{op.name}' op on a {types[0]} cannot be run: only tensors are in the local form",
        )
    source, target = (TensorType(tuple(each.shape), dtype_of(each.element_type)) for each in types)
    return Site(read[1], shardings.grid(read[0]), source, target, str(source), str(target))
