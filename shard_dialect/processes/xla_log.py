"""What XLA writes to stderr."""

from __future__ import annotations

import os


def without_notices() -> None:
    """Let XLA tell of warnings and errors only; call it before anything of jaxlib is imported.

    It would tell of each device that it finds. What the user has set stays.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
