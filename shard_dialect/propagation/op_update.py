"""One propagation step: how an op's rule updates the shardings of its operands and results.

    ([i, k], [k, j]) -> ([i, j])       lhs [{x}, {}], rhs [{}, {y}], result [{?}, {?}]
    basic                              result [{x}, {y}]

*Basic*: each factor gets the longest split on which all tensors with the factor agree. It leaves
out an axis with which some tensor would use an axis twice.

*Aggressive* differs in conflicts. Basic leaves out a contested axis in all tensors. Aggressive lets
each tensor take what it can, one factor after the other. The first factor is the one whose split
comes from the largest tensor. Ties are broken, for elementwise ops, by the most shards; then by the
first source tensor; then by the factor's number. The smallest case in which the two differ:

    ([i, j], [i, j]) -> ([i, j])       lhs [{x}, {?}], rhs [{?}, {x}], result [{?}, {?}]
    basic                              nothing
    aggressive                         result [{x}, {?}]

Source: Shardy, docs/propagation.md, BasicFactorPropagation and AggressiveFactorPropagation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Literal, NamedTuple

from shard_dialect.model import Annotation, Axes, Grid, Sharding, ShardingRule
from shard_dialect.model.factor_projection import (
    FactorSplit,
    SubAxisTriple,
    SubAxisTriples,
    axes_of,
    is_prefix,
    joint,
    overlaps,
    project,
    sub_axes_of,
    unproject,
    without,
)

Direction = Literal["both", "forward", "backward", "none"]
"""Whether shardings pass to all tensors of an op, to its results, to its operands, or to none."""
_Dims = tuple[tuple[int, ...], ...]
_FitFunction = Callable[[SubAxisTriple, int], "SubAxisTriple | None"]
"""From a sub-axis, and the number of shards before it, to the major factor that fits."""


@dataclass(frozen=True)
class PreparedRule:
    """A rule prepared for propagation: each dimension has a factor, and each tensor a number.

    `tensors` has the factors of the operands, and from index `results` on those of the results.
    Values that are not tensors have no dimensions.
    """

    rule: ShardingRule
    tensors: tuple[_Dims, ...]
    results: int
    sizes: tuple[int, ...]
    blocked: frozenset[int]
    special: frozenset[int]
    """The factors that are reduced, needed whole, or permuted."""
    is_elementwise: bool
    pinned: tuple[tuple[int, Axes], ...] = ()
    """Factors with a fixed split, whatever the shardings of the tensors."""
    pinned_on: str | None = None
    """The grid of the axes in `pinned`."""

    @classmethod
    def of(
        cls,
        rule: ShardingRule,
        pinned: tuple[tuple[int, Axes], ...] = (),
        pinned_on: str | None = None,
    ) -> PreparedRule:
        """Prepare `rule`; a dimension without a factor gets one of its own, of size 1."""
        sizes = list(rule.sizes)

        def filled(dims: _Dims | None) -> _Dims:
            filled_dims = []
            for dim in dims or ():
                if not dim:
                    dim = (len(sizes),)  # its own, which no other tensor shares
                    sizes.append(1)
                filled_dims.append(dim)
            return tuple(filled_dims)

        tensors = tuple(filled(dims) for dims in (*rule.operands, *rule.results))
        is_elementwise = rule.role == "elementwise"
        return cls(
            rule,
            tensors,
            len(rule.operands),
            tuple(sizes),
            rule.blocked,
            rule.special,
            is_elementwise,
            pinned,
            pinned_on,
        )


@dataclass(slots=True)
class _Tensor:
    factors: dict[int, FactorSplit]
    barred: SubAxisTriples
    """Axes that must not split the tensor: its replicated and partial axes."""


class Outcome(NamedTuple):
    """The new annotations, by tensor number, and the `contested` factors, in the order applied.

    A factor is contested if another factor could split the same tensor along the same axis.
    """

    annotations: dict[int, Annotation]
    contested: tuple[int, ...] = ()


def step(
    prepared: PreparedRule,
    annotations: Sequence[Annotation | None],
    directions: Sequence[Direction],
    grid: Grid,
    aggressive: bool = True,
    first: int | None = None,
    until_full: bool = False,
    conservative: bool = False,
) -> Outcome:
    """Propagate between the tensors of one op; `directions` has one for each factor.

    In a conflict the factor `first` goes first, if it is given. With `until_full`, no factor is
    split further than into shards of one element. If `conservative`, only by whole axes that divide
    it, and not at all if it is permuted.
    """
    tensors = [_projected(prepared, index, each, grid) for index, each in enumerate(annotations)]
    # Shards at offsets have the sizes that somebody chose, of which some may be 0.
    until_full = until_full and not any(each and each.sharding.offsets for each in annotations)
    if conservative:
        directions = [
            "none" if factor in prepared.rule.permuted else direction
            for factor, direction in enumerate(directions)
        ]
    candidates = _candidates(prepared, tensors, directions, grid, until_full)
    if not any(candidates):
        return Outcome({})
    contested = _contested(tensors, candidates)
    on = grid if conservative else None
    if aggressive:
        order = _order(prepared, tensors, candidates)
        # Stable: the other factors keep their order.
        order.sort(key=lambda factor: factor != first)
        changed = _grow_each(prepared, tensors, candidates, order, on)
        contested = [factor for factor in order if factor in contested]
    else:
        changed = _grow_together(prepared, tensors, candidates, on)
    new_annotations = {}
    for index in sorted(changed):
        new = _annotation(prepared, index, tensors[index], annotations[index], grid)
        if new is not None:
            new_annotations[index] = new
    return Outcome(new_annotations, tuple(contested))


def _contested(tensors: Sequence[_Tensor], candidates: Sequence[SubAxisTriples]) -> list[int]:
    some = [factor for factor, axes in enumerate(candidates) if axes]
    return [
        factor
        for factor in some
        if any(
            other != factor
            and any(overlaps(a, b) for a in candidates[factor] for b in candidates[other])
            and any(factor in each.factors and other in each.factors for each in tensors)
            for other in some
        )
    ]


def _candidates(
    prepared: PreparedRule,
    tensors: Sequence[_Tensor],
    directions: Sequence[Direction],
    grid: Grid,
    until_full: bool,
) -> list[SubAxisTriples]:
    candidates = [
        _candidate(
            tensors, prepared.results, factor, "none" if factor in prepared.blocked else direction
        )
        for factor, direction in enumerate(directions)
    ]
    if until_full:
        candidates = list(map(_until_full, candidates, prepared.sizes))
    for factor, axes in prepared.pinned:
        candidates[factor] = sub_axes_of(axes, grid)
    return candidates


def factors_of(
    prepared: PreparedRule, index: int, annotation: Annotation | None, grid: Grid
) -> dict[int, FactorSplit]:
    """How tensor number `index` splits the factors of the rule."""
    dims = prepared.tensors[index]
    if annotation is None:
        return project(dims, prepared.sizes, [()] * len(dims), [False] * len(dims))
    split = [sub_axes_of(axes, grid) for axes in annotation.sharding.split_axes[: len(dims)]]
    closed = [dim not in annotation.open for dim in range(len(dims))]
    factors = project(dims, prepared.sizes, split, closed)
    # Shards at offsets do not split one factor after the other: no other tensor has these axes.
    for dim, axes, at in zip(dims, split, annotation.sharding.offsets, strict=False):
        if at and len(dim) > 1:
            factors |= {factor: FactorSplit(is_closed=True) for factor in dim}
            factors[dim[0]].overflow = axes
    return factors


def _projected(
    prepared: PreparedRule, index: int, annotation: Annotation | None, grid: Grid
) -> _Tensor:
    barred = (
        (*annotation.replicated, *annotation.sharding.partial) if annotation is not None else ()
    )
    return _Tensor(factors_of(prepared, index, annotation, grid), sub_axes_of(barred, grid))


def _candidate(
    tensors: Sequence[_Tensor], results: int, factor: int, direction: Direction
) -> SubAxisTriples:
    """The longest split of the factor on which its tensors agree, without looking at others.

    With one direction, the tensors that receive limit the split, but do not extend it.
    """
    if direction == "none":
        return ()
    sources, targets = tensors[:results], tensors[results:]
    if direction == "backward":
        sources, targets = targets, sources
    axes: SubAxisTriples = ()
    may_grow = True
    for side in (sources, targets):
        if side is targets and direction != "both":
            may_grow = False
        for tensor in side:
            if factor in tensor.factors:
                axes, may_grow = joint(axes, tensor.factors[factor].axes, may_grow)
    return axes


def _until_full(axes: SubAxisTriples, size: int) -> SubAxisTriples:
    """The axes up to those that would split shards of one element.

    >>> _until_full(((1, 1, 4), (2, 1, 2)), 4), _until_full(((0, 1, 2),), 1)
    (((1, 1, 4),), ())
    >>> _until_full(((1, 1, 4), (2, 1, 2)), 5)
    ((1, 1, 4), (2, 1, 2))
    """
    count = 1
    for index, sub_axis in enumerate(axes):
        if count >= size and sub_axis[2] > 1:
            return axes[:index]
        count *= sub_axis[2]
    return axes


def _whole_axes(axes: SubAxisTriples, size: int, grid: Grid) -> SubAxisTriples:
    """The axes up to the first that is a sub-axis, or does not divide the rest of `size`.

    >>> grid = Grid("g", (2, 4))
    >>> _whole_axes(((0, 1, 2), (1, 1, 4)), 8, grid), _whole_axes(((0, 1, 2), (1, 1, 4)), 4, grid)
    (((0, 1, 2), (1, 1, 4)), ((0, 1, 2),))
    >>> _whole_axes(((1, 1, 2),), 8, grid)
    ()
    """
    count = 1
    for index, (axis, _, part) in enumerate(axes):
        count *= part
        if part != grid.axes_size((axis,)) or size % count:
            return axes[:index]
    return axes


def _grow_together(
    prepared: PreparedRule,
    tensors: list[_Tensor],
    candidates: list[SubAxisTriples],
    whole_on: Grid | None,
) -> set[int]:
    """Basic: split a factor only as far as all tensors can; returns the changed tensors.

    With a grid `whole_on`, only by whole axes of it that divide.
    """
    changed = set()
    for factor, axes in enumerate(candidates):

        def largest_fit(
            sub_axis: SubAxisTriple, before: int, factor: int = factor
        ) -> SubAxisTriple | None:
            kept: SubAxisTriple | None = sub_axis
            for tensor in tensors:
                kept = kept and _clear_of_others(kept, tensor, factor)
                if kept and factor in tensor.factors:
                    kept = _fitting(kept, tensor, factor, before, prepared.sizes[factor])
            return kept

        axes = _truncated(axes, largest_fit)
        if whole_on is not None:
            axes = _whole_axes(axes, prepared.sizes[factor], whole_on)
        for index, tensor in enumerate(tensors):
            if _extend(tensor, factor, axes):
                changed.add(index)
    return changed


def _grow_each(
    prepared: PreparedRule,
    tensors: list[_Tensor],
    candidates: list[SubAxisTriples],
    order: Sequence[int],
    whole_on: Grid | None,
) -> set[int]:
    """Aggressive: each tensor takes what it can, factors in this order, results first."""
    changed = set()
    # Results first: the operands of an elementwise op are split no further than these then are.
    for index in (*range(prepared.results, len(tensors)), *range(prepared.results)):
        tensor = tensors[index]
        for factor in order:
            if factor not in tensor.factors:
                continue
            axes = _longest(prepared, tensor, factor, candidates[factor])
            if whole_on is not None:
                axes = _whole_axes(axes, prepared.sizes[factor], whole_on)
            if axes and index < prepared.results and prepared.is_elementwise:
                axes = _no_further_than_results(prepared, tensors, factor, axes)
            if _extend(tensor, factor, axes):
                changed.add(index)
    return changed


def _longest(
    prepared: PreparedRule, tensor: _Tensor, factor: int, candidate: SubAxisTriples
) -> SubAxisTriples:
    """The prefix of the candidate split that the tensor can take; () if it has as much already."""

    def largest_fit(sub_axis: SubAxisTriple, before: int) -> SubAxisTriple | None:
        return _fitting(sub_axis, tensor, factor, before, prepared.sizes[factor])

    axes = _truncated(candidate, largest_fit)
    split = tensor.factors[factor].axes
    if axes == split or not is_prefix(split, axes):
        return ()
    return _truncated(axes, lambda sub_axis, _: _clear_of_others(sub_axis, tensor, factor))


def _no_further_than_results(
    prepared: PreparedRule, tensors: list[_Tensor], factor: int, axes: SubAxisTriples
) -> SubAxisTriples:
    """The prefix of `axes` that the results have too, for an operand of an elementwise op.

    If the result of an addition must stay unsplit, splitting the second operand like the first
    would only add a tensor to gather.
    """
    for result in tensors[prepared.results :]:
        if factor in result.factors:
            split = result.factors[factor].axes
            if split != axes and is_prefix(split, axes):
                axes = split
    return axes


def _order(
    prepared: PreparedRule, tensors: list[_Tensor], candidates: list[SubAxisTriples]
) -> list[int]:
    """The factors with a candidate split, in the order in which conflicts are resolved."""
    some = [factor for factor, axes in enumerate(candidates) if axes]
    if len(some) < 2:
        return some
    elements = [prod(prepared.sizes[factor] for factor in tensor.factors) for tensor in tensors]

    def key(factor: int) -> tuple[int, int, int, int]:
        sources = [
            (-elements[index], index)
            for index, tensor in enumerate(tensors)
            if factor in tensor.factors
            and is_prefix(candidates[factor], tensor.factors[factor].axes)
        ]
        largest, first = min(sources, default=(1, -1))
        count = prod(size for _, _, size in candidates[factor]) if prepared.is_elementwise else 0
        return largest, -count, first, factor

    return sorted(some, key=key)


def _fitting(
    sub_axis: SubAxisTriple, tensor: _Tensor, factor: int, before: int, size: int
) -> SubAxisTriple | None:
    """The major factor of `sub_axis` that the tensor has or can take.

    `before` is the number of shards of the rule's factor so far, `size` is its size.
    """
    kept = without(sub_axis, tensor.barred)
    if kept is None:
        return None
    here = tensor.factors[factor]
    axis, pre, count = kept
    # It splits the tensor so already.
    if any(a == axis and p <= pre and pre * count <= p * c for a, p, c in here.axes):
        return kept
    if not here.is_closed and not here.overflow:
        if here.is_minor:
            return kept
        # Another factor follows in the dimension, and its elements are in whole blocks of this one:
        # of 4x6 merged to 24, the factor of 4 can be split in 2 or 4, and not in 3.
        if size % before == 0:
            common = gcd(size // before, count)
            if common != 1 or count == 1:
                return (axis, pre, common)
    # The split may end in a part of the sub-axis: what the tensor has is a prefix of it.
    last = here.axes[-1] if here.axes else None
    return last if last and last[:2] == (axis, pre) and last[2] <= count else None


def _clear_of_others(sub_axis: SubAxisTriple, tensor: _Tensor, factor: int) -> SubAxisTriple | None:
    """The major factor of `sub_axis` that splits none of the tensor's other factors."""
    kept: SubAxisTriple | None = sub_axis
    for other, here in tensor.factors.items():
        if other != factor and kept is not None:
            kept = without(kept, here.overflow)
            kept = kept and without(kept, here.axes)
    return kept


