"""A plugin of pytest for JAX's own tests: `jax.jit` and `pjit` replaced where tests call them.

SHARD_DIALECT_JIT=ours replaces them by `sd.jax.jit`; otherwise calls are only counted. Each line of
the file SHARD_DIALECT_RESULTS is a test: its name, how it ended, whether it used them, and the last
line of its error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator
from functools import wraps
from typing import Any

import jax
import pytest
from jax._src import pjit as pjit_module
from jax.experimental import pjit as pjit_api

from shard_dialect.jax import jit, pjit

_IS_OURS = os.environ.get("SHARD_DIALECT_JIT") == "ours"
_USES = "uses"
_uses: list[str] = []


def _replaced(theirs: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is `ours` for callers in tests, and `theirs` for JAX itself."""

    @wraps(theirs)
    def chosen(*arguments: Any, **options: Any) -> Any:
        if not sys._getframe(1).f_globals.get("__name__", "").endswith("_test"):
            return theirs(*arguments, **options)
        _uses.append(theirs.__name__)
        return (ours if _IS_OURS else theirs)(*arguments, **options)

    return chosen


jax.jit = _replaced(jax.jit, jit)
pjit_module.pjit = pjit_api.pjit = _replaced(pjit_api.pjit, pjit)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    _uses.clear()
    try:
        return (yield)
    finally:
        item.user_properties.append((_USES, bool(_uses)))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ or (report.when != "call" and report.passed):
        return
    crash = getattr(report.longrepr, "reprcrash", None)
    line = {
        "test": report.nodeid.split("/")[-1],
        "outcome": report.outcome,
        _USES: dict(report.user_properties).get(_USES, False),
        "error": str(crash.message if crash else report.longrepr or "")[-1500:],
        "text": report.longreprtext[-6000:] if report.failed else "",
    }
    with open(os.environ["SHARD_DIALECT_RESULTS"], "a") as file:
        file.write(json.dumps(line) + "\n")
