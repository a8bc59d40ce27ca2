"""Sizes that a program leaves open, given and inferred."""
