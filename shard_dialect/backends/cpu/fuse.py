"""Decide which loop nests share which loops, on plain data, before any IR is written.

    for i, j: t[i, j] = exp(x[i, j])            for i:
    for i:    r[i] = 0                            r[i] = 0
    for i, j: r[i] += t[i, j]             ->      for j: t[i, j] = exp(x[i, j]); r[i] += t[i, j]
    for i, j: y[i, j] = t[i, j] / r[i]            for j: y[i, j] = t[i, j] / r[i]

Two nests may share a loop if, for each buffer that one of them writes and the other one accesses,
an iteration of the loop accesses only that iteration's index, in the same dimension. The loop may
be a reduction in one of them: the reduced buffer lacks the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from shard_dialect.backends.cpu.nest import Nest


@dataclass(frozen=True)
class Member:
    """A nest, by its number, and those of its loops that are not open yet, in their order."""

    number: int
    nest: Nest
    remaining: tuple[int, ...]

    def inside(self, loop: int) -> Member:
        """The member inside of one more open loop."""
        return Member(
            self.number, self.nest, tuple(each for each in self.remaining if each != loop)
        )


@dataclass
class Loop:
    """A loop of some members, with each one's number for the loop, and its body.

    Without a number it is one iteration of its only member.
    """

    members: list[tuple[Member, int | None]] = field(default_factory=list)
    size: int = 1
    inside: list[Loop] = field(default_factory=list)
    numbers: set[int] = field(default_factory=set)
    """The numbers of the members."""
    written: set[int] = field(default_factory=set)
    """The buffers that members write."""
    touched: dict[int, dict[tuple[int, int | None], None]] = field(default_factory=dict)
    """For each accessed buffer its views, each with the dimension that the loop runs over, if any.

    They are in the order of the members, since many may read one buffer.
    """
    ops: int = 0
    """How many ops the bodies of the members have."""

    def add(self, member: Member, number: int | None) -> Loop:
        """Let a nest join, and return the loop."""
        self.members.append((member, number))
        self.numbers.add(member.number)
        self.written |= member.nest.written
        self.ops += member.nest.ops
        for access in member.nest.accesses:
            is_along = number is not None and number in access.loops
            position = access.loops.index(number) if is_along else None
            self.touched.setdefault(access.root, {})[access.view, position] = None
        return self

    @property
    def is_open(self) -> bool:
        """Whether others may join."""
        member, loop = self.members[0]
        return loop is not None and member.nest.tiles is None


def plan(nests: Sequence[Nest]) -> list[Loop]:
    """The outermost loops, in order."""
    return _plan([Member(number, nest, nest.order) for number, nest in enumerate(nests)])


def _plan(members: Sequence[Member]) -> list[Loop]:
    loops: list[Loop] = []
    for member in members:
        target = _to_join(member, loops)
        if target is not None:
            into, loop = target
            into.add(member, loop)
        elif member.remaining:
            loops.append(_alone(member))
        else:
            # Such as the zero that a reduction starts from: before the loops, it separates none of
            # them.
            loops.insert(_earliest(member, loops), _alone(member))
    for each in loops:
        each.inside = _plan([member.inside(n) for member, n in each.members if n is not None])
    return loops


def _alone(member: Member) -> Loop:
    if not member.remaining:
        return Loop().add(member, None)
    first = member.remaining[0]
    return Loop(size=member.nest.sizes[first]).add(member, first)


def _earliest(member: Member, loops: Sequence[Loop]) -> int:
    """The position for a nest without loops, so that it does not separate loops that may fuse."""
    position = len(loops)
    while position and not _in_order(member, loops[position - 1]):
        position -= 1
    return position


def _in_order(member: Member, loop: Loop) -> bool:
    """Whether one writes what the other reads or writes."""
    nest = member.nest
    return not loop.written.isdisjoint(nest.touched) or not nest.written.isdisjoint(loop.touched)


def _to_join(member: Member, loops: Sequence[Loop]) -> tuple[Loop, int] | None:
    """The last loop that the nest may join, and the nest's loop for it; `None` if there is none.

    A loop that shares a buffer is preferred; else one with as many iterations, since what the nest
    writes is often read together with another buffer soon.
    """
    unrelated = None
    for loop in reversed(loops):
        shared = _shared(member, loop)
        if shared is not None and _may_join(member, shared, loop):
            return loop, shared
        # The nest cannot move in front of a loop that writes what it reads, or the other way round.
        if _in_order(member, loop):
            break
        if shared is None and unrelated is None and member.remaining:
            first = member.remaining[0]
            is_possible = _has_registers(member, loop) and _may_join(member, first, loop)
            unrelated = (loop, first) if is_possible else None
    return unrelated


_MOST_BUFFERS, _MOST_OPS = 16, 256
"""Of one loop. The addresses of more buffers are in no register. LLVM's time grows faster than the
body of a loop does."""


def _has_registers(member: Member, loop: Loop) -> bool:
    return len(loop.touched.keys() | member.nest.touched) <= _MOST_BUFFERS


def _shared(member: Member, loop: Loop) -> int | None:
    """The loop of `member` that runs over the same dimension of the same buffer."""
    for access in member.nest.accesses:
        for view, position in loop.touched.get(access.root, ()):
            if (
                view == access.view
                and position is not None
                and access.loops[position] in member.remaining
            ):
                return access.loops[position]
    return None


def _may_join(member: Member, loop: int, into: Loop) -> bool:
    return (
        into.is_open
        and member.nest.tiles is None
        and member.nest.sizes[loop] == into.size
        and member.nest.ops + into.ops <= _MOST_OPS
        and _keeps_order(member, loop, into)
        and _is_independent(member.nest, loop, into)
    )


def _keeps_order(member: Member, loop: int, into: Loop) -> bool:
    """Whether the loop that is contiguous in memory stays innermost."""
    if loop != member.remaining[-1] or len(member.remaining) == 1:
        return True
    return all(len(other.remaining) == 1 for other, _ in into.members)


def _is_independent(nest: Nest, loop: int, into: Loop) -> bool:
    """Whether iterations of the loop access disjoint memory, in the buffers that are written."""
    for access in nest.accesses:
        if access.root not in nest.written and access.root not in into.written:
            continue
        for view, position in into.touched.get(access.root, ()):
            if access.view != view or position is None or loop not in access.loops:
                return False
            if position != access.loops.index(loop):
                return False
    return True
