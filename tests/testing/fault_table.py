"""What the check finds of programs that are wrong on purpose, and what it says of right ones.

    python -m tests.testing.fault_table --programs 300

prints the table of docs/testing.md. Programs are of several precisions
(`tests.programs.mixed_precision`); in each one fault is made that changes what any device gives
(`tests.testing.faults`).
"""

import argparse
import math
import random
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from tabulate import tabulate

from shard_dialect.abi.tensor_types import Array
from shard_dialect.errors import ShardWarning
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.checking.check import Verdict, check
from shard_dialect.runtime.checking.reference import Reference
from shard_dialect.runtime.communicators.world import InProcess
from shard_dialect.runtime.executable import Executable
from shard_dialect.runtime.random_inputs import random_inputs
from shard_dialect.testing import reference_of
from tests.programs.mixed_precision import mixed_program
from tests.testing.faults import faults_in


@dataclass(frozen=True)
class Trial:
    """A program with a fault, and what the check says of it."""

    seed: int
    kind: str
    """Empty: the program as it is."""
    place: str
    verdict: Verdict
    effect: float = 0.0
    """How far the results are from exact ones, as a multiple of how far the right ones are."""


def trials(seed: int, kinds: Counter[str]) -> Iterator[Trial]:
    """The program of a seed, right and then with one fault, of the kind that was seldom so far."""
    text = mixed_program(seed)
    reference = reference_of(text)
    inputs = random_inputs(reference.arguments, seed)
    right, verdict = _run(text, None, reference, inputs)
    yield Trial(seed, "", "", verdict)
    with make_context():
        found = [(each.kind, each.op_text) for each in faults_in(_local(text).operation)]
    order = list(range(len(found)))
    random.Random(seed).shuffle(order)
    for number in sorted(order, key=lambda n: kinds[found[n][0]]):
        wrong, verdict = _run(text, number, reference, inputs)
        if any(a.tobytes() != b.tobytes() for a, b in zip(right, wrong, strict=True)):
            effect = _effect(right, wrong, reference, inputs)
            yield Trial(seed, *found[number], verdict, effect)
            return


def _effect(
    right: "list[Array]", wrong: "list[Array]", reference: Reference, inputs: "list[Array]"
) -> float:
    true = reference.run_in_f64(inputs)
    if true is None:
        return math.nan
    ratios = []
    for a, b, exact in zip(right, wrong, true, strict=True):
        a, b, exact = (np.asarray(each, np.float64) for each in (a, b, exact))
        kept, other = (float(np.abs(each - exact).max()) for each in (a, b))
        ratios.append(other / kept if kept else math.inf if other else 0.0)
    return max(ratios)


def _local(text: str) -> ir.Module:
    module = Source.of(text).parse()
    run_pipeline(module, "spmd")
    return module


def _run(
    text: str, fault: "int | None", reference: Reference, inputs: "list[Array]"
) -> "tuple[list[Array], Verdict]":
    """The results of all devices, and what the check says of them."""
    with make_context():
        module = _local(text)
        if fault is not None:
            faults_in(module.operation)[fault].make()
        run_pipeline(module, "lower")
        executable = Executable(module, "main")
    program = executable.program
    world = InProcess(program.devices)
    outputs = world.run(executable, [program.scatter(inputs, rank) for rank in world.ranks])
    verdict = check(executable, reference, inputs, outputs, world)
    return program.gather(outputs), verdict


def table(programs: int, first: int) -> "tuple[str, list[Trial]]":
    made, missed, failed = Counter[str](), list[Trial](), list[Trial]()
    right, seed = 0, first
    while right < programs or made.total() < programs:
        for each in trials(seed, made):
            if not each.kind:
                right += 1
                failed += [] if each.verdict.passed else [each]
            elif made.total() < programs:
                made[each.kind] += 1
                missed += [each] if each.verdict.passed else []
        seed += 1
    not_found = Counter(each.kind for each in missed)
    rows = [[kind, count, count - not_found[kind]] for kind, count in sorted(made.items())]
    rows += [["all faults", made.total(), made.total() - len(missed)]]
    rows += [["none: right programs", right, len(failed)]]
    text = tabulate(rows, ["fault", "programs", "fail the check"], "github")
    return text, [*missed, *failed]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ShardWarning)
    text, others = table(options.programs, options.seed)
    print(text)
    for each in others:
        print(f"seed {each.seed}: {each.kind or 'right'}, {each.place}\n  {each.verdict}")
        if each.kind:
            print(f"  its results are {each.effect:.2g} times as far from exact as the right ones")


if __name__ == "__main__":
    main()
