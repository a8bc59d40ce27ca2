"""Finds shardings for what is not annotated: `opt --auto` and `sd.auto`."""
