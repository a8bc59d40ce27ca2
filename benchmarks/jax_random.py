"""Random JAX programs with `sd.jax.jit` in the place of `jax.jit`: numbers, shardings, bytes.

    python -m benchmarks.jax_random --programs 500 [--seed 0] [--list]
    python -m benchmarks.jax_random --programs 500 --door devices     as shard-run runs them, or xla
    python -m benchmarks.jax_random --programs 500 --door proof       what prove=True says of them
    python -m benchmarks.jax_random --programs 500 --door partition   what is of XLA's

The programs are those of `tests.testing.jax_program`, on two to eight virtual devices.
Numbers are equal within the rounding of a few operations. Bytes are what a device moves by the cost
model, in both as XLA has compiled them; "more" is by more than a tenth and 64 bytes. Beside them,
and also in both as XLA counts them: collectives, operations, and the temporary memory of a device.
"""

from __future__ import annotations

import argparse
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np
from tabulate import tabulate

from benchmarks import children
from benchmarks.tally import beside, is_more
from tests.testing.jax_program import JaxProgram

SHORT = ("wrong", "refused", "crashed", "unknown", "refuted")
"""Outcomes that are listed."""
COSTS = ("collectives", "operations", "bytes of memory")
"""What is compared beside the bytes that a device moves."""
TOLERANCE = 2e-4
"""Of the largest element: programs divide, and take roots and logarithms, of sums."""
Found = dict[str, Any]


def compared(program: JaxProgram, door: str = "jit") -> Found:
    """What becomes of the program by `sd.jax.jit`, or a backend of `sd.compile`, beside `jax.jit`.

    `outcome` is "equal", "wrong", "refused", or "no program" where `jax.jit` refuses it. Right are
    the numbers of `jax.jit` on one device, of its own partition, or of JAX op by op; "JAX differs"
    where these do.
    """
    import jax

    import shard_dialect as sd

    function, arrays = program.function(), program.arrays()
    finish: Callable[[Any], Any] = jax.block_until_ready
    shardings = program.out_shardings()
    given: Found = {} if not any(shardings) else {"out_shardings": shardings}
    if door == "proof":
        jitted: Any = sd.jax.jit(function, prove=True, **given)
        return proven(jitted, arrays, lambda: jitted.proof(*arrays))
    if door == "partition":
        jitted = jax.jit(function, **given)
        return proven(jitted, arrays, lambda: sd.jax.prove_partition(jitted, *arrays))
    try:
        unsplit = program.function(is_constrained=False)  # else XLA partitions this one, too
        whole = finish(jax.jit(unsplit)(*map(np.asarray, arrays)))
        theirs = jax.jit(function, **given).lower(*arrays).compile()
        split = finish(theirs(*arrays))
    except Exception as error:
        return {"outcome": "no program", "why": _first_line(error)}

    def verdict(results: Sequence[Any]) -> Found:
        why, why_split = differences(results, whole), differences(results, split)
        if not why and not why_split:
            return {"outcome": "equal", "why": ""}
        is_wrong = why and why_split and differences(results, unsplit(*map(np.asarray, arrays)))
        return {"outcome": "wrong" if is_wrong else "JAX differs", "why": why or why_split}

    try:
        lowered = sd.jax.jit(function, **given).lower(*arrays)
        if door != "jit":
            backend: Any = door
            compiled = sd.compile(sd.parse(sd.to_text(lowered)), backend)
            made = compiled(*map(np.asarray, arrays))
            return verdict(made if isinstance(made, tuple) else (made,))
        ours = lowered.compile()
        results = finish(ours(*arrays))
    except Exception as error:
        return {"outcome": "refused", "why": _first_line(error)}
    made = zip(results, split, shardings, strict=True)
    open_ = [(a, b) for a, b, asked in made if asked is None]
    return {
        **verdict(results),
        "other shardings": sum(
            not a.sharding.is_equivalent_to(b.sharding, a.ndim) for a, b in open_
        ),
        "ours": _costs(ours),
        "theirs": _costs(theirs),
    }


def proven(function: Any, arrays: Sequence[Any], prove: Callable[[], Any]) -> Found:
    """The answer of the proof is the outcome; "no program" where `jax.jit` refuses it, too."""
    try:
        function.lower(*arrays)
    except Exception as error:
        return {"outcome": "no program", "why": _first_line(error)}
    try:
        proof = prove()
    except Exception as error:
        return {"outcome": "refused", "why": _first_line(error)}
    return {"outcome": proof.answer, "why": proof.reason}


def differences(results: Sequence[Any], expected: Sequence[Any]) -> str:
    """How results differ from JAX's; empty where they are equal."""
    found = (difference(*pair) for pair in zip(results, expected, strict=True))
    return "; ".join(filter(None, found))


