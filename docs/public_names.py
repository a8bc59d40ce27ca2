"""The page of public names: those in `__all__` of the public modules, with their summaries.

It reads the source, so that it needs neither JAX nor torch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parent.parent
MODULES = {
    "shard_dialect.api": ("sd", "`import shard_dialect as sd`"),
    "shard_dialect.jax": ("sd.jax", "`sd.jax`, with the extra `jax`"),
    "shard_dialect.torch": ("sd.torch", "`sd.torch`, with the extra `torch`"),
    "shard_dialect.testing": ("testing", "`from shard_dialect import testing`"),
}
"""Each public module, with how users write it."""
_HEAD = """
What stands here, and the command lines of `shard-opt`, `shard-run` and `shard-report`, changes with
a line in the `CHANGELOG.md`. Everything else in the package
may change at any time. [As a library](library.md), [from JAX](jax.md), [from PyTorch](torch.md) and
[testing](testing.md) show how these names are used; `help(sd.run)` has arguments and errors.
"""


def public_page(notice: str) -> str:
    """The page."""
    lines = [notice, "", "# Public names", "", _HEAD.strip()]
    for module, (short, title) in MODULES.items():
        lines += ["", f"## {title}", ""]
        for name in sorted(_public(module), key=str.lower):
            lines.append(f"* `{short}.{name}`: {_summary(module, name)}")
    return "\n".join(lines) + "\n"


def _tree(module: str) -> ast.Module:
    path = ROOT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text())


def _public(module: str) -> list[str]:
    """The names in `__all__`."""
    for node in _tree(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    raise AssertionError(f"{module} has an __all__")


def _summary(module: str, name: str) -> str:
    """The first sentence of what a name stands for, followed through imports."""
    documented = dict(_definitions(_tree(module)))
    if name in documented:
        return " ".join(documented[name].split("\n\n")[0].split())
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return _summary(node.module, alias.name)
    raise AssertionError(f"{module}.{name} has a docstring")


def _definitions(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Functions and classes, and variables that a string follows, with their docstrings."""
    for node, following in pairwise([*tree.body, ast.Pass()]):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            text = ast.get_docstring(node)
            if text:
                yield node.name, text
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(following, ast.Expr):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            yield ast.unparse(target), str(ast.literal_eval(following.value))
