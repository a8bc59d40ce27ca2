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
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from shard_dialect.model.grid import Axes, Grid
from shard_dialect.model.grid_refinement import Refinement
from shard_dialect.model.message_rounds import in_rounds, in_turns
from shard_dialect.model.sharding import Shape, Sharding
from shard_dialect.model.sub_cluster import Place

_Box = tuple[tuple[int, int], ...]
"""The bounds of a box of a tensor: begin and end in each dimension."""
_Part = tuple[int, _Box]
"""The box that a device holds, and which addend of the tensor, if that is partial."""
MAX_IMPROVED = 4096
"""The most boxes of one shape whose senders are chosen anew, which takes quadratic time."""


@dataclass(frozen=True, slots=True)
class End:
    """A tensor before or after a transfer: its sharding, and the ranks of the devices that have it.

    `ranks` are by the position in `grid`; a device that is not of the stage has `None`. A tensor
    that is a part of the other end's begins there at `offsets`.
    """

    sharding: Sharding
    grid: Grid
    ranks: tuple[int | None, ...]
    offsets: tuple[int, ...] = ()

    @classmethod
    def on_part(cls, sharding: Sharding, place: Place, offsets: tuple[int, ...] = ()) -> End:
        """The end on the part of the devices that is at `place`.

        >>> End.on_part(Sharding("g", ((1,),)), Place(Grid("g", (2, 2)), (0,), {(1,)})).ranks
        (None, None, 2, 3)
        """
        by_position = place.grid.device_ids or range(place.grid.size)
        ranks = tuple(rank if place.holds(rank) else None for rank in by_position)
        return cls(sharding, place.grid, ranks, offsets)

    def parts(self, shape: Shape) -> dict[int, _Part]:
        """The part of a tensor of this shape that each device holds, in the order of ranks."""
        # Row-major: positions are asked for below, and which device is at each is in `ranks`.
        sharding, grid = self.sharding, Grid(self.grid.name, self.grid.shape)
        refinement = Refinement.of(grid, sharding.axes)
        if refinement is not None:
            sharding, grid = refinement.refined(sharding), refinement.fine
        offsets = self.offsets or (0,) * len(shape)
        bounds = [
            tuple(offset + bound for bound in sharding.bounds(dim, size, grid))
            for dim, (size, offset) in enumerate(zip(shape, offsets, strict=True))
        ]
        parts = {}
        for position, rank in enumerate(self.ranks):
            if rank is None:
                continue
            indices = [grid.index_along(position, axes) for axes in sharding.split_axes]
            box = tuple(
                (each[index], each[index + 1]) for each, index in zip(bounds, indices, strict=True)
            )
            parts[rank] = (grid.index_along(position, sharding.partial), box)
        return dict(sorted(parts.items()))


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
class TransferPlan:
    """The rounds of a transfer: those of boxes that stay, and then those that are sent."""

    rounds: tuple[Round, ...]

    @property
    def sent(self) -> list[Round]:
        """The rounds in which devices send to others."""
        return [each for each in self.rounds if not each.stays]

    def bytes_moved(self, itemsize: int) -> int:
        """The bytes that the most loaded device sends or receives; elements have `itemsize`."""
        return sum(prod(each.shape) for each in self.sent) * itemsize


@lru_cache(maxsize=4096)
def plan_transfer(
    source: End, target: End, shape: Shape, target_shape: Shape | None = None
) -> TransferPlan:
    """The rounds by which the devices of `target` get their shards from those of `source`.

    Both are partial in as many addends. `shape` is the global shape; the target has another one,
    `target_shape`, if one of the tensors is a part of the other. Elements outside of the source
    are not sent.

    >>> g, two = Grid("g", (4,)), Sharding("g", ((),))
    >>> one, all_ = End(two, g, (0, None, None, None)), End(Sharding("g", ((0,),)), g, (0, 1, 2, 3))
    >>> plan = plan_transfer(one, all_, (8,))
    >>> [(each.shape, len(each.messages)) for each in plan.rounds], plan.bytes_moved(4)
    ([((2,), 1), ((2,), 1), ((2,), 1), ((2,), 1)], 24)
    """
    held = source.parts(shape)
    holders: dict[_Part, list[int]] = defaultdict(list)
    for rank, part in held.items():
        holders[part].append(rank)
    by_bounds = _ByBounds.of(holders)
    kept: list[Message] = []
    lacking: dict[Shape, list[tuple[int, _Part, _Box]]] = defaultdict(list)
    wanted_parts = target.parts(target_shape or shape)
    for receiver, (addend, wanted) in wanted_parts.items():
        for part in by_bounds.overlapping(((addend, addend + 1), *wanted)):
            box = _common(part[1], wanted)
            size = tuple(end - begin for begin, end in box)
            if held.get(receiver) == part:
                kept.append(_message(receiver, receiver, box, part[1], wanted))
            else:
                lacking[size].append((receiver, part, box))
    wanted_by = {rank: box for rank, (_, box) in wanted_parts.items()}
    load: Counter[int] = Counter()
    sent: list[Message] = []
    # The largest boxes first: the smaller ones can then even out the load.
    for size, boxes in sorted(lacking.items(), key=lambda each: -prod(each[0])):
        choices = [holders[part] for _, part, _ in boxes]
        senders = _choose_senders(choices, prod(size), load)
        sent += [
            _message(sender, receiver, box, part[1], wanted_by[receiver])
            for sender, (receiver, part, box) in zip(senders, boxes, strict=True)
        ]
    return TransferPlan((*_in_few_bytes(kept), *_in_few_bytes(sent)))


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


def most_lacked(source: End, target: End, shape: Shape) -> int:
    """The most elements that a device of `target` lacks: no transfer sends fewer."""
    held = source.parts(shape)
    lacked = [0]
    for rank, (addend, wanted) in target.parts(shape).items():
        kept = 0
        if rank in held and held[rank][0] == addend:
            kept = prod(max(0, end - begin) for begin, end in _common(held[rank][1], wanted))
        lacked.append(prod(end - begin for begin, end in wanted) - kept)
    return max(lacked)


@dataclass(frozen=True, slots=True)
class _ByBounds:
    """Parts by the bounds of their addend, and of their box in each dimension.

    Along a dimension the bounds of one sharding follow one another: their order finds those within.
    """

    bounds: list[tuple[int, int]]
    inner: list[_ByBounds]
    parts: list[_Part]

    @classmethod
    def of(cls, parts: Iterable[_Part]) -> _ByBounds:
        return cls._at([(((addend, addend + 1), *box), (addend, box)) for addend, box in parts])

    @classmethod
    def _at(cls, parts: Sequence[tuple[_Box, _Part]]) -> _ByBounds:
        inner: dict[tuple[int, int], list[tuple[_Box, _Part]]] = defaultdict(list)
        for box, part in parts:
            if box:
                inner[box[0]].append((box[1:], part))
        bounds = sorted(inner)
        here = [part for box, part in parts if not box]
        return cls(bounds, [cls._at(inner[each]) for each in bounds], here)

    def overlapping(self, box: _Box) -> Iterator[_Part]:
        """The parts that have an element within the box, in their order along each dimension."""
        if not box:
            yield from self.parts
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
