"""Soft constraints: annotations that are followed as far as the constraints leave them open."""

from __future__ import annotations

from dataclasses import replace

from shard_dialect.model import Annotation, ShardingError


def followed(known: Annotation | None, soft_constraint: Annotation) -> Annotation | None:
    """The annotation of a value that also follows a soft constraint; `None` if they conflict.

    >>> from shard_dialect.model import Sharding
    >>> open_row = Annotation(Sharding("g", ((), (1,))), open=(0,))
    >>> print(followed(open_row, Annotation(Sharding("g", ((0,), (1,))))))
    [[0], [1]]
    >>> print(followed(open_row, Annotation(Sharding("g", ((0,), ())))))
    None
    """
    if known is None:
        return None if soft_constraint.sharding.partial else soft_constraint
    if soft_constraint.sharding.partial or soft_constraint.grid != known.grid:
        return None
    longest = []
    pairs = zip(known.sharding.split_axes, soft_constraint.sharding.split_axes, strict=True)
    for dim, (actual, target) in enumerate(pairs):
        shorter, longer = sorted((actual, target), key=len)
        may_differ = dim in known.open if longer == target else dim in soft_constraint.open
        if longer[: len(shorter)] != shorter or (actual != target and not may_differ):
            return None
        longest.append(longer)
    try:
        return Annotation(
            replace(known.sharding, split_axes=tuple(longest)),
            open=tuple(dim for dim in known.open if dim in soft_constraint.open),
            replicated=tuple({*known.replicated, *soft_constraint.replicated}),
        )
    except ShardingError:  # one excludes an axis that the other uses
        return None
