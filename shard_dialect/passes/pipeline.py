"""Pipelines of our passes and upstream's, in one MLIR `PassManager`.

    builtin.module(propagate,materialize{strict=true},canonicalize,func.func(cse),partition)

Elements at the top that name one of our passes (or pipelines) are Python callbacks on the module;
everything else is upstream's, and parsed by MLIR.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import PassManager, ir
from shard_dialect.ir.diagnostics import from_mlir
from shard_dialect.passes import PIPELINES, Pass, pass_class, pass_names
from shard_dialect.passes.options import options_of, read_options

# Upstream's that people are likely to want here, for the nearest name to a misspelt one.
_UPSTREAM = (
    "canonicalize",
    "cse",
    "convert-shard-to-mpi",
    "inline",
    "sharding-propagation",
    "shard-partition",
    "shard-simplify",
    "symbol-dce",
)
_ELEMENT = re.compile(r"^(?P<name>[\w.-]+)(?:\{(?P<options>.*)\})?$", re.DOTALL)
_UNKNOWN = re.compile(r"'([^']+)' does not refer to a registered pass")


@dataclass(frozen=True)
class Instruments:
    """What to show of a running pipeline, on stderr, as `mlir-opt`'s flags of these names do."""

    print_ir_before_all: bool = False
    print_ir_after_all: bool = False
    print_ir_after_change: bool = False
    print_ir_after_failure: bool = False
    print_ir_tree_dir: str | None = None
    timing: bool = False
    verify_each: bool = True

    def attach(self, manager: PassManager) -> None:
        manager.enable_verifier(self.verify_each)
        if self.timing:
            manager.enable_timing()
        after = self.print_ir_after_all or self.print_ir_after_change
        if self.print_ir_before_all or after or self.print_ir_after_failure:
            manager.enable_ir_printing(
                print_before_all=self.print_ir_before_all,
                print_after_all=after,
                print_after_change=self.print_ir_after_change,
                print_after_failure=self.print_ir_after_failure,
                tree_printing_dir_path=self.print_ir_tree_dir,
            )


def run_pipeline(module: ir.Module, text: str, instruments: Instruments | None = None) -> None:
    """Run the pipeline `builtin.module(...)`, or just its inside, on `module`.

    Raises `ShardError`: unknown passes or options, or whatever a pass refuses.
    """
    with module.context:
        manager = PassManager("builtin.module")
        (instruments or Instruments()).attach(manager)
        for element in elements(text):
            _add(manager, element)
        try:
            manager.run(module.operation)
        except ir.MLIRError as error:
            raise from_mlir(error) from None


def elements(text: str) -> list[str]:
    """The passes at the top of a pipeline.

    >>> elements("builtin.module(propagate,func.func(cse,canonicalize),cse{a=1,2})")
    ['propagate', 'func.func(cse,canonicalize)', 'cse{a=1,2}']
    """
    text = text.strip()
    inside = re.fullmatch(r"builtin\.module\((.*)\)", text, re.DOTALL)
    return [element for element in _split(inside[1] if inside else text) if element]


def _split(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for place, letter in enumerate(text):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(letter, 0)
        if depth < 0:
            break
        if letter == "," and depth == 0:
            yield text[start:place].strip()
            start = place + 1
    if depth:
        raise ShardError(f"the pipeline '{text}' has unbalanced brackets")
    yield text[start:].strip()


def _add(manager: PassManager, element: str) -> None:
    match = _ELEMENT.match(element)
    name = match["name"] if match else ""
    options = match["options"] or "" if match else ""
    if name in PIPELINES:
        if options:
            raise ShardError(f"pipeline '{name}' has no options: give them to its passes")
        for each in PIPELINES[name]:
            _add(manager, each)
    elif name in pass_names():
        _add_ours(manager, make_pass(name, options))
    else:
        _add_upstream(manager, element)


def _add_ours(manager: PassManager, each: Pass) -> None:
    def callback(op: ir.Operation, _: object) -> None:
        each.run(op)

    manager.add(callback, name=each.name, argument=each.name)


def _add_upstream(manager: PassManager, element: str) -> None:
    try:
        manager.add(element)
    except ValueError as error:
        unknown = _UNKNOWN.search(str(error))
        if unknown is None:
            reason = _first_line(error)
            raise ShardError(f"cannot parse the pipeline element '{element}': {reason}") from None
        raise ShardError(f"unknown pass '{unknown[1]}'{_hint(unknown[1])}") from None


def _hint(name: str) -> str:
    if name in pass_names():
        return ": it runs on the whole module, so it stands at the top of the pipeline"
    near = difflib.get_close_matches(name, (*pass_names(), *PIPELINES, *_UPSTREAM), n=1)
    return f": did you mean '{near[0]}'?" if near else ""


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def make_pass(name: str, options: str = "") -> Pass:
    """One of our passes with its options, written as in `materialize{strict=true}`."""
    cls = pass_class(name)
    return cls(**read_options(options, options_of(cls), name))
