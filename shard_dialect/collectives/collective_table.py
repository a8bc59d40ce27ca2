"""From a step to its record, by its class: the `RECORDS` of all modules beside this one."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from shard_dialect.collectives.collective_record import CollectiveRecord, Spelling
from shard_dialect.collectives.step import LocalStep

RECORDS: dict[type[LocalStep], CollectiveRecord] = {}
DISTRIBUTED: dict[str, CollectiveRecord] = {}
"""By the names of ops of the distributed form."""
LOCAL: dict[str, CollectiveRecord] = {}
"""By the names of ops of the local form."""


def register(*records: CollectiveRecord) -> None:
    """Make collectives known; a record of the same class is replaced."""
    for each in records:
        RECORDS[each.step] = each
        if each.mesh is not None:
            DISTRIBUTED[each.mesh.name] = each
        if each.local is not None:
            LOCAL[each.local.name] = each


for each in iter_modules([str(Path(__file__).parent)]):
    if not each.name.startswith("collective_"):
        module = import_module(f"shard_dialect.collectives.{each.name}")
        register(*getattr(module, "RECORDS", ()))


def ops_of_mesh() -> dict[str, Spelling]:
    """The ops of `mesh` that are steps, by their names."""
    listed = [each for record in RECORDS.values() for each in (record.mesh, record.local)]
    return {each.name: each for each in listed if each and each.name.startswith("mesh.")}


def record_of(step: LocalStep) -> CollectiveRecord:
    """The record of the step's class."""
    return RECORDS[type(step)]
