"""Empty modules for dialects whose ops have no Python classes.

The bindings look for a dialect's module when they meet one of its ops, and if there is none, again
at the next op. Once they have found one they are done.
"""
