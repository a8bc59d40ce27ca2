"""GSPMD's annotations of a StableHLO module, written as Shardy's.

    %0 = stablehlo.add %a, %b {mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"}

    sdy.mesh @m0 = <["a0"=2, "a1"=4]>
    %0 = stablehlo.add %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@m0, [{"a0"}, {}]>]>}

One mesh has all tiles whose strides are digits of one order of the devices; others get meshes of
their own. Copies and custom calls `Sharding` become constraints. An entry's arguments and results
without annotation are replicated, as XLA takes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from jax._src.interpreters import mlir as jax_mlir
from jaxlib import _hlo  # type: ignore[attr-defined]
from jaxlib.mlir import ir

Digit = tuple[int, int]
"""Stride among the devices of a mesh, and size."""
GSPMD = "mhlo.sharding"


def to_shardy(text: str, devices: int) -> str:
    """The module with Shardy's annotations; raises `ValueError` for what Shardy cannot say."""
    with jax_mlir.make_ir_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        conversion = _Conversion(devices)
        ops = list(inside(module.operation))
        for op in ops:
            _annotate_copied(op)
        for op in ops:
            for sharding in _shardings(op):
                conversion.place(sharding)
        for op in ops:
            conversion.convert(op)
        for name in list(module.operation.attributes):
            if name.startswith("mhlo."):
                del module.operation.attributes[name]
        at = ir.InsertionPoint.at_block_begin(module.body)
        for line in conversion.declarations():
            at.insert(ir.Operation.parse(line))
        return str(module.operation.get_asm(print_generic_op_form=True))


