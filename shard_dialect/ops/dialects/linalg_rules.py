"""`linalg` structured ops, by their indexing maps; its other ops, by their attributes.

    affine_map<(m, n, k) -> (m, k)>, <(m, n, k) -> (k, n)>, <(m, n, k) -> (m, n)>
    ([a, c], [c, b], [a, b]) -> ([a, b]) reduction={c: sum}

Each loop is a factor. On shards a body reads global indices (`ops.dialects.linalg_bodies`). The
body of a named op cannot change, so a loop whose index it reads is not split. For a dimension that
is indexed by a sum of loops, as in a window op, the factors are

    i * 2 + j, j < 2     [ij]    both loops, where windows are adjacent and disjoint
    i * 1 + j, j < 3     [i]     else the output's loop, read in windows; the window's loop is whole
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from shard_dialect.ir.bindings import ir, linalg_queries
from shard_dialect.ir.building.reductions import BITWISE, REDUCTION_OF
from shard_dialect.ir.walk import body, has_own_body, operations
from shard_dialect.model import Reduction, ShardingRule, Window, Windows
from shard_dialect.model.factor_projection import Dims
from shard_dialect.model.sharding import Shape
from shard_dialect.ops.factors import Factors, Kind, Query


def structured(query: Query) -> ShardingRule | None:
    """The rule of any op with linalg's structured interface, `None` for other ops."""
    maps = linalg_queries.get_indexing_maps(query.op)
    if maps is None:
        return None
    affine = [attribute.value for attribute in maps]
    loops = _Loops(affine, query)
    operands = tuple(
        None if shape is None else loops.dims(number, map_, shape)
        for number, (map_, shape) in enumerate(zip(affine, query.operands, strict=True))
    )
    if not has_own_body(query.op.name):
        loops.need_replication |= _read_indices(query.op)
    first = len(operands) - len(query.results)
    rule = ShardingRule(
        tuple(loops.sizes),
        operands,
        operands[first:],
        loops.reductions(query.op, affine[first:]),
        frozenset(loops.need_replication),
        frozenset(loops.permuted - loops.need_replication),
        inits=tuple(range(first, len(operands))),
        windows=tuple(each for each in loops.windows if each.factor not in loops.need_replication),
    )
    return replace(rule, role="broadcast") if _repeats(query.op, rule) else rule


class _Loops:
    """An op's loops: their sizes, and the factors that are whole, permuted or read in windows."""

    def __init__(self, maps: Sequence[ir.AffineMap], query: Query) -> None:
        self.sizes = [1] * maps[0].n_dims
        self.need_replication: set[int] = set()
        self.permuted: set[int] = set()
        self.windows: list[Window] = []
        self.outer = plain_loops(maps[len(maps) - len(query.results) :])
        """The loops that index results."""
        for map_, shape in zip(maps, query.operands, strict=True):
            for expr, size in zip(map_.results, shape or (), strict=shape is not None):
                if isinstance(expr, ir.AffineDimExpr):
                    self.sizes[expr.position] = size

    def dims(self, operand: int, map_: ir.AffineMap, shape: Shape) -> Dims:
        """The factors of each dimension; a loop that indexes two (a diagonal) becomes whole."""
        dims = [
            self._factors((operand, dim), expr, size)
            for dim, (expr, size) in enumerate(zip(map_.results, shape, strict=True))
        ]
        used = Counter(loop for dim in dims for loop in dim)
        twice = {loop for loop, count in used.items() if count > 1}
        self.need_replication |= twice
        return tuple(() if twice & set(dim) else dim for dim in dims)

    def _factors(self, at: tuple[int, int], expr: ir.AffineExpr, size: int) -> tuple[int, ...]:
        """The factors of operand dimension `at`, of size `size`, which `expr` indexes."""
        if isinstance(expr, ir.AffineDimExpr):
            return (expr.position,)
        terms = _terms(expr)
        if terms is None:
            self.need_replication |= _loops_in(expr)
            return ()
        scales = {loop: scale for loop, scale in terms.items() if loop >= 0}
        major = sorted(scales, key=lambda loop: -scales[loop])
        moving = [loop for loop in major if self.sizes[loop] != 1]
        unit = 1
        are_digits = not terms.get(_CONSTANT)
        for loop in reversed(moving):
            are_digits &= scales[loop] == unit
            unit *= self.sizes[loop]
        if are_digits and unit == size:
            return tuple(moving)
        loops = set(moving)
        outer = loops & self.outer
        if len(outer) != 1:
            self.need_replication |= loops
            return ()
        [loop] = outer
        self.permuted.add(loop)
        self.need_replication |= loops - outer
        self._note_windows(loop, at, terms, size)
        return (loop,)

    def _note_windows(
        self, loop: int, at: tuple[int, int], terms: dict[int, int], size: int
    ) -> None:
        """Add the windows that read operand dimension `at`, one for each iteration of `loop`."""
        scales = [(self.sizes[each], scale) for each, scale in terms.items() if each >= 0]
        last = sum((count - 1) * scale for count, scale in scales)
        stride, begin = terms[loop], terms.get(_CONSTANT, 0)
        extent = begin + last - (self.sizes[loop] - 1) * stride + 1
        windows = Windows(size, self.sizes[loop], stride, extent, 0)
        if begin >= 0 and all(scale > 0 for _, scale in scales) and windows.stay_in_bounds:
            self.windows.append(Window(loop, *at, windows))

    def reductions(
        self, op: ir.Operation, results: Sequence[ir.AffineMap]
    ) -> tuple[tuple[int, Reduction], ...]:
        """The reduction loops; loops that index only some of the results are whole."""
        for map_ in results:
            self.need_replication |= self.outer - plain_loops([map_])
        kind = _reduction(op)
        summed = set(range(len(self.sizes))) - self.outer - self.need_replication - self.permuted
        if kind is None:
            self.need_replication |= summed
            return ()
        return tuple((loop, kind) for loop in sorted(summed))


