"""The package as a library: the names of `import shard_dialect`, imported on first use."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, overload
from weakref import WeakKeyDictionary

from shard_dialect import plugins
from shard_dialect.abi.lowered_program import Boundary, Program, Site, choose_entry, find_function
from shard_dialect.analysis import explained
from shard_dialect.analysis.changes import comparison
from shard_dialect.analysis.changes.comparison import Comparison
from shard_dialect.analysis.changes.removals import SECONDS
from shard_dialect.analysis.drawing import DrawnSharding
from shard_dialect.analysis.explained import drawn
from shard_dialect.analysis.page import report_page
from shard_dialect.analysis.program_costs import Costs
from shard_dialect.analysis.program_report import (
    DEVICE_MODEL,
    Allocator,
    ProgramReport,
    report_on,
)
from shard_dialect.errors import Diagnostic, ShardError, ShardWarning, as_symbol, listed
from shard_dialect.ir import context as contexts
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.annotate_values import annotate
from shard_dialect.ir.context import register_dialect
from shard_dialect.ir.diagnostics import error_at, listening, note_at, warn, with_file_names
from shard_dialect.ir.foreign_modules import make_context_ready, make_ready, require_module
from shard_dialect.ir.function import form_of
from shard_dialect.ir.mesh.value_shardings import sharding_of
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.sdy.sdy_spelling import without_second_regions
from shard_dialect.model import Grid, Sharding, ShardingRule
from shard_dialect.model.devices.device_model import (
    DeviceModel,
    Efficiency,
    NetworkLevel,
    register_device_model,
)
from shard_dialect.ops import Query, sharding_rule
from shard_dialect.ops.op_table import has_records_of_users
from shard_dialect.ops.operations import LocalOp
from shard_dialect.ops.partitioned_op import PartitionedOp
from shard_dialect.passes.framework import pipeline as pipelines
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.framework.instruments import Instruments
from shard_dialect.passes.framework.pass_table import register_pass
from shard_dialect.passes.framework.pipeline import Steps, built_in
from shard_dialect.passes.partition.one_device import mark_local
from shard_dialect.planner.plan_reshard import plan_reshard
from shard_dialect.proof.prove import Proof
from shard_dialect.runtime.array_files import join_shards
from shard_dialect.runtime.checking.reference import CannotJudge, register_judge
from shard_dialect.runtime.communication_report import Report
from shard_dialect.runtime.communicators.registered_devices import LocalExecutor, register_backend
from shard_dialect.runtime.compiled_program import Backend, CompiledProgram
from shard_dialect.runtime.confirmed_proof import (
    Unsharded,
    at_own_places,
    confirmed_proof,
    confirmed_proof_of_python,
)
from shard_dialect.runtime.local_programs import read_collective, read_local_program
from shard_dialect.runtime.program_cache import Cache
from shard_dialect.runtime.shards_of_arrays import gather, scatter
from shard_dialect.search import auto as searching
from shard_dialect.search import mutations as mutating
from shard_dialect.search.auto import (
    AUTO,
    AutoOptions,
    AutoResult,
    register_objective,
    size_in_bytes,
)
from shard_dialect.search.evaluate import Objective
from shard_dialect.search.mutations import Mutation

# Where the text of a module came from, for as long as the module lives.
_sources: WeakKeyDictionary[ir.Module, Source] = WeakKeyDictionary()


def make_context(allow_unregistered: bool = False) -> ir.Context:
    """Return a context with all dialects: upstream's, ours, and those of installed plugins."""
    plugins.load()
    return contexts.make_shared_context(allow_unregistered)


