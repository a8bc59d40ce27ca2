"""Generate machine code for lowered functions: loops, elementary functions, BLAS."""

from __future__ import annotations
