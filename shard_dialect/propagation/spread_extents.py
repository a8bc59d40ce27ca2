"""After propagation, spread offsets along factors, and halos to the results of functions.

    %s = [[0], {offsets = [[0, 3, 4]]}]     annotated
    %1 = exp %s                             [[0]] so far, and then with the offsets of %s
    %2 = reverse %1                         [[0]]: its factor needs equal shards

    %s = [[0]]                              7x4, annotated: 4 and 3 rows
    %1 = reshape %s                         28: at offsets [0, 16, 28]

So elements stay where they are along chains of ops that can work on such shards. A tensor gets the
offsets of a dimension if it is split along the same axes there, and no annotation has split it; or
if an op has made it, and it is not split, since propagation merges only what the devices divide.

A function returns the halos of a value that it returns, if that is annotated with them. No other
value gets halos: whether ops compute them is decided by what that costs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from shard_dialect.model import Annotation, Axes, Extents, Sharding
from shard_dialect.model.factor_projection import is_prefix, sub_axes_of
from shard_dialect.model.grid import first_overlap, full_axis
from shard_dialect.model.sharding import Sizes
from shard_dialect.propagation.engine import Engine
from shard_dialect.propagation.graph import NO_TENSOR, Node


def spread_offsets(engine: Engine, *, splits: bool) -> None:
    """Give values the offsets of others; with `splits`, also values that are not split."""
    _Spread(engine, splits).run()


def return_halos(engine: Engine) -> None:
    """Give results of functions the halos of returned values."""
    for node in engine.graph.exits:
        value, result = node.values
        returned, current = engine.known(value), engine.known(result)
        if returned is None or current is None or engine.graph.annotations[result] is not None:
            continue
        sharding, halos = current.sharding, returned.sharding
        if halos.halos and halos.bare == sharding:
            engine.learn(result, replace(current, sharding=halos))


@dataclass(frozen=True, slots=True)
class _Split:
    """How a dimension is split: along `axes` of the grid, its shards at `offsets` if any."""

    grid: str
    axes: Axes
    offsets: Sizes


class _Spread:
    """Gives values the offsets of others. With `splits`, what ops make may be split for it."""

    def __init__(self, engine: Engine, splits: bool) -> None:
        self.engine = engine
        self.nodes = [*engine.graph.nodes, *engine.graph.exits]
        rules = engine.graph.rules
        self.may_be_split = {
            value
            for node in (self.nodes if splits else ())
            for value in node.values[rules[node.rule_number].results :]
        }
        self.merged = [
            frozenset(dim[0] for dims in rule.tensors for dim in dims if len(dim) > 1)
            for rule in rules
        ]
        """For each rule, the first factors of dimensions of several."""
        self.changed: set[int] = set()

    def run(self) -> None:
        """Forward and backward, until nothing changes."""
        group_of = {value: group for group in self.engine.graph.groups for value in group}
        again = True
        while again:
            again = False
            for node in (*self.nodes, *reversed(self.nodes)):
                for value, dim, split in self._missing(node):
                    members = group_of.get(value, (value,))
                    if all(self._may_have(each, dim, split) for each in members):
                        for each in members:
                            self._give(each, dim, split)
                        again = True

    def _missing(self, node: Node) -> list[tuple[int, int, _Split]]:
        """The values of a node, each with a dimension and how it may be split, as the others."""
        prepared = self.engine.graph.rules[node.rule_number]
        sides: dict[str | None, Sequence[int]] = {
            "none": (),
            "forward": range(prepared.results, len(node.values)),
            "backward": range(prepared.results),
        }
        may_change = sides.get(node.to, range(len(node.values)))
        found = []
        for (factor, grid, axes), begins in self._begins(node).items():
            for index in may_change:
                for dim, factors in enumerate(prepared.tensors[index]):
                    if factors[0] == factor:
                        at = prepared.rule.offsets_of(
                            factors, axes, begins, self.engine.grids[grid]
                        )
                        found.append((node.values[index], dim, _Split(grid, axes, at)))
        return found

    def _begins(self, node: Node) -> dict[tuple[int, str, Axes], Sizes]:
        """Where shards of factors begin, by factor and the grid and axes that split it.

        That is where a tensor has offsets, or is uneven. Propagation passes uneven shards itself,
        but not where a dimension is merged with others, whose shards are at offsets then. There are
        none of axes that split another factor, too.
        """
        prepared, merged = self.engine.graph.rules[node.rule_number], self.merged[node.rule_number]
        known = [
            (annotation.sharding, dims, value in self.changed)
            for value, dims in zip(node.values, prepared.tensors, strict=True)
            if value != NO_TENSOR and (annotation := self.engine.known(value)) is not None
        ]
        if not merged and not any(sharding.offsets or changed for sharding, _, changed in known):
            return {}
        may_be_at = prepared.rule.may_be_uneven - prepared.rule.windowed_factors
        at_offsets: dict[tuple[int, str, Axes], Sizes] = {}
        uneven: dict[tuple[int, str, Axes], Sizes] = {}
        factors_of: dict[int, set[int]] = defaultdict(set)
        for sharding, dims, changed in known:
            grid = self.engine.grids[sharding.grid]
            offsets = dict(Extents.of([(dims, sharding)], prepared.sizes).offsets)
            for dim, ((first, *inner), axes) in enumerate(
                zip(dims, sharding.split_axes, strict=True)
            ):
                for axis in axes:
                    factors_of[full_axis(axis)].add(first)
                if first not in may_be_at or not axes:
                    continue
                key, size = (first, sharding.grid, axes), prepared.sizes[first]
                if first in offsets:
                    at_offsets.setdefault(key, offsets[first])
                elif (first in merged or changed) and not inner and size % grid.axes_size(axes):
                    uneven[key] = sharding.bounds(dim, size, grid)
        return {
            key: begins
            for key, begins in (uneven | at_offsets).items()
            if all(factors_of[full_axis(axis)] == {key[0]} for axis in key[2])
        }

    def _may_have(self, value: int, dim: int, split: _Split) -> bool:
        """Whether the dimension of a value is not split so yet, and nothing is against it.

        That is an annotation that has split it, or other axes that do. Arguments stay as they are.
        """
        annotated, current = self.engine.graph.annotations[value], self.engine.known(value)
        if annotated is not None and annotated.sharding.split_axes[dim]:
            return False
        if current is None:
            return value in self.may_be_split
        sharding = current.sharding
        if sharding.grid != split.grid or any(sharding.halo(dim)):
            return False
        if sharding.offsets and sharding.offsets[dim]:
            return False
        now = sharding.split_axes[dim]
        if now == split.axes:
            return bool(split.offsets)
        # Propagation splits a merged dimension by the part of an axis that divides it.
        grid = self.engine.grids[split.grid]
        is_more = is_prefix(sub_axes_of(now, grid), sub_axes_of(split.axes, grid))
        others = [axis for axis in (*sharding.axes, *current.replicated) if axis not in now]
        is_free = is_more and first_overlap((*split.axes, *others)) is None
        return value in self.may_be_split and dim in current.open and is_free

    def _give(self, value: int, dim: int, split: _Split) -> None:
        current = self.engine.known(value)
        if current is None:
            shape, _ = self.engine.graph.sizes[self.engine.graph.kinds[value]]
            unsplit = Sharding.replicated(split.grid, len(shape))
            current = Annotation(unsplit, open=tuple(range(len(shape))))
        sharding = current.sharding.with_dim(dim, split.axes, split.offsets)
        opened = tuple(each for each in current.open if each != dim)
        self.engine.learn(value, replace(current, sharding=sharding, open=opened))
        self.changed.add(value)
