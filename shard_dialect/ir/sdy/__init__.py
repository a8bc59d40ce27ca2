"""Shardy's `sdy` dialect: its attributes' text, its ops as MLIR reads them without knowing them."""
