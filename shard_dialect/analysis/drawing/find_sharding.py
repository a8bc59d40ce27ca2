"""The sharding of a value by its name, once it is propagated."""

from __future__ import annotations

from fnmatch import fnmatchcase

from shard_dialect.analysis.drawing.drawn_sharding import DrawnSharding
from shard_dialect.analysis.drawing.named_shardings import named_shardings
from shard_dialect.analysis.reasons.explained_passes import imported
from shard_dialect.codegen.lowered_program import choose_entry
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
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
    found = [
        DrawnSharding(each.name, each.shape, each.sharding, each.grid)
        for each in named_shardings(copy.operation, name, text)
        if any(fnmatchcase(own, pattern) for own in each.names)
    ]
    if not found:
        raise ShardError(
            f"there is no value '{pattern}' with a sharding in @{name}: give the name of an "
            "argument or result, or that of a value as --propagate prints it, as in %3"
        )
    return found