def _truncated(axes: SubAxisTriples, largest_fit: _FitFunction) -> SubAxisTriples:
    """The axes up to the first that does not fit, of which the fitting major factor is kept."""
    kept: list[SubAxisTriple] = []
    count = 1
    for sub_axis in axes:
        fit = largest_fit(sub_axis, count)
        if fit is not None:
            kept.append(fit)
        if fit != sub_axis:
            break
        count *= sub_axis[2]
    return tuple(kept)


def _extend(tensor: _Tensor, factor: int, axes: SubAxisTriples) -> bool:
    """Split the factor along `axes` if they extend its split; returns whether they do."""
    if factor not in tensor.factors:
        return False
    here = tensor.factors[factor]
    if axes == here.axes or not is_prefix(here.axes, axes):
        return False
    here.axes = axes
    return True


def _annotation(
    prepared: PreparedRule, index: int, tensor: _Tensor, before: Annotation | None, grid: Grid
) -> Annotation | None:
    """The tensor's annotation after the step; `None` if it did not change."""
    sub_axes = unproject(prepared.tensors[index], prepared.sizes, tensor.factors)
    split = tuple(axes_of(each, grid) for each in sub_axes)
    if before is None:
        after = Annotation(Sharding(grid.name, split), open=tuple(range(len(split))))
        return after if any(split) else None
    if split == before.sharding.split_axes:
        return None
    return replace(before, sharding=replace(before.sharding, split_axes=split))
