"""Whether two functions can be compared: their forms, and the types of arguments and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shard_dialect.errors import as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.proof.boundary import Place
from shard_dialect.proof.reading import Function, Type


def check_fit(unsharded: Function, local: Function) -> None:
    """Raise a located `ShardError` unless the functions can be compared."""
    check_unsharded(unsharded)
    with local.location.context:
        _check_form(local)
        _check_types(unsharded, local, "argument")
        _check_types(unsharded, local, "result")


def check_unsharded(function: Function) -> None:
    """Raise a located `ShardError` for a form that no longer has the unsharded program."""
    if function.form in ("local", "lowered"):
        with function.location.context:
            raise error_at(
                function.location,
                f"{as_symbol(function.name)} is in the {function.form} form, which no "
                "longer has the "
                "unsharded program: name a file with that, as in --prove=FILE of shard-opt or "
                "--reference of shard-run",
            )


def _check_form(local: Function) -> None:
    if local.form == "lowered":
        raise error_at(
            local.location,
            f"{as_symbol(local.name)} is in the lowered form: nothing is proven of it; "
            "expected the local "
            "form, as `--spmd` writes it, or one before it",
        )


def _check_types(unsharded: Function, local: Function, kind: str) -> None:
    expected, (types, attributes) = _boundary(unsharded, kind)[0], _boundary(local, kind)
    if len(expected) != len(types):
        raise error_at(
            local.location,
            f"{as_symbol(local.name)} has {len(types)} {kind}s, and the unsharded program "
            f"{len(expected)}: "
            "nothing is compared",
        )
    for number, type_ in enumerate(expected):
        place = Place.of(attributes[number], f"mesh.{kind}", types[number])
        whole = place.whole
        shape = type_.shape if place.tiles is None else place.tiles.tile_of(type_.shape)
        if (shape, _element(type_)) != (whole.shape, _element(whole)):
            raise error_at(
                local.location,
                f"{kind} {number} of {as_symbol(local.name)} is a {_bare(whole)}, and that "
                "of the unsharded "
                f"program a {_bare(type_)}: nothing is compared",
            )


def _boundary(
    function: Function, kind: str
) -> tuple[Sequence[Type], Sequence[Mapping[str, ir.Attribute]]]:
    if kind == "argument":
        return function.body.types, function.argument_attributes
    return function.result_types, function.result_attributes


def _element(type_: Type) -> tuple[str, int]:
    """What two types have alike whose elements can be compared: floats of all widths can."""
    return type_.kind, type_.width if type_.is_integer else 0


def _bare(type_: Type) -> str:
    """The text of a type, without its sharding."""
    text, is_split, _ = type_.text.partition(", #")
    return f"{text}>" if is_split else text
