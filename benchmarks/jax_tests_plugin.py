"""A plugin of pytest for JAX's own tests: `jax.jit` and `pjit` replaced where tests call them.

SHARD_DIALECT_JIT=ours replaces them by `sd.jax.jit`; otherwise calls are only counted. They are
replaced for `jax._src.test_util`, too, by which most tests of numbers compile what they compare.
Each line of the file SHARD_DIALECT_RESULTS is a test: its name, how it ended, whether it used them,
and the last line of its error.

SHARD_DIALECT_SAMPLE=0.05 keeps one test in twenty, drawn by SHARD_DIALECT_SEED and the test's name.
SHARD_DIALECT_SPREAD=1 gives the jitted functions their arguments split over 2x2 devices, each by
dimensions that its name and shape draw; what the tests compare stays as it was.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import zlib
from collections.abc import Callable, Generator
from functools import wraps
from typing import Any

import jax
import numpy as np
import pytest
from jax._src import api as api_module
from jax._src import pjit as pjit_module
from jax.experimental import pjit as pjit_api

from shard_dialect.jax import jit, pjit

_IS_OURS = os.environ.get("SHARD_DIALECT_JIT") == "ours"
_SAMPLE = float(os.environ.get("SHARD_DIALECT_SAMPLE", "1"))
_SEED = os.environ.get("SHARD_DIALECT_SEED", "0")
_IS_SPREAD = os.environ.get("SHARD_DIALECT_SPREAD") == "1"
_SECONDS = int(os.environ.get("SHARD_DIALECT_SECONDS", "0"))
"""A bound for each test, or 0."""
_CALLERS = "jax._src.test_util"
_USES = "uses"
_uses: list[str] = []


def _replaced(theirs: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is `ours` for callers in tests, and `theirs` for JAX itself."""

    @wraps(theirs)
    def chosen(*arguments: Any, **options: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if not caller.endswith("_test") and caller != _CALLERS:
            return theirs(*arguments, **options)
        _uses.append(theirs.__name__)
        made = (ours if _IS_OURS else theirs)(*arguments, **options)
        # Other options say where arguments lie, or which are no arrays.
        return _Spread(made) if _IS_SPREAD and arguments and not options else made

    return chosen


class _Spread:
    """A jitted function whose arguments are split over devices before each call."""

    def __init__(self, jitted: Any) -> None:
        self._jitted = jitted
        self._mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("a", "b"))

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        leaves, tree = jax.tree.flatten((arguments, keywords))
        # What the test itself has placed, or places by a mesh in context, stays there.
        if jax.sharding.get_abstract_mesh().empty and not any(map(_is_placed, leaves)):
            placed = [self._placed(number, each) for number, each in enumerate(leaves)]
            arguments, keywords = jax.tree.unflatten(tree, placed)
        return self._jitted(*arguments, **keywords)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jitted, name)

    def _placed(self, number: int, leaf: Any) -> Any:
        """An array as it is, but split by axes of the mesh that divide dimensions."""
        if not isinstance(leaf, np.ndarray | jax.Array):
            return leaf
        draw = random.Random(f"{_SEED} {number} {leaf.shape} {_names}")
        dims: list[tuple[str, ...]] = [()] * leaf.ndim
        for name in draw.sample("ab", 2):
            fits = [
                dim
                for dim, size in enumerate(leaf.shape)
                if size and size % (2 * 2 ** len(dims[dim])) == 0
            ]
            if fits and draw.random() < 0.9:
                chosen = draw.choice(fits)
                dims[chosen] = (*dims[chosen], name)
        spec = jax.sharding.PartitionSpec(*(each or None for each in dims))
        return jax.device_put(leaf, jax.sharding.NamedSharding(self._mesh, spec))


def _is_placed(leaf: Any) -> bool:
    if isinstance(leaf, jax.core.Tracer):
        return True
    return isinstance(leaf, jax.Array) and leaf.committed


_names: list[str] = []
"""The test that runs."""
jax.jit = _replaced(jax.jit, jit)
api_module.jit = jax.jit
pjit_module.pjit = pjit_api.pjit = _replaced(pjit_api.pjit, pjit)


def _late(*_: Any) -> None:
    raise TimeoutError(f"the test ran for over {_SECONDS} seconds")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def is_drawn(item: pytest.Item) -> bool:
        return zlib.crc32(f"{_SEED} {item.name}".encode()) < _SAMPLE * 2**32

    items[:] = filter(is_drawn, items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    _uses.clear()
    _names[:] = [item.name]
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(_SECONDS)
    try:
        return (yield)
    finally:
        signal.alarm(0)
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
