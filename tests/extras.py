"""What tests want beyond `.[test]`, by extra, so that a run can say what it left out and why.

A test says so with `@needs("jax")`; the last lines of a run then read

    skipped without [jax]: 123 tests; pip install -e '.[jax]'
"""

import importlib.util
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from tests.runtime.launching import launches

_BRINGS = {
    "accelerate": "accelerate",
    "browser": "playwright",
    "dev": "pyright",
    "examples": "flax",
    "explorer": "model_explorer",
    "jax": "jaxlib",
    "mpi": "mpi4py",
    "notebooks": "nbclient",
    "torch": "torch",
}
"""A module that comes with each extra."""
_OF_FEATURE = {"jaxlib": "jax", "mpi": "mpi", "mpi4py": "mpi", "torch": "torch"}
"""The extra behind each of lit's features."""
_OF_BACKEND = {"mpi": "mpi", "mpi4py": "mpi", "torch": "torch"}
_WITHOUT = re.compile(r"without \[([\w,]+)\]")
LEFT_OUT = "skipped by lit"
"""The property in which the lit suite's test tells of its own files."""


def missing(extras: Iterable[str]) -> str:
    """Those of `extras` that are not installed: "jax,mpi"."""
    return ",".join(each for each in extras if importlib.util.find_spec(_BRINGS[each]) is None)


def needs(*extras: str) -> pytest.MarkDecorator:
    """The mark of a test that wants all of `extras`."""
    wanted = missing(extras)
    return pytest.mark.skipif(bool(wanted), reason=f"without [{wanted}]")


def mark(items: Iterable[pytest.Item]) -> None:
    """Mark as `extra` the tests that an environment without some extra skips.

    A test that finds that out while it runs calls `skip_without`, which its module imports.
    """
    for item in items:
        module = getattr(item, "module", None)
        reasons = [each.kwargs.get("reason", "") for each in item.iter_markers("skipif")]
        if any(each.startswith("without [") for each in reasons) or hasattr(module, "skip_without"):
            item.add_marker(pytest.mark.extra)


def skip_without(extra: str) -> None:
    """Skip a test that found out while it ran that it wants what `extra` brings."""
    pytest.skip(f"without [{extra}]")


def launched(*backends: str) -> list[ParameterSet]:
    """Parameters: each launcher of `backends`, skipped where it is not installed."""
    found = launches()
    return [
        parameter
        for backend in backends
        for parameter in (
            [pytest.param(each, id=each.name) for each in found if each.backend == backend]
            or [pytest.param(None, id=backend, marks=needs(_OF_BACKEND[backend]))]
        )
    ]


def of_features(features: Iterable[str]) -> str:
    """What is missing for a lit file that requires `features`."""
    return missing(sorted({_OF_FEATURE[each] for each in features}))


def summary(skipped: Iterable[Any], passed: Iterable[Any]) -> list[str]:
    """A line for each extra and each other reason for which tests were skipped, from reports."""
    extras: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for report in skipped:
        reason = str(report.longrepr[2]).removeprefix("Skipped: ")
        match = _WITHOUT.fullmatch(reason)
        (extras if match else others)[match[1] if match else reason] += 1
    for report in passed:
        for name, value in report.user_properties:
            if name == LEFT_OUT:
                extras[value] += 1
    return [
        *(
            f"skipped without [{each}]: {_tests(count)}; pip install -e '.[{each}]'"
            for each, count in sorted(extras.items())
        ),
        *(f"skipped: {_tests(count)}; {reason}" for reason, count in sorted(others.items())),
    ]


def _tests(count: int) -> str:
    return f"{count} test{'' if count == 1 else 's'}"
