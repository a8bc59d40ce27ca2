"""The list of passes in `opt --help`: ours with their options, then upstream's."""

from __future__ import annotations

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

from shard_dialect.ir.bindings import provider
from shard_dialect.passes.framework.options import documented_options
from shard_dialect.passes.framework.pass_table import PIPELINES, pass_class, pass_names

_WIDTH = 26
_UPSTREAM = re.compile(r"^ {2,8}--([\w-]+) +-   (.*)$", re.MULTILINE)


def passes_help() -> str:
    """All passes, one line each, and their options."""
    lines = ["passes of ours:"]
    for name in pass_names():
        cls = pass_class(name)
        lines.append(_line(2, f"--{name}", cls.summary()))
        for option in documented_options(cls):
            text = f"{option.help} ({option.type_text}, default {option.default_text})"
            lines.append(_line(4, option.name, text.strip()))
    lines += [_line(2, f"--{name}", ", ".join(each)) for name, each in PIPELINES.items()]
    lines += ["", "passes of upstream:"]
    lines += [_line(2, f"--{name}", summary) for name, summary in _upstream()]
    lines.append("  and every other pass that is registered in the bindings, by its name")
    return "\n".join(lines)


def _line(indent: int, name: str, text: str) -> str:
    head = f"{' ' * indent}{name}".ljust(_WIDTH)
    return f"{head}{'' if head.endswith(' ') else '  '}{' '.join(text.split())}"


def _upstream() -> list[tuple[str, str]]:
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
