"""Write the planned loops: values stay in registers from nest to nest, and around reductions.

A value that an iteration stores is not loaded again in it, an element that it stores twice is
stored once, and a value that is the same in all iterations is loaded before the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from shard_dialect.backends.cpu.fuse import Loop
from shard_dialect.backends.cpu.nest import ONLY, Access, Nest, walk_body
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import is_used
from shard_dialect.ir.building.loops_and_masks import counted
from shard_dialect.ir.walk import body, walk

INNERMOST = "llvm.loop_annotation"
"""The attribute on a loop whose iterations access disjoint memory."""
_TILE = 32
_REASSOCIATED = ("arith.addf", "arith.mulf")

Key = tuple[int, tuple[int, ...]]
"""A view, and the index of each of its dimensions, by the numbers of induction variables."""


@dataclass
class _Bound:
    """A nest while its loops are open: the induction variables of those, and their numbers."""

    nest: Nest
    rounds: dict[int, ir.Value] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)

    def open(self, loop: int, value: ir.Value, number: int) -> None:
        self.rounds[loop] = value
        self.numbers[loop] = number

    def key(self, access: Access) -> Key | None:
        """The accessed element; `None` if that is not known yet, or never is."""
        numbers = {ONLY: 0, **self.numbers}
        if any(loop is None or loop not in numbers for loop in access.loops):
            return None
        return access.view, tuple(numbers[loop] for loop in access.loops if loop is not None)

    def indices(self, access: Access) -> list[ir.Value]:
        if access.is_plain:
            return [
                self.rounds[loop] if loop in self.rounds else build.index(0)
                for loop in access.loops
                if loop is not None
            ]
        assert access.map is not None, "what the body loads it indexes itself"
        count = len(self.nest.sizes)
        rounds = [self.rounds[n] if n in self.rounds else build.index(0) for n in range(count)]
        return [
            _applied(access.map, loop_number, rounds) for loop_number in range(len(access.loops))
        ]


@dataclass
class _Scope:
    """The elements whose values are in registers inside of one loop, by their keys."""

    anchor: ir.Operation
    """The op before which to write."""
    known: dict[Key, ir.Value]
    carried: set[Key]
    pending: dict[Key, tuple[Access, list[ir.Value], ir.Value]] = field(default_factory=dict)

    def flush(self) -> None:
        with ir.InsertionPoint(self.anchor):
            for access, indices, value in self.pending.values():
                build.create("memref.store", [], [value, access.value, *indices])
        self.pending.clear()


class Writer:
    """Writes planned loops before an op; the nests are consumed."""

    def __init__(self, nests: Sequence[Nest], opened: Callable[[], ir.Operation]) -> None:
        """`opened` gives an empty function."""
        self._bound = [_Bound(nest) for nest in nests]
        self._opened = opened
        self._count = 0

    def write(self, loops: Sequence[Loop]) -> list[ir.Operation]:
        """Write these loops, in order; return the functions with one outermost loop each.

        Nests in no loop that follow each other share a function.
        """
        functions: list[ir.Operation] = []
        was_loop = True
        for loop in loops:
            is_loop = loop.members[0][1] is not None
            if is_loop or was_loop:
                functions.append(self._opened())
            was_loop = is_loop
            with self._bound[loop.members[0][0].number].nest.op.location:
                scope = _Scope(_last(functions[-1]), {}, set())
                self._loop(loop, scope)
                scope.flush()
        for bound in self._bound:
            bound.nest.op.erase()
        return functions

    def _loop(self, loop: Loop, scope: _Scope) -> None:
        member, number = loop.members[0]
        bound = self._bound[member.number]
        if number is None:
            self._round(bound, scope)
        elif bound.nest.tiles is not None:
            self._tiled(bound, member.remaining, scope)
        else:
            self._for(loop, scope)

    def _for(self, loop: Loop, scope: _Scope) -> None:
        members = [self._bound[member.number] for member, _ in loop.members]
        reduced = [
            bound
            for bound, (_, number) in zip(members, loop.members, strict=True)
            if number in bound.nest.reductions
        ]
        carried = self._carried(reduced, scope)
        self._preload(members, scope)
        inits = [value for _, _, value in carried.values()]
        with ir.InsertionPoint(scope.anchor):
            loop_op = _for((0, loop.size, 1), inits)
        block = body(loop_op)
        inner = _Scope(_last(loop_op), dict(scope.known), scope.carried | carried.keys())
        inner.known |= dict(zip(carried, list(block.arguments)[1:], strict=True))
        self._count += 1
        for bound, (_, number) in zip(members, loop.members, strict=True):
            assert number is not None, "all members have this loop"
            bound.open(number, block.arguments[0], self._count)
        for each in loop.inside:
            self._loop(each, inner)
        inner.flush()
        for position, key in enumerate(carried):
            inner.anchor.operands[position] = inner.known[key]
        if all(each.members[0][1] is None for each in loop.inside):
            self._mark(loop_op, members, loop.size)
        for (key, (bound, access, _)), result in zip(carried.items(), loop_op.results, strict=True):
            self._store(key, access, bound, result, scope)

    def _mark(self, loop_op: ir.Operation, members: Sequence[_Bound], size: int) -> None:
        if not all(bound.nest.is_straight for bound in members):
            return
        types = [operand.type for bound in members for operand in bound.nest.op.operands]
        has_bits = any(isinstance(each, ir.MemRefType) and _is_bit(each) for each in types)
        text = SCALAR if has_bits and size < _MASKED_BELOW else _ANNOTATION
        loop_op.attributes[INNERMOST] = ir.Attribute.parse(text)

    def _carried(
        self, bound: list[_Bound], scope: _Scope
    ) -> dict[Key, tuple[_Bound, Access, ir.Value]]:
        """The elements into which all iterations reduce, with their values before the loop."""
        carried_keys = {}
        for each in bound:
            for access in each.nest.outputs:
                key = each.key(access)
                if key is not None:
                    carried_keys[key] = (each, access, self._load(each, access, scope))
        return carried_keys

    def _preload(self, bound: list[_Bound], scope: _Scope) -> None:
        written = {root for each in bound for root in each.nest.written}
        for each in bound:
            arguments = body(each.nest.op).arguments
            for access, argument in zip(each.nest.inputs, arguments, strict=False):
                used = is_used(argument)
                # Its index has only loops that are open: the value is the same in all iterations.
                if used and each.key(access) is not None and access.root not in written:
                    self._load(each, access, scope)

    def _load(self, bound: _Bound, access: Access, scope: _Scope) -> ir.Value:
        if access.is_scalar:
            return access.value
        key = bound.key(access)
        if key is not None and key in scope.known:
            return scope.known[key]
        with ir.InsertionPoint(scope.anchor):
            value = _loaded(access.value, bound.indices(access))
        if key is not None:
            scope.known[key] = value
        return value

    def _store(
        self, key: Key, access: Access, bound: _Bound, value: ir.Value, scope: _Scope
    ) -> None:
        scope.known[key] = value
        # Stored at the end of the iteration, if no other nest stores the element once more; a
        # carried element is stored after the loop.
        if key not in scope.carried:
            with ir.InsertionPoint(scope.anchor):
                scope.pending[key] = (access, bound.indices(access), value)

    def _round(self, bound: _Bound, scope: _Scope) -> None:
        """Write one iteration of all loops: the body, moved here."""
        block = body(bound.nest.op)
        accesses = (*bound.nest.inputs, *bound.nest.outputs)
        read_values = zip(accesses, block.arguments, strict=True)
        for access, argument in read_values:
            if is_used(argument):
                argument.replace_all_uses_with(self._load(bound, access, scope))
        *ops, last = walk_body(bound.nest.op)
        carried = [
            scope.known[key]
            for key in map(bound.key, bound.nest.outputs)
            if key is not None and key in scope.carried
        ]
        for op in walk(bound.nest.op):
            if op.name == "linalg.index":
                with ir.InsertionPoint(scope.anchor):
                    number = bound.rounds.get(op.attributes["dim"].value) or build.index(0)
                op.results[0].replace_all_uses_with(number)
        for op in ops:
            op.move_before(scope.anchor)
            if op.name in _REASSOCIATED and any(each in carried for each in op.operands):
                # LLVM may keep several partial sums in a vector; all other arithmetic keeps its
                # order.
                op.attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<reassoc>")
        for access, value in zip(bound.nest.outputs, last.operands, strict=True):
            key = bound.key(access)
            assert key is not None, "all loops are open"
            self._store(key, access, bound, value, scope)

    def _tiled(self, bound: _Bound, loops: Sequence[int], scope: _Scope) -> None:
        """Write the two loops of a transposition in square tiles.

        Rows whose lengths are powers of two lie in the same few lines of the cache, which cannot
        keep those of a tile. So each line is read once, into a buffer on the stack:

            for a, b in tile: t[b][a] = x[a, b]
            for b, a in tile: y[b, a] = t[b][a]
        """
        tiles = bound.nest.tiles or ()
        anchor = scope.anchor
        for loop in loops:
            if loop not in tiles:
                anchor = self._open(bound, loop, anchor, (0, bound.nest.sizes[loop], 1))
        for loop in tiles:
            anchor = self._open(bound, loop, anchor, (0, bound.nest.sizes[loop], _TILE))
        starts = {loop: bound.rounds[loop] for loop in tiles}
        with ir.InsertionPoint(anchor):
            ends = {loop: _end(starts[loop], bound.nest.sizes[loop]) for loop in tiles}
        across = [access for access in bound.nest.inputs if access.loops[-1:] == tiles[:1]]
        buffers = {}
        for access in across:
            if access.view not in buffers:
                type_ = ir.MemRefType.get([_TILE] * 2, access.value.type.element_type)
                with ir.InsertionPoint.at_block_begin(scope.anchor.block):
                    buffers[access.view] = build.allocate(type_, on_stack=True)
                self._copy_tile(bound, access, buffers[access.view], anchor, ends)
                bound.rounds |= starts
        for loop in tiles:
            anchor = self._open(bound, loop, anchor, (starts[loop], ends[loop], 1))
        self._mark(
            anchor.parent, [bound], min([_TILE, *(bound.nest.sizes[each] for each in tiles)])
        )
        inner = _Scope(anchor, {}, set())
        with ir.InsertionPoint(anchor):
            at = [build.arith("subi", bound.rounds[loop], starts[loop]) for loop in tiles]
            for access in across:
                key = bound.key(access)
                assert key is not None, "all loops are open"
                inner.known[key] = _loaded(buffers[access.view], at)
        self._round(bound, inner)
        inner.flush()

    def _copy_tile(
        self,
        bound: _Bound,
        access: Access,
        buffer: ir.Value,
        anchor: ir.Operation,
        ends: Mapping[int, ir.Value],
    ) -> None:
        """Copy the tile of a buffer whose rows lie across the tile's, row by row."""
        starts = {loop: bound.rounds[loop] for loop in ends}
        for loop in reversed(ends):
            anchor = self._open(bound, loop, anchor, (starts[loop], ends[loop], 1))
        with ir.InsertionPoint(anchor):
            value = _loaded(access.value, bound.indices(access))
            at = [build.arith("subi", bound.rounds[loop], starts[loop]) for loop in ends]
            build.create("memref.store", [], [value, buffer, *at])

    def _open(
        self, bound: _Bound, loop: int, anchor: ir.Operation, bounds: Sequence[int | ir.Value]
    ) -> ir.Operation:
        """Open a loop of this nest alone; return the op before which to write its body."""
        with ir.InsertionPoint(anchor):
            loop_op = _for(bounds, [])
        self._count += 1
        bound.open(loop, body(loop_op).arguments[0], self._count)
        return _last(loop_op)


