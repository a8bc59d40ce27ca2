"""Emit collectives of the local form: each is a call of a helper that is written into the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from shard_dialect.emit.element_types import element_of, is_complex, is_flipped
from shard_dialect.emit.ops import accumulation, tensor_ops
from shard_dialect.emit.ops.conversions import converted
from shard_dialect.emit.writer import Writer
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import reductions
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.shard.local_collectives import LocalStep, read_local
from shard_dialect.model import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    Mask,
    Permute,
    ReduceScatter,
    Reduction,
    UpdateHalo,
)
from shard_dialect.model.axis import full_axis
from shard_dialect.model.point_to_point import Receive, Send
from shard_dialect.model.rooted_collectives import (
    Broadcast,
    Gather,
    Index,
    Reduce,
    Scatter,
    Shift,
    flat_index,
)

_NAMES = {
    AllGather: "gathered",
    AllSlice: "shard",
    AllReduce: "reduced",
    ReduceScatter: "scattered",
    AllToAll: "exchanged",
    Permute: "passed",
    UpdateHalo: "widened",
    Mask: "masked",
    Broadcast: "shared",
    Gather: "gathered",
    Scatter: "shard",
    Reduce: "reduced",
    Shift: "shifted",
    Receive: "received",
}
"""The names of results."""
_OPERATIONS = {
    "sum": ("MPI.SUM", "dist.ReduceOp.SUM"),
    "product": ("MPI.PROD", "dist.ReduceOp.PRODUCT"),
    "max": ("MPI.MAX", "dist.ReduceOp.MAX"),
    "min": ("MPI.MIN", "dist.ReduceOp.MIN"),
    "bitwise_and": ("MPI.BAND", ""),
    "bitwise_or": ("MPI.BOR", ""),
    "bitwise_xor": ("MPI.BXOR", ""),
}
"""MPI's and torch's names of the reductions that they have."""
_JOINS = {
    "sum": ("np.add", "torch.add"),
    "product": ("np.multiply", "torch.mul"),
    "max": ("np.maximum", "torch.maximum"),
    "min": ("np.minimum", "torch.minimum"),
    **{
        f"bitwise_{each}": (f"np.bitwise_{each}", f"torch.bitwise_{each}")
        for each in ("and", "or", "xor")
    },
}
"""The functions that join two tensors, where devices exchange parts and join these themselves."""
_REDUCED = {
    "mpi4py": "i8 i16 i32 i64 index ui8 ui16 ui32 ui64".split(),
    "torch": "i8 i32 i64 index ui8 ui32 ui64".split(),
}
"""The integers that the target itself reduces: neither gloo nor NCCL have all that torch has."""
_ADDED = {
    "mpi4py": "f32 f64 complex<f32> complex<f64>".split(),
    "torch": "f32 f64".split(),
}
"""The other elements that it adds and multiplies as MLIR does. Its maximum of a number and a NaN
may be either, and it would round sums of 16 bits more than once."""


@dataclass(frozen=True)
class _Call:
    """The call of a helper for a collective on `x`, in a group with these sizes along its axes."""

    w: Writer
    op: ir.Operation
    x: str
    group: str
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, w: Writer, op: ir.Operation, grid: str, step: LocalStep) -> _Call:
        """Build the call for a step."""
        element = op.operands[0].type.element_type
        x, result_element = w.use(op.operands[0]), op.results[0].type.element_type
        if element != result_element:  # a reduction to a wider type
            x = converted(w, x, element, result_element, op, is_unsigned_op=False)
        axes = tuple(map(full_axis, step.axes))
        sizes = w.grids[grid].sizes_along(axes)
        return cls(w, op, x, w.group(grid, axes), sizes)

    def __call__(self, name: str, *arguments: object) -> str:
        return f"{name}({', '.join([self.x, self.group, *map(str, arguments)])})"

    def reduced(self, name: str, reduction: Reduction, *arguments: object) -> str:
        """The same for a reduction: with the op that joins two elements, unless it is a sum."""
        element = self.op.results[0].type.element_type
        is_bit, is_bitwise = str(element) == "i1", reduction.startswith("bitwise")
        if is_bit and not is_bitwise:
            raise self.w.refuse(self.op, f"a reduction {reduction} of elements of type i1")
        if reduction == "average" and isinstance(element, ir.FloatType):
            return self._average(name, arguments, element)
        if reduction not in _JOINS or (is_complex(element) and reduction in ("max", "min")):
            raise self.w.refuse(self.op, f"of the reduction {reduction}")
        if not self._is_known(reduction, element):
            join = _JOINS[reduction][self.w.is_torch]
            if self.w.is_torch and is_flipped(element) and reduction in ("max", "min"):
                join = join.replace("torch.", "unsigned_")
            arguments = (*arguments, join)
            name = f"{name}_by"
        elif reduction != "sum":
            arguments = (*arguments, _OPERATIONS[reduction][self.w.is_torch])
        return self(name, *arguments)

    def _average(self, name: str, arguments: tuple[object, ...], element: ir.Type) -> str:
        wide = replace(self, x=accumulation.widened(self.w, self.x, element))
        text = f"{self.w.kept('total', wide(name, *arguments))} / {self.group}.size"
        return accumulation.narrowed(self.w, text, element, self.op)

    def _is_known(self, reduction: Reduction, element: ir.Type) -> bool:
        """Whether the target itself reduces elements as MLIR does."""
        if not _OPERATIONS[reduction][self.w.is_torch]:
            return False
        name, target = str(element), self.w.target
        adds = reduction in ("sum", "product")
        known = [*_REDUCED[target], *_ADDED[target]] if adds else _REDUCED[target]
        return name in known and (adds or not self.w.is_torch or not is_flipped(element))

    def member(self, index: Index) -> int:
        """The position in the group of the member with this index along each axis."""
        return flat_index(index, self.sizes)


def collective(w: Writer, op: ir.Operation) -> None:
    """Write a collective as the call of its helper."""
    grid, step = _read(op)
    call = _Call.of(w, op, grid, step)
    w.define(op.results[0], _CALLS[type(step)](call, step), _NAMES[type(step)])


def send(w: Writer, op: ir.Operation) -> None:
    """Write a send as a statement; the op's result is its operand."""
    grid, step = _read(op)
    assert isinstance(step, Send), "its name says so"
    call = _Call.of(w, op, grid, step)
    w.line(call("send", call.member(step.destination)))
    w.values[op.results[0]] = call.x


