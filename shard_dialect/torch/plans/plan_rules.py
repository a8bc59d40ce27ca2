"""Plans as people write them, as a list of rules.

    {"layers.*.wq.weight": [Replicate(), Shard(0)],        a placement for each mesh dimension
     "tp": {"layers.*.wo": RowwiseParallel()},             a style, or a placement, for this one
     "dp": fully_shard}                                    parameters split along this one

A name has one part for each dot. `*` and `?` in a part are wildcards, `**` is any number of parts.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from shard_dialect.errors import ShardError
from shard_dialect.model import Grid
from shard_dialect.torch.plans.placement_lists import ByAxis, is_placement

Plan = Mapping[str, Any]


@dataclass(frozen=True)
class Rule:
    """What a plan says of all names that match a pattern: one of the three."""

    pattern: str
    placements: ByAxis | None = None
    style: Any = None
    """A `ParallelStyle`, for the modules of these names."""
    split: Callable[[Any], Any] | None = None
    """From a parameter to its placement, as the `shard_placement_fn` of `fully_shard`."""
    axis: int = 0
    """The mesh dimension that `style` and `split` are about."""


def rules_of(plan: Plan, grid: Grid) -> list[Rule]:
    """The rules of a plan, in its order. Raises `ShardError` for what is no plan."""
    return list(_rules(plan, grid, None))


def _rules(plan: Plan, grid: Grid, axis: int | None) -> Iterator[Rule]:
    if not isinstance(plan, Mapping):
        raise ShardError(f"a plan is a dict from names, not {plan!r}")
    names = [grid.axis_name(each) for each in range(grid.rank)]
    for key, value in plan.items():
        is_nested = isinstance(value, Mapping) or _splits(value)
        if axis is None and key in names and is_nested:
            inner = value if isinstance(value, Mapping) else {"**": value}
            yield from _rules(inner, grid, names.index(key))
        elif isinstance(value, Mapping):
            raise ShardError(
                f'"{key}" is no dimension of the mesh; its dimensions: {", ".join(names)}'
            )
        else:
            yield _rule(key, value, grid, axis)


def _rule(pattern: str, value: Any, grid: Grid, axis: int | None) -> Rule:
    if isinstance(value, (list, tuple)) and all(map(is_placement, value)):
        axes = range(grid.rank) if axis is None else [axis]
        if len(value) != len(axes):
            raise ShardError(
                f'"{pattern}" has {len(value)} placements: expected {len(axes)}, one for each '
                "dimension of the mesh"
            )
        return Rule(pattern, dict(zip(axes, value, strict=True)))
    if axis is None and grid.rank > 1:
        raise ShardError(
            f'"{pattern}" has {value!r}, and the mesh {grid.rank} dimensions: give a list of one '
            "placement for each, or put this under the name of the dimension that it is about, as "
            f'{{"{grid.axis_name(grid.rank - 1)}": {{"{pattern}": ...}}}}'
        )
    if is_placement(value):
        return Rule(pattern, {axis or 0: value})
    if hasattr(value, "_apply"):
        return Rule(pattern, style=value, axis=axis or 0)
    if _splits(value):
        return Rule(pattern, split=_placement_function(value), axis=axis or 0)
    raise ShardError(
        f'"{pattern}" has {value!r}: expected placements, a style of parallelize_module, or '
        "fully_shard"
    )


def _splits(value: Any) -> bool:
    is_class_or_style = isinstance(value, type) or hasattr(value, "_apply")
    return callable(value) and not is_class_or_style and not is_placement(value)


def _placement_function(value: Any) -> Callable[[Any], Any]:
    """That of `fully_shard`, of a `functools.partial` of it, or the function itself."""
    function = getattr(value, "func", value)
    if getattr(function, "__name__", "") != "fully_shard":
        of_user: Callable[[Any], Any] = value
        return of_user
    keywords = getattr(value, "keywords", {})
    given = keywords.get("shard_placement_fn") or (lambda _: None)
    ignored = {id(each) for each in keywords.get("ignored_params") or ()}
    return lambda parameter: NOT_SPLIT if id(parameter) in ignored else given(parameter)


NOT_SPLIT = object()
"""What the function of a rule gives for a parameter that is to be left alone."""


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Those of `names` that match.

    >>> matching("layers.*.w", ["layers.0.w", "layers.0.a.w"]), matching("**.w", ["w", "a.b.w"])
    (['layers.0.w'], ['w', 'a.b.w'])
    """
    parts = pattern.split(".") if pattern else []
    return [name for name in names if _matches(parts, name.split(".") if name else [])]


def _matches(pattern: Sequence[str], name: Sequence[str]) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "**":
        return any(_matches(pattern[1:], name[start:]) for start in range(len(name) + 1))
    return bool(name) and fnmatchcase(name[0], pattern[0]) and _matches(pattern[1:], name[1:])


def matches_nothing(pattern: str, names: Iterable[str], what: str) -> ShardError:
    """The error for a pattern of a plan, with the names that are nearest to it."""
    known = [each for each in names if each]
    near = difflib.get_close_matches(pattern, known, n=3, cutoff=0.5)
    hint = ", ".join(f'"{each}"' for each in near or known[:6])
    return ShardError(f'"{pattern}" in the plan matches no {what}; near: {hint}')
