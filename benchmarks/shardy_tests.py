"""How far `propagate` agrees with Shardy on Shardy's own propagation tests.

    python -m benchmarks.shardy_tests SHARDY [--list] [--only basic_propagation]
    python -m benchmarks.shardy_tests SHARDY --invalid [--list]

`SHARDY` is a checkout of https://github.com/openxla/shardy, bare or not: its last commit is read.
Each function of each case, with the functions it calls, goes through Shardy's pipeline (jaxlib's)
and through ours, with the strategy that the test's file is about. The shardings of all values are
compared. A case is not comparable where one of the two refuses it, or where the two make different
ops of it. With `--invalid` it counts, of the modules in which Shardy's tests expect an error, those
that `--spmd` accepts.
"""

import argparse
import re
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import jax._src.interpreters.mlir as jax_mlir
from jaxlib.mlir import ir
from tabulate import tabulate

from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from tests.propagation.shardy import PIPELINE, Lying, compare

DIALECT = "shardy/dialect/sdy"
FOLDER = f"{DIALECT}/transforms/propagation/test"
SEPARATOR = "// -----"
STRATEGIES = {
    "aggressive_propagation": "aggressive",
    "basic_propagation": "basic",
    "op_priority_propagation": "op-priority",
    "sharding_group_propagation": "basic",
}
"""The strategy of a file, by how its name starts; of all others it is `user-priority`."""
PASSES = {
    "aggressive": "sdy-aggressive-propagate{propagation-strategy=aggressive}",
    "basic": "sdy-basic-propagate",
    "op-priority": "sdy-op-priority-propagate",
    "user-priority": "sdy-user-priority-propagate",
}
EDGES = ("sdy.data_flow_edge", "sdy.func_data_flow_edge")


@dataclass(frozen=True)
class Case:
    """A function of a test, as a module of its own in the generic form."""

    file: str
    name: str
    text: str

    @property
    def strategy(self) -> str:
        named = (each for start, each in STRATEGIES.items() if self.file.startswith(start))
        return next(named, "user-priority")

    @property
    def is_conservative(self) -> bool:
        """Whether the test's file runs conservative propagation."""
        return self.file.endswith("conservative")

    @property
    def pipeline(self) -> str:
        """Shardy's pipeline with the pass of the strategy, as the test's file runs it."""
        name = PASSES[self.strategy]
        if self.is_conservative:
            name += "{conservative-propagation=true}"
        return PIPELINE.replace(PASSES["user-priority"], name)

    def compare(self) -> tuple[list[tuple[Lying, Lying]], int]:
        """The values that differ, and how many there are; raises where it is not comparable."""
        try:
            return self._compare()
        except ir.MLIRError as error:  # cannot be sent to another process
            raise ValueError(str(error)) from None

    def _compare(self) -> tuple[list[tuple[Lying, Lying]], int]:
        conservative = " conservative=true" if self.is_conservative else ""
        ours = f"propagate{{strategy={self.strategy}{conservative}}}"
        return compare(self.text, ours, self.pipeline)


