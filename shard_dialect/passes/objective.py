"""What passes keep low, as their options say it: `objective=time device-model=h100`."""

from __future__ import annotations

from typing import Literal

from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.planner import BYTES, Prices


def prices_for(objective: Literal["bytes", "time"], device_model: str) -> Prices:
    """The prices of reshards and work. Raises `ShardError` for an unknown device model."""
    return Prices(DeviceModel.read(device_model)) if objective == "time" else BYTES
