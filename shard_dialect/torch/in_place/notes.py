"""What `fully_shard` and `parallelize_module` have said of modules, and the plan that it makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch.distributed import fsdp

from shard_dialect.errors import ShardError
from shard_dialect.runtime.compiled_program import Compiler
from shard_dialect.torch.in_place.mesh_axes import MeshAxes


@dataclass(frozen=True)
class Note:
    """What one call has said of a module."""

    axes: MeshAxes
    style: Any = None
    """A style; else `fully_shard` was called, with `options`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    ignored: frozenset[str] = frozenset()
    compiler: Compiler | None = None

    def value(self, module: Any) -> Any:
        """As a plan has it."""
        if self.style is not None:
            return self.style
        kept = {each for name, each in module.named_parameters() if name in self.ignored}
        return partial(fsdp.fully_shard, **self.options, ignored_params=kept)


def noted(module: Any) -> list[tuple[str, Any, Note]]:
    """The notes of a module and of those inside, of the innermost first, with their names."""
    modules = list(module.named_modules())
    modules.sort(key=lambda each: -each[0].count(".") - bool(each[0]))
    return [(name, each, note) for name, each in modules for note in vars(each).get("_notes", ())]


def compiler_of(notes: Sequence[tuple[str, Any, Note]]) -> Compiler | None:
    """What one call or several have said that computes. Raises `ShardError` if they disagree."""
    said = list(dict.fromkeys(note.compiler for _, _, note in notes if note.compiler))
    if len(said) > 1:
        raise ShardError(
            f'one call says compiler="{said[0]}", and another one "{said[1]}": a module is one '
            "program, which one of them computes"
        )
    return said[0] if said else None


def plan_of(module: Any) -> dict[str, dict[str, Any]]:
    """All notes as one plan."""
    plan: dict[str, dict[str, Any]] = {}
    for name, each, note in noted(module):
        is_empty = note.style is None and not any(True for _ in each.parameters())
        if not is_empty:
            axis = note.axes.names[-1]  # of two, `fully_shard` replicates along the first
            plan.setdefault(axis, {})[name] = note.value(each)
    return plan
