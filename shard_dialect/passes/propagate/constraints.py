"""Read the annotations of one function, from which propagation infers all other shardings.

Annotations are ops and attributes. The attributes of the propagated form count as annotations, so
that a propagated function can be propagated again after other passes have changed it.

The splits of an op's loops may be annotated, too, and are kept whatever they cost. The annotation
is the RFC's `sharding = [[0], [], [1]]` on the op, or a partial sharding of a result: then the
reduction loops are split along exactly the axes over which the result is partial.

Soft constraints are read apart from constraints, since they are followed only as far as the
constraints leave them open.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at, located, warn
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.annotation_ops import (
    BOUNDARY_OPS,
    LOOPS,
    AnnotatedValue,
    annotated_results,
    annotated_values,
    computations_around,
    grid_of,
    has_loops,
    manual_axes_of,
    merged,
    read_loops,
)
from shard_dialect.ir.mesh.attributes import SHARDINGS, STAGES
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import Function, Op
from shard_dialect.ir.shard.local_collectives import is_between_devices
from shard_dialect.ir.walk import walk
from shard_dialect.model import Annotation, Assignment, Axes, Grid, ShardingError, ShardingRule
from shard_dialect.model.grid import axes_text, full_axis
from shard_dialect.ops.uneven_shards import may_be_uneven
from shard_dialect.passes.manual.replica_group_collectives import (
    check_between_devices,
    on_global_tensors,
)

_SCALAR_CODE = ("linalg", "stablehlo", "tosa")
"""Dialects whose regions, if they have no flows, contain only scalar code: the only tensors there
are values from outside."""


@dataclass(frozen=True, slots=True)
class SoftConstraint:
    """An annotation of a value, followed as far as the constraints leave it open."""

    value: int
    annotation: Annotation
    location: ir.Location


@dataclass(frozen=True, slots=True)
class Constraints:
    """The annotations of a function.

    `known` has the annotation of each annotated value, by number; `soft_constraints` has those with
    `required = false`, which are not in `known`. `constrained` has the values that are annotated
    only for their users, all with the same closed sharding, which the value itself may take too.
    `returned` has the annotations of the function's results, by index.
    """

    known: dict[int, Annotation]
    soft_constraints: tuple[SoftConstraint, ...]
    constrained: dict[int, Annotation]
    returned: dict[int, Annotation]


def read_constraints(function: Function, shardings: Shardings) -> Constraints:
    """The annotations of `function`, checked. Raises a located `ShardError`."""
    _refuse_unsupported_ops(function, shardings)
    numbers = {value.handle: number for number, value in enumerate(function.values)}
    every = annotated_values(function, shardings)
    for each in every:
        if each.value not in numbers:
            raise error_at(each.location, "an annotation inside of this region is not read yet")
    if any(op.name in BOUNDARY_OPS for op in function.ops):
        _refuse_manual_axes(every)
    annotated = [each for each in every if _is_valid(each, function, numbers[each.value])]
    known = {numbers[value]: both for value, both in merged(annotated).items()}
    for each in annotated:
        if each.strength == "default":
            known.setdefault(numbers[each.value], each.annotation)
    soft_constraints = [
        SoftConstraint(numbers[each.value], each.annotation, each.location)
        for each in annotated
        if each.strength == "soft_constraint"
    ]
    returned = annotated_results(function.handle, shardings)
    return Constraints(
        known, tuple(soft_constraints), _constrained(function, known, shardings), returned
    )


def _constrained(
    function: Function, known: dict[int, Annotation], shardings: Shardings
) -> dict[int, Annotation]:
    annotations: dict[int, set[Annotation]] = {}
    for op in function.ops:
        if op.name != "mesh.annotate" or op.operands[0] in known:
            continue
        with located(op.handle):
            annotated = annotation_ops.read_annotation(op.handle, shardings)
        if annotated is not None and annotated.for_users and annotated.required:
            annotations.setdefault(op.operands[0], set()).add(annotated.annotation)
    return {
        value: annotation
        for value, (annotation, *others) in annotations.items()
        if not others and not annotation.open and not annotation.sharding.partial
    }


def _is_valid(each: AnnotatedValue, function: Function, number: int) -> bool:
    """Whether an annotation is valid; raises for an invalid one unless it is a soft constraint."""
    try:
        _check(each, function, number)
    except ShardError as error:
        if each.strength != "soft_constraint":
            raise
        warn(f"the soft constraint {each.annotation} cannot hold: {error.message}", each.location)
        return False
    return True


def _check(each: AnnotatedValue, function: Function, number: int) -> None:
    """Raise for an annotation that propagation cannot start from."""
    sharding = each.annotation.sharding
    shape = function.values[number].shape
    if shape is None:
        raise error_at(
            each.location,
            f"sharding {sharding} is on a tensor of unknown size: give sizes, "
            'as in shard-opt --specialize="shapes={7x5}"',
        )
    if number in function.arguments and sharding.partial:
        raise error_at(
            each.location,
            f"an argument is annotated {sharding}: only a value that an op makes can be partial",
        )
    try:
        sharding.check_sizes_known()
        sharding.check_offsets(shape)
    except ShardingError as error:
        raise error_at(each.location, error.message) from None


def _refuse_unsupported_ops(function: Function, shardings: Shardings) -> None:
    for op in function.ops:
        if is_between_devices(op.handle):
            _check_device_op(op, shardings)
        elif op.name == "mesh.collective_permute" and STAGES not in op.handle.attributes:
            raise error_at(op.location, f"'{op.name}' op is read, but not propagated yet")
        elif op.name in BOUNDARY_OPS:
            _check_boundary(op, function)
        if not op.blocks and not op.name.startswith(_SCALAR_CODE) and len(op.handle.regions):
            _refuse_inside(op, walk(op.handle))
        elif op.captures:
            _refuse_inside(op, [inner for inner, _, _ in op.captures])


def _refuse_manual_axes(annotated: Iterable[AnnotatedValue]) -> None:
    """Raise where a tensor in a manual computation is annotated along one of the manual axes."""
    for each in annotated:
        manual = manual_axes_of(each.value)
        twice = sorted({full_axis(axis) for axis in each.annotation.sharding.axes} & set(manual))
        if twice:
            raise error_at(
                each.location,
                f"a tensor is annotated {each.annotation} in a manual computation, where it is "
                "a shard "
                f"along axes {twice} already",
            )


def _check_device_op(op: Op, shardings: Shardings) -> None:
    """Raise for an op that distinguishes devices, except along the manual axes around it."""
    around = next(computations_around(op.handle), None)
    if around is None:
        if op.name.startswith("stablehlo."):
            return  # it stays unchanged, and lowering refuses it
        raise error_at(op.location, on_global_tensors(op.handle))
    with located(op.handle):
        check_between_devices(op.handle, grid_of(around, shardings))


def _check_boundary(op: Op, function: Function) -> None:
    kinds = [function.values[value].kind for value in (*op.operands, *op.results)]
    if any(kind.is_tensor and kind.shape is None for kind in kinds):
        raise error_at(op.location, f"'{op.name}' op is on a tensor of unknown size")


def _refuse_inside(op: Op, inner_ops: Iterable[ir.Operation]) -> None:
    """Raise for an annotation in a region of an op whose flows are not known."""
    for inner in inner_ops:
        has_sharding_op = inner.name.startswith(("mesh.", "shard."))
        if has_sharding_op or SHARDINGS in inner.attributes or annotation_ops.has_loops(inner):
            raise error_at(
                inner.location,
                f"'{inner.name}' op is inside a region of a '{op.name}' op: that is not read yet",
            )


def default_grid(
    function: Function, shardings: Shardings, among: Collection[str] | None = None
) -> Grid:
    """The grid for values without a sharding: the function's, or else the first with axes.

    It is the first of the module, which declares a grid, or `among` these of its grids.
    """
    # The sort is stable: of the grids with axes the first declared comes first.
    declared = [name for name in shardings.grids if name in (among or shardings.grids)]
    names = sorted(declared, key=lambda name: not shardings.grids[name].rank)[:1]
    if "mesh_cluster" in function.handle.attributes:
        names = [annotation_ops.cluster_name(function.handle)]
    return shardings.grid(names[0])


def check_grid(grid: Grid, function: Function) -> Grid:
    """`grid` itself; raises a located `ShardError` unless its shape is static."""
    if not grid.is_static:
        raise error_at(
            function.handle.location,
            f"grid {grid} of function {as_symbol(function.name)} has unknown sizes: give them, "
            "to opt with --specialize=grid=..., to run with --grid=...",
        )
    return grid


def bound_loops(
    op: ir.Operation, rule: ShardingRule, shardings: Shardings, grid: Grid
) -> Assignment | None:
    """The annotated axes of each factor of the op's rule, or `None` without an annotation.

    If the annotation has fewer lists than the op has loops, the last loops are not split. Raises a
    located `ShardError` if the op cannot be split along these axes.
    """
    with located(op):
        axes_read = read_loops(op, shardings)
        if axes_read is None:
            return None
        name, loops = axes_read
        if name != grid.name:
            raise ShardError(
                f"'{op.name}' op has {LOOPS} on grid {as_symbol(name)}, but its function is on "
                f"{as_symbol(grid.name)}"
            )
        if len(loops) > len(rule.sizes):
            raise ShardError(
                f"'{op.name}' op has {LOOPS} for {len(loops)} loops: it has {len(rule.sizes)}"
            )
        uneven = may_be_uneven(op, rule)
        for loop, axes in enumerate(loops):
            is_uneven = rule.sizes[loop] % grid.axes_size(axes) != 0
            if axes and (loop in rule.unsplit or (is_uneven and loop not in uneven)):
                raise ShardError(
                    f"'{op.name}' op cannot split loop {loop} of size {rule.sizes[loop]} along "
                    f"axes {axes_text(axes)} of grid {grid}"
                )
    return (*loops, *((),) * (len(rule.sizes) - len(loops)))


Pinned = tuple[tuple[tuple[int, Axes], ...], str | None]
"""Pairs of a loop and its axes, and the name of the grid of these axes."""


def pinned_loops(
    op: ir.Operation,
    rule: ShardingRule,
    known: Sequence[Annotation | None],
    shardings: Shardings,
    grid: Grid,
) -> Pinned:
    """The loops of an op whose splits are annotated, each with its axes.

    `known` has the annotations of the op's results; `grid` is the grid of its function. Raises a
    located `ShardError` for an annotation that the op's rule does not allow.
    """
    if has_loops(op):
        return tuple(enumerate(bound_loops(op, rule, shardings, grid) or ())), grid.name
    partial = [each.sharding for each in known if each is not None and each.sharding.partial]
    if not partial or not rule.reductions:
        return (), None
    grid = shardings.grid(partial[0].grid)
    axes = partial[0].partial
    pinned: list[tuple[int, Axes]] = []
    for factor, _ in rule.reductions:
        # The result is partial over `axes` once, so one loop takes them all: the first that they
        # divide.
        divides = rule.sizes[factor] % grid.axes_size(axes) == 0
        pinned.append((factor, axes if divides else ()))
        axes = () if divides else axes
    return tuple(pinned), grid.name


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
