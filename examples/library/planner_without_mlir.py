"""The planner alone: which collectives bring a tensor from one sharding to another. No MLIR.

    python examples/library/planner_without_mlir.py

A plan's steps use axes of `plan.grid`, which may be finer than the grid that is given.
"""

import sys
from typing import Any

import shard_dialect as sd

GRID = sd.Grid("mesh", (2, 4), axes=("data", "model"))
ENDS: list[tuple[Any, Any]] = [
    ([["data"], ["model"]], [["data"], []]),
    ([["data"], []], [[], ["data"]]),
    ([["data", "model"], []], [["model"], ["data"]]),
    (sd.Sharding("mesh", ((), ()), partial=(1,)), [["model"], []]),
]

if __name__ == "__main__":
    for source, target in ENDS:
        plan = sd.plan_reshard(source, target, (1024, 1024), GRID, itemsize=2)
        fast = sd.plan_reshard(source, target, (1024, 1024), GRID, itemsize=2, device_model="h100")
        print(f"{source} to {target}\n  {plan}: {plan.bytes_moved:,} bytes")
        assert fast.seconds is not None  # as it is without a device model
        assert fast.seconds < 1e-4
        print(f"  {fast}: {fast.seconds * 1e6:.1f} microseconds")
    assert not any("mlir" in each for each in sys.modules)