def parse(source: str | Path, context: ir.Context | None = None) -> ir.Module:
    """Return the module in a text, or in the file at a `Path`; in a new context if none is given.

    Raises `ShardError` for a syntax or verification error, with its line and column.
    """
    given: object = source
    if not isinstance(given, str | Path):
        cls = type(given)
        raise ShardError(
            f"sd.parse takes a text or a pathlib.Path, not a {cls.__module__}.{cls.__qualname__}"
        )
    if isinstance(source, str) and "\n" not in source and _names_file(source):
        raise ShardError(f"'{source}' is read as the module's text; for a file give a pathlib.Path")
    read = Source.read(str(source)) if isinstance(source, Path) else Source.of(source)
    if context is None:
        context = make_context()
    else:
        make_context_ready(context)
    with context:
        module = read.parse()
    _sources[module] = read
    return module


def _names_file(text: str) -> bool:
    try:
        return text.endswith(".mlir") or Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or with a zero byte
        return False


def run_pipeline(
    module: ir.Module,
    pipeline: Steps,
    instruments: Instruments | None = None,
) -> ir.Module:
    """Run passes on `module`, in place: a text as for `--pass-pipeline`, a pass, or a list.

    It returns the module, which is a new one for what JAX has lowered. A pass runs others so: on
    the module, or on the function, that it is given.

    The module may be of any context, which is single-threaded then and has the `mesh` dialect.
    Raises `ShardError` for unknown passes and options, and for a module that a pass refuses.
    """
    module = _ready(module)
    with _file_locations(module):
        pipelines.run_pipeline(module, pipeline, instruments)
    return module


def to_text(module: ir.Module, generic: bool = False, locations: bool = False) -> str:
    """Return the module as text that `parse` reads."""
    module = _read(module)
    with _file_locations(module):
        text = module.operation.get_asm(print_generic_op_form=generic, enable_debug_info=locations)
        return without_second_regions(with_file_names(text))


def communication(module: ir.Module, entry: str | None = None) -> Report:
    """Return a report of what the function `entry` communicates, once it is sharded.

    `module` may be in any form, or what upstream's `shard-partition` made, and is not changed.
    `entry` may be left out if there is only one function, or a `main`. Raises `ShardError` where
    `run` would.
    """
    module = _ready(module)
    with module.context, _file_locations(module):
        copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=True))
        name = choose_entry(copy.operation, entry)
        mark_local(copy.operation)
        pipelines.run_pipeline(copy, "spmd,lower")
        return Report.of(Program.read(copy.operation, name).calls)


def report(
    module: ir.Module,
    entry: str | None = None,
    *,
    suggest: bool = False,
    suggest_seconds: float | None = None,
    device_model: str | DeviceModel = DEVICE_MODEL,
    allocator: Allocator = "unfused",
    measured: str | Path | None = None,
    prove: bool = False,
) -> ProgramReport:
    """Return what the function `entry` costs each device, and why, as plain data.

    `module` may be in any form, and is not changed. `entry` is as for `communication`. With
    `suggest`, the report has for each collective the change of one annotation that removes it;
    the passes run once for each change that is tried, for up to `suggest_seconds`, of which there
    are 30. `device_model` names what prices communication, or a file (docs/device-models.md).
    `allocator` is how memory is counted: each op's result by itself, the `arena` of our own code,
    or as `xla` fuses ops. `measured` is a trace that `shard-run --profile` wrote. With `prove` the
    report has a `proof`, as `sd.prove` gives it. Raises `ShardError` where `run` would.
    """
    if suggest_seconds is not None and not suggest:
        raise ShardError("suggest_seconds is of no use here: it is for suggest=True")
    module = _ready(module)
    with module.context, _file_locations(module), listening() as heard:
        copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=True))
        unsharded = Unsharded.of(copy, entry) if prove else None
        found = report_on(
            copy,
            entry,
            suggest=suggest,
            suggest_seconds=SECONDS if suggest_seconds is None else suggest_seconds,
            device_model=device_model,
            allocator=allocator,
            measured=None if measured is None else str(measured),
            file_text=_file_text(module),
        )
        proof = confirmed_proof(unsharded, copy, found.entry) if unsharded else None
        return replace(found, proof=proof, diagnostics=tuple(heard))


