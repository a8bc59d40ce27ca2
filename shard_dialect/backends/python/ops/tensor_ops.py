"""Emit `tensor` ops: slices, shapes, and new tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from shard_dialect.backends.python.writer import Writer
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.attributes import DYNAMIC
from shard_dialect.ir.walk import operations


def empty(w: Writer, op: ir.Operation) -> None:
    """Write a new tensor."""
    type_ = op.results[0].type
    if type_.has_static_shape:
        w.values[op.results[0]] = w.full(type_, "0", op.location)
        return
    sizes = iter(w.uses(op))
    shape = [next(sizes) if each == DYNAMIC else str(each) for each in type_.shape]
    text = (
        f"{w.module}.zeros([{', '.join(shape)}], dtype={w.dtype(type_.element_type, op.location)}"
    )
    w.values[op.results[0]] = text + w.pick(")", ", device=device)")


def extract(w: Writer, op: ir.Operation) -> None:
    """Write a read of one element."""
    x, *indices = w.uses(op)
    w.define(op.results[0], f"{x}[{', '.join(indices)}]" if indices else f"{x}[()]", "element")


def insert(w: Writer, op: ir.Operation) -> None:
    """Write a copy of a tensor with one element replaced."""
    element, _, *indices = [w.values[each] for each in op.operands]
    w.define(op.results[0], w.fresh(op.operands[1]), "inserted")
    w.line(f"{w.use(op.results[0])}[{', '.join(indices) or '()'}] = {element}")


def _ranges(w: Writer, op: ir.Operation, first: int) -> str:
    """An index from offsets, sizes and strides. Dynamic ones are the operands from `first` on."""
    operands = iter([w.use(each) for each in list(op.operands)[first:]])
    lists = []
    for name in ("static_offsets", "static_sizes", "static_strides"):
        lists.append([next(operands) if each == DYNAMIC else each for each in op.attributes[name]])
    return ", ".join(_range(*each) for each in zip(*lists, strict=True)) or "()"


def _range(offset: int | str, size: int | str, stride: int | str) -> str:
    if isinstance(offset, int) and isinstance(size, int) and isinstance(stride, int):
        end: int | str = offset + (size - 1) * stride + 1
    else:
        length = size if stride == 1 else f"({size} - 1) * {stride} + 1"
        end = f"{offset} + {length}"
        return f"{offset} : {end}" if stride == 1 else f"{offset} : {end} : {stride}"
    return f"{offset}:{end}" if stride == 1 else f"{offset}:{end}:{stride}"


def extract_slice(w: Writer, op: ir.Operation) -> None:
    """Write a slice."""
    text = f"{w.use(op.operands[0])}[{_ranges(w, op, 1)}]"
    w.define(op.results[0], _shaped(op, text), "part")


def _shaped(op: ir.Operation, text: str) -> str:
    """Reshape where a dimension of size one is dropped."""
    type_ = op.results[0].type
    if len(op.attributes["static_sizes"]) == len(type_.shape):
        return text
    return f"{text}.reshape({_sizes(type_.shape)})"


def insert_slice(w: Writer, op: ir.Operation) -> None:
    """Write a copy of a tensor with a slice replaced."""
    w.define(op.results[0], w.fresh(op.operands[1]), "inserted")
    write_slice(w, op, w.use(op.results[0]))


def write_slice(w: Writer, op: ir.Operation, into: str) -> None:
    """Write the assignment of the first operand to a slice."""
    inserted = w.use(op.operands[0])
    sizes = list(op.attributes["static_sizes"])
    if len(sizes) != len(op.operands[0].type.shape):
        inserted = f"{inserted}.reshape({_sizes(sizes)})"
    w.line(f"{into}[{_ranges(w, op, 2)}] = {inserted}")


def _sizes(shape: Sequence[int]) -> str:
    return ", ".join(map(str, shape)) or "()"


def reshape(w: Writer, op: ir.Operation) -> None:
    """Write a reshape."""
    shape = op.results[0].type.shape
    w.define(op.results[0], f"{w.use(op.operands[0])}.reshape({_sizes(shape)})", "reshaped")


def same(w: Writer, op: ir.Operation) -> None:
    """Let each result be its operand."""
    for result, operand in zip(op.results, op.operands, strict=True):
        w.values[result] = w.use(operand)


def concat(w: Writer, op: ir.Operation) -> None:
    """Write a concatenation."""
    name = "dim" if op.name == "tensor.concat" else "dimension"
    joined(w, op, op.attributes[name].value)


def joined(w: Writer, op: ir.Operation, dim: int) -> None:
    """Write a concatenation along `dim`."""
    text = ", ".join(w.uses(op))
    function = w.pick("np.concatenate", "torch.cat")
    w.define(op.results[0], f"{function}([{text}], {dim})", "joined")


def splat(w: Writer, op: ir.Operation) -> None:
    """Write a tensor of one number."""
    (x,) = op.operands
    text = w.scalar(w.use(x), x.type, op.location) if w.is_python(x.type) else w.use(x)
    w.define(op.results[0], w.broadcast(text, op.results[0].type.shape))


def from_elements(w: Writer, op: ir.Operation) -> None:
    """Write a tensor of these elements."""
    type_ = op.results[0].type
    dtype = w.dtype(type_.element_type, op.location)
    elements = ", ".join(w.uses(op))
    if w.is_torch and not w.is_python(op.operands[0].type):
        text = f"torch.stack([{elements}])"
    else:
        text = w.pick(
            f"np.array([{elements}], {dtype})", f"torch.tensor([{elements}], device=device)"
        )
    if prod(type_.shape) != len(op.operands) or len(type_.shape) != 1:
        text = f"{text}.reshape({_sizes(type_.shape)})"
    w.define(op.results[0], text, "elements")


def dim(w: Writer, op: ir.Operation) -> None:
    """Write the size of a dimension."""
    x, number = w.uses(op)
    w.define(op.results[0], f"{x}.shape[{number}]", "size")


def pad(w: Writer, op: ir.Operation) -> None:
    """Write a padding by one number."""
    last = operations(op.regions[0].blocks[0])[-1]
    low, high = (list(op.attributes[f"static_{name}"]) for name in ("low", "high"))
    if DYNAMIC in (*low, *high) or last.operands[0] not in w.values:
        raise w.refuse(op, "it pads with what is computed for each place, or by unknown sizes")
    padded(w, op, low, w.literals.get(last.operands[0]) or w.use(last.operands[0]))


def padded(
    w: Writer, op: ir.Operation, low: Sequence[int], number: str, holes: Sequence[int] = ()
) -> None:
    """Write the op's result: the first operand, padded as by `fill_in`."""
    type_ = op.results[0].type
    w.define(op.results[0], w.full(type_, number, op.location), "padded")
    result, operand = w.use(op.results[0]), op.operands[0]
    fill_in(w, result, type_.shape, w.use(operand), operand.type.shape, low, holes)


def fill_in(
    w: Writer,
    wide: str,
    wide_shape: Sequence[int],
    x: str,
    shape: Sequence[int],
    low: Sequence[int],
    holes: Sequence[int] = (),
) -> None:
    """Write the elements of `x` into the tensor `wide`, from the position `low` on.

    Between elements along a dimension are as many `holes`; those outside of `wide` are left out.
    """
    into, out_of = [], []
    rows = zip(low, holes or [0] * len(low), shape, wide_shape, strict=True)
    for at, between, size, room in rows:
        step = between + 1
        first = max(0, -(at // step))
        end = max(first, min(size, -((at - room) // step)))
        begin, until = at + first * step, at + (end - 1) * step + 1
        into.append(f"{begin}:{max(begin, until)}" + (f":{step}" if step > 1 else ""))
        out_of.append(":" if (first, end) == (0, size) else f"{first}:{end}")
    part = "" if set(out_of) <= {":"} else f"[{', '.join(out_of)}]"
    w.line(f"{wide}[{', '.join(into) or '()'}] = {x}{part}")
