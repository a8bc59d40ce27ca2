"""What a cutting function is given: an op at the partition, and the pieces that it works on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.model.sharding import Shape


@dataclass(frozen=True, slots=True)
class Piece:
    """One device's piece of a tensor: `whole` is the global shape, `shape` the local one.

    `halos` are how many elements before and after its own it has in `shape` along each dimension.

    `begin(dim)` makes, at the current insertion point, a `tensor<1xi64>`: the index in the whole
    tensor at which this device's piece begins along the dimension.
    """

    whole: Shape
    shape: Shape
    begin: Callable[[int], ir.Value]
    halos: tuple[tuple[int, int], ...] = ()

    def halo(self, dim: int) -> tuple[int, int]:
        return self.halos[dim] if self.halos else (0, 0)

    def is_split(self, dim: int) -> bool:
        return self.whole[dim] != self.shape[dim] - sum(self.halo(dim))


@dataclass(frozen=True, slots=True)
class Cut:
    """An op with the types of pieces, and all else yet as for whole tensors.

    `None` stands for an operand or result that is no tensor.
    """

    op: ir.Operation
    operands: tuple[Piece | None, ...]
    results: tuple[Piece | None, ...]

    def operand(self, place: int) -> Piece:
        found = self.operands[place]
        assert found is not None, "an op is cut along tensors"
        return found

    @property
    def result(self) -> Piece:
        """That of the first result."""
        found = self.results[0]
        assert found is not None, "an op is cut along tensors"
        return found


CutFunction = Callable[[Cut], None]
"""Changes the attributes of an op to those of the same op on pieces, or writes ops around it."""
