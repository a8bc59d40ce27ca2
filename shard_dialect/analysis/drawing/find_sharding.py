"""The sharding of a value by its name, once it is propagated."""

from __future__ import annotations

from fnmatch import fnmatchcase

from shard_dialect.analysis.changes.annotations import annotations_in
from shard_dialect.analysis.changes.what_if import names_of
from shard_dialect.analysis.drawing.drawn_sharding import DrawnSharding
from shard_dialect.analysis.reasons.explained_passes import imported
from shard_dialect.codegen.lowered_program import choose_entry
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.walk import walk
from shard_dialect.passes.framework.pipeline import run_pipeline


def drawn(
    module: ir.Module, pattern: str, entry: str | None = None, text: str | None = None
) -> list[DrawnSharding]:
    """The shardings of the arguments, results and ops of a function whose name matches.

    The name is that of the argument or result, as for `what_if`, or `%3` as `--propagate` prints
    it. The module, in the annotated or propagated form, is not changed. Raises `ShardError` if
    nothing has the name.
    """
    name = choose_entry(module.operation, entry)
    copy = imported(module.operation.get_asm(enable_debug_info=True))
    run_pipeline(copy, "propagate")
    shardings = Shardings.of(copy.operation)
    found = [
        DrawnSharding(names[-1], each.shape, sharding, shardings.grid(sharding.grid))
        for each in annotations_in(copy.operation)
        if each.site.function == name and each.annotation is not None
        for names in [names_of(each, text)]
        for sharding in [each.annotation.sharding]
        if any(fnmatchcase(own, pattern) for own in names)
    ]
    found += _of_ops(copy.operation, name, pattern, shardings) if pattern[:1] == "%" else []
    if not found:
        raise ShardError(
            f"there is no value '{pattern}' with a sharding in @{name}: give the name of an "
            "argument or result, or that of a value as --propagate prints it, as in %3"
        )
    return found


def _of_ops(
    module: ir.Operation, entry: str, pattern: str, shardings: Shardings
) -> list[DrawnSharding]:
    state = ir.AsmState(module)
    function = next(op for op in functions_of(module) if name_of(op) == entry)
    found = []
    for op in walk(function):
        by_result = shardings.of_results(op) if len(op.results) else {}
        for number, annotation in by_result.items():
            name = op.results[number].get_name(state)
            if fnmatchcase(name, pattern):
                sharding = annotation.sharding
                shape = tuple(op.results[number].type.shape)
                grid = shardings.grid(sharding.grid)
                found.append(DrawnSharding(name, shape, sharding, grid))
    return found
