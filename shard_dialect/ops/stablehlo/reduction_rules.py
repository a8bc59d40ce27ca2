"""StableHLO's reductions, over dimensions and over windows.

    reduce by add over [1]           ([a, b], []) -> ([a]) reduction={b: sum}
    argmax over [1]                  ([a, b], [a, b], [], []) -> ([a], [a]) whole={b}
    reduce_window of 1x2             ([a, b], []) -> ([a, b]) permuted={b}, read in windows

A reduced dimension may be split only if a collective can combine the partial results: by one
reduction, with inits that change nothing if they are counted once per device.

`search_kind` recognizes reductions that find the index of the largest element, or of the smallest:

    values, places = reduce (x, iota) by
      %p = %a > %b or %a is no number
      select(%p, %a, %b), select(%p or %a == %b and %i < %j, %i, %j)

`combiner` reads the reduction in a region that combines two elements.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.reductions import is_identity, reduction_with_identity
from shard_dialect.ir.scalar_expressions import Term, commuted, yielded_terms
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import Reduction, ShardingRule, Windows
from shard_dialect.ops.factors import Factors, Kind, Query
from shard_dialect.ops.op_record import OpRecord
from shard_dialect.ops.padding import identities
from shard_dialect.ops.partial_values import reduces
from shard_dialect.ops.partitioned_op import PartitionedOp
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.ops.stablehlo import arithmetic
from shard_dialect.ops.stablehlo.attribute_reading import integers, windows_over, write_padding
from shard_dialect.ops.stablehlo.facets import expansion, python, sample
from shard_dialect.ops.window_shards import WindowDimension, keep_part, padding_of

_SMALLER_INDEX: dict[Literal["max", "min"], Term] = {
    "max": ("lt", "b", "a"),
    "min": ("lt", "a", "b"),
}
"""The condition for `a`, of two elements `a` and `b`, to be found."""


def search_kind(op: ir.Operation) -> Literal["max", "min"] | None:
    """Whether the reduction finds the first largest element, or the first smallest.

    NaN precedes all numbers, as in numpy and torch. `None` for other reductions.
    """
    if len(op.operands) != 4:
        return None
    element = op.operands[0].type.element_type
    joined = yielded_terms(body(op), ("a", "i", "b", "j"))
    for kind, is_found in _SMALLER_INDEX.items():
        if joined == _searching(is_found, is_float=isinstance(element, ir.FloatType)):
            return kind
    return None


def is_choice(op: ir.Operation) -> bool:
    """Whether the reduction chooses one of two rows of elements, by comparing the first of each.

    Choosing among shards, and then among the chosen, finds the same unless there are NaNs, among
    which StableHLO leaves open what is found.
    """
    if search_kind(op) is not None:
        return True
    ours, others = ([f"{side}{n}" for n in range(len(op.results))] for side in "ab")
    joined = yielded_terms(body(op), (*ours, *others))
    firsts = (ours[0], others[0])
    return any(
        joined == tuple(("select", (order, *by), a, b) for a, b in zip(ours, others, strict=True))
        for order in ("lt", "le")
        for by in (firsts, firsts[::-1])
    )


def _searching(is_found: Term, *, is_float: bool) -> tuple[Term, Term]:
    """The result of JAX's argmax or argmin for elements `a` and `b` at indices `i` and `j`."""
    if is_float:
        is_found = commuted("or", is_found, ("ne", "a", "a"))
    is_earlier = commuted("and", ("eq", "a", "b"), ("lt", "i", "j"))
    return (
        ("select", is_found, "a", "b"),
        ("select", commuted("or", is_found, is_earlier), "i", "j"),
    )


_COMBINERS: dict[str, Reduction] = {
    "stablehlo.add": "sum",
    "stablehlo.multiply": "product",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
}
_OF_BITS: dict[str, Reduction] = {
    "stablehlo.and": "bitwise_and",
    "stablehlo.or": "bitwise_or",
    "stablehlo.xor": "bitwise_xor",
}
_OF_ONE_BIT: dict[str, Reduction] = {
    "stablehlo.add": "bitwise_or",
    "stablehlo.multiply": "bitwise_and",
    "stablehlo.maximum": "bitwise_or",
    "stablehlo.minimum": "bitwise_and",
}
_REPEATABLE = ("max", "min", "bitwise_and", "bitwise_or")
"""Idempotent kinds: combining twice with the same element changes nothing."""


