"""A list of programs worked off by child processes: where one ends the process, another goes on."""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SECONDS = 60
"""A bound for one program."""


def in_children(
    command: Sequence[str], names: Sequence[str], died: Callable[[str], Any]
) -> Iterator[Any]:
    """What `python -m command` finds of each name; of one that ends the process, what `died` says.

    The child reads the names, a line each, and answers by `answer`.
    """
    left = list(names)
    while left:
        done = subprocess.run(
            [sys.executable, "-m", *command],
            input="\n".join(left),
            text=True,
            cwd=ROOT,
            capture_output=True,
            timeout=SECONDS * (len(left) + 1),
            check=False,
        )
        for line in done.stdout.splitlines():
            if line.startswith("["):
                left.pop(0)
                yield json.loads(line)[0]
        if left:
            left.pop(0)
            sys.stderr.write(done.stderr)
            is_late = "Timeout" in done.stderr
            yield died(f"over {SECONDS} seconds" if is_late else f"status {done.returncode}")


def asked() -> list[str]:
    """The names that a child is asked for."""
    return sys.stdin.read().splitlines()


def answer(found: Iterable[Any]) -> None:
    """Print what a child finds of each name, as it finds it, and end the process."""
    each = iter(found)
    while True:
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            value = next(each)
        except StopIteration:
            break
        print(json.dumps([value]), flush=True)
    os._exit(0)  # XLA's clients may wait for their threads
