"""The helpers of emitted programs, whose text is written into these."""
