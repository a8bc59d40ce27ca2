"""What one op does for the shardings of its operands and results, by its rule.

    ([i, k], [k, j]) -> ([i, j])       lhs [{x}, {}], rhs [{}, {y}], result [{?}, {?}]
    basic                              result [{x}, {y}]

*Basic*: along each factor the longest split that all tensors with it agree on, given only if no
tensor would use an axis twice by it.

*Aggressive* differs where tensors are in conflict: basic leaves such an axis out for all, while
here each tensor takes what it can, the factors in a stated order: that from the largest tensor
first; of an elementwise op then the one that is split most; then that from the first tensor; then
the first. The smallest case where they sub-axis:

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
from shard_dialect.model.projection import (
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
"""Whether shardings pass to all tensors of an op, to its results, or to its operands."""
_Dims = tuple[tuple[int, ...], ...]
_Fits = Callable[[SubAxisTriple, int], "SubAxisTriple | None"]


@dataclass(frozen=True)
class PreparedRule:
    """A rule made ready: each dimension has a factor, each tensor a place.

    `tensors` are the operands, and from `results` on the results; those that are no tensors have
    no dimensions.
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
    """Factors whose split is given, whatever the tensors say, and on which grid."""
    pinned_on: str | None = None

    @classmethod
    def of(
        cls,
        rule: ShardingRule,
        pinned: tuple[tuple[int, Axes], ...] = (),
        pinned_on: str | None = None,
    ) -> PreparedRule:
        sizes = list(rule.sizes)

        def filled(dims: _Dims | None) -> _Dims:
            made = []
            for dim in dims or ():
                if not dim:
                    dim = (len(sizes),)  # its own, which no other tensor shares
                    sizes.append(1)
                made.append(dim)
            return tuple(made)

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
    """Axes that the tensor is replicated or partial along."""


class Outcome(NamedTuple):
    """What is new for which tensor, by its place; and the factors that were in conflict.

    These want an axis that another one wants in a tensor of both. They stand in the order in which
    they went.
    """

    made: dict[int, Annotation]
    contested: tuple[int, ...] = ()


def step(
    form: PreparedRule,
    said: Sequence[Annotation | None],
    directions: Sequence[Direction],
    grid: Grid,
    aggressive: bool = True,
    first: int | None = None,
) -> Outcome:
    """Pass shardings on; `directions` has one for each factor.

    Of those in conflict the factor `first` goes first, if it is given.
    """
    tensors = [_projected(form, place, each, grid) for place, each in enumerate(said)]
    wanted = _all_wanted(form, tensors, directions, grid)
    if not any(wanted):
        return Outcome({})
    contested = _contested(tensors, wanted)
    if aggressive:
        order = _order(form, tensors, wanted)
        order.sort(key=lambda factor: factor != first)
        changed = _grow_each(form, tensors, wanted, order)
        contested = [factor for factor in order if factor in contested]
    else:
        changed = _grow_together(form, tensors, wanted)
    made = {}
    for place in sorted(changed):
        new = _annotation(form, place, tensors[place], said[place], grid)
        if new is not None:
            made[place] = new
    return Outcome(made, tuple(contested))


def _contested(tensors: Sequence[_Tensor], wanted: Sequence[SubAxisTriples]) -> list[int]:
    some = [factor for factor, axes in enumerate(wanted) if axes]
    return [
        factor
        for factor in some
        if any(
            other != factor
            and any(overlaps(a, b) for a in wanted[factor] for b in wanted[other])
            and any(factor in each.factors and other in each.factors for each in tensors)
            for other in some
        )
    ]


def _all_wanted(
    form: PreparedRule, tensors: Sequence[_Tensor], directions: Sequence[Direction], grid: Grid
) -> list[SubAxisTriples]:
    wanted = [
        _wanted(tensors, form.results, factor, "none" if factor in form.blocked else direction)
        for factor, direction in enumerate(directions)
    ]
    for factor, axes in form.pinned:
        wanted[factor] = sub_axes_of(axes, grid)
    return wanted


def factors_of(
    form: PreparedRule, place: int, said: Annotation | None, grid: Grid
) -> dict[int, FactorSplit]:
    """How the tensor at a place splits the factors of the rule."""
    dims = form.tensors[place]
    if said is None:
        return project(dims, form.sizes, [()] * len(dims), [False] * len(dims))
    split = [sub_axes_of(axes, grid) for axes in said.sharding.split_axes[: len(dims)]]
    closed = [dim not in said.open for dim in range(len(dims))]
    return project(dims, form.sizes, split, closed)


def _projected(form: PreparedRule, place: int, said: Annotation | None, grid: Grid) -> _Tensor:
    barred = (*said.replicated, *said.sharding.partial) if said is not None else ()
    return _Tensor(factors_of(form, place, said, grid), sub_axes_of(barred, grid))


def _wanted(
    tensors: Sequence[_Tensor], results: int, factor: int, direction: Direction
) -> SubAxisTriples:
    """The longest split of the factor that its tensors agree on, conflicts aside.

    In one direction those on its far side are looked at for conflicts, but give nothing.
    """
    if direction == "none":
        return ()
    near, far = tensors[:results], tensors[results:]
    if direction == "backward":
        near, far = far, near
    axes: SubAxisTriples = ()
    may_grow = True
    for side in (near, far):
        if side is far and direction != "both":
            may_grow = False
        for tensor in side:
            if factor in tensor.factors:
                axes, may_grow = joint(axes, tensor.factors[factor].axes, may_grow)
    return axes


