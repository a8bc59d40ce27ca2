"""Compare a run with the unsharded program, and find the first op where they differ."""
