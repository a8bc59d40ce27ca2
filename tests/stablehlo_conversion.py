"""Programs in the local form as StableHLO alone, for its interpreter.

    %1 = shard.all_gather %0 on @g grid_axes = [0] gather_axis = 1
      becomes
    %1 = "stablehlo.all_gather"(%0) {all_gather_dim = 1, replica_groups = dense<[[0, 2], [1, 3]]>}

It shares no code with the passes and the runtimes: what upstream's collectives mean is written down
here once more, as StableHLO's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.walk import walk

Places = NDArray[np.int64]


class NotConverted(Exception):
    """An op that StableHLO has no word for."""


def groups(shape: Sequence[int], axes: Sequence[int]) -> Places:
    """The ranks of each group along `axes`, one row each; the last axis is the fastest.

    >>> groups((2, 2), [0]).tolist(), groups((2, 2), [1, 0]).tolist()
    ([[0, 2], [1, 3]], [[0, 2, 1, 3]])
    """
    ranks = np.arange(prod(shape)).reshape(shape)
    others = [axis for axis in range(len(shape)) if axis not in axes]
    return ranks.transpose([*others, *axes]).reshape(-1, prod(shape[axis] for axis in axes))


def places(shape: Sequence[int], axes: Sequence[int]) -> Places:
    """The place of each rank in its group."""
    rows = groups(shape, axes)
    found = np.empty(prod(shape), np.int64)
    found[rows] = np.arange(rows.shape[1])
    return found


class Conversion:
    """Replaces the ops of a module for devices in `grid`."""

    def __init__(self, grid: Sequence[int]) -> None:
        self.grid = grid
        self._channels = 0

    def run(self, root: ir.Operation) -> None:
        """Raises `NotConverted` where StableHLO has no word for an op."""
        for op in walk(root):
            if op.name == "shard.grid":
                op.erase()
            elif op.name in _CONVERSIONS:
                self._convert(op)
        for op in reversed(walk(root)):
            if op.name in _LEFT_OVER and not any(True for _ in op.results[0].uses):
                op.erase()
        left = {op.name for op in walk(root) if op.name.partition(".")[0] not in _KNOWN}
        if left:
            raise NotConverted(", ".join(sorted(left)))

    def _convert(self, op: ir.Operation) -> None:
        with ir.InsertionPoint(op), op.location:
            before = self._channels
            made = _CONVERSIONS[op.name](self, op)
            if self._channels > before:
                self._meet()
        if made is not None:
            op.results[0].replace_all_uses_with(made)
            op.erase()

    def _channel(self) -> str:
        self._channels += 1
        return f"#stablehlo.channel_handle<handle = {self._channels}, type = 1>"

    def _meet(self) -> None:
        """Let all devices meet before any goes on: who is early at the next round of a loop would
        overwrite what another has yet to read."""
        zero = _constant("dense<0> : tensor<i64>")
        everyone = np.arange(prod(self.grid)).reshape(1, -1)
        self._reduced("all_reduce", zero.type, zero, everyone, "sum")

    def _reduced(
        self,
        kind: str,
        type_: ir.Type,
        operand: ir.Value,
        rows: Places,
        reduction: str,
        **attributes: str,
    ) -> ir.Value:
        made = _made(
            f"stablehlo.{kind}",
            type_,
            operand,
            replica_groups=_dense(rows),
            channel_handle=self._channel(),
            use_global_device_ids="unit",
            regions=1,
            **attributes,
        )
        _combine(made.owner, reduction)
        return made

    def _groups(self, op: ir.Operation) -> Places:
        return groups(self.grid, _axes(op))

    def _place(self, axes: Sequence[int]) -> ir.Value:
        """This device's place in its group, as a tensor<i64>."""
        one = _tensor([1], "i64")
        table = _constant(f"{_dense(places(self.grid, axes))}")
        rank = _made("stablehlo.partition_id", _tensor([], "ui32"))
        index = _made("stablehlo.convert", _tensor([], "i64"), rank)
        found = _made("stablehlo.dynamic_slice", one, table, index, slice_sizes="array<i64: 1>")
        return _made("stablehlo.reshape", _tensor([], "i64"), found)

    def _all_gather(self, op: ir.Operation) -> ir.Value:
        dim = op.attributes["gather_axis"].value
        return _made(
            "stablehlo.all_gather",
            op.results[0].type,
            op.operands[0],
            all_gather_dim=f"{dim} : i64",
            replica_groups=_dense(self._groups(op)),
            channel_handle=self._channel(),
            use_global_device_ids="unit",
        )

    def _all_reduce(self, op: ir.Operation) -> ir.Value:
        type_, rows = op.results[0].type, self._groups(op)
        return self._reduced("all_reduce", type_, op.operands[0], rows, _reduction(op))

    def _reduce_scatter(self, op: ir.Operation) -> ir.Value:
        return self._reduced(
            "reduce_scatter",
            op.results[0].type,
            op.operands[0],
            self._groups(op),
            _reduction(op),
            scatter_dimension=f"{_int(op, 'scatter_dim', 'scatter_axis')} : i64",
        )

    def _all_to_all(self, op: ir.Operation) -> ir.Value:
        rows = self._groups(op)
        return _made(
            "stablehlo.all_to_all",
            op.results[0].type,
            op.operands[0],
            split_dimension=f"{op.attributes['split_axis'].value} : i64",
            concat_dimension=f"{op.attributes['concat_axis'].value} : i64",
            split_count=f"{rows.shape[1]} : i64",
            replica_groups=_dense(rows),
            channel_handle=self._channel(),
        )

    def _all_slice(self, op: ir.Operation) -> ir.Value:
        dim, type_ = op.attributes["slice_axis"].value, op.results[0].type
        size = _constant(f"dense<{type_.shape[dim]}> : tensor<i64>")
        zero = _constant("dense<0> : tensor<i64>")
        start = _made("stablehlo.multiply", size.type, self._place(_axes(op)), size)
        starts = [start if each == dim else zero for each in range(type_.rank)]
        sizes = f"array<i64: {', '.join(map(str, type_.shape))}>"
        return _made("stablehlo.dynamic_slice", type_, op.operands[0], *starts, slice_sizes=sizes)

    def _permute(self, op: ir.Operation) -> ir.Value:
        to = _list(op.attributes["permutation"])
        pairs = [
            (row[number], row[place])
            for row in groups(self.grid, _list(op.attributes["mesh_axis"]))
            for number, place in enumerate(to)
        ]
        return self._sent(op.operands[0], pairs)

    def _sent(self, value: ir.Value, pairs: Sequence[tuple[int, int]]) -> ir.Value:
        """From the first to the second of each pair; others get zeros."""
        return _made(
            "stablehlo.collective_permute",
            value.type,
            value,
            source_target_pairs=_dense(np.array(pairs, np.int64).reshape(-1, 2)),
            channel_handle=self._channel(),
        )

    def _update_halo(self, op: ir.Operation) -> ir.Value:
        """What lies at the ends of the shards goes into the halos of the neighbours."""
        lists = [_list(axes) for axes in _array(op.attributes["split_axes"])]
        sizes = iter(op.attributes["static_halo_sizes"])
        value = op.operands[0]
        for dim, axes in [(dim, axes) for dim, axes in enumerate(lists) if axes]:
            low, high = next(sizes), next(sizes)
            end = value.type.shape[dim]
            rows = groups(self.grid, axes)
            up = [pair for row in rows for pair in pairwise(row)]
            down = [(b, a) for a, b in up]
            place, last = self._place(axes), rows.shape[1] - 1
            before = self._halo(value, dim, (0, low), end - high - low, up, (place, 0))
            own = _part(value, dim, low, end - high)
            after = self._halo(value, dim, (end - high, end), low, down, (place, last))
            parts = [each for each in (before, own, after) if each is not None]
            value = _made("stablehlo.concatenate", value.type, *parts, dimension=f"{dim} : i64")
        return value

    def _halo(
        self,
        value: ir.Value,
        dim: int,
        halo: tuple[int, int],
        start: int,
        pairs: Sequence[tuple[int, int]],
        ends: tuple[ir.Value, int],
    ) -> ir.Value | None:
        """The new halo: from the neighbour's elements at `start`; at the tensor's end as it was."""
        size = halo[1] - halo[0]
        if not size:
            return None
        got = self._sent(_part(value, dim, start, start + size), pairs)
        is_end = _equals(ends[0], ends[1])
        return _made("stablehlo.select", got.type, is_end, _part(value, dim, *halo), got)

    def _mask(self, op: ir.Operation) -> ir.Value:
        type_ = op.results[0].type
        value = _IDENTITIES[op.attributes["reduction"].value]
        other = _constant(f"dense<{value}> : {type_}")
        is_first = _equals(self._place(_list(op.attributes["mesh_axis"])), 0)
        return _made("stablehlo.select", type_, is_first, op.operands[0], other)

    def _constant(self, op: ir.Operation) -> ir.Value | None:
        value = op.attributes["value"]
        return _constant(str(value)) if isinstance(value, ir.DenseElementsAttr) else None

    def _fill(self, op: ir.Operation) -> ir.Value:
        source = op.operands[0].owner
        if isinstance(source, ir.Block) or source.name != "arith.constant":
            raise NotConverted("linalg.fill of what is computed")
        number = str(source.attributes["value"]).partition(" : ")[0]
        return _constant(f"dense<{number}> : {op.results[0].type}")

    def _extract(self, op: ir.Operation) -> ir.Value:
        starts, sizes, strides = _static(op)
        limits = [a + (b - 1) * c + 1 for a, b, c in zip(starts, sizes, strides, strict=True)]
        return _made(
            "stablehlo.slice",
            op.results[0].type,
            op.operands[0],
            start_indices=_i64s(starts),
            limit_indices=_i64s(limits),
            strides=_i64s(strides),
        )

    def _insert(self, op: ir.Operation) -> ir.Value:
        starts, _, strides = _static(op)
        if set(strides) - {1} or op.operands[0].type.rank != len(starts):
            raise NotConverted("tensor.insert_slice of another rank, or with strides")
        places = [_constant(f"dense<{start}> : tensor<i64>") for start in starts]
        return _made(
            "stablehlo.dynamic_update_slice",
            op.results[0].type,
            op.operands[1],
            op.operands[0],
            *places,
        )