class _Worker:
    """A process that compares cases, started anew where one of Shardy's checks aborts it."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self.pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))

    def compare(self, case: Case) -> tuple[list[tuple[Lying, Lying]], int]:
        try:
            return self.pool.submit(Case.compare, case).result()
        except BrokenProcessPool:
            self._start()
            raise


@dataclass
class Tally:
    """What came of the cases of one file."""

    cases: int = 0
    comparable: int = 0
    wholly: int = 0
    values: int = 0
    same: int = 0
    differences: list[tuple[Case, Lying, Lying]] = field(default_factory=list)
    refused: list[tuple[Case, str]] = field(default_factory=list)

    def add(self, case: Case, worker: "_Worker") -> None:
        self.cases += 1
        try:
            differ, count = worker.compare(case)
        except Exception as error:  # Shardy's and ours: a case that one of the two refuses
            self.refused.append((case, str(error) or type(error).__name__))
            return
        self.comparable += 1
        self.wholly += not differ
        self.values += count
        self.same += count - len(differ)
        self.differences += [(case, *pair) for pair in differ]

    def row(self) -> list[object]:
        share = f"{self.same / self.values:.1%}" if self.values else ""
        return [self.cases, self.comparable, self.wholly, self.values, self.same, share]


def cases(checkout: Path, only: str) -> Iterator[Case]:
    for path in _git(checkout, "ls-tree", "--name-only", "HEAD", f"{FOLDER}/").split():
        name = Path(path).stem
        if path.endswith(".mlir") and "rule_registry" not in name and only in name:
            for text in _git(checkout, "show", f"HEAD:{path}").split(SEPARATOR):
                yield from _functions(name, text)


def _functions(file: str, text: str) -> Iterator[Case]:
    """Each function that no other one calls, with those that it calls."""
    with jax_mlir.make_ir_context():
        try:
            module = ir.Module.parse(text)
        except ir.MLIRError:
            return  # a test of the parser
        callees = {
            op.attributes["sym_name"].value: _callees(op.operation)
            for op in module.body.operations
            if op.operation.name == "func.func"
        }
        called = set().union(*callees.values()) if callees else set()
        for name in callees:
            if name in called:
                continue
            alone = ir.Module.parse(text)
            needed, waiting = {name}, [name]
            while waiting:
                new = callees.get(waiting.pop(), set()) - needed
                needed |= new
                waiting += new
            for op in list(alone.body.operations):
                if (
                    op.operation.name == "func.func"
                    and op.attributes["sym_name"].value not in needed
                ):
                    op.operation.erase()
            _remove_edges(alone)
            yield Case(file, name, alone.operation.get_asm(print_generic_op_form=True))


def _remove_edges(module: ir.Module) -> None:
    """Remove the edges without shardings, which the pipeline adds again."""
    edges = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in EDGES and "sharding" not in op.attributes:
            edges.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for edge in edges:
        edge.results[0].replace_all_uses_with(edge.operands[0])
        edge.erase()


def _callees(function: ir.Operation) -> set[str]:
    found = set()

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "func.call":
            found.add(op.attributes["callee"].value)
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    return found


def _git(checkout: Path, *arguments: str) -> str:
    command = ["git", "-C", str(checkout), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise SystemExit(f"error: '{checkout}' is no checkout of Shardy: {done.stderr.strip()}")
    return done.stdout


def invalid(checkout: Path, only: str) -> Iterator[tuple[str, str, str]]:
    """Each module in which a test expects an error: its file, the error, and its text."""
    for path in _git(checkout, "ls-tree", "-r", "--name-only", "HEAD", f"{DIALECT}/").split():
        if not path.endswith(".mlir") or only not in path:
            continue
        for text in _git(checkout, "show", f"HEAD:{path}").split(SEPARATOR):
            expected = re.search(r"expected-error[^{\n]*\{\{(.*)\}\}", text)
            if expected is not None:
                yield Path(path).stem, expected[1], text


def print_invalid(checkout: Path, only: str, *, lists: bool) -> None:
    """Print how many invalid modules are refused, by file; with `lists` those that are accepted."""
    refused: Counter[str] = Counter()
    accepted: list[tuple[str, str]] = []
    for file, error, text in invalid(checkout, only):
        try:
            with make_context(), warnings.catch_warnings(action="ignore"):
                run_pipeline(Source.of(text).parse(), "spmd")
        except ShardError:
            refused[file] += 1
        else:
            accepted.append((file, error))
    of_file = Counter(file for file, _ in accepted)
    rows = [[file, refused[file], of_file[file]] for file in sorted({*refused, *of_file})]
    rows.append(["all", refused.total(), len(accepted)])
    print(tabulate(rows, ["file", "refused", "accepted"], disable_numparse=True))
    for file, error in accepted if lists else ():
        print(f"{file}: {error}")


def kind_of(ours: Lying, theirs: Lying) -> str:
    """How a value's sharding differs: which side splits it further, if either does."""
    mine, other = (axes.replace(" ", "") for axes in (ours.axes, theirs.axes))
    whole = [text.replace("[]", "").strip("(),[]") == "" for text in (mine, other)]
    if whole[0]:
        return "only Shardy splits it"
    return "only ours splits it" if whole[1] else "both split it, otherwise"


def main() -> None:
    """Print the table, and with `--list` each difference and each case that is not comparable."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkout", type=Path, help="a checkout of Shardy")
    parser.add_argument("--only", default="", help="only files whose names have this text")
    parser.add_argument("--list", action="store_true", help="list what differs")
    parser.add_argument("--invalid", action="store_true", help="count invalid modules")
    options = parser.parse_args()
    if options.invalid:
        print_invalid(options.checkout, options.only, lists=options.list)
        return
    tallies: dict[str, Tally] = {}
    worker = _Worker()
    for case in cases(options.checkout, options.only):
        tally = tallies.setdefault(case.file, Tally())
        tally.add(case, worker)
    whole = [sum(column) for column in zip(*(t.row()[:5] for t in tallies.values()), strict=True)]  # type: ignore[call-overload]
    rows = [[name, *tally.row()] for name, tally in tallies.items()]
    rows.append(["all", *whole, f"{whole[4] / max(whole[3], 1):.1%}"])
    headers = ["file", "cases", "comparable", "agree wholly", "values", "agree", "share"]
    print(tabulate(rows, headers, disable_numparse=True))
    kinds = Counter(
        kind_of(ours, theirs) for t in tallies.values() for _, ours, theirs in t.differences
    )
    print("\n".join(f"{count} values: {kind}" for kind, count in kinds.most_common()))
    if options.list:
        for tally in tallies.values():
            for case, ours, theirs in tally.differences:
                print(f"{case.file} @{case.name}: {ours.what}: {ours.axes}, {theirs.axes}")
            for case, why in tally.refused:
                print(f"{case.file} @{case.name}: {why.splitlines()[0]}", file=sys.stderr)


if __name__ == "__main__":
    main()
