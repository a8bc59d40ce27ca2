"""The page of public names: those in `__all__` of the public modules.

It reads the source, so that it needs neither JAX nor torch.
"""

from __future__ import annotations

import ast
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
are public; all else may change at any time. [As a library](library.md) shows their use; `help`, as
in `help(sd.run)`, says what each does, and has the parameters for which `...` stands, and fields.

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
            lines.append(f"{_TAUGHT[module]}: {', '.join(f'`{each}`' for each in public)}")
            continue
        told: dict[str, list[str]] = {"Functions and values": [], "Classes": []}
        for name in public:
            found = _defined(module, name)
            kind = "Classes" if isinstance(found, ast.ClassDef) else "Functions and values"
            told[kind].append(f"`{short}.{name}{_signature(found)}`{_methods(found)}")
        lines += [f"* {kind}: {', '.join(names)}" for kind, names in told.items() if names]
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


def _defined(module: str, name: str) -> ast.stmt:
    """What a name stands for, followed through imports; it has a docstring."""
    documented = dict(_documented(_tree(module)))
    if name in documented:
        return documented[name]
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


def _documented(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Functions and classes with docstrings, and variables that a string follows."""
    for node, following in pairwise([*tree.body, ast.Pass()]):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if ast.get_docstring(node):
                yield node.name, node
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(following, ast.Expr):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            yield ast.unparse(target), node
        elif isinstance(node, ast.If):
            yield from _documented(ast.Module([*node.body, ast.Pass(), *node.orelse], []))
