"""The tensors of a function in the distributed form: their types say how they are sharded."""

from __future__ import annotations

from collections.abc import Iterator

from shard_dialect.analysis.changes.annotations import annotations_in
from shard_dialect.analysis.changes.what_if import names_of
from shard_dialect.analysis.drawing.named_shardings import NamedSharding
from shard_dialect.analysis.reasons.function_values import FunctionValues
from shard_dialect.analysis.reasons.split_trace import SplitTrace
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.read_function import read_functions


def typed_shardings(
    module: ir.Operation, entry: str, text: str | None = None
) -> Iterator[NamedSharding]:
    """The arguments, then the results of ops, each with the way back to an argument's type.

    `text` is that of the user's file, in which arguments have names.
    """
    handle = next(op for op in functions_of(module) if name_of(op) == entry)
    (function,) = read_functions([handle])
    shardings, state = Shardings.of(module), ir.AsmState(handle)
    values = FunctionValues(function, shardings, None)
    arguments = {
        each.site.number: names_of(each, text)
        for each in annotations_in(module)
        if (each.site.kind, each.site.function) == ("argument", entry)
    }
    for number, value in enumerate(function.values):
        sharding = values.sharding(number)
        if sharding is None or value.shape is None:
            continue
        names: tuple[str, ...] = (value.handle.get_name(state),)
        owner = value.handle.owner
        if number in function.arguments:
            names += arguments.get(function.arguments.index(number), ())
        placed = value.handle if isinstance(owner, ir.Block) else owner
        yield NamedSharding(
            names,
            tuple(value.shape),
            sharding,
            shardings.grid(sharding.grid),
            location_text(placed.location),
            given_steps=tuple(SplitTrace(values).steps(number, sharding.axes)),
        )
