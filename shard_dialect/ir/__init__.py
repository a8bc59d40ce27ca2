"""The dialects: definitions, reading and checking modules, and model values <-> attributes."""
