"""Hostile inputs, options and endings, drawn by number: what a program may be given by mistake.

    python -m tests.hostile.drawn_cases 0 400        try these, and print what is wrong with any

A case is a file (an example that is mangled, or none at all), options with values that fit or do
not, of each parser's own table, and a way in which the program's streams, disk or time end.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from shard_dialect.cli.flags import _parser as parser_of_opt
from shard_dialect.passes.framework.pass_table import pass_names
from shard_dialect.passes.pipelines import PIPELINES
from shard_dialect.prove import UNKNOWN
from tests.forks import Forks

ROOT = Path(__file__).parents[2]
PARSERS: dict[str, Callable[[], argparse.ArgumentParser]] = {
    "opt": lambda: parser_of_opt(""),
    "run": import_module("shard_dialect.run")._parser,
    "report": import_module("shard_dialect.report")._parser,
    "prove": import_module("shard_dialect.prove")._parser,
}
EXAMPLES = sorted((ROOT / "examples").glob("*.mlir"))
SECONDS = 5.0
"""The time of processors after which a program should have said what it does."""
ELAPSED = 60.0
"""The same on the clock, for a machine that does much besides."""
_LONGEST = 120.0
_UPSTREAM = ("canonicalize", "cse", "inline", "symbol-dce", "print-ir", "strip-debuginfo")
_TAKES_LONG = ("--auto", "--suggest", "--list-mutations", "--measure", "--reference-by", "--bisect")
"""Options that may take longer; all of them show progress."""
_LEFT_OUT = ("--debug", "--load-plugin", "--help", "-h")
"""Options that show tracebacks, or run a user's program, or more text than is looked at here."""


def text_of(rng: random.Random, folder: Path, choices: Sequence[str]) -> str:
    """A value for an option."""
    fitting = [*choices, *map(str, (0, 1, 2, 7)), "2x2", "x=[[0]]", "x", "main", "%0", "#1", "18"]
    paths = ["in.mlir", "old.txt", "new.txt", "folder", "folder/", "no/such", "/dev/null", "-"]
    paths += ["/dev/full", "old.txt/x", "x" * 300, "folder/../old.txt", "old.npz", "a.toml"]
    odd = [
        "",
        " ",
        "-1",
        "--",
        "=",
        "==",
        "[[",
        "]]",
        "{}",
        "{",
        "'",
        '"',
        "\\",
        "%",
        "%%",
        "@",
        "#",
    ]
    odd += ["\n", "\t", "\x1b[31m", "é☃\u202e", os.fsdecode(b"\xff\xfe"), "%s%n", "a=b", "=b", "a="]
    odd += [
        ",",
        ",,,",
        "x" * 5000,
        "9" * 400,
        "1e400",
        "-1e400",
        "nan",
        "inf",
        "0x10",
        "1_000",
        "²",
    ]
    odd += ["0x0", "1000000x1000000", "?x2", "2x", "x2", "-2x-2", "x=[[99]]", "x=[[0],[0],[0],[0]]"]
    odd += [
        "*=[[]]",
        "builtin.module(",
        "builtin.module(cse)",
        "func.func(cse)",
        "cse,,cse",
        "any(cse)",
    ]
    odd += [
        "grid=2x2",
        "seconds=-1",
        "seconds=0.1",
        "grid=0x0",
        "devices=99999999",
        "memory-limit=1B",
    ]
    kind = rng.random()
    if kind < 0.35:
        return rng.choice(fitting)
    if kind < 0.55:
        path = rng.choice(paths)
        return path if rng.random() < 0.8 else str(folder / path)
    return rng.choice(odd)


_NUMBERS = ("N", "SECONDS", "0|1")


def _fitting(rng: random.Random, action: argparse.Action) -> str:
    """A value that an option may take, by the name of its value."""
    if action.choices:
        return str(rng.choice([*action.choices]))
    if action.metavar in _NUMBERS:
        return rng.choice(("0", "1", "2", "30"))
    values = {
        "PASS": ("propagate", "partition", "cse"),
        "PASS,...": ("propagate", "cse,partition"),
        "PASS=PIPELINE": ("propagate=cse", "partition=canonicalize,cse"),
        "TEXT": ("builtin.module(spmd)", "builtin.module(propagate,func.func(cse))"),
        "FILE": ("new.txt", "new.npz", "in.mlir"),
        "FOLDER": ("new", "folder"),
        "NAME": ("main", "x", "h100"),
        "WHAT": ("x", "0", "x=[[0]]", "#1", "18"),
        "NAME=SHARDING": ("x=[[0]]", "*=[[]]"),
        "OPTIONS": ("seconds=1", "seconds=1,objective=bytes"),
        "VALUE": ("%0", "%3", "18"),
    }
    return rng.choice(values.get(str(action.metavar), ("2x2", "new.npz", "1")))


