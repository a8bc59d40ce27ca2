"""Run programs of the lowered form: compiled with MLIR, on devices of several kinds."""
