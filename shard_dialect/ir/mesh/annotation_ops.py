"""Annotations of values and ops: read, written, and all of a function in one list.

    %1 = "mesh.annotate"(%0) {sharding = [[], [0]], required = true, as_result = true} : ...
    %1 = "mesh.annotate"(%0) {sharding = [[], [0]], required = true, as_result = false} : ...
    %1 = "mesh.reshard"(%0) {sharding = [[], [0]]} : ...
    %2 = linalg.matmul {sharding = [[0], [], [1]]} ins(...

The first annotates %0 itself; the second and third annotate it for the users of %1 only; the fourth
annotates the loops of an op. `required = false` makes a soft constraint. The grid is that of the
function's `mesh_cluster`, unless the sharding names one.

A manual computation is an `scf.execute_region` with `mesh.manual_axes`, which values enter by
`mesh.to_local` and leave by `mesh.to_global`. In a nested one, the axes of both are manual. In a
propagated function attributes hold all shardings; its annotation ops remain, but do not bind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import annotate, create, replace_op
from shard_dialect.ir.context import is_of_users
from shard_dialect.ir.diagnostics import error_at, located, location_text
from shard_dialect.ir.function import boundary, form_of, location_of_argument
from shard_dialect.ir.mesh.attributes import (
    MANUAL,
    SHARDING,
    SHARDINGS,
    flag,
    i64_array,
    ints,
    symbol,
)
from shard_dialect.ir.mesh.notation import read_axes, read_notation
from shard_dialect.ir.mesh.sharding_attributes import Shardings, is_sharding, rank_of
from shard_dialect.ir.numbered_function import Function, Op
from shard_dialect.ir.reading.constants import constant_integer
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Annotation, Axes, Grid, ManualBoundary, Sharding, ShardingError
from shard_dialect.model.sharding import Sizes

OPS = ("mesh.annotate", "mesh.reshard")
"""The ops that annotate their operand, which they return."""
LOOPS = "sharding"
"""The RFC's attribute on an op: the axes of each of its loops."""
_WITH_THEIR_OWN = ("mesh", "shard", "sdy")
"""Dialects whose ops have an attribute by this name."""


@dataclass(frozen=True, slots=True)
class AnnotationOp:
    """An annotation op: `annotation` holds for its result, and unless `for_users`, for its operand
    too.

    A soft constraint is not `required`.
    """

    annotation: Annotation
    for_users: bool
    required: bool


def annotate_loops(
    function: ir.Operation, op: ir.Operation, loops: Sequence[Axes], grid: str
) -> None:
    """Let each loop of an op of `function` be split along these axes of a grid."""
    op.attributes[LOOPS] = ir.ArrayAttr.get([ir.Attribute.parse(str(list(each))) for each in loops])
    function.attributes["mesh_cluster"] = ir.FlatSymbolRefAttr.get(grid)


def read_annotation(op: ir.Operation, shardings: Shardings) -> AnnotationOp | None:
    """The annotation of `op`, or `None` if it is no annotation op. Raises `ShardingError`."""
    if op.name not in OPS:
        return None
    annotation = annotation_in(op, op.operands[0].type, shardings)
    if len(op.operands) > 1:
        annotation = _with_constants(annotation, list(op.operands)[1:])
    if op.name == "mesh.reshard":
        return AnnotationOp(annotation, for_users=True, required=True)
    return AnnotationOp(
        annotation,
        for_users=not flag(op, "as_result", default=True),
        required=flag(op, "required", default=True),
    )


def _with_constants(annotation: Annotation, sizes: Sequence[ir.Value]) -> Annotation:
    """The annotation with constants among `sizes` in place of unknown halos or offsets.

    Sizes that no constant makes stay unknown. Raises `ShardingError` where constants do not fit.
    """
    rest = iter(map(constant_integer, sizes))

    def known(lists: tuple[Sizes, ...]) -> tuple[Sizes, ...]:
        return tuple(
            tuple(next(rest, None) if size is None else size for size in each) for each in lists
        )

    sharding = annotation.sharding
    halos, offsets = known(sharding.halos), known(sharding.offsets)
    return replace(annotation, sharding=replace(sharding, halos=halos, offsets=offsets))


def write_annotation(op: ir.Operation, annotation: Annotation, shardings: Shardings) -> None:
    """Give an annotation op another annotation, whose sizes are known where constants give them.

    An op has operands for the sizes that its attribute leaves open, so it is written anew.
    """
    attribute, sharding = shardings.write(annotation), annotation.sharding
    sizes = [size for each in (*sharding.halos, *sharding.offsets) for size in each]
    if len(op.operands) == 1 or None in sizes:
        op.attributes["sharding"] = attribute
        return
    attributes = {name: op.attributes[name] for name in op.attributes} | {"sharding": attribute}
    with ir.InsertionPoint(op), op.location:
        known = create(op.name, [op.results[0].type], [op.operands[0]], attributes)
    replace_op(op, known.results[0])


