"""An interpreter of straight StableHLO in the distributed form, on the pieces of every device.

It shares nothing with the passes and the runtime: pieces are cut by `tests.model.interpreter`,
short or empty at the end of what does not divide, and each op is done by numpy on them as they are.
After each op the devices' pieces must make up what the op gives on whole tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.collectives import read_collective
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.mesh import is_reshard
from shard_dialect.ir.shardings import Shardings
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import Grid, Sharding
from tests.model.interpreter import combine, cut, on_grid

Array = Any
_Op = Callable[[ir.Operation, Sequence[Array], tuple[int, ...]], Array]


def check(module: ir.Module, inputs: Sequence[Array]) -> int:
    """Run the one function of `module`; how many values lay unevenly. Asserts that all are right.

    Of integers, so that sums are exact, or else but for rounding.
    """
    [function] = functions_of(module.operation)
    shardings = Shardings.of(module.operation)
    grids = {
        shardings.grid(found.grid)
        for op in operations(body(function))
        for value in (*op.operands, *op.results)
        if (found := shardings.of_type(value.type)) is not None
    }
    if not grids:
        return 0  # nothing is sharded
    [grid] = grids
    wholes: dict[ir.Value, Array] = {}
    pieces: dict[ir.Value, list[Array]] = {}
    uneven = 0

    def lies(value: ir.Value) -> Sharding:
        found = shardings.of_type(value.type)
        return found or Sharding.replicated(grid.name, value.type.rank)

    for value, array in zip(body(function).arguments, inputs, strict=True):
        wholes[value] = array
        pieces[value] = [cut(array, lies(value), rank, grid) for rank in range(grid.size)]
    for op in operations(body(function))[:-1]:
        [result] = op.results
        held = [pieces[each] for each in op.operands]
        if is_reshard(op):
            wholes[result] = wholes[op.operands[0]]
            pieces[result] = _moved(op, held[0], wholes[result].shape, grid)
        else:
            wholes[result] = _done(op, [wholes[each] for each in op.operands], grid, None, None)
            pieces[result] = [
                _done(op, [each[rank] for each in held], grid, lies(result), rank)
                for rank in range(grid.size)
            ]
        uneven += lies(result).uneven_dim(wholes[result].shape, grid) is not None
        assert _make_up(pieces[result], wholes[result], lies(result), grid), f"{op}\n{module}"
    return uneven


def _moved(op: ir.Operation, held: list[Array], shape: tuple[int, ...], grid: Grid) -> list[Array]:
    found = read_collective(op)
    now = found.source
    for step in found.steps:
        held = on_grid(step, held, now, shape, grid)
        now = step.after(now)
    assert now == found.target
    return held


def _done(
    op: ir.Operation,
    operands: Sequence[Array],
    grid: Grid,
    sharding: Sharding | None,
    rank: int | None,
) -> Array:
    """The op on whole tensors, or on those of device `rank`."""
    shape = tuple(op.results[0].type.shape)
    if sharding is not None and rank is not None:
        whole = np.broadcast_to(np.int8(0), shape)  # of no use but to be cut
        shape = cut(whole, sharding, rank, grid).shape
    return _OPS[op.name](op, operands, shape)


def _make_up(held: Sequence[Array], whole: Array, sharding: Sharding, grid: Grid) -> bool:
    for rank in range(grid.size):
        members = grid.group_of(rank, sharding.partial)
        both = combine([held[member] for member in members], sharding.reduction)
        want = cut(whole, sharding, rank, grid)
        if both.shape != want.shape or not np.allclose(both, want):
            return False
    return True


def _constant(op: ir.Operation, operands: Sequence[Array], shape: tuple[int, ...]) -> Array:
    value = op.attributes["value"]
    if value.is_splat:
        return np.full(shape, value.get_splat_value().value)
    return np.array(value).reshape(shape)


def _dot(op: ir.Operation, operands: Sequence[Array], shape: tuple[int, ...]) -> Array:
    text = str(op.attributes["dot_dimension_numbers"])
    assert "batching" not in text
    left, right = (
        int(text.split(f"{side}_contracting_dimensions = [")[1].split("]")[0])
        for side in ("lhs", "rhs")
    )
    return np.tensordot(*operands, (left, right))


def _reduce(op: ir.Operation, operands: Sequence[Array], shape: tuple[int, ...]) -> Array:
    combiner = operations(op.regions[0].blocks[0])[0].name
    into = {"stablehlo.add": np.add, "stablehlo.maximum": np.maximum}[combiner]
    axes = tuple(op.attributes["dimensions"])
    return into.reduce(operands[0], axis=axes, initial=operands[1].item())


def _broadcast(op: ir.Operation, operands: Sequence[Array], shape: tuple[int, ...]) -> Array:
    dims = list(op.attributes["broadcast_dimensions"])
    laid = [1] * len(shape)
    for dim, size in zip(dims, operands[0].shape, strict=True):
        laid[dim] = size
    return np.broadcast_to(operands[0].reshape(laid), shape)


def _slice(op: ir.Operation, operands: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """Of a piece, too: dimensions that are split are taken whole, from 0 on."""
    starts = list(op.attributes["start_indices"])
    return operands[0][tuple(slice(at, at + size) for at, size in zip(starts, shape, strict=True))]


_OPS: dict[str, _Op] = {
    "stablehlo.add": lambda _, operands, __: operands[0] + operands[1],
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.concatenate": lambda op, operands, _: np.concatenate(
        operands, op.attributes["dimension"].value
    ),
    "stablehlo.constant": _constant,
    "stablehlo.divide": lambda _, operands, __: operands[0] / operands[1],
    "stablehlo.dot_general": _dot,
    "stablehlo.exponential": lambda _, operands, __: np.exp(operands[0]),
    "stablehlo.maximum": lambda _, operands, __: np.maximum(*operands),
    "stablehlo.reduce": _reduce,
    "stablehlo.reshape": lambda _, operands, shape: operands[0].reshape(shape),
    "stablehlo.slice": _slice,
    "stablehlo.subtract": lambda _, operands, __: operands[0] - operands[1],
    "stablehlo.transpose": lambda op, operands, _: operands[0].transpose(
        list(op.attributes["permutation"])
    ),
}
