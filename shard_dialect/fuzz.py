"""`python -m shard_dialect.fuzz`: run random programs, sharded, against the unsharded ones.

    python -m shard_dialect.fuzz --seconds 600 --seed 1 --output failures

Each program (`shard_dialect.testing`) goes through each pipeline, and runs on devices in a child
process. A failure, be it a difference, a crash, a traceback or a hang, is shrunk and written to a
file. Prints what was covered; the exit status is 1 if something failed. A program that is refused
with a location is no failure: it is counted, and the smallest program for each message is also
written to a file. So is a program on which a judge crashes; the next judge then runs it. A seed
gives the same programs in the same order.
"""

from __future__ import annotations

from shard_dialect.processes import startup

startup.begin(__name__)

import argparse
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from tabulate import tabulate

from shard_dialect import __version__, plugins
from shard_dialect.cli.flags import Parser, add_debug, add_option, seconds_above_0, seed
from shard_dialect.cli.printing import guarded, write_output
from shard_dialect.errors import MissingExtra, ShardError, cannot, did_you_mean, say, shown

_missing: MissingExtra | None = None
try:
    import hypothesis
    from hypothesis.errors import HypothesisException
except ImportError:
    _missing = MissingExtra("hypothesis", "test")
    if __name__ != "__main__":  # the program says it once its arguments are read
        raise _missing from None
else:
    from shard_dialect.ir.context import make_context
    from shard_dialect.passes.framework.pipeline import described
    from shard_dialect.testing import Program, programs, runnable
    from shard_dialect.testing.check_program import Compiler
    from shard_dialect.testing.child_process import Child, Pipeline, Result
    from shard_dialect.testing.random_program import FEATURES

PIPELINES = (
    "spmd,lower",
    "spmd,chunk-products,overlap-collectives,lower",
    "spmd,optimize-collectives,overlap-collectives,lower",
    "sink-reshapes,propagate,materialize,share-collectives,sink-reductions{narrow=true},"
    "compute-on-slices,sink-gathers,raise-gathers,exchange-gathers,partition,lower",
    "propagate;split-reductions;shift-slices;materialize;optimize-collectives;partition;lower",
    "propagate{strategy=user-priority},canonicalize,cse,materialize,canonicalize,cse,partition,"
    "canonicalize,cse,lower",
)
"""At a `;`, the module is printed and parsed again."""
_TO_LOWERED = re.compile("[,;]lower$")
_PROGRAMS = 20
"""The number of programs in a round, one run of hypothesis."""
_RARE = 40
"""At least so many ops are favoured in a round: those that were drawn least before it."""
_SHRINKING = 60.0
"""The largest number of seconds to shrink a failure."""


_FEATURES = {
    "a second grid": re.compile(r"shard\.grid .*shard\.grid ", re.DOTALL),
    "devices in an order of their own": re.compile("device_ids"),
    "halos": re.compile("halo"),
    "shards at offsets": re.compile("offsets"),
    "stages on parts of the devices": re.compile("stage|sub_cluster"),
    "Shardy's annotations": re.compile(r"sdy\.sharding"),
    **{
        f"sdy.{op}": re.compile(rf"\bsdy\.{op}\b")
        for op in (
            *("all_gather", "all_slice", "all_to_all", "collective_permute", "all_reduce"),
            *("reduce_scatter", "sharded_to_unreduced", "replicated_to_unreduced", "reshard"),
            *("propagation_barrier", "constant", "data_flow_edge"),
        )
    },
    "annotations of some dimensions or axes": re.compile(r'"\?|\?\}|\? *\]|replicated='),
    "sub-axes": re.compile(r'":\(\d+\)\d+'),
    "parts of a mesh": re.compile('sub_cluster|mesh.mask|"small"'),
    "masks": re.compile(r"mesh\.mask"),
    "manual computations": re.compile("manual_computation"),
    "collectives of the RFC's": re.compile(r"mesh\.(all_|local_split|reduce_scatter|mask)"),
    "upstream's collectives": re.compile(r"shard\.(all_|scatter|gather|broadcast|send|shift)"),
    "roots and partners that are operands": re.compile(r"(root|source|destination) = \[%"),
    "maximal meshes": re.compile(r"#sdy.mesh<\[\], device_ids"),
}
"""Other properties of a program's text than its ops, beside those that its drawing knows."""


