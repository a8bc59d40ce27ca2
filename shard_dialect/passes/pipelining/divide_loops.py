"""Divide the loops over layers into loops over the layers of each part of a pipeline.

    %0:3 = stablehlo.while(%i = 0, %h = %x, %s = zeros)         four trips
      %w = dynamic_slice %ws, %i, ...                           read row %i of the weights,
      %s' = dynamic_update_slice %s, %h, %i                     write row %i of what is kept

      becomes, for two parts

    %a = slice %ws [0:2]
    %1:3 = stablehlo.while(%i = 0, %h = %x, %s = zeros)         two trips, of two rows
    %b = slice %ws [2:4]
    %2:3 = stablehlo.while(%i = 2, %h = %1#1, %s = zeros)       two trips, of rows %i - 2
    %s = dynamic_update_slice zeros, %1#2, 0, and then %2#2, 2

A **stack** is a tensor of which a loop only reads and writes rows that are known in each trip. Each
part of the loop gets the rows that its trips need. A sum that a loop adds up begins as zero in
each part, and the sums of all parts are added up after them. All else is carried from part to part.
So a stage has its own rows of the stacks, as if its layers were unrolled, and the text does not
grow with layers.

The trips of the forward pass are divided so that parts have about as many operations of products;
those of the backward pass where they read rows of stacks that the forward pass has in another part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, compress, pairwise

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import drop_unused, replace_op, replace_values
from shard_dialect.ir.numbered_function import captured, read_function
from shard_dialect.ir.reading.constants import Counter, counter_of, runs_in
from shard_dialect.ir.walk import body, operations, source_behind, walk
from shard_dialect.model import Grid
from shard_dialect.ops.op_table import rule_of
from shard_dialect.passes.pipelining.batch_types import BatchTypes
from shard_dialect.passes.pipelining.unroll_loops import (
    SLICE,
    UPDATE,
    fold_counters,
    integer_constant,
    number_in,
    unroll,
    written,
)

BARRIER = "stablehlo.optimization_barrier"
LOOPS = ("scf.for", "stablehlo.while")
_WHILE = "stablehlo.while"
_REPEATS = ("stablehlo.broadcast_in_dim", "stablehlo.reshape")
_ONE_DEVICE = Grid("one", ())
Rows = Sequence[tuple[int, int]]
"""By trip, or by part: the first row that is read or written, and the one after the last."""


def flops_in(op: ir.Operation) -> float:
    """The floating-point operations of products that an op does, with those of its regions."""
    total = _flops(op)
    return (
        total + sum(each.times * _flops(each.op) for each in runs_in(op))
        if len(op.regions)
        else total
    )


def _flops(op: ir.Operation) -> float:
    rule = rule_of(op)
    return rule.flops(((),) * len(rule.sizes), _ONE_DEVICE) if rule else 0


@dataclass
class _Loop:
    """A loop of known trips, and how it uses what it reads and carries."""

    op: ir.Operation
    counter: Counter
    index: _Index
    stacks: dict[ir.Value, Rows] = field(default_factory=dict)
    """The rows of each trip of a tensor from outside; of one that is carried, by its result."""
    carried: dict[int, ir.Value] = field(default_factory=dict)
    """By the place of each stack that is carried, its result."""
    sums: set[int] = field(default_factory=set)
    """The places of what each trip adds to, and nothing else reads."""
    chains: dict[int, list[ir.Value]] = field(default_factory=dict)
    """By the place of a stack: its argument, and what updates make of it in turn."""

    @classmethod
    def of(cls, op: ir.Operation, counter: Counter) -> _Loop:
        """Read a loop."""
        loop = cls(op, counter, _Index(op, counter))
        uses: dict[ir.Value, list[tuple[ir.Operation, int]]] = {}
        inside = walk(op)
        for inner in inside:
            for number, value in enumerate(inner.operands):
                uses.setdefault(value, []).append((inner, number))
        made = {value for inner in inside for value in inner.results}
        blocks = [b for each in (op, *inside) for region in each.regions for b in region.blocks]
        made.update(value for block in blocks for value in block.arguments)
        index = loop.index
        for value, users in uses.items():
            if value not in made:
                rows = index.rows(value, users)
                if rows is not None:
                    loop.stacks[value] = rows
        test, inner_body = (region.blocks[0] for region in op.regions)
        end = operations(inner_body)[-1]
        for place, argument in enumerate(inner_body.arguments):
            if place == counter.place or uses.get(test.arguments[place]):
                continue
            loop._read_carried(place, argument, end, uses)
        return loop

    def _read_carried(
        self,
        place: int,
        argument: ir.Value,
        end: ir.Operation,
        uses: Mapping[ir.Value, Sequence[tuple[ir.Operation, int]]],
    ) -> None:
        value, users = end.operands[place], uses.get(argument, ())
        if not isinstance(value.owner, ir.Block) and value.owner.name == "stablehlo.add":
            maker = value.owner.operation
            # Each part begins a sum at zero, so no trip may read what those before have added up.
            is_alone = [user for user, _ in users] == [maker] and len(uses[value]) == 1
            if is_alone and maker.block == end.block:
                self.sums.add(place)
                return
        chain = [argument]
        readers: list[tuple[ir.Operation, int]] = []
        for each in chain:
            for user, number in uses.get(each, ()):
                if user == end and number == place:
                    continue
                readers.append((user, number))
                if user.name == UPDATE and number == 0 and user.block == end.block:
                    chain.append(user.results[0])
        is_updated = value in chain and len(chain) > 1
        rows = self.index.rows(argument, readers, chain) if is_updated else None
        if rows is not None:
            result = self.op.results[place]
            self.stacks[result], self.carried[place] = rows, result
            self.chains[place] = chain

    def known(self, trip: int) -> dict[int, int]:
        """By place, the integers that are carried to a trip, where constants decide these."""
        known = self.index.trips[trip]
        arguments = self.op.regions[1].blocks[0].arguments
        return {
            place: known[each]
            for place, each in enumerate(arguments)
            if each in known and place != self.counter.place and place not in self.sums
        }

    def part(self, begin: int, end: int, stack: ir.Value) -> tuple[int, int]:
        """The rows of a stack that some trips need."""
        rows = self.stacks[stack][begin:end]
        return min(first for first, _ in rows), max(past for _, past in rows)


@dataclass
class _Index:
    """Finds the rows that the ops in a loop use in each trip."""

    op: ir.Operation
    counter: Counter
    known: dict[ir.Value, list[int] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.trips = list(self._trips())
        """In each trip, the integers that the body's arguments are."""

    def _trips(self) -> Iterator[dict[ir.Value, int]]:
        block = self.op.regions[1].blocks[0]
        ends = operations(block)[-1].operands
        given = zip(block.arguments, self.op.operands, strict=True)
        now = {each: n for each, init in given if (n := number_in(init, {})) is not None}
        for _ in range(self.counter.trips):
            yield now
            after = zip(block.arguments, ends, strict=True)
            made = ((each, number_in(end, now)) for each, end in after if each in now)
            now = {each: number for each, number in made if number is not None}

    def rows(
        self,
        stack: ir.Value,
        users: Sequence[tuple[ir.Operation, int]],
        chain: Collection[ir.Value] = (),
    ) -> Rows | None:
        """By trip, the rows of a tensor that all its users need; `None` if it is not known.

        Of updates, `chain` has the results. Another one makes a tensor of all rows, so needs them.
        """
        type_ = stack.type
        if not isinstance(type_, ir.RankedTensorType) or not type_.rank or not users:
            return None
        found: list[list[tuple[int, int]]] = []
        for user, number in users:
            is_slice = user.name == SLICE
            is_update = user.name == UPDATE and user.results[0] in chain
            if number or not (is_slice or is_update):
                return None
            start = user.operands[1 if is_slice else 2]
            size = (user.results[0] if is_slice else user.operands[1]).type.shape[0]
            numbers = self.numbers(start)
            if numbers is None or size == type_.shape[0]:
                return None
            # StableHLO moves a slice back into the tensor: of 4 rows, 2 at 3 are rows 2 and 3.
            firsts = [min(max(each, 0), type_.shape[0] - size) for each in numbers]
            found.append([(first, first + size) for first in firsts])
        return [
            (min(first for first, _ in each), max(past for _, past in each))
            for each in zip(*found, strict=True)
        ]

    def numbers(self, value: ir.Value) -> list[int] | None:
        """The integer that a value is in each trip, if constants decide it."""
        if value not in self.known:
            found = [number_in(value, each) for each in self.trips]
            numbers = [each for each in found if each is not None]
            self.known[value] = numbers if len(numbers) == len(found) else None
        return self.known[value]


