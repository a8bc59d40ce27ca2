"""Reproducers: a module with the pipeline that is to run on it, as MLIR writes and reads them.

{-#
  external_resources: {
    mlir_reproducer: {
      pipeline: "builtin.module(propagate,cse)",
      disable_threading: true,
      verify_each: true
    }
  }
#-}
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from shard_dialect.errors import ShardError
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.reading.string_literals import quoted, unquoted

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_ENTRY = rf"(\w+)\s*:\s*({_STRING}|\w+)"
_SECTION = re.compile(rf"\bmlir_reproducer\s*:\s*\{{((?:\s*{_ENTRY}\s*,?)*)\s*\}}")


@dataclass(frozen=True)
class Reproducer:
    """The pipeline to run on a module, and whether it is verified after each pass."""

    pipeline: str
    verify_each: bool = True

    def after(self, module: str) -> str:
        """The text of the file: the module, and this."""
        verify_each = str(self.verify_each).lower()
        return f"""{module.rstrip()}

{{-#
  external_resources: {{
    mlir_reproducer: {{
      pipeline: {quoted(self.pipeline)},
      disable_threading: true,
      verify_each: {verify_each}
    }}
  }}
#-}}
"""


def read_reproducer(source: Source) -> tuple[Source, Reproducer]:
    """The module of a reproducer's file, and its pipeline. Raises a located `ShardError`."""
    location = f"{source.name}:{source.lines_before + 1}:1"
    text = source.text
    if isinstance(text, bytes):
        raise ShardError("--run-reproducer reads text, and this is bytecode", location)
    metadata = text.rfind("{-#")
    section = _SECTION.search(text, metadata) if metadata >= 0 else None
    entries = dict(re.findall(_ENTRY, section[1])) if section else {}
    if section is None or not entries.get("pipeline", "").startswith('"'):
        raise ShardError(
            "is no reproducer: it ends with no 'mlir_reproducer' that has a pipeline", location
        )
    module = f"{text[: section.start()]}{text[section.end() :]}"
    verify_each = entries.get("verify_each", "true") == "true"
    return replace(source, text=module), Reproducer(unquoted(entries["pipeline"]), verify_each)
