"""What `opt --help` says of passes: ours with their options, then upstream's."""

from __future__ import annotations

import difflib
import re
import subprocess
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import provider
from shard_dialect.passes.framework.base import NamedPipeline, Pass
from shard_dialect.passes.framework.options import documented_options
from shard_dialect.passes.framework.pass_table import PASSES, pass_class, pass_names
from shard_dialect.passes.pipelines import PIPELINES

_WIDTH = 26
_UPSTREAM = re.compile(r"^ {2,8}--([\w-]+) +-   (.*)$", re.MULTILINE)


def passes_help() -> str:
    """All passes, one line each, and their options."""
    lines = ["passes of ours:"]
    for name, cls in _classes().items():
        lines += _described(name, cls)
    lines += ["", "passes of upstream:"]
    lines += [_line(2, f"--{name}", summary) for name, summary in upstream_passes()]
    lines.append("  and every other pass that is registered in the bindings, by its name")
    return "\n".join(lines)


def pass_help(name: str) -> str:
    """What one pass does, with its options and an example, or a `ShardError` for no name of one."""
    classes = _classes()
    if name in classes:
        cls = classes[name]
        example = "" if issubclass(cls, NamedPipeline) else example_of(cls)
        return "\n".join([*_described(name, cls), *(["", example] if example else [])])
    upstream = dict(upstream_passes())
    if name in upstream:
        return _line(2, f"--{name}", f"upstream's: {upstream[name]}")
    similar = difflib.get_close_matches(name, ["options", "passes", *classes, *upstream], n=1)
    hint = f"did you mean '--help={similar[0]}'?" if similar else "--help=passes lists them"
    raise ShardError(f"no pass that has help is called '{name}': {hint}")


_Class = type[Pass] | type[NamedPipeline]


def _classes() -> dict[str, _Class]:
    return {**PIPELINES, **{name: pass_class(name) for name in pass_names()}}


def _described(name: str, cls: _Class) -> Iterator[str]:
    yield _line(2, f"--{name}", cls.summary())
    for option in documented_options(cls):
        text = f"{option.help} ({option.type_text}, default {option.default_text})"
        yield _line(4, option.name, text.strip())
    if issubclass(cls, NamedPipeline):
        yield _line(4, "its passes", ", ".join(cls().steps()))


def example_of(cls: type[Pass]) -> str:
    """The first example of its module, with what it becomes: of one that has its module alone."""
    alike = [name for name in PASSES if pass_class(name).__module__ == cls.__module__]
    paragraphs = (import_module(cls.__module__).__doc__ or "").strip().split("\n\n")[1:]
    shown = [n for n, each in enumerate(paragraphs) if each.startswith("    ")]
    if len(alike) != 1 or not shown:
        return ""
    last = shown[0]
    for number in shown[1:]:
        if number - last <= 2 and (number - last == 1 or "becomes" in paragraphs[last + 1]):
            last = number
        else:
            break
    return "\n\n".join(paragraphs[: last + 1])


def _line(indent: int, name: str, text: str) -> str:
    head = f"{' ' * indent}{name}".ljust(_WIDTH)
    return f"{head}{'' if head.endswith(' ') else '  '}{' '.join(text.split())}"


def upstream_passes() -> list[tuple[str, str]]:
    """The names and summaries of upstream's passes, by the executable in the bindings, if any.

    It knows only some of the passes, and nothing lists the others.
    """
    spec = find_spec(provider)
    for folder in (spec and spec.submodule_search_locations) or ():
        for program in Path(folder, "_mlir_libs").glob("*-opt"):
            try:
                done = subprocess.run([program, "--list-passes"], capture_output=True, timeout=10)
            except (OSError, subprocess.TimeoutExpired):
                continue
            return _UPSTREAM.findall(done.stdout.decode(errors="replace"))
    return []
