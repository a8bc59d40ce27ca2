"""What one `opt` call on a small file costs, beside `mlir-opt` where that is installed.

    python benchmarks/opt_startup.py [--runs 15] [--file examples/mlp_2d.mlir]

Both run as processes, in turn, on the same file; CPU seconds (user and system) are compared, the
minimum of the runs for each. `mlir-opt` (or `mlir-opt-22`) does not know the RFC's dialect and has
no propagate: it parses, runs `canonicalize` and prints, as the second of our rows does.
"""

import argparse
import resource
import shutil
import subprocess
import sys
from pathlib import Path

from tabulate import tabulate

ROOT = Path(__file__).parent.parent
OURS = [sys.executable, "-m", "shard_dialect.opt"]


def cpu_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, timeout=120)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--file", default="examples/mlp_2d.mlir")
    options = parser.parse_args()
    commands = {
        "shard-opt --spmd": [*OURS, options.file, "--spmd"],
        "shard-opt --canonicalize": [*OURS, options.file, "--canonicalize"],
        "python -c 'import numpy'": [sys.executable, "-c", "import numpy"],
    }
    peer = shutil.which("mlir-opt") or shutil.which("mlir-opt-22")
    if peer:
        commands["mlir-opt --canonicalize"] = [peer, options.file, "--canonicalize"]
    best = dict.fromkeys(commands, float("inf"))
    for _ in range(options.runs):
        for name, command in commands.items():
            best[name] = min(best[name], cpu_seconds(command))
    base = best["shard-opt --canonicalize"]
    rows = [[name, f"{seconds:.3f}", f"{seconds / base:.2f}"] for name, seconds in best.items()]
    print(tabulate(rows, ["command", "CPU s (min)", "over shard-opt --canonicalize"]))
    if not peer:
        print("mlir-opt is not installed: nothing to compare with")


if __name__ == "__main__":
    main()
