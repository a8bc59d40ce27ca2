"""The messages of a transfer between parts of the devices: each device gets what it lacks, once.

    devices 2, 3 hold the columns of a 4x8 tensor, and all four are to hold quarters of it:

    to 0: 2 rows of device 2     device 2 keeps 2 of its rows
    to 1: 2 rows of device 3     device 3 keeps 2 of its rows

A transfer is a list of **rounds**. In a round each device sends one box of its shard, and receives
one, at most. So a round is a permutation of the devices. All send as much as the largest box of the
round, and a device drops what is more than its own box. So the bytes of all rounds together are at
least what the most loaded device sends or receives, and as many if boxes have one shape.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise, takewhile
from math import prod

from shard_dialect.model.grid import Axes, Axis, Grid, SubAxis, full_axis
from shard_dialect.model.grid_refinement import Refinement
from shard_dialect.model.message_rounds import in_rounds, in_turns
from shard_dialect.model.sharding import Shape, Sharding
from shard_dialect.model.sub_cluster import Place

_Box = tuple[tuple[int, int], ...]
"""The bounds of a box of a tensor: begin and end in each dimension."""
MAX_IMPROVED = 4096
"""The most boxes of one shape whose senders are chosen anew, which takes quadratic time."""


@dataclass(frozen=True, slots=True)
class End:
    """A tensor before or after a transfer: its sharding, and the devices that have it.

    A tensor that is a part of the other end's begins there at `offsets`.
    """

    sharding: Sharding
    place: Place
    offsets: tuple[int, ...] = ()

    def boxes(self, shape: Shape) -> dict[int, _Box]:
        """The box of a tensor of this shape that each device holds, by its position in the grid.

        >>> End(Sharding("g", ((1,),)), Place(Grid("g", (2, 2)), (0,), {(1,)})).boxes((6,))
        {2: ((0, 3),), 3: ((3, 6),)}
        """
        sharding, grid = self.sharding, self.place.grid
        refinement = Refinement.of(grid, sharding.axes)
        if refinement is not None:
            sharding, grid = refinement.refined(sharding), refinement.fine
        bounds = [
            tuple(offset + bound for bound in self.bounds(dim, size))
            for dim, (size, offset) in enumerate(
                zip(shape, self.offsets or (0,) * len(shape), strict=True)
            )
        ]
        boxes = {}
        for position in filter(self.place.holds, range(grid.size)):
            indices = [grid.index_along(position, axes) for axes in sharding.split_axes]
            boxes[position] = tuple(
                (each[index], each[index + 1]) for each, index in zip(bounds, indices, strict=True)
            )
        return boxes

    def bounds(self, dim: int, size: int) -> tuple[int, ...]:
        """Where each shard of a dimension of this size begins, and where the last one ends."""
        return self.sharding.bounds(dim, size, self.place.grid)

    def largest(self, dim: int, size: int) -> int:
        """The size of the largest shard of a dimension of this size."""
        return max(end - begin for begin, end in pairwise(self.bounds(dim, size)))

    def among(self, axes: Sequence[int], kept: Sequence[Axes]) -> End:
        """The end on a grid of `axes` alone, in each dimension split along those `kept`."""

        def renumbered(axis: Axis) -> Axis:
            if isinstance(axis, SubAxis):
                return replace(axis, axis=axes.index(axis.axis))
            return axes.index(axis)

        members = Grid("", self.place.grid.sizes_along(axes))
        split = tuple(tuple(map(renumbered, each)) for each in kept)
        is_split = zip(split, self.sharding.offsets, strict=False)
        sharding = Sharding("", split, offsets=tuple(each if dim else () for dim, each in is_split))
        place = Place(members, tuple(map(axes.index, self.place.axes)), self.place.indices)
        return End(sharding, place, self.offsets)


@dataclass(frozen=True, slots=True)
class Transfer:
    """What the members of each group of devices along `axes` have, and are to have.

    Devices in other groups have other parts of the tensor, or the same, and do as these do. So
    `source`, `target` and their global shapes are those of one group, and its members are a grid.
    """

    axes: tuple[int, ...]
    source: End
    target: End
    shape: Shape
    target_shape: Shape

    @classmethod
    def between(
        cls, source: End, target: End, shape: Shape, target_shape: Shape | None = None
    ) -> Transfer:
        """The transfer of a tensor of `shape`, which is cut among the groups first.

        The target has another shape, `target_shape`, if one of the tensors is a part of the other.

        >>> grid = Grid("g", (2, 64, 8))
        >>> pipeline = [Place(grid, (0,), frozenset({(stage,)})) for stage in (0, 1)]
        >>> ends = [End(Sharding("g", ((1,), axes)), at) for axes, at in zip(((), (2,)), pipeline)]
        >>> found = Transfer.between(*ends, (128, 32))
        >>> found.axes, found.shape, str(found.source.sharding), str(found.target.sharding)
        ((0, 2), (2, 32), '[[], []]', '[[], [1]]')
        """
        grid = source.place.grid
        ends, sizes = (source, target), [list(shape), list(target_shape or shape)]
        kept = [list(each.sharding.split_axes) for each in ends]
        for dim in range(len(shape)):
            count = _shared(ends, [each[dim] for each in sizes], dim)
            for end, split, each in zip(ends, kept, sizes, strict=True) if count else ():
                split[dim] = split[dim][count:]
                # The largest shard is a group's, where shards differ: no axes are left to split it.
                each[dim] = end.largest(dim, each[dim]) * grid.axes_size(split[dim])
        used = {full_axis(axis) for split in kept for axes in split for axis in axes}
        axes = tuple(sorted(used.union(*(each.place.axes for each in ends))))
        inner = [end.among(axes, split) for end, split in zip(ends, kept, strict=True)]
        return cls(axes, inner[0], inner[1], (*sizes[0],), (*sizes[1],))


@dataclass(frozen=True, slots=True)
class Message:
    """A box that one device sends to another, or keeps: where it is in the two shards."""

    sender: int
    receiver: int
    taken_at: tuple[int, ...]
    put_at: tuple[int, ...]
    shape: Shape


@dataclass(frozen=True, slots=True)
class Round:
    """Messages, at most one from each device and one to each, of boxes of up to this shape."""

    shape: Shape
    messages: tuple[Message, ...]

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Round:
        """The round of these messages."""
        return cls(
            tuple(map(max, *(each.shape for each in messages), messages[0].shape)), (*messages,)
        )

    @property
    def ragged_dims(self) -> tuple[int, ...]:
        """The dimensions in which some box is smaller than the round's shape."""
        dims = range(len(self.shape))
        return tuple(d for d in dims if any(m.shape[d] != self.shape[d] for m in self.messages))

    @property
    def stays(self) -> bool:
        """Whether each device keeps what it has: then nothing is sent."""
        return all(each.sender == each.receiver for each in self.messages)

    def varying_axes(self, grid: Grid) -> Axes:
        """The axes of `grid` without those along which all devices do the same, among themselves.

        >>> along = [Message(sender, sender + 2, (0,), (0,), (4,)) for sender in (0, 1)]
        >>> Round.of(along).varying_axes(Grid("g", (2, 2)))
        (0,)
        """
        at = [
            (grid.coordinates(each.sender), grid.coordinates(each.receiver), each)
            for each in self.messages
        ]
        axes = list(range(grid.rank))
        for axis in range(grid.rank):
            kept = [each for each in axes if each != axis]
            alike = {
                (
                    *(begin[each] for each in kept),
                    *(end[each] for each in kept),
                    message.taken_at,
                    message.put_at,
                    message.shape,
                )
                for begin, end, message in at
            }
            # No device sends twice, so `others` messages at most are alike, one at each position
            # along the axes left out: `len(at)` says whether none is missing.
            others = prod(grid.sizes_along([each for each in range(grid.rank) if each not in kept]))
            if all(begin[axis] == end[axis] for begin, end, _ in at) and (
                len(alike) * others == len(at)
            ):
                axes = kept
        return tuple(axes)


