"""`python -m shard_dialect.run`: run a module, in any of its forms, on a grid of devices.

    python -m shard_dialect.run in.mlir --check
    mpiexec -n 4 python -m shard_dialect.run in.mlir --backend=mpi --check
    torchrun --nproc-per-node=4 -m shard_dialect.run in.mlir --backend=torch --check

With `mpi` the compiled code calls MPI itself, with `mpi4py` through Python. With `torch`, torch
communicates and our compiled code computes, or with `--compiler=torch` torch on the rank's GPU.

Prints what was communicated. `--check` runs the unsharded program, too, and fails if a result of
any device differs from its. `--bisect` then compares each value, and names the first op whose
result differs; for an op in a loop, branch or callee, the op that holds or calls it. If a program
was edited after a pass, `--reference` names the program before the edit.
"""

from __future__ import annotations

from shard_dialect.processes import startup

startup.begin(__name__)

import argparse
import math
import os
import sys
from collections.abc import Sequence
from functools import partial

from shard_dialect import __version__, plugins
from shard_dialect.cli.flags import (
    Parser,
    add_debug,
    add_option,
    check_needed,
    complete,
    seconds_above_0,
    seed,
)
from shard_dialect.cli.printing import STDIN, guarded
from shard_dialect.errors import ShardError
from shard_dialect.processes.atomic_files import Output, OutputFolder
from shard_dialect.processes.launchers import Rank, launched_by
from shard_dialect.processes.startup import message_of
from shard_dialect.processes.to_parent import is_watched
from shard_dialect.processes.watch import can_watch, end, watched
from shard_dialect.runtime.communicators.launched_world import BACKENDS

_NEEDS = {"reference": ("check", "bisect", "prove"), "reference_by": ("check", "bisect")}
"""The options that an option is for."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run with `arguments` (the command line's if none) and return the exit status.

    The command line's program, and each rank of a launched one, continue in a child process.
    """
    if arguments is None:
        complete(_parser)
    return guarded(lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    if options.compiler == "torch" and options.backend != "torch":
        raise ShardError(
            f"--compiler=torch is for --backend=torch, not for --backend={options.backend}"
        )
    if options.torch_compile and options.compiler != "torch":
        raise ShardError("--torch-compile is for --compiler=torch")
    check_needed(options, _NEEDS)
    options.is_seeded = options.seed is not None
    options.seed = options.seed or 0
    rank = launched_by(BACKENDS.get(options.backend, ()))
    output = _output(options.outputs) if options.outputs else None
    try:
        if output:
            output.check(_read(options))
            _check_name(options.outputs)
        if options.profile:
            Output(options.profile).check(_read(options))
    except ShardError:
        if rank is None or not rank.number:
            raise
        return 1
    if (arguments is None or rank is not None) and can_watch():
        watched(rank, options.timeout)
    elif options.timeout < math.inf and not is_watched():
        raise ShardError("--timeout is for the command line: main() cannot be ended")
    startup.over()
    return _execute(options, rank, output)


def _output(path: str) -> Output | OutputFolder:
    return OutputFolder(path) if path.endswith(os.sep) else Output(path)


def _check_name(path: str) -> None:
    if not path.endswith(os.sep) and os.path.splitext(path)[1] not in ("", ".npz"):
        raise ShardError(
            f"--outputs={path}: outputs are written as a file whose name ends in .npz, or with a "
            "slash behind the name as a folder of a file a rank"
        )


def _read(options: argparse.Namespace) -> list[str]:
    """The names of the files that the run reads."""
    in_folder = os.path.isdir(options.inputs or "")
    named = [
        options.inputs,
        *([each.path for each in os.scandir(options.inputs)] if in_folder else ()),
        *(each for each in (options.input, options.reference) if each != STDIN),
    ]
    return [*filter(None, named), *plugins.files(options.load_plugin)]


def _execute(
    options: argparse.Namespace, rank: Rank | None, output: Output | OutputFolder | None
) -> int:
    try:
        from shard_dialect.cli.run_command import execute  # everything else, in the child only
    except BaseException as error:
        if is_watched():
            end(message_of(error))
        raise
    return execute(options, rank, output)


def _parser() -> Parser:
    parser = Parser("shard-run", __doc__)
    option = partial(add_option, parser)
    parser.add_argument("input", nargs="?", default=STDIN, help="a .mlir file; '-': standard input")
    option(
        "--backend BACKEND",
        f"what the devices are: {', '.join(BACKENDS)}, or a plugin's (default: devices, which "
        "are threads)",
        default="devices",
    )
    option(
        "--compiler",
        "with --backend=torch: let torch compute on each device, by the program that "
        "opt --emit-python=torch writes (default: our compiled code)",
        choices=("torch",),
    )
    option(
        "--torch-compile",
        "with --compiler=torch: compile the parts between collectives by torch.compile",
    )
    option("--entry NAME", "the function to run (default: main)")
    option(
        "--shapes 4x8,,16",
        "shapes of the arguments whose sizes the program leaves open (default: those of --inputs)",
        default="",
    )
    option(
        "--scalars ,2",
        "values of integer arguments, which become constants; empty for the others",
        default="",
    )
    option(
        "--grid 2x4",
        "shape of a grid whose sizes the program leaves open (default: one device a rank)",
        default="",
    )
    option("--seed N", "seed of random inputs (default: 0)", type=seed)
    option(
        "--inputs FILE",
        "global inputs by the names of the arguments in the file, or arg0, arg1, ...: .npz, "
        ".safetensors, or a folder with a file for each rank",
        type=_file,
    )
    option(
        "--outputs FILE.npz",
        "write global outputs result0, ...; to FOLDER/ each rank writes its shards",
        type=_file,
    )
    option(
        "--profile FILE.json",
        "run once more, and write a trace of each device, for ui.perfetto.dev and "
        "shard-report --measured",
        type=_file,
    )
    option("--check", "compare with the unsharded program")
    option(
        "--bisect",
        "check, and if it fails name the first op whose result differs; --reference names "
        "the program before an edit",
    )
    option(
        "--prove",
        "before the run, prove that each device computes the unsharded program for all "
        "inputs; a refuted program is an error, and does not run (docs/proof.md)",
    )
    option(
        "--reference FILE",
        "the unsharded program of a local or lowered input, for --check and --prove",
        type=_file,
    )
    option(
        "--reference-by JUDGE",
        "what runs the unsharded program: xla (jaxlib), upstream (MLIR's own passes, slow), "
        "self (the code that is checked), or a plugin's judge; default: the first of these three "
        "that can run it",
    )
    plugins.add_argument(parser)
    option("--no-cache", "compile anew, and keep no compiled code")
    option(
        "--timeout SECONDS",
        "end all ranks if they are not done by then",
        type=seconds_above_0,
        default=math.inf,
    )
    option("--json", "print one JSON object, nothing else")
    add_debug(parser)
    parser.add_argument("--version", action="version", version=f"shard-run {__version__}")
    return parser


def _file(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the name of a file is missing")
    return text


if __name__ == "__main__":
    sys.exit(main())
