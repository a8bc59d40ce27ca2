"""The sharding rules of upstream's dialects, one table a dialect."""
