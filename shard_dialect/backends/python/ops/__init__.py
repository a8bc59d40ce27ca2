"""The ops of each dialect in Python, one table a file."""

from __future__ import annotations
