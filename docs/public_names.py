"""The page of public names: those in `__all__` of the public modules, with their summaries.

It reads the source, so that it needs neither JAX nor torch.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).parent.parent
MODULES = {
    "shard_dialect.api": ("sd", "`import shard_dialect as sd`"),
    "shard_dialect.jax": ("sd.jax", "`sd.jax`, with the extra `jax`"),
    "shard_dialect.torch": ("sd.torch", "`sd.torch`, with the extra `torch`"),
    "shard_dialect.bindings": ("bindings", "`from shard_dialect.bindings import ir`"),
    "shard_dialect.testing": ("testing", "`from shard_dialect import testing`"),
}
"""Each public module, with how users write it."""
_TAUGHT = {
    "shard_dialect.jax": "See [from JAX](jax.md)",
    "shard_dialect.torch": "See [from PyTorch](torch.md)",
    "shard_dialect.testing": "See [testing](testing.md)",
}
"""Modules whose names are listed alone."""
_HEAD = """
These names, and the command lines of `shard-opt`, `shard-run`, `shard-report` and `shard-prove`,
are public; all else may change at any time. [As a library](library.md) shows their use; `help` has
all parameters, of which `...` stands for those with defaults, and the fields of classes.

**Versions.** Before 1.0 the second number of a version is raised where a program that worked would
not, the third by additions and mends; from 1.0 on the first and the others. `CHANGELOG.md` has each
change.

**Deprecations.** What is public works for one more version (one second number) before it goes or
changes its meaning, with a `DeprecationWarning` that names its successor. Wrong results, texts of
messages, and numbers of cost models change at once. Saved programs and `to_json` are read by the
version that wrote them; `--json` has its `schema`.
"""


def public_page(notice: str) -> str:
    """The page."""
    lines = [notice, "", "# Public names", "", _HEAD.strip()]
    for module, (short, title) in MODULES.items():
        lines += ["", f"## {title}", ""]
        public = sorted(_public(module), key=str.lower)
        if module in _TAUGHT:
            names = ", ".join(f"`{each}`" for each in public)
            lines.append(f"{_TAUGHT[module]}: {names}")
            continue
        defined = {name: _defined(module, name) for name in public}
        for name, (found, summary) in defined.items():
            if not isinstance(found, ast.ClassDef):
                told = re.sub("^Return ([a-z])", lambda match: match[1].upper(), summary)
                lines.append(f"* `{short}.{name}{_signature(found)}`: {told}")
        classes = [
            f"`{short}.{name}`{_methods(found)}"
            for name, (found, _) in defined.items()
            if isinstance(found, ast.ClassDef)
        ]
        lines += ["", f"Classes: {', '.join(classes)}"] if classes else []
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


def _defined(module: str, name: str) -> tuple[ast.stmt, str]:
    """What a name stands for, and its first sentence, followed through imports."""
    documented = {name: (node, text) for name, node, text in _definitions(_tree(module))}
    if name in documented:
        node, text = documented[name]
        return node, " ".join(text.split("\n\n")[0].split())
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return _defined(node.module, alias.name)
    raise AssertionError(f"{module}.{name} has a docstring")


def _signature(node: ast.stmt) -> str:
    """The parameters of a function that have no default."""
    return f"({_parameters(node)})" if isinstance(node, ast.FunctionDef) else ""


def _parameters(function: ast.FunctionDef) -> str:
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    names = [each.arg for each in positional[: len(positional) - len(given.defaults)]]
    names += [f"*{given.vararg.arg}"] if given.vararg else []
    names += ["..."] if given.defaults or given.kwonlyargs or given.kwarg else []
    return ", ".join(names)


def _methods(node: ast.stmt) -> str:
    """The methods of a class that is not made by its fields."""
    if not isinstance(node, ast.ClassDef) or _is_dataclass(node):
        return ""
    found = [
        f"`.{name}`" if _is_property(each) else f"`.{name}()`"
        for name, each in _functions(node).items()
        if not name.startswith("_")
    ]
    return f" with {', '.join(found)}" if found else ""


def _functions(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}


def _is_dataclass(node: ast.stmt) -> TypeGuard[ast.ClassDef]:
    decorators = node.decorator_list if isinstance(node, ast.ClassDef) else []
    return any(ast.unparse(each).startswith("dataclass") for each in decorators)


def _is_property(node: ast.FunctionDef) -> bool:
    return any("property" in ast.unparse(each) for each in node.decorator_list)


def _definitions(tree: ast.Module) -> Iterator[tuple[str, ast.stmt, str]]:
    """Functions and classes, and variables that a string follows, with their docstrings."""
    for node, following in pairwise([*tree.body, ast.Pass()]):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            text = ast.get_docstring(node)
            if text:
                yield node.name, node, text
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(following, ast.Expr):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            yield ast.unparse(target), node, str(ast.literal_eval(following.value))
        elif isinstance(node, ast.If):
            yield from _definitions(ast.Module([*node.body, ast.Pass(), *node.orelse], []))
