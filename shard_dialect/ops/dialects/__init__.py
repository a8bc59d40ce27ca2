"""The sharding rules of upstream's dialects, one table per dialect."""
