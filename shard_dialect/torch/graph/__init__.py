"""From a torch module to StableHLO: as a function of tensors, as torch's graph, as MLIR."""
