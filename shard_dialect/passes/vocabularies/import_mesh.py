"""Bring the `mesh` dialect's annotations to one canonical spelling: the last step of `import`.

    tensor<4xf32, #mesh.shard<@g, [[0]]>>      becomes an attribute of the argument, or of the op
    "mesh.annotate"(%0) {sharding = [[0]]}     names its grid, and states whether it is required

An annotation of a value itself (`as_result = true`) stands for that value, so all later uses read
its result. An annotation for users (`as_result = false`) that has no users is dropped.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import annotate, is_constant, is_used
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import (
    BOUNDARY,
    boundary,
    functions_of,
    set_boundary,
    update_type,
)
from shard_dialect.ir.mesh.annotation_ops import OPS, default_grid
from shard_dialect.ir.mesh.attributes import SHARDING, SHARDINGS, flag
from shard_dialect.ir.mesh.notation import read_notation
from shard_dialect.ir.mesh.sharding_attributes import Shardings, is_sharding, rank_of
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Annotation


def import_mesh(module: ir.Operation) -> bool:
    """Canonicalize the annotations of `module` in place; raise where two contradict.

    Returns whether there was a function that may have some: one in the annotated form, or declared.
    """
    shardings = Shardings.of(module)
    annotated = functions_of(module, "annotated")
    if len(annotated) == len(functions_of(module)):  # in later forms, calls use the sharded types
        declared = [op for op in operations(body(module)) if _is_declared(op)]
    else:
        declared = []
    for op in declared:
        _declared_types_to_attributes(op, shardings)
    for function in annotated:
        _boundary_to_attributes(function, shardings)
        annotations = _types_to_attributes(function, shardings)
        for op in reversed(annotations):  # erasing one may leave another without uses
            with located(op):
                _canonicalize(op, shardings)
    return bool(annotated or declared)


def _is_declared(op: ir.Operation) -> bool:
    return op.name == "func.func" and not len(op.regions[0].blocks)


def _boundary_to_attributes(function: ir.Operation, shardings: Shardings) -> None:
    """Move the shardings in the arguments' types to their attributes."""
    type_ = function.attributes["function_type"].value
    for key, types in zip(BOUNDARY, (type_.inputs, type_.results), strict=True):
        entries = boundary(function, key)
        for entry, each in zip(entries, types, strict=True):
            if SHARDING in entry:
                annotation = shardings.read_annotation(entry[SHARDING], rank_of(each))
                entry[SHARDING] = shardings.write(annotation)
        set_boundary(function, key, entries)
    entries = boundary(function, "arg_attrs")
    for argument, entry in zip(body(function).arguments, entries, strict=True):
        argument.set_type(_type_to_entry(argument.type, entry, function, shardings))
    set_boundary(function, "arg_attrs", entries)


def _type_to_entry(
    type_: ir.Type, entry: dict[str, ir.Attribute], function: ir.Operation, shardings: Shardings
) -> ir.Type:
    """Move the sharding in the type of an argument or result to its attributes; return the rest."""
    sharding = shardings.of_type(type_)
    if sharding is None:
        return type_
    annotation = Annotation(sharding)
    if SHARDING in entry:
        known = shardings.read_annotation(entry[SHARDING], sharding.rank)
        annotation = _both(annotation, known, function)
    entry[SHARDING] = shardings.write(annotation)
    return shardings.typed(type_, None)


def _types_to_attributes(function: ir.Operation, shardings: Shardings) -> list[ir.Operation]:
    """Move the shardings in ops' types to attributes; return the annotation ops of the function."""
    annotations = []
    for op in walk(function):
        if op.name in OPS:
            annotations.append(op)
        _results_to_attributes(op, shardings)
        for region in op.regions if len(op.regions) else ():
            for block in region.blocks:
                _arguments_to_annotations(block, op, shardings)
    for block in list(function.regions[0].blocks)[1:]:
        _arguments_to_annotations(block, function, shardings)
    update_type(function)
    return annotations


