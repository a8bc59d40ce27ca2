"""Modules that are changed in place, as by torch's functions of these names."""
