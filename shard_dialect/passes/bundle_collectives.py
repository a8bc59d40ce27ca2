"""Join collectives of the local form: what is bundled is started once, and waited for once.

`bundle-collectives` joins small all-reduces that do not depend on each other into one.

    %2 = shard.all_reduce %0 : tensor<4xf32>
    %3 = shard.all_reduce %1 : tensor<2x3xf32>
      becomes
    %a = tensor.concat dim(0) %0, (collapsed) %1 : tensor<10xf32>
    %b = shard.all_reduce %a : tensor<10xf32>
    %2, %3 = slices of %b, in their shapes

The bytes moved are the same, and latency is saved. With `gathers`, permutations are joined
likewise, and so are all-gathers, reduce-scatters and all-to-alls, whichever dimensions they are
along: in a bundle, the elements for each device of the group are a row. A few ops that use one of
them are moved after the others. Two all-to-alls that follow on each
other, along other axes, become one among the devices along all of these axes, which moves fewer
bytes:

    %1 = shard.all_to_all %0 along axis 0     each device sends 1/2 of its shard, and then 3/4
    %2 = shard.all_to_all %1 along axis 1
      becomes
    %a = the slices of %0 for each device of both axes, in a dimension of their own
    %b = shard.all_to_all %a along axes 0, 1  each sends 7/8
    %2 = the slices of %b in their places

Permutations are joined with what comes after them (`joined_permutations`). Those that do not depend
on each other share rounds (`shared_rounds`), which moves fewer bytes where devices are free in some
of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from shard_dialect.collectives import AllToAll, LocalStep
from shard_dialect.ir.bindings import ir, spelled
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import itemsize
from shard_dialect.ir.shard.local_collectives import is_local, read_local, write_local
from shard_dialect.ir.walk import is_made_by, operations, walk
from shard_dialect.ops import is_cheap
from shard_dialect.ops.op_table import traits_of
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.passes.framework.base import Pass, known, needs, ops_of
from shard_dialect.passes.joined_permutations import PERMUTE, join_permutations
from shard_dialect.passes.shared_rounds import Group


def blocks_of(
    function: ir.Operation, is_relevant: Callable[[ir.Operation], bool]
) -> list[ir.Block]:
    """The blocks, also of loops and branches, that hold an op that `is_relevant`."""
    blocks: list[ir.Block] = []
    for op in walk(function):
        if is_relevant(op) and op.block not in blocks:
            blocks.append(op.block)
    return blocks


def defined_at(order: Sequence[ir.Operation]) -> dict[ir.Value, int]:
    """For each value that `order`, the ops of a block, defines, the position of the op."""
    return {result: position for position, op in enumerate(order) for result in op.results}


def first_use_at(order: Sequence[ir.Operation]) -> dict[ir.Value, int]:
    """For each value, the position of the first op of `order` that uses it, also in regions."""
    needed: dict[ir.Value, int] = {}
    for position, op in enumerate(order):
        for inner in (op, *walk(op)):
            for operand in inner.operands:
                needed.setdefault(operand, position)
    return needed


_GATHER, _SCATTER, _REDUCE = "shard.all_gather", "shard.reduce_scatter", "shard.all_reduce"
_EXCHANGE = "shard.all_to_all"
_ALL = (_SCATTER, _REDUCE, PERMUTE, _EXCHANGE, _GATHER)
"""In an order in which what one makes is often the operand of a later one."""
_ALONG = {
    _GATHER: ("gather_axis",),
    _SCATTER: ("scatter_axis",),
    _EXCHANGE: ("split_axis", "concat_axis"),
}


@needs(ops=_ALL, forms=("local",))
@dataclass(frozen=True)
class BundleCollectives(Pass):
    """Join small all-reduces, all-to-alls that follow on each other, and permutations."""

    name = "bundle-collectives"

    bytes: int = 65536
    """The largest number of bytes of one bundle."""
    gathers: bool = False
    """Join gathers, all-to-alls and the like, too, which takes copies, and pays where devices are
    processes. A bundle of over 256 KiB holds at most a 16th of the bytes at the boundary."""

    def rewrite(self, module: ir.Operation) -> None:
        """Bundle the collectives of each function in the local form."""
        shardings = Shardings.of(module)
        kinds = known(module, ops_of)
        for handle in functions_of(module, "local"):
            for op in walk(handle) if _EXCHANGE in kinds else ():
                if op.name == _EXCHANGE:
                    _join_exchanges(op, shardings)
            if PERMUTE in kinds:
                join_permutations(handle, shardings)
            for block in _blocks_with(handle, PERMUTE) if PERMUTE in kinds else ():
                _share_rounds(block)
            most = min(self.bytes, _fitting(handle)) if self.gathers else self.bytes
            joined = _ALL if self.gathers else (_REDUCE,)
            for kind in (each for each in joined if each in kinds):
                for block in _blocks_with(handle, kind):
                    if self.gathers:
                        _delay_uses(block, kind, most)
                    for bundle in list(_bundles(block, kind, most, _key)):
                        _join(bundle)


def _fitting(function: ir.Operation) -> int:
    """The bytes of a bundle that takes little memory beside what the function is called with.

    There are copies of it, what is gathered early waits for its use, and what is scattered late for
    the other members.
    """
    type_ = function.attributes["function_type"].value
    tensors = [each for each in (*type_.inputs, *type_.results) if hasattr(each, "element_type")]
    held = sum(
        prod(each.shape) * itemsize(each.element_type) for each in tensors if each.has_static_shape
    )
    return int(max(_WORTH_WAITING, held // _SHARE))


_SHARE = 16
"""Into how many bundles the arguments and results of a function would fit."""
_WORTH_WAITING = 1 << 18
"""The bytes whose transfer takes about as long as ranks wait for each other."""


@dataclass(frozen=True)
class _Member:
    """A collective, its position, and those of its operand's definition and its first use."""

    op: ir.Operation
    position: int
    ready: int
    needed: int
    before: Sequence[int] = ()
    """The positions of the ops that compute the operand of arguments, which may be done earlier."""
    after: Sequence[int] = ()
    """Of those that compute of the result what is returned, which may be done later."""

    def feeds(self, other: _Member) -> bool:
        """Whether the result is the operand of `other`."""
        return bool(self.op.results[0] == other.op.operands[0])


