"""From the distributed form to the local form."""