@dataclass(frozen=True, slots=True)
class Moved:
    """What the rounds of a transfer move, in elements: a device at most, and all of a group."""

    most: tuple[int, ...] = ()
    messages: tuple[int, ...] = ()
    rounds: int = 0
    """How many rounds there are, with those in which nothing is sent."""


@dataclass(frozen=True, slots=True)
class TransferPlan:
    """The rounds of a transfer: those of boxes that stay, and then those that are sent.

    Senders and receivers are the `members` of each group of devices along `axes` of the grid.
    """

    axes: tuple[int, ...]
    members: Grid
    rounds: tuple[Round, ...]

    @property
    def sent(self) -> list[Round]:
        """The rounds in which devices send to others."""
        return [each for each in self.rounds if not each.stays]

    @property
    def moved(self) -> Moved:
        """What is moved, round by round."""
        sizes = [(prod(each.shape), len(each.messages)) for each in self.sent]
        most = tuple(size for size, _ in sizes)
        return Moved(most, tuple(size * count for size, count in sizes), len(self.rounds))

    def bytes_moved(self, itemsize: int) -> int:
        """The bytes that the most loaded device sends or receives; elements have `itemsize`."""
        return sum(prod(each.shape) for each in self.sent) * itemsize


def _shared(ends: tuple[End, End], sizes: Sequence[int], dim: int) -> int:
    """How many axes, major ones first, split a dimension into the same parts at both ends."""
    if sizes[0] != sizes[1] or any(any(each.offsets[dim : dim + 1]) for each in ends):
        return 0
    splits = [each.sharding.split_axes[dim] for each in ends]
    bounds = [each.bounds(dim, sizes[0]) for each in ends]
    # Of a sub-axis, the other parts may be used elsewhere, so that its axis is one of a group's.
    pairs = zip(*splits, strict=False)
    count = len([*takewhile(lambda pair: pair[0] == pair[1] == full_axis(pair[0]), pairs)])
    are_same = bounds[0] == bounds[1] and [count, count] == [*map(len, splits)]
    are_even = all(len({end - begin for begin, end in pairwise(each)}) == 1 for each in bounds)
    return count if are_same or are_even else 0