class _Failed(Exception):
    """A program failed, so that hypothesis shrinks it."""


class _OutOfTime(BaseException):
    """Ends hypothesis; no `Exception`, so that hypothesis does not catch it."""


@dataclass(slots=True)
class Failure:
    """The smallest program so far that ended with one outcome."""

    program: Program
    result: Result

    @property
    def size(self) -> tuple[int, int]:
        """The key to compare programs by: smaller is better."""
        return len(self.program.ops), len(self.program.text)


@dataclass(slots=True)
class Fuzzer:
    """Runs rounds of programs until the time is over."""

    child: Child
    pipelines: Sequence[Pipeline]
    names: Sequence[str]
    """The names of the ops to draw."""
    until: float
    most: float = math.inf
    """The largest number of programs."""
    output: Path = Path("fuzz-failures")
    """The directory for failures, which are written as they are found."""
    counts: Counter[str] = field(default_factory=Counter)
    """The number of programs by outcome."""
    ops: Counter[str] = field(default_factory=Counter)
    """The number of passed programs with each op."""
    drawn: Counter[str] = field(default_factory=Counter)
    collectives: Counter[str] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)
    """The number of drawn programs with each feature."""
    passed_with: Counter[str] = field(default_factory=Counter)
    judges: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Passed programs by their judge and whether they have floats of 16 bits."""
    refusals: Counter[str] = field(default_factory=Counter)
    refused: dict[str, Failure] = field(default_factory=dict)
    """The smallest refused program by the kind of its message."""
    failures: list[Failure] = field(default_factory=list)
    judges_died: list[Failure] = field(default_factory=list)
    """Programs by which a judge's process died, so that the next one judged them: no failures."""
    results: dict[str, Result] = field(default_factory=dict)
    """The results by the texts of programs."""
    known: set[tuple[str, str]] = field(default_factory=set)
    """Crashes and exceptions seen before, which are not shrunk again."""
    failure: Failure | None = None
    """The failure that is being shrunk, until `small_until`."""
    small_until: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether the time, or the number of programs, is used up."""
        return time.monotonic() > self.until or self.counts.total() >= self.most

    def run(self, seed: int) -> None:
        """Run rounds from `seed` on until it is over."""
        number = 0
        while not self.is_over:
            self._round(f"{seed}/{number}")
            number += 1

    @property
    def rare(self) -> list[str]:
        """The ops that were drawn least, which the next round is to favour."""
        counts = sorted(self.drawn[name] for name in self.names)
        return [name for name in self.names if self.drawn[name] <= counts[:_RARE][-1]]

    def _round(self, seed: str) -> None:
        settings = hypothesis.settings(
            max_examples=_PROGRAMS,
            database=None,
            deadline=None,
            phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
            suppress_health_check=list(hypothesis.HealthCheck),
            report_multiple_bugs=False,
            verbosity=hypothesis.Verbosity.quiet,
        )
        case = hypothesis.given(programs(self.names, self.rare))(self.case)
        self.failure = None
        with suppress(_Failed, _OutOfTime, HypothesisException):
            hypothesis.seed(seed)(settings(case))()
        self._keep()

    def _keep(self) -> None:
        """Record what the round has found."""
        if self.failure is not None:
            _write(self.failure, self.path("failure", len(self.failures)))
            self.failures.append(self.failure)
            self.known.add((self.failure.result.kind, self.failure.result.message_kind))
            say(shown(f"{self.failure.result.kind}: {self.failure.result.message_kind}"))

    def path(self, kind: str, number: int) -> Path:
        """The file for a program."""
        return self.output / f"{kind}-{number}.mlir"

    def case(self, program: Program) -> None:
        """Run one program; hypothesis calls it, also with smaller programs while it shrinks."""
        if self._fails(program) if self.failure is None else self._fails_too(program, self.failure):
            raise _Failed  # raised at one line only: hypothesis tells failures apart by their line

    def _fails(self, program: Program) -> bool:
        """Whether a program that was not drawn before fails with a new outcome."""
        if self.is_over:
            raise _OutOfTime
        if program.text in self.results:
            return False
        result = self.results[program.text] = self._run(program, self.pipelines)
        self._count(program, result)
        if not result.failed or (result.kind, result.message_kind) in self.known:
            return False
        self.failure = Failure(program, result)
        self.small_until = time.monotonic() + _SHRINKING
        return True

    def _run(self, program: Program, pipelines: Sequence[Pipeline]) -> Result:
        return self.child.run(program.text, pipelines, program.unsharded)

    def _fails_too(self, program: Program, failure: Failure) -> bool:
        """Whether the program fails as `failure` does; if it is smaller, it replaces `failure`."""
        if time.monotonic() > self.small_until:
            raise _OutOfTime
        result = self.results.get(program.text)
        if result is None:
            pipelines = [failure.result.pipeline] if failure.result.pipeline else self.pipelines
            result = self.results[program.text] = self._run(program, pipelines)
        if result.kind != failure.result.kind:
            return False
        smaller = Failure(program, result)
        if smaller.size < failure.size:
            self.failure = smaller
        return True

    def _count(self, program: Program, result: Result) -> None:
        self.counts[result.kind] += 1
        self.drawn.update(set(program.ops))
        found = [name for name, pattern in _FEATURES.items() if pattern.search(program.text)]
        found += program.features
        self.features.update(found)
        if result.kind == "passed":
            self.passed_with.update(found)
            self.ops.update(set(program.ops))
            self.collectives += result.collectives
            is_narrow = re.search(r"xb?f16|<b?f16", program.text) is not None
            self.judges[result.judge, "with bf16 or f16" if is_narrow else ""] += 1
        if result.judge_died:
            died = replace(result, detail=f"a judge died: {result.judge_died}")
            self.judges_died.append(Failure(program, died))
        if result.kind == "refused":
            self.refusals[result.message_kind] += 1
            failure = Failure(program, result)
            smallest = self.refused.setdefault(result.message_kind, failure)
            if failure.size < smallest.size:
                self.refused[result.message_kind] = failure

    def report(self) -> str:
        """The number of programs by outcome; ops, collectives and refusals, as text."""
        total = sum(self.counts.values())
        endings = ", ".join(f"{count} {kind}" for kind, count in sorted(self.counts.items()))
        missing = [name for name in self.names if not self.ops[name]]
        drawn_count = len(self.names) - len(missing)
        drawn = [(name, count, self.ops[name]) for name, count in sorted(self.drawn.items())]
        judged = [(*who, count) for who, count in sorted(self.judges.items())]
        names = [*_FEATURES, *FEATURES]
        featured = [(each, self.features[each], self.passed_with[each]) for each in names]
        undrawn = [name for name in self.names if not self.drawn[name]]
        sections = [
            _table(["op", "programs", "that passed"], drawn),
            _table(["collective", "in programs"], sorted(self.collectives.items())),
            _table(["programs with", "", "that passed"], featured),
            _table(["refused", "programs"], self.refusals.most_common()),
            _table(["judged by", "", "programs that passed"], judged),
            f"{total} programs: {endings or 'none'}",
            f"not judged by the first judge, whose process died: {len(self.judges_died)}",
            f"in those that passed: {drawn_count} of {len(self.names)} ops that have samples, and "
            f"{self.collectives.total()} collectives",
        ]
        sections.append(f"not drawn: {', '.join(undrawn) or 'none'}")
        failing = [name for name in missing if name not in undrawn]
        if failing:
            sections.append(f"drawn, and in none that passed: {', '.join(failing)}")
        return "\n\n".join(section for section in sections if section)


def _table(head: list[str], rows: Sequence[Sequence[object]]) -> str:
    return tabulate(rows, head, tablefmt="simple") if rows else ""


def _write(failure: Failure, path: Path) -> None:
    """Write the program, with the pipeline and the outcome."""
    result = failure.result
    lines = [f"{result.kind}: {result.detail.strip()}", f"pipeline: {';'.join(result.pipeline)}"]
    comment = "".join(f"// {line}\n" for each in lines for line in each.splitlines())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(comment + failure.program.text)
    except OSError as error:
        raise cannot("write", str(path), error) from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz with `arguments` (the command line's if none) and return the exit status."""
    startup.over()
    return guarded(lambda: _main(_parser().parse_args(arguments)))


