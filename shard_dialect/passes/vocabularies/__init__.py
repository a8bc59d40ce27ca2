"""Reading and writing the three vocabularies: `mesh`, `shard` and `sdy`."""
