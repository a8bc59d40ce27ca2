"""Write the pages that are made from the code, or say with --check which are not up to date.

    python docs/generate.py && git diff docs

A page is a function that gives its text; PAGES names its file.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path

from cuts import cuts_page
from public_names import public_page

from shard_dialect.ir.mesh import mesh_dialect
from shard_dialect.passes.framework.base import NamedPipeline, Pass
from shard_dialect.passes.framework.options import Option, documented_options
from shard_dialect.passes.framework.pass_table import PASSES, pass_class
from shard_dialect.passes.pipelines import PIPELINES

DOCS = Path(__file__).parent
IR = DOCS.parent / "shard_dialect" / "ir"
_OPERATION = re.compile(
    r"((?:^ *//[^\n]*\n)+) *irdl\.operation @(\w+) \{(.*?)^  \}", re.MULTILINE | re.DOTALL
)
_RUNTIMES = re.compile("runtime function|native code|^In the lowered form")
"""Sentences about an attribute that are for readers of lowered code alone."""
NOTICE = "<!-- Written by docs/generate.py: edit the code that it reads, not this file. -->"


_Documented = type[Pass] | type[NamedPipeline]


def passes_page() -> str:
    """Each pass with its summary, and its options, if it has any."""
    classes: dict[str, _Documented] = {**PIPELINES, **{each: pass_class(each) for each in PASSES}}
    shared = _shared_options(classes.values())
    sections = {name: [*_section(cls, shared)] for name, cls in classes.items()}
    steps = {step for name in PIPELINES for step in PIPELINES[name]().steps()} - {"import"}
    shown = [name for name in classes if sections[name] or name not in steps]
    lines = [NOTICE, "", "# Passes", "", _PASSES_HEAD.strip(), ""]
    lines.append(", ".join(f"`--{name}`" for name in shown if not sections[name]))
    lines += ["", "## Shared options", "", *_options(shared.values())]
    for name, section in sections.items():
        if section:
            lines += ["", f"## `--{name}`", "", classes[name].summary(), *section]
        if section and name in PIPELINES and {*PIPELINES[name]().steps()}.intersection(shown):
            lines += ["", "Passes: " + ", ".join(f"`{each}`" for each in PIPELINES[name]().steps())]
    return "\n".join(lines) + "\n"


def _shared_options(classes: Iterable[_Documented]) -> dict[str, Option]:
    """The options that several passes have, of one name and one help."""
    found = [each for cls in classes for each in documented_options(cls)]
    counts = Counter((each.name, each.help) for each in found)
    return {each.name: each for each in found if counts[each.name, each.help] > 1}


def _section(cls: _Documented, shared: dict[str, Option]) -> Iterator[str]:
    options = documented_options(cls)
    common = [each for each in options if shared.get(each.name) == each]
    if common and cls.name in PIPELINES:
        yield ""
        yield "[Shared options](#shared-options): " + ", ".join(f"`{each.name}`" for each in common)
    own = [each for each in options if each not in common]
    if own:
        yield ""
        yield from _options(own)


def _options(options: Iterable[Option]) -> Iterator[str]:
    for each in options:
        text = " ".join(each.help.split())
        yield f"* `{each.name}` ({each.type_text}; {each.default_text}): {text}"


_PASSES_HEAD = """
Each pass is a flag of `opt` and an element of its pipelines, between any of upstream's passes. The
first below are pipelines, whose passes run in a row, with their options; the others stand in the
order of the [forms](forms.md). Types and defaults are in brackets. `shard-opt --help=passes` says
what each pass and each step of a pipeline does, `--help=PASS` shows an example. Without options are
"""


def dialect_page() -> str:
    """The `mesh` dialect from its IRDL definition, and our attributes from where they are named."""
    lines = [
        NOTICE,
        "",
        "# The `mesh` dialect",
        "",
        _docstring("shard_dialect.ir.mesh.mesh_dialect"),
    ]
    lines += ["", "[The model](model.md#shardings) has the notation of shardings."]
    lines += [
        "",
        "## Ops",
        "",
        "Operands, and attributes (in brackets: optional ones):",
        "",
    ]
    lines += _operations(mesh_dialect.definition())
    lines += ["", "## What users write", "", _docstring("shard_dialect.ir.mesh.annotation_ops")]
    lines += ["", "## Attributes on functions and other ops", ""]
    lines += _constants((IR / "mesh" / "attributes.py").read_text())
    lines += ["", "## Spellings", "", _SPELLINGS.strip()]
    return "\n".join(lines) + "\n"


_SPELLINGS = """
Other spellings are rewritten to those that the installed bindings parse: the RFC's short forms
(`#mesh.shard<[[0]]>` is on the function's `mesh_cluster`), those of its slides and of upstream's
documentation, names of LLVM 22 and of later versions (`scatter_axis`, `scatter_dim`), and MHLO's
ops. `ir/reading/spelling.py` has the list.
"""


def _docstring(module: str) -> str:
    return (import_module(module).__doc__ or "").strip()


def _operations(definition: str) -> Iterator[str]:
    """A line for each `irdl.operation`; its comment has the optional attributes in brackets."""
    for comment, name, text in _OPERATION.findall(definition):
        summary, _, optional = " ".join(comment.replace("//", " ").split()).partition(" [")
        attributes = [f"`{each}`" for each in re.findall(r'"(\w+)" = %', text)]
        attributes += [f"[`{each}`]" for each in re.findall(r"\w+", optional)]
        operands = ", ".join(_named(text))
        attributes = [f"{{{', '.join(attributes)}}}"] if attributes else []
        yield f"* {' '.join([f'`mesh.{name}`({operands})', *attributes])}: {summary}"


def _named(text: str) -> Iterator[str]:
    for inside in re.findall(r"irdl\.operands\(([^)]*)\)", text):
        for entry in inside.split(","):
            name, _, constraint = entry.strip().partition(":")
            yield f"{name}..." if "variadic" in constraint else name


def _constants(source: str) -> Iterator[str]:
    """A line for each name of an attribute that a docstring follows."""
    body = ast.parse(source).body
    for statement, following in pairwise(body):
        if not isinstance(statement, ast.Assign) or not isinstance(following, ast.Expr):
            continue
        value, text = statement.value, following.value
        if isinstance(value, ast.Constant) and isinstance(text, ast.Constant):
            if _RUNTIMES.search(str(text.value)):
                continue
            yield f"* `{value.value}`: {' '.join(str(text.value).split())}"


PAGES: dict[str, Callable[[], str]] = {
    "cuts.md": lambda: cuts_page(NOTICE),
    "dialect.md": dialect_page,
    "passes.md": passes_page,
    "public.md": lambda: public_page(NOTICE),
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
