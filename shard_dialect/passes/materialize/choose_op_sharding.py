"""Choose how to split one op's factors so that the fewest bytes move, or the least time is taken.

The candidates for a factor are its splits in the available and the target shardings of the operands
and results. Every combination that uses no axis twice has a cost: the reshards of the operands from
their available shardings, those of the results to their target shardings, and, for a product, the
arithmetic on each device. Among equal costs the combination that splits the work among the most
devices is chosen, then the first in the order of the factors, so that the choice is deterministic.

Shards that are not equal are kept where the op can: a factor whose shards begin at offsets in an
available or target sharding may have these offsets, and an elementwise op may compute the halos of
its results from those of its operands.

Programs repeat their layers, so a choice is worked out once for all ops that have the same problem.

A transfer between stages has a choice, too: the sharding in which it takes a tensor from one stage,
and that in which it gives it to the other. If @a has rows of %x, and all devices of @b are to have
all of it:

    send all of it to each of @b          the devices of @a send it several times
    send rows to @b, gather them there    they send it once: chosen, as fewer bytes move
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import product, takewhile
from math import inf, prod

from shard_dialect.errors import ShardError
from shard_dialect.ir.mesh.sharding_attributes import part_offsets
from shard_dialect.ir.numbered_function import Op
from shard_dialect.model import (
    EQUAL,
    Assignment,
    Extents,
    Grid,
    Sharding,
    ShardingError,
    ShardingRule,
)
from shard_dialect.model.factor_projection import Dims
from shard_dialect.model.grid import Axes
from shard_dialect.model.sharding import Sizes
from shard_dialect.model.sub_cluster import Place
from shard_dialect.model.transfer_plan import (
    End,
    Moved,
    Transfer,
    moved_at_least,
    plan_transfer,
)
from shard_dialect.ops.op_table import OpKind, OpKinds, carries
from shard_dialect.ops.uneven_shards import may_be_uneven, may_have_halos, may_have_offsets
from shard_dialect.passes.materialize.resharded_values import ReshardedValues
from shard_dialect.passes.materialize.target_shardings import without_axes
from shard_dialect.passes.materialize.type_consistency import with_partial_axes

MAX_COMBINATIONS = 20_000
"""Above this number of combinations, each factor keeps only its longest candidate and none."""


@dataclass(frozen=True)
class Choice:
    """The shardings of the operands and results of an op; `None` for one that is not a tensor.

    `late_inits` has (result number, operand number, produced sharding) for each init that is to be
    combined after the reduction. The operand of such an init is `None` in `operands`.
    """

    operands: tuple[Sharding | None, ...]
    results: tuple[Sharding | None, ...]
    late_inits: tuple[tuple[int, int, Sharding], ...] = ()


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices for the ops of one function.

    `target_of` has the target sharding of each value, by number.
    """

    resharded: ReshardedValues
    target_of: Mapping[int, Sharding]
    kinds: OpKinds
    _known: dict[Hashable, tuple[float, Choice]] = field(default_factory=dict)
    _counts: dict[tuple[int, str], Mapping[Hashable, int]] = field(default_factory=dict)

    def choose(self, op: Op, kind: OpKind, grid: Grid, loops: Assignment | None = None) -> Choice:
        """The cheapest choice for `op` on `grid`, or the one that the annotated `loops` give.

        Raises `ShardError` if no choice leads to the target shardings of the results.
        """
        return self.priced(op, kind, grid, loops)[1]

    def priced(
        self, op: Op, kind: OpKind, grid: Grid, loops: Assignment | None = None
    ) -> tuple[float, Choice]:
        """The price of the cheapest choice, with it, as `choose`."""
        rule = kind.rule
        assert rule is not None, "ops without a rule have replicated operands"
        uneven = may_be_uneven(op.handle, rule)
        readers = self._alike(op, kind)
        key = (
            kind,
            uneven,
            readers,
            grid.name,
            loops,
            self.resharded.turns(),
            tuple([(self.resharded.situation(v), self.resharded.turns(v)) for v in op.operands]),
            tuple(map(op.operands.index, op.operands)),
            self._targets(op),
        )
        if key not in self._known:
            problem = _Problem(
                op, rule, uneven, grid, self.resharded, self.target_of, loops, readers
            )
            self._known[key] = _cheapest(problem)
        return self._known[key]

    def _alike(self, op: Op, kind: OpKind) -> tuple[int, ...]:
        """How many products as this one, itself included, read each operand in the same place.

        What one of them gathers of it all of them have: queries, keys and values are made of the
        same tensor.
        """
        if kind.rule is None or not kind.rule.is_product:
            return (1,) * len(op.operands)
        like = (op.handle.block, kind, self._targets(op))
        return tuple(
            max(1, self._counted(value, op.name).get((number, *like), 0))
            for number, value in enumerate(op.operands)
        )

    def _counted(self, value: int, name: str) -> Mapping[Hashable, int]:
        """How many ops of a name are alike, and read a value in the same place.

        They are counted once: thousands of ops may read a weight.
        """
        key = (value, name)
        if key not in self._counts:
            function = self.resharded.function
            readers = {id(op): op for op in function.readers.get(value, ()) if op.name == name}
            self._counts[key] = Counter(
                (
                    number,
                    op.handle.block,
                    self.kinds.kind_in(function.values, op),
                    self._targets(op),
                )
                for op in readers.values()
                for number, operand in enumerate(op.operands)
                if operand == value
            )
        return self._counts[key]

    def _targets(self, op: Op) -> tuple[Sharding | None, ...]:
        return tuple([self.target_of.get(value) for value in (*op.operands, *op.results)])


