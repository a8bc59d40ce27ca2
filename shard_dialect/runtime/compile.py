"""From a source in any form to executables: the sharded program, and the unsharded one."""

from __future__ import annotations

from shard_dialect.errors import ShardError
from shard_dialect.ir.program import form_of, functions_of
from shard_dialect.ir.source import Source
from shard_dialect.passes.pipeline import run_pipeline
from shard_dialect.runtime.executable import Executable, choose_entry


def compile_sharded(source: Source, entry: str | None = None) -> tuple[Executable, str]:
    """The program that each device runs, from whatever form it is in; and its entry's name."""
    try:
        module = source.parse()
        name = choose_entry(module.operation, entry)
        forms = {form_of(op) for op in functions_of(module.operation)}
        if forms != {"lowered"}:
            run_pipeline(module, "spmd,lower")
        return Executable(module, name), name
    except ShardError as error:
        raise source.restore(error) from None


def compile_reference(source: Source, entry: str) -> Executable:
    """The unsharded program, by none of the passes that shard."""
    try:
        module = source.parse()
        choose_entry(module.operation, entry)
        run_pipeline(module, "erase-sharding,lower")
        return Executable(module, entry)
    except ShardError as error:
        if error.message.endswith("the unsharded program"):
            error = ShardError(f"{error.message}: name it with --reference", error.location)
        raise source.restore(error) from None
