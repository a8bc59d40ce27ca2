"""Emit collectives of the local form: each is a call of a helper that is written into the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from shard_dialect.backends.python.element_types import element_of, is_complex, is_flipped
from shard_dialect.backends.python.helper_functions import names
from shard_dialect.backends.python.ops import accumulation, tensor_ops
from shard_dialect.backends.python.ops.conversions import converted
from shard_dialect.backends.python.writer import Writer
from shard_dialect.collectives import LocalStep
from shard_dialect.collectives.collective_table import LOCAL, record_of
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import reductions
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.shard.local_collectives import read_local
from shard_dialect.model import Reduction
from shard_dialect.model.grid import full_axis
from shard_dialect.passes.lower.computed_members import members_of

_START = "mesh.start"
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
class Call:
    """The call of a helper for a collective on `x`, in a group with these sizes along its axes."""

    w: Writer
    op: ir.Operation
    x: str
    group: str
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, w: Writer, op: ir.Operation, grid: str, step: LocalStep) -> Call:
        """Build the call for a step."""
        element = op.operands[0].type.element_type
        x, result_element = w.use(op.operands[0]), op.results[0].type.element_type
        if element != result_element:  # a reduction to a wider type
            x = converted(w, x, element, result_element, op, is_unsigned_op=False)
        axes = tuple(map(full_axis, step.axes))
        sizes = w.grids[grid].sizes_along(axes)
        return cls(w, op, x, w.group(grid, axes), sizes)

    def __call__(self, name: str, *arguments: object) -> str:
        """The call of a helper on the operand, in the group, with these arguments."""
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

    def identity(self, reduction: Reduction) -> str:
        """The identity of a reduction of such elements."""
        element = element_of(self.op.operands[0].type)
        if is_complex(element):
            return self.w.number(complex(reduction == "product"), element)
        return self.w.number(reductions.identity(reduction, element).value, element)

    def member(self, step: LocalStep) -> int | str | None:
        """The position in the group of the member that the step names, or its text."""
        if not step.is_computed:
            return step.member(self.sizes)
        text = ""
        for at, size in zip(members_of(self.op, step), self.sizes, strict=True):
            index = at if isinstance(at, int) else self.w.use(at)
            text = f"({text} * {size} + {index})" if text else str(index)
        return text

    def statement(self, name: str, *arguments: object) -> str:
        """Write the call as a statement; its operand stays as it is."""
        self.w.line(self(name, *arguments))
        return self.x


def collective(w: Writer, op: ir.Operation) -> None:
    """Write a collective as the call of its helper."""
    grid, step = _read(op)
    record = record_of(step)
    assert record.python is not None, f"a {step.kind} is no step of compiled programs"
    name, write = record.python
    call = Call.of(w, op, grid, step)
    text = write(call, step)
    result = op.results[0]
    if text == call.x:
        w.values[result] = text
    elif op.name == _START and f"start_{text.partition('(')[0]}" in names(w.target):
        w.values[result] = w.kept("started", f"start_{text}")
        w.started.add(w.values[result])
    else:
        w.define(result, text, name)


def done(w: Writer, op: ir.Operation) -> None:
    """Wait for a collective, unless its start has waited already."""
    (x,) = w.uses(op)
    if x in w.started:
        w.define(op.results[0], f"finish({x})", "received")
    else:
        tensor_ops.same(w, op)


def _read(op: ir.Operation) -> tuple[str, LocalStep]:
    try:
        read = read_local(op.name, op.attributes)
    except ShardError as error:
        raise error_at(op.location, f"'{op.name}' op {error.message}") from None
    assert read is not None, "only ops of the tables come here"
    return read


def rank(w: Writer, op: ir.Operation) -> None:
    """Write this device's rank."""
    w.values[op.results[0]] = "rank"


_OTHERS: dict[str, Callable[[Writer, ir.Operation], None]] = {
    _START: collective,
    "mesh.done": done,
    "shard.process_linear_index": rank,
}


def writes(op: ir.Operation) -> Callable[[Writer, ir.Operation], None] | None:
    """The function that writes an op, if that is a collective."""
    return collective if op.name in LOCAL else _OTHERS.get(op.name)
