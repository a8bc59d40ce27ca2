"""From lists of devices, as in StableHLO's collectives, to grid axes.

@g(2x4)    [[0, 1, 2, 3], [4, 5, 6, 7]]              along axis 1
           [[0, 4, 1, 5, 2, 6, 3, 7]]                along axes 1 and 0
           0 -> 1 -> 2 -> 3 -> 0, 4 -> 5 -> ... 4    along axis 1, member i to member i + 1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shard_dialect.model.grid import Axes, Grid
from shard_dialect.planner.permutation import MAX_POSITIONS

Groups = Sequence[Sequence[int]]


def axes_of_groups(groups: Groups, grid: Grid, *, is_ordered: bool) -> Axes | None:
    """The axes whose groups are `groups`; `None` if there are no such axes.

    With `is_ordered`, the order of the members gives the order of the axes, major to minor.

    >>> axes_of_groups([[0, 4, 1, 5], [2, 6, 3, 7]], Grid("g", (2, 2, 2)), is_ordered=True)
    (2, 0)
    >>> axes_of_groups([[0, 1], [3, 2]], Grid("g", (2, 2)), is_ordered=True)
    >>> axes_of_groups([[0, 1], [3, 2]], Grid("g", (2, 2)), is_ordered=False)
    (1,)
    """
    if any(not 0 <= rank < grid.size for group in groups for rank in group) or not groups:
        return None
    members = [grid.coordinates(rank) for rank in groups[0]]
    axes = _by_first_change(members) if is_ordered else tuple(sorted(_differing(members, grid)))
    if len(groups) * grid.axes_size(axes) != grid.size:
        return None  # checked first: `grid.groups` then lists no more groups than were given
    expected = grid.groups(axes)
    if is_ordered:
        is_equal = set(map(tuple, groups)) == set(expected)
    else:
        is_equal = set(map(frozenset, groups)) == set(map(frozenset, expected))
    return axes if is_equal else None


def _differing(members: Sequence[tuple[int, ...]], grid: Grid) -> set[int]:
    """The axes along which these coordinates differ."""
    return {axis for axis in range(grid.rank) if len({at[axis] for at in members}) > 1}


def _by_first_change(members: Sequence[tuple[int, ...]]) -> Axes:
    """The axes along which these coordinates differ, the first to change as the minor one."""
    axes: list[int] = []
    for member in members:
        changed = (axis for axis, at in enumerate(member) if at != members[0][axis])
        axes += [axis for axis in changed if axis not in axes]
    return tuple(reversed(axes))


class Moves(NamedTuple):
    """Within each group along `axes`, member i sends to member `permutation[i]`.

    No pair sends to the members in `unsent`: the permutation is completed with them.
    """

    axes: Axes
    permutation: tuple[int, ...]
    unsent: tuple[int, ...] = ()


def moves_of_pairs(pairs: Groups, grid: Grid, manual: Sequence[int] = ()) -> Moves | None:
    """The permutation that (source, target) pairs are within each group along some axes.

    The axes are those along which a source and its target differ, or else all `manual` axes. `None`
    if the groups along them would need different permutations.

    >>> moves_of_pairs([[0, 1], [1, 0], [2, 3], [3, 2]], Grid("g", (2, 2)))
    Moves(axes=(1,), permutation=(1, 0), unsent=())
    >>> moves_of_pairs([[0, 1], [2, 3]], Grid("g", (2, 2)))
    Moves(axes=(1,), permutation=(1, 0), unsent=(0,))
    >>> moves_of_pairs([[0, 1], [1, 0]], Grid("g", (2, 2)))
    >>> moves_of_pairs([[0, 1], [1, 0]], Grid("g", (2, 2)), (0, 1))
    Moves(axes=(0, 1), permutation=(1, 0, 2, 3), unsent=(2, 3))
    """
    if any(not 0 <= rank < grid.size for pair in pairs for rank in pair):
        return None
    if len({s for s, _ in pairs}) != len(pairs) or len({t for _, t in pairs}) != len(pairs):
        return None
    moving: set[int] = set()
    for pair in pairs:
        moving |= _differing([grid.coordinates(rank) for rank in pair], grid)
    target_of = {pair[0]: pair[1] for pair in pairs}
    for axes in (sorted(moving), sorted(manual)):
        moves = _permutation_along(target_of, grid, tuple(axes))
        if moves is not None:
            return moves
    return None


def _permutation_along(target_of: dict[int, int], grid: Grid, axes: Axes) -> Moves | None:
    """The permutation of each group along `axes`, if it is the same in all."""
    count = grid.axes_size(axes)
    if count > MAX_POSITIONS or grid.size > count * len(target_of):
        return None  # some group sends nothing, so the groups are not alike
    permutations: set[tuple[int | None, ...]] = set()
    for group in grid.groups(axes):
        member_of = {rank: member for member, rank in enumerate(group)}
        targets = [target_of.get(rank) for rank in group]
        if any(target is not None and target not in member_of for target in targets):
            return None
        permutations.add(tuple(None if each is None else member_of[each] for each in targets))
    if len(permutations) != 1:
        return None
    members = permutations.pop()
    unsent = [member for member in range(len(members)) if member not in members]
    left = iter(unsent)
    full = tuple(next(left) if target is None else target for target in members)
    return Moves(axes, full, tuple(unsent))
