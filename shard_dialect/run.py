"""`python -m shard_dialect.run`: run a module, in any of its forms, on a grid of devices.

    python -m shard_dialect.run in.mlir --check
    mpiexec -n 4 python -m shard_dialect.run in.mlir --backend=mpi --check
    torchrun --nproc-per-node=4 -m shard_dialect.run in.mlir --backend=torch --check

With `mpi` the compiled code calls MPI itself, with `mpi4py` through Python.

Prints what was communicated. `--check` runs the unsharded program too, and fails where any
device's result is not the same. `--bisect` then names the first op whose value is another, in the
order of the program in the distributed form; of what is in loops, branches and callees the op that
holds or calls it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace

from shard_dialect import __version__, plugins
from shard_dialect.cli import guarded
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import without_op_classes
from shard_dialect.ir.context import make_context
from shard_dialect.ir.source import STDIN, Source
from shard_dialect.runtime.arrays import load_inputs, random_inputs, save_outputs
from shard_dialect.runtime.bisect import Suspect
from shard_dialect.runtime.blas import use_one_thread
from shard_dialect.runtime.cache import Cache
from shard_dialect.runtime.check import Verdict, check
from shard_dialect.runtime.compile import compile_reference, compile_sharded
from shard_dialect.runtime.executable import Executable
from shard_dialect.runtime.launch import join
from shard_dialect.runtime.report import Report
from shard_dialect.runtime.world import BACKENDS, InProcess, Launched, World
from shard_dialect.supervise import doing, drawing

_GRACE = 1.0
"""Seconds that other ranks leave rank 0 to be the one to print an error that all have."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run with `arguments` (the command line's if none); gives the exit status."""
    options = _parser().parse_args(arguments)
    without_op_classes()
    world: list[Launched] = []
    status = 1
    try:
        with drawing():
            status = guarded(lambda: _main(options, world))
    except Exception:
        if world:  # leaving ends the other ranks, and this one before it could say why
            traceback.print_exc()
        raise
    finally:
        if world:
            world[0].close(failed=status != 0)
    return status


def _main(options: argparse.Namespace, joined: list[Launched]) -> int:
    peers = join(options.backend)
    joined += [peers] if peers else []
    try:
        return _run(options, peers)
    except ShardError:
        if peers and not peers.speaks:
            time.sleep(_GRACE)
        raise


def _run(options: argparse.Namespace, peers: Launched | None) -> int:
    use_one_thread()
    plugins.load(options.load_plugin)
    cache = None if options.no_cache else Cache.of_user(plugins.contents())
    with make_context():
        doing("the parser")
        source = Source.read(options.input)
        native = options.backend == "mpi"
        executable = compile_sharded(source, options.entry, cache, native_mpi=native)
        program = executable.program
        reference: Executable | None = None
        suspect: Suspect | None = None
        if options.bisect:
            suspect = Suspect.read(source, program.entry)
        if options.check or options.bisect:
            of = Source.read(options.reference) if options.reference else source
            reference = compile_reference(of, program.entry, cache)
    grid_size = program.devices
    if peers:
        peers.check_size(grid_size)
    world: World = peers or InProcess(grid_size)
    types = [each.whole for each in program.arguments]
    inputs = (
        load_inputs(options.inputs, types) if options.inputs else random_inputs(types, options.seed)
    )
    pieces = [program.scatter(inputs, rank) for rank in world.ranks]
    doing(f"@{program.entry} on {grid_size} devices")
    outputs = world.run(executable, pieces)
    report = Report.of(program.calls)
    if reference:
        doing("the unsharded program")
    verdict = check(executable, reference, inputs, outputs, world) if reference else None
    if suspect and reference and verdict and not verdict.passed:
        origin = suspect.error(reference, inputs, world, verdict.failure)
        verdict = replace(verdict, origin=origin)
    if options.outputs:
        gathered = world.gather(outputs)
        if world.speaks:
            save_outputs(options.outputs, program.gather(gathered))
    if world.speaks:
        head = {"entry": program.entry, "backend": options.backend, "devices": grid_size}
        if options.json:
            more = {"check": verdict.as_json()} if verdict else {}
            print(json.dumps({**head, **report.as_json(), **more}))
        else:
            print(f"@{program.entry} on {grid_size} devices ({options.backend})\n{report}")
            print(verdict or "not checked: --check compares with the unsharded program")
    return _status(verdict, world) if verdict else 0


def _status(verdict: Verdict, world: World) -> int:
    """The exit status after a check; what failed is said by one rank, before all end."""
    if verdict.passed:
        return 0
    if world.speaks:
        print(verdict.error, file=sys.stderr, flush=True)
    world.share(())
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shard-run",
        description=(__doc__ or "").partition("\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("input", nargs="?", default=STDIN, help="a .mlir file; '-': standard input")
    parser.add_argument("--backend", choices=BACKENDS, default="devices", help="where devices are")
    parser.add_argument("--entry", metavar="NAME", help="the function to run (default: main)")
    parser.add_argument("--seed", type=_seed, default=0, metavar="N", help="seed of random inputs")
    parser.add_argument("--inputs", metavar="FILE.npz", help="global inputs arg0, arg1, ...")
    parser.add_argument("--outputs", metavar="FILE.npz", help="write global outputs result0, ...")
    parser.add_argument("--check", action="store_true", help="compare with the unsharded program")
    parser.add_argument(
        "--bisect",
        action="store_true",
        help="check, and where it fails name the first op whose value differs",
    )
    parser.add_argument(
        "--reference", metavar="FILE", help="the unsharded program, for local and lowered inputs"
    )
    plugins.add_argument(parser)
    parser.add_argument(
        "--no-cache", action="store_true", help="compile anew, and keep nothing of it"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    parser.add_argument("--version", action="version", version=f"shard-run {__version__}")
    return parser


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 on")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