def combiner(op: ir.Operation, count: int, region: int = 0) -> Reduction | None:
    """The reduction by which a region combines each of its first `count` arguments with its pair.

    `None` if the region computes something else, or combines pairs by different reductions.
    """
    block = op.regions[region].blocks[0]
    returned = list(operations(block)[-1].operands)
    arguments = list(block.arguments)
    reductions = {
        _joining(value, pair)
        for value, pair in zip(
            returned, zip(arguments, arguments[count:], strict=False), strict=True
        )
    }
    return reductions.pop() if len(reductions) == 1 else None


def _joining(value: ir.Value, pair: tuple[ir.Value, ir.Value]) -> Reduction | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or list(owner.operation.operands) not in (
        list(pair),
        list(reversed(pair)),
    ):
        return None
    name, element = owner.operation.name, value.type.element_type
    if isinstance(element, ir.IntegerType):
        reduction = _OF_BITS.get(name) or (_OF_ONE_BIT.get(name) if element.width == 1 else None)
        if reduction is not None:
            return reduction
    if isinstance(element, ir.ComplexType) and name in ("stablehlo.maximum", "stablehlo.minimum"):
        return None  # StableHLO compares the real parts first
    return _COMBINERS.get(name) if is_additive(element) else None


def is_additive(element: ir.Type) -> bool:
    """Whether partial sums add up to the sum: not for i1, whose addition is `or`."""
    if isinstance(element, ir.IntegerType):
        return element.width > 1
    return isinstance(element, (ir.FloatType, ir.ComplexType))


def may_repeat_inits(kind: Reduction, inits: Iterable[ir.Value]) -> bool:
    """Whether `kind` still combines partial results if every device starts from `inits`."""
    return kind in _REPEATABLE or all(is_identity(kind, init) for init in inits)


def reduce(query: Query) -> ShardingRule | None:
    """The rule of `reduce(inputs, inits)`: each input has a scalar init, and a result."""
    factors = Factors(query)
    count = len(factors.results)
    gone = integers(query.op, "dimensions")
    joined = combiner(query.op, count)
    inits = list(query.op.operands)[count:]
    kind: Kind = joined if joined and may_repeat_inits(joined, inits) else "need_replication"
    kept = 0
    for dim, size in enumerate(factors.operands[0]):
        if dim in gone:
            factors.add(size, (dim,) * count, (), kind)
        else:
            factors.add(size, (dim,) * count, (kept,) * count)
            kept += 1
    return factors.rule()


def reduce_window(query: Query) -> ShardingRule | None:
    """Dimensions with windows are permuted, and read in windows.

    Beyond the ends of the operand windows read the init, and a halo has an identity of some
    reduction in its place. An init that changes a sum keeps the windows whole: XLA counts it once
    in each, and StableHLO once more for each element of padding.
    """
    factors = Factors(query)
    count = len(factors.results)
    joined = combiner(query.op, count)

    def fill(init: ir.Value) -> Reduction | None:
        if joined is None:
            return reduction_with_identity(init)
        return joined if may_repeat_inits(joined, [init]) else None

    fills = [fill(init) for init in list(query.op.operands)[count:]]
    for dim, along in enumerate(windows_over(query.op)):
        size, result_size = factors.operands[0][dim], factors.results[0][dim]
        if along.are_elements:
            factors.add_to_all(dim, result_size)
        else:
            read = [along.over(size, result_size, fill) for fill in fills]
            windows = [] if None in read else read
            factors.add_to_all(dim, result_size, "permuted", windows=windows)
    return factors.rule()


def partition_reduce_window(partitioned: PartitionedOp) -> None:
    """Set the padding of a shard; where the dimension is split, halos hold the padding."""
    padding = [
        padding_of(partitioned, dim, (along.low, along.high))
        for dim, along in enumerate(windows_over(partitioned.op))
    ]
    write_padding(partitioned.op, padding)


SELECT, SCATTER = range(2)
"""The numbers of `select_and_scatter`'s regions."""