_MASKED_BELOW = 16
"""LLVM masks the last iterations of vectorized loops with fewer iterations than this."""
SCALAR = "#llvm.loop_annotation<vectorize = <disable = true>, mustProgress = true>"
"""For a loop with masks that accesses bits: without AVX-512, LLVM ends with "Cannot select"."""
_ANNOTATION = "#llvm.loop_annotation<mustProgress = true>"


def _is_bit(type_: ir.MemRefType) -> bool:
    return str(type_.element_type) == "i1"


def _last(op: ir.Operation) -> ir.Operation:
    """The terminator of the op's body."""
    return list(body(op).operations)[-1].operation


def _for(bounds: Sequence[int | ir.Value], inits: Sequence[ir.Value]) -> ir.Operation:
    """Create an `scf.for` whose terminator yields its arguments."""
    loop_op, block = counted(bounds, inits)
    with ir.InsertionPoint(block):
        build.create("scf.yield", [], list(block.arguments)[1:])
    return loop_op


def _end(start: ir.Value, size: int) -> ir.Value:
    """The end of a tile that begins at `start`."""
    end = build.arith("addi", start, build.index(_TILE))
    return end if size % _TILE == 0 else build.arith("minsi", end, build.index(size))


def _loaded(buffer: ir.Value, indices: Sequence[ir.Value]) -> ir.Value:
    element = buffer.type.element_type
    return build.create_value("memref.load", element, [buffer, *indices])


def _applied(map_: ir.AffineMap, result_number: int, rounds: list[ir.Value]) -> ir.Value:
    one = ir.AffineMapAttr.get(map_.get_submap([result_number]))
    applied = build.create("affine.apply", [ir.IndexType.get()], rounds, {"map": one})
    return applied.results[0]
