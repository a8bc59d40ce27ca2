"""`tensor` ops."""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.model import ShardingRule
from shard_dialect.rules.pointwise import elementwise
from shard_dialect.rules.query import Query

RULES: dict[str, Callable[[Query], ShardingRule | None]] = {
    "tensor.empty": elementwise,
}
