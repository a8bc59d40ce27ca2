"""All that a function says of its values, in one list: types, attributes, annotation ops.

    func.func @f(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {   %x: [[0]]
      %0 = "mesh.annotate"(%x) {sharding = [[0]]} : ...                          %x and %0: [[0]]

Once a function is propagated its attributes say it all, and its annotations are kept to be read.
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
    """`value` is said to lie as `said`: binding; weak, where no other speaks; or as a hint."""

    value: ir.Value
    said: Annotation
    location: ir.Location
    strength: str = "binding"


def annotated_values(function: Function, shardings: Shardings) -> list[AnnotatedValue]:
    """What is said in `function`, arguments first. Raises a located `ShardError`."""
    return [
        *_of_arguments(function.handle, shardings),
        *_of_blocks(function.handle, shardings),
        *_of_ops(function, shardings),
    ]


def merged(said: Iterable[AnnotatedValue]) -> dict[ir.Value, Annotation]:
    """What the binding statements say of each value together; raises where two disagree."""
    together: dict[ir.Value, Annotation] = {}
    for each in said:
        if each.strength != "binding":
            continue
        have = together.get(each.value, each.said)
        both = have.meet(each.said)
        if both is None:
            grids = [
                f" on @{said.grid}" if have.grid != each.said.grid else ""
                for said in (have, each.said)
            ]
            raise error_at(
                each.location,
                f"one value is annotated {have}{grids[0]} and {each.said}{grids[1]}: "
                "they must agree",
            )
        together[each.value] = both
    return together


def _of_arguments(function: ir.Operation, shardings: Shardings) -> Iterator[AnnotatedValue]:
    attributes = boundary(function, "arg_attrs")
    for value, entry in zip(body(function).arguments, attributes, strict=True):
        yield from _in_type(value, function, shardings)
        with located(function):
            if SHARDING in entry and _is_tensor(value):
                said = shardings.read_annotation(entry[SHARDING], rank_of(value.type))
                yield AnnotatedValue(value, said, function.location)


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
            yield from _of_what_is_given(op, shardings, is_propagated)


def _of_blocks(op: ir.Operation, shardings: Shardings) -> Iterator[AnnotatedValue]:
    """Of the arguments of blocks; a result that lies as they do knows better."""
    with located(op):
        said = shardings.of_blocks(op)
    blocks = [block for region in op.regions for block in region.blocks]
    for block, found in zip(blocks[len(blocks) - len(said) :], said, strict=True):
        for place, each in found.items():
            if _is_tensor(block.arguments[place]):
                yield AnnotatedValue(block.arguments[place], each, op.location, "weak")


def _has_encoding(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType) and type_.encoding is not None


def _of_op(op: ir.Operation, shardings: Shardings, is_propagated: bool) -> Iterator[AnnotatedValue]:
    with located(op):
        for number, said in shardings.of_results(op).items():
            if _is_tensor(op.results[number]):
                yield AnnotatedValue(op.results[number], said, op.location)
        annotated = read_annotation(op, shardings)
    if annotated is None:
        return
    strength = "binding" if annotated.required else "hint"
    said = annotated.said
    if not is_propagated:
        yield AnnotatedValue(op.results[0], said, op.location, strength)
        if not annotated.for_users:
            yield AnnotatedValue(op.operands[0], said, op.location, strength)
    elif annotated.required:
        yield AnnotatedValue(op.results[0], said, op.location, "weak")
        yield AnnotatedValue(op.operands[0], said, op.location, "weak")


def _of_what_is_given(
    op: Op, shardings: Shardings, is_propagated: bool
) -> Iterator[AnnotatedValue]:
    """Of a tensor that a manual computation gives, and of what that is outside.

    A propagated function says itself how much more it is split.
    """
    with located(op.handle):
        said = boundary_of(op.handle, shardings).outside_said
    value = op.handle.results[0]
    if _is_tensor(value):
        yield AnnotatedValue(value, said, op.location, "weak" if is_propagated else "binding")
        for use in value.uses:
            end = use.owner.operation
            if end.name == "scf.yield" and is_manual(end.parent):
                outside = end.parent.results[use.operand_number]
                yield AnnotatedValue(outside, said, op.location, "weak")


def annotated_results(function: ir.Operation, shardings: Shardings) -> dict[int, Annotation]:
    """What is said of how the results of a function lie for its callers, by their places."""
    types = function.attributes["function_type"].value.results
    with located(function):
        return {
            place: shardings.read_annotation(entry[SHARDING], type_.rank)
            for place, (entry, type_) in enumerate(
                zip(boundary(function, "res_attrs"), types, strict=True)
            )
            if SHARDING in entry and isinstance(type_, ir.RankedTensorType)
        }


def _is_tensor(value: ir.Value) -> bool:
    """Whether what is said of it matters: Shardy has shardings of scalars too."""
    return isinstance(value.type, ir.RankedTensorType)


def _in_type(value: ir.Value, op: ir.Operation, shardings: Shardings) -> Iterator[AnnotatedValue]:
    """What the type of a value says that `op` makes, or takes as an argument."""
    with located(op):
        sharding = shardings.of_type(value.type)
    if sharding is not None:
        yield AnnotatedValue(value, Annotation(sharding), op.location)
