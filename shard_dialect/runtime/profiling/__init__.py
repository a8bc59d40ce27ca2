"""Profiles of the devices of a run: `run --profile`."""
