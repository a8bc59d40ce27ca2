"""Annotations by name, and the edits that a question such as `w1=[[], [model]]` stands for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from shard_dialect.analysis.changes.annotations import Edit, Placed, Site, annotations_in
from shard_dialect.analysis.changes.name_patterns import called
from shard_dialect.errors import ShardError, as_symbol, of_option
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.walk import walk
from shard_dialect.model import Annotation, Grid
from shard_dialect.model.annotation import sharding_on
from shard_dialect.model.grid import Axis


@dataclass(frozen=True)
class Question:
    """`pattern=sharding`: another sharding of all values whose name matches the pattern."""

    pattern: str
    split_axes: tuple[tuple[str | Axis, ...], ...]
    """For each dimension, the names or numbers of the axes that split it."""

    @classmethod
    def read(cls, text: str) -> Question:
        """The question in a text. Raises `ShardError`.

        >>> Question.read("w*=[[], [model, 0]]")
        Question(pattern='w*', split_axes=((), ('model', 0)))
        """
        if not isinstance(text, str):
            raise ShardError(
                f"a question is a text such as 'w1=[[], [model]]', not a {type(text).__name__}"
            )
        pattern, equals, sharding = text.rpartition("=")
        inside = re.fullmatch(r"\s*\[(.*)\]\s*", sharding)
        dims = re.findall(r"\[([^\[\]]*)\]", inside[1]) if inside else []
        rest = re.sub(r"\[[^\[\]]*\]|[,\s]", "", inside[1]) if inside else sharding
        if not equals or not pattern or inside is None or rest:
            raise ShardError(
                f"cannot read '{text}': write NAME=[[], [0]], with a list of grid axes for each "
                "dimension"
            )
        return cls(pattern.strip(), tuple(tuple(map(_axis, _listed(each))) for each in dims))


def read_each(texts: Sequence[str], flag: str) -> Iterator[tuple[str, Question]]:
    """Each question, after its text, a value of `flag`.

    Raises `ShardError` also for two about one name: the first would be without effect.
    """
    read: dict[str, str] = {}
    for text in texts:
        with of_option(f"--{flag}={text}"):
            question = Question.read(text)
            first = read.setdefault(question.pattern, text)
            if first is not text:
                raise ShardError(f"the same was asked about before, by {first}: give one of them")
        yield text, question


def edits_for(module: ir.Operation, entry: str, question: Question) -> list[Edit]:
    """The edits of an imported module that answer a question.

    Raises `ShardError` if nothing has the name, or cannot have the sharding.
    """
    grids = grids_of(module)
    if not grids:
        raise no_grid()
    placed = [
        (each, names_of(each))
        for each in annotations_in(module)
        if each.site.function == entry and each.site.kind != "op"
    ]
    matching = called(question.pattern, placed)
    if not matching:
        known = ", ".join(names[-1] for _, names in placed)
        raise ShardError(
            f"nothing of {as_symbol(entry)} is called '{question.pattern}'; its arguments and "
            f"results are {known}"
        )
    annotated = annotated_arguments(module)
    ops = {each.site.number: each for each in annotations_in(module) if each.site.kind == "op"}
    edits = []
    for each in matching:
        sites = [ops[number] for number, site in annotated.items() if site == each.site] or [each]
        edits += [_edit(site, question, grids) for site in sites]
    return edits


def no_grid() -> ShardError:
    """The error for a question about shardings in a module that says nothing of devices."""
    return ShardError(
        "the module has no grid: declare one, or let a search annotate it, as in "
        "shard-opt --auto=devices=8"
    )


def _edit(placed: Placed, question: Question, grids: Mapping[str, Grid]) -> Edit:
    annotation = placed.annotation
    named = grids[annotation.grid] if annotation else next(iter(grids.values()))
    if len(question.split_axes) > len(placed.shape):
        raise ShardError(
            f"'{question.pattern}' has {len(question.split_axes)} dimensions in the question, and "
            f"{len(placed.shape)} in the program"
        )
    sharding = sharding_on(named, question.split_axes, len(placed.shape))
    new = replace(annotation, sharding=sharding) if annotation else Annotation(sharding)
    return Edit(placed.site, new)


def names_of(placed: Placed) -> tuple[str, ...]:
    """The names of an argument or result: by its number, in the file, and a framework's."""
    kind = "arg" if placed.site.kind == "argument" else "result"
    return (f"{kind}{placed.site.number}", *placed.names)


def annotated_arguments(module: ir.Operation) -> dict[int, Site]:
    """For the number of each op that annotates an argument itself, that argument."""
    sites = {
        argument: Site("argument", name_of(function), number)
        for function in functions_of(module)
        for number, argument in enumerate(function.regions[0].blocks[0].arguments)
    }
    ops = [op for op in walk(module) if op.name in annotation_ops.OPS]
    return {
        number: sites[op.operands[0]]
        for number, op in enumerate(ops)
        if op.operands[0] in sites and annotation_ops.binds(op) == "value"
    }


def _listed(text: str) -> Sequence[str]:
    return [each.strip().strip("\"'") for each in text.split(",") if each.strip()]


def _axis(text: str) -> str | int:
    return int(text) if text.isdecimal() else text
