"""Compilers of the local form: our own code for CPUs, XLA, and Python."""
