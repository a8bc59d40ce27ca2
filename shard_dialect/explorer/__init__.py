"""Programs in Model Explorer: `model-explorer --extensions=shard_dialect.explorer in.mlir`."""
