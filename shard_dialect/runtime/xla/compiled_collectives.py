"""Count the collectives of a program as we wrote it, and as XLA compiled it.

XLA may merge collectives, and drop those that it finds to be of no use.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.walk import walk

_KINDS = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-permute",
    "reduce-scatter",
)
_IN_HLO = re.compile(rf" ({'|'.join(_KINDS)})(?:-start)?\(")


@dataclass(frozen=True)
class CompiledCollectives:
    """How many of each kind there are; a loop's are counted once."""

    written: Mapping[str, int]
    compiled: Mapping[str, int]
    platform: str
    """What the devices are: "cpu", "gpu", "tpu"."""

    @classmethod
    def of(cls, module: ir.Operation, entry: str, hlo: str, platform: str) -> CompiledCollectives:
        """Count those of `entry` in a module of StableHLO, and those in XLA's text."""
        return cls(_written(module, entry), Counter(_IN_HLO.findall(hlo)), platform)

    def as_json(self) -> dict[str, object]:
        """Both counts, for `--json`."""
        counts = {"written": dict(self.written), "compiled": dict(self.compiled)}
        return {"platform": self.platform, **counts}

    def __str__(self) -> str:
        if self.written == self.compiled:
            return f"XLA ({self.platform}) runs these collectives: {_listed(self.compiled)}"
        return (
            f"XLA ({self.platform}) runs {_listed(self.compiled)}, where the program has "
            f"{_listed(self.written)}"
        )


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "none"


def _written(module: ir.Operation, entry: str) -> Counter[str]:
    functions = {name_of(op): op for op in functions_of(module)}
    found: Counter[str] = Counter()
    for op in walk(functions[entry]):
        kind = op.name.removeprefix("stablehlo.").replace("_", "-")
        if op.name == "func.call":
            found += _written(module, op.attributes["callee"].value)
        elif kind in _KINDS:
            found[kind] += 1
    return found