def _grow_together(
    form: PreparedRule, tensors: list[_Tensor], wanted: list[SubAxisTriples]
) -> set[int]:
    """Basic: a factor grows only as far as it can in all tensors."""
    changed = set()
    for factor, axes in enumerate(wanted):

        def fits(
            sub_axis: SubAxisTriple, before: int, factor: int = factor
        ) -> SubAxisTriple | None:
            kept: SubAxisTriple | None = sub_axis
            for tensor in tensors:
                kept = kept and _clear_of_others(kept, tensor, factor)
                if kept and factor in tensor.factors:
                    kept = _fitting(kept, tensor, factor, before, form.sizes[factor])
            return kept

        axes = _truncated(axes, fits)
        for place, tensor in enumerate(tensors):
            if _extend(tensor, factor, axes):
                changed.add(place)
    return changed


def _grow_each(
    form: PreparedRule, tensors: list[_Tensor], wanted: list[SubAxisTriples], order: Sequence[int]
) -> set[int]:
    """Aggressive: each tensor takes what it can, by factors in this order; results first."""
    changed = set()
    for place in (*range(form.results, len(tensors)), *range(form.results)):
        tensor = tensors[place]
        for factor in order:
            if factor not in tensor.factors:
                continue
            axes = _longest(form, tensor, factor, wanted[factor])
            if axes and place < form.results and form.is_elementwise:
                axes = _no_further_than_results(form, tensors, factor, axes)
            if _extend(tensor, factor, axes):
                changed.add(place)
    return changed


def _longest(
    form: PreparedRule, tensor: _Tensor, factor: int, wanted: SubAxisTriples
) -> SubAxisTriples:
    """What the tensor can take of `wanted`; () if that is no more than it has."""

    def fits(sub_axis: SubAxisTriple, before: int) -> SubAxisTriple | None:
        return _fitting(sub_axis, tensor, factor, before, form.sizes[factor])

    axes = _truncated(wanted, fits)
    have = tensor.factors[factor].axes
    if axes == have or not is_prefix(have, axes):
        return ()
    return _truncated(axes, lambda sub_axis, _: _clear_of_others(sub_axis, tensor, factor))


def _no_further_than_results(
    form: PreparedRule, tensors: list[_Tensor], factor: int, axes: SubAxisTriples
) -> SubAxisTriples:
    """Sideways to an operand only what a result has too.

    Where the result of an addition must stay whole, splitting its second operand like its first
    would only make the one more tensor to gather.
    """
    for result in tensors[form.results :]:
        if factor in result.factors:
            have = result.factors[factor].axes
            if have != axes and is_prefix(have, axes):
                axes = have
    return axes


def _order(form: PreparedRule, tensors: list[_Tensor], wanted: list[SubAxisTriples]) -> list[int]:
    """The factors that want something, in the order in which conflicts are resolved."""
    some = [factor for factor, axes in enumerate(wanted) if axes]
    if len(some) < 2:
        return some
    elements = [prod(form.sizes[factor] for factor in tensor.factors) for tensor in tensors]

    def key(factor: int) -> tuple[int, int, int, int]:
        sources = [
            (-elements[place], place)
            for place, tensor in enumerate(tensors)
            if factor in tensor.factors and is_prefix(wanted[factor], tensor.factors[factor].axes)
        ]
        largest, first = min(sources, default=(1, -1))
        count = prod(size for _, _, size in wanted[factor]) if form.is_elementwise else 0
        return largest, -count, first, factor

    return sorted(some, key=key)


def _fitting(
    sub_axis: SubAxisTriple, tensor: _Tensor, factor: int, before: int, size: int
) -> SubAxisTriple | None:
    """The major factor of `sub_axis` that the tensor has or can take; `before` it is split."""
    kept = without(sub_axis, tensor.barred)
    if kept is None:
        return None
    here = tensor.factors[factor]
    axis, pre, count = kept
    if any(a == axis and p <= pre and pre * count <= p * c for a, p, c in here.axes):
        return kept
    if not here.is_closed and not here.overflow:
        if here.is_minor:
            return kept
        if size % before == 0:
            common = gcd(size // before, count)
            if common != 1 or count == 1:
                return (axis, pre, common)
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


def _truncated(axes: SubAxisTriples, fits: _Fits) -> SubAxisTriples:
    """The axes up to the first that does not fit whole; `fits` knows how much came before."""
    kept: list[SubAxisTriple] = []
    count = 1
    for sub_axis in axes:
        found = fits(sub_axis, count)
        if found is not None:
            kept.append(found)
        if found != sub_axis:
            break
        count *= sub_axis[2]
    return tuple(kept)


def _extend(tensor: _Tensor, factor: int, axes: SubAxisTriples) -> bool:
    """Split the tensor's factor by `axes` if that is more of the same; whether it was."""
    if factor not in tensor.factors:
        return False
    here = tensor.factors[factor]
    if axes == here.axes or not is_prefix(here.axes, axes):
        return False
    here.axes = axes
    return True


def _annotation(
    form: PreparedRule, place: int, tensor: _Tensor, before: Annotation | None, grid: Grid
) -> Annotation | None:
    """What is known of the tensor now, or `None` if it is what was known before."""
    sub_axes = unproject(form.tensors[place], form.sizes, tensor.factors)
    split = tuple(axes_of(each, grid) for each in sub_axes)
    if before is None:
        after = Annotation(Sharding(grid.name, split), open=tuple(range(len(split))))
        return after if any(split) else None
    if split == before.sharding.split_axes:
        return None
    return replace(before, sharding=replace(before.sharding, split_axes=split))