def divide_loops(
    function: ir.Operation, batched: Collection[int], count: int, parts: int | None
) -> None:
    """Divide the loops of a function of one block that read its `batched` arguments, in place.

    Each of `count` microbatches goes through `parts` parts; without a number, loops over layers are
    unrolled. So are loops that no microbatch can run alone. A loop of unknown trips stays. Raises a
    located `ShardError` for one of more than `MOST` trips that is unrolled. Weights that a barrier
    orders after a microbatch are taken out of it: they are there before all.
    """
    loops = _narrow_barriers(function, batched)
    layers = [each for each in loops if parts is not None and each[0].name == _WHILE]
    for op, counter in loops:
        if (op, counter) not in layers:
            unroll(op, counter)
    if parts is not None:
        _divide_layers(function, layers, parts)
    if loops:
        fold_counters(function)
        _drop_whole(function)
    while (found := _unsplit_loop(function, batched, count)) is not None:
        unroll(*found)
        fold_counters(function)


def _divide_layers(
    function: ir.Operation, loops: Sequence[tuple[ir.Operation, Counter]], parts: int
) -> None:
    read = []
    for op, counter in loops:
        its = _without_unchanged(op, counter)
        _add_in_place(its[0])
        _write_known(*its)
        read.append(_Loop.of(*its))
    for loop, cuts in zip(read, _cuts(function, read, parts), strict=True):
        # What it reads may be what parts of another loop have made since.
        _divide(_Loop.of(loop.op, loop.counter), cuts)


