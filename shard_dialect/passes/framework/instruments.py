"""What is shown of a running pipeline, on stderr: dumps of the IR, and times."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from shard_dialect.errors import ShardError, cannot
from shard_dialect.ir.bindings import PassManager, submodule
from shard_dialect.passes.framework.pipeline_text import Element, Group, Node, elements_of


@dataclass(frozen=True)
class Instruments:
    """As `mlir-opt`'s flags of these names do; the last three are options of passes."""

    print_ir_before: tuple[str, ...] = ()
    """Names of passes, at any depth."""
    print_ir_after: tuple[str, ...] = ()
    print_ir_before_all: bool = False
    print_ir_after_all: bool = False
    print_ir_after_change: bool = False
    print_ir_after_failure: bool = False
    print_ir_module_scope: bool = False
    print_ir_tree_dir: str | None = None
    timing: bool = False
    statistics: Literal["list", "pipeline"] | None = None
    verify_each: bool = True
    remarks: bool = False
    explain_sharding: str | None = None
    strict: bool = False

    def attach(self, manager: PassManager) -> None:
        """Have the manager verify, time and print as the flags ask.

        Raises `ShardError` for a folder that cannot be made.
        """
        manager.enable_verifier(self.verify_each)
        if self.timing:
            manager.enable_timing()
        if self.statistics:
            modes = submodule("passmanager").PassDisplayMode
            manager.enable_statistics(getattr(modes, self.statistics.upper()))
        self.attach_printing(manager)

    def attach_printing(self, manager: PassManager) -> None:
        """Have the manager print the IR around all passes, for the flags that concern all."""
        if self.print_ir_tree_dir:
            _make_folder(self.print_ir_tree_dir)
        after = self.print_ir_after_all or self.print_ir_after_change
        if self.print_ir_before_all or after or self.print_ir_after_failure:
            manager.enable_ir_printing(
                print_before_all=self.print_ir_before_all,
                print_after_all=after,
                print_module_scope=self.print_ir_module_scope,
                print_after_change=self.print_ir_after_change,
                print_after_failure=self.print_ir_after_failure,
                tree_printing_dir_path=self.print_ir_tree_dir,
            )

    def around(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        """The pipeline with upstream's `print-ir` at the passes that are to be printed.

        The bindings print around all passes or none, so these prints are passes themselves.

        >>> show = Instruments(print_ir_after=("cse",))
        >>> print(*show.around((Group("func.func", (Element("cse"),)), Element("inline"))))
        func.func(cse,print-ir{label={After cse}}) inline
        """
        passes: list[Node] = []
        for node in nodes:
            if isinstance(node, Group):
                passes.append(Group(node.anchor, self.around(node.inside)))
                continue
            if node.name in self.print_ir_before:
                passes.append(_print("Before", node))
            passes.append(self._with_setting(node))
            if node.name in self.print_ir_after:
                passes.append(_print("After", node))
        return tuple(passes)

    def check(self, nodes: tuple[Node, ...]) -> None:
        """Raise where a flag is given that no pass of the pipeline has a use for."""
        names = {element.name for element in elements_of(nodes)}
        for flag, (name, option) in _FLAGS.items():
            if getattr(self, flag) and name not in names:
                raise ShardError(
                    f"--{flag.replace('_', '-')} is of no use here: it is for --{name} "
                    f"(its option '{option}'), which is not in the pipeline"
                )

    def _with_setting(self, node: Element) -> Element:
        """The element with the options that flags give it."""
        options = [node.options] if node.options else []
        for flag, (name, option) in _FLAGS.items():
            setting = getattr(self, flag)
            if setting and name == node.name:
                options.append(f"{option}=true" if setting is True else f"{option}='{setting}'")
        return Element(node.name, " ".join(options))


_FLAGS = {
    "remarks": ("propagate", "remarks"),
    "explain_sharding": ("propagate", "explain"),
    "strict": ("materialize", "strict"),
}
"""Flags of `opt` that are options of passes, wherever in the pipeline these stand."""


def _make_folder(path: str) -> None:
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot("write to", path, error) from None


def _print(when: str, node: Element) -> Element:
    return Element("print-ir", f"label={{{when} {node.name}}}")
