"""Emit StableHLO's `gather` and `scatter`: one index array per dimension that is read or written.

    start = np.clip(ids[:, 0], 0, 99).reshape(8, 1)
    gather = table[start, np.arange(16).reshape(1, 16)]

where the shapes of the indices broadcast to the shape of the slices.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from shard_dialect.backends.python.element_types import is_flipped
from shard_dialect.backends.python.writer import Writer
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.walk import body, operations
from shard_dialect.ops.stablehlo.gather_scatter import Numbers
from shard_dialect.ops.stablehlo.reduction_rules import combiner

_AT = {"sum": "add", "product": "multiply", "max": "maximum", "min": "minimum"}
"""The ufunc that combines elements at positions, in numpy."""
_REDUCED = {"product": "prod", "max": "amax", "min": "amin"}
"""The same in torch, but for sums."""


def gather(w: Writer, op: ir.Operation) -> None:
    """Write a gather as advanced indexing."""
    operand, indices = op.operands
    dims, shape = Numbers.of_gather(op), list(op.results[0].type.shape)
    lengths = list(op.attributes["slice_sizes"])
    lasts = [size - length for size, length in zip(operand.type.shape, lengths, strict=True)]
    index_texts = _index_texts(w, op, dims, indices, shape, lasts)
    text = f"{w.use(operand)}[{', '.join(index_texts) or '()'}]"
    w.define(op.results[0], w.broadcast(text, shape) if _misses(dims, shape, indices) else text)


def scatter(w: Writer, op: ir.Operation) -> None:
    """Write a scatter as an update by advanced indexing."""
    if len(op.operands) != 3:
        raise w.refuse(op, "of several tensors at once")
    operand, indices, updates = op.operands
    dims, shape = Numbers.of_scatter(op), list(updates.type.shape)
    kind = combiner(op, 1)
    replaces = list(operations(body(op))[-1].operands) == [body(op).arguments[1]]
    if not replaces and kind not in _AT:
        raise w.refuse(op, "its body combines elements by none of the known reductions")
    if w.is_torch and kind in ("max", "min") and is_flipped(operand.type.element_type):
        raise w.refuse(op, "of unsigned integers")
    index_texts = _index_texts(w, op, dims, indices, shape, None)
    result = w.name(op.results[0], "scattered")
    w.line(f"{result} = {w.fresh(operand)}")
    at, values = w.names.new("at"), w.use(updates)
    wide = ", ".join(w.broadcast(each, shape) for each in index_texts)
    w.line(f"{at} = [{wide}]")
    sizes = list(operand.type.shape)
    checks = [
        f"({at}[{dim}] >= 0) & ({at}[{dim}] < {sizes[dim]})" for dim in sorted(set(dims.indexed))
    ]
    if checks:
        inside = w.names.new("inside")
        for number, check in enumerate(checks):
            w.line(f"{inside} {'&=' if number else '='} {check}")
        w.line(f"{at} = [each[{inside}] for each in {at}]")
        values = f"{values}[{inside}]"
    if replaces:
        w.line(f"{result}[tuple({at})] = {values}")
    elif w.is_torch and kind == "sum":
        w.line(f"{result}.index_put_(tuple({at}), {values}, accumulate=True)")
    elif w.is_torch:
        strides = [prod(sizes[dim + 1 :]) for dim in range(len(sizes))]
        flat = " + ".join(f"{at}[{dim}] * {stride}" for dim, stride in enumerate(strides))
        line = w.names.new("line")
        w.line(f"{line} = {result}.reshape(-1)")
        w.line(
            f"{line}.scatter_reduce_(0, ({flat}).reshape(-1), {values}.reshape(-1), "
            f'"{_REDUCED[str(kind)]}")'
        )
        w.line(f"{result} = {line}.reshape({sizes})")
    else:
        w.line(f"np.{_AT[str(kind)]}.at({result}, tuple({at}), {values})")


def _misses(dims: Numbers, shape: Sequence[int], indices: ir.Value) -> bool:
    """Whether the indices leave a dimension out: it is sliced, and no index gives its start."""
    batches = dims.batches(tuple(shape), tuple(indices.type.shape))
    return not dims.indexed and any(of is None for of, _ in batches.values())


def _index_texts(
    w: Writer,
    op: ir.Operation,
    dims: Numbers,
    indices: ir.Value,
    shape: Sequence[int],
    lasts: Sequence[int] | None,
) -> list[str]:
    """For each dimension of the operand, the indices of the slices' elements.

    The starts of slices are clamped to 0 and `lasts`.
    """
    rank = op.operands[0].type.rank
    if not rank:
        raise w.refuse(op, "of a tensor without dimensions")
    batches = dims.batches(tuple(shape), tuple(indices.type.shape))
    along = {of: dim for dim, of in dims.windows(rank).items()}
    along |= {of: dim for dim, (of, _) in batches.items() if of is not None}
    texts = []
    for of in range(rank):
        begin = ""
        if of in dims.indexed:
            last = None if lasts is None else lasts[of]
            begin = w.names.new("start")
            text = _shaped(_start(w, dims, indices, of, last), batches, shape)
            w.line(f"{begin} = {text}")
        if of in along and (shape[along[of]] > 1 or not begin):
            count = w.pick("np.arange({})", "torch.arange({}, device=device)")
            offsets = _shaped(count.format(shape[along[of]]), [along[of]], shape)
            begin = f"{begin} + {offsets}" if begin else offsets
        texts.append(begin or w.pick("0", "torch.tensor(0, device=device)"))
    return texts


def _start(w: Writer, dims: Numbers, indices: ir.Value, of: int, last: int | None) -> str:
    text = w.use(indices)
    if dims.index_vector < indices.type.rank:
        at = [":"] * indices.type.rank
        at[dims.index_vector] = str(list(dims.indexed).index(of))
        text = f"{text}[{', '.join(at)}]"
    if w.is_torch:
        text = f"{text}.to(torch.int64)"
    return text if last is None else f"{w.module}.clip({text}, 0, {last})"


def _shaped(text: str, kept: Collection[int], shape: Sequence[int]) -> str:
    """Reshape to keep these dimensions, with size 1 along the others."""
    sizes = [size if dim in kept else 1 for dim, size in enumerate(shape)]
    return text if len(kept) == len(shape) else f"{text}.reshape({', '.join(map(str, sizes))})"
