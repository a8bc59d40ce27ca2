"""`python -m shard_dialect.opt`: run passes over a module, as `mlir-opt` does.

    python -m shard_dialect.opt in.mlir --spmd
    python -m shard_dialect.opt in.mlir --propagate --canonicalize --materialize
    python -m shard_dialect.opt in.mlir --pass-pipeline='builtin.module(propagate,cse)'

Any pass of ours or of upstream's is a flag; they run in the order given.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from shard_dialect import __version__
from shard_dialect.cli import guarded, help_with_passes
from shard_dialect.errors import ShardError, cannot

if TYPE_CHECKING:
    from shard_dialect.ir.source import Source
    from shard_dialect.passes.pipeline import Instruments

STDIN = STDOUT = "-"
_SEPARATOR = b"// -----\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run with `arguments` (the command line's if none); gives the exit status."""
    return guarded(lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    options, rest = _parser().parse_known_args(arguments)
    pipeline = _pipeline(options.pass_pipeline, rest)
    # numpy, which the bindings import, starts a thread a core; no pass multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from shard_dialect.ir.bindings import without_op_classes
    from shard_dialect.ir.source import Source
    from shard_dialect.passes.pipeline import Instruments

    without_op_classes()
    instruments = Instruments(
        **{field.name: getattr(options, field.name) for field in fields(Instruments)}
    )
    read = Source.read_parts if options.split_input_file else lambda path: [Source.read(path)]
    outputs, status = [], 0
    for source in read(options.input):
        try:
            outputs.append(_transform(source, pipeline, instruments, options))
        except ShardError as error:
            if not options.split_input_file:
                raise
            print(error, file=sys.stderr)
            status = 1
    _write(_SEPARATOR.join(outputs), options.output)
    return status


def _transform(
    source: Source, pipeline: str, instruments: Instruments, options: argparse.Namespace
) -> bytes:
    """The printed module, or its bytecode."""
    from shard_dialect.ir.context import make_context
    from shard_dialect.passes.pipeline import run_pipeline

    with make_context(options.allow_unregistered_dialect), source.places():
        module = source.parse()
        run_pipeline(module, pipeline, instruments)
        if options.emit_bytecode:
            file = io.BytesIO()
            module.operation.write_bytecode(file)
            return file.getvalue()
        text = module.operation.get_asm(
            print_generic_op_form=options.mlir_print_op_generic,
            enable_debug_info=options.mlir_print_debuginfo,
        )
    return text.rstrip("\n").encode() + b"\n"


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
    parser.add_argument(
        "--split-input-file", action="store_true", help="modules between lines '// -----'"
    )
    parser.add_argument("--emit-bytecode", action="store_true", help="write MLIR bytecode")
    parser.add_argument(
        "--verify-each", type=_on_or_off, default=True, metavar="0|1", help="verify after each pass"
    )
    parser.add_argument(
        "--mlir-timing", dest="timing", action="store_true", help="print the time of each pass"
    )
    for when in ("before-all", "after-all", "after-change", "after-failure"):
        name = f"print-ir-{when}"
        parser.add_argument(
            f"--mlir-{name}",
            dest=name.replace("-", "_"),
            action="store_true",
            help=f"print the module {when.replace('-', ' ').replace('all', 'each pass')}",
        )
    parser.add_argument(
        "--mlir-print-ir-tree-dir", dest="print_ir_tree_dir", help="print to files in this folder"
    )
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


def _on_or_off(text: str) -> bool:
    if text not in ("0", "1", "true", "false"):
        raise argparse.ArgumentTypeError(f"'{text}' is neither 0 nor 1")
    return text in ("1", "true")


def _write(data: bytes, path: str) -> None:
    if path == STDOUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise cannot("write", path, error) from None


if __name__ == "__main__":
    sys.exit(main())
