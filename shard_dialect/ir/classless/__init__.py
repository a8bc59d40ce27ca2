"""Empty modules for dialects whose ops have no Python classes.

The bindings look for a dialect's module at the dialect's first op. If they find none, they look
again at each further op.
"""
