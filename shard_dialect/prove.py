"""`python -m shard_dialect.prove`: whether one program is another, for all inputs.

    python -m shard_dialect.prove in.mlir local.mlir
    python -m shard_dialect.prove in.mlir local.mlir --entry=layer --json
    python -m shard_dialect.prove in.mlir by_hand.mlir --boundary='x=[[data]]'

The first file has the unsharded program, the second the program of the devices: in the local form,
in an earlier form, or with manual computations, whoever wrote it. Neither program runs, but to
confirm a refutation. A .py file, such as `shard-opt --emit-python` writes, runs in a process of its
own. `--boundary` states the shards that a program without our attributes takes and gives.

The exit status is 0 if the programs are proven equal, 1 if this is refuted or the input has an
error, and 2 if it is unknown: `shard-prove ... && next` goes on if it is proven (docs/proof.md).
"""

from __future__ import annotations

from shard_dialect.processes import startup

startup.begin(__name__)

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from shard_dialect import __version__, plugins
from shard_dialect.cli.flags import Parser, add_debug, add_option, complete
from shard_dialect.cli.printing import STDIN, guarded, write_output
from shard_dialect.errors import ShardError, say
from shard_dialect.processes.supervise import supervised
from shard_dialect.processes.to_parent import doing, is_watched

if TYPE_CHECKING:
    from shard_dialect.proof.prove import Proof

UNKNOWN = 2
"""The exit status for what is neither proven nor refuted."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run with `arguments` and return the exit status; by default the command line's, watched."""
    if arguments is None:
        complete(_parser)
        return supervised(lambda: guarded(lambda: _main(sys.argv[1:])))
    return guarded(lambda: _main(arguments))


def _main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    if options.unsharded == options.local == STDIN:
        raise ShardError("standard input is given as both programs: name a file")
    proof = _proof(options)
    if options.json:
        write_output(json.dumps(proof.as_json(), indent=2) + "\n")
    from shard_dialect.runtime.confirmed_proof import told

    what = told(proof)
    if not options.json:
        say(what)
    return UNKNOWN if proof.answer == "unknown" else 0


def _proof(options: argparse.Namespace) -> Proof:
    from shard_dialect.ir.bindings import without_op_classes
    from shard_dialect.ir.context import make_context
    from shard_dialect.ir.fatal_errors import report_fatal_errors
    from shard_dialect.ir.reading.source import Source
    from shard_dialect.runtime.confirmed_proof import (
        Unsharded,
        at_start_of,
        confirmed_proof,
        confirmed_proof_of_python,
    )

    without_op_classes()
    if is_watched():
        report_fatal_errors(say)
    plugins.load(options.load_plugin)
    with make_context():
        unsharded = Unsharded.read(options.unsharded, options.entry)
        if options.local.endswith(".py"):
            if options.boundary:
                raise ShardError("--boundary is for a .mlir file: a program in Python says it")
            doing("the proof", f"{options.local}:1:1")
            return confirmed_proof_of_python(unsharded, options.local, options.entry)
        source = Source.read(options.local)
        with source.file_locations(), at_start_of(source):
            module = source.parse()
            if options.boundary:
                from shard_dialect.cli.boundary import declare_boundary

                declare_boundary(module, unsharded.source.parse(), options.entry, options.boundary)
            doing("the proof", f"{source.name}:1:1")
            return confirmed_proof(unsharded, module, options.entry)


def _parser() -> Parser:
    parser = Parser("shard-prove", __doc__)
    option = partial(add_option, parser)
    parser.add_argument(
        "unsharded",
        metavar="GLOBAL",
        help="a .mlir file: the unsharded program; '-': standard input",
    )
    parser.add_argument(
        "local",
        metavar="LOCAL",
        help="a .mlir or .py file: the program of the devices; '-': standard input",
    )
    option("--entry NAME", "the function to judge (default: main)")
    option(
        "--boundary NAME=SHARDING",
        "the sharding of an argument or result of LOCAL, if LOCAL does not state it, as in "
        "x=[[], [model]] or result0=[[0]]; * stands for any text; others are whole on each "
        "device; may be repeated",
        action="append",
        default=[],
    )
    option("--json", "print one JSON object, nothing else")
    plugins.add_argument(parser)
    add_debug(parser)
    parser.add_argument("--version", action="version", version=f"shard-prove {__version__}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
