"""StableHLO, which the bindings have without Python classes."""