def _drop_whole(function: ir.Operation) -> None:
    """Drop stacks of which only the parts are read."""
    ops = reversed(operations(body(function)))
    drop_unused(op for op in ops if op.name in (UPDATE, "stablehlo.slice"))


def _narrow_barriers(
    function: ir.Operation, batched: Collection[int]
) -> list[tuple[ir.Operation, Counter]]:
    """Take weights out of barriers; returns the loops of known trips that read the batch."""
    block = body(function)
    depends = {block.arguments[number] for number in batched if number < len(block.arguments)}
    loops = []
    for op in operations(block):
        if depends.isdisjoint([*op.operands, *captured(op)]):
            continue
        if op.name == BARRIER:
            kept = [value in depends for value in op.operands]
            depends.update(compress(op.results, kept))
            if not all(kept):
                made = _narrow(op, kept)
                depends.update(made)
            continue
        if op.name in LOOPS and (counter := counter_of(op)) is not None:
            loops.append((op, counter))
        depends.update(op.results)
    return loops


def _unsplit_loop(
    function: ir.Operation, batched: Collection[int], count: int
) -> tuple[ir.Operation, Counter] | None:
    """The first loop of known trips that no microbatch can run alone."""
    types = BatchTypes(read_function(function), Grid("microbatches", (count,)))
    refused = types.first_refused(batched)
    if refused is None or refused[0].name not in LOOPS:  # `split_batch` refuses what is no loop
        return None
    loop = refused[0].handle
    counter = counter_of(loop)
    return None if counter is None else (loop, counter)


def _narrow(barrier: ir.Operation, kept: Sequence[bool]) -> Sequence[ir.Value]:
    """Let a barrier order only operands that are `kept`; others are what they were before it."""
    values = list(compress(barrier.operands, kept))
    with ir.InsertionPoint(barrier), barrier.location:
        made = list(build.create(BARRIER, [each.type for each in values], values).results)
    new = iter(made)
    both = zip(barrier.operands, kept, strict=True)
    replace_op(barrier, *(next(new) if is_kept else each for each, is_kept in both))
    return made


