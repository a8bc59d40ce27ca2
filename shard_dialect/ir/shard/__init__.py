"""Upstream's `shard` dialect: its checks, its attributes and ops, and the model's values."""