@dataclass
class Bundle:
    """Collectives that become one, before `at`: the first op that uses one of them.

    What scatters is smaller afterwards: that is done as soon as all operands are there.
    """

    members: list[_Member]
    at: ir.Operation
    before: Sequence[ir.Operation] = ()
    """Ops that compute operands, and are moved there."""
    after: Sequence[ir.Operation] = ()
    """Ops that read results, likewise."""

    def move_operands(self) -> None:
        """Let operands be computed first; another bundle may have them computed earlier still."""
        for op in self.before:
            if self.at.is_before_in_block(op):
                op.move_before(self.at)

    def move_uses(self) -> None:
        """Let results be read last; another bundle may have them read later still."""
        for op in self.after:
            if op.is_before_in_block(self.at):
                op.move_before(self.at)


def _blocks_with(function: ir.Operation, kind: str) -> list[ir.Block]:
    return blocks_of(function, lambda op: op.name == kind)


def _bundles(
    block: ir.Block, kind: str, most: int, key_of: Callable[[ir.Operation], object]
) -> Iterator[Bundle]:
    """The collectives of a block that can become one, in bundles of up to `most` bytes.

    Those of one bundle have one key. Greedily add to each collective the later ones that are ready
    before the bundle is needed.
    """
    order = list(operations(block))
    left = _members(order, kind, most)
    while left:
        first, *rest = left
        bundle, size, needed, left = [first], _bytes(first.op), first.needed, []
        latest, key = first.ready, key_of(first.op)
        for each in rest:
            soonest = min(needed, each.needed)
            joins = size + _bytes(each.op) <= most and key_of(each.op) == key
            # The bundle runs right before the first use of any member: by then all operands must be
            # there, and none is another member's result.
            reduced = any(member.position == each.ready for member in bundle)
            if joins and not reduced and max(latest, each.ready) < soonest:
                bundle.append(each)
                size, needed = size + _bytes(each.op), soonest
                latest = max(latest, each.ready)
            else:
                left.append(each)
        if len(bundle) > 1:
            at = latest + 1 if kind == _SCATTER else needed
            before = sorted({each for member in bundle for each in member.before if each >= at})
            after = sorted(each for member in bundle for each in member.after if each < at)
            moved = ([order[each] for each in positions] for positions in (before, after))
            yield Bundle(bundle, order[at], *moved)
            left = [
                each
                for each in left
                if not any(each.feeds(member) or member.feeds(each) for member in bundle)
            ]


