"""The arithmetic of one op on one device, from its local shapes: the functions of records.

| op | operations |
|---|---|
| a matrix product, a convolution | 2 for each step of its loops: a multiplication and an addition |
| an elementwise op | 1 for each element of the result |
| a reduction | for each element of the operands, what its body computes |
| a reduction over windows | for each element of each window, what its body computes |
| a cumulative one | for each element of the operand, what its body computes |
| `linalg` ops | for each step of the loops, what the body computes |
| a sort | for each of n log2(n) comparisons, what its comparator computes |
| data movement, conversion, constants | none |

An operation is a flop whatever the element type; elementary functions (`exp`, `tanh`) are one, and
are counted apart, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from shard_dialect.ir.bindings import ir
from shard_dialect.model import ShardingRule
from shard_dialect.model.sharding import Shape


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor type of one device."""

    shape: Shape
    element: str
    """MLIR's name of the element type."""
    itemsize: int

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """The bytes of all elements."""
        return prod(self.shape) * self.itemsize

    def __str__(self) -> str:
        return "x".join([*map(str, self.shape), self.element])


@dataclass(frozen=True, slots=True)
class Flops:
    """Arithmetic operations, and how many of them are elementary functions, such as `exp`."""

    total: int = 0
    elementary: int = 0

    def __mul__(self, times: int) -> Flops:
        return Flops(self.total * times, self.elementary * times)


@dataclass(frozen=True, slots=True)
class LocalOp:
    """An op, and the local types of its operands and results; `None` for those of scalars."""

    name: str
    handle: ir.Operation
    operands: tuple[TensorInfo | None, ...]
    results: tuple[TensorInfo | None, ...]
    rule: Callable[[], ShardingRule | None]
    """The op's rule on local shapes."""
    body: Callable[[int], Flops]
    """The operations of one run of a region."""

    def shape(self, operand: int) -> Shape:
        """The shape of an operand, which is a tensor."""
        tensor = self.operands[operand]
        assert tensor is not None, f"{self.name} takes tensors"
        return tensor.shape

    @property
    def made(self) -> int:
        """The number of elements of the first result, a tensor."""
        tensor = self.results[0]
        assert tensor is not None, f"{self.name} gives a tensor"
        return tensor.elements


OperationsFunction = Callable[[LocalOp], "Flops | None"]


def product(op: LocalOp) -> Flops | None:
    """A multiplication and an addition for each step of the loops."""
    rule = op.rule()
    return Flops(2 * prod(rule.sizes)) if rule else None


def largest(op: LocalOp) -> Flops:
    """One operation for each element of the largest operand."""
    return Flops(max((each.elements for each in op.operands if each), default=0))
