"""XLA's own tests of its partitioner: right numbers, and bytes beside XLA's partition.

    python -m benchmarks.xla_tests XLA [--list] [--only Pad] [--keep FOLDER]

`XLA` is a checkout of https://github.com/openxla/xla, or its `spmd_partitioner_test.cc`. Each test
is a program in HLO, whose annotations are written as Shardy's (`gspmd_annotations`). Where its
tensors are small it is run on random inputs, and compared with the unsharded program. Where XLA
compiles it for CPUs, the bytes that a device moves by the cost model are compared with those of
GSPMD's partition of the test as it stands, whose all-reduce of which only a slice is read counts as
the reduce-scatter that it is on GPUs. "More" is by more than a tenth and 64 bytes. Where XLA's
partition moves fewer and is small, it is run, too, and not compared where its numbers are wrong.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf, prod
from pathlib import Path
from typing import Any

from tabulate import tabulate

from benchmarks import children
from benchmarks.tally import beside

FILE = "xla/service/spmd/spmd_partitioner_test.cc"
SMALL = 1 << 17
"""The most elements of a tensor of what is run."""
FEW_DEVICES = 16
_TEST = re.compile(r"^TEST_[PF]\(\s*\w+,\s*(\w+)\)", re.MULTILINE)
_TEXT = re.compile(r'R"\((.*?)\)"', re.DOTALL)
_DEVICES = re.compile(r"/\*num_devices=\*/\s*(\d+)")

Found = dict[str, Any]


@dataclass(frozen=True)
class Test:
    """A program of the file, and the devices that it is for."""

    name: str
    hlo: str
    devices: int


def tests_of(text: str) -> tuple[list[Test], list[str]]:
    """The tests that have one text in HLO, and the names of the others."""
    found, others = [], []
    starts = list(_TEST.finditer(text))
    ends = [each.start() for each in starts[1:]] + [len(text)]
    for start, end in zip(starts, ends, strict=True):
        body = text[start.end() : end]
        texts, devices = _TEXT.findall(body), _DEVICES.findall(body)
        if len(texts) == 1 and devices and "HloModule" in texts[0]:
            found.append(Test(start[1], texts[0], int(devices[0])))
        else:
            others.append(start[1])
    return found, others


def write(test: Test, folder: Path) -> Found:
    """Write the test as StableHLO, with GSPMD's annotations and with Shardy's."""
    from jaxlib import _hlo, _jax  # type: ignore[attr-defined]

    from benchmarks.gspmd_annotations import to_shardy

    module = _hlo.hlo_module_from_text(test.hlo)
    computation = _hlo.XlaComputation(module.as_serialized_hlo_module_proto())
    text = _jax.mlir.xla_computation_to_mlir_module(computation)
    _theirs(test, folder).write_text(text)
    _ours(test, folder).write_text(to_shardy(text, test.devices))
    sizes = re.findall(r"tensor<((?:\d+x)+)", text)
    return {"elements": max((prod(map(int, s[:-1].split("x"))) for s in sizes), default=1)}


def compile_peer(test: Test, folder: Path) -> Found:
    """The bytes that a device moves in XLA's partition."""
    from benchmarks import hlo, xla_peer

    compiled = xla_peer.compiled_as_said(_theirs(test, folder).read_text(), test.devices)
    (folder / f"{test.name}.hlo").write_text(compiled)
    tally = hlo.tally_of(compiled)
    if any("is not counted" in note for note in tally.notes):
        raise ValueError("; ".join(tally.notes))
    return {"theirs": tally.bytes_moved}


def count(test: Test, folder: Path) -> Found:
    """The bytes that a device moves in our partition."""
    from benchmarks import ours

    found = ours.count(_ours(test, folder))
    if found.tally is None:
        raise ValueError(found.error)
    return {"ours": found.tally.bytes_moved}


def check(test: Test, folder: Path) -> Found:
    """Whether all devices have the numbers of the unsharded program."""
    import shard_dialect as sd

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sd.ShardWarning)
        verdict = sd.compile(sd.parse(_ours(test, folder))).check()
    return {"right": verdict.passed, "why": "" if verdict.passed else str(verdict)}


def judge_peer(test: Test, folder: Path) -> Found:
    """Whether XLA's partition has the numbers of the unsharded program."""
    from benchmarks import xla_numbers

    return {"right": xla_numbers.is_right(_theirs(test, folder).read_text(), test.devices)}


def _ours(test: Test, folder: Path) -> Path:
    return folder / f"{test.name}.mlir"


def _theirs(test: Test, folder: Path) -> Path:
    return folder / f"{test.name}.gspmd.mlir"


STEPS: dict[str, Callable[[Test, Path], Found]] = {
    "write": write,
    "peer": compile_peer,
    "count": count,
    "check": check,
    "judge": judge_peer,
}


def found_by(step: str, test: Test, folder: Path) -> Found:
    """What a step finds of a test, or why it finds nothing."""
    try:
        return STEPS[step](test, folder)
    except Exception as error:  # XLA's, MLIR's and ours: each is a line of the table
        lines = [line for line in str(error).splitlines() if line.strip()]
        return {"refused": lines[0] if lines else type(error).__name__}


def in_children(step: str, tests: Sequence[Test], path: Path, folder: Path) -> list[Found]:
    """What a step finds of each test, by processes of their own."""

    def refused(why: str) -> Found:
        return {"refused": f"the process ended: {why}"}

    command = ["benchmarks.xla_tests", str(path), "--keep", str(folder), "--step", step]
    return list(children.in_children(command, [test.name for test in tests], refused))