def what_if(
    module: ir.Module,
    *questions: str,
    entry: str | None = None,
    device_model: str | DeviceModel = DEVICE_MODEL,
    allocator: Allocator = "unfused",
) -> Comparison:
    """Return what other shardings would change: `sd.what_if(module, "w1=[[], [model]]")`.

    Names are those of `shard-report --what-if`. The module is not changed. Raises `ShardError` for
    a question that names a value or an axis that the module does not have.
    """
    module = _ready(module)
    with module.context, _file_locations(module):
        return comparison.what_if(
            module, questions, entry, device_model=device_model, allocator=allocator
        )


def explain(report: ProgramReport | ir.Module, what: str) -> str:
    """Explain a tensor by its name, a collective by its number, or all at a place in the file.

    `what` is `w1`, `%3`, `#2` as the report numbers collectives, or a line: `18`, `in.mlir:18`. Of
    a module, the report is made first. Raises `ShardError` if there is no such thing.
    """
    return explained.explain(_reported(report), what)


def report_html(report: ProgramReport | Comparison | ir.Module) -> str:
    """Return a report, or two and what changed, as one HTML page that needs no network."""
    return report_page.report_html(report if isinstance(report, Comparison) else _reported(report))


def _reported(given: ProgramReport | ir.Module) -> ProgramReport:
    return given if isinstance(given, ProgramReport) else report(given)


def compare(before: ProgramReport | ir.Module, after: ProgramReport | ir.Module) -> Comparison:
    """Return two reports side by side, as `shard-report --compare` prints them."""
    return Comparison(_reported(before), _reported(after))


def auto(
    module: ir.Module,
    *,
    grid: Sequence[int] | None = None,
    devices: int | None = None,
    objective: Objective | str = "time",
    memory_limit: int | str | None = None,
    device_model: str | DeviceModel = DEVICE_MODEL,
    seconds: float | None = None,
    plans: int | None = None,
    pipelines: bool = False,
    entry: str | None = None,
) -> AutoResult:
    """Find shardings for the arguments and results of `entry` that have no annotation.

    The result has a new `module` with annotations, and what it costs each device. `grid` is the
    shape of the devices, for a module without one; with `devices`, their number, the shape is
    searched for, too. With `pipelines`, the result may be a pipeline, whose stages are along axis
    0. `memory_limit` is the bytes of a device, or a text such as `16GiB`.
    The search takes at most `seconds` (60), or with `plans` as long as it takes to try so many, and
    Ctrl-C ends it with the best so far. `device_model` is as for `report`. Raises `ShardError` if
    no sharding fits the limit.
    """
    module = _ready(module)
    shape = None if grid is None else listed("grid", grid, "(2, 4)")
    limit = size_in_bytes(memory_limit) if isinstance(memory_limit, str) else memory_limit
    options = AutoOptions(
        objective, limit, device_model, seconds, plans, shape, devices, pipelines=pipelines
    )
    with module.context, _file_locations(module), listening() as heard:
        result = searching.auto(module, options, entry)
        result = replace(result, diagnostics=tuple(heard))
    source = _source_of(module)
    if source is not None:
        _sources[result.module] = source
    return result


def prove(unsharded: ir.Module, local: ir.Module | str | Path, entry: str | None = None) -> Proof:
    """Say whether each device's program computes the unsharded program, for all inputs.

    `local` is in the local form, as `run_pipeline(module, "spmd")` makes it, or a program of global
    tensors, or the path of a program in Python, such as `--emit-python` writes, which is run.
    `unsharded` is the module from before. The answer is "proven", "refuted" with an element that is
    wrong, or "unknown" with the op that is not understood. Raises `ShardError` where they do not
    fit.
    """
    unsharded = _ready(unsharded)
    with listening() as heard:
        with unsharded.context, _file_locations(unsharded):
            whole = Unsharded.of(at_own_places(unsharded), entry)
            if isinstance(local, str | Path):
                proof = confirmed_proof_of_python(whole, str(local), entry)
                return replace(proof, diagnostics=tuple(heard))
        local = _ready(local)
        with local.context, _file_locations(local):
            proof = confirmed_proof(whole, local, entry)
    return replace(proof, diagnostics=tuple(heard))


