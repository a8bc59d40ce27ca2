"""How fast programs run: ours over XLA, torch and DTensor, one thread a device, in one run.

    python -m benchmarks.run [mlp megatron:large ...] [--devices one|grid|both] [--markdown]
    python -m benchmarks.run --target xla|devices program.mlir ...

Each contender is a process, told in turn to run the program; the ratio is of medians: our time
over theirs, below 1 where we are faster. On one device it is CPU time, so that what else the
machine does counts little; on several it is time on the wall, collectives included, and a machine
with fewer cores than devices makes them wait for each other. What is not installed is left out.
All must compute the same. docs/compiling.md says more.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from threading import Timer
from typing import IO

import numpy as np
from tabulate import tabulate

from benchmarks import over_xla_partition
from benchmarks.run_programs import Program, chosen

ROOT = Path(__file__).parent.parent
PACKAGES = {"jax": "jax", "torch": "torch", "dtensor": "torch"}
SHOWN = {"ours": "ours", "jax": "XLA", "torch": "torch", "dtensor": "DTensor"}
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "JAX_TRACEBACK_FILTERING": "off",
}
MOST_SECONDS = 900.0
"""After which a contender is ended."""
SECONDS_A_TURN = 0.2
TOLERANCE = 2e-3


class Unable(Exception):
    """What a contender says where it cannot run a program."""


class Contender:
    """A worker process, ready to run one program."""

    def __init__(self, who: str, program: Program, devices: int, folder: Path) -> None:
        self.who, self.devices, self.folder = who, devices, folder
        flags = (
            f"--xla_cpu_multi_thread_eigen=false --xla_force_host_platform_device_count={devices}"
        )
        name = f"{program.name}:{program.size}"
        worker = ["benchmarks.run_worker", who, name, str(devices), str(folder)]
        launcher = [sys.executable, "-m"]
        if who == "dtensor":
            anywhere = ["--master-port=0", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"]
            launcher += ["torch.distributed.run", f"--nproc-per-node={devices}", *anywhere, "-m"]
        self.errors = (folder / f"{who}{devices}.err").open("w+")
        self.process = subprocess.Popen(
            [*launcher, *worker],
            cwd=ROOT,
            env={**os.environ, **ENVIRONMENT, "XLA_FLAGS": flags},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self._bound = Timer(MOST_SECONDS, self.process.kill)
        self._bound.daemon = True
        self._bound.start()
        self._reply()
        self.turns: list[dict[str, float]] = []
        self.count = 1
        self.count = max(1, int(SECONDS_A_TURN / self.turn()["wall"]))
        self.turns.clear()

    def turn(self) -> dict[str, float]:
        _pipe(self.process.stdin).write(f"{self.count}\n")
        _pipe(self.process.stdin).flush()
        self.turns.append(self._reply())
        return self.turns[-1]

    def seconds(self) -> float:
        return median(turn["cpu" if self.devices == 1 else "wall"] for turn in self.turns)

    def result(self) -> np.ndarray:
        return np.load(self.folder / f"{self.who}{self.devices}.npy")

    def close(self) -> None:
        _pipe(self.process.stdin).close()
        self.process.wait()
        self._bound.cancel()

    def _reply(self) -> dict[str, float]:
        line = _pipe(self.process.stdout).readline()
        if not line:
            self.process.wait()
            self.errors.seek(0)
            lines = self.errors.read().strip().splitlines()
            said = [each for each in lines if "Error" in each] or ["it was killed"]
            raise Unable(f"{SHOWN[self.who]}: {said[0].strip()}")
        return dict(json.loads(line))


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None, "workers talk through pipes"
    return pipe


@contextmanager
def contenders(program: Program, devices: int, peers: Sequence[str]) -> Iterator[list[Contender]]:
    """JAX first: it writes the program that ours reads."""
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        found: list[Contender] = []
        for who in ("jax", "ours", *(each for each in peers if each != "jax")):
            if who == ("torch" if devices > 1 else "dtensor"):
                continue
            if PACKAGES.get(who) == "torch" and not program.is_in_torch:
                continue
            try:
                found.append(Contender(who, program, devices, Path(folder)))
            except Unable as error:
                if who in ("jax", "ours"):
                    raise
                print(f"{program.name} on {devices} devices: {error}", file=sys.stderr)
                continue
            stack.callback(found[-1].close)
        yield found


def measure(program: Program, devices: int, peers: Sequence[str], rounds: int) -> list[str]:
    """The cells of a row: our time, and it over each peer's."""
    with contenders(program, devices, peers) as running:
        for _ in range(rounds):
            for each in running:
                each.turn()
        times = {each.who: each.seconds() for each in running}
        results = {each.who: each.result() for each in running}
    for who, result in results.items():
        worst = float(np.max(np.abs(result - results["ours"])))
        if not worst <= TOLERANCE * float(np.max(np.abs(result))):
            raise RuntimeError(
                f"{program.name}: {SHOWN[who]} computes something else ({worst:.3g})"
            )
    ratios = {who: f"{times['ours'] / seconds:.2f}" for who, seconds in times.items()}
    torch = ratios.get("torch", ratios.get("dtensor", "n/a"))
    return [f"{times['ours'] * 1e3:.3f}", ratios["jax"], torch]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", metavar="NAME[:SIZE]", help="by default all")
    parser.add_argument(
        "--target",
        choices=["xla", "devices"],
        help="files of StableHLO, which we partition and XLA or our own code compiles, over what "
        "XLA partitions",
    )
    parser.add_argument("--devices", choices=["one", "grid", "both"], default="both")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each contender")
    parser.add_argument("--markdown", action="store_true", help="print a table for documents")
    options = parser.parse_args()
    if importlib.util.find_spec("jax") is None:
        parser.error("the programs are written in JAX, which is not installed")
    if options.target is not None:
        paths = [Path(each) for each in options.programs]
        over_xla_partition.show(paths, options.target, options.rounds, options.markdown)
        return
    programs = chosen(options.programs)
    if not programs:
        parser.error(f"there is no program {' '.join(options.programs)}")
    peers = [who for who, package in PACKAGES.items() if importlib.util.find_spec(package)]
    rows = []
    for program in programs:
        sizes = {"one": [1], "grid": [program.devices], "both": [1, program.devices]}
        for devices in sizes[options.devices]:
            if program.name == "mlp_2d" and devices == 1:
                continue  # the same as the other
            cells = measure(program, devices, peers, options.rounds)
            rows.append([program.name, program.size, str(devices), *cells])
            if not options.markdown:
                print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    head = ["program", "size", "devices", "ours, ms", "over XLA", "over torch (DTensor)"]
    align = ("left", "left", "right", "right", "right", "right")
    style = "github" if options.markdown else "simple"
    print(tabulate(rows, head, tablefmt=style, disable_numparse=True, colalign=align))


if __name__ == "__main__":
    main()
