"""Collectives of the local form: each is a call of a function that is written into the file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shard_dialect.emit import shapes
from shard_dialect.emit.elementwise import element_of
from shard_dialect.emit.writer import Writer
from shard_dialect.errors import ShardError
from shard_dialect.ir import build
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.local import LocalStep, read_local
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
from shard_dialect.model.axis import whole

_NAMES = {
    AllGather: "gathered",
    AllSlice: "piece",
    AllReduce: "reduced",
    ReduceScatter: "scattered",
    AllToAll: "exchanged",
    Permute: "passed",
    UpdateHalo: "widened",
    Mask: "masked",
}
"""What results are called."""
_OPERATIONS = {
    "product": ("MPI.PROD", "dist.ReduceOp.PRODUCT"),
    "max": ("MPI.MAX", "dist.ReduceOp.MAX"),
    "min": ("MPI.MIN", "dist.ReduceOp.MIN"),
    "bitwise_and": ("MPI.BAND", "dist.ReduceOp.BAND"),
    "bitwise_or": ("MPI.BOR", "dist.ReduceOp.BOR"),
    "bitwise_xor": ("MPI.BXOR", "dist.ReduceOp.BXOR"),
}


_UNSENT = {"mpi4py": "f16", "torch": "i16"}
"""Elements that the target cannot send or add: MPI, gloo and NCCL have no name for them."""


def collective(w: Writer, op: ir.Operation) -> None:
    grid, step = _read(op)
    write = _CALLS.get(type(step))
    if write is None:
        raise w.refuse(op)
    is_sent = not isinstance(step, (AllSlice, Mask))
    if is_sent and str(op.operands[0].type.element_type) == _UNSENT[w.target]:
        raise w.refuse(op, f"{w.target} cannot send {_UNSENT[w.target]}")
    x, group = w.use(op.operands[0]), w.group(grid, tuple(map(whole, step.axes)))
    w.define(op.results[0], write(w, op, step, x, group), _NAMES[type(step)])


def _read(op: ir.Operation) -> tuple[str, LocalStep]:
    try:
        read = read_local(op.name, op.attributes)
    except ShardError as error:
        raise error_at(op.location, f"'{op.name}' op {error.message}") from None
    assert read is not None, "only ops of the tables come here"
    return read


def _operation(w: Writer, op: ir.Operation, reduction: Reduction) -> str:
    """The argument that says which reduction it is, if it is no sum."""
    if str(op.operands[0].type.element_type) == "i1":
        raise w.refuse(op, f"a reduction {reduction} of elements of type i1")
    if reduction == "sum":
        return ""
    if reduction not in _OPERATIONS:
        raise w.refuse(op, f"of the reduction {reduction}")
    return f", {_OPERATIONS[reduction][w.is_torch]}"


def _mask(w: Writer, op: ir.Operation, step: Any, x: str, group: str) -> str:
    element = element_of(op.operands[0].type)
    number = w.number(build.identity(step.reduction, element).value, element)
    return f"mask({x}, {group}, {number})"


_CALLS: dict[type, Callable[[Writer, ir.Operation, Any, str, str], str]] = {
    AllGather: lambda w, op, s, x, group: f"all_gather({x}, {group}, {s.dim})",
    AllSlice: lambda w, op, s, x, group: f"all_slice({x}, {group}, {s.dim})",
    AllReduce: lambda w, op, s, x, group: (
        f"all_reduce({x}, {group}{_operation(w, op, s.reduction)})"
    ),
    ReduceScatter: lambda w, op, s, x, group: (
        f"reduce_scatter({x}, {group}, {s.dim}{_operation(w, op, s.reduction)})"
    ),
    AllToAll: lambda w, op, s, x, group: (
        f"all_to_all({x}, {group}, {s.target_dim}, {s.source_dim})"
    ),
    Permute: lambda w, op, s, x, group: f"permute({x}, {group}, {list(s.permutation)})",
    UpdateHalo: lambda w, op, s, x, group: f"update_halo({x}, {group}, {s.dim}, {s.low}, {s.high})",
    Mask: _mask,
}

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
            "mesh.collective_permute",
            "mesh.mask",
            "mesh.start",
        ),
        collective,
    ),
    "mesh.done": shapes.same,  # what was started was waited for at once
}
