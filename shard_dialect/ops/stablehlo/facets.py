"""How the records of StableHLO's ops name functions of other layers, which load them later."""

from __future__ import annotations

from typing import Any

from shard_dialect.ops.op_record import Later


def sample(name: str, *given: Any, file: str = "stablehlo") -> Later:
    """The facet that draws an instance of the op."""
    return Later(f"testing.samples.{file}_samples:{name}", given)


def python(name: str, file: str = "stablehlo_ops") -> Later:
    """The facet that writes the op in Python."""
    return Later(f"backends.python.ops.{file}:{name}")


def expansion(path: str, *given: Any) -> Later:
    """The facet that creates ops that upstream's passes lower."""
    return Later(f"passes.lower.expansions.{path}", given)
