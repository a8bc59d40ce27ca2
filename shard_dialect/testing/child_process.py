"""Run cases in a child process, so that a crash of MLIR, or a hang, ends only the child."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

from shard_dialect import plugins
from shard_dialect.errors import ShardError, ShardWarning
from shard_dialect.runtime.checking.reference import JUDGES, Judge
from shard_dialect.testing.check_program import (
    Compiler,
    has_numbers_only,
    reference_of,
    run_and_check,
)

Kind = Literal["passed", "refused", "unstable", "wrong", "raised", "crashed", "hung"]
FAILURES: tuple[Kind, ...] = ("wrong", "raised", "crashed", "hung")
Pipeline = tuple[str, ...]
"""Its sections, with the module printed and parsed again in between."""
_VARYING = re.compile(r"\[[^\]]*\]|<[^>]*>|%\w+|@\w+|\d+")


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a program: passed, refused, or a failure, in which pipeline and why.

    "unstable" is a difference where the unsharded program itself returns infinities or NaNs.
    """

    kind: Kind
    detail: str = ""
    pipeline: Pipeline = ()
    collectives: Counter[str] = field(default_factory=Counter)
    judge: str = ""
    """The judge that ran the unsharded program."""
    judge_died: str = ""
    """How the process of a judge ended that compiled it before; the next judge was taken."""

    @property
    def failed(self) -> bool:
        """Whether the outcome is a failure."""
        return self.kind in FAILURES

    @property
    def message_kind(self) -> str:
        """The first line of `detail` without what differs from case to case.

        >>> Result("refused", "dimension 1 of size 5 does not divide by 2").message_kind
        'dimension N of size N does not divide by N'
        """
        first, *_ = self.detail.splitlines() or [""]
        return _VARYING.sub(lambda match: "N" if match[0].isdigit() else "..", first)


class Child:
    """A process that runs cases, and is restarted when a case has ended it.

    `timeout` is in seconds, for one case. `loaded` are the plugins to load in it. The compiler runs
    what a pipeline leaves in the local form.
    """

    def __init__(
        self, timeout: float, loaded: Sequence[str] = (), compiler: Compiler = "xla"
    ) -> None:
        self._timeout = timeout
        self._compiler = compiler
        self._plugins = tuple(loaded)
        self._folder = tempfile.TemporaryDirectory()
        self._errors = Path(self._folder.name) / "stderr"
        self._start()

    def _start(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._connection, other = spawn.Pipe()
        self._process = spawn.Process(
            target=_serve,
            args=(other, str(self._errors), self._plugins, self._compiler),
            daemon=True,
        )
        # An interrupt is for this process alone, also while the child imports.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._process.start()
        finally:
            signal.signal(signal.SIGINT, before)
        other.close()

    def run(self, text: str, pipelines: Sequence[Pipeline], unsharded: str = "") -> Result:
        """Run the program through each pipeline, up to the first that refuses it or fails.

        `unsharded` is the program to compare with, where it is not `text` without its shardings.
        """
        result, is_judged = self._once(text, pipelines, unsharded, None)
        died, others = result.detail, iter(JUDGES[1:])
        while result.kind == "crashed" and not is_judged:
            by = next(others, None)
            if by is None:  # no judge's fault: they all read the program with the same code
                return result
            result, is_judged = self._once(text, pipelines, unsharded, by)
            if not is_judged and result.kind == "raised" and by != JUDGES[-1]:
                by = JUDGES[-1]  # this one cannot run it
                result, is_judged = self._once(text, pipelines, unsharded, by)
            if is_judged:
                return replace(result, judge_died=died)
        return result

    def _once(
        self, text: str, pipelines: Sequence[Pipeline], unsharded: str, by: Judge | None
    ) -> tuple[Result, bool]:
        """The result with this judge, and whether it had compiled the unsharded program."""
        self._connection.send((text, tuple(pipelines), unsharded, by))
        is_judged, until = False, time.monotonic() + self._timeout
        try:
            while self._connection.poll(max(0.0, until - time.monotonic())):
                result: Result | None = self._connection.recv()
                if result is not None:
                    return result, is_judged
                is_judged = True
            result = Result("hung", f"not done after {self._timeout:g} s")
        except EOFError:
            self._process.join()
            code = self._process.exitcode or 0
            name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            result = Result("crashed", f"{name}\n{self._errors.read_text()[-4000:]}")
        self._end()
        self._start()
        return result, is_judged

    def _end(self) -> None:
        self._process.kill()
        self._process.join()
        self._connection.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._folder.cleanup()


def _serve(connection: Connection, errors: str, loaded: Sequence[str], compiler: Compiler) -> None:
    """The child: answers each case until the parent has gone."""
    with open(errors, "w") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=64")
    warnings.simplefilter("ignore", ShardWarning)
    plugins.load(loaded)
    if compiler == "torch":
        from shard_dialect.testing.emulated_distributed import compute_in_one_thread

        compute_in_one_thread()
    while True:
        try:
            text, pipelines, unsharded, by = connection.recv()
        except EOFError:
            return
        judged = partial(connection.send, None)
        connection.send(result_of(text, pipelines, compiler, unsharded, by, judged))


def result_of(
    text: str,
    pipelines: Sequence[Pipeline],
    compiler: Compiler = "xla",
    unsharded: str = "",
    by: Judge | None = None,
    judged: Callable[[], None] = lambda: None,
) -> Result:
    """Run the program through each pipeline, in this process.

    `judged` is called when the unsharded program is compiled.
    """
    collectives: Counter[str] = Counter()
    pipeline: Pipeline = ()
    try:
        reference = reference_of(unsharded or text, by)
        judged()
        for pipeline in pipelines:
            outcome = run_and_check(text, *pipeline, reference=reference, compiler=compiler)
            collectives += outcome.collectives
            if not outcome.verdict.passed:
                kind: Kind = "wrong" if has_numbers_only(reference) else "unstable"
                return Result(kind, outcome.verdict.failure, pipeline, collectives)
    except ShardError as error:
        if error.location is None:
            return Result("raised", f"an error without a place: {error}", pipeline)
        return Result("refused", error.message, pipeline)
    except Exception as error:  # any exception is reported
        frame = traceback.extract_tb(error.__traceback__)[-1]
        location = f"{Path(frame.filename).name}:{frame.lineno}"
        detail = f"{type(error).__name__} at {location}: {error}\n{traceback.format_exc()}"
        return Result("raised", detail, pipeline)
    return Result("passed", collectives=collectives, judge=reference.judge)
