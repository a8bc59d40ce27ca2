"""Translate the local form to the lowered form."""
