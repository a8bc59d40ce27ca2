"""Ops that passes build."""
