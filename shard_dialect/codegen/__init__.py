"""Generate machine code for lowered functions: loops, elementary functions, BLAS."""