def difference(result: Any, expected: Any) -> str:
    """How a result differs from JAX's; empty where it is equal."""
    if (result.shape, result.dtype) != (expected.shape, expected.dtype):
        return f"{result.dtype}{result.shape} for {expected.dtype}{expected.shape}"
    if getattr(result, "weak_type", expected.weak_type) != expected.weak_type:
        return f"weak_type {result.weak_type}"
    ours, theirs = (np.asarray(each) for each in (result, expected))
    if ours.dtype.kind not in "fc":
        differ = np.sum(ours != theirs)
        return f"{differ} of {ours.size} elements differ" if differ else ""
    finite = np.abs(theirs[np.isfinite(theirs)])
    largest = max(1.0, float(finite.max(initial=0)))
    if np.allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE * largest, equal_nan=True):
        return ""
    error = np.nanmax(np.abs(ours - theirs))
    return f"off by {error:.2g}, where the largest element is {largest:.2g}"


def _costs(compiled: Any) -> dict[str, int]:
    """What a device does, of a program that XLA has compiled: by name, a number."""
    from benchmarks import hlo

    tally = hlo.tally_of(str(compiled.as_text()))
    return {
        _BYTES: tally.bytes_moved,
        "collectives": tally.count.total(),
        "operations": int(compiled.cost_analysis().get("flops", 0)),
        "bytes of memory": compiled.memory_analysis().temp_size_in_bytes,
    }


_BYTES = "bytes"


def _over(name: str, found: Collection[Found]) -> Iterator[list[str | int]]:
    """The rows of a table: the sums of a cost, and how many programs have over 5% more of it."""
    pairs = [(each["ours"][name], each["theirs"][name]) for each in found]
    yield [f"{name} in all, ours", sum(own for own, _ in pairs)]
    yield [f"{name} in all, JAX's", sum(other for _, other in pairs)]
    yield [f"more {name}, by 5%", sum(own > 1.05 * other for own, other in pairs)]


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:300]


def in_children(seeds: range, door: str) -> Iterator[tuple[int, Found]]:
    """What becomes of each seed; XLA may end the process."""

    def crashed(why: str) -> Found:
        return {"outcome": "crashed", "why": why}

    command = ["benchmarks.jax_random", "--child", "--door", door]
    return zip(seeds, children.in_children(command, [*map(str, seeds)], crashed), strict=True)


def _child(door: str) -> None:
    import shard_dialect as sd

    warnings.simplefilter("ignore", sd.ShardWarning)
    children.answer(compared(JaxProgram(int(seed)), door) for seed in children.asked())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--door", choices=["jit", "devices", "xla", "proof", "partition"], default="jit"
    )
    parser.add_argument("--list", action="store_true", help="name the programs that fall short")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ |= {"XLA_FLAGS": f"{flags} --xla_force_host_platform_device_count=8"}
    os.environ |= {"JAX_PLATFORMS": "cpu"}
    seeds = range(options.seed, options.seed + options.programs)
    if options.child:
        _child(options.door)
        return
    found = dict(in_children(seeds, options.door))
    outcomes = Counter(each["outcome"] for each in found.values())
    both = {seed: each for seed, each in found.items() if "ours" in each}
    rows = [
        *outcomes.most_common(),
        ["a result has another sharding", sum(bool(e["other shardings"]) for e in both.values())],
        *beside([(each["ours"][_BYTES], each["theirs"][_BYTES]) for each in both.values()], "JAX"),
        *[row for name in COSTS for row in _over(name, both.values())],
    ]
    print(tabulate(rows, tablefmt="plain", intfmt=","))
    causes = Counter(
        f"{each['outcome']}: {re.sub(r'[0-9]+', 'N', each['why'])}"
        for each in found.values()
        if each["outcome"] in SHORT
    )
    for text, count in causes.most_common() if options.list else ():
        print(f"{count:5} {text}")
    for seed, each in found.items() if options.list else ():
        if each["outcome"] in SHORT:
            print(JaxProgram(seed).source())
            print(f"--seed {seed} --programs 1: {each['outcome']}: {each['why']}")
        elif each.get("other shardings"):
            print(f"--seed {seed} --programs 1: a result has another sharding")
        elif seed in both:
            own, other = each["ours"], each["theirs"]
            more = [name for name in COSTS if own[name] > 1.05 * other[name]]
            if is_more(own[_BYTES], other[_BYTES]):
                more.insert(0, _BYTES)
            for name in more:
                print(f"--seed {seed} --programs 1: {own[name]:,} {name} over {other[name]:,}")


if __name__ == "__main__":
    main()