def _cheapest(problem: _Problem) -> tuple[float, Choice]:
    op, rule, target_of = problem.op, problem.rule, problem.target_of
    best: tuple[tuple[float, int, int], Assignment, Extents] | None = None
    for assignment, extents in problem.splits():
        # Every assignment is priced, also if none can be cheaper: of equal prices the one that uses
        # the most devices wins, and of these the one for which the fewest tensors move.
        price, moved = problem.price(assignment, extents)
        devices = prod(problem.grid.axes_size(axes) for axes in assignment)
        key = (price, -devices, moved)
        if price < inf and (best is None or key < best[0]):
            best = (key, assignment, extents)
    if best is None:
        raise ShardError(
            f"'{op.name}' op cannot give its results the shardings "
            f"{', '.join(str(target_of[value]) for value in op.results if value in target_of)} "
            f"by its rule {rule}"
        )
    return best[0][0], problem.choice(*best[1:])


@dataclass(frozen=True)
class _Problem:
    """One op, with the available shardings of its operands and the targets of its results."""

    op: Op
    rule: ShardingRule
    uneven: frozenset[int]
    """The factors that may be split unevenly."""
    grid: Grid
    resharded: ReshardedValues
    target_of: Mapping[int, Sharding]
    loops: Assignment | None
    readers: Sequence[int]
    """How many ops that have the same problem read each operand."""

    def splits(self) -> Iterator[tuple[Assignment, Extents]]:
        """The assignments, each with the extents that its factors may have, equal shards first."""
        known = [
            (dims, sharding)
            for dims, sharding in self._shardings_in_use()
            if sharding.offsets or sharding.halos
        ]
        for assignment in self.assignments():
            yield assignment, EQUAL
            if known:
                yield from ((assignment, each) for each in self._extents(assignment, known))

    def _extents(
        self, assignment: Assignment, known: Sequence[tuple[Dims, Sharding]]
    ) -> Iterator[Extents]:
        """The shards other than equal ones that the op can have, from the shardings in `known`."""
        offsets: dict[int, set[Sizes]] = {}
        halos = set()
        may_be_at = may_have_offsets(self.op.handle, self.rule)
        for dims, sharding in known:
            found = Extents.of([(dims, sharding)], self.rule.sizes)
            first = [dim[:1] for dim in dims]
            for factor, at in found.offsets:
                split = sharding.split_axes[first.index((factor,))]
                if factor in may_be_at and split == assignment[factor]:
                    offsets.setdefault(factor, {()}).add(at)
            if found.halos and all(assignment[factor] for factor, _ in found.halos):
                halos.add(found)
        choices = [sorted(each) for each in offsets.values()]
        for combination in product(*choices):
            chosen = [(factor, at) for factor, at in zip(offsets, combination, strict=True) if at]
            if chosen:
                yield Extents(offsets=tuple(chosen))
        if halos and may_have_halos(self.op.handle, self.rule):
            yield from sorted(halos, key=str)

    def assignments(self) -> Iterator[Assignment]:
        """The combinations of candidates that use no axis twice and have one kind of reduction."""
        if self.loops is not None:
            yield self.loops
            return
        candidates = self._candidates()
        if prod(map(len, candidates)) > MAX_COMBINATIONS:
            candidates = [[each[-1], ()] if each[-1] else [()] for each in candidates]
        for combination in product(*candidates):
            axes = [axis for each in combination for axis in each]
            kinds = {kind for factor, kind in self.rule.reductions if combination[factor]}
            if len(axes) == len(set(axes)) and len(kinds) <= 1:
                yield combination

    def _candidates(self) -> list[list[Axes]]:
        """The candidate splits of each factor, the longest last."""
        rule, grid = self.rule, self.grid
        axes_by_factor: list[set[Axes]] = [{()} for _ in rule.sizes]
        for factor, axes in self._splits_in_use():
            if factor in rule.unsplit:
                continue
            axes_by_factor[factor].update(_prefixes_that_divide(rule.sizes[factor], axes, grid))
            # Uneven shards only as a known sharding has them: a prefix that does not divide saves
            # no reshard.
            if factor in self.uneven:
                axes_by_factor[factor].add(axes)
        for value in self.op.results:
            if value in self.target_of and self.target_of[value].grid == grid.name:
                partial = self.target_of[value].partial
                for factor, _ in rule.reductions:
                    axes_by_factor[factor].update(
                        _prefixes_that_divide(rule.sizes[factor], partial, grid)
                    )
        if self.rule.is_product:
            self._split_instead({factor for factor, _ in rule.reductions}, axes_by_factor)
        self._split_instead(rule.exchanging, axes_by_factor)
        return [sorted(each, key=lambda axes: (len(axes), axes)) for each in axes_by_factor]

    def _split_instead(self, avoided: Set[int], axes_by_factor: list[set[Axes]]) -> None:
        """Add the axes of the factors in `avoided` to the others.

        Of a product the result is then split, not partial, and what is read through windows need
        not be exchanged.
        """
        rule, grid = self.rule, self.grid
        moved = {
            # One axis at a time: the candidates of the factors are multiplied with one another.
            axes[:1]
            for factor in avoided
            for axes in axes_by_factor[factor]
            if axes
        }
        for factor, size in enumerate(rule.sizes) if moved else ():
            if factor in rule.unsplit or factor in rule.reduction_of or factor in avoided:
                continue
            axes_by_factor[factor] |= {axes for axes in moved if size % grid.axes_size(axes) == 0}

    def _splits_in_use(self) -> Iterator[tuple[int, Axes]]:
        """Each factor with the axes that split it in an available or target sharding."""
        for dims, sharding in self._shardings_in_use():
            yield from self._axes_of_factors(dims, sharding)

    def _shardings_in_use(self) -> Iterator[tuple[Dims, Sharding]]:
        """The available and target shardings of each tensor, with the factors of its dimensions."""
        for value, dims in (
            *zip(self.op.operands, self.rule.windowed_operands, strict=True),
            *zip(self.op.results, self.rule.results, strict=True),
        ):
            if dims is None or value not in self.target_of:
                continue
            for sharding in (self.target_of[value], *self.resharded.shardings(value)):
                if sharding.grid == self.grid.name:
                    yield dims, sharding

    def _axes_of_factors(self, dims: Dims, sharding: Sharding) -> Iterator[tuple[int, Axes]]:
        """Each factor in `dims`, with the axes that split it, up to the first sub-axis."""
        for index, (dim, axes) in enumerate(zip(dims, sharding.split_axes, strict=True)):
            # A dimension of a reshape may be several factors, not all of whose splits can be told
            # apart; then the longest prefix that can be.
            for count in range(len(axes), 0, -1) if dim else ():
                offsets = sharding.offsets[index : index + 1] if count == len(axes) else ()
                split = Sharding(sharding.grid, (axes[:count],), offsets=offsets)
                try:
                    axes_by_factor = self.rule.factors_of((dim,), split, self.grid)
                except ShardingError:
                    continue
                for factor, each in axes_by_factor.items():
                    yield factor, tuple(takewhile(lambda axis: isinstance(axis, int), each))
                break

    def choice(self, assignment: Assignment, extents: Extents) -> Choice:
        """The shardings of the operands and results if the factors are split like this."""
        rule, grid = self.rule, self.grid
        carried, numbers = self._carried
        operands = [
            rule.operand_sharding(i, assignment, grid, extents) for i in range(len(rule.operands))
        ]
        results = tuple(
            rule.result_sharding(i, assignment, grid, extents) for i in range(len(rule.results))
        )
        if carried is not None:
            # Where the op sums along an axis, operands are split along it and not partial: the
            # result is partial along it all the same. They carry the other axes.
            made = {axis for factor in rule.reduction_of for axis in assignment[factor]}
            kept = carried.with_partial([axis for axis in carried.partial if axis not in made])
            results = tuple(with_partial_axes(each, kept) for each in results)
            for i in numbers:
                operands[i] = with_partial_axes(operands[i], kept)
        results = tuple(
            _in_order_of(self.target_of.get(value), each)
            for value, each in zip(self.op.results, results, strict=True)
        )
        late = []
        for result, number in enumerate(rule.inits):
            produced = results[result]
            if produced is None or not produced.partial:
                continue
            stays = self.target_of[self.op.results[result]].partial
            if stays or self.resharded.can_be_partial(self.op.operands[number], produced):
                operands[number] = produced  # else one device of a group takes it, masked
            else:
                operands[number] = None
                late.append((result, number, produced))
        return Choice(tuple(operands), results, tuple(late))

    @cached_property
    def _carried(self) -> tuple[Sharding | None, frozenset[int]]:
        """The partial target that the op makes of partial operands, and the numbers of these."""
        target = self.target_of.get(self.op.results[0]) if self.op.results else None
        partial = {
            number
            for number, value in enumerate(self.op.operands)
            if value in self.target_of and self.target_of[value].partial
        } - set(self.rule.inits)
        if target is None or not target.partial or not partial:
            return None, frozenset()
        numbers = carries(
            self.op.handle, self.rule, frozenset(partial), target.reduction, narrow=False
        )
        return (None, frozenset()) if numbers is None else (target, numbers)

    def price(self, assignment: Assignment, extents: Extents) -> tuple[float, int]:
        """The price of this choice's reshards and of its arithmetic, and how many tensors move.

        Operands from outside of a loop are resharded once, before it; all else in each of its
        turns. What reshards of an operand cost its readers share. Infinite if some reshard has no
        plan.
        """
        resharded = self.resharded
        try:
            choice = self.choice(assignment, extents)
            late = [(n, self.target_of[self.op.results[r]]) for r, n, _ in choice.late_inits]
            # A tensor that is read twice, as one that is joined with itself, is resharded once.
            wanted = {
                (self.op.operands[number], target): self.readers[number]
                for number, target in (*enumerate(choice.operands), *late)
                if target is not None
            }
            before = [
                resharded.price(value, target) * resharded.turns(value) / readers
                for (value, target), readers in wanted.items()
            ]
            inside: list[float] = [
                self._exchange(number, held, assignment)
                for number, held in enumerate(choice.operands)
                if self.rule.exchanging and held is not None
            ]
            inside += [
                resharded.plan(value, produced, self.target_of[value]).cost
                for value, produced in zip(self.op.results, choice.results, strict=True)
                if produced is not None
            ]
        except ShardingError:
            return inf, 0
        moved = sum(map(bool, (*before, *inside)))
        if self.rule.is_product:
            inside.append(self._work(assignment, choice))
        return sum(before) + sum(inside) * resharded.turns(), moved

    def _exchange(self, number: int, held: Sharding, assignment: Assignment) -> int:
        """The price of what devices send of an operand as a part of the op."""
        value = self.op.operands[number]
        shape, itemsize = self.resharded.shape(value), self.resharded.itemsize(value)
        sent = self.rule.exchanged(number, held, shape, assignment, self.grid)
        return self.resharded.prices.rounds(sent, itemsize, self.grid)

    def _work(self, assignment: Assignment, choice: Choice) -> float:
        """The price of the arithmetic of a product on one device."""
        values = (*self.op.operands, *self.op.results)
        kinds = [self.resharded.function.values[value].kind for value in values]
        touched = sum(
            sharding.local_elements(kind.shape, self.grid) * kind.itemsize
            for kind, sharding in zip(kinds, (*choice.operands, *choice.results), strict=True)
            if sharding is not None and kind.shape is not None
        )
        element = str(self.op.handle.results[0].type.element_type)
        flops = self.rule.flops(assignment, self.grid)
        return self.resharded.prices.work(flops, element, touched)


