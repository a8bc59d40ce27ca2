"""Proofs that each device's program computes the unsharded program, for all inputs."""
