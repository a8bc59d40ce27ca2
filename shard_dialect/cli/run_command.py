"""The main program of `run` in its own process: compile, run, compare, report."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import TYPE_CHECKING

from shard_dialect import plugins
from shard_dialect.abi.lowered_program import Program
from shard_dialect.abi.tensor_types import Array
from shard_dialect.backends.cpu.blas import use_one_thread
from shard_dialect.backends.xla.xla_devices import XlaExecutable
from shard_dialect.cli.printing import (
    flush_output,
    guarded,
    leave_output,
    print_warning,
    warnings_to,
    write_output,
)
from shard_dialect.errors import (
    Diagnostic,
    ShardError,
    ShardWarning,
    as_symbol,
    note,
    number_of,
    say,
    shown,
)
from shard_dialect.ir.bindings import without_op_classes
from shard_dialect.ir.context import make_context
from shard_dialect.ir.fatal_errors import report_fatal_errors
from shard_dialect.ir.reading.source import STDIN, Source
from shard_dialect.processes import watch
from shard_dialect.processes.atomic_files import Output, OutputFolder
from shard_dialect.processes.launchers import Rank
from shard_dialect.processes.startup import message_of
from shard_dialect.processes.to_parent import doing, is_watched
from shard_dialect.runtime.array_files import (
    is_folder,
    load_inputs,
    load_shards,
    save_outputs,
    save_shards,
)
from shard_dialect.runtime.checking.bisect import Suspect
from shard_dialect.runtime.checking.check import Verdict, check
from shard_dialect.runtime.checking.reference import Reference, check_judge
from shard_dialect.runtime.checking.undefined_memory import reads_of_undefined
from shard_dialect.runtime.communication_report import Report
from shard_dialect.runtime.communicators.launched_world import world_of
from shard_dialect.runtime.communicators.registered_devices import devices_of
from shard_dialect.runtime.communicators.world import (
    MAX_DEVICES,
    InProcess,
    Launched,
    Runnable,
    World,
)
from shard_dialect.runtime.compile import compile_by, compile_reference, compile_sharded
from shard_dialect.runtime.dynamic_sizes import Sizes
from shard_dialect.runtime.profiling.merged_trace import profiled
from shard_dialect.runtime.program_cache import Cache
from shard_dialect.runtime.random_inputs import drawn_inputs
from shard_dialect.runtime.rank_agreement import (
    agree,
    agree_on_talk,
    digest,
    digest_of,
    digest_of_inputs,
    versions,
)

if TYPE_CHECKING:
    from shard_dialect.proof.prove import Proof


def execute(
    options: argparse.Namespace, rank: Rank | None, output: Output | OutputFolder | None
) -> int:
    """Run with these options; return the exit status, unless a failure here ends all ranks.

    Results are written to `output` once all ranks have finished. All ranks have the same
    warnings, and rank 0 prints them.
    """
    without_op_classes()
    is_silent = rank is not None and rank.number > 0
    joined: list[Launched] = []
    if not is_watched() and rank is None:
        return guarded(lambda: _run(options, joined, output, rank))
    if is_watched():
        report_fatal_errors(watch.fail)
    try:
        with warnings_to(_nobody if is_silent else print_warning):
            _run(options, joined, output, rank)
        flush_output()
        watch.state("done")
    except BrokenPipeError:
        leave_output()
        watch.end("")
    except BaseException as error:
        if joined:
            joined[0].fail(error)  # or report the loss of the rank that did
            watch.leave()
        if not is_watched():
            say(message_of(error))
        watch.end(message_of(error))
    return 0


def _nobody(warning: ShardWarning) -> None:
    """Ignore a warning, which another rank prints."""


def _run(
    options: argparse.Namespace,
    joined: list[Launched],
    output: Output | OutputFolder | None,
    rank: Rank | None,
) -> int:
    """Run, and raise for any failure, also of a check."""
    joining = world_of(options.backend, options.compiler, compiles=options.torch_compile)
    watch.state("ready")
    peers = joining() if joining else None
    joined += [peers] if peers else []
    watch.state("joined")
    _meet_hosts(peers, rank)
    if peers and peers.size > 1 and STDIN in (options.input, options.reference):
        raise ShardError("standard input reaches one rank only: name a file")
    use_one_thread()
    plugins.load(options.load_plugin)
    check_judge(options.reference_by)
    sources = _Sources.read(options)
    has_own = _agree(options, sources, peers)
    sizes = _sizes(options, peers)
    executable, reference, suspect = _compiled(options, sources, sizes, peers)
    program = executable.program
    if peers:
        peers.check_size(program.devices)
    check_device(program, peers)
    if peers and has_own:
        agree_on_talk(peers, program, peers.rank)
    world: World = peers or devices_of(options.backend)(program.devices)
    proof = _proof(options, sources, sizes, executable) if options.prove and world.speaks else None
    if options.prove:
        world.share(())  # no rank runs what the one that speaks may refute
    doing("the inputs")
    inputs, shards = _inputs(options, sources.program, sizes, program, world)
    doing(watch.COMPILED)
    outputs = world.run(executable, shards)
    checks = options.check or options.bisect
    gathered = world.gather(outputs) if checks or isinstance(output, Output) else []
    trace = profiled(world, executable, shards) if options.profile else {}
    verdict = check(executable, reference, inputs, gathered, world) if checks else None
    if suspect and verdict and not verdict.passed:
        origin = suspect.error(reference, inputs, world, verdict.failure)
        verdict = replace(verdict, origin=origin)
    if world.speaks:
        _print(options, executable, verdict, proof)
    world.share(())  # a barrier: rank 0 has printed, and every rank has finished
    if verdict:
        _judge(verdict, sources)
    _save(output, program, world, outputs, gathered)
    if trace:
        Output(options.profile).replace(lambda file: file.write(json.dumps(trace).encode()))
    if peers:
        peers.close()
    return 0


def _meet_hosts(peers: Launched | None, rank: Rank | None) -> None:
    if peers and rank and not rank.is_all_here:
        watch.meet_hosts(peers.share)


def _save(
    output: Output | OutputFolder | None,
    program: Program,
    world: World,
    shards: Sequence[Sequence[Array]],
    gathered: Sequence[Sequence[Array]],
) -> None:
    """Write the results: those of this process's devices, or all where they are gathered."""
    if isinstance(output, OutputFolder):
        (run, *_) = world.share([token_hex(8)])
        for rank, held in zip(world.ranks, shards, strict=True):
            save_shards(output, program, held, rank, run)
    elif output and world.speaks:
        save_outputs(output, program.gather(gathered))


