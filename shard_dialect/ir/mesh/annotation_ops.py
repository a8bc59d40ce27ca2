"""Annotations of values and of ops in the `mesh` vocabulary.

    %1 = "mesh.annotate"(%0) {sharding = [[], [0]], required = true, as_result = true} : ...
    %1 = "mesh.annotate"(%0) {sharding = [[], [0]], required = true, as_result = false} : ...
    %1 = "mesh.reshard"(%0) {sharding = [[], [0]]} : ...
    %2 = linalg.matmul {sharding = [[0], [], [1]]} ins(...

The first annotates %0 itself; the second and third annotate it for the users of %1 only; the fourth
annotates the loops of an op. `required = false` makes an annotation a soft constraint. The sharding
is on the grid of the function's `mesh_cluster`, or names a grid itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create
from shard_dialect.ir.mesh.attributes import flag, symbol
from shard_dialect.ir.mesh.notation import read_axes, read_notation
from shard_dialect.ir.mesh.sharding_attributes import Shardings, is_sharding, rank_of
from shard_dialect.ir.reading.constant_integer import constant_integer
from shard_dialect.ir.user_dialects import is_of_users
from shard_dialect.model import Annotation, Axes, ShardingError
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


def read_annotation(op: ir.Operation, shardings: Shardings) -> AnnotationOp | None:
    """The annotation of `op`, or `None` if it is no annotation op. Raises `ShardingError`."""
    if op.name not in OPS:
        return None
    annotation = annotation_in(op, "sharding", op.operands[0].type, shardings)
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

    What no constant makes stays unknown. Raises `ShardingError` where constants do not fit.
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
    op.results[0].replace_all_uses_with(known.results[0])
    op.erase()


def binds(op: ir.Operation) -> Literal["value", "users"] | None:
    """What an op of `OPS` constrains: its value, or only what users of its result see.

    `None` for a soft constraint.
    """
    if op.name != "mesh.reshard" and not flag(op, "required", default=True):
        return None
    is_of_value = op.name != "mesh.reshard" and flag(op, "as_result", default=True)
    return "value" if is_of_value else "users"


def annotation_in(op: ir.Operation, key: str, type_: ir.Type, shardings: Shardings) -> Annotation:
    """The annotation in attribute `key`, for a value of `type_`. Raises `ShardingError`."""
    attribute = op.attributes[key]
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


def grid_named_by(op: ir.Operation, key: str) -> str:
    """The grid that the op's attribute `key` names, or the default."""
    return symbol(op.attributes[key]) if key in op.attributes else default_grid(op)


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
