"""Write the pages that are made from the code, or say with --check which are not up to date.

    python docs/generate.py && git diff docs

A page is a function that gives its text; PAGES names its file.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path

from cuts import cuts_page

from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.framework.options import documented_options
from shard_dialect.passes.framework.pass_table import PASSES, PIPELINES, pass_class

DOCS = Path(__file__).parent
IR = DOCS.parent / "shard_dialect" / "ir"
_OPERATION = re.compile(
    r"((?:^ *//[^\n]*\n)+) *irdl\.operation @(\w+) \{(.*?)^  \}", re.MULTILINE | re.DOTALL
)
NOTICE = "<!-- Written by docs/generate.py: edit the code that it reads, not this file. -->"


def passes_page() -> str:
    """Each pass with its module's docstring, which has the IR before and after, and its options."""
    lines = [
        NOTICE,
        "",
        "# Passes",
        "",
        "Those between vocabularies, then in the order of the [forms](forms.md). Each is a flag of",
        "`opt` and an element of its pipelines, between any of upstream's passes.",
        "",
        *_contents(),
    ]
    for name in PASSES:
        lines += ["", f"## `--{name}`", "", *_pass(pass_class(name))]
    for name, parts in PIPELINES.items():
        flags = " ".join(f"`--{part}`" for part in parts)
        lines += ["", f"## `--{name}`", "", f"Several in a row: {flags}."]
    return "\n".join(lines) + "\n"


def _contents() -> Iterator[str]:
    yield "| pass | what it does |"
    yield "|---|---|"
    for name in PASSES:
        yield f"| [`--{name}`](#--{name}) | {pass_class(name).summary()} |"
    for name, parts in PIPELINES.items():
        yield f"| [`--{name}`](#--{name}) | {', '.join(parts)} |"


def _pass(cls: type[Pass]) -> Iterator[str]:
    yield inspect.cleandoc(cls.__doc__ or "")
    yield ""
    yield _docstring(cls.__module__)
    options = documented_options(cls)
    if options:
        yield ""
        yield "| option | type | default | |"
        yield "|---|---|---|---|"
    for each in options:
        kind = each.type_text.replace("|", "\\|")
        text = " ".join(each.help.split()).replace("|", "\\|")
        yield f"| `{each.name}` | {kind} | {each.default_text} | {text} |"


def dialect_page() -> str:
    """The `mesh` dialect from its IRDL definition, and our attributes from where they are named."""
    lines = [
        NOTICE,
        "",
        "# The `mesh` dialect",
        "",
        _docstring("shard_dialect.ir.mesh.mesh_dialect"),
    ]
    lines += ["", "## Shardings", "", _docstring("shard_dialect.ir.mesh.notation")]
    lines += [
        "",
        "## Ops",
        "",
        "| op | operands | attributes | results | |",
        "|---|---|---|---|---|",
    ]
    lines += _operations((IR / "mesh" / "mesh.irdl.mlir").read_text())
    lines += ["", "## What users write", "", _docstring("shard_dialect.ir.mesh.annotation_ops")]
    lines += ["", "## Attributes on functions and other ops", "", "| attribute | |", "|---|---|"]
    lines += _constants((IR / "mesh" / "attributes.py").read_text())
    lines += ["", "## The RFC's spelling", "", _docstring("shard_dialect.ir.mesh.mesh_spelling")]
    lines += ["", "## Spellings", "", _docstring("shard_dialect.ir.reading.spelling")]
    lines += ["", "## Shardy's text", "", _docstring("shard_dialect.ir.sdy.sdy_spelling")]
    return "\n".join(lines) + "\n"


def _docstring(module: str) -> str:
    return (import_module(module).__doc__ or "").strip()


def _operations(definition: str) -> Iterator[str]:
    """A row for each `irdl.operation`; its comment has the optional attributes in brackets."""
    for comment, name, text in _OPERATION.findall(definition):
        summary, _, optional = " ".join(comment.replace("//", " ").split()).partition(" [")
        attributes = [f"`{each}`" for each in re.findall(r'"(\w+)" = %', text)]
        attributes += [f"[`{each}`]" for each in re.findall(r"\w+", optional)]
        operands, results = (", ".join(_named(kind, text)) for kind in ("operands", "results"))
        yield f"| `mesh.{name}` | {operands} | {', '.join(attributes)} | {results} | {summary} |"


def _named(kind: str, text: str) -> Iterator[str]:
    for inside in re.findall(rf"irdl\.{kind}\(([^)]*)\)", text):
        for entry in inside.split(","):
            name, _, constraint = entry.strip().partition(":")
            yield f"{name}..." if "variadic" in constraint else name


def _constants(source: str) -> Iterator[str]:
    """A row for each name of an attribute that a docstring follows."""
    body = ast.parse(source).body
    for statement, following in pairwise(body):
        if not isinstance(statement, ast.Assign) or not isinstance(following, ast.Expr):
            continue
        value, text = statement.value, following.value
        if isinstance(value, ast.Constant) and isinstance(text, ast.Constant):
            yield f"| `{value.value}` | {' '.join(str(text.value).split())} |"


PAGES: dict[str, Callable[[], str]] = {
    "cuts.md": lambda: cuts_page(NOTICE),
    "dialect.md": dialect_page,
    "passes.md": passes_page,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing")
    is_check = parser.parse_args().check
    stale = [name for name, page in PAGES.items() if _read(DOCS / name) != page()]
    for name in stale:
        if is_check:
            print(f"docs/{name} is not what the code says: run python docs/generate.py")
        else:
            (DOCS / name).write_text(PAGES[name]())
    return int(is_check and bool(stale))


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
