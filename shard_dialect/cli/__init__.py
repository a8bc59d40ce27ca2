"""Flags, help, error output and verification options of the three command lines."""
