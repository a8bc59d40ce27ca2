"""`python -m shard_dialect.opt`: run passes over a module, as `mlir-opt` does.

    python -m shard_dialect.opt in.mlir --spmd
    python -m shard_dialect.opt in.mlir --propagate --canonicalize --materialize
    python -m shard_dialect.opt in.mlir --pass-pipeline='builtin.module(propagate,cse)'

Any pass of ours or of upstream's is a flag; they run in the order given.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from shard_dialect import __version__
from shard_dialect.cli import guarded, help_with_passes
from shard_dialect.errors import ShardError

STDIN = STDOUT = "-"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run with `arguments` (the command line's if none); gives the exit status."""
    return guarded(lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    options, rest = _parser().parse_known_args(arguments)
    pipeline = _pipeline(options.pass_pipeline, rest)
    # numpy, which the bindings import, starts a thread a core; no pass multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from shard_dialect.ir.bindings import without_op_classes
    from shard_dialect.ir.context import make_context
    from shard_dialect.ir.source import Source
    from shard_dialect.passes.pipeline import run_pipeline

    without_op_classes()
    source = Source.read(options.input)
    with make_context(options.allow_unregistered_dialect), source.places():
        module = source.parse()
        run_pipeline(module, pipeline)
        text = module.operation.get_asm(
            print_generic_op_form=options.mlir_print_op_generic,
            enable_debug_info=options.mlir_print_debuginfo,
        )
    _write(text.rstrip("\n") + "\n", options.output)
    return 0


class _Parser(argparse.ArgumentParser):
    def format_help(self) -> str:
        self.epilog = help_with_passes()  # only now: it imports every pass
        return super().format_help()


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="shard-opt",
        description=(__doc__ or "").partition("\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("input", nargs="?", default=STDIN, help="a .mlir file; '-': standard input")
    parser.add_argument(
        "-o", dest="output", default=STDOUT, help="the output file; '-': standard output"
    )
    parser.add_argument("--pass-pipeline", help="a textual pipeline, as in 'builtin.module(...)'")
    parser.add_argument(
        "--allow-unregistered-dialect", action="store_true", help="read ops of unknown dialects"
    )
    parser.add_argument(
        "--mlir-print-op-generic", action="store_true", help="print ops in the generic form"
    )
    parser.add_argument("--mlir-print-debuginfo", action="store_true", help="print locations")
    parser.add_argument("--version", action="version", version=f"shard-opt {__version__}")
    return parser


def _pipeline(text: str | None, flags: Sequence[str]) -> str:
    """The pipeline of `--pass-pipeline`, or that of the flags that are no option of ours."""
    if text is not None and flags:
        raise ShardError(f"--pass-pipeline is given together with {flags[0]}: use one of them")
    return text if text is not None else ",".join(map(_element, flags))


def _element(flag: str) -> str:
    """`--materialize=strict=true` as a pipeline's element."""
    if not flag.startswith("-"):
        raise ShardError(f"unexpected argument '{flag}': one input file is read")
    name, _, options = flag.lstrip("-").partition("=")
    return f"{name}{{{options}}}" if options else name


def _write(text: str, path: str) -> None:
    if path == STDOUT:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        Path(path).write_text(text)
    except OSError as error:
        raise ShardError(
            f"cannot write '{path}': {(error.strerror or str(error)).lower()}"
        ) from None


if __name__ == "__main__":
    sys.exit(main())