def run(step: str, tests: Sequence[Test], path: Path, folder: Path, jobs: int) -> dict[str, Found]:
    """What a step finds of each test, by name."""
    parts = [tests[job::jobs] for job in range(jobs)]
    with ThreadPoolExecutor(jobs) as pool:
        found = pool.map(lambda part: in_children(step, part, path, folder), parts)
        return {
            test.name: each
            for part, several in zip(parts, found, strict=True)
            for test, each in zip(part, several, strict=True)
        }


def cause(text: str) -> str:
    """The first line of an error without places, names and numbers."""
    text = re.sub(r"^[\w./-]+:\d+:\d+:? |^\S+\.mlir:?\S* ", "", text)
    return re.sub(r"\d+", "N", re.sub(r"%\S+", "%", text))[:110]


def _print_causes(title: str, refused: dict[str, str], names: bool) -> None:
    by_cause: dict[str, list[str]] = {}
    for name, text in refused.items():
        by_cause.setdefault(cause(text), []).append(name)
    print(f"\n{title}" if by_cause else "")
    for text, named in sorted(by_cause.items(), key=lambda pair: -len(pair[1])):
        print(f"{len(named):5} {text}" + (f"  ({', '.join(named)})" if names else ""))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("xla", type=Path, help="a checkout of XLA, or the tests' file")
    parser.add_argument("--only", default="", help="only tests whose names have this text")
    parser.add_argument("--list", action="store_true", help="name tests that differ")
    parser.add_argument("--keep", type=Path, help="a folder for the programs and XLA's partitions")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--without", nargs="*", choices=["peer", "count", "check"], default=[])
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    path = given.xla / FILE if given.xla.is_dir() else given.xla
    tests, others = tests_of(path.read_text())
    if given.step:
        named = {test.name: test for test in tests}
        asked = (named[name] for name in children.asked())
        children.answer(found_by(given.step, test, given.keep) for test in asked)
        return
    tests = [test for test in tests if given.only in test.name]
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.keep or Path(temporary)).resolve()
        folder.mkdir(exist_ok=True)
        _print(tests, others, run_all(tests, path.resolve(), folder, given), given.list)


def run_all(
    tests: Sequence[Test], path: Path, folder: Path, given: argparse.Namespace
) -> dict[str, dict[str, Found]]:
    """What each step finds, by its name and the test's; XLA's partitions in a folder are read."""
    found = {"write": run("write", tests, path, folder, given.jobs)}
    written = [test for test in tests if "refused" not in found["write"][test.name]]
    small = [
        test
        for test in written
        if test.devices <= FEW_DEVICES and found["write"][test.name]["elements"] <= SMALL
    ]
    for step, some in (("peer", written), ("count", written), ("check", small)):
        kept = folder / f"{step}.json"
        if step in given.without:
            found[step] = json.loads(kept.read_text()) if kept.exists() else {}
        else:
            found[step] = run(step, some, path, folder, given.jobs)
            kept.write_text(json.dumps(found[step]))
    cheaper = [
        test
        for test in small
        if found["peer"][test.name].get("theirs", inf) < found["count"][test.name].get("ours", 0)
    ]
    found["judge"] = run("judge", cheaper, path, folder, given.jobs)
    return found


def _print(
    tests: Sequence[Test], others: Sequence[str], found: dict[str, dict[str, Found]], names: bool
) -> None:
    refused = {
        step: {name: each["refused"] for name, each in several.items() if "refused" in each}
        for step, several in found.items()
    }
    kinds = Counter(each["right"] for each in found["check"].values() if "right" in each)
    wrong_by_peer = [name for name, each in found["judge"].items() if each.get("right") is False]
    both = {
        test.name: (found["count"][test.name]["ours"], found["peer"][test.name]["theirs"])
        for test in tests
        if "ours" in found["count"].get(test.name, {})
        and "theirs" in found["peer"].get(test.name, {})
        and test.name not in wrong_by_peer
    }
    rows = [
        ["tests", len(tests) + len(others)],
        ["written as StableHLO", len(tests) - len(refused["write"])],
        ["run", len(found["check"])],
        ["right numbers", kinds[True]],
        ["wrong numbers", kinds[False]],
        ["refused by us", len(refused["count"])],
        ["refused by XLA", len(refused["peer"])],
        ["wrong numbers by XLA, which moves fewer bytes", len(wrong_by_peer)],
        ["compared", len(both)],
        *beside(both.values(), "XLA"),
    ]
    print(tabulate(rows, tablefmt="plain", intfmt=","))
    _print_causes("not written", refused["write"] | dict.fromkeys(others, "no HLO"), names)
    _print_causes("refused by us", refused["count"], names)
    _print_causes("not run by us", refused["check"], names)
    _print_causes("refused by XLA", refused["peer"], names)
    wrong = {
        name: each["why"] for name, each in found["check"].items() if each.get("right") is False
    }
    _print_causes("wrong numbers", wrong, names)
    if names:
        ranked = sorted(both.items(), key=lambda pair: pair[1][1] - pair[1][0])
        print("\nmore bytes, ours and XLA's")
        rows = [[name, *pair] for name, pair in ranked if pair[0] > pair[1]]
        print(tabulate(rows, tablefmt="plain", intfmt=","))


if __name__ == "__main__":
    main()
