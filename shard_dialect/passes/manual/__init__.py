"""Manual computations: what propagation, materialization and partition do with them."""