def _in_order_of(target: Sharding | None, produced: Sharding | None) -> Sharding | None:
    """`produced`, with its partial axes in the order that `target` has, if it has the same."""
    if target is None or produced is None or set(target.partial) != set(produced.partial):
        return produced
    return replace(produced, partial=target.partial)


def _prefixes_that_divide(size: int, axes: Axes, grid: Grid) -> Iterator[Axes]:
    """Each non-empty prefix of `axes` whose number of devices divides `size`."""
    for count in range(1, len(axes) + 1):
        if size % grid.axes_size(axes[:count]) == 0:
            yield axes[:count]


@dataclass(frozen=True, slots=True)
class Passed:
    """The sharding in which a tensor is sent, and that in which it arrives."""

    source: Sharding
    target: Sharding


Price = tuple[int, int, int]
"""The cost for the most loaded device, that for all, and the number of permutations."""
_RESHARDS, _LEAST, _PLAN = range(3)
"""What is in the price of a pair of shardings: the reshards, and what the transfer moves at least,
or by its plan."""


def choose_passed(
    places: tuple[Place, Place],
    resharded: ReshardedValues,
    op: Op,
    target_of: Mapping[int, Sharding],
) -> Passed:
    """The shardings for which the transfer and the reshards before and after it move least."""
    (value, *into), (result,) = op.operands, op.results
    at_source, at_target = places
    grid, itemsize = at_source.grid, resharded.itemsize(value)
    offsets, shapes = part_offsets(op.handle), [*map(resharded.shape, (value, result))]

    def around(passed: Passed) -> tuple[int, int]:
        """The costs of the reshards before the transfer, and of those after it."""
        after = sum(resharded.price(each, passed.target) for each in into)
        after += resharded.plan(result, passed.target, target_of[result]).cost
        return resharded.price(value, passed.source), after

    def sent(elements: Sequence[int]) -> int:
        return resharded.prices.rounds(elements, itemsize, grid)

    def price(moved: Moved, before: int, after: int) -> Price:
        most = before + sent(moved.most) + after
        total = before * at_source.size + sent(moved.messages) + after * at_target.size
        return most, total, moved.rounds

    pairs = list(_may_be_passed(places, resharded, op, target_of))
    costs = [around(each) for each in pairs]
    # The best first, by its price as far as that is known: that of the reshards, then with what a
    # transfer moves at least, then with that of its plan, which takes long to make.
    queue = [(price(Moved(), *each), _RESHARDS, number) for number, each in enumerate(costs)]
    heapify(queue)
    while True:
        _, known, number = heappop(queue)
        if known == _PLAN:
            return pairs[number]
        shardings = (pairs[number].source, pairs[number].target)
        source, target = (End(*end) for end in zip(shardings, places, offsets, strict=True))
        transfer = Transfer.between(source, target, *shapes)
        moved = moved_at_least(transfer) if known == _RESHARDS else plan_transfer(transfer).moved
        groups = grid.size // transfer.source.place.grid.size
        moved = replace(moved, messages=tuple(groups * each for each in moved.messages))
        heappush(queue, (price(moved, *costs[number]), known + 1, number))


def _may_be_passed(
    places: tuple[Place, Place],
    resharded: ReshardedValues,
    op: Op,
    target_of: Mapping[int, Sharding],
) -> Iterator[Passed]:
    """The candidates, of which the first is taken of those that cost as much: unsharded last."""
    (value, *into), (result,) = op.operands, op.results
    at_source, at_target = places
    had = target_of[value]
    sources = [
        _allowed(each, at_source)
        for known in (had, *resharded.shardings(value))
        for each in (known.bare, *_scattered(known.bare))
    ]
    values = (result, value, *(each for each in into if each in target_of))
    targets = [
        _allowed(each, at_target)
        for known in (target_of[each].bare for each in values)
        for each in (known, *_split_further(_allowed(known, at_target), at_target))
    ]
    unsharded = Sharding.replicated(at_source.grid.name, had.rank)
    for source in dict.fromkeys((*sources, unsharded)):
        for target in dict.fromkeys((*targets, unsharded)):
            yield Passed(source, target)


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