def _members(order: Sequence[ir.Operation], kind: str, most: int) -> list[_Member]:
    """The small collectives of a kind among the ops of a block, if there are several."""
    if sum(op.name == kind and _may_join(op, most) for op in order) < 2:
        return []
    defined, first_use = defined_at(order), first_use_at(order)
    found = []
    for position, op in enumerate(order):
        if op.name == kind and op.results[0] in first_use and _may_join(op, most):
            ready, needed = defined.get(op.operands[0], -1), first_use[op.results[0]]
            before: Sequence[int] = ()
            after: Sequence[int] = ()
            if kind == _SCATTER:
                after = _until_returned(op.results[0], order, defined)
                needed = len(order) - 1 if after else needed
            else:
                before = _of_arguments(op.operands[0], order, defined)
                ready = -1 if before else ready
            found.append(_Member(op, position, ready, needed, before, after))
    return found


_MOST_MOVED = 8
"""The most ops that are moved for one collective."""


def _delay_uses(block: ir.Block, kind: str, most: int) -> None:
    """Move the few ops that use collectives of a kind after the next ones that can join them."""
    group: list[ir.Operation] = []
    since: list[ir.Operation] = []  # the ops from the group's first collective on, in order
    for op in list(operations(block)):
        if op.name != kind or not _may_join(op, most):
            since.append(op)
            continue
        fits = sum(map(_bytes, (*group, op))) <= most
        moved = _uses(group, since, op) if group and fits and _key(op) == _key(group[0]) else None
        if moved is None:
            group, since, moved = [], [], []
        for each in reversed(moved):
            each.move_after(op)
        group.append(op)
        since = [*(each for each in since if each not in moved), op, *moved]


def _uses(
    group: Sequence[ir.Operation], since: Sequence[ir.Operation], last: ir.Operation
) -> list[ir.Operation] | None:
    """The ops before `last` that depend on a group; none if they cannot come after it."""
    known = {result for op in group for result in op.results}
    found: list[ir.Operation] = []
    for op in (*since, last):
        if known.isdisjoint(each for inner in (op, *walk(op)) for each in inner.operands):
            continue
        found.append(op)
        if len(found) > _MOST_MOVED * len(group) or op == last or not _may_wait(op):
            return None
        known |= {*op.results}
    return found


def _of_arguments(
    value: ir.Value, order: Sequence[ir.Operation], defined: Mapping[ir.Value, int]
) -> Sequence[int]:
    """The positions of the few cheap ops that compute a value of arguments; empty if others do."""
    found, todo = set[int](), [value]
    while todo:
        position = defined.get(todo.pop(), -1)
        if position < 0 or position in found:
            continue
        op = order[position]
        moves = is_cheap(op) or Trait.MOVES in traits_of(op.name)
        if len(found) == _MOST_MOVED or is_local(op) or not moves:
            return ()
        found.add(position)
        todo += op.operands
    return sorted(found)


def _until_returned(
    value: ir.Value, order: Sequence[ir.Operation], defined: Mapping[ir.Value, int]
) -> Sequence[int]:
    """The positions of the few cheap ops between a value and the block's end; empty if others are.

    Their other operands are arguments and constants.
    """
    found, todo = set[int](), [value]
    while todo:
        value = todo.pop()
        for use in value.uses:
            op = use.owner.operation
            if op == order[-1]:
                continue
            others = [defined.get(each, -1) for each in op.operands if each != value]
            is_alone = all(each < 0 or not len(order[each].operands) for each in others)
            is_moved = is_alone and op.block == order[-1].block and not is_local(op)
            if len(found) == _MOST_MOVED or not is_moved or not is_cheap(op):
                return ()
            found.add(defined[op.results[0]])
            todo += op.results
    return sorted(found)


