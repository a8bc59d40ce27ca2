"""Check programs on every backend and launcher that is installed.

    python -m tests.runtime.everywhere examples/megatron.mlir folder/of/programs
    python -m tests.runtime.everywhere programs --with ompi/bin/python --only 'mpi*'

One line for each program and launch; `--with` adds the launchers beside other Pythons, another MPI
library's say. As many ranks are started as a program's grid has devices. The exit status is 1 if
any check fails.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from tests.conftest import ended, start_child
from tests.runtime.launching import Launch, launches


def main() -> int:
    options = _parser().parse_args()
    programs = list(_files(options.programs))
    if not programs:
        print("error: no programs are there", file=sys.stderr)
        return 1
    found = [each for python in [sys.executable, *options.others] for each in launches(python)]
    wanted = [each for each in _distinct(found) if fnmatch(each.name, options.only)]
    width = max(len(program.name) for program in programs)
    failures = 0
    for program in programs:
        ranks = _devices(program, options.timeout)
        for launch in wanted:
            begin = time.monotonic()
            said = _check(launch, program, ranks, options.timeout)
            failures += said != "passed"
            took = f"{time.monotonic() - begin:5.1f} s"
            head = f"{program.name:{width}}  {launch.name:18} {ranks or '?':>3} devices"
            print(f"{head}  {took}  {said}", flush=True)
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("programs", nargs="+", type=Path, help="files, or folders of .mlir files")
    parser.add_argument("--only", default="*", help="launches whose name is like this: 'mpi*'")
    parser.add_argument(
        "--with",
        dest="others",
        action="append",
        default=[],
        metavar="PYTHON",
        help="a Python beside which there are other launchers; may be repeated",
    )
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for each check")
    return parser


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.glob("*.mlir")) if path.is_dir() else [path]


def _distinct(found: Sequence[Launch]) -> list[Launch]:
    """One for each name: what is in one process is the same for any Python."""
    return list({each.name: each for each in reversed(found)}.values())[::-1]


def _devices(program: Path, timeout: float) -> int:
    """How many devices the program's grid has; 0 if it does not compile."""
    command = [sys.executable, "-m", "shard_dialect.run", str(program), "--json"]
    status, out, _ = _run(command, timeout)
    return int(json.loads(out)["devices"]) if status == 0 else 0


def _check(launch: Launch, program: Path, ranks: int, timeout: float) -> str:
    """ "passed", or why not."""
    run = ("-m", "shard_dialect.run", str(program), "--check", "--json")
    status, out, err = _run(launch.command(max(1, ranks), *run), timeout)
    if status == 0 and json.loads(out)["check"]["passed"]:
        return "passed"
    said = [line for line in err.splitlines() if "error: " in line] or err.splitlines()
    how = "hung" if status is None else f"status {status}"
    return f"FAILED, {how}: {said[0] if said else 'no word'}"


def _run(command: Sequence[str], timeout: float) -> tuple[int | None, str, str]:
    return ended(start_child(command, OMP_NUM_THREADS="1"), timeout)


if __name__ == "__main__":
    sys.exit(main())
