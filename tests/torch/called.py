"""A function as a module."""

from collections.abc import Callable
from typing import Any

from torch import nn

import shard_dialect as sd

MESH = sd.Grid("mesh", (2, 2), ("a", "b"))


class Called(nn.Module):  # type: ignore[misc]
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)
