"""Instruments of a running pipeline: dumps of the IR and times, on stderr, and edits of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from shard_dialect.errors import ShardError, cannot, did_you_mean
from shard_dialect.ir.bindings import PassManager, ir, submodule
from shard_dialect.passes.framework.dumps import Dumps, When, dump, plain
from shard_dialect.passes.framework.options import (
    Element,
    Node,
    elements_of,
    parse_pipeline,
    written,
)


@dataclass(frozen=True)
class Instruments:
    """What a pipeline prints, checks and skips as it runs, named as the flags of `mlir-opt`."""

    print_ir_before: Sequence[str] = ()
    """Names of passes, at any depth."""
    print_ir_after: Sequence[str] = ()
    print_ir_before_all: bool = False
    print_ir_after_all: bool = False
    print_ir_after_change: bool = False
    print_ir_after_failure: bool = False
    print_ir_module_scope: bool = False
    print_ir_tree_dir: str | None = None
    printed: Callable[[ir.Operation], str] = plain
    """The text of a module where it is printed between passes."""
    seen: Callable[[str, ir.Operation], None] | None = None
    """Is shown the module after each pass, with its name; what it raises ends the pipeline."""
    timing: bool = False
    statistics: Literal["list", "pipeline"] | None = None
    verify_each: bool = True
    stop_after: str | None = None
    """The pass or pipeline, at any depth, after which no other runs."""
    skip: Sequence[str] = ()
    """Passes that do not run, and pipelines of which no pass does."""
    insert_after: Sequence[str] = ()
    """`partition=canonicalize,cse`: passes to run after a pass or pipeline."""
    remarks: bool = False
    explain_sharding: str | None = None
    explain_printed_as: str | None = None
    strict: bool = False

    def attach(self, manager: PassManager) -> None:
        """Have the manager time as the flags ask."""
        if self.timing:
            manager.enable_timing()
        if self.statistics:
            modes = submodule("passmanager").PassDisplayMode
            manager.enable_statistics(getattr(modes, self.statistics.upper()))

    def dumps(self) -> Dumps:
        """What prints the module at the dumps among the steps.

        Raises `ShardError` for a folder that cannot be made.
        """
        if self.print_ir_tree_dir:
            _make_folder(self.print_ir_tree_dir)
        return Dumps(
            self.printed,
            self.print_ir_module_scope,
            self.print_ir_tree_dir,
            self.print_ir_after_failure,
            self.seen,
        )

    def before(self, node: Element, *, is_pass: bool) -> tuple[Element, ...]:
        """The dumps before a pass or a named pipeline."""
        found = []
        if node.name in self.print_ir_before or (self.print_ir_before_all and is_pass):
            found.append(dump(When.BEFORE, node.name))
        if is_pass and (self.print_ir_after_change or self.print_ir_after_failure):
            found.append(dump(When.BEGIN, node.name))
        return tuple(found)

    def after(self, node: Element, *, is_pass: bool) -> tuple[Element, ...]:
        """The dumps after a pass or a named pipeline.

        >>> print(*Instruments(print_ir_after=("cse",)).after(Element("cse"), is_pass=True))
        dump-ir{After cse}
        """
        seen = (dump(When.SEEN, node.name),) if is_pass and self.seen is not None else ()
        if node.name in self.print_ir_after:
            return (*seen, dump(When.AFTER, node.name))
        if is_pass and self.print_ir_after_change:
            return (*seen, dump(When.CHANGED, node.name))
        all_are_printed = is_pass and self.print_ir_after_all
        return (*seen, dump(When.AFTER, node.name)) if all_are_printed else seen

    def without_insertions(self) -> Instruments:
        """The instruments for passes that are inserted themselves: without options of flags."""
        return Instruments(
            print_ir_before_all=self.print_ir_before_all,
            print_ir_after_all=self.print_ir_after_all,
            print_ir_after_change=self.print_ir_after_change,
            print_ir_after_failure=self.print_ir_after_failure,
            seen=self.seen,
            stop_after=self.stop_after,
            skip=self.skip,
        )

    def without_dumps(self) -> Instruments:
        """The instruments, but for those that print the module."""
        return replace(
            self,
            print_ir_before=(),
            print_ir_after=(),
            print_ir_before_all=False,
            print_ir_after_all=False,
            print_ir_after_change=False,
            print_ir_after_failure=False,
            seen=None,
        )

    def inserted(self, node: Element) -> tuple[Node, ...]:
        """The passes to run after a pass or pipeline.

        >>> print(*Instruments(insert_after=("partition=cse",)).inserted(Element("partition")))
        cse
        """
        return tuple(
            each
            for text in self.insert_after
            if text.partition("=")[0] == node.name
            for each in parse_pipeline(text.partition("=")[2])
        )

    def edits(self) -> Instruments:
        """Only the instruments that change which passes run."""
        return Instruments(
            stop_after=self.stop_after, skip=self.skip, insert_after=self.insert_after
        )

    def check_edits(
        self, names: Iterable[str], steps_of: Callable[[str], Iterable[str]] = lambda _: ()
    ) -> None:
        """Raise `ShardError` for edits at passes and pipelines that are not among the `names`.

        `steps_of` has the steps of a pipeline by its name, which may all be among them.
        """
        known = list(dict.fromkeys(names))
        places = []
        for text in self.insert_after:
            place, _, passes = text.partition("=")
            if not passes.strip():
                raise ShardError(
                    f"--insert-after={text} names no passes to run: write "
                    f"--insert-after={place}=PASSES, as in --insert-after={place}=canonicalize,cse"
                )
            places.append(place)
        for name in (*self.skip, *filter(None, [self.stop_after]), *places):
            if name not in known:
                listed = f": it has {', '.join(known) or 'none'}"
                steps = list(steps_of(name))
                hint = did_you_mean(name, known, listed)
                if steps and set(steps) <= set(known):
                    hint = f", but its steps are: {', '.join(steps)}"
                raise ShardError(f"no pass '{name}' is in the pipeline{hint}")

    def check(self, nodes: tuple[Node, ...]) -> None:
        """Raise where a flag is given that no pass of the pipeline has a use for."""
        names = {element.name for element in elements_of(nodes)}
        for flag, (name, step, option) in _FLAGS.items():
            if getattr(self, flag) and names.isdisjoint((name, step, "spmd")):
                raise ShardError(
                    f"--{flag.replace('_', '-')} is of no use here: it is for --{name} "
                    f"(its option '{option}'), which is not in the pipeline"
                )

    def with_settings(self, node: Element) -> Element:
        """The element with the options that flags give it."""
        options = [node.options] if node.options else []
        for flag, (_, step, option) in _FLAGS.items():
            setting = getattr(self, flag)
            if setting and step == node.name:
                options.append(f"{option}={written(setting)}")
        return Element(node.name, " ".join(options))


_FLAGS = {
    "remarks": ("propagate", "propagate-shardings", "remarks"),
    "explain_sharding": ("propagate", "propagate-shardings", "explain"),
    "explain_printed_as": ("propagate", "propagate-shardings", "printed-as"),
    "strict": ("materialize", "insert-collectives", "strict"),
}
"""Flags of `opt` that are options of passes: the pipeline that they name, and the step in it."""


def _make_folder(path: str) -> None:
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot("write to", path, error) from None