def annotate_results_after(op: ir.Operation, chosen: Callable[[ir.OpResult], bool]) -> None:
    """Turn the annotations in the op's attribute, of tensors that are `chosen`, to ops after it."""
    if SHARDINGS not in op.attributes:
        return
    annotations = list(op.attributes[SHARDINGS])
    for number, result in enumerate(op.results):
        is_annotated = not isinstance(annotations[number], ir.UnitAttr)
        if is_annotated and isinstance(result.type, ir.RankedTensorType) and chosen(result):
            with ir.InsertionPoint.after(op), op.location:
                annotated = annotate(result, annotations[number], as_result=True)
            result.replace_all_uses_except(annotated, annotated.owner.operation)
            annotations[number] = ir.UnitAttr.get()
    op.attributes[SHARDINGS] = ir.ArrayAttr.get(annotations)
    if all(isinstance(each, ir.UnitAttr) for each in annotations):
        del op.attributes[SHARDINGS]


def binds(op: ir.Operation) -> Literal["value", "users"] | None:
    """The scope of an op of `OPS`: its value, or only the value that users of its result see.

    `None` for a soft constraint.
    """
    if op.name != "mesh.reshard" and not flag(op, "required", default=True):
        return None
    is_of_value = op.name != "mesh.reshard" and flag(op, "as_result", default=True)
    return "value" if is_of_value else "users"


def annotation_in(op: ir.Operation, type_: ir.Type, shardings: Shardings) -> Annotation:
    """The annotation in the op's `sharding`, for a value of `type_`. Raises `ShardingError`."""
    attribute = op.attributes["sharding"]
    if is_sharding(attribute):
        return shardings.read_annotation(attribute, rank_of(type_))
    annotation = read_notation(default_grid(op), attribute, rank_of(type_))
    return shardings.checked(annotation, rank_of(type_))


def read_loops(op: ir.Operation, shardings: Shardings) -> tuple[str, tuple[Axes, ...]] | None:
    """The grid and the axes of each loop in an op's `sharding = [[0], []]`, if it has one.

    Raises `ShardingError` if the attribute is malformed, or uses an axis twice.
    """
    if LOOPS not in op.attributes:
        return None
    attribute = op.attributes[LOOPS]
    if not has_loops(op):
        if _may_be_its_own(op):
            return None
        raise ShardingError(
            f"attribute '{LOOPS}' must be a list of axes for each loop, as [[0], []], found "
            f"{attribute}"
        )
    loops = tuple(read_axes(each) for each in attribute)
    grid = default_grid(op)
    used = [axis for axes in loops for axis in axes]
    for axis in used:
        if used.count(axis) > 1:
            raise ShardingError(f"grid axis {axis} splits two loops in {LOOPS} = {attribute}")
        if not isinstance(axis, int) or not 0 <= axis < shardings.grid(grid).rank:
            raise ShardingError(
                f"{LOOPS} = {attribute} has axis {axis}, which is not in grid "
                f"{shardings.grid(grid)}"
            )
    return grid, loops


def _may_be_its_own(op: ir.Operation) -> bool:
    """Whether the op's dialect may give this attribute another meaning than the RFC does."""
    dialect = op.name.partition(".")[0]
    return (
        dialect in _WITH_THEIR_OWN
        or is_of_users(dialect)
        or not op.context.is_registered_operation(op.name)
    )


def has_loops(op: ir.Operation) -> bool:
    """Whether the op has the RFC's attribute, and not its dialect's own with this name."""
    if LOOPS not in op.attributes or op.name.partition(".")[0] in _WITH_THEIR_OWN:
        return False
    attribute = op.attributes[LOOPS]
    return isinstance(attribute, ir.ArrayAttr) and all(
        isinstance(each, ir.ArrayAttr) for each in attribute
    )


def cluster_name(function: ir.Operation) -> str:
    """The grid that a function's `mesh_cluster` names."""
    return symbol(function.attributes["mesh_cluster"])


def grid_named_by(op: ir.Operation) -> str:
    """The grid that the op's `cluster` names, or the default."""
    return symbol(op.attributes["cluster"]) if "cluster" in op.attributes else default_grid(op)


def default_grid(op: ir.Operation) -> str:
    """The `mesh_cluster` of the function around the op. Raises `ShardingError` without one."""
    function = op.operation.parent
    while function is not None and "mesh_cluster" not in function.attributes:
        function = function.parent
    if function is None:
        raise ShardingError(
            "names no grid, and its function has no mesh_cluster: "
            "write #mesh.shard<@grid, [...]> or give the function {mesh_cluster = @grid}"
        )
    return cluster_name(function)


