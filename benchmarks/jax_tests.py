"""JAX's own tests of `jit` with shardings, with `sd.jax.jit` in the place of `jax.jit`.

    git clone --branch jax-v0.10.2 https://github.com/jax-ml/jax
    python -m benchmarks.jax_tests jax
    python -m benchmarks.jax_tests jax --files pjit_test --select test_with_sharding
    python -m benchmarks.jax_tests jax --files linalg_test nn_test --sample 0.1 --spread

Runs the tests of the checkout by the JAX that is installed, on eight virtual CPU devices: once with
`jax.jit`, to see which pass and use it, and once with ours. With `--spread` the arguments of jitted
functions are split over 2x2 devices, so that tests of numbers on one device test partitions, too.
Needs pytest, pytest-xdist, absl-py.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

FILES = ("array_test", "pjit_test", "shard_map_test")
_OWN = Path(__file__).parent.parent
_CONFIG = "[pytest]\n"
Results = dict[str, dict[str, Any]]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="a checkout of JAX, of the installed version")
    parser.add_argument("--files", nargs="*", default=FILES)
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--select", help="pytest's -k")
    parser.add_argument("--keep", type=Path, help="a folder for the results, read where they are")
    parser.add_argument("--seconds", type=int, default=4 * 3600, help="a bound for one run")
    parser.add_argument("--sample", type=float, default=1.0, help="the part of the tests to draw")
    parser.add_argument("--seed", type=int, default=0, help="what the draw begins with")
    parser.add_argument("--cases", type=int, default=10, help="of each test that draws its cases")
    parser.add_argument("--spread", action="store_true", help="split arguments over 2x2 devices")
    parser.add_argument("--test-seconds", type=int, default=0, help="a bound for one test, or 0")
    parser.add_argument("--errors", type=int, default=20, help="how many causes to print")
    given = parser.parse_args(arguments)
    folder = given.keep or Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    theirs = run(given, "theirs", folder)
    ours = run(given, "ours", folder)
    counted = {name: each for name, each in theirs.items() if each["uses"] and passed(each)}
    print(f"jax {jax.__version__}, {', '.join(given.files)} of {version(given.checkout)}")
    good = [name for name in counted if name in ours and passed(ours[name])]
    print(f"{len(counted)} tests pass with jax.jit and use it; {len(good)} with sd.jax.jit")
    bad = {name: ours.get(name) for name in counted if name not in good}
    causes = Counter(cause(each) for each in bad.values())
    for text, count in causes.most_common(given.errors):
        print(f"{count:5} {text}")


def passed(result: dict[str, Any]) -> bool:
    return bool(result["outcome"] == "passed")


def cause(result: dict[str, Any] | None) -> str:
    """The first line of an error, without numbers."""
    if result is None:
        return "the process ended"
    lines = [line for line in result["error"].splitlines() if line.strip()] or ["skipped"]
    return re.sub(r"\d+", "N", lines[0])[:180]


def version(checkout: Path) -> str:
    """What git calls the checkout, or its path."""
    command = ["git", "-C", str(checkout), "describe", "--tags", "--always"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout.strip() or str(checkout)


def run(given: argparse.Namespace, which: str, folder: Path) -> Results:
    """The results of all tests, by name; kept ones are read."""
    results = folder / f"{which}.jsonl"
    if not results.exists():
        config = folder / "pytest.ini"
        config.write_text(_CONFIG)
        tests = [str(given.checkout.resolve() / "tests" / f"{each}.py") for each in given.files]
        options = ["-q", "-n", given.jobs, "--import-mode=importlib", "--tb=short"]
        options += ["-c", str(config), "--rootdir", str(given.checkout.resolve())]
        options += ["-p", "benchmarks.jax_tests_plugin", "-p", "no:cacheprovider"]
        options += ["-k", given.select] if given.select else []
        subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            env={
                **os.environ,
                "JAX_NUM_GENERATED_CASES": str(given.cases),
                "JAX_PLATFORMS": "cpu",
                "PYTHONPATH": os.pathsep.join([str(_OWN), os.environ.get("PYTHONPATH", "")]),
                "SHARD_DIALECT_JIT": which,
                "SHARD_DIALECT_RESULTS": str(results),
                "SHARD_DIALECT_SAMPLE": str(given.sample),
                "SHARD_DIALECT_SECONDS": str(given.test_seconds),
                "SHARD_DIALECT_SEED": str(given.seed),
                "SHARD_DIALECT_SPREAD": str(int(given.spread)),
                "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
            },
            stdout=subprocess.DEVNULL,
            check=False,
            timeout=given.seconds,
        )
    found = map(json.loads, results.read_text().splitlines())
    return {each["test"]: each for each in found}


if __name__ == "__main__":
    main()
