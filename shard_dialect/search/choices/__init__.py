"""The choice of all shardings of a function at once, as an integer program."""
