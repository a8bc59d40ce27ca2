"""What a cutting function is given: an op at the partition, and the pieces that it works on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.model.sharding import Shape


@dataclass(frozen=True, slots=True)
class Piece:
    """One device's piece of a tensor: `whole` is the global shape, `shape` the local one.

    `halos` are how many elements before and after its own it has in `shape` along each dimension,
    and `split` are the dimensions that devices have pieces of. Where these do not divide the whole,
    the dimension is `uneven`: the last pieces are padded at their end, and anything may be there
    (`rules.uneven`).

    `begin(dim)` and `held(dim)` make, at the current insertion point, a `tensor<1xi64>`: the index
    in the whole tensor at which this device's piece begins along the dimension, and how many
    elements it has there, without halos and padding.
    """

    whole: Shape
    shape: Shape
    begin: Callable[[int], ir.Value]
    held: Callable[[int], ir.Value]
    halos: tuple[tuple[int, int], ...] = ()
    split: frozenset[int] = frozenset()
    uneven: frozenset[int] = frozenset()

    def halo(self, dim: int) -> tuple[int, int]:
        return self.halos[dim] if self.halos else (0, 0)

    def is_split(self, dim: int) -> bool:
        return dim in self.split


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
    def is_uneven(self) -> bool:
        return any(piece.uneven for piece in self.operands + self.results if piece is not None)

    @property
    def result(self) -> Piece:
        """That of the first result."""
        found = self.results[0]
        assert found is not None, "an op is cut along tensors"
        return found


CutFunction = Callable[[Cut], None]
"""Changes the attributes of an op to those of the same op on pieces, or writes ops around it."""
