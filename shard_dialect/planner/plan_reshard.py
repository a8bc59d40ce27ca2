"""The planner for users: shardings as they write them, and a device model by its name."""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.model.annotation import SplitAxes, sharding_on
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.model.grid import Grid
from shard_dialect.model.sharding import Sharding
from shard_dialect.planner.prices import BYTES, Prices
from shard_dialect.planner.reshard_plan import Plan, plan


def plan_reshard(
    source: Sharding | SplitAxes,
    target: Sharding | SplitAxes,
    shape: Sequence[int],
    grid: Grid,
    *,
    itemsize: int = 4,
    device_model: str | DeviceModel | None = None,
) -> Plan:
    """Return the cheapest collectives from one sharding of a tensor to another, without MLIR.

    Shardings are as for `scatter`; `itemsize` is the bytes of an element. Plans move the fewest
    bytes, or take the least time where there is a `device_model`. Raises `ShardError` for shardings
    that the tensor cannot have.

    >>> grid = Grid("g", (2, 2), axes=("data", "model"))
    >>> print(plan_reshard([["data"], []], [[], ["data"]], (8, 8), grid))
    all_to_all dim 0 to 1 axes [0]
    """
    rank = len(shape)
    ends = [sharding_on(grid, each, rank) for each in (source, target)]
    prices = BYTES if device_model is None else Prices(DeviceModel.read(device_model))
    return plan(*ends, tuple(shape), itemsize, grid, prices=prices)
