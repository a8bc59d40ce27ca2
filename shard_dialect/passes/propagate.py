"""From annotated to propagated: give every tensor value a sharding.

    func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> tensor<4x16xf32> {
      %s = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
      %0 = shard.shard %w to %s : tensor<8x16xf32>
      %1 = linalg.matmul ins(%x, %0 ...) outs(%zero ...) -> tensor<4x16xf32>

becomes, the annotations still in place, what was inferred in attributes

    func.func @main(%x: ... {mesh.sharding = #mesh.shard<@g, [[], []]>}, %w: ...
      %1 = linalg.matmul {mesh.shardings = [#mesh.shard<@g, [[], [0]]>]} ins(...

Annotations are facts, in their turn by priority; no other value is touched twice in one dimension
but to split it further. Each op passes on, factor by factor, the longest split that its operands
and results agree on. Ops that pass every factor through go first, so that a chain of them ends up
in one sharding before a product or a reduction has a say; then all ops, backward before forward
(upstream's order) until nothing changes. Where two factors of one tensor want the same axis, the
larger source tensor wins: moving the smaller one is cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

from shard_dialect.ir.attributes import SHARDING, SHARDINGS
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text, warn
from shard_dialect.ir.function import (
    boundary,
    form_of,
    functions_of,
    set_boundary,
    set_form,
    update_type,
)
from shard_dialect.ir.program import Function, Op, read_function
from shard_dialect.ir.shardings import Shardings
from shard_dialect.model import Annotation, Grid, ShardingRule
from shard_dialect.model.axis import Axes, Axis
from shard_dialect.model.plan import common_prefix
from shard_dialect.passes.base import Pass
from shard_dialect.passes.facts import grid_of, read_facts
from shard_dialect.passes.import_ import import_annotations
from shard_dialect.passes.inline_named import inline_named
from shard_dialect.passes.known import State
from shard_dialect.passes.passages import Passage, passages_of


@dataclass(frozen=True)
class Propagate(Pass):
    """Complete the annotations: give every tensor value a sharding, as attributes."""

    name = "propagate"

    def rewrite(self, module: ir.Operation) -> None:
        import_annotations(module)
        shardings = Shardings.of(module)
        for handle in functions_of(module):
            if form_of(handle) in ("annotated", "propagated"):
                inline_named(handle)
                complete(read_function(handle), shardings)


def complete(function: Function, shardings: Shardings) -> Grid:
    """Bring one function to the propagated form; what it says already stays. Gives its grid."""
    facts = read_facts(function, shardings)
    grid = grid_of(function, facts, shardings)
    state = State(function, facts, grid)
    passages = passages_of(function, shardings, grid)
    _to_fixed_point(state, passages)
    for priority in state.priorities():
        state.release(priority)
        _to_fixed_point(state, passages)
    _follow_hints(state, passages)
    _write(function, state, shardings)
    return grid


def _to_fixed_point(state: State, passages: Sequence[Passage]) -> None:
    for ops in ([each for each in passages if each.rule.role in ("elementwise", "pass")], passages):
        changed = True
        while changed:
            backward = [_step(state, each) for each in reversed(ops)]
            forward = [_step(state, each) for each in ops]
            changed = any(backward + forward)


def _follow_hints(state: State, passages: Sequence[Passage]) -> None:
    """Let each hint hold where facts left room for it; say which ones they overrule."""
    overruled = [hint for hint in state.hints if not state.follow(hint)]
    _to_fixed_point(state, passages)
    told = set()
    for hint in overruled:
        place = location_text(hint.location)
        if place not in told:  # one op may speak of two values
            told.add(place)
            warn(
                f"the hint {hint.said} is overruled: other annotations make the value "
                f"{state.sharding(hint.value)}",
                hint.location,
            )


@dataclass
class _Offer:
    """The axes that one tensor offers a factor, and the elements of that tensor."""

    axes: Axes
    elements: float


def _step(state: State, passage: Passage) -> bool:
    """Pass shardings through one op; whether any value changed."""
    op, rule = passage.op, passage.rule
    results, operands = (
        [(value, dims) for value, dims in zip(values, rows, strict=True) if dims is not None]
        for values, rows in ((op.results, rule.results), (op.operands, rule.operands))
    )
    tensors = results + operands
    offers = _offers(
        state, {"forward": operands, "backward": results}.get(passage.to, tensors), rule
    )
    _fix_partial_loops(state, op, rule, offers)
    if passage.loops is not None:
        offers = {f: _Offer(axes, inf) for f, axes in enumerate(passage.loops) if axes}
    targets = {"forward": results, "backward": operands}.get(passage.to, tensors)
    changed = [_project(state, value, dims, offers) for value, dims in targets]
    return any(changed)


_Tensors = Sequence[tuple[int, tuple[tuple[int, ...], ...]]]


def _offers(state: State, tensors: _Tensors, rule: ShardingRule) -> dict[int, _Offer]:
    """The best offer for each factor: the longest that agree, or the larger tensor's."""
    best: dict[int, _Offer] = {}
    for value, dims in tensors:
        elements = prod(state.shapes[value] or ())
        for dim, factors in enumerate(dims):
            axes = state.split[value][dim]
            if len(factors) != 1 or not axes or factors[0] in rule.unsplit:
                continue
            have = best.get(factors[0])
            agree = have is not None and common_prefix(have.axes, axes) == min(
                len(have.axes), len(axes)
            )
            if have is None or (len(axes) > len(have.axes) if agree else elements > have.elements):
                best[factors[0]] = _Offer(axes, elements)
    return best