def _inputs(
    options: argparse.Namespace, source: Source, sizes: Sizes, program: Program, world: World
) -> tuple[list[Array], list[list[Array]]]:
    """The global inputs, and the shards of this process's devices.

    Only the process that checks keeps the global inputs. In a folder each device has a file with
    its shards, and the process that checks joins those of all.
    """
    checks = options.bisect or (options.check and world.speaks)
    types = [each.global_type for each in program.arguments]
    if not is_folder(options.inputs):
        whole = options.inputs and load_inputs(options.inputs, types, program.argument_names())
        inputs = whole or drawn_inputs(source, program, options.seed, sizes)
        shards = [program.scatter(inputs, rank) for rank in world.ranks]
        return inputs if checks else [], shards

    def of(rank: int) -> list[Array]:
        return load_shards(options.inputs, program, rank)

    shards = [of(rank) for rank in world.ranks]
    if not checks:
        return [], shards
    of_all = shards if len(shards) == program.devices else map(of, range(program.devices))
    return program.join(list(of_all), program.arguments), shards


def _judge(verdict: Verdict, sources: _Sources) -> None:
    """Raise the error of a check that failed; say of one that compares little what may be why."""
    if not verdict.passed:
        raise _explained(_failed(verdict), sources.program)
    for each in _undefined(sources.program) if verdict.note else ():
        say(str(each))


def _failed(verdict: Verdict) -> ShardError:
    """The error of a check that failed, and what tells more."""
    error = verdict.error
    return error if verdict.origin else ShardError(error.message, None, (note(_BISECT),))


_BISECT = (
    "--bisect names the first op whose value on the devices is another; --prove judges the program "
    "without rounding, which grows where weights or a state are not as in a real run"
)


def _undefined(source: Source) -> tuple[Diagnostic, ...]:
    """Notes of the ops that read what nothing has written."""
    with make_context(), source.file_locations():
        return tuple(reads_of_undefined(source))


def _explained(error: ShardError, source: Source) -> ShardError:
    """The error of a check, with the ops that read what nothing has written."""
    notes = _undefined(source)
    return ShardError(error.message, error.location, (*error.notes, *notes)) if notes else error


@dataclass(frozen=True)
class _Sources:
    program: Source
    reference: Source | None
    """`None` if the program itself is the reference."""

    @classmethod
    def read(cls, options: argparse.Namespace) -> _Sources:
        doing("the reading of files", f"{options.input}:1:1")
        reference = Source.read(options.reference) if options.reference else None
        return cls(Source.read(options.input), reference)


def _agree(options: argparse.Namespace, sources: _Sources, peers: Launched | None) -> bool:
    """Raise unless all ranks were started alike, and in a way that makes sense.

    Returns whether each has a program of its own.
    """
    has_own = peers is not None and peers.size > 1 and _are_alike(options, sources, peers)
    if options.is_seeded and options.inputs is not None:
        raise ShardError("--seed is given together with --inputs, which are not drawn")
    return has_own


