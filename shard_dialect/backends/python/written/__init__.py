"""The helpers of emitted programs, whose text is written into these."""

from __future__ import annotations