def _fix_partial_loops(state: State, op: Op, rule: ShardingRule, offers: dict[int, _Offer]) -> None:
    """A result annotated partial says exactly how the reduction loops are split."""
    partial = [state.facts[value].sharding.partial for value in op.results if value in state.facts]
    axes = tuple(axis for each in partial for axis in each)
    if not axes:
        return
    for factor, _ in rule.reductions:
        divides = rule.sizes[factor] % state.grid.axes_size(axes) == 0
        if divides:
            offers[factor] = _Offer(axes, max(prod(state.shapes[op.results[0]] or ()), 1))
            axes = ()
        else:
            offers.pop(factor, None)


def _project(
    state: State, value: int, dims: tuple[tuple[int, ...], ...], offers: dict[int, _Offer]
) -> bool:
    """Split the value's dimensions further by what is offered to their factors."""
    shape = state.shapes[value]
    if shape is None:
        return False
    split = state.split[value]
    wanted = [
        (offers[factors[0]], dim)
        for dim, factors in enumerate(dims)
        if len(factors) == 1 and factors[0] in offers
    ]
    changed = False
    for offer, dim in sorted(wanted, key=lambda each: -each[0].elements):
        have = split[dim]
        if dim in state.closed[value]:
            continue
        taken = state.barred[value] | {
            axis for other, axes in enumerate(split) if other != dim for axis in axes
        }
        axes = _usable(offer.axes, taken, shape[dim], state.grid)
        if len(axes) > len(have) and axes[: len(have)] == have:
            split[dim] = axes
            changed = True
    return changed


def _usable(axes: Axes, taken: set[Axis], size: int, grid: Grid) -> Axes:
    """The major part of `axes` that is free and divides the dimension."""
    count = 0
    while (
        count < len(axes)
        and axes[count] not in taken
        and size % grid.axes_size(axes[: count + 1]) == 0
    ):
        count += 1
    return axes[:count]


def _write(function: Function, state: State, shardings: Shardings) -> None:
    def attribute(value: int) -> ir.Attribute:
        if state.shapes[value] is None:
            return ir.UnitAttr.get()
        return shardings.write(state.sharding(value))

    for key, values in (("arg_attrs", function.arguments), ("res_attrs", function.returned)):
        entries = boundary(function.handle, key)
        for value, attributes in zip(values, entries, strict=True):
            if state.shapes[value] is not None:
                whole = state.sharding(value).with_partial(())  # callers cannot sum up pieces
                if SHARDING in attributes:
                    said = shardings.read_annotation(attributes[SHARDING], whole.rank)
                    whole = (said.meet(Annotation(whole)) or said).sharding
                attributes[SHARDING] = shardings.write(whole)
        set_boundary(function.handle, key, entries)
    for op in function.ops:
        if any(state.shapes[value] is not None for value in op.results):
            op.handle.attributes[SHARDINGS] = ir.ArrayAttr.get(
                [attribute(value) for value in op.results]
            )
    update_type(function.handle)
    set_form(function.handle, "propagated")
