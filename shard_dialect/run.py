"""`python -m shard_dialect.run`: run a module, in any of its forms, on a grid of devices.

    python -m shard_dialect.run in.mlir --check
    mpiexec -n 4 python -m shard_dialect.run in.mlir --backend=mpi --check
    torchrun --nproc-per-node=4 -m shard_dialect.run in.mlir --backend=torch --check

With `mpi` the compiled code calls MPI itself, with `mpi4py` through Python. With `torch` our code
computes, too, or with `--compiler=torch` torch itself, on the rank's GPU if it has one.

Prints what was communicated. `--check` runs the unsharded program too, and fails where any
device's result is not the same. `--bisect` then names the first op whose value is another, in the
order of the program in the distributed form; of what is in loops, branches and callees the op that
holds or calls it. Of a program that was edited after a pass, up to the local form, it names the op
that makes what the program of `--reference` does not.
"""

from __future__ import annotations

from shard_dialect.processes import startup

startup.begin(__name__)

import argparse
import math
import os
import sys
from collections.abc import Sequence

from shard_dialect import __version__, plugins
from shard_dialect.cli.flags import Parser, add_debug, check_needed, complete, seconds_above_0, seed
from shard_dialect.cli.printing import guarded
from shard_dialect.errors import ShardError
from shard_dialect.processes.atomic_files import Output, OutputFolder
from shard_dialect.processes.launchers import Rank, launched_by
from shard_dialect.processes.startup import message_of
from shard_dialect.processes.to_parent import is_watched
from shard_dialect.processes.watch import can_watch, end, watched
from shard_dialect.runtime.communicators.launched_world import BACKENDS

STDIN = "-"
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
    parser = Parser(
        prog="shard-run",
        description=(__doc__ or "").partition("\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("input", nargs="?", default=STDIN, help="a .mlir file; '-': standard input")
    parser.add_argument(
        "--backend",
        default="devices",
        metavar="BACKEND",
        help=f"where devices are: {', '.join(BACKENDS)}, or a plugin's (default: devices)",
    )
    parser.add_argument(
        "--compiler",
        choices=("torch",),
        help="who computes on a device of --backend=torch: torch, by what opt --emit-python=torch "
        "writes (default: our own code)",
    )
    parser.add_argument(
        "--torch-compile",
        action="store_true",
        help="with --compiler=torch: let torch.compile compile what is between collectives",
    )
    parser.add_argument("--entry", metavar="NAME", help="the function to run (default: main)")
    parser.add_argument(
        "--shapes",
        default="",
        metavar="4x8,,16",
        help="shapes of arguments that leave sizes open (default: those of --inputs)",
    )
    parser.add_argument(
        "--scalars",
        default="",
        metavar=",2",
        help="values of arguments that are integers, which become constants",
    )
    parser.add_argument(
        "--grid",
        default="",
        metavar="2x4",
        help="shape of a grid that leaves sizes open (default: as many devices as ranks)",
    )
    parser.add_argument("--seed", type=seed, metavar="N", help="seed of random inputs (default: 0)")
    parser.add_argument(
        "--inputs",
        type=_file,
        metavar="FILE",
        help="global inputs by the names of the arguments in the file, or arg0, arg1, ...: .npz, "
        ".safetensors, or a folder of a file a rank",
    )
    parser.add_argument(
        "--outputs",
        type=_file,
        metavar="FILE.npz",
        help="write global outputs result0, ...; FOLDER/: each rank its own shards",
    )
    parser.add_argument(
        "--profile",
        type=_file,
        metavar="FILE.json",
        help="run once more, and write what each device did when, for ui.perfetto.dev and "
        "shard-report --measured",
    )
    parser.add_argument("--check", action="store_true", help="compare with the unsharded program")
    parser.add_argument(
        "--bisect",
        action="store_true",
        help="check, and where it fails name the first op whose value differs; with --reference "
        "that of an edited program",
    )
    parser.add_argument(
        "--prove",
        action="store_true",
        help="before it runs, prove that each device computes the unsharded program, for all "
        "inputs: what is refuted is an error, and does not run (docs/proof.md)",
    )
    parser.add_argument(
        "--reference",
        type=_file,
        metavar="FILE",
        help="the unsharded program, for local and lowered inputs: of --check, and of --prove",
    )
    parser.add_argument(
        "--reference-by",
        metavar="JUDGE",
        help="who runs the unsharded program: xla (jaxlib), upstream (MLIR's own passes, slow), "
        "self (our code, which shares its faults), or a plugin's; default: the first of these "
        "three that can",
    )
    plugins.add_argument(parser)
    parser.add_argument(
        "--no-cache", action="store_true", help="compile anew, and keep nothing of it"
    )
    parser.add_argument(
        "--timeout",
        type=seconds_above_0,
        default=math.inf,
        metavar="SECONDS",
        help="end all ranks if they are not done by then",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    add_debug(parser)
    parser.add_argument("--version", action="version", version=f"shard-run {__version__}")
    return parser


def _file(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the name of a file is missing")
    return text


if __name__ == "__main__":
    sys.exit(main())