def _are_alike(options: argparse.Namespace, sources: _Sources, peers: Launched) -> bool:
    flags = (
        "backend compiler torch-compile entry shapes scalars grid seed check bisect prove"
    ).split()
    flag_values = {f"--{name}": getattr(options, name.replace("-", "_")) for name in flags}
    own_values = {
        name: "" if each is None or each is False else str(each)
        for name, each in flag_values.items()
    }
    own_values["--outputs"] = "given" if options.outputs else ""
    own_values["--profile"] = "given" if options.profile else ""
    own_values["the content of --inputs"] = (
        digest_of_inputs(options.inputs) if options.inputs else ""
    )
    own_values["the reference"] = digest_of(sources.reference) if sources.reference else ""
    own_values["the content of plugins"] = digest(*plugins.texts())
    return agree(peers, {**versions(), **own_values}, sources.program)


def check_device(program: Program, peers: Launched | None) -> None:
    """Raise if this is not the device that the program is for."""
    device = program.device
    if device is not None and peers and peers.all_make_groups:
        raise ShardError(
            f"{peers.name} ranks make device groups together: run programs of single devices, as "
            f"this one of device {device}, with --backend=mpi or mpi4py"
        )
    if device is not None and (peers is None or peers.rank != device):
        raise ShardError(
            f"this is the program of device {device} alone: start it as rank {device} of "
            f"{program.devices}, beside those of the others"
        )


def _sizes(options: argparse.Namespace, peers: Launched | None) -> Sizes:
    ranks = peers.size if peers else None
    most = None if peers else MAX_DEVICES
    return Sizes(options.shapes, options.grid, options.inputs or "", ranks, options.scalars, most)


def _compiled(
    options: argparse.Namespace, sources: _Sources, sizes: Sizes, peers: Launched | None
) -> tuple[Runnable, Reference | None, Suspect | None]:
    """The sharded program, its reference, and what `--bisect` needs.

    With many ranks, only the one that speaks compares, and so has the unsharded program.
    """
    # A plugin may read files and the environment: no key could have all that it depends on.
    keeps = not options.no_cache and not plugins.are_loaded()
    cache = Cache.of_user() if keeps else None
    with make_context():
        source = sources.program
        doing("the compiler", f"{source.name}:1:1")
        native = options.backend == "mpi" and not options.profile
        world: type[World] = devices_of(options.backend)
        if peers and options.compiler == "torch":
            world = type(peers)
        if world is InProcess:
            executable: Runnable = compile_sharded(
                source,
                options.entry,
                cache,
                sizes=sizes,
                native_mpi=native,
                in_ranks=peers is not None,
            )
        else:
            executable = compile_by(world, source, options.entry, sizes=sizes)
        entry = executable.program.entry
        judge = options.reference_by
        suspect = None
        if options.bisect:
            suspect = Suspect.read(source, entry, sizes, judge, sources.reference)
        if not (options.check or options.bisect) or (peers and not peers.speaks):
            return executable, None, suspect
        doing("the compiler of the unsharded program")
        of = sources.reference or source
        return executable, compile_reference(of, entry, sizes=sizes, by=judge), suspect


def _proof(
    options: argparse.Namespace, sources: _Sources, sizes: Sizes, executable: Runnable
) -> Proof:
    """The proof of `--prove`, which is said. Raises `ShardError` for a refutation."""
    from shard_dialect.runtime.confirmed_proof import proof_of_compiled, told

    source, entry = sources.program, executable.program.entry
    with make_context():
        doing("the proof", f"{source.name}:1:1")
        proof = proof_of_compiled(source, sources.reference or source, entry, sizes)
    if options.json and proof.answer == "refuted":
        _print(options, executable, None, proof)
    if not options.json or proof.answer == "refuted":
        say(told(proof))
    return proof


def _print(
    options: argparse.Namespace,
    executable: Runnable,
    verdict: Verdict | None,
    proof: Proof | None,
) -> None:
    program = executable.program
    report = Report.of(program.calls)
    by_xla = executable.collectives if isinstance(executable, XlaExecutable) else None
    compiler = {"compiler": options.compiler} if options.compiler else {}
    head = {"entry": program.entry, "backend": options.backend, **compiler}
    head |= {"devices": program.devices}
    if options.json:
        more = {"check": verdict.as_json()} if verdict else {}
        more |= {"proof": proof.as_json()} if proof else {}
        more |= {"xla": by_xla.as_json()} if by_xla else {}
        write_output(json.dumps({**head, **report.as_json(), **more}) + "\n")
        return
    name = shown(program.entry)
    backend = ", computed by ".join(filter(None, (options.backend, options.compiler)))
    last: object = verdict or "not checked: --check compares with the unsharded program"
    if verdict and not verdict.passed:
        last = "check failed"  # the error says by what
    lines = [
        f"{as_symbol(name)} on {number_of(program.devices, 'device')} ({backend})",
        report,
        by_xla,
        last,
    ]
    write_output("".join(f"{line}\n" for line in lines if line is not None))