@lru_cache(maxsize=4096)
def plan_transfer(transfer: Transfer) -> TransferPlan:
    """The rounds by which the devices of the target get their shards from those of the source.

    Elements outside of the source are not sent.

    >>> g, two = Grid("g", (4,)), Sharding("g", ((),))
    >>> one = End(two, Place(g, (0,), frozenset({(0,)})))
    >>> every = End(Sharding("g", ((0,),)), Place(g))
    >>> plan = plan_transfer(Transfer.between(one, every, (8,)))
    >>> [(each.shape, len(each.messages)) for each in plan.rounds], plan.bytes_moved(4)
    ([((2,), 1), ((2,), 1), ((2,), 1), ((2,), 1)], 24)
    """
    sources = transfer.source.boxes(transfer.shape)
    holders: dict[_Box, list[int]] = defaultdict(list)
    for rank, box in sources.items():
        holders[box].append(rank)
    by_bounds = _ByBounds.of(holders)
    kept: list[Message] = []
    lacking: dict[Shape, list[tuple[int, _Box, _Box]]] = defaultdict(list)
    targets = transfer.target.boxes(transfer.target_shape)
    for receiver, target_box in targets.items():
        for source_box in by_bounds.overlapping(target_box):
            box = _common(source_box, target_box)
            size = tuple(end - begin for begin, end in box)
            if sources.get(receiver) == source_box:
                kept.append(_message(receiver, receiver, box, source_box, target_box))
            else:
                lacking[size].append((receiver, source_box, box))
    load: Counter[int] = Counter()
    sent: list[Message] = []
    # The largest boxes first: the smaller ones can then even out the load.
    for size, boxes in sorted(lacking.items(), key=lambda each: -prod(each[0])):
        choices = [holders[source_box] for _, source_box, _ in boxes]
        senders = _choose_senders(choices, prod(size), load)
        sent += [
            _message(sender, receiver, box, source_box, targets[receiver])
            for sender, (receiver, source_box, box) in zip(senders, boxes, strict=True)
        ]
    rounds = (*_in_few_bytes(kept), *_in_few_bytes(sent))
    return TransferPlan(transfer.axes, transfer.source.place.grid, rounds)


