"""A plugin whose pass does nothing."""

from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.framework.pass_table import register_pass


@register_pass
class Idle(Pass):
    """Has no method."""

    name = "idle"
