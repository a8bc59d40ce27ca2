"""Programs for one device, in upstream's dialects, compiled and run."""

from collections.abc import Sequence

from shard_dialect.abi.tensor_types import Array
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.executable import Alone, Executable
from shard_dialect.runtime.random_inputs import random_inputs


def compiled(text: str, entry: str = "main") -> Executable:
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, "lower")
        return Executable(module, entry)


def run_on(
    text: str, inputs: Sequence[Array] | None = None, entry: str = "main"
) -> tuple[list[Array], list[Array]]:
    """The inputs, drawn if none are given, and what the program makes of them."""
    executable = compiled(text, entry)
    types = [each.global_type for each in executable.program.arguments]
    given = random_inputs(types, 0) if inputs is None else list(inputs)
    return given, executable.run(given, Alone())
