"""The helper functions of emitted programs as text: those that a program uses."""

from __future__ import annotations

import ast
import builtins
from functools import cache
from pathlib import Path

from shard_dialect.backends.python.writer import Target
from shard_dialect.model.reached import reached

_STANDARD = {
    "argparse": "import argparse",
    "contextlib": "import contextlib",
    "functools": "import functools",
    "math": "import math",
    "os": "import os",
    "Callable": "from collections.abc import Callable",
    "Iterable": "from collections.abc import Iterable",
    "Sequence": "from collections.abc import Sequence",
    "dataclass": "from dataclasses import dataclass",
    "timedelta": "from datetime import timedelta",
    "Any": "from typing import Any",
}
_OTHERS = {
    "mpi4py": {
        "ml_dtypes": "import ml_dtypes",
        "np": "import numpy as np",
        "scipy": "import scipy.linalg",
        "MPI": "from mpi4py import MPI",
    },
    "torch": {
        "np": "import numpy as np",
        "scipy": "import scipy.linalg",
        "torch": "import torch",
        "dist": "import torch.distributed as dist",
        "Tensor": "from torch import Tensor",
    },
}
"""By the names that they make, sorted as isort would."""


@cache
def _statements(target: Target) -> list[tuple[ast.stmt, str]]:
    """The top-level statements of the helpers' module, and their text."""
    return _read(f"with_{target}.py")


@cache
def _read(file: str) -> list[tuple[ast.stmt, str]]:
    text = (Path(__file__).parent / "written" / file).read_text()
    lines = text.splitlines()
    statements = []
    for node in ast.parse(text).body:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        statements.append((node, "\n".join(lines[first - 1 : node.end_lineno])))
    return statements


def _sources(target: Target) -> dict[str, str]:
    """The functions, classes and global variables of the helpers, by name."""
    sources = {}
    for node, text in (*_statements(target), *_read("with_lapack.py")):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            sources[node.name] = text
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            sources[node.target.id] = text
    return sources


def start(target: Target) -> list[str]:
    """The statements that every program begins with: they find this device's rank."""
    _, *statements = [
        text
        for node, text in _statements(target)
        if isinstance(node, (ast.Expr, ast.Assign, ast.If))
    ]
    return statements  # without the docstring


def needed(target: Target, text: str) -> list[str]:
    """The helpers that the text uses, and those that these use, in their order."""
    sources = _sources(target)
    names = set(reached(_used(text), lambda name: _used(sources.get(name, ""))))
    return [sources[name] for name in sources if name in names]


def _used(text: str) -> set[str]:
    """The names that Python code uses. What texts and comments say is a user's."""
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def imports(target: Target, text: str) -> str:
    """The imports that the text needs, sorted as isort would."""
    words, groups = _used(text), []
    for table in (_STANDARD, _OTHERS[target]):
        lines: list[str] = []
        for line in (table[name] for name in table if name in words):
            module, _, name = line.partition(" import ")
            if lines and name and lines[-1].startswith(f"{module} import "):
                lines[-1] += f", {name}"
            else:
                lines.append(line)
        groups.append("\n".join(lines))
    return "\n\n".join(each for each in groups if each)


@cache
def names(target: Target) -> set[str]:
    """The names that programs must not use for their own values."""
    return {
        *dir(builtins),
        *_sources(target),
        *_STANDARD,
        *_OTHERS[target],
        *(line.partition(" = ")[0] for line in start(target)),
    }
