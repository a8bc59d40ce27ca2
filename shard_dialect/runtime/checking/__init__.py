"""Comparing a run with the unsharded program, and finding the op where they differ."""