def options_of(rng: random.Random, program: str, folder: Path) -> list[str]:
    """Some options of the program's table, and passes of `opt`."""
    may_fit = rng.random() < 0.5
    actions = [
        action
        for action in PARSERS[program]()._actions
        if action.option_strings and not {*action.option_strings} & {*_LEFT_OUT}
    ]
    found: list[str] = []
    if program == "opt":
        for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
            name = rng.choice(("spmd", "spmd", "propagate", *pass_names(), *PIPELINES, *_UPSTREAM))
            options = ""
            if rng.random() < 0.15:
                value = text_of(rng, folder, ("true",))
                options = "=" + rng.choice((value, f"rank={value}", f"strategy={value}"))
            found.append(f"--{name}{options}")
    for _ in range(rng.choice((0, 0, 1, 1, 1, 2, 2, 3, 5))):
        action = rng.choice(actions)
        name = rng.choice(action.option_strings)
        if action.nargs == 0:
            found.append(name if rng.random() < 0.95 else f"{name}={text_of(rng, folder, ())}")
            continue
        choices = [str(each) for each in action.choices or ()]
        value = _fitting(rng, action) if may_fit else text_of(rng, folder, choices)
        if value in ("torch", "mpi", "mpi4py", "xla") and rng.random() < 0.9:
            value = choices[0]  # their imports take long
        joined = f"{name}={value}" if name.startswith("--") else f"{name}{value}"
        found += [joined] if rng.random() < 0.8 else [name, value]
        if rng.random() < 0.1:
            found.append(found[-1])
    rng.shuffle(found)
    return found


_NUMBER = re.compile(rb"\d+")
_WORD = re.compile(rb"[\w.]+|\S")


def _nested(rng: random.Random) -> bytes:
    count = rng.choice((50, 1000, 30_000))
    opened, closed = rng.choice(
        (
            ("module {\n", "}\n"),
            ("module attributes {a = [", "]} {}"),
            ("func.func @f() {\n", "return }\n"),
            ("(" * 10, ")" * 10),
            ("tensor<", ">"),
            ("#mesh.shard<", ">"),
            ("scf.execute_region {\n", "}\n"),
            ("loc(", ")"),
            ("/*", "*/"),
            ('"', '"'),
        )
    )
    return (opened * count + closed * count).encode()


def _changed(rng: random.Random, data: bytes, pattern: re.Pattern[bytes], new: bytes) -> bytes:
    matches = [*pattern.finditer(data)]
    if not matches:
        return data
    match = rng.choice(matches)
    return data[: match.start()] + new + data[match.end() :]


