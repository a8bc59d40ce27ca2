"""A sharding compiler for MLIR."""

__version__ = "0.1.0"
