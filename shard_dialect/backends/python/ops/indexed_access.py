"""Emit StableHLO's `gather` and `scatter`: one index array per dimension that is read or written.

    start = np.clip(ids[:, 0], 0, 99).reshape(8, 1)
    gather = table[start, np.arange(16).reshape(1, 16)]

where the shapes of the indices broadcast to the shape of the slices.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from shard_dialect.backends.python.element_types import is_flipped
from shard_dialect.backends.python.ops import elementwise
from shard_dialect.backends.python.writer import Writer
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.walk import body, operations
from shard_dialect.ops.stablehlo.gather_scatter import Numbers
from shard_dialect.ops.stablehlo.reduction_rules import combiner

_AT = {"sum": "add", "product": "multiply", "max": "maximum", "min": "minimum"}
"""The ufunc that combines elements at positions, in numpy."""
_OF_PAIRS = {
    "add": ("add", "add"),
    "mul": ("multiply", "mul"),
    "max": ("maximum", "maximum"),
    "min": ("minimum", "minimum"),
}
"""The functions of two tensors, in numpy and in torch."""
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
    count = len(op.results)
    operand, indices, updates = (op.operands[number] for number in (0, count, count + 1))
    dims, shape = Numbers.of_scatter(op), list(updates.type.shape)
    kind = combiner(op, 1) if count == 1 else None
    replaces = list(operations(body(op))[-1].operands) == [body(op).arguments[1]]
    is_flat = w.is_torch and kind in ("max", "min") and is_flipped(operand.type.element_type)
    is_joined = count > 1 or is_flat or not (replaces or kind in _AT)
    index_texts = _index_texts(w, op, dims, indices, shape, None)
    if not is_joined:
        result = w.name(op.results[0], "scattered")
        w.line(f"{result} = {w.fresh(operand)}")
    at, values = w.names.new("at"), w.use(updates)
    wide = ", ".join(w.broadcast(each, shape) for each in index_texts)
    w.line(f"{at} = [{wide}]")
    sizes = list(operand.type.shape)
    strides = [prod(sizes[dim + 1 :]) for dim in range(len(sizes))]
    flat = " + ".join(f"{at}[{dim}] * {stride}" for dim, stride in enumerate(strides))
    checks = [
        f"({at}[{dim}] >= 0) & ({at}[{dim}] < {sizes[dim]})" for dim in sorted(set(dims.indexed))
    ]
    inside = w.names.new("inside") if checks else ""
    for number, check in enumerate(checks):
        w.line(f"{inside} {'&=' if number else '='} {check}")
    if w.is_torch and not is_joined:
        _put_on_a_line(
            w,
            result,
            flat or f"torch.zeros_like({values}, dtype=torch.int64)",
            inside,
            values,
            sizes,
            "" if replaces else str(kind),
        )
        return
    part = f"[{inside}]" if checks else ""
    if checks:
        w.line(f"{at} = [each{part} for each in {at}]")
        values = f"{values}{part}"
    if is_joined:
        join = joining(w, op, body(op), operand.type.element_type)
        olds, updated = (list(map(w.use, each)) for each in _sides(op))
        parts, news = ", ".join(olds), ", ".join(f"{each}{part}" for each in updated)
        line = w.kept("line", flat)
        text = f"joined_at({join}, [{parts}], {line}, [{news}])"
        w.define_all(op.results, text, "scattered")
    elif replaces:
        w.line(f"{result}[tuple({at})] = {values}")
    else:
        w.line(f"np.{_AT[str(kind)]}.at({result}, tuple({at}), {values})")


def _put_on_a_line(
    w: Writer, result: str, flat: str, inside: str, values: str, sizes: Sequence[int], kind: str
) -> None:
    """Write values to the places `flat` of a tensor; without `kind` they replace what is there.

    Those that are not inside go to one more place: to leave them out, the host would have to know
    how many there are.
    """
    line, places = w.names.new("line"), w.kept("places", f"({flat}).reshape(-1)")
    w.line(f"{line} = {result}.reshape(-1)")
    if inside:
        w.line(f"{line} = torch.cat([{line}, {line}.new_zeros(1)])")
        w.line(f"{places} = torch.where({inside}.reshape(-1), {places}, {prod(sizes)})")
    values = f"{values}.reshape(-1)"
    if kind in ("", "sum"):
        how = f", accumulate={bool(kind)}" if kind else ""
        w.line(f"{line}.index_put_(({places},), {values}{how})")
    else:
        w.line(f'{line}.scatter_reduce_(0, {places}, {values}, "{_REDUCED[kind]}")')
    w.line(f"{result} = {line}{'[:-1]' if inside else ''}.reshape({list(sizes)})")


def _sides(op: ir.Operation) -> tuple[list[ir.Value], list[ir.Value]]:
    """The tensors of a scatter, and the updates of each."""
    operands, count = list(op.operands), len(op.results)
    return operands[:count], operands[count + 1 :]


def joining(w: Writer, op: ir.Operation, block: ir.Block, element: ir.Type) -> str:
    """The function that a body is: the library's, if it has it, or one of its own."""
    inside = operations(block)[:-1]
    kind = elementwise.function_of(inside[0]) if len(inside) == 1 else ""
    is_it = kind and list(inside[0].operands) == list(block.arguments)
    if is_it and kind in _OF_PAIRS and not is_flipped(element) and str(element) != "i1":
        return f"{w.module}.{_OF_PAIRS[kind][w.is_torch]}"
    return elementwise.function(w, op, block, "joined_pair")


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