def _without_unchanged(loop: ir.Operation, counter: Counter) -> tuple[ir.Operation, Counter]:
    """The loop, anew, without what it carries unchanged; what it counts is known after it."""
    test, inner = (region.blocks[0] for region in loop.regions)
    end = operations(inner)[-1]
    kept = [end.operands[at] != argument for at, argument in enumerate(inner.arguments)]
    dropped = [at for at, is_kept in enumerate(kept) if not is_kept]
    for at in dropped:
        for value in (test.arguments[at], inner.arguments[at], loop.results[at]):
            value.replace_all_uses_with(loop.operands[at])
    with ir.InsertionPoint(loop), loop.location:
        past = integer_constant(loop.results[counter.place].type, counter.past)
    loop.results[counter.place].replace_all_uses_with(past)
    if not dropped:
        return loop, counter
    old = [result for at, result in enumerate(loop.results) if kept[at]]
    new = build.without_carried(loop, dropped, list(loop.operands))
    replace_values(old, new.results)
    loop.erase()
    found = counter_of(new)
    assert found is not None, "the trips of the loop were known"
    return new, found


def _add_in_place(loop: ir.Operation) -> None:
    """Let a loop add to rows of what it carries, where it adds rows in zeros of their own.

    %a = dynamic_update_slice zeros, %g, %i        %a = dynamic_slice %sum, %i
    %b = add %sum, %a                              %b = dynamic_update_slice %sum, %a + %g, %i
    """
    inner = loop.regions[1].blocks[0]
    end = operations(inner)[-1]
    for argument, value in zip(inner.arguments, end.operands, strict=True):
        if isinstance(value.owner, ir.Block) or value.owner.name != "stablehlo.add":
            continue
        total = value.owner.operation
        others = [each for each in total.operands if each != argument]
        update = others[0].owner if len(others) == 1 else None
        if update is None or isinstance(update, ir.Block) or update.name != UPDATE:
            continue
        zeros, part, *at = update.operands
        if isinstance(zeros.owner, ir.Block) or not reductions.is_identity(
            "sum", source_behind(zeros, *_REPEATS)
        ):
            continue
        with ir.InsertionPoint(total), total.location:
            before = hlo.dynamic_slice(argument, at, part.type.shape)
            made = hlo.dynamic_update(argument, hlo.elementwise("add", before, part), at)
        replace_op(total, made)
        drop_unused([update.operation])


def _write_known(loop: ir.Operation, counter: Counter) -> None:
    """Let those after a loop read constants for the integers that it writes, one in each trip."""
    index = _Index(loop, counter)
    inner = loop.regions[1].blocks[0]
    ends = operations(inner)[-1].operands
    for argument, value, result in zip(inner.arguments, ends, loop.results, strict=True):
        if isinstance(value.owner, ir.Block) or value.owner.name != UPDATE:
            continue
        into, part, *at = value.owner.operands
        type_ = result.type
        if (
            into != argument
            or type_.rank != 1
            or not isinstance(type_.element_type, ir.IntegerType)
        ):
            continue
        numbers, places = index.numbers(part), index.numbers(at[0])
        is_signless = type_.element_type.is_signless and type_.element_type.width > 1
        if list(part.type.shape) != [1] or numbers is None or places is None or not is_signless:
            continue
        if sorted(set(places)) == list(range(type_.shape[0])):
            written_at = dict(zip(places, numbers, strict=True))
            elements = [written_at[each] for each in sorted(written_at)]
            with ir.InsertionPoint(loop), loop.location:
                result.replace_all_uses_with(hlo.integers(elements, type_.element_type))


def _cuts(function: ir.Operation, loops: Sequence[_Loop], parts: int) -> list[list[int]]:
    """For each loop, the trips at which parts begin and end."""
    owners: dict[ir.Value, int] = {}
    linked: list[int | None] = []
    for number, loop in enumerate(loops):
        linked.append(min((owners[each] for each in loop.stacks if each in owners), default=None))
        for each in loop.stacks:
            owners.setdefault(each, number)
    cuts: list[list[int]] = []
    by_flops = iter(_by_flops(function, loops, linked, parts))
    for loop, link in zip(loops, linked, strict=True):
        cuts.append(next(by_flops) if link is None else _as_divided(loop, loops[link], cuts[link]))
    return cuts


