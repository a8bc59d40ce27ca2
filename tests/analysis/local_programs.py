"""Programs in the local form, read for the analyses."""

from pathlib import Path

import shard_dialect as sd
from shard_dialect.analysis.costs.local_ops import LocalProgram
from shard_dialect.analysis.costs.local_program import read_program
from shard_dialect.ir.bindings import ir

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def local(source: str | Path, entry: str = "main") -> LocalProgram:
    module = sd.parse(source)
    sd.run_pipeline(module, "spmd")
    with module.context, ir.Location.unknown():
        return read_program(module.operation, entry)
