"""Manual computations, through propagation, materialization and partition."""
