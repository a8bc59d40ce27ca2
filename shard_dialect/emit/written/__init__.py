"""Parts of emitted programs, as they are written into these."""
