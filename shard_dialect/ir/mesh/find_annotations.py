"""All annotations of a function's values in one list: from types, attributes and annotation ops.

    func.func @f(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {   %x: [[0]]
      %0 = "mesh.annotate"(%x) {sharding = [[0]]} : ...                          %x and %0: [[0]]

In a propagated function attributes hold all shardings; its annotation ops remain, but do not bind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import boundary, form_of
from shard_dialect.ir.mesh.annotation_ops import OPS, read_annotation
from shard_dialect.ir.mesh.attributes import SHARDING, SHARDINGS
from shard_dialect.ir.mesh.manual_computation import TO_GLOBAL, boundary_of, is_manual
from shard_dialect.ir.mesh.sharding_attributes import Shardings, rank_of
from shard_dialect.ir.numbered_function import Function, Op
from shard_dialect.ir.walk import body
from shard_dialect.model import Annotation


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
                f" on @{annotation.grid}" if known.grid != each.annotation.grid else ""
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
        with located(function):
            if SHARDING in entry and _is_tensor(value):
                annotation = shardings.read_annotation(entry[SHARDING], rank_of(value.type))
                yield AnnotatedValue(value, annotation, function.location)


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