def _by_flops(
    function: ir.Operation, loops: Sequence[_Loop], linked: Sequence[int | None], parts: int
) -> list[list[int]]:
    """The cuts of the loops of the forward pass, by their share of its work."""
    own = {loop.op: loop for loop, link in zip(loops, linked, strict=True) if link is None}
    backward = [loop.op for loop, link in zip(loops, linked, strict=True) if link is not None]
    ops = operations(body(function))
    if backward:
        ops = ops[: ops.index(backward[0])]
        ops = ops[: _until_all_are_used(ops, body(function).arguments)]
    work = [flops_in(op) for op in ops]
    done = [0.0, *accumulate(work)]
    bounds = [done[-1] * part / parts for part in range(1, parts)]
    # A loop stays whole that comes after the backward pass has begun, or after what is counted.
    found = {op: sorted({0, loop.counter.trips}) for op, loop in own.items()}
    for number, op in enumerate(ops):
        if op not in own:
            continue
        trips = own[op].counter.trips
        inside = [each for each in bounds if done[number] < each < done[number + 1]]
        at = [round((each - done[number]) / work[number] * trips) for each in inside]
        if inside and len(inside) == parts - 1:
            at = _evenly(
                at,
                trips,
                done[number] / work[number] * trips,
                (done[-1] - done[number + 1]) / work[number] * trips,
            )
        found[op] = sorted({0, trips, *at})
    return [found[op] for op in own]


def _until_all_are_used(ops: Sequence[ir.Operation], arguments: Sequence[ir.Value]) -> int:
    """The number of ops until the last argument is used for the first time, as stages have it."""
    unused, count = set(arguments), 0
    loops = [op for op in ops if op.name in LOOPS]
    for number, op in enumerate(ops, 1):
        new = unused.intersection([*op.operands, *captured(op)])
        unused -= new
        count = number if new or op in loops else count
    return count


