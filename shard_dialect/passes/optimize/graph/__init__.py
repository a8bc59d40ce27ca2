"""A function as a graph of Python objects, which passes rewrite."""