_CONVERSIONS: dict[str, Callable[[Conversion, ir.Operation], ir.Value | None]] = {
    "arith.constant": Conversion._constant,
    "linalg.fill": Conversion._fill,
    "mesh.collective_permute": Conversion._permute,
    "mesh.mask": Conversion._mask,
    "shard.all_gather": Conversion._all_gather,
    "shard.all_reduce": Conversion._all_reduce,
    "shard.all_slice": Conversion._all_slice,
    "shard.all_to_all": Conversion._all_to_all,
    "shard.reduce_scatter": Conversion._reduce_scatter,
    "shard.update_halo": Conversion._update_halo,
    "tensor.extract_slice": Conversion._extract,
    "tensor.insert_slice": Conversion._insert,
}
_LEFT_OVER = ("arith.constant", "tensor.empty")
_KNOWN = ("func", "stablehlo")
_COMBINERS = {"sum": "add", "product": "multiply", "max": "maximum", "min": "minimum"}
_IDENTITIES = {
    "sum": "0.0",
    "product": "1.0",
    "max": "0xFFF0000000000000",
    "min": "0x7FF0000000000000",
}
"""Of f64."""


def _made(
    name: str, type_: ir.Type, *operands: ir.Value, regions: int = 0, **attributes: str
) -> ir.Value:
    """The result of an op; attributes are text."""
    parsed = {key: ir.Attribute.parse(text) for key, text in attributes.items()}
    op = ir.Operation.create(
        name, results=[type_], operands=list(operands), attributes=parsed, regions=regions
    )
    return op.results[0]