def _may_wait(op: ir.Operation) -> bool:
    """Whether it can be done later: no collective, and nothing that may hold one."""
    return not (is_local(op) or len(op.regions) or op.name.endswith("call"))


def _may_join(op: ir.Operation, most: int) -> bool:
    """Whether a collective is one of rows, and small."""
    is_static = is_local(op) and op.operands[0].type.has_static_shape
    dims = [int(op.attributes[each].value) for each in _axes(op)]
    return is_static and len({*dims}) == len(dims) and 0 < _bytes(op) <= most


def _key(op: ir.Operation) -> object:
    along = _axes(op)
    attributes = {name: str(op.attributes[name]) for name in op.attributes if name not in along}
    return tuple(sorted(attributes.items())), str(op.operands[0].type.element_type)


def _bytes(op: ir.Operation) -> int:
    """Of the operand or of the result, whichever has more."""
    types = op.operands[0].type, op.results[0].type
    return max(prod(each.shape) for each in types) * itemsize(types[0].element_type)


def _share_rounds(block: ir.Block) -> None:
    """Let permutations that may be done at once share rounds."""
    for bundle in list(_bundles(block, PERMUTE, sys.maxsize, _key_of_rounds)):
        ops = [member.op for member in bundle.members]
        group = Group.of(ops)
        if not group.saves:
            continue
        bundle.move_operands()
        with ir.InsertionPoint(bundle.at), ir.Location.fused([op.location for op in ops]):
            group.share()
        for op in ops:
            op.erase()


def _key_of_rounds(op: ir.Operation) -> object:
    """Equal for permutations of tensors of one type along the same axes."""
    attributes = (str(op.attributes[name]) for name in op.attributes if name != "permutation")
    type_ = op.operands[0].type
    return (*attributes, str(type_), None if type_.shape else op)


def _join(bundle: Bundle) -> None:
    ops = [member.op for member in bundle.members]
    attributes = {name: ops[0].attributes[name] for name in ops[0].attributes}
    for along in _axes(ops[0]):
        attributes[along] = ir.IntegerAttr.get(attributes[along].type, 0)
    bundle.move_operands()
    with ir.InsertionPoint(bundle.at), ir.Location.fused([op.location for op in ops]):
        rows = [_rows(op) for op in ops]
        last = len(rows[0].type.shape) - 1
        joined = build.concatenated(rows, last)
        shape = list(joined.type.shape)
        if ops[0].name in (_GATHER, _SCATTER):
            shape[0] = _group(ops[0]) if ops[0].name == _GATHER else 1
        type_ = build.resized(joined.type, shape)
        made = build.create_value(ops[0].name, type_, [joined], attributes)
        start = 0
        for op, row in zip(ops, rows, strict=True):
            size = row.type.shape[last]
            shard = build.extract_slice(made, start, size, last)
            op.results[0].replace_all_uses_with(_of_rows(op, shard))
            start += size
    bundle.move_uses()
    for op in ops:
        op.erase()


def _axes(op: ir.Operation) -> list[str]:
    """The attributes with the dimensions that it cuts, and then that it joins."""
    return [spelled(each) for each in _ALONG.get(op.name, ())]


def _cut(op: ir.Operation) -> int:
    """The dimension of which each device gets a part."""
    return int(op.attributes[_axes(op)[0]].value)


def _joined(op: ir.Operation) -> int:
    """The dimension in which what devices have sent is put together."""
    return int(op.attributes[_axes(op)[-1]].value)


