"""The dialects: their definitions, reading and verifying modules, and attributes <-> the model."""