def _constant(text: str) -> ir.Value:
    value = ir.Attribute.parse(text)
    return _made("stablehlo.constant", value.type, value=text)


def _combine(op: ir.Operation, reduction: str) -> None:
    element = _tensor([], str(op.results[0].type.element_type))
    block = op.regions[0].blocks.append(element, element, arg_locs=[op.location] * 2)
    with ir.InsertionPoint(block):
        found = _made(f"stablehlo.{_COMBINERS[reduction]}", element, *block.arguments)
        ir.Operation.create("stablehlo.return", operands=[found])


def _part(value: ir.Value, dim: int, start: int, end: int) -> ir.Value:
    starts, ends = [0] * value.type.rank, list(value.type.shape)
    starts[dim], ends[dim] = start, end
    shape = [b - a for a, b in zip(starts, ends, strict=True)]
    type_ = _tensor(shape, str(value.type.element_type))
    return _made(
        "stablehlo.slice",
        type_,
        value,
        start_indices=_i64s(starts),
        limit_indices=_i64s(ends),
        strides=_i64s([1] * len(starts)),
    )


def _equals(value: ir.Value, number: int) -> ir.Value:
    other = _constant(f"dense<{number}> : tensor<i64>")
    return _made(
        "stablehlo.compare",
        _tensor([], "i1"),
        value,
        other,
        comparison_direction="#stablehlo<comparison_direction EQ>",
    )


def _static(op: ir.Operation) -> tuple[list[int], list[int], list[int]]:
    found = [list(op.attributes[f"static_{key}"]) for key in ("offsets", "sizes", "strides")]
    if any(number < 0 for numbers in found for number in numbers):
        raise NotConverted(f"{op.name} at places that are computed")
    return found[0], found[1], found[2]


def _reduction(op: ir.Operation) -> str:
    if "reduction" not in op.attributes:
        return "sum"
    return str(op.attributes["reduction"]).removeprefix("#shard<partial ").removesuffix(">")


def _int(op: ir.Operation, *names: str) -> int:
    return next(int(op.attributes[name].value) for name in names if name in op.attributes)


def _axes(op: ir.Operation) -> list[int]:
    return list(op.attributes["grid_axes"]) if "grid_axes" in op.attributes else []


def _list(attribute: ir.Attribute) -> list[int]:
    return [each.value if isinstance(each, ir.Attribute) else each for each in attribute]


def _array(attribute: ir.Attribute) -> list[list[int]]:
    """`#shard<axisarray[[], [0]]>`."""
    text = str(attribute).removeprefix("#shard<axisarray").removesuffix(">")
    return [list(_list(each)) for each in ir.Attribute.parse(text)]


def _tensor(shape: Sequence[int], element: str) -> ir.Type:
    return ir.Type.parse(f"tensor<{''.join(f'{size}x' for size in shape)}{element}>")


def _dense(numbers: Places) -> str:
    return f"dense<{numbers.tolist()}> : {_tensor(numbers.shape, 'i64')}"


def _i64s(numbers: Sequence[int]) -> str:
    return f"array<i64: {', '.join(map(str, numbers))}>" if numbers else "array<i64>"