def mutations(
    module: ir.Module,
    entry: str | None = None,
    *,
    device_model: str | DeviceModel = DEVICE_MODEL,
    seconds: float = mutating.SECONDS,
) -> list[Mutation]:
    """Return each change of one decision of `entry`, and what it adds to its costs.

    The passes run once for each, for at most so many `seconds`. Raises `ShardError` if the module
    cannot be partitioned as it is.
    """
    module = _ready(module)
    with module.context, _file_locations(module):
        return mutating.mutations(module, entry, device_model=device_model, seconds=seconds)


def mutate(module: ir.Module, *what: int | str, entry: str | None = None) -> ir.Module:
    """Return a copy of the module with other annotations.

    `what` are numbers of `mutations`, or texts such as `w1=[[], [model]]`. Raises `ShardError` for
    a number or a name that the module does not have.
    """
    module = _ready(module)
    with module.context, _file_locations(module):
        changed = mutating.mutated(module, list(map(str, what)), entry)
    source = _source_of(module)
    if source is not None:
        _sources[changed] = source
    return changed


def show(module: ir.Module, name: str, entry: str | None = None) -> DrawnSharding:
    """Return a drawing of how a tensor lies on the devices: text, or in a notebook HTML.

    `name` is that of an argument or value in the file or framework, `result0`, or `%3` as
    `--propagate` prints it; with `*`, the first that fits. Raises `ShardError` if there is none.
    """
    module = _ready(module)
    with module.context, _file_locations(module):
        return drawn(module, name, entry, _file_text(module))[0]


def compile(  # noqa: A001
    module: ir.Module,
    backend: Backend = "devices",
    entry: str | None = None,
    *,
    cache: bool | str | Path = False,
) -> CompiledProgram:
    """Compile a module in any form; call the result with global arrays.

    `backend` says what the devices are: threads of this process ("devices"), devices of JAX
    ("xla"), the ranks that a launcher has started, of which this is one ("mpi", "mpi4py",
    "torch"), or what a class of your own executes (docs/library.md). The module is not changed.
    With `cache`, what our own code compiles is kept in a folder, or for `True` in the user's
    (docs/compiling.md), and loaded from there. Raises `ShardError` for what cannot be partitioned
    or run.
    """
    module = _ready(module)
    with _file_locations(module):
        source = Source.of(with_file_names(module.operation.get_asm(enable_debug_info=True)))
        return CompiledProgram(source, backend, entry, cache=_cache_of(cache))


def _cache_of(given: bool | str | Path) -> Cache | None:
    """The cache that a user names; none where rules of a user's may read what no key has."""
    if not isinstance(given, bool | str | Path):
        raise ShardError(f"cache is {given!r}: give True, or a folder")
    if not given or has_records_of_users() or contexts.has_dialects_of_users():
        return None
    return Cache.of_user() if given is True else Cache(Path(given).absolute())


@overload
def run(
    module: ir.Module,
    *arguments: Any,
    backend: Literal["devices", "xla"] | type[LocalExecutor] = "devices",
    entry: str | None = None,
) -> Any: ...


@overload
def run(
    module: ir.Module,
    *arguments: Any,
    backend: Literal["mpi", "mpi4py", "torch"],
    entry: str | None = None,
) -> Any | None: ...


def run(
    module: ir.Module, *arguments: Any, backend: Backend = "devices", entry: str | None = None
) -> Any:
    """Compile a module, and return its results for these global arrays.

    The results are one array, or a tuple of several; on a rank other than the first, which the
    backends "mpi", "mpi4py" and "torch" have, `None`. See `compile`.
    """
    return compile(module, backend, entry)(*arguments)


def load(folder: str | Path, backend: Backend = "devices") -> CompiledProgram:
    """Load a program that `CompiledProgram.save` wrote, without compiling.

    Raises `ShardError` for one that another version of this package, or another kind of processor
    compiled, and for a backend that it was not compiled for.
    """
    return CompiledProgram.load(folder, backend)