def _read(op: ir.Operation) -> tuple[str, LocalStep]:
    try:
        read = read_local(op.name, op.attributes)
    except ShardError as error:
        raise error_at(op.location, f"'{op.name}' op {error.message}") from None
    assert read is not None, "only ops of the tables come here"
    return read


def _mask(call: _Call, step: Mask) -> str:
    element = element_of(call.op.operands[0].type)
    if is_complex(element):
        return call("mask", call.w.number(complex(step.reduction == "product"), element))
    number = reductions.identity(step.reduction, element).value
    return call("mask", call.w.number(number, element))


def _shift(call: _Call, step: Shift) -> str:
    partners = [step.partners(member, call.sizes) for member in range(prod(call.sizes))]
    return call("permute", [-1 if to is None else to for to, _ in partners])


def _receive(call: _Call, step: Receive) -> str:
    return call("receive", *([] if step.source is None else [call.member(step.source)]))


_CALLS: dict[type, Callable[[_Call, Any], str]] = {
    AllGather: lambda call, s: call("all_gather", s.dim),
    AllSlice: lambda call, s: call("all_slice", s.dim),
    AllReduce: lambda call, s: call.reduced("all_reduce", s.reduction),
    ReduceScatter: lambda call, s: call.reduced("reduce_scatter", s.reduction, s.dim),
    AllToAll: lambda call, s: call("all_to_all", s.target_dim, s.source_dim),
    Permute: lambda call, s: call("permute", list(s.permutation)),
    UpdateHalo: lambda call, s: call("update_halo", s.dim, s.low, s.high),
    Mask: _mask,
    Broadcast: lambda call, s: call("broadcast_from", call.member(s.root)),
    Gather: lambda call, s: call("gather_to", s.dim, call.member(s.root)),
    Scatter: lambda call, s: call("scatter_from", s.dim, call.member(s.root)),
    Reduce: lambda call, s: call.reduced("reduce_to", s.reduction, call.member(s.root)),
    Shift: _shift,
    Receive: _receive,
}


def rank(w: Writer, op: ir.Operation) -> None:
    """Write this device's rank."""
    w.values[op.results[0]] = "rank"


TABLE: dict[str, Callable[[Writer, ir.Operation], None]] = {
    **dict.fromkeys(
        (
            "shard.all_gather",
            "shard.all_slice",
            "shard.all_reduce",
            "shard.reduce_scatter",
            "shard.all_to_all",
            "shard.update_halo",
            "shard.broadcast",
            "shard.gather",
            "shard.reduce",
            "shard.scatter",
            "shard.shift",
            "shard.recv",
            "mesh.collective_permute",
            "mesh.mask",
            "mesh.start",
        ),
        collective,
    ),
    "mesh.done": tensor_ops.same,  # a start already waits for the end
    "shard.send": send,
    "shard.process_linear_index": rank,
}
