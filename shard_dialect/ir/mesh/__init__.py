"""Our `mesh` dialect: its definition, its attributes and ops, and the model's values."""
