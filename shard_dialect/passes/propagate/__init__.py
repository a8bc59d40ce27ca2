"""From the annotated form to the propagated form."""