def plain_loops(maps: Sequence[ir.AffineMap]) -> set[int]:
    """The loops that alone index a dimension of one of the maps."""
    exprs = [expr for map_ in maps for expr in map_.results]
    return {expr.position for expr in exprs if isinstance(expr, ir.AffineDimExpr)}


_CONSTANT = -1


def _terms(expr: ir.AffineExpr) -> dict[int, int] | None:
    """The coefficient of each loop in a linear expression, and `_CONSTANT`; else `None`."""
    if isinstance(expr, ir.AffineConstantExpr):
        return {_CONSTANT: expr.value}
    if isinstance(expr, ir.AffineDimExpr):
        return {expr.position: 1}
    if not isinstance(expr, ir.AffineAddExpr | ir.AffineMulExpr):
        return None
    left, right = _terms(expr.lhs), _terms(expr.rhs)
    if left is None or right is None:
        return None
    if isinstance(expr, ir.AffineAddExpr):
        return {each: left.get(each, 0) + right.get(each, 0) for each in (*left, *right)}
    if set(right) != {_CONSTANT}:
        return None
    return {loop: scale * right[_CONSTANT] for loop, scale in left.items()}


def _loops_in(expr: ir.AffineExpr) -> set[int]:
    if isinstance(expr, ir.AffineDimExpr):
        return {expr.position}
    if isinstance(expr, ir.AffineBinaryExpr):
        return _loops_in(expr.lhs) | _loops_in(expr.rhs)
    return set()


def _read_indices(op: ir.Operation) -> set[int]:
    """The loops whose index the body of a named op reads."""
    inside = operations(body(op))
    return {inner.attributes["dim"].value for inner in inside if inner.name == "linalg.index"}


def _repeats(op: ir.Operation, rule: ShardingRule) -> bool:
    """Whether the op only broadcasts its one input along further loops."""
    tensors = [dims for dims in rule.operands[:-1] if dims is not None]
    inside = operations(body(op))
    if len(tensors) != 1 or len(rule.operands) != 2 or len(inside) != 1:
        return False
    read = inside[0].operands[0] == body(op).arguments[0]
    return read and len(tensors[0]) < len(rule.sizes) and not (rule.reductions or rule.unsplit)


def _reduction(op: ir.Operation) -> Reduction | None:
    """The reduction that combines the inits with the inputs; `None` if unknown, or not the same.

    The body must yield `combine(f(inputs), init)` for each init, and must not read inits elsewhere.
    """
    block = body(op)
    yielded = list(operations(block)[-1].operands)
    inits = list(block.arguments)[len(block.arguments) - len(yielded) :]
    kinds = {_kind(*each) for each in zip(inits, yielded, strict=True)}
    return kinds.pop() if len(kinds) == 1 else None


def _kind(init: ir.Value, yielded: ir.Value) -> Reduction | None:
    users = [use.owner.operation for use in init.uses]
    if len(users) != 1 or len(list(yielded.uses)) != 1:
        return None
    combiner = users[0]
    if list(combiner.results) != [yielded] or list(combiner.operands).count(init) != 1:
        return None
    kind = REDUCTION_OF.get(combiner.name)
    if str(init.type) == "i1" and kind not in BITWISE:
        return None  # one-bit sums wrap around, and a signed 1 is -1, unlike in collectives
    return kind


def softmax(query: Query) -> ShardingRule | None:
    """All dimensions pass, except the one that is summed over, which is whole."""
    shape = query.results[0]
    if shape is None:
        return None
    summed = query.op.attributes["dimension"].value
    factors = Factors(query)
    for dim, size in enumerate(shape):
        factors.add_to_all(dim, size, "need_replication" if dim == summed else "passed")
    return factors.rule()


def pack(query: Query) -> ShardingRule | None:
    """`[8, 6]` in tiles of 4: `([ab, c], [a, c, b]) -> ([a, c, b])`, where tiles are whole."""
    source, result = query.operands[0], query.results[0]
    return None if source is None or result is None else _tiled(query, source, result, packs=True)


def unpack(query: Query) -> ShardingRule | None:
    """The inverse of `pack`: `([a, c, b], [ab, c]) -> ([ab, c])`."""
    source, result = query.operands[0], query.results[0]
    return None if source is None or result is None else _tiled(query, result, source, packs=False)


def _tiled(query: Query, plain: Shape, tiled: Shape, *, packs: bool) -> ShardingRule | None:
    """The rule of `pack` or `unpack`; a dimension that its tiles do not divide has no factors."""
    turned = "outer_dims_perm" in query.op.attributes
    order = list(query.op.attributes["outer_dims_perm"]) if turned else []
    order = order or list(range(len(plain)))
    tiles = list(query.op.attributes["inner_dims_pos"])
    factors = Factors(query)

    def add(dim: int, of_tiled: int, kind: Kind) -> None:
        source, result = (dim, of_tiled) if packs else (of_tiled, dim)
        factors.add(tiled[of_tiled], (source, result), (result,), kind)

    for dim, size in enumerate(plain):
        outer = order.index(dim)
        inner = len(plain) + tiles.index(dim) if dim in tiles else None
        if tiled[outer] * (tiled[inner] if inner else 1) == size:
            add(dim, outer, "passed")
            if inner:
                add(dim, inner, "need_replication")
    return factors.rule("pass")


def winograd(spec: str) -> Callable[[Query], ShardingRule]:
    """A rule function from einsum notation, for Winograd transforms."""
    return lambda query: ShardingRule.einsum(spec, query.operands, query.results)