@dataclass
class _Mesh:
    """Devices in an order, which is cut into axes: each cut divides the next one."""

    order: tuple[int, ...]
    cuts: set[int] = field(default_factory=set)

    def digits(self, tiles: np.ndarray[Any, Any], rank: int) -> list[list[Digit]] | None:
        """The digits of each dimension of a tensor, major ones first; `None` if there are none.

        Tile dimensions behind `rank` hold the devices on which the tensor is replicated.
        """
        places = np.argsort(self.order)[tiles.reshape(*tiles.shape[:rank], -1)]
        places.sort(axis=-1)
        found: list[list[Digit]] = []
        linear = np.zeros(places.shape, int)
        for dim, size in enumerate(places.shape):
            digits, rest, at = [], size, [0] * places.ndim
            for prime in _primes(size):
                rest //= prime
                at[dim] = rest
                stride = int(places[tuple(at)])
                digits.append((stride, prime))
                shape = [size if d == dim else 1 for d in range(places.ndim)]
                linear += (np.arange(size) // rest % prime * stride).reshape(shape)
            found.append(_joined(digits))
        return found[:rank] if np.array_equal(linear, places) else None

    def takes(self, digits: Iterable[Digit]) -> bool:
        """Add the cuts of these digits, if they divide one another with those before."""
        cuts = self.cuts | {cut for stride, size in digits for cut in (stride, stride * size)}
        if any(high % low for low, high in pairwise(sorted(cuts))):
            return False
        self.cuts = cuts
        return True

    @property
    def axes(self) -> list[Digit]:
        """From the major one to the minor one."""
        return [(low, high // low) for low, high in pairwise(sorted(self.cuts))][::-1]

    def axes_of(self, digit: Digit) -> list[str]:
        stride, size = digit
        numbered = enumerate(self.axes)
        return [f'"a{n}"' for n, (low, _) in numbered if stride <= low < stride * size]


class _Conversion:
    def __init__(self, devices: int) -> None:
        first = _Mesh(tuple(range(devices)), {1, devices})
        self.meshes = [first]
        self.maximal: set[int] = set()
        self.tiled: dict[tuple[str, int], tuple[_Mesh, list[list[Digit]]]] = {}

    def place(self, given: tuple[Any, int]) -> None:
        """Find or make the mesh that has the tiles of a sharding of a tensor of some rank."""
        sharding, rank = given
        if _is_maximal(sharding):
            self.maximal.add(sharding.tile_assignment_devices()[0])
        if sharding.is_manual() or any("MANUAL" in str(t) for t in sharding.subgroup_types()):
            raise ValueError("manual along some axes")
        if sharding.is_unreduced() or any("UNRED" in str(t) for t in sharding.subgroup_types()):
            raise ValueError("partial sums: unreduced")
        if not sharding.is_tiled() or (str(sharding), rank) in self.tiled:
            return
        tiles = np.array(sharding.tile_assignment_devices())
        if tiles.size != len(self.meshes[0].order):
            raise ValueError("tiles of some of the devices only")
        own = _Mesh(tuple(map(int, tiles)), {1, tiles.size})
        tiles = tiles.reshape(sharding.tile_assignment_dimensions())
        for mesh in (*self.meshes, own):
            digits = mesh.digits(tiles, rank)
            if digits is not None and mesh.takes(digit for dim in digits for digit in dim):
                self.tiled[str(sharding), rank] = mesh, digits
                if mesh is own:
                    self.meshes.append(own)
                return
        raise ValueError("tiles that no mesh has")

    def declarations(self) -> Iterator[str]:
        for number, mesh in enumerate(self.meshes):
            axes = ", ".join(f'"a{n}"={size}' for n, (_, size) in enumerate(mesh.axes))
            is_ordered = mesh.order == tuple(range(len(mesh.order)))
            order = "" if is_ordered else f", device_ids={list(mesh.order)}"
            yield f"sdy.mesh @m{number} = <[{axes}]{order}>"
        for device in sorted(self.maximal):
            yield f"sdy.mesh @maximal{device} = <[], device_ids=[{device}]>"

    def text(self, sharding: Any, rank: int) -> str:
        """The sharding of a tensor of a rank, as Shardy says it."""
        if _is_maximal(sharding):
            return f"<@maximal{sharding.tile_assignment_devices()[0]}, []>"
        if not sharding.is_tiled():
            return f"<@m0, [{', '.join(['{}'] * rank)}]>"
        mesh, digits = self.tiled[str(sharding), rank]
        dims = ([axis for digit in dim for axis in mesh.axes_of(digit)] for dim in digits)
        written = ", ".join(f"{{{', '.join(dim)}}}" for dim in dims)
        return f"<@m{self.meshes.index(mesh)}, [{written}]>"

    def convert(self, op: Any) -> None:
        if op.name == "func.func":
            is_entry = ir.StringAttr(op.attributes["sym_name"]).value == "main"
            type_ = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
            self._boundary(op, "arg_attrs", type_.inputs, is_entry)
            self._boundary(op, "res_attrs", type_.results, is_entry)
        elif _is_copy(op):
            self._constraint(op)
        elif GSPMD in op.attributes:
            said = [self.text(each, rank) for each, rank in _shardings(op)]
            del op.attributes[GSPMD]
            if op.name != "func.call":  # the callee's say it
                text = f"#sdy.sharding_per_value<[{', '.join(said)}]>"
                op.attributes["sdy.sharding"] = ir.Attribute.parse(text)

    def _constraint(self, op: Any) -> None:
        value = op.operands[0]
        for sharding, rank in _shardings(op):
            with ir.InsertionPoint(op):
                attribute = ir.Attribute.parse(f"#sdy.sharding{self.text(sharding, rank)}")
                made = ir.Operation.create(
                    "sdy.sharding_constraint", [value.type], [value], {"sharding": attribute}
                )
            value = made.results[0]
        op.results[0].replace_all_uses_with(value)
        op.erase()

    def _boundary(self, function: Any, key: str, types: Iterable[Any], is_entry: bool) -> None:
        types = list(types)
        given = function.attributes[key] if key in function.attributes else [{}] * len(types)
        entries = []
        for entry, type_ in zip(given, types, strict=True):
            said = ir.DictAttr(entry)[GSPMD] if GSPMD in entry else None
            rank = _rank(type_)
            sharding = _read(ir.StringAttr(said).value) if said else _hlo.HloSharding.replicate()
            attributes = {}
            if said or is_entry:
                text = f"#sdy.sharding{self.text(sharding, rank)}"
                attributes["sdy.sharding"] = ir.Attribute.parse(text)
            entries.append(ir.DictAttr.get(attributes))
        function.attributes[key] = ir.ArrayAttr.get(entries)


def _annotate_copied(function: Any) -> None:
    """Annotate the arguments of the entry of which only one sharding is ever read, by a copy."""
    is_entry = function.name == "func.func" and function.attributes["sym_name"].value == "main"
    if not is_entry:
        return
    entries = []
    arguments = list(function.regions[0].blocks[0].arguments)
    given = function.attributes["arg_attrs"] if "arg_attrs" in function.attributes else None
    for number, argument in enumerate(arguments):
        pairs: Any = ir.DictAttr(given[number]) if given else ()
        entry = {each.name: each.attr for each in pairs}
        users = [use.owner.operation for use in argument.uses]
        read = {
            user.attributes[GSPMD] for user in users if _is_copy(user) and GSPMD in user.attributes
        }
        if GSPMD not in entry and len(read) == 1 and all(map(_is_copy, users)):
            entry[GSPMD] = read.pop()
        entries.append(ir.DictAttr.get(entry))
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(entries)


def _is_copy(op: Any) -> bool:
    return op.name == "mhlo.copy" or _target(op) == "Sharding"


def _shardings(op: Any) -> Iterator[tuple[Any, int]]:
    """The shardings of an op's results, or of a function's boundary, each with the rank."""
    if op.name == "func.func":
        type_ = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
        for key, types in (("arg_attrs", type_.inputs), ("res_attrs", type_.results)):
            for entry, each in (
                zip(op.attributes[key], types, strict=True) if key in op.attributes else ()
            ):
                if GSPMD in entry:
                    yield _read(ir.StringAttr(ir.DictAttr(entry)[GSPMD]).value), _rank(each)
    elif GSPMD in op.attributes:
        found = _read(ir.StringAttr(op.attributes[GSPMD]).value)
        several = found.tuple_elements() or [found] * len(op.results)
        for each, result in zip(several, op.results, strict=True):
            yield each, _rank(result.type)


def _is_maximal(sharding: Any) -> bool:
    return bool(sharding.is_maximal() and not sharding.is_replicated())


def _read(text: str) -> Any:
    return _hlo.HloSharding.from_string(text)


def _rank(type_: Any) -> int:
    if not isinstance(type_, ir.RankedTensorType):
        raise ValueError(f"a value that is no tensor: {type_}")
    return int(type_.rank)


def _target(op: Any) -> str:
    if op.name != "stablehlo.custom_call":
        return ""
    return str(ir.StringAttr(op.attributes["call_target_name"]).value)


def _primes(size: int) -> Iterator[int]:
    for prime in range(2, size + 1):
        while size % prime == 0:
            yield prime
            size //= prime


def _joined(digits: Iterable[Digit]) -> list[Digit]:
    """Digits of one dimension, those that follow on each other as one.

    >>> _joined([(4, 2), (2, 2), (8, 2)])
    [(2, 4), (8, 2)]
    """
    found: list[Digit] = []
    for stride, size in digits:
        if found and found[-1][0] == stride * size:
            found[-1] = stride, found[-1][1] * size
        else:
            found.append((stride, size))
    return found


def inside(op: Any) -> Iterator[Any]:
    """All ops in the regions of an op, outer ones first."""
    for region in op.regions:
        for block in region:
            for each in list(block.operations):
                yield each.operation
                yield from inside(each.operation)
