"""How windows go over one dimension of an operand, and what of it a piece of the result reads.

    size 3, stride 1, padding 1 and 1    a b [c d] e f     halo [1, 1]
    size 3, stride 2, padding 0 and 1    a b [c d e f] g   halo [0, 1]
    size 2, stride 2                     [a b c d]         none

What places the windows is split as the operand is, where each piece of the operand is `stride`
times as long as that of the result. On pieces the padding is in the halos.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.rules.cut import Piece


@dataclass(frozen=True, slots=True)
class Windows:
    """Along one dimension: elements of the window `dilation` apart, those of the operand `base`."""

    size: int
    stride: int
    dilation: int
    base: int
    low: int
    high: int
    """The padding; less than 0 where the operand's ends are left out."""

    @property
    def are_elements(self) -> bool:
        """Whether the window is one element, and each element has its own."""
        is_padded = self.low != 0 or self.high != 0
        return self.size == 1 and self.stride == 1 and self.base == 1 and not is_padded

    @property
    def reach(self) -> int:
        """How far the last window of a piece goes past its end; below 0 where it stays inside."""
        return (self.size - 1) * self.dilation + 1 - self.stride - self.low

    def halo(self, size: int, made: int) -> tuple[int, int] | None:
        """What windows of a piece read of its neighbours', if pieces lie side by side.

        `size` elements of the operand have `made` windows.
        """
        if self.base != 1 or size != made * self.stride:
            return None
        return max(self.low, 0), max(self.reach, 0)

    def padding_of(self, operand: Piece, dim: int) -> tuple[int, int]:
        """That of a piece, whose halos hold what there is around it."""
        low, high = operand.halo(dim)
        unread = high - self.reach
        return self.low - low, -unread if unread >= self.stride else 0
