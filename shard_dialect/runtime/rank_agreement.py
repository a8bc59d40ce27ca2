"""Compare what all ranks must have in common, before any of them compiles or computes.

    error: the ranks differ: --seed is 0 on ranks 0, 2, 3, 7 on rank 1

Ranks that differ would deadlock, or return meaningless results.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from importlib import metadata
from typing import IO

import numpy as np

import shard_dialect
from shard_dialect.abi.lowered_program import Program
from shard_dialect.errors import ShardError, cannot
from shard_dialect.ir.bindings import provider
from shard_dialect.ir.mesh.attributes import DEVICE
from shard_dialect.ir.reading.source import Source
from shard_dialect.runtime.array_files import SAFETENSORS, is_folder, safetensors_header
from shard_dialect.runtime.communicators.world import World

PROGRAM = "the program"
_DISTRIBUTIONS = {"torch_mlir": "torch-mlir", "mlir": "mlir-python-bindings"}
_SHOWN = 12
"""The most ranks, or values, in a list."""
_LENGTH = 16
"""The digits of a digest: enough to detect accidental differences, and short enough to read."""
_CHUNK = 1 << 20


def versions() -> dict[str, str]:
    """The versions of everything that decides the compilation and the random inputs."""
    try:
        bindings = metadata.version(_DISTRIBUTIONS[provider])
    except metadata.PackageNotFoundError:
        bindings = "unknown"
    return {
        "the version of shard_dialect": shard_dialect.__version__,
        "the version of the MLIR bindings": bindings,
        "the version of numpy": np.__version__,
    }


def digest(*parts: str | bytes) -> str:
    """A short digest of the content."""
    hash_ = sha256()
    for text in parts:
        data = text.encode(errors="surrogateescape") if isinstance(text, str) else text
        hash_.update(len(data).to_bytes(8, "little") + data)
    return hash_.hexdigest()[:_LENGTH]


def digest_of(source: Source) -> str:
    """The digest of the program's text, independent of its path."""
    return digest(source.text, source.file_text or "")


def digest_of_inputs(path: str) -> str:
    """The digest of the arrays in a `.npz` file, without dates. Raises `ShardError`.

    Of other files, which no rank is to read as a whole, their names, shapes and types; nothing of a
    folder, in which each rank has its own.
    """
    if is_folder(path):
        return "one file a rank"
    try:
        if path.endswith(SAFETENSORS):
            return digest(safetensors_header(path))
        with zipfile.ZipFile(path) as file:
            names = sorted(file.namelist())
            return digest(*(f"{name} {_content(file.open(name))}" for name in names))
    except OSError as error:
        raise cannot("read", path, error) from None
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error):
        return "none"  # reading the arrays will report what is wrong


def _content(stream: IO[bytes]) -> str:
    hash_ = sha256()
    with stream:
        while chunk := stream.read(_CHUNK):
            hash_.update(chunk)
    return hash_.hexdigest()


def agree(world: World, own_values: Mapping[str, str], program: Source) -> bool:
    """Raise unless all ranks have the same; return whether each has a program of its own.

    Programs of single devices are compared by `agree_on_talk`, once they are read.
    """
    text = program.text if isinstance(program.text, bytes) else program.text.encode()
    is_marked = DEVICE.encode() in text
    shared = world.share([json.dumps([{**own_values, PROGRAM: digest_of(program)}, is_marked])])
    values = [json.loads(each) for each in shared]
    of_all = {rank: items for rank, (items, _) in enumerate(values)}
    differing = _differing(of_all)
    has_own = PROGRAM in differing and all(is_marked for _, is_marked in values)
    _refuse(of_all, [each for each in differing if not (has_own and each == PROGRAM)])
    return has_own


def agree_on_talk(world: World, program: Program, rank: int) -> None:
    """Raise unless the programs of single devices can belong to one program.

    They must have shards of the same global tensors at their boundaries, and the devices of a group
    must execute the same collectives in the same order. Point-to-point messages are not compared.
    """
    shared = world.share([json.dumps([_boundary(program), _talk(program, rank)])])
    digests = [json.loads(each) for each in shared]
    boundaries = {number: {_BOUNDARY: boundary} for number, (boundary, _) in enumerate(digests)}
    _refuse(boundaries, _differing(boundaries))
    for group in sorted({group for _, talk in digests for group in talk}):
        members = [int(each) for each in group.split()]
        name = f"what ranks {', '.join(group.split())} do together"
        talks = {each: {name: digests[each][1].get(group, "nothing")} for each in members}
        _refuse(talks, _differing(talks))


_BOUNDARY = "what the program takes and gives"


def _boundary(program: Program) -> str:
    sides = [
        f"{each.global_type} {each.sharding} {each.stage}"
        for each in (*program.arguments, *program.results)
    ]
    kind = "all devices" if program.device is None else "one device"
    return digest(kind, program.entry, *sides, *map(repr, program.grids.values()))


def _talk(program: Program, rank: int) -> dict[str, str]:
    """The device's collectives with others, by the others' ranks."""
    by_group: dict[str, list[str]] = {}
    for site in program.calls:
        if not site.step.is_message:
            group = " ".join(map(str, site.grid.group_of(rank, site.step.axes)))
            description = f"{site.step} {site.source} {site.target} {site.phase}"
            by_group.setdefault(group, []).append(description)
    return {group: digest(*description) for group, description in by_group.items()}


_Items = Mapping[int, Mapping[str, str]]
"""Each rank's items, by their names."""


def _differing(of_all: _Items) -> list[str]:
    names = dict.fromkeys(name for items in of_all.values() for name in items)
    return [name for name in names if len({items.get(name) for items in of_all.values()}) > 1]


def _refuse(of_all: _Items, names: Iterable[str]) -> None:
    """Raise if there are any names: all ranks raise the same error."""
    problems = []
    for name in names:
        having: dict[str, list[int]] = {}
        for rank, items in of_all.items():
            having.setdefault(items.get(name, "nothing"), []).append(rank)
        values = [f"{value or 'not given'} on {_ranks(ranks)}" for value, ranks in having.items()]
        more = f" and {len(values) - _SHOWN} others" if len(values) > _SHOWN else ""
        problems.append(f"{name} is {', '.join(values[:_SHOWN])}{more}")
    if problems:
        raise ShardError(f"the ranks differ: {'; '.join(problems)}")


def _ranks(numbers: Sequence[int]) -> str:
    """The ranks as readable text."""
    shown = ", ".join(map(str, numbers[:_SHOWN]))
    more = f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
    return f"rank{'s' * (len(numbers) > 1)} {shown}{more}"
