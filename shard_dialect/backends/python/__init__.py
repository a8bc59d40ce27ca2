"""Print programs as text other than MLIR: as Python."""

from __future__ import annotations