def _arguments_to_annotations(block: ir.Block, op: ir.Operation, shardings: Shardings) -> None:
    """Move the shardings in block arguments' types to annotations.

    Only the arguments of a function's first block can have attributes.
    """
    for argument in block.arguments:
        sharding = shardings.of_type(argument.type)
        if sharding is None:
            continue
        argument.set_type(shardings.typed(argument.type, None))
        users = [(use.owner.operation, use.operand_number) for use in argument.uses]
        with ir.InsertionPoint.at_block_begin(block), op.location:
            new = annotate(argument, shardings.write(sharding), as_result=True)
        for user, number in users:
            user.operands[number] = new


def _declared_types_to_attributes(op: ir.Operation, shardings: Shardings) -> None:
    type_ = op.attributes["function_type"].value
    plain: list[list[ir.Type]] = []
    for key, types in zip(BOUNDARY, (type_.inputs, type_.results), strict=True):
        entries = boundary(op, key)
        plain.append([])
        for each, entry in zip(types, entries, strict=True):
            plain[-1].append(_type_to_entry(each, entry, op, shardings))
        set_boundary(op, key, entries)
    op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*plain))


def _results_to_attributes(op: ir.Operation, shardings: Shardings) -> None:
    by_result = {}
    for number, result in enumerate(op.results):
        sharding = shardings.of_type(result.type)
        if sharding is not None:
            by_result[number] = Annotation(sharding)
    if not by_result and SHARDINGS not in op.attributes:
        return
    annotation = dict(shardings.of_results(op))
    if not by_result and not annotation:
        return
    if by_result and is_constant(op):
        raise error_at(op.location, "a constant's type has a sharding: annotate its result instead")
    if op.name == "mesh.collective_permute" and "mesh_axis" not in op.attributes and by_result:
        op.attributes["cluster"] = ir.FlatSymbolRefAttr.get(by_result[0].grid)
    for number, each in by_result.items():
        annotation[number] = _both(each, annotation[number], op) if number in annotation else each
        op.results[number].set_type(shardings.typed(op.results[number].type, None))
    informative = {number: each for number, each in annotation.items() if not each.is_unconstrained}
    op.attributes[SHARDINGS] = ir.ArrayAttr.get(
        [
            shardings.write(informative[number]) if number in informative else ir.UnitAttr.get()
            for number in range(len(op.results))
        ]
    )


def _both(a: Annotation, b: Annotation, op: ir.Operation) -> Annotation:
    both = a.meet(b)
    if both is None:
        raise error_at(op.location, f"one value is annotated {a} and {b}: they must agree")
    return both


def _canonicalize(op: ir.Operation, shardings: Shardings) -> None:
    value, result = op.operands[0], op.results[0]
    attribute = op.attributes["sharding"]
    if not is_sharding(attribute):
        annotation = read_notation(default_grid(op), attribute, value.type.rank)
        op.attributes["sharding"] = shardings.write(shardings.checked(annotation, value.type.rank))
    else:
        annotation = shardings.read_annotation(attribute, value.type.rank)
        op.attributes["sharding"] = shardings.write(annotation)
    if op.name != "mesh.annotate":
        return
    itself = flag(op, "as_result", default=True)
    op.attributes["as_result"] = ir.BoolAttr.get(itself)
    op.attributes["required"] = ir.BoolAttr.get(flag(op, "required", default=True))
    if itself:
        replace_uses_after(value, result, op)
    elif not is_used(result):
        op.erase()


def replace_uses_after(value: ir.Value, new: ir.Value, op: ir.Operation) -> None:
    """Replace the uses of `value` that come after `op` in its block, also in regions, by `new`."""
    for use in list(value.uses):
        user = use.owner.operation
        around = user
        while around.parent is not None and around.block != op.block:
            around = around.parent
        if around.parent is not None and op.is_before_in_block(around):
            user.operands[use.operand_number] = new
