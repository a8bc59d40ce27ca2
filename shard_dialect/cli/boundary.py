"""What a program that others wrote for devices is given and gives back, as a user says it.

    shard-prove in.mlir local.mlir --boundary='x=[[data]]' --boundary='result0=[[data], [model]]'

A module of ours says in `mesh.argument` and `mesh.result` which global tensors its shards are of.
One that was written by hand, or by another compiler, has the local types alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.abi.lowered_program import choose_entry, find_function
from shard_dialect.analysis.changes.name_patterns import called
from shard_dialect.analysis.changes.what_if_question import read_each
from shard_dialect.errors import ShardError, of_option
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import name_in
from shard_dialect.ir.function import boundary, set_boundary
from shard_dialect.ir.mesh.attributes import ARGUMENT, RESULT
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.verify import verify
from shard_dialect.model import Sharding
from shard_dialect.model.annotation import sharding_on


def declare_boundary(
    local: ir.Module, unsharded: ir.Module, entry: str | None, texts: Sequence[str]
) -> None:
    """Write to @`entry` of `local` the global types, with the shardings of `NAME=SHARDING` texts.

    Names are those of arguments in either module, `arg0`, or `result0`; what is not named is whole
    on each device. Raises `ShardError` for a name that nothing has, for a sharding whose shards are
    not what `local` has, and where it has no grid or several.
    """
    functions = [
        find_function(each, choose_entry(each, entry))
        for each in (local.operation, unsharded.operation)
    ]
    shardings = Shardings.of(local.operation)
    if len(shardings.grids) != 1:
        raise ShardError(
            f"--boundary: LOCAL declares {len(shardings.grids)} grids, and what it is given is "
            "split along the axes of one: declare that alone, as in shard.grid @g(shape = 2x4)"
        )
    (grid,) = shardings.grids.values()
    names, types = _boundary_of(*functions)
    given = [Sharding.replicated(grid.name, each.rank) for each in types]
    for text, question in read_each(texts, "boundary"):
        with of_option(f"--boundary={text}"):
            found = called(question.pattern, enumerate(names))
            if not found:
                known = ", ".join(each[-1] for each in names)
                raise ShardError(f"nothing is called '{question.pattern}'; there are {known}")
            for number in found:
                given[number] = sharding_on(grid, question.split_axes, types[number].rank)
    typed = [
        ir.TypeAttr.get(shardings.typed(each, sharding))
        for each, sharding in zip(types, given, strict=True)
    ]
    for key, name in (("arg_attrs", ARGUMENT), ("res_attrs", RESULT)):
        entries = boundary(functions[0], key)
        for each, type_ in zip(entries, typed, strict=False):
            each[name] = type_
        set_boundary(functions[0], key, entries)
        typed = typed[len(entries) :]
    verify(local.operation)


def _boundary_of(
    local: ir.Operation, unsharded: ir.Operation
) -> tuple[list[tuple[str, ...]], list[ir.Type]]:
    """The names of each argument and result, and the global types."""
    signatures = [each.attributes["function_type"].value for each in (local, unsharded)]
    counts = [(len(each.inputs), len(each.results)) for each in signatures]
    if counts[0] != counts[1]:
        raise ShardError(
            "--boundary: LOCAL has {} arguments and {} results, and GLOBAL {} and {}".format(
                *counts[0], *counts[1]
            )
        )
    blocks = [each.regions[0].blocks[0] for each in (local, unsharded)]
    names: list[tuple[str, ...]] = []
    for number, pair in enumerate(zip(*(each.arguments for each in blocks), strict=True)):
        own = [name for each in pair if (name := name_in(each.location))]
        names.append((f"arg{number}", *own))
    names += [(f"result{number}",) for number in range(counts[1][1])]
    return names, [*signatures[1].inputs, *signatures[1].results]