def _group(op: ir.Operation) -> int:
    """How many devices gather, or scatter."""
    sizes = [each.type.shape[_cut(op)] for each in (op.operands[0], op.results[0])]
    return int(max(sizes) // min(sizes))


def _rows(op: ir.Operation) -> ir.Value:
    """The operand with all elements for one device in one row."""
    value = op.operands[0]
    if op.name not in _ALONG:
        return build.flat(value)
    shape, count = list(value.type.shape), 1
    if op.name != _GATHER:
        dim, count = _cut(op), _group(op)
        parts = [*shape[:dim], count, shape[dim] // count, *shape[dim + 1 :]]
        order = [dim, *(number for number in range(len(parts)) if number != dim)]
        value = _transposed(build.unflatten(build.flat(value), parts), order)
    return build.unflatten(build.flat(value), [count, prod(shape) // count])


def _of_rows(op: ir.Operation, rows: ir.Value) -> ir.Value:
    """The result, of the rows from all devices."""
    if op.name in (_GATHER, _EXCHANGE):
        shape, dim, count = list(op.results[0].type.shape), _joined(op), _group(op)
        shape[dim] //= count
        parts = build.unflatten(build.flat(rows), [count, *shape])
        order = [*range(1, dim + 1), 0, *range(dim + 1, len(shape) + 1)]
        rows = _transposed(parts, order)
    return build.unflatten(build.flat(rows), list(op.results[0].type.shape))


def _in_a_row(second: ir.Operation) -> tuple[ir.Operation, str, LocalStep, LocalStep] | None:
    """The like collective that makes the operand of this one alone, the grid, and both steps."""
    between = second.operands[0]
    if not is_made_by(between, second.name):
        return None
    first = between.owner.operation
    if first.block != second.block or len(list(between.uses)) != 1:
        return None
    reads = [read_local(op.name, op.attributes) for op in (first, second)]
    (grid, a), (other, b) = (read for read in reads if read is not None)
    return (first, grid, a, b) if grid == other else None


def _join_exchanges(second: ir.Operation, shardings: Shardings) -> None:
    """Make one exchange of this one and the one that makes its operand, which nothing else uses."""
    pair = _in_a_row(second)
    if pair is None:
        return
    first, grid, a, b = pair
    assert isinstance(a, AllToAll), "an all-to-all"
    assert isinstance(b, AllToAll), "an all-to-all"
    value, result = first.operands[0], second.results[0]
    moves = a.source_dim != a.target_dim and b.source_dim != b.target_dim
    if {*a.axes} & {*b.axes} or not moves:
        return
    if b.target_dim == a.source_dim or not value.type.has_static_shape:
        return  # the second would cut what the first has joined
    counts = [shardings.grid(grid).axes_size(step.axes) for step in (a, b)]
    with ir.InsertionPoint(second), ir.Location.fused([first.location, second.location]):
        cuts, joins = (a.target_dim, b.target_dim), (a.source_dim, b.source_dim)
        rest = list(value.type.shape)
        for dim, count in zip(cuts, counts, strict=True):
            rest[dim] //= count
        cut = _to_front(value, rest, cuts, counts)
        pieces = build.unflatten(build.flat(cut), [prod(counts), *rest])
        step = AllToAll(0, 0, a.axes + b.axes)
        sent = write_local(step, grid, pieces, pieces.type)
        placed = build.unflatten(build.flat(sent), [*counts, *rest])
        # Of two dimensions in front of one, the second exchange's is the major one.
        dims = [number + 2 for number in range(len(rest))]
        for number, dim in enumerate(joins):
            dims.insert(dims.index(dim + 2) if number == 0 else _first_of(dims, dim, joins), number)
        joined = _transposed(placed, dims)
        made = build.unflatten(build.flat(joined), list(result.type.shape))
    replace_op(second, made)
    first.erase()


def _first_of(dims: Sequence[int], dim: int, joins: Sequence[int]) -> int:
    """Where the first dimension is that becomes a part of `dim`."""
    at = list(dims).index(dim + 2)
    return at - 1 if joins[0] == dim else at


def _to_front(
    value: ir.Value, rest: Sequence[int], cuts: Sequence[int], counts: Sequence[int]
) -> ir.Value:
    """The value with the pieces that `cuts` make of dimensions in dimensions in front."""
    shape: list[int] = []
    places = [0, 0]
    for dim, size in enumerate(rest):
        for number, cut in enumerate(cuts):
            if cut == dim:
                places[number] = len(shape)
                shape.append(counts[number])
        shape.append(size)
    others = [place for place in range(len(shape)) if place not in places]
    return _transposed(build.unflatten(build.flat(value), shape), [*places, *others])


def _transposed(value: ir.Value, order: Sequence[int]) -> ir.Value:
    if list(order) == sorted(order):
        return value
    type_ = build.resized(value.type, [value.type.shape[dim] for dim in order])
    return build.transpose(value, build.empty(type_), order).results[0]
