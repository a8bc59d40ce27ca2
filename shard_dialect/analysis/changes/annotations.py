"""The annotations of a module, by place and name; and the module with one of them changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from shard_dialect.analysis.reasons.marks import annotation_of, mark_annotation
from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import located, location_text, names_in
from shard_dialect.ir.function import boundary, functions_of, name_of, set_boundary
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.attributes import SHARDING
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.walk import walk
from shard_dialect.model import Annotation, Axes, Grid, Sharding
from shard_dialect.passes.propagate.origins import Origin


@dataclass(frozen=True)
class Site:
    """Where an annotation is, or may be: at an argument, a result, or an op."""

    kind: Literal["argument", "result", "op"]
    function: str
    """Empty for an op."""
    number: int
    """Of the argument or result; of an annotation op, among those of the module."""

    def __str__(self) -> str:
        if self.kind == "op":
            return "annotation"
        return f"{self.kind} {self.number} of {as_symbol(self.function)}"


@dataclass(frozen=True)
class Placed:
    """An annotation at its site, with the location in the file and a framework's name for it."""

    site: Site
    shape: tuple[int, ...]
    annotation: Annotation | None
    """`None` where the program has none."""
    location: str | None
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Edit:
    """Another annotation at a site."""

    site: Site
    annotation: Annotation


def mark_annotations(module: ir.Operation) -> None:
    """Mark the annotation ops of an imported module, so that they are found after propagation."""
    for number, op in enumerate(_annotation_ops(module)):
        mark_annotation(op, number)


def site_of(origin: Origin) -> Site | None:
    """The site of an origin that propagation names; `None` if no annotation is there."""
    if origin.kind != "op":
        return Site(origin.kind, origin.function, origin.number)
    number = annotation_of(origin.location)
    return None if number is None else Site("op", "", number)


def annotations_in(module: ir.Operation) -> list[Placed]:
    """All sites of an imported module, in the order of the text."""
    shardings = Shardings.of(module)
    placed: list[Placed] = []
    for function in functions_of(module):
        name = name_of(function)
        arguments = list(function.regions[0].blocks[0].arguments)
        for number, entry in enumerate(boundary(function, "arg_attrs")):
            location = arguments[number].location
            site = Site("argument", name, number)
            placed += _placed(
                site, arguments[number].type, entry.get(SHARDING), location, shardings
            )
        results = function.attributes["function_type"].value.results
        for number, entry in enumerate(boundary(function, "res_attrs")):
            site = Site("result", name, number)
            found = entry.get(SHARDING)
            placed += _placed(site, results[number], found, function.location, shardings)
    for number, op in enumerate(_annotation_ops(module)):
        with located(op):
            read = annotation_ops.read_annotation(op, shardings)
        assert read is not None, "it is an annotation op"
        shape = tuple(op.results[0].type.shape)
        location = location_text(op.location)
        placed.append(Placed(Site("op", "", number), shape, read.annotation, location))
    return placed


def _placed(
    site: Site,
    type_: ir.Type,
    attribute: ir.Attribute | None,
    location: ir.Location,
    shardings: Shardings,
) -> Iterator[Placed]:
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        return
    annotation = shardings.read_annotation(attribute, type_.rank) if attribute else None
    names = tuple(names_in(location))
    yield Placed(site, tuple(type_.shape), annotation, location_text(location), names)


def apply_edit(module: ir.Operation, edit: Edit) -> None:
    """Change an annotation of an imported module in place.

    Raises `ShardError` if the grid cannot have it.
    """
    shardings = Shardings.of(module)
    edit.annotation.check(shardings.grid(edit.annotation.grid), edit.annotation.sharding.rank)
    attribute = shardings.write(edit.annotation)
    if edit.site.kind == "op":
        _annotation_ops(module)[edit.site.number].attributes["sharding"] = attribute
        return
    function = next(op for op in functions_of(module) if name_of(op) == edit.site.function)
    key = "arg_attrs" if edit.site.kind == "argument" else "res_attrs"
    entries = boundary(function, key)
    entries[edit.site.number][SHARDING] = attribute
    set_boundary(function, key, entries)


def without_axes(placed: Placed, dim: int, axes: Axes) -> Edit | None:
    """The edit that does not split a dimension along `axes`; `None` if it is not split so."""
    if placed.annotation is None:
        return None
    split = placed.annotation.sharding.split_axes
    kept = tuple(axis for axis in split[dim] if axis not in axes)
    if kept == split[dim]:
        return None
    return _with_split(placed, (*split[:dim], kept, *split[dim + 1 :]))


def with_axes(placed: Placed, dim: int, axes: Axes, grid: Grid) -> Edit | None:
    """The edit that also splits a dimension along `axes`, if they are free and divide it."""
    sharding = placed.annotation.sharding if placed.annotation else None
    sharding = sharding or Sharding.replicated(grid.name, len(placed.shape))
    if sharding.grid != grid.name or any(axis in sharding.axes for axis in axes):
        return None
    split = sharding.split_axes
    new = (*split[dim], *axes)
    if placed.shape[dim] % grid.axes_size(new):
        return None
    base = placed if placed.annotation else replace(placed, annotation=Annotation(sharding))
    return _with_split(base, (*split[:dim], new, *split[dim + 1 :]))


def _with_split(placed: Placed, split_axes: tuple[Axes, ...]) -> Edit | None:
    assert placed.annotation is not None, "it is changed"
    try:
        sharding = replace(placed.annotation.sharding, split_axes=split_axes)
        return Edit(placed.site, replace(placed.annotation, sharding=sharding))
    except ShardError:  # halos, say, of a dimension that is no longer split
        return None


def _annotation_ops(module: ir.Operation) -> list[ir.Operation]:
    return [op for op in walk(module) if op.name in annotation_ops.OPS]