def _in_few_bytes(messages: Sequence[Message]) -> Sequence[Round]:
    """The messages in the rounds that send least: by shape, by distance, or as they fit.

    >>> boxes = [(0, 1, (4,)), (1, 0, (3,)), (1, 2, (1,))]
    >>> found = _in_few_bytes([Message(a, b, (0,), (0,), size) for a, b, size in boxes])
    >>> [(each.shape, len(each.messages)) for each in found]
    [((4,), 2), ((1,), 1)]
    """
    by_shape: dict[Shape, list[Message]] = defaultdict(list)
    by_distance: dict[int, list[Message]] = defaultdict(list)
    for each in messages:
        by_shape[each.shape].append(each)
        by_distance[each.receiver - each.sender].append(each)
    apart = [Round.of(each) for alike in by_shape.values() for each in _in_few_rounds(alike)]
    if len(by_shape) == 1:
        return apart
    along = [Round.of(each) for each in by_distance.values()]
    joined = _first_fit(messages) if len(messages) <= MAX_IMPROVED else along
    return min(
        (joined, along, apart),
        key=lambda rounds: (sum(prod(each.shape) for each in rounds), len(rounds)),
    )


def _in_few_rounds(messages: Sequence[Message]) -> list[list[Message]]:
    """As few rounds as the busiest device has messages; of very many, at once where that can be."""
    found = in_turns(messages) if len(messages) > MAX_IMPROVED else None
    return in_rounds(messages) if found is None else found


def _first_fit(messages: Sequence[Message]) -> list[Round]:
    """The messages in rounds, the largest boxes first, each in that in which it adds least."""
    rounds: list[list[Message]] = []
    shapes: list[Shape] = []
    busy: list[tuple[set[int], set[int]]] = []
    for message in sorted(messages, key=lambda each: (-prod(each.shape), each.sender)):
        alone = prod(message.shape)
        best = (alone, len(rounds), message.shape)
        for number, (shape, (senders, receivers)) in enumerate(zip(shapes, busy, strict=True)):
            if message.sender not in senders and message.receiver not in receivers:
                larger = tuple(map(max, shape, message.shape))
                best = min(best, (prod(larger) - prod(shape), number, larger))
        _, number, larger = best
        if number == len(rounds):
            rounds.append([])
            shapes.append(larger)
            busy.append((set(), set()))
        rounds[number].append(message)
        shapes[number] = larger
        busy[number][0].add(message.sender)
        busy[number][1].add(message.receiver)
    return list(map(Round.of, rounds))


