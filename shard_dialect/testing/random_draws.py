"""The random choices for samples: options, sizes, and tensors, preferably of existing types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import TypeVar

from shard_dialect.testing.sample import Sample, Tensor

T = TypeVar("T")
EVEN = (12, 4, 6, 12, 8)
"""Sizes that most grids of up to four devices divide."""
UNEVEN = (5, 7, 3, 2, 10)
"""Sizes that some of them do not."""
_RANKS = (2, 1, 3, 2, 3, 4, 2, 1, 3, 2, 0)
_MOST = 2**12
"""The most elements of a tensor: larger ones test nothing more, and take longer."""


class Draws:
    """Draws from `rng`: one of Python's with a seed, or one that hypothesis shrinks.

    `known` are the types of existing values; most tensors drawn have one of these.
    """

    def __init__(
        self, rng: Random, sizes: Sequence[int] = EVEN, known: Iterable[Tensor] = ()
    ) -> None:
        self.rng = rng
        self.sizes = sizes
        self.known = tuple(known)

    @staticmethod
    def sample(
        op: str, operands: Sequence[Tensor], results: Sequence[Tensor], attributes: str = ""
    ) -> Sample:
        """A sample of `op` in generic form, for records, which import nothing of tests."""
        return Sample.generic(op, operands, results, attributes)

    def pick(self, *options: T) -> T:
        """One of the options."""
        return self.rng.choice(options)

    def chance(self, probability: float) -> bool:
        """True with this probability; hypothesis shrinks it to false."""
        return chance(self.rng, probability)

    def number(self, low: int, high: int) -> int:
        """From `low` to `high`, both included."""
        return self.rng.randint(low, high)

    def size(self) -> int:
        """The size of a dimension."""
        return self.rng.choice(self.sizes)

    def order(self, rank: int) -> list[int]:
        """A permutation of `rank` dimensions."""
        return self.rng.sample(range(rank), rank)

    def dim(self, tensor: Tensor) -> int:
        """A dimension of the tensor."""
        return self.rng.randrange(len(tensor.shape))

    def any(self, element: str = "f32", least: int = 0, most: int = 3) -> Tensor:
        """A tensor type with `least` to `most` dimensions."""
        existing = [
            each
            for each in self.known
            if each.element == element and least <= len(each.shape) <= most
        ]
        if existing and not self.chance(0.2):
            return self.rng.choice(existing)
        rank = self.rng.choice([each for each in _RANKS if least <= each <= most])
        return self.fits(element, *[None] * rank, anew=True)

    def fits(self, element: str, *sizes: int | None, anew: bool = False) -> Tensor:
        """A tensor type of these sizes; `None` is any size."""

        def is_fit(each: Tensor) -> bool:
            pairs = zip(each.shape, sizes, strict=True)
            return all(target in (None, size) for size, target in pairs)

        existing = [
            each
            for each in self.known
            if each.element == element and len(each.shape) == len(sizes) and is_fit(each)
        ]
        if existing and not anew and None in sizes and not self.chance(0.2):
            return self.rng.choice(existing)
        sizes_drawn: list[int] = []
        left = _MOST
        for size in sizes:
            sizes_drawn.append(
                min(self.sizes) if size is None and left < 12 else size or self.size()
            )
            left //= sizes_drawn[-1]
        return Tensor(tuple(sizes_drawn), element)


def chance(rng: Random, probability: float) -> bool:
    """True with this probability, by an integer: hypothesis draws special floats too often."""
    return rng.randrange(100) >= 100 - 100 * probability


def listed(numbers: Iterable[int]) -> str:
    """`array<i64: 1, 2>`."""
    text = ", ".join(map(str, numbers))
    return f"array<i64{': ' * bool(text)}{text}>"


def dense(values: object, type_: Tensor) -> str:
    """`dense<[1, 2]> : tensor<2xi32>`."""
    return f"dense<{values}> : {type_}"
