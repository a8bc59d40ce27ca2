"""A module in the vocabulary that its file is written in, as long as it has only annotations.

Passes work on the `mesh` dialect's annotations, whatever the file has. Who reads a program between
two passes is to see his own words, so `opt` translates back what it prints:

    shard-opt file_of_shard.mlir --propagate       prints what --propagate --export-shard prints

From the distributed form on there are collectives on global tensors, which only `mesh` has.
"""

from __future__ import annotations

import re
from typing import Literal

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.printed_names import PrintedAs
from shard_dialect.ir.reading.spelling import code_of
from shard_dialect.passes.framework.pipeline import run_pipeline

Vocabulary = Literal["mesh", "sdy", "shard"]
_WORDS: dict[Vocabulary, re.Pattern[str]] = {
    "mesh": re.compile(r"#mesh\.|\bmesh_cluster\b|\bmesh\.\w"),
    "sdy": re.compile(r"\bsdy\.\w"),
    "shard": re.compile(r"\bshard\.\w"),
}


_STABLEHLO = re.compile(r"\b(?:stablehlo|chlo|mhlo)\.\w")


def vocabulary_of(text: str) -> Vocabulary | None:
    """The one vocabulary in which `text` has annotations; `None` if it mixes them.

    One without annotations gets those that its kind of program has elsewhere: Shardy's with ops of
    StableHLO, as from JAX, and else upstream's.
    """
    code = code_of(text)
    found = [name for name, words in _WORDS.items() if words.search(code)]
    if not found:
        return "sdy" if _STABLEHLO.search(code) else "shard"
    return found[0] if len(found) == 1 else None


def printed_as(text: str) -> PrintedAs:
    """How values of a module with this text are numbered where it is printed after a pass."""
    return "shard" if vocabulary_of(text) == "shard" else "mesh"


def as_written(module: ir.Operation, vocabulary: Vocabulary | None) -> ir.Operation:
    """The module in `vocabulary`; as it is where that lacks a word for something in it."""
    forms = {form_of(function) for function in functions_of(module)}
    if vocabulary in (None, "mesh") or forms - {"annotated", "propagated"} or not grids_of(module):
        return module
    copy = module.clone()
    try:
        run_pipeline(copy, f"annotations-to-{vocabulary}")
    except ShardError:
        return module
    return copy


def is_local(module: ir.Operation) -> bool:
    """Whether tensors of some function are local, so that other tools may take the module."""
    return any(form_of(function) in ("local", "lowered") for function in functions_of(module))
