"""Shards of a rule's factors that are not equal ones: they begin at offsets, or have halos.

An assignment says along which axes the factors are split. Where nothing else is said the shards are
equal, up to padding. For the rule ([i, j]) -> ([i, j]) and the assignment i: [0]

    Extents(offsets=((0, (0, 3, 4)),))    both tensors [[0], [], {offsets = [[0, 3, 4], []]}]
    Extents(halos=((0, (1, 2)),))         both tensors [[0], [], {halo = [[1, 2], []]}]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shard_dialect.model.sharding import Reduction, Sharding, Sizes

Dims = tuple[tuple[int, ...], ...]
"""The factors of each dimension of a tensor, major to minor."""


@dataclass(frozen=True, slots=True)
class Extents:
    """The offsets, and the halos, of some factors. `fill` says what halos hold at the ends."""

    offsets: tuple[tuple[int, Sizes], ...] = ()
    halos: tuple[tuple[int, tuple[int, int]], ...] = ()
    fill: Reduction = "sum"

    def __bool__(self) -> bool:
        return bool(self.offsets or self.halos)

    @classmethod
    def of(cls, tensors: Iterable[tuple[Dims | None, Sharding | None]]) -> Extents:
        """The extents of the factors of tensors: of each factor the first that a tensor has.

        >>> sharding = Sharding("g", ((0,), ()), offsets=((0, 3, 4), ()))
        >>> Extents.of([(((0,), (1,)), sharding)]).offsets
        ((0, (0, 3, 4)),)
        """
        offsets: dict[int, Sizes] = {}
        halos: dict[int, tuple[int, int]] = {}
        fill: Reduction = "sum"
        for dims, sharding in tensors:
            if dims is None or sharding is None or not (sharding.offsets or sharding.halos):
                continue
            for dim, factors in enumerate(dims):
                for factor in factors:
                    if sharding.offsets and sharding.offsets[dim]:
                        offsets.setdefault(factor, sharding.offsets[dim])
                    if any(sharding.halo(dim)):
                        halos.setdefault(factor, sharding.halo(dim))
                        fill = sharding.fill
        return cls(tuple(sorted(offsets.items())), tuple(sorted(halos.items())), fill)

    def applied(self, dims: Dims, sharding: Sharding) -> Sharding:
        """The sharding of a tensor with the factors `dims`, whose shards were equal so far."""
        offsets, halos = dict(self.offsets), dict(self.halos)
        for dim, axes in enumerate(sharding.split_axes):
            for factor in dims[dim] if axes else ():
                if factor in offsets:
                    sharding = sharding.with_dim(dim, axes, offsets[factor])
                if factor in halos:
                    sharding = sharding.with_halo(dim, halos[factor], self.fill)
        return sharding


EQUAL = Extents()
"""All shards are equal, up to padding."""
