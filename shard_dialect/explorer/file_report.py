"""The report on a file, for the extension, which is given no options."""

from __future__ import annotations

from shard_dialect import plugins
from shard_dialect.analysis.program_report import ProgramReport, report_on
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source


def report_on_file(path: str) -> ProgramReport:
    """The report on a module in any form, with its times on the default device model.

    Raises `ShardError` for what cannot be read or partitioned.
    """
    plugins.load()
    source = Source.read(path)
    with make_context(), source.file_locations():
        return report_on(source.parse(), file_text=source.file_text)
