"""Choose the shardings in which a transfer takes a tensor from one stage and gives it to another.

@a has rows of %x, all devices of @b are to have all of it

send all of it to each of @b          the devices of @a send it several times
send rows to @b, gather them there    they send it once: chosen, as fewer bytes move
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from shard_dialect.ir.mesh.stage_attributes import part_offsets
from shard_dialect.ir.numbered_function import Op
from shard_dialect.model import Sharding
from shard_dialect.model.sub_cluster import Place
from shard_dialect.passes.materialize.resharded_values import ReshardedValues
from shard_dialect.passes.materialize.stage_shardings import without_axes
from shard_dialect.planner.transfer_plan import End, plan_transfer


@dataclass(frozen=True, slots=True)
class Passed:
    """The sharding in which a tensor is sent, and that in which it arrives."""

    source: Sharding
    target: Sharding


def choose_passed(
    places: tuple[Place, Place],
    resharded: ReshardedValues,
    op: Op,
    target_of: Mapping[int, Sharding],
) -> Passed:
    """The shardings for which the reshards before and after a transfer, and it, move least."""
    (value, *into), (result,) = op.operands, op.results
    shapes, itemsize = [*map(resharded.shape, (value, result))], resharded.itemsize(value)
    offsets = part_offsets(op.handle)
    at_source, at_target = places
    grid = at_source.grid
    wanted, had = target_of[result], target_of[value]
    unsharded = Sharding.replicated(grid.name, had.rank)
    sources = dict.fromkeys(
        _allowed(each, at_source)
        for known in (had, *resharded.shardings(value))
        for each in (known.bare, *_scattered(known.bare))
    )
    targets = dict.fromkeys(
        _allowed(each, at_target)
        for known in (
            wanted.bare,
            had.bare,
            *(target_of[each].bare for each in into if each in target_of),
        )
        for each in (known, *_split_further(_allowed(known, at_target), at_target))
    )

    def price(passed: Passed) -> tuple[int, int, int]:
        """What it costs the most loaded device, and all; and how many permutations there are."""
        ends = [
            End.on_part(sharding, place, at)
            for sharding, place, at in zip(
                (passed.source, passed.target), places, offsets, strict=True
            )
        ]
        plan = plan_transfer(*ends, *shapes)
        rounds = [each for each in plan.rounds if not each.stays]
        before = resharded.price(value, passed.source)
        after = (
            sum(resharded.price(each, passed.target) for each in into)
            + resharded.plan(result, passed.target, wanted).cost
        )
        sent = [prod(each.shape) for each in rounds]
        most = before + resharded.prices.rounds(sent, itemsize, grid) + after
        messages = [prod(each.shape) * len(each.messages) for each in rounds]
        total = (
            before * at_source.size
            + resharded.prices.rounds(messages, itemsize, grid)
            + after * at_target.size
        )
        return most, total, len(plan.rounds)

    pairs = [
        Passed(source, target)
        for source in dict.fromkeys((*sources, unsharded))
        for target in dict.fromkeys((*targets, unsharded))
    ]
    return min(pairs, key=price)


def _allowed(sharding: Sharding, place: Place) -> Sharding:
    """The sharding along free axes alone, and reduced where it is partial."""
    return without_axes(sharding.with_partial(()), place.axes)


def _scattered(sharding: Sharding) -> Iterator[Sharding]:
    """Shardings that a reduce-scatter makes of a partial one."""
    reduced = sharding.with_partial(())
    for dim, axes in enumerate(sharding.split_axes) if sharding.partial else ():
        yield reduced.with_dim(dim, axes + sharding.partial)


def _split_further(sharding: Sharding, place: Place) -> Iterator[Sharding]:
    """The sharding, with a dimension split also along the axes along which it is replicated."""
    unused = tuple(axis for axis in place.free if axis not in sharding.axes)
    for dim, axes in enumerate(sharding.split_axes) if unused and not sharding.offsets else ():
        yield sharding.with_dim(dim, axes + unused)