def _refuse_unknown(pipeline: str) -> None:
    """Raise a `ShardError` for what is no pipeline."""
    with make_context():
        described(pipeline)


def _main(options: argparse.Namespace) -> int:
    if _missing is not None:
        raise _missing
    plugins.load(options.load_plugin)
    texts = options.pipeline or [
        _TO_LOWERED.sub("", each) if options.compiler else each for each in PIPELINES
    ]
    pipelines = [tuple(text.split(";")) for text in texts]
    for parts in pipelines:
        for text in parts:
            _refuse_unknown(text)
    names = [name for name in runnable() if any(fnmatch(name, each) for each in options.ops)]
    if not names:
        nearest = did_you_mean(options.ops[0], runnable())
        raise ShardError(f"no op that can be run is called {' or '.join(options.ops)}{nearest}")
    compiler: Compiler = options.compiler or "xla"
    with Child(options.timeout, options.load_plugin, compiler) as child:
        until = time.monotonic() + options.seconds
        fuzzer = Fuzzer(child, pipelines, names, until, options.programs, Path(options.output))
        fuzzer.run(options.seed)
    write_output(fuzzer.report() + "\n")
    written = {
        fuzzer.path(kind, number): each
        for kind, failures_found in (
            ("failure", fuzzer.failures),
            ("refused", fuzzer.refused.values()),
            ("judge-died", fuzzer.judges_died),
        )
        for number, each in enumerate(failures_found)
    }
    for path, each in written.items():
        if each not in fuzzer.failures:  # which are written already
            _write(each, path)
    rows = [
        [str(path), each.result.kind, len(each.program.ops), each.result.message_kind[:80]]
        for path, each in written.items()
    ]
    if rows:
        write_output("\n" + _table(["file", "ended", "ops", ""], rows) + "\n")
    if fuzzer.failures:
        failed = len(fuzzer.failures)
        raise ShardError(f"{failed} of the programs failed: see '{options.output}'")
    return 0


def _parser() -> Parser:
    parser = Parser("python -m shard_dialect.fuzz", __doc__)
    option = partial(add_option, parser)
    option("--seconds N", "how long to run (default: 60)", type=seconds_above_0, default=60)
    option("--programs N", "run at most so many programs", type=int, default=math.inf)
    option("--seed N", "the seed of the programs", type=seed, default=0)
    option(
        "--pipeline PIPELINE",
        "a pipeline to run programs through; may be repeated; ';' prints the module and reads "
        "it again; a program that is left in the local form runs by XLA, or --compiler",
        action="append",
    )
    option(
        "--compiler",
        "run the local form by XLA, or by torch as run --compiler=torch does (default: lower "
        "it and run our own code)",
        choices=("xla", "torch"),
    )
    option("--ops PATTERN", "draw only these ops, as 'tosa.*'", nargs="+", default=["*"])
    option("--output DIR", "the folder of failures", default="fuzz-failures")
    option("--timeout N", "seconds that a program may take", type=seconds_above_0, default=60)
    plugins.add_argument(parser)
    add_debug(parser)
    parser.add_argument("--version", action="version", version=f"shard-fuzz {__version__}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
