"""Prints the module before and after passes, on stderr or to files, as `mlir-opt` does.

    // -----// IR Dump After propagate-shardings //----- //
    // -----// IR Dump After cse ('func.func' operation: @main) //----- //

The bindings print by MLIR's own printer only. So each dump is a step of the pipeline, with the
printer that `opt` prints its output with: one program in one spelling from the first to the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from shard_dialect.errors import as_symbol, cannot, say
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import name_of
from shard_dialect.ir.pretty_ops import pretty
from shard_dialect.passes.framework.options import Element
from shard_dialect.processes.atomic_files import Output

NAME = "dump-ir"
"""The name of a dump among the steps of a pipeline, which no user writes."""


class When(Enum):
    """What a dump does, as its options say it."""

    BEFORE = "Before"
    AFTER = "After"
    BEGIN = "begin"
    """Only remembers the module, for what comes after."""
    CHANGED = "changed"
    """Prints if the module is not as it was at the beginning."""
    SEEN = "seen"
    """Prints nothing: shows the module to who asked for it."""


def dump(when: When, name: str) -> Element:
    """A dump at a pass or a pipeline with this name."""
    return Element(NAME, f"{when.value} {name}")


def is_dump(node: object) -> bool:
    """Whether a step of a pipeline is a dump."""
    return isinstance(node, Element) and node.name == NAME


def plain(op: ir.Operation) -> str:
    """An op as MLIR prints it, with ops of `mesh` in their pretty spelling."""
    return pretty(op.get_asm())


@dataclass
class Dumps:
    """The dumps of a run of a pipeline."""

    printed: Callable[[ir.Operation], str] = plain
    """The text of a module."""
    of_modules: bool = False
    """Print all of the module at passes on functions, too."""
    folder: str | None = None
    """Write to files in this folder."""
    after_failure: bool = False
    seen: Callable[[str, ir.Operation], None] | None = None
    """Is shown the module after each pass, with its name."""
    _running: tuple[str, ir.Operation] | None = None
    _before: str = ""
    _count: int = field(default=0)

    def at(self, element: Element, op: ir.Operation) -> None:
        """Do what a dump says, where the pipeline has come to `op`."""
        word, _, name = element.options.partition(" ")
        when = When(word)
        if when is When.SEEN:
            if self.seen is not None:
                self.seen(name, op)
        elif when is When.BEGIN:
            self._running, self._before = (name, op), op.get_asm()
        elif when is When.CHANGED:
            if op.get_asm() != self._before:
                self._print(f"After {name}", name, op)
        else:
            self._print(f"{when.value} {name}", name, op)

    def fail(self) -> None:
        """Print the module after the pass that has failed, if that is asked for."""
        if self.after_failure and self._running is not None:
            name, op = self._running
            self._running = None
            self._print(f"After {name} Failed", name, op)

    def _print(self, what: str, name: str, op: ir.Operation) -> None:
        is_module = op.name == "builtin.module"
        of = "" if is_module else f" ('{op.name}' operation{_symbol(op)})"
        head = f"// -----// IR Dump {what}{of} //----- //"
        text = f"{head}\n{self._text(op).rstrip()}\n"
        if self.folder is None:
            say(f"{text}\n")
            return
        path = Path(self.folder, *_folders(op), f"{self._count}_{_file_name(name)}.mlir")
        self._count += 1
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot("write to", str(path.parent), error) from None
        Output(str(path)).replace(lambda file: file.write(text.encode()))

    def _text(self, op: ir.Operation) -> str:
        """The text of an op: of a function without the module around it, unless all is wanted."""
        if op.name == "builtin.module":
            return self.printed(op)
        module = op
        while module.parent is not None:
            module = module.parent
        if self.of_modules:
            return self.printed(module)
        return pretty(op.get_asm())


def _symbol(op: ir.Operation) -> str:
    return f": {as_symbol(name_of(op))}" if "sym_name" in op.attributes else ""


def _folders(op: ir.Operation) -> Iterator[str]:
    """The folders of an op's files, as MLIR calls them: those of the ops around it, then its."""
    if op.parent is not None:
        yield from _folders(op.parent)
    named = name_of(op) if "sym_name" in op.attributes else "no-symbol-name"
    yield _file_name(f"{op.name.replace('.', '_')}_{named}")


def _file_name(name: str) -> str:
    return "".join(each if each.isalnum() or each in "-_." else "_" for each in name)[:100]
