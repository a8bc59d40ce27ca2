"""Pages whose snippets want an extra are left out where it is missing."""

from tests.extras import missing

collect_ignore = ["torch.md"] if missing(["torch"]) else []
