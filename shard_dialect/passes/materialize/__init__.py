"""From the propagated form to the distributed form."""
