"""A plugin whose pass names no op to run on."""

from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.framework.pass_table import register_pass


@register_pass
class Lost(Pass):
    """Runs nowhere."""

    name = "lost"
    anchor = "func"

    def rewrite(self, module: object) -> None:
        """Change nothing."""
