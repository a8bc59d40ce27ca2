"""What the passes `export-shard`, `export-mesh` and `export-sdy` share."""

from __future__ import annotations

from collections.abc import Iterator

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import BOUNDARY, boundary, form_of, functions_of, refuse_form
from shard_dialect.ir.mesh.annotation_ops import AnnotationOp, has_loops, read_annotation
from shard_dialect.ir.mesh.attributes import AXIS_NAMES, FORM, SHARDING, STANDS_FOR
from shard_dialect.ir.mesh.sharding_attributes import Shardings, rank_of
from shard_dialect.ir.verify import check_agreement
from shard_dialect.ir.walk import walk
from shard_dialect.model import Annotation
from shard_dialect.passes.vocabularies.import_ import import_annotations


def prepare(module: ir.Operation) -> Shardings:
    """Import `module` in place; return its shardings. Raise for the distributed and later forms."""
    import_annotations(module)
    for function in functions_of(module):
        if form_of(function) not in ("annotated", "propagated"):
            raise refuse_form(function, ": only annotated and propagated ones are exported")
    shardings = Shardings.of(module)
    check_agreement(module, shardings)
    return shardings


def annotations_by_op(
    module: ir.Operation, shardings: Shardings
) -> Iterator[tuple[ir.Operation, AnnotationOp]]:
    """Yield the annotation ops of a module with what they express."""
    for op in walk(module):
        with located(op):
            annotated = read_annotation(op, shardings)
        if annotated is not None:
            yield op, annotated


def all_annotations(
    module: ir.Operation, shardings: Shardings
) -> Iterator[tuple[ir.Location, Annotation]]:
    """Yield every annotation of a module with its location: of ops, of results, of the boundary."""
    for op, annotated in annotations_by_op(module, shardings):
        yield op.location, annotated.annotation
    for op in walk(module):
        with located(op):
            for annotation in shardings.of_results(op).values():
                yield op.location, annotation
        if op.name != "func.func":
            continue
        type_ = op.attributes["function_type"].value
        for key, types in zip(BOUNDARY, (type_.inputs, type_.results), strict=True):
            for entry, each in zip(boundary(op, key), types, strict=True):
                if SHARDING in entry:
                    yield op.location, shardings.read_annotation(entry[SHARDING], rank_of(each))


def refuse(location: ir.Location, what: str, target: str) -> ShardError:
    """Return the error for what the target vocabulary cannot express."""
    return error_at(location, f"{what} cannot be expressed in {target}")


def refuse_what_is_left(module: ir.Operation, target: str) -> None:
    """Raise for a `mesh` attribute that an export did not translate."""
    for op in walk(module):
        names = [each for each in op.attributes if each.startswith("mesh.") and each not in _KEPT]
        if op.name == "func.func":
            names += [each for key in BOUNDARY for entry in boundary(op, key) for each in entry]
            names = [each for each in names if each.startswith("mesh.") and each not in _KEPT]
        if names:
            raise refuse(op.location, f"{names[0]} of '{op.name}' op", target)
        if has_loops(op):
            raise refuse(op.location, f"how the loops of '{op.name}' op are split", target)


_KEPT = (AXIS_NAMES, FORM, STANDS_FOR)
"""Attributes by which `import` restores the exported module."""


def refuse_ops(module: ir.Operation, names: tuple[str, ...], target: str) -> None:
    """Raise for the first op that has one of `names`, which `target` cannot express."""
    for op in walk(module):
        if op.name in names:
            raise refuse(op.location, f"'{op.name}' op", target)