def _evenly(cuts: list[int], trips: int, before: float, after: float) -> list[int]:
    """Cuts into parts of one size, as the rows of stacks are divided, if no part has more work.

    `before` and `after` are what is done before and after the loop, in trips.
    """
    size = -(-trips // (len(cuts) + 1))
    even = [size * part for part in range(1, len(cuts) + 1)]

    def most(cuts: Sequence[int]) -> float:
        sizes = [float(b - a) for a, b in pairwise([0, *cuts, trips])]
        sizes[0] += before
        sizes[-1] += after
        return max(sizes)

    return even if even[-1:] < [trips] and most(even) <= most(cuts) else cuts


def _as_divided(loop: _Loop, other: _Loop, cuts: Sequence[int]) -> list[int]:
    """Cuts where the loop comes to the rows of another part of a loop that is divided."""
    shared = [stack for stack in loop.stacks if stack in other.stacks]
    stack = next((each for each in shared if each in other.carried.values()), shared[0])
    rows = [other.part(a, b, stack) for a, b in pairwise(cuts)]

    def part(trip: int) -> int:
        first, past = loop.stacks[stack][trip]
        inside = (n for n, (a, b) in enumerate(rows) if a <= first and past <= b)
        return next(inside, -1)

    # A trip that needs rows of two parts is in neither, so it becomes a part of its own.
    of_trip = list(map(part, range(loop.counter.trips)))
    changes = [at for at, (a, b) in enumerate(pairwise(of_trip), 1) if a != b]
    return sorted({0, *changes, loop.counter.trips})  # a loop of no trips has no parts


def _divide(loop: _Loop, cuts: Sequence[int]) -> None:
    """Replace a loop by loops of its parts."""
    op, now = loop.op, list(loop.op.operands)
    for begin, end in pairwise(cuts):
        with ir.InsertionPoint(op), op.location:
            now = _part(loop, begin, end, now)
    replace_op(op, *now)


def _part(loop: _Loop, begin: int, end: int, now: Sequence[ir.Value]) -> list[ir.Value]:
    """Write a loop of some trips at the insertion point; what is carried then."""
    rows = {stack: loop.part(begin, end, stack) for stack in loop.stacks}
    counter, place = loop.counter, loop.counter.place
    number = loop.op.operands[place].type
    starts, past = (
        integer_constant(number, counter.first + at * counter.step) for at in (begin, end)
    )
    inits = list(now)
    inits[place] = starts
    for at, result in loop.carried.items():
        inits[at] = _rows_of(now[at], *rows[result])
    # Other counters begin as constants, too, as from these the rows of trips are found.
    for at, each in loop.known(begin).items():
        inits[at] = integer_constant(now[at].type, each)
    for at in loop.sums:
        inits[at] = hlo.additive_identity(now[at].type)
    taken = {
        stack: _rows_of(stack, *rows[stack])
        for stack in loop.stacks
        if stack not in loop.carried.values()
    }
    copy = loop.op.clone().operation
    _take_rows(loop, copy, rows, taken)
    for at, value in enumerate(inits):
        copy.operands[at] = value
    test = copy.regions[0].blocks[0]
    last = operations(test)[-1]
    with ir.InsertionPoint(last):
        bound = integer_constant(number, counter.first + end * counter.step)
        last.operands[0] = hlo.compare("LT", test.arguments[place], bound)
    made = list(copy.results)
    made[place] = past
    for at, result in loop.carried.items():
        index = hlo.tensor([], build.integer(32))
        first = [
            hlo.number(each, index) for each in (rows[result][0], *(0,) * (made[at].type.rank - 1))
        ]
        made[at] = hlo.dynamic_update(now[at], made[at], first)
    for at in loop.sums:
        made[at] = hlo.elementwise("add", now[at], made[at])
    if end - begin == 1:
        its = counter_of(copy)
        assert its is not None, "the trips of a part are known"
        # What has been made of the results reads what the one trip makes.
        old = list(copy.results)
        places = [old.index(each) if each in old else None for each in made]
        kept = unroll(copy, its)
        made = [each if at is None else kept[at] for at, each in zip(places, made, strict=True)]
    return made


def _take_rows(
    loop: _Loop,
    copy: ir.Operation,
    rows: Mapping[ir.Value, tuple[int, int]],
    taken: Mapping[ir.Value, ir.Value],
) -> None:
    """Let a copy of a loop use its rows of the stacks, counted from the first one."""
    firsts: dict[ir.Value, int] = {}
    for stack, part in taken.items():
        firsts[part] = rows[stack][0]
    copies = dict(_both(loop.op, copy))
    for place, chain in loop.chains.items():
        # An update has the type of the stack that it updates: all in the chain get fewer rows.
        first, past = rows[loop.carried[place]]
        type_ = chain[0].type
        box = build.resized(type_, [past - first, *type_.shape[1:]])
        test = copy.regions[0].blocks[0].arguments[place]
        for value in (test, copy.results[place], *(copies[each] for each in chain)):
            value.set_type(box)
            firsts[value] = first
    inner = [each for each in walk(copy) if each != copy]
    for each in inner:
        for number, value in enumerate(each.operands):
            if value in taken:
                each.operands[number] = taken[value]
    for each in inner:
        if each.name in (SLICE, UPDATE) and firsts.get(each.operands[0]):
            at = 1 if each.name == SLICE else 2
            with ir.InsertionPoint(each), each.location:
                first = integer_constant(each.operands[at].type, firsts[each.operands[0]])
                each.operands[at] = hlo.elementwise("subtract", each.operands[at], first)


def _both(op: ir.Operation, copy: ir.Operation) -> Iterator[tuple[ir.Value, ir.Value]]:
    """The values in the regions of an op, each with that in a copy of the op."""
    for region, other in zip(op.regions, copy.regions, strict=True):
        for block, other_block in zip(region.blocks, other.blocks, strict=True):
            yield from zip(block.arguments, other_block.arguments, strict=True)
            for inner, other_inner in zip(operations(block), operations(other_block), strict=True):
                yield from zip(inner.results, other_inner.results, strict=True)
                yield from _both(inner, other_inner)


def _rows_of(stack: ir.Value, first: int, past: int) -> ir.Value:
    """Rows of a tensor; those that were written as a part are that part."""
    while (found := written(stack)) is not None:
        update, at = found
        begin, end = at[0], at[0] + update.type.shape[0]
        is_whole = list(update.type.shape[1:]) == list(stack.type.shape[1:])
        if (begin, end) == (first, past) and is_whole:
            return update
        if first < end and begin < past:
            break
        stack = stack.owner.operands[0]
    element = source_behind(stack, *_REPEATS)
    repeated = build.splat_value(element) or build.constant_value(element)
    if isinstance(repeated, ir.FloatAttr | ir.IntegerAttr):
        return hlo.splat(repeated, build.resized(stack.type, [past - first, *stack.type.shape[1:]]))
    return hlo.slice_along(stack, 0, first, past - first)