def load_plugin(name: str) -> None:
    """Load a Python file or module that registers passes, rules or dialects.

    Raises `ShardError` if it cannot be imported.
    """
    plugins.load([name])


def form(module: ir.Module, entry: str | None = None) -> str:
    """Return the form of the function `entry`: annotated, propagated, distributed, local, lowered.

    Raises `ShardError` if there is no such function.
    """
    op = _read(module).operation
    return form_of(find_function(op, choose_entry(op, entry)))


def read_program(module: ir.Module, entry: str | None = None) -> Program:
    """Return the boundary of a function in the local form, and the collectives that it runs.

    Each of `arguments` and `results` has its local type, its global type and its sharding;
    `calls` are the collectives in their order. Raises `ShardError` for a module in another form.
    """
    module = _ready(module)
    name = choose_entry(module.operation, entry)
    function = find_function(module.operation, name)
    with module.context, _file_locations(module):
        if form_of(function) != "local":
            raise error_at(
                function.location,
                f"function {as_symbol(name)} is in the {form_of(function)} form: its boundary is "
                "read in the local form, which sd.run_pipeline(module, 'spmd') makes",
            )
        return read_local_program(module.operation, name, partial_results=True)


def _ready(given: Any) -> ir.Module:
    """The module, ready for passes."""
    module = _read(given)
    make_ready(module)
    return module


def _read(given: Any) -> ir.Module:
    """The module itself, or that of a function that JAX has lowered."""
    if callable(getattr(given, "compiler_ir", None)):
        from shard_dialect.jax.partition_module import read_module

        return read_module(given.compiler_ir("stablehlo"))
    require_module(given)
    module: ir.Module = given
    return module


def _file_locations(module: ir.Module) -> AbstractContextManager[None]:
    source = _source_of(module)
    return source.file_locations() if source else nullcontext()


def _file_text(module: ir.Module) -> str | None:
    source = _source_of(module)
    return source.file_text if source else None


def _source_of(module: ir.Module | ir.Operation) -> Source | None:
    """Where a module came from; or that of an op, as passes are given."""
    if isinstance(module, ir.Module):
        return _sources.get(module)
    while module.operation.parent is not None:
        module = module.operation.parent
    living = (each() for each in _sources.keyrefs())
    return next((_sources.get(each) for each in living if each and _is(each, module)), None)


def _is(module: ir.Module, op: ir.Operation) -> bool:
    return module.context == op.context and module.operation == op.operation


__all__ = [
    "AUTO",
    "AutoOptions",
    "AutoResult",
    "Boundary",
    "CannotJudge",
    "Comparison",
    "CompiledProgram",
    "Costs",
    "DeviceModel",
    "Diagnostic",
    "DrawnSharding",
    "Efficiency",
    "Grid",
    "Instruments",
    "LocalOp",
    "Mutation",
    "NetworkLevel",
    "PartitionedOp",
    "Pass",
    "Program",
    "ProgramReport",
    "Proof",
    "Query",
    "Report",
    "ShardError",
    "ShardWarning",
    "Sharding",
    "ShardingRule",
    "Site",
    "annotate",
    "auto",
    "built_in",
    "communication",
    "compare",
    "compile",
    "error_at",
    "explain",
    "form",
    "gather",
    "join_shards",
    "listening",
    "load",
    "load_plugin",
    "make_context",
    "mutate",
    "mutations",
    "note_at",
    "parse",
    "plan_reshard",
    "prove",
    "read_collective",
    "read_program",
    "register_backend",
    "register_device_model",
    "register_dialect",
    "register_judge",
    "register_objective",
    "register_pass",
    "report",
    "report_html",
    "run",
    "run_pipeline",
    "scatter",
    "sharding_of",
    "sharding_rule",
    "show",
    "to_text",
    "warn",
    "what_if",
]
