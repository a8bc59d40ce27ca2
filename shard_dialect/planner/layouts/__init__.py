"""The search for steps between layouts: shardings on numbered axes, without tensors and grids."""
