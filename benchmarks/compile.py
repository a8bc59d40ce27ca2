"""What compiling takes: our passes and our code, beside XLA's compilation and Shardy's propagation.

    python -m benchmarks.compile [--layers 6 24] [--kinds forward training] [--code] [--passes]

Decoders are lowered by JAX (`benchmarks.decoders`). Each figure is the CPU seconds of this process,
the least of the runs: `opt` alone reads and prints, `--spmd` is what the passes take beyond that;
XLA's is its whole compilation, with its partitioner; Shardy's is its propagation pipeline. With
`--code`, our own code for the result is compiled too. With `--passes`, the table has the
seconds of each pass of `--spmd` instead, and how much more memory it takes than reading and
printing.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tabulate import tabulate

from benchmarks import decoders, propagation
from benchmarks.decoders import cpu_seconds
from shard_dialect.backends.cpu.machine_code import generate
from shard_dialect.ir.bindings import without_op_classes
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline, steps_of

KINDS = {"forward": False, "training": True}
ROOT = Path(__file__).parent.parent
MOST_SECONDS = 900.0
"""After which a child is ended."""
PASSES = (*dict.fromkeys(steps_of("spmd")), "Rest", "Total")
_READ_AND_PRINT = """
import resource, sys
from pathlib import Path
import shard_dialect as sd
module = sd.parse(Path(sys.argv[1]))
if sys.argv[2]:
    sd.run_pipeline(module, sys.argv[2])
str(module)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
_PASS = re.compile(r"^\s*(\d+\.\d+) \(.*?\)\s+(\S+)$", re.MULTILINE)


def ours(text: str, with_code: bool) -> list[float]:
    """The CPU seconds of reading and printing, of `--spmd`, and of our code, if asked for."""
    with make_context():
        times = [cpu_seconds(lambda: str(Source.of(text).parse()))]
        module = Source.of(text).parse()
        times.append(cpu_seconds(lambda: run_pipeline(module, "spmd")))
        if with_code:
            times.append(
                cpu_seconds(lambda: (run_pipeline(module, "lower"), generate(module, "main")))
            )
        return times


def least(times: Sequence[Sequence[float]]) -> list[float]:
    """The least of each figure."""
    return [min(each) for each in zip(*times, strict=True)]


def row(kind: str, layers: int, runs: int, with_code: bool) -> list[str]:
    """A row of the table: seconds, and ratios of ours over XLA's and Shardy's."""
    is_training = KINDS[kind]
    text = decoders.decoder(layers, is_training)
    read, spmd, *code = least([ours(text, with_code) for _ in range(runs)])
    xla = decoders.xla(layers, is_training)
    propagate, shardy = least(
        [(propagation.ours(text)[0], propagation.shardy(text)) for _ in range(runs)]
    )
    return [
        kind,
        str(layers),
        str(text.count("\n")),
        f"{read:.2f}",
        f"{spmd:.2f}",
        *(f"{each:.2f}" for each in code),
        f"{xla:.2f}",
        f"{spmd / xla:.2f}",
        *(f"{each / xla:.2f}" for each in code),
        f"{propagate / shardy:.2f}",
    ]


def pass_row(kind: str, layers: int) -> list[str]:
    """The seconds of each pass of `--spmd`, and the most memory with it over that without."""
    text = decoders.decoder(layers, KINDS[kind])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "decoder.mlir")
        path.write_text(text)
        opt = [sys.executable, "-m", "shard_dialect.opt", str(path), "--spmd", "--mlir-timing"]
        timed = _run(opt)
        alone, with_passes = (_memory(path, pipeline) for pipeline in ("", "spmd"))
    times = {name: float(seconds) for seconds, name in _PASS.findall(timed.stderr)}
    ratio = f"{with_passes / alone:.1f}"
    return [kind, str(layers), *(f"{times.get(name, 0):.2f}" for name in PASSES), ratio]


def _memory(path: Path, pipeline: str) -> int:
    """The most memory of a process that reads a module, runs a pipeline, and prints it."""
    command = [sys.executable, "-c", _READ_AND_PRINT, str(path), pipeline]
    return int(_run(command).stdout)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=MOST_SECONDS
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--layers", type=int, nargs="+", default=[6, 24])
    parser.add_argument("--kinds", choices=list(KINDS), nargs="+", default=list(KINDS))
    parser.add_argument("--code", action="store_true", help="compile the result by our own code")
    parser.add_argument("--passes", action="store_true", help="the seconds of each pass instead")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    without_op_classes()
    each = [(kind, layers) for kind in options.kinds for layers in options.layers]
    if options.passes:
        head = ["program", "layers", *PASSES, "memory over opt's"]
        rows = [pass_row(*one) for one in each]
    else:
        row("forward", 1, 1, options.code)  # what is imported and loaded once
        code = ["our code"] if options.code else []
        head = ["program", "layers", "lines", "opt", "--spmd", *code, "XLA"]
        head += ["--spmd/XLA", *(f"{name}/XLA" for name in code), "propagate/Shardy"]
        rows = [row(*one, options.runs, options.code) for one in each]
    print(tabulate(rows, head, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
