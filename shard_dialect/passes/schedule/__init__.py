"""Passes on the local form that schedule collectives: when each starts and ends."""
