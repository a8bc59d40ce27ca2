"""Searches for shardings, and mutations."""
