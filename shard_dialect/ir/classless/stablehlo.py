"""StableHLO, which comes with the bindings, but for its Python classes."""
