"""Passes on the local form: when each collective starts and ends."""
