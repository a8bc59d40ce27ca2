"""What the prover says of random programs, right ones and ones with a fault.

    python -m tests.testing.proof_table --programs 1000

prints a table, of which docs/proof.md has the sums. A fault counts where its program is judged at
all, and where it changes what some device gives.
"""

import argparse
import time
import warnings
from collections import Counter
from random import Random
from typing import Any

import numpy as np
from tabulate import tabulate

import shard_dialect as sd
from shard_dialect.errors import ShardError, ShardWarning
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.proof.prove import Proof, prove
from shard_dialect.runtime.random_inputs import random_inputs
from shard_dialect.testing.random_program import Program, any_program
from tests.testing.faults import faults_in


def local(text: str) -> "ir.Module | None":
    """The program of each device; `None` where it is refused."""
    try:
        module = Source.of(text).parse()
        run_pipeline(module, "spmd,canonicalize,symbol-dce")  # a fault in what is unused is none
    except ShardError:
        return None
    return module


def with_fault(program: Program, seed: int) -> "tuple[str, Proof] | None":
    """A fault, drawn by the seed, and what the prover says of it; `None` if it changes nothing."""
    module = local(program.text)
    found = faults_in(module.operation) if module is not None else []
    if module is None or not found:
        return None
    fault = Random(seed).choice(found)
    fault.make()
    proof = prove(Source.of(program.unsharded or program.text).parse(), module)
    if proof.answer == "proven" and _give_the_same(program.text, module, seed):
        return None
    return fault.kind, proof


def _give_the_same(text: str, wrong: "ir.Module", seed: int) -> bool:
    """Whether the devices give what the program without the fault gives, up to rounding."""
    right = local(text)
    assert right is not None, "the fault is one in it"
    program = sd.compile(right)
    inputs = random_inputs([each.global_type for each in program.program.arguments], seed)
    try:
        a, b = as_tuple(program(*inputs)), as_tuple(sd.run(wrong, *inputs))
    except ShardError:
        return False
    return all(_close(x, y) for x, y in zip(a, b, strict=True))


def _close(x: "np.ndarray[Any, Any]", y: "np.ndarray[Any, Any]") -> bool:
    """Code that is compiled beside a fault may round otherwise."""
    if x.dtype.kind not in "fc":
        return x.tobytes() == y.tobytes()
    return bool(np.allclose(x, y, rtol=1e-5, atol=1e-6, equal_nan=True))


def as_tuple(results: object) -> "tuple[np.ndarray[Any, Any], ...]":
    listed = results if isinstance(results, tuple) else (results,)
    return tuple(np.asarray(each) for each in listed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ShardWarning)
    rows = dict[str, Counter[str]]()
    seconds = [0.0, 0.0]
    for seed in range(options.seed, options.seed + options.programs):
        program = any_program(Random(seed))
        with make_context():
            start = time.perf_counter()
            module = local(program.text)
            if module is None:
                continue
            between = time.perf_counter()
            right = prove(Source.of(program.unsharded or program.text).parse(), module)
            seconds[0] += between - start
            seconds[1] += time.perf_counter() - between
            rows.setdefault("none: right programs", Counter())[right.answer] += 1
            if right.answer == "refuted":
                print(f"seed {seed}: right, {right}")
            fault = with_fault(program, seed) if right.answer == "proven" else None
        if fault is not None:
            rows.setdefault(fault[0], Counter())[fault[1].answer] += 1
            if fault[1].answer == "proven":
                print(f"seed {seed}: {fault[0]}, {fault[1]}")
    answers = ("proven", "refuted", "unknown")
    print(
        tabulate(
            [[kind, *(count[each] for each in answers)] for kind, count in sorted(rows.items())],
            ["fault", *answers],
            "github",
        )
    )
    print(f"--spmd took {seconds[0]:.0f} s, the proofs of its output {seconds[1]:.0f} s")


if __name__ == "__main__":
    main()
