"""Print programs as text other than MLIR: as Python."""