def _cut(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return rng.choice((data[:at], data[at:]))


def _with_bytes(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    odd = (b"\0", b"\xff", b"\xe2\x98\x83", b"\x1b[31m", b"\r", rng.randbytes(400))
    return data[:at] + rng.choice(odd) + data[at:]


def _marked(rng: random.Random, data: bytes) -> bytes:
    marks = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf" * 2, b"ML\xefR")
    return rng.choice(marks) + data


def _other_ends(rng: random.Random, data: bytes) -> bytes:
    return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\x0b", b" ")))


def _other_lines(rng: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    number = rng.randrange(len(lines))
    shuffled = rng.sample(lines, len(lines))
    kept = [*lines[:number], *lines[number + 1 :]]
    return b"".join(rng.choice((kept, kept, [*lines, lines[number]], shuffled)))


def _deep(rng: random.Random, data: bytes) -> bytes:
    return rng.choice((b"", data)) + _nested(rng)


def _next_to_nothing(rng: random.Random, data: bytes) -> bytes:
    return rng.choice((b"", b"\n", b"// nothing", b"{-#", b"shard.grid @g(shape = 2)", b"\0" * 99))


def _other_words(rng: random.Random, data: bytes) -> bytes:
    huge = [b"0", b"-1", b"9" * 30, b"9223372036854775807", b"4294967296", b"1000000007", b"1.5"]
    huge += [b"0x7fffffffffffffff", b"?", b"3"]
    words = _WORD.findall(data) or [b"x"]
    for _ in range(rng.choice((1, 1, 2, 4))):
        if rng.random() < 0.5:
            data = _changed(rng, data, _NUMBER, rng.choice(huge))
        else:
            data = _changed(rng, data, _WORD, rng.choice((rng.choice(words), b"", b"x")))
    return data


_MANGLES = (
    *(_cut, _with_bytes, _marked, _other_ends, _other_lines, _deep, _next_to_nothing),
    *((_other_words,) * 7),
)


def mangled(rng: random.Random, data: bytes) -> bytes:
    """The text of an example, changed in some way."""
    return rng.choice(_MANGLES)(rng, data)


Ending = tuple[str, float]
_ENDINGS = (
    *("stdin closed", "stdout closed", "stderr closed", "all closed", "reader gone", "stdout full"),
    *("stderr full", "small files", "no home", "interrupt", "interrupt", "terminate", "terminate"),
    *("hang up", "kill child"),
)


@dataclass(frozen=True)
class Case:
    """A program, with what it is given, and how it ends."""

    program: str
    arguments: tuple[str, ...]
    files: Mapping[str, bytes]
    """The files of its folder, and which of them it may not change."""
    ending: Ending | None
    links: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""

    def __str__(self) -> str:
        return f"{self.program} {shlex.join(self.arguments)[:1000]} ({self.ending})"


def draw(number: int, folder: Path) -> Case:
    """The case of this number, for a program that runs in `folder`."""
    rng = random.Random(number)
    program = rng.choice(("opt", "opt", "run", "report", "prove"))
    original = data = rng.choice(EXAMPLES).read_bytes()
    options = options_of(rng, program, folder)
    given, stdin = ["in.mlir"], b""
    ending: Ending | None = None
    kind = rng.random()
    if kind < 0.45:
        data = mangled(rng, data)
    if kind < 0.1:
        options = ["--spmd"] if program == "opt" else []
    elif rng.random() < 0.15:
        odd = ("folder", "no/such", "", "-", "old.txt", "loop", "dangling", "x" * 300, "/dev/null")
        odd += ("old.npz", "in.mlir/", "./in.mlir", "fifo", "a\nb.mlir", os.fsdecode(b"\xff.mlir"))
        given = [rng.choice(odd)]
        stdin = mangled(rng, data)
    elif rng.random() < 0.1:
        given = rng.choice(([], ["in.mlir", "in.mlir"], ["--", "in.mlir"], ["in.mlir", "folder"]))
    if program == "prove" and rng.random() < 0.9:  # it takes two files
        given.append(
            rng.choice(("in.mlir", "in.mlir", "original.mlir", "original.mlir", "old.txt"))
        )
        rng.shuffle(given)
    if rng.random() < 0.3:
        ending = (rng.choice(_ENDINGS), rng.random() * 2)
    arguments = [*given, *options] if rng.random() < 0.5 else [*options, *given]
    files = {"in.mlir": data, "old.txt": b"old", "old.npz": b"PK no", "folder/rank0.npz": b"old"}
    files |= {"a\nb.mlir": data, os.fsdecode(b"\xff.mlir"): data, "original.mlir": original}
    links = {"loop": "loop", "dangling": "no/such"}
    return Case(
        program, tuple(each.replace("\0", "") for each in arguments), files, ending, links, stdin
    )


def faults_of(case: Case, folder: Path, command: Sequence[str], **environment: str) -> list[str]:
    """What is wrong with how the program ends, in words; `command` starts it."""
    for name, data in case.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    for name, to in case.links.items():
        (folder / name).symlink_to(to)
    os.mkfifo(folder / "fifo")
    done = _Run(case, folder, [*command, *case.arguments], environment)
    return [*_faults(case, folder, done)]


class _Run:
    """A run of a program to its end."""

    def __init__(
        self, case: Case, folder: Path, command: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        kind, moment = case.ending or ("", 0.0)
        env = {**os.environ, "SHARD_DIALECT_PROGRESS": "", **environment}
        if kind == "no home":
            env = {each: env[each] for each in env if each not in ("HOME", "TMPDIR")}
            env |= {"HOME": "/no/such", "SHARD_DIALECT_CACHE": "/no/such"}
        closing = {"stdin closed": "<&-", "stdout closed": ">&-", "stderr closed": "2>&-"}
        closing |= {"all closed": "<&- >&- 2>&-", "stdout full": ">/dev/full"}
        closing |= {"stderr full": "2>/dev/full", "reader gone": "| true; exit ${PIPESTATUS[0]}"}
        script = f'"$@" {closing.get(kind, "")}'
        if kind == "small files":
            script = f"ulimit -f 0; {script}"
        is_plain = kind not in (*closing, "small files")
        shell = [] if is_plain else ["bash", "-c", script, "bash"]
        begun = time.monotonic()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        child = subprocess.Popen(
            [*shell, *command],
            cwd=folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        stop = threading.Event()
        feeding = threading.Thread(target=_feed, args=(folder / "fifo", case.stdin, stop))
        feeding.start()
        if kind in ("interrupt", "terminate", "hang up", "kill child"):
            threading.Thread(target=_end, args=(child, kind, moment)).start()
        self.is_over = True
        try:
            out, err = child.communicate(case.stdin, timeout=_LONGEST)
        except subprocess.TimeoutExpired:
            self.is_over = False
            os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
        stop.set()
        feeding.join()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.elapsed = time.monotonic() - begun
        self.status, self.out, self.err = child.returncode, out, err.decode(errors="replace")


def _feed(fifo: Path, data: bytes, stop: threading.Event) -> None:
    """Give whoever opens the pipe the data."""
    while not stop.wait(0.02):
        with suppress(OSError):
            pipe = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            os.set_blocking(pipe, True)
            with os.fdopen(pipe, "wb") as file:
                file.write(data)
            time.sleep(0.2)


def _end(child: subprocess.Popen[bytes], kind: str, moment: float) -> None:
    time.sleep(moment)
    number = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM, "hang up": signal.SIGHUP}
    with suppress(ProcessLookupError, ValueError):
        if kind in number:
            os.kill(child.pid, number[kind])
            return
        children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
        with suppress(OSError):
            for each in children.read_text().split():
                os.kill(int(each), signal.SIGKILL)


_ENDS = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM, "hang up": signal.SIGHUP}
_SAYS_NOTHING = ("stderr closed", "all closed", "stderr full", "reader gone", *_ENDS)


def _faults(case: Case, folder: Path, done: _Run) -> Iterator[str]:
    kind, moment = case.ending or ("", 0.0)
    err = done.err
    if not done.is_over:
        yield f"it does not end in {_LONGEST:.0f} s"
        return
    early = -_ENDS[kind] if kind in _ENDS else 0
    is_starting = kind in _ENDS and moment < 1 and "shard_dialect/" not in err
    if done.status not in (0, 1, early) and (case.program, done.status) != ("prove", UNKNOWN):
        yield f"its status is {done.status}"
    for word in ("Traceback", "internal error", "LLVM ERROR", "Segmentation", "core dumped"):
        if word in err and not is_starting:
            yield f"it says '{word}'"
    if done.status == 1 and not err.strip() and kind not in _SAYS_NOTHING:
        yield "it fails without a word"
    lines = err.splitlines()
    if (
        done.status == 1
        and lines
        and "error: " not in err
        and not is_starting
        and kind not in ("kill child", "reader gone")  # after the table of --mlir-timing, say
    ):
        yield "it does not say 'error'"
    if any(not line.expandtabs().isprintable() for line in lines):
        yield "it writes what is not printable"
    says_how_far = "note: after" in err or _may_take_long(case)
    if done.seconds > SECONDS and not says_how_far:
        yield f"it takes {done.seconds:.1f} s of the processor"
    if done.elapsed > ELAPSED and not says_how_far:
        yield f"it says nothing in {done.elapsed:.0f} s"
    yield from _harm(case, folder, done.status)


def _may_take_long(case: Case) -> bool:
    return any(each.startswith(_TAKES_LONG) for each in case.arguments)


def _harm(case: Case, folder: Path, status: int) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.name.endswith(".partial") and not (case.ending or ("",))[0].startswith("kill"):
            yield f"it leaves '{path.name}'"
    for name, data in case.files.items():
        path = folder / name
        if not path.is_file():
            yield f"'{name}' is gone"
        elif path.read_bytes() != data:
            if name.endswith(".mlir"):
                yield f"it has changed '{name}', which it reads"
            elif status and "crash-reproducer" not in " ".join(case.arguments):
                yield f"it has changed '{name}', though it fails"


def command_of(case: Case, forks: Forks) -> list[str]:
    """What starts the program; a fork where the end is not one of its process."""
    module = f"shard_dialect.{case.program}"
    is_plain = case.ending is None or case.ending[0] == "no home"
    return forks.commands[module] if is_plain else [sys.executable, "-m", module]


def main(first: int, count: int) -> int:
    """Try cases; return the number of those with a fault."""
    wrong = 0
    os.environ |= {"PYTHONPATH": str(ROOT), "SHARD_DIALECT_CACHE": "0"}
    with Forks() as forks:
        forks.start(os.environ)
        for number in range(first, first + count):
            with tempfile.TemporaryDirectory(prefix=f"case{number}-") as name:
                case = draw(number, Path(name))
                faults = faults_of(case, Path(name), command_of(case, forks))
            if faults:
                wrong += 1
                print(f"{number}: {case}\n    {'; '.join(faults)}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:])) else 0)
