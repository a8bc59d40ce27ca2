"""Read a program in the local form: its boundary, and its collectives.

`abi.lowered_program` reads the same of the lowered form.

`keep_reached` and `keep_connected` drop the functions that do not concern the one that is run:

    @main calls @layer                    reached from @main: @main and @layer
    @train calls @main and @loss          connected with it: @train and @loss, too
    @other                                neither
"""

from __future__ import annotations

from collections.abc import Mapping

from shard_dialect.abi.lowered_program import (
    Boundary,
    Program,
    Site,
    calls_in,
    find_function,
    read_boundary,
    tensor_type,
)
from shard_dialect.collectives.collective_table import DISTRIBUTED
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import boundary, functions_of, name_of, symbols_in
from shard_dialect.ir.grids import sub_clusters_of
from shard_dialect.ir.mesh.attributes import ARGUMENT, RESULT
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.shard.local_collectives import one_by_one, read_local
from shard_dialect.ir.walk import body
from shard_dialect.model.reached import reached
from shard_dialect.passes.lower.mpi.mpi_code import BIND


def read_local_program(
    module: ir.Operation, entry: str, *, partial_results: bool = False
) -> Program:
    """Read the function `entry`. Raises `ShardError` for what cannot be run.

    Of partial results there are no global arrays, so that they are refused unless allowed.
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
            read_boundary(
                function,
                each,
                attributes,
                name,
                shardings,
                stages,
                may_be_partial=partial_results and name == RESULT,
            )
            for each, attributes in zip(types, entries, strict=True)
        ]

    def sites_of(op: ir.Operation) -> list[Site] | None:
        if op.name == "func.call":
            return None
        parts = one_by_one(op) if op.name.startswith(("shard.", "mesh.")) else ()
        return [site for each in parts if (site := _site(each, shardings)) is not None]

    return Program(
        entry,
        shardings.grids,
        [
            each.named_at(argument)
            for each, argument in zip(
                read("arg_attrs", type_.inputs, ARGUMENT), body(function).arguments, strict=True
            )
        ],
        read("res_attrs", type_.results, RESULT),
        sites={},
        ranks={},
        handles=(),
        calls=calls_in(functions, entry, sites_of),
    )


def _site(op: ir.Operation, shardings: Shardings) -> Site | None:
    read = read_local(op.name, op.attributes)
    if read is None:
        return None
    types = [op.operands[0].type, op.results[0].type]
    if any(not isinstance(each, ir.RankedTensorType) for each in types):
        raise error_at(
            op.location,
            f"'{op.name}' op on a {types[0]} cannot be run: only tensors are in the local form",
        )
    source, target = map(tensor_type, types)
    return Site(read[1], shardings.grid(read[0]), source, target, str(source), str(target))


def read_collective(op: ir.Operation) -> Site | None:
    """The collective that an op of the local form is; `None` for any other op.

    Raises a located `ShardError` for a collective without a meaning, and for one of the distributed
    form, since what it sends is decided later.
    """
    module = op.operation
    while module.parent is not None:
        module = module.parent
    with located(op):
        site = _site(op.operation, Shardings.of(module))
    if site is None and op.operation.name in DISTRIBUTED:
        raise error_at(
            op.location,
            f"'{op.operation.name}' op is of the distributed form: what it sends is read in the "
            "local form, which --partition makes",
        )
    return site


_Named = Mapping[str, set[str]]


def keep_reached(module: ir.Operation, entry: str) -> None:
    """Drop the functions that `entry` does not call, directly or not."""
    named = _named(module)
    _keep(module, set(reached([entry], named.__getitem__)))


def keep_connected(module: ir.Operation, entry: str) -> None:
    """Drop the functions that neither `entry` calls, nor its callers, directly or not.

    Shardings in callers may propagate to `entry`.
    """
    named = _named(module)
    callers: dict[str, set[str]] = {name: set() for name in named}
    for name, others in named.items():
        for other in others:
            callers[other].add(name)
    _keep(module, set(reached(reached([entry], callers.__getitem__), named.__getitem__)))


def _named(module: ir.Operation) -> _Named:
    """For each function with a body, the other functions that it refers to."""
    functions = {name_of(op): op for op in functions_of(module)}
    return {name: symbols_in(op) & functions.keys() for name, op in functions.items()}


def _keep(module: ir.Operation, names: set[str]) -> None:
    for op in functions_of(module):
        if name_of(op) not in names and name_of(op) != BIND:
            op.erase()