def moved_at_least(transfer: Transfer) -> Moved:
    """What no plan of the transfer is below, without a look at each device.

    A device has at most one shard of the source already, and gets at most one in a round.

    >>> place = Place(Grid("g", (4,)))
    >>> source, target = (End(Sharding("g", (axes,)), place) for axes in ((0,), ()))
    >>> moved_at_least(Transfer.between(source, target, (8,)))
    Moved(most=(6,), messages=(24,), rounds=3)
    """
    source, target = transfer.source, transfer.target
    source_shard = target_shard = common = 1  # of the target, what is within the source
    for dim, (size, whole) in enumerate(zip(transfer.shape, transfer.target_shape, strict=True)):
        at, begin = (sum(each.offsets[dim : dim + 1]) for each in (source, target))
        bounds = [min(max(at, begin + each), at + size) for each in target.bounds(dim, whole)]
        source_shard *= source.largest(dim, size)
        target_shard *= max(end - begin for begin, end in pairwise(bounds))
        common *= bounds[-1] - bounds[0]
    kept = 0 if source.place.is_apart_from(target.place) else source_shard
    copies = target.place.size // target.place.grid.axes_size(target.sharding.axes)
    most, messages = target_shard - kept, common * copies - kept * source.place.size
    if most <= 0:
        return Moved()
    return Moved((most,), (max(most, messages),), -(-most // source_shard))


@lru_cache(maxsize=4096)
def most_lacked(transfer: Transfer) -> int:
    """The most elements of the source that a device of the target lacks: no plan sends fewer."""
    sources = transfer.source.boxes(transfer.shape)
    offsets = transfer.source.offsets or (0,) * len(transfer.shape)
    whole = tuple((at, at + size) for at, size in zip(offsets, transfer.shape, strict=True))
    lacked = [0]
    for rank, box in transfer.target.boxes(transfer.target_shape).items():
        target_box = _common(box, whole)
        kept = _elements(_common(sources[rank], target_box)) if rank in sources else 0
        lacked.append(_elements(target_box) - kept)
    return max(lacked)


@dataclass(frozen=True, slots=True)
class _ByBounds:
    """Boxes by their bounds in each dimension.

    Along a dimension the bounds of one sharding follow one another: their order finds those within.
    """

    bounds: list[tuple[int, int]]
    inner: list[_ByBounds]
    boxes: list[_Box]

    @classmethod
    def of(cls, boxes: Iterable[_Box]) -> _ByBounds:
        return cls._at([(box, box) for box in boxes])

    @classmethod
    def _at(cls, boxes: Sequence[tuple[_Box, _Box]]) -> _ByBounds:
        inner: dict[tuple[int, int], list[tuple[_Box, _Box]]] = defaultdict(list)
        for rest, box in boxes:
            if rest:
                inner[rest[0]].append((rest[1:], box))
        bounds = sorted(inner)
        here = [box for rest, box in boxes if not rest]
        return cls(bounds, [cls._at(inner[each]) for each in bounds], here)

    def overlapping(self, box: _Box) -> Iterator[_Box]:
        """The boxes that have an element within the box, in their order along each dimension."""
        if not box:
            yield from self.boxes
            return
        (begin, end), *rest = box
        for at in range(
            bisect_right(self.bounds, begin, key=lambda each: each[1]), len(self.bounds)
        ):
            first, last = self.bounds[at]
            if first >= end:
                break
            if max(begin, first) < min(end, last):
                yield from self.inner[at].overlapping(tuple(rest))


def _common(a: _Box, b: _Box) -> _Box:
    """The box that two boxes have in common."""
    return tuple(
        (max(begin, other), min(end, last))
        for (begin, end), (other, last) in zip(a, b, strict=True)
    )


def _elements(box: _Box) -> int:
    """How many elements a box has, which may be empty."""
    return prod(max(0, end - begin) for begin, end in box)


def _message(sender: int, receiver: int, box: _Box, held: _Box, wanted: _Box) -> Message:
    taken_at, put_at = (
        tuple(begin - first for (begin, _), (first, _) in zip(box, whole, strict=True))
        for whole in (held, wanted)
    )
    return Message(sender, receiver, taken_at, put_at, tuple(end - begin for begin, end in box))


def _choose_senders(choices: Sequence[Sequence[int]], size: int, load: Counter[int]) -> list[int]:
    """One of the holders of each box, so that the most loaded device sends least.

    `load` is what each device sends already; it is updated. The boxes have one size, so moving a
    box from a device to another along a chain of boxes that both hold improves the choice until it
    is best.

    >>> _choose_senders([[0], [0, 1], [0, 1]], 1, Counter())
    [0, 1, 0]
    """
    senders = []
    for holders in choices:
        sender = min(holders, key=lambda rank: (load[rank], rank))
        senders.append(sender)
        load[sender] += size
    while len(choices) <= MAX_IMPROVED and _relieve(senders, choices, size, load):
        pass
    return senders


def _relieve(
    senders: list[int], choices: Sequence[Sequence[int]], size: int, load: Counter[int]
) -> bool:
    """Let a device that sends most send one box less, if others can take over."""
    most = max((load[sender] for sender in senders), default=0)
    groups = {id(holders): holders for holders in choices}.values()
    if not any(load[rank] + size < most for holders in groups for rank in holders):
        return False
    boxes_of: dict[int, list[int]] = defaultdict(list)
    for box, sender in enumerate(senders):
        boxes_of[sender].append(box)
    stuck: set[int] = set()  # from which nobody is reached that could send more
    for start in [rank for rank in dict.fromkeys(senders) if load[rank] == most]:
        came = _reached(start, boxes_of, choices, stuck) if start not in stuck else {}
        end = next((rank for rank in came if load[rank] + size < most), None)
        if end is not None:
            load[start] -= size
            load[end] += size
            while end != start:
                before, box = came[end]
                senders[box], end = end, before
            return True
        stuck.update(came)
    return False


def _reached(
    start: int,
    boxes_of: Mapping[int, Sequence[int]],
    choices: Sequence[Sequence[int]],
    without: Collection[int],
) -> dict[int, tuple[int, int]]:
    """The devices along chains of boxes that both hold, the nearest first.

    Each has the device before it and the box that it could send in its place.
    """
    came: dict[int, tuple[int, int]] = {start: (-1, -1)}
    queue, asked = [start], set[int]()
    for rank in queue:
        for box in boxes_of.get(rank, ()):
            if id(choices[box]) in asked:  # boxes of one part have the same holders
                continue
            asked.add(id(choices[box]))
            for other in choices[box]:
                if other not in came and other not in without:
                    came[other] = (rank, box)
                    queue.append(other)
    return came
