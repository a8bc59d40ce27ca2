"""`linalg` structured ops, by their indexing maps and iterator types.

    affine_map<(m, n, k) -> (m, k)>, <(m, n, k) -> (k, n)>, <(m, n, k) -> (m, n)>
    ([a, c], [c, b], [a, b]) -> ([a, b]) reduction={c: sum}

A loop is a factor. A dimension indexed by more than one loop (`i + j` of a convolution) is not
split, nor are the loops in it. A loop whose index is read (`linalg.index`) is not split either:
its local index would not be the global one.
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.ir.bindings import ir, linalg_queries
from shard_dialect.ir.build import REDUCTION_OF
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import Reduction, ShardingRule
from shard_dialect.model.sharding import Shape
from shard_dialect.rules.query import Query


def structured(query: Query) -> ShardingRule | None:
    """The rule of any op with linalg's structured interface, `None` for other ops."""
    maps = linalg_queries.get_indexing_maps(query.op)
    if maps is None:
        return None
    affine = [attribute.value for attribute in maps]
    loops = affine[0].n_dims
    dims = [_dims(each) for each in affine]
    shapes = list(query.operands)
    inits = len(query.results)
    whole = _read_indices(query.op) | _indexed_together(affine)
    parallel = {loop for each in dims[len(dims) - inits :] for dim in each for loop in dim}
    reductions: list[tuple[int, Reduction]] = []
    kind = _reduction(query.op) if inits == 1 else None
    for loop in range(loops):
        if loop not in parallel and kind is not None:
            reductions.append((loop, kind))
        elif loop not in parallel:
            whole |= {loop}
    operands = tuple(
        None if shape is None else each for each, shape in zip(dims, shapes, strict=True)
    )
    results = tuple(operands[len(operands) - inits :])
    first = len(operands) - inits
    return ShardingRule(
        _sizes(loops, operands, shapes),
        operands,
        results,
        tuple(reductions),
        frozenset(whole),
        inits=tuple(range(first, len(operands))),
    )


def _dims(map_: ir.AffineMap) -> tuple[tuple[int, ...], ...]:
    return tuple(
        (expr.position,) if isinstance(expr, ir.AffineDimExpr) else () for expr in map_.results
    )


def _indexed_together(maps: Sequence[ir.AffineMap]) -> set[int]:
    loops: set[int] = set()
    for map_ in maps:
        for expr in map_.results:
            if not isinstance(expr, ir.AffineDimExpr):
                loops |= _loops_in(expr)
    return loops


def _loops_in(expr: ir.AffineExpr) -> set[int]:
    if isinstance(expr, ir.AffineDimExpr):
        return {expr.position}
    if isinstance(expr, ir.AffineBinaryExpr):
        return _loops_in(expr.lhs) | _loops_in(expr.rhs)
    return set()


def _sizes(
    loops: int,
    operands: Sequence[tuple[tuple[int, ...], ...] | None],
    shapes: Sequence[Shape | None],
) -> tuple[int, ...]:
    sizes = [1] * loops
    for dims, shape in zip(operands, shapes, strict=True):
        for dim, size in zip(dims or (), shape or (), strict=True):
            for loop in dim:
                sizes[loop] = size
    return tuple(sizes)


def _read_indices(op: ir.Operation) -> set[int]:
    indices = (inner for inner in operations(body(op)) if inner.name == "linalg.index")
    return {index.attributes["dim"].value for index in indices}


def _reduction(op: ir.Operation) -> Reduction | None:
    """How the op's one init is combined with what the inputs give, if in a way that we know.

    The body must yield `combine(f(inputs), init)`, with nothing else reading the init.
    """
    block = body(op)
    init = block.arguments[len(block.arguments) - 1]
    users = [use.owner.operation for use in init.uses]
    terminator = operations(block)[-1]
    if len(users) != 1 or len(terminator.operands) != 1:
        return None
    combiner = users[0]
    operands = list(combiner.operands)
    if terminator.operands[0] != combiner.results[0] or operands.count(init) != 1:
        return None
    if str(init.type) == "i1":
        return None  # one-bit sums wrap around, and a signed 1 is -1: no collective does so
    return REDUCTION_OF.get(combiner.name)
