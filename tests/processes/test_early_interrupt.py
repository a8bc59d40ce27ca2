"""A Ctrl-C that comes before a child can stop by itself waits until it can."""

import subprocess
import sys

from tests.conftest import ROOT

PROGRAM = """
import os, signal, time
from shard_dialect.processes.supervise import supervised
from shard_dialect.search.budget import Budget, stopped_by_signal

signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored in a test's processes

def work():
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(0.5)  # the parent passes it on
    budget = Budget()
    with stopped_by_signal(budget, lambda: True):
        print(budget.is_over, flush=True)
    return 0

raise SystemExit(supervised(work, stops_by_itself=True))
"""


def test_an_early_interrupt_waits_for_the_search() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.returncode) == ("True\n", 0)
    assert "note: --auto: stops" in done.stderr
