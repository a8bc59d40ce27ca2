"""From a source in any form to executables: the sharded program, and the unsharded one."""

from __future__ import annotations

from shard_dialect.ir.source import Source
from shard_dialect.passes.pipeline import run_pipeline
from shard_dialect.runtime.executable import Executable
from shard_dialect.runtime.lowered import choose_entry
from shard_dialect.runtime.reached import keep_connected, keep_reached


def compile_sharded(
    source: Source, entry: str | None = None, *, native_mpi: bool = False
) -> Executable:
    """The program that each device runs, from whatever form it is in.

    With `native_mpi` its collectives are calls of MPI, else of whoever runs it.
    """
    with source.places():
        module = source.parse()
        name = choose_entry(module.operation, entry)
        keep_connected(module.operation, name)
        run_pipeline(module, "spmd")
        keep_reached(module.operation, name)
        run_pipeline(module, "lower{target=mpi}" if native_mpi else "lower")
        return Executable(module, name)


def compile_reference(source: Source, entry: str) -> Executable:
    """The unsharded program, by none of the passes that shard."""
    with source.places():
        module = source.parse()
        choose_entry(module.operation, entry)
        keep_reached(module.operation, entry)
        run_pipeline(module, "import,erase-sharding,lower")
        return Executable(module, entry)
