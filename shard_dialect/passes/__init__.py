"""The passes, one a file: a pass's name, its module and its class agree.

    optimize-collectives    passes/optimize_collectives.py    OptimizeCollectives

Beside them stand what several share (`base`, `pipeline`) and parts of larger ones: `facts` of
propagate; `choice` and `versions` of materialize; `consistency` of partition.
"""

from __future__ import annotations

if __name__ != "shard_dialect.passes":
    raise ImportError("import this package as shard_dialect.passes, not through the link to it")

from importlib import import_module

from shard_dialect.passes.base import Pass

PASSES = (
    "propagate",
    "materialize",
    "optimize-collectives",
    "partition",
    "lower",
    "erase-sharding",
)
"""Our passes, in the order of the forms that they go through; the last goes back to the start."""

PIPELINES = {"spmd": PASSES[:4]}
"""Names for several passes in a row."""


def pass_class(name: str) -> type[Pass]:
    """The class of the pass called `name`; its module is imported when it is asked for."""
    module = import_module(f"shard_dialect.passes.{name.replace('-', '_')}")
    found: type[Pass] = getattr(module, "".join(part.title() for part in name.split("-")))
    return found


__all__ = ["PASSES", "PIPELINES", "Pass", "pass_class"]
