"""The `mesh` dialect, which IRDL defines."""