TO_LOCAL = "mesh.to_local"
TO_GLOBAL = "mesh.to_global"
BOUNDARY_OPS = (TO_LOCAL, TO_GLOBAL)


def is_manual(op: ir.Operation) -> bool:
    """Whether `op` is a manual computation."""
    return op.name == "scf.execute_region" and MANUAL in op.attributes


def manual_computations(function: ir.Operation) -> list[ir.Operation]:
    """The manual computations in a function, each before those inside it."""
    return [op for op in walk(function) if is_manual(op)]


def computations_around(op: ir.Operation) -> Iterator[ir.Operation]:
    """The manual computations around an op, the innermost first."""
    around = op.parent
    while around is not None and around.name != "builtin.module":
        if is_manual(around.operation):
            yield around.operation
        around = around.parent


def manual_axes_at(op: ir.Operation) -> tuple[int, ...]:
    """The axes that are manual for an op, sorted."""
    axes = {axis for around in computations_around(op) for axis in ints(around.attributes[MANUAL])}
    return tuple(sorted(axes))


def manual_axes_of(value: ir.Value) -> tuple[int, ...]:
    """The manual axes of the manual computations that a value is in, sorted."""
    if isinstance(value.owner, ir.Block):
        return manual_axes_at(value.owner.owner.operation)
    maker = value.owner.operation
    return manual_axes_at(maker.parent if maker.name == TO_GLOBAL else maker)


def outside_value(op: ir.Operation) -> ir.Value:
    """The tensor outside, of a boundary op."""
    return op.operands[0] if op.name == TO_LOCAL else op.results[0]


def boundary_of(op: ir.Operation, shardings: Shardings) -> ManualBoundary:
    """The manual boundary of a boundary op. Raises `ShardingError`."""
    annotation = annotation_in(op, outside_value(op).type, shardings)
    return ManualBoundary(
        annotation, tuple(ints(op.attributes["manual_axes"])), shardings.grid(annotation.grid)
    )


def write_boundary(
    op: ir.Operation, boundary: ManualBoundary, outside: Sharding, shardings: Shardings
) -> None:
    """Set the sharding of a boundary op to `outside`, with the manual axes of `boundary`."""
    op.attributes["sharding"] = shardings.write(outside)
    write_manual_axes(op, "manual_axes", boundary.manual)


def write_manual_axes(op: ir.Operation, key: str, axes: Axes) -> None:
    """Set the op's attribute `key` to these axes, without sub-axes."""
    op.attributes[key] = i64_array([axis for axis in axes if isinstance(axis, int)])


def grid_of(computation: ir.Operation, shardings: Shardings) -> Grid:
    """The grid whose axes are manual: that of its boundary ops, or of computations around it."""
    for around in (computation, *computations_around(computation)):
        for op in operations(body(around)):
            if op.name in BOUNDARY_OPS:
                return boundary_of(op, shardings).grid
    names = list(shardings.grids)[:1]
    return shardings.grid(names[0] if names else default_grid(computation))


def anything(grid: Grid, rank: int) -> Annotation:
    """The annotation of a tensor on this grid whose dimensions are all unsplit and open."""
    return Annotation(Sharding.replicated(grid.name, rank), open=tuple(range(rank)))


@dataclass(frozen=True, slots=True)
class AnnotatedValue:
    """The annotation `annotation` of `value`.

    Its `strength` is "constraint", for a constraint; "soft_constraint", for a soft constraint; or
    "default", for one that counts only if the value has no other annotation.
    """

    value: ir.Value
    annotation: Annotation
    location: ir.Location
    strength: str = "constraint"


def annotated_values(function: Function, shardings: Shardings) -> list[AnnotatedValue]:
    """The annotations in `function`, arguments first. Raises a located `ShardError`."""
    return [
        *_of_arguments(function.handle, shardings),
        *_of_blocks(function.handle, shardings),
        *_of_ops(function, shardings),
    ]


def merged(annotated: Iterable[AnnotatedValue]) -> dict[ir.Value, Annotation]:
    """The constraints of each value, combined. Raises a located `ShardError` where two disagree."""
    by_value: dict[ir.Value, Annotation] = {}
    for each in annotated:
        if each.strength != "constraint":
            continue
        known = by_value.get(each.value, each.annotation)
        combined = known.meet(each.annotation)
        if combined is None:
            grids = [
                f" on {as_symbol(annotation.grid)}" if known.grid != each.annotation.grid else ""
                for annotation in (known, each.annotation)
            ]
            raise error_at(
                each.location,
                f"one value is annotated {known}{grids[0]} and {each.annotation}{grids[1]}: "
                "they must agree",
            )
        by_value[each.value] = combined
    return by_value


