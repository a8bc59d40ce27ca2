"""Write the pages that are made from the code, or say with --check which are not up to date.

    python docs/generate.py && git diff docs

A page is a function that gives its text; PAGES names its file.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

from shard_dialect.passes import PASSES, PIPELINES, Pass, pass_class
from shard_dialect.passes.options import documented_options

DOCS = Path(__file__).parent
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
    yield inspect.cleandoc(import_module(cls.__module__).__doc__ or "")
    options = documented_options(cls)
    if options:
        yield ""
        yield "| option | type | default | |"
        yield "|---|---|---|---|"
    for each in options:
        kind = each.type_text.replace("|", "\\|")
        text = " ".join(each.help.split()).replace("|", "\\|")
        yield f"| `{each.name}` | {kind} | {each.default_text} | {text} |"


PAGES: dict[str, Callable[[], str]] = {"passes.md": passes_page}


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