def select_and_scatter(query: Query) -> ShardingRule | None:
    """Windows that divide a dimension, as those of most pooling, are split with it.

    Other windows overlap, or end before the dimension does. An element of the result reads the
    source of each window that it is in, and all elements of these windows:

        windows of 3, moved by 2     result 4 reads windows 1 (2 to 4) and 2 (4 to 6)

    Padded windows are whole: no element outside of the tensor may be selected, and no content is
    sure not to be.
    """
    factors = Factors(query)
    operand, source = factors.operands[:2]
    joined = combiner(query.op, 1, SCATTER)
    for dim, along in enumerate(windows_over(query.op)):
        size, windows = operand[dim], source[dim]
        if along.are_elements:
            factors.add_to_all(dim, size)
        elif along.divide(size, windows):
            factors.add(windows, (dim, dim), (dim,))
            factors.add(along.stride, (dim,), (dim,), "need_replication")
        elif along.is_padded or joined is None or windows == 0:
            factors.add(windows, (None, dim), (), "need_replication")
            factors.add(size, (dim,), (dim,), "permuted")
        else:
            reach = _reach(along)
            read = Windows(size, size, 1, 2 * reach + 1, reach, period=along.stride)
            added = Windows(windows, size, 1, reach + 1, reach, along.stride, joined)
            factors.add_to_all(dim, size, "permuted", windows=[read, added])
    return factors.rule()


def chooses_by_order(op: ir.Operation) -> bool:
    """Whether a `select_and_scatter` compares elements, and adds to zeros."""
    block = op.regions[SELECT].blocks[0]
    names = [each.operation.name for each in block.operations]
    if names != ["stablehlo.compare", "stablehlo.return"]:
        return False
    compare, end = (each.operation for each in block.operations)
    direction = hlo.direction_of(compare)
    is_order = direction in ("GE", "GT", "LE", "LT") and end.operands[0] == compare.results[0]
    are_elements = {*compare.operands} == {*block.arguments}
    is_sum = combiner(op, 1, SCATTER) == "sum" and is_identity("sum", op.operands[2])
    return is_order and are_elements and is_sum


def _reach(along: WindowDimension) -> int:
    """How far around an element a device reads, so that some window begins at or before it."""
    return max(along.extent, along.stride) - 1


def partition_select_and_scatter(partitioned: PartitionedOp) -> None:
    """Begin where the first window does that the device has the source of, and end where it does.

    What is read begins `reach` before the shard, and the first window `lead` after that:

        operand   . . . . . . . .       read for a shard of 4: windows of 3, moved by 2
        windows     0-2 2-4 4-6         lead 1
        result        . . . .
    """
    op, shard = partitioned.op, partitioned.result
    for window in partitioned.rule.windows:
        devices, along = shard.devices[window.dim], windows_over(op)[window.dim]
        if window.operand != 1 or devices == 1:
            continue
        reading = window.windows.reading(devices)
        assert reading is not None, "a dimension that is split has a reading"
        dim, (operand, result) = window.dim, (op.operands[0], op.results[0])
        before = _reach(along) - reading.lead
        spanned = (reading.count - 1) * along.stride + along.extent
        size = max(spanned, before + result.type.shape[dim])
        with ir.InsertionPoint(op), op.location:
            op.operands[0] = build.extract_slice(operand, reading.lead, size, dim)
        with ir.InsertionPoint.after(op), op.location:
            keep_part(result, dim, size, before)


RECORDS: dict[str, OpRecord] = {
    "reduce": OpRecord(
        reduce,
        padding=identities,
        partial=reduces,
        lowering=expansion("upstream_workarounds:reduce"),
        operations=arithmetic.reduce,
        python=python("reduce"),
        traits=Trait.BY_NEIGHBOURS,
    ),
    "reduce_window": OpRecord(
        reduce_window,
        sample=sample("reduce_window"),
        partition=partition_reduce_window,
        lowering=expansion("running_windows:reduce_window"),
        operations=arithmetic.reduce_window,
        python=python("reduce_window"),
        traits=Trait.BY_NEIGHBOURS,
    ),
    "select_and_scatter": OpRecord(
        select_and_scatter,
        sample=sample("select_and_scatter"),
        partition=partition_select_and_scatter,
        lowering=expansion("gather_scatter_loops:keep"),
        loops=expansion("gather_scatter_loops:select_and_scatter"),
        operations=arithmetic.select_and_scatter,
        python=python("select_and_scatter"),
        traits=Trait.STEEP | Trait.BY_NEIGHBOURS,
    ),
}