def _of_arguments(function: ir.Operation, shardings: Shardings) -> Iterator[AnnotatedValue]:
    attributes = boundary(function, "arg_attrs")
    for value, entry in zip(body(function).arguments, attributes, strict=True):
        yield from _in_type(value, function, shardings)
        if SHARDING in entry and _is_tensor(value):
            place = location_of_argument(function, value)
            try:
                annotation = shardings.read_annotation(entry[SHARDING], rank_of(value.type))
            except ShardError as error:
                raise error.at(location_text(place)) from None
            yield AnnotatedValue(value, annotation, place)


def _of_ops(function: Function, shardings: Shardings) -> Iterator[AnnotatedValue]:
    is_propagated = form_of(function.handle) == "propagated"
    plain = {value.kind for value in function.values if not _has_encoding(value.kind.type)}
    for op in function.ops:
        for value in op.results:
            if function.values[value].kind not in plain:
                yield from _in_type(function.values[value].handle, op.handle, shardings)
        if op.blocks:
            yield from _of_blocks(op.handle, shardings)
        if op.name in OPS or SHARDINGS in op.handle.attributes:
            yield from _of_op(op.handle, shardings, is_propagated)
        if op.name == TO_GLOBAL:
            yield from _of_manual_result(op, shardings, is_propagated)


def _of_blocks(op: ir.Operation, shardings: Shardings) -> Iterator[AnnotatedValue]:
    """The annotations of block arguments; those of results with the same sharding come first."""
    with located(op):
        annotations = shardings.of_blocks(op)
    blocks = [block for region in op.regions for block in region.blocks]
    for block, by_argument in zip(
        blocks[len(blocks) - len(annotations) :], annotations, strict=True
    ):
        for number, each in by_argument.items():
            if _is_tensor(block.arguments[number]):
                yield AnnotatedValue(block.arguments[number], each, op.location, "default")


def _has_encoding(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType) and type_.encoding is not None


def _of_op(op: ir.Operation, shardings: Shardings, is_propagated: bool) -> Iterator[AnnotatedValue]:
    with located(op):
        for number, annotation in shardings.of_results(op).items():
            if _is_tensor(op.results[number]):
                yield AnnotatedValue(op.results[number], annotation, op.location)
        annotated = read_annotation(op, shardings)
    if annotated is None:
        return
    strength = "constraint" if annotated.required else "soft_constraint"
    annotation = annotated.annotation
    if not is_propagated:
        yield AnnotatedValue(op.results[0], annotation, op.location, strength)
        if not annotated.for_users:
            yield AnnotatedValue(op.operands[0], annotation, op.location, strength)
    elif annotated.required:
        yield AnnotatedValue(op.results[0], annotation, op.location, "default")
        if not annotation.sharding.partial:  # which the operand may be whole for
            yield AnnotatedValue(op.operands[0], annotation, op.location, "default")


def _of_manual_result(
    op: Op, shardings: Shardings, is_propagated: bool
) -> Iterator[AnnotatedValue]:
    """The annotations of a result of a manual computation, and of its value outside.

    In a propagated function they are weak: the attributes have all axes, these only some.
    """
    with located(op.handle):
        annotation = boundary_of(op.handle, shardings).outside_annotation
    value = op.handle.results[0]
    if _is_tensor(value):
        yield AnnotatedValue(
            value, annotation, op.location, "default" if is_propagated else "constraint"
        )
        for use in value.uses:
            end = use.owner.operation
            if end.name == "scf.yield" and is_manual(end.parent):
                outside = end.parent.results[use.operand_number]
                yield AnnotatedValue(outside, annotation, op.location, "default")


def annotated_results(function: ir.Operation, shardings: Shardings) -> dict[int, Annotation]:
    """The annotations of a function's results, by result number."""
    types = function.attributes["function_type"].value.results
    with located(function):
        return {
            number: shardings.read_annotation(entry[SHARDING], type_.rank)
            for number, (entry, type_) in enumerate(
                zip(boundary(function, "res_attrs"), types, strict=True)
            )
            if SHARDING in entry and isinstance(type_, ir.RankedTensorType)
        }


def _is_tensor(value: ir.Value) -> bool:
    """Whether annotations of the value matter: Shardy annotates scalars too."""
    return isinstance(value.type, ir.RankedTensorType)


def _in_type(value: ir.Value, op: ir.Operation, shardings: Shardings) -> Iterator[AnnotatedValue]:
    """The annotation in the type of a value that `op` makes, or has as an argument."""
    with located(op):
        sharding = shardings.of_type(value.type)
    if sharding is not None:
        yield AnnotatedValue(value, Annotation(sharding), op.location)
