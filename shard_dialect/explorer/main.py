"""The extension that Model Explorer loads: it looks for a module of this name.

    model-explorer --extensions=shard_dialect.explorer in.mlir

https://github.com/google-ai-edge/model-explorer/wiki/2.-User-Guide
"""

from __future__ import annotations

from typing import Any

from shard_dialect.errors import MissingExtra
from shard_dialect.explorer.graphs import graph_of_report, report_on_file

try:
    from model_explorer import Adapter, AdapterMetadata
except ImportError:
    raise MissingExtra("ai-edge-model-explorer", "explorer") from None


class ShardAdapter(Adapter):  # type: ignore[misc]  # the package ships no types
    """Shows what a sharded program computes, communicates and stores."""

    metadata = AdapterMetadata(
        id="shard_dialect",
        name="Shardings (shard_dialect)",
        description="Shardings, collectives with their reasons, and what ops cost each device",
        fileExts=["mlir"],
    )

    def convert(self, model_path: str, settings: dict[str, Any]) -> dict[str, list[Any]]:
        """The graph of the entry of a module in any form. Raises `ShardError`."""
        del settings  # Model Explorer has none for a file
        return {"graphs": [graph_of_report(report_on_file(model_path))]}
