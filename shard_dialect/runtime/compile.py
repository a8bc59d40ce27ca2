"""Compile a source in any form to executables: the sharded program, and the unsharded one."""

from __future__ import annotations

from shard_dialect.abi.lowered_program import choose_entry
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.checking.reference import Judge, Reference, judged_by
from shard_dialect.runtime.communicators.world import Runnable, World
from shard_dialect.runtime.dynamic_sizes import Sizes
from shard_dialect.runtime.executable import Executable
from shard_dialect.runtime.local_programs import keep_connected, keep_reached
from shard_dialect.runtime.program_cache import Cache

NO_SIZES = Sizes()
"""The sizes for programs that leave none open."""
_BUNDLE = 1 << 20
"""The bytes that are gathered or scattered at once: copies cost less than ranks that wait."""


def parsed(source: Source, entry: str | None, sizes: Sizes) -> tuple[ir.Module, str]:
    """Parse the functions related to the function to run, with all sizes given; and its name."""
    module = source.parse()
    name = choose_entry(module.operation, entry)
    keep_connected(module.operation, name)
    sizes.apply_to(module, name)
    return module, name


def local_program(source: Source, entry: str | None, sizes: Sizes) -> tuple[ir.Module, str]:
    """The functions that are reached from the function to run, in the local form; and its name."""
    module, name = parsed(source, entry, sizes)
    sizes.refuse_more(module.operation)
    run_pipeline(module, "spmd")
    keep_reached(module.operation, name)
    return module, name


def compile_sharded(
    source: Source,
    entry: str | None = None,
    cache: Cache | None = None,
    *,
    sizes: Sizes = NO_SIZES,
    native_mpi: bool = False,
    in_ranks: bool = False,
) -> Executable:
    """Compile the program that each device runs, from any form, for certain sizes.

    With `native_mpi` its collectives are calls of MPI; else the runtime executes them. Devices in
    one process see at which collective each is; `in_ranks` they ask each other.
    """
    lower = "lower{target=mpi}" if native_mpi else "lower"
    if in_ranks or native_mpi:
        lower = f"check-meetings,{lower}"
    if in_ranks:
        lower = f"bundle-collectives{{gathers=true bytes={_BUNDLE}}},{lower}"

    def compile_it() -> Executable:
        with source.file_locations():
            module, name = local_program(source, entry, sizes)
            run_pipeline(module, lower)
            executable = Executable(module, name)
            if executable.program.handles and not native_mpi:
                raise ShardError("the program was lowered for MPI: run it with --backend=mpi")
            return executable

    if cache is None:
        return compile_it()
    return cache.executable(
        ["sharded", lower, *_cache_key_parts(source, sizes), entry or ""], compile_it
    )


def compile_by(
    world: type[World], source: Source, entry: str | None = None, *, sizes: Sizes = NO_SIZES
) -> Runnable:
    """Compile the local form as `world` does: for XLA, torch, or a backend of a user's.

    The source is in any form but the lowered one.
    """
    with source.file_locations():
        return world.compile_local(*local_program(source, entry, sizes))


def compile_reference(
    source: Source, entry: str, *, sizes: Sizes = NO_SIZES, by: Judge | None = None
) -> Reference:
    """Compile the unsharded program, without the passes that shard, for the judge `by`."""
    with source.file_locations():
        module, _ = parsed(source, entry, sizes)
        keep_reached(module.operation, entry)
        run_pipeline(module, "import,expand-top-k,erase-sharding")
        return judged_by(module.operation, entry, by)


def _cache_key_parts(source: Source, sizes: Sizes) -> tuple[str | bytes, ...]:
    """Everything of a program on which its compilation, or a diagnostic, depends."""
    changes, key = repr(source.changes), sizes.key(source.text)
    return source.name, source.text, source.file_text or "", changes, key
