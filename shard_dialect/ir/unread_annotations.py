"""Warns about annotations that no pass reads, with which a program would run unsharded.

    %x: tensor<8xf32> {mesh.shardin = #mesh.shard<@g, [[0]]>}
        warning: 'mesh.shardin' is no attribute of an argument: did you mean 'mesh.sharding'?

Shardy's passes leave attributes for debugging, so that of `sdy` only those are misspelt that are
nearly ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache

from shard_dialect.errors import did_you_mean
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import warn
from shard_dialect.ir.function import BOUNDARY, boundary, location_of_argument
from shard_dialect.ir.mesh import attributes as mesh
from shard_dialect.ir.mesh.mesh_dialect import definition
from shard_dialect.ir.sdy import ops as sdy
from shard_dialect.ir.walk import body, walk

_OF_VALUES = (mesh.SHARDING, mesh.ARGUMENT, mesh.RESULT, mesh.HANDLE, sdy.SHARDING)
_OF_OPS = (
    *(mesh.SHARDINGS, mesh.BLOCKS, mesh.LOCAL_TYPES, mesh.COLLECTIVE, mesh.TRIPS, mesh.RANK),
    *(mesh.RULE, mesh.MANUAL, mesh.NAMED, mesh.FORM),
    *(mesh.DEVICE, mesh.LIBRARY_CALL),
    *(sdy.SHARDING, "sdy.sharding_rule"),
)
_GSPMD = "mhlo.sharding"
_PARTITIONED = "mhlo.spmd_parameters_shardings"
"""At a module that XLA has partitioned: shardings in it are those of its boundary."""
_LIKELY = re.compile(r"\b(?:mesh|sdy)\.(?!\w+_(?:origins|edges)\b)\w+")
_SPLITS = re.compile(r"devices=\[")
"""In a sharding of GSPMD: others are replicated, or on one device."""


def warn_of_unread(module: ir.Operation) -> None:
    """Warn about each attribute that looks like an annotation, and is none."""
    old = []
    for op in walk(module):
        named = op.attributes
        names = [name for name in named if _LIKELY.fullmatch(name)]
        _warn(names, _OF_OPS, f"a '{op.name}' op", op.location)
        old += [op.location] * _is_old(named)
        if op.name.startswith("mesh."):
            known = _attributes().get(op.name, ())
            plain = [name for name in named if "." not in name] if known else []
            _warn(plain, known, f"a '{op.name}' op", op.location)
        elif op.name == "func.func":
            for what, entry, location in _values(op):
                _warn(filter(_LIKELY.fullmatch, entry), _OF_VALUES, what, location)
                old += [location] * _is_old(entry)
    if old and _PARTITIONED not in module.attributes:
        others = f" (there are {len(old)})" if len(old) > 1 else ""
        warn(
            f"'{_GSPMD}' is not read{others}: have JAX write Shardy's annotations, by "
            'jax.config.update("jax_use_shardy_partitioner", True)',
            old[0],
        )


def _values(
    function: ir.Operation,
) -> Iterator[tuple[str, dict[str, ir.Attribute], ir.Location]]:
    """The arguments and results of a function: what each is, its attributes, and its place."""
    for key, what in zip(BOUNDARY, ("an argument", "a result"), strict=True):
        for number, entry in enumerate(boundary(function, key)):
            is_known = key == "arg_attrs" and len(function.regions[0].blocks) > 0
            location = (
                location_of_argument(function, body(function).arguments[number])
                if entry and is_known
                else function.location
            )
            yield what, entry, location


def _warn(names: Iterable[str], known: tuple[str, ...], what: str, location: ir.Location) -> None:
    for name in names:
        if name in known:
            continue
        if name.startswith("sdy.") and not get_close_matches(name, known, cutoff=0.8):
            continue
        warn(
            f"'{name}' is no attribute of {what}, and is not read{did_you_mean(name, known)}",
            location,
        )


def _is_old(attributes: Mapping[str, ir.Attribute]) -> bool:
    return _GSPMD in attributes and _SPLITS.search(str(attributes[_GSPMD])) is not None


@cache
def _attributes() -> dict[str, tuple[str, ...]]:
    """The attributes of each op of `mesh`, from its definition."""
    found = {}
    for match in _OPERATION.finditer(definition()):
        optional = _OPTIONAL.search(match["comment"])
        listed = optional[1].split(", ") if optional else []
        found[f"mesh.{match['name']}"] = (*_REQUIRED.findall(match["body"]), *listed)
    return found


_OPERATION = re.compile(
    r"// (?P<comment>[^\n]*)\n  irdl\.operation @(?P<name>\w+) \{(?P<body>.*?)\n  \}", re.DOTALL
)
_OPTIONAL = re.compile(r"\[([^\]]*)\]$")
_REQUIRED = re.compile(r'"(\w+)" = %')
