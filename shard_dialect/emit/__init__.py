"""Programs as text that is no MLIR."""
