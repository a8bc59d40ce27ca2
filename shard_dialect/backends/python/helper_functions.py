"""The helper functions of emitted programs as text: those that a program uses."""

from __future__ import annotations

import ast
import builtins
from functools import cache
from pathlib import Path

from shard_dialect.backends.python.writer import Target
from shard_dialect.model.reached import reached

_IMPORTS = {
    "mpi4py": {
        "argparse": "import argparse",
        "contextlib": "import contextlib",
        "functools": "import functools",
        "math": "import math",
        "Callable": "from collections.abc import Callable",
        "ml_dtypes": "import ml_dtypes",
        "np": "import numpy as np",
        "MPI": "from mpi4py import MPI",
    },
    "torch": {
        "argparse": "import argparse",
        "functools": "import functools",
        "os": "import os",
        "Callable": "from collections.abc import Callable",
        "dataclass": "from dataclasses import dataclass",
        "timedelta": "from datetime import timedelta",
        "np": "import numpy as np",
        "torch": "import torch",
        "dist": "import torch.distributed as dist",
        "Tensor": "from torch import Tensor",
    },
}
_STANDARD = (
    "argparse",
    "contextlib",
    "os",
    "functools",
    "math",
    "Callable",
    "dataclass",
    "timedelta",
)


@cache
def _statements(target: Target) -> list[tuple[ast.stmt, str]]:
    """The top-level statements of the helpers' module, and their text."""
    text = (Path(__file__).parent / "written" / f"with_{target}.py").read_text()
    lines = text.splitlines()
    statements = []
    for node in ast.parse(text).body:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        statements.append((node, "\n".join(lines[first - 1 : node.end_lineno])))
    return statements


def _sources(target: Target) -> dict[str, str]:
    """The functions, classes and global variables of the helpers, by name."""
    sources = {}
    for node, text in _statements(target):
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
    words = _used(text)
    groups: tuple[list[str], list[str]] = ([], [])
    for name, line in _IMPORTS[target].items():
        if name in words:
            groups[name not in _STANDARD].append(line)
    return "\n\n".join("\n".join(each) for each in groups if each)


def names(target: Target) -> set[str]:
    """The names that programs must not use for their own values."""
    return {
        *dir(builtins),
        *_sources(target),
        *_IMPORTS[target],
        *(line.partition(" = ")[0] for line in start(target)),
    }
