"""Tensors that are too large to store are computed in blocks: `--blockwise-attention`."""
