"""Read a linalg op on buffers as a loop nest: its loops, and the elements that it accesses.

    linalg.generic {(i, j) -> (i, j), (i, j) -> (i)} ins(%x) outs(%r), j a reduction

is a nest of sizes (64, 128) that reads %x at (0, 1), the numbers of its loops, and writes %r at
(0).

`Memory` is the alias analysis: it numbers the buffers that may share memory. A view shares its
buffer's memory. Each allocation and each global has memory of its own. So have the arguments of a
function that writes to none of them: runs never write to their inputs, and results have their own
buffers. What a loop carries has one memory in its body, whichever buffers it starts from, where the
body accesses none of these by themselves:

    scf.for ... iter_args(%s = %a) {        %s may be %a, or %t of the iteration before
      %t = memref.alloc()                   of its own
      linalg.exp ins(%s) outs(%t)
      scf.yield %t
    }
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from shard_dialect.ir.bindings import ir, linalg_queries
from shard_dialect.ir.function import boundary
from shard_dialect.ir.mesh.attributes import RESULT
from shard_dialect.ir.numbered_function import VIEWS
from shard_dialect.ir.walk import body, operations, walk

_GLOBAL = "memref.get_global"
_ALLOCATIONS = ("memref.alloc", "memref.alloca", _GLOBAL)
_UNKNOWN, _ARGUMENTS, _OTHERS = -1, -2, -3
_LARGEST, _STACK = 4096, 65536
"""The most bytes on the stack: of one buffer, and of a function. Threads may have only 512 KiB."""


@dataclass(frozen=True)
class Shared:
    """The facts about a value on which the code of a run of nests depends."""

    root: int
    """The number of the value whose memory it is in; negative if that is none of the values."""
    is_local: bool
    """Whether it is a buffer that nothing else accesses."""


def _is_local(value: ir.Value, block: ir.Block) -> bool:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in ("memref.alloc", "memref.alloca"):
        return False
    if owner.operation.block != block:  # a loop around this block may bring the elements back
        return False
    return all(use.owner.operation.name == "memref.dealloc" for use in value.uses)


class Memory:
    """Numbers the buffers of one function, and the memory that each is in."""

    def __init__(self, function: ir.Operation | None = None) -> None:
        self.function = function
        """The function, where it is one of the program."""
        self._numbers: dict[ir.Value, int] = {}
        self._roots: dict[ir.Value, int] = {}
        self._globals: dict[str, int] = {}
        self._carried: dict[ir.Value, int] = {}
        """By the first buffer that a block of a loop takes: the memory of all of them."""
        self._local: set[ir.Value] = set()
        self._on_stack = 0

    @classmethod
    def of(cls, function: ir.Operation) -> Memory:
        """The memory of a function of the program."""
        memory = cls(function)
        block = function.regions[0].blocks[0]
        entries = boundary(function, "arg_attrs")
        for argument, entry in zip(block.arguments, entries, strict=True):
            if isinstance(argument.type, ir.MemRefType):
                is_result = RESULT in entry
                memory._roots[argument] = memory.number(argument) if is_result else _ARGUMENTS
        return memory

    @classmethod
    def of_run(cls, values: Sequence[ir.Value], shared: Sequence[Shared]) -> Memory:
        """The memory of `values`, the arguments of a function, by the facts in `shared`."""
        memory = cls()
        for value, each in zip(values, shared, strict=True):
            memory.number(value)
            memory._roots[value] = each.root
            if each.is_local:
                memory._local.add(value)
        return memory

    def shared(self, values: Sequence[ir.Value], block: ir.Block) -> list[Shared]:
        """The facts for a run in `block` about each of the values, numbered by their order."""
        roots = [self.root(value) for value in values]
        own = {
            root: number
            for number, (value, root) in enumerate(zip(values, roots, strict=True))
            if root == self.number(value)
        }
        first = {root: _OTHERS - roots.index(root) for root in roots if root not in own}
        numbered = own | first
        return [
            Shared(numbered[root], _is_local(value, block))
            for value, root in zip(values, roots, strict=True)
        ]

    def is_local(self, value: ir.Value) -> bool:
        """Whether only the nests of this run access the buffer."""
        is_argument = isinstance(value.owner, ir.Block)
        return value in self._local or (not is_argument and value.owner.name == "memref.alloc")

    def forget(self, value: ir.Value) -> None:
        """Forget a value that will be erased: another one may get its address."""
        self._numbers.pop(value, None)
        self._roots.pop(value, None)

    def number(self, value: ir.Value) -> int:
        """The buffer's number: the same for the same value."""
        return self._numbers.setdefault(value, len(self._numbers))

    def root(self, value: ir.Value) -> int:
        """The memory's number: the same for all buffers that may share memory."""
        if value not in self._roots:
            self._roots[value] = self._root_of(value)
        return self._roots[value]

    def fits_on_stack(self, size: int) -> bool:
        """Whether one more buffer fits on the stack; if so, reserve it."""
        is_small = size <= _LARGEST and self._on_stack + size <= _STACK
        self._on_stack += size if is_small else 0
        return is_small

    def is_unknown(self, roots: Iterable[int]) -> bool:
        """Whether the memory of one of these numbers is not known."""
        return _UNKNOWN in roots

    def _root_of(self, value: ir.Value) -> int:
        if not isinstance(value.type, ir.MemRefType):
            return self.number(value)
        owner = value.owner
        if isinstance(owner, ir.Block):
            return self._root_of_carried(owner)
        op = owner.operation
        if op.name in VIEWS:
            return self.root(op.operands[0])
        if op.name == _GLOBAL:
            name = op.attributes["name"].value
            return self._globals.setdefault(name, self.number(value))
        return self.number(value) if op.name in _ALLOCATIONS else _UNKNOWN

    def _root_of_carried(self, block: ir.Block) -> int:
        """The memory of the buffers that a block of a loop takes."""
        loop = block.owner.operation
        if loop.name not in ("scf.for", "scf.while"):
            return _UNKNOWN
        carried = [each for each in block.arguments if isinstance(each.type, ir.MemRefType)]
        if carried[0] not in self._carried:
            is_known = self._are_apart(carried, loop)
            self._carried[carried[0]] = self.number(carried[0]) if is_known else _UNKNOWN
        return self._carried[carried[0]]

    def _are_apart(self, carried: Sequence[ir.Value], loop: ir.Operation) -> bool:
        """Whether the loop accesses what it carries by no buffer from outside of it."""
        made = _values_in(loop)
        origins: set[ir.Value | None] = set().union(*map(_origins_of, carried))
        accessed = [
            buffer
            for op in walk(loop)
            for buffer in (*op.operands, *(op.results if op.name == _GLOBAL else ()))
            if isinstance(buffer.type, ir.MemRefType) and (op.name == _GLOBAL or buffer not in made)
        ]
        others: set[ir.Value | None] = set().union(*map(_origins_of, accessed))
        if None in origins | others:
            return False
        roots, apart = (
            {
                self.root(each)
                for each in values
                if each is not None and (each not in made or each.owner.name == _GLOBAL)
            }
            for values in (origins, others)
        )
        return not self.is_unknown(roots | apart) and roots.isdisjoint(apart)


def _values_in(op: ir.Operation) -> set[ir.Value]:
    """The values that the regions of an op define."""
    ops = walk(op)
    inside = [block for each in (op, *ops) for region in each.regions for block in region.blocks]
    arguments = {argument for block in inside for argument in block.arguments}
    return arguments | {result for each in ops for result in each.results}


def _origins_of(buffer: ir.Value) -> set[ir.Value | None]:
    """The allocations and arguments in whose memory a buffer may be; `None` for what is unknown."""
    found: set[ir.Value | None] = set()
    seen: set[ir.Value] = set()
    waiting = [buffer]
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        is_argument = isinstance(value.owner, ir.Block)
        op = value.owner.owner.operation if is_argument else value.owner.operation
        if op.name in _ALLOCATIONS or op.name == "func.func":
            found.add(value)
        elif op.name in VIEWS:
            waiting.append(op.operands[0])
        else:
            given = _given(op, value)
            waiting += given
            found |= set() if given else {None}
    return found


def _given(op: ir.Operation, value: ir.Value) -> list[ir.Value]:
    """The values of which a result, or a block's argument, of control flow is one; or none."""
    ends = [operations(block)[-1] for region in op.regions for block in region.blocks]
    if len(ends) != len(list(op.regions)):
        return []
    is_argument = isinstance(value.owner, ir.Block)
    number = value.arg_number if is_argument else value.result_number
    if op.name == "scf.for":
        number -= is_argument  # the first argument counts the iterations
        return [op.operands[3 + number], ends[0].operands[number]]
    if op.name == "scf.while":
        before, after = ends
        if is_argument and value.owner == op.regions[0].blocks[0]:
            return [op.operands[number], after.operands[number]]
        return [before.operands[1 + number]]
    if op.name in ("scf.execute_region", "scf.if", "scf.index_switch"):
        return [end.operands[number] for end in ends]
    return []


ONLY = -1
_VECTOR = 16
"""The number of iterations of an innermost loop from which on vectors pay."""


@dataclass(frozen=True)
class Access:
    """One buffer of a nest, and for each of its dimensions the loop that indexes it."""

    view: int
    root: int
    value: ir.Value
    loops: tuple[int | None, ...]
    """`None` where the index is not one loop's, `ONLY` where it can only be 0."""
    map: ir.AffineMap | None = None

    @property
    def is_plain(self) -> bool:
        """Whether each index is one loop's, or 0."""
        return None not in self.loops

    @property
    def shape(self) -> tuple[int, ...]:
        """The buffer's shape."""
        return _shape(self.value)

    @property
    def is_scalar(self) -> bool:
        """Whether it is not a buffer, but a number."""
        return not isinstance(self.value.type, ir.MemRefType)


@dataclass(frozen=True)
class Nest:
    """A linalg op as loops; `order` is the best order of its loops alone, outermost first."""

    op: ir.Operation
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    reductions: frozenset[int]
    inputs: tuple[Access, ...]
    outputs: tuple[Access, ...]
    loaded: tuple[Access, ...]
    """The buffers that the body loads by itself."""
    tiles: tuple[int, int] | None = None
    """Two loops of which each is contiguous in some buffer, if there are such."""

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """All accesses: inputs, outputs, and loads in the body."""
        return (*self.inputs, *self.outputs, *self.loaded)

    @cached_property
    def written(self) -> set[int]:
        """The numbers of the buffers that the nest writes."""
        return {access.root for access in self.outputs}

    @cached_property
    def touched(self) -> set[int]:
        """The numbers of the buffers that the nest accesses."""
        return {access.root for access in self.accesses}

    @cached_property
    def ops(self) -> int:
        """How many ops the body has."""
        return len(walk(self.op))

    @property
    def is_straight(self) -> bool:
        """Whether the body has no branches and no calls."""
        return all(not list(op.regions) and op.name != "func.call" for op in walk_body(self.op))


def walk_body(op: ir.Operation) -> list[ir.Operation]:
    """The ops in the body of a linalg op."""
    return operations(body(op))


@dataclass(frozen=True)
class Shape:
    """The loops and accesses of a nest, without its buffers and body: shared by equal ops."""

    sizes: tuple[int, ...]
    order: tuple[int, ...]
    reductions: frozenset[int]
    accesses: tuple[Access, ...]
    """The accesses of the first op that was read."""
    tiles: tuple[int, int] | None


class Reader:
    """Reads ops; the shapes of ops are computed once for all that are alike."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[Any, ...], Shape | None] = {}

    def read(self, op: ir.Operation, memory: Memory) -> Nest | None:
        """The nest that `op` is; `None` if it is none, or is on buffers of dynamic size."""
        if op.name != "linalg.generic" or len(op.results):
            return None
        operands = list(op.operands)
        roots = [memory.root(operand) for operand in operands]
        if memory.is_unknown(roots):
            return None
        inputs = op.attributes["operandSegmentSizes"][0]
        types = [operand.type for operand in operands]
        kinds = op.attributes["iterator_types"]
        key = (op.attributes["indexing_maps"], kinds, inputs, *types)
        if key not in self._shapes:
            self._shapes[key] = _shape_of(op, [str(kind) for kind in kinds], inputs, memory)
        shape = self._shapes[key]
        loaded = _loaded(op, memory)
        if shape is None or loaded is None:
            return None
        accesses = [
            Access(memory.number(value), root, value, like.loops, like.map)
            for value, root, like in zip(operands, roots, shape.accesses, strict=True)
        ]
        read_only, written = tuple(accesses[:inputs]), tuple(accesses[inputs:])
        loops = shape.sizes, shape.order, shape.reductions
        return Nest(op, *loops, read_only, written, tuple(loaded), shape.tiles)


def _shape_of(op: ir.Operation, kinds: Sequence[str], inputs: int, memory: Memory) -> Shape | None:
    maps = [attribute.value for attribute in linalg_queries.get_indexing_maps(op)]
    operands = list(op.operands)
    if not all(_is_static(operand.type) for operand in operands):
        return None
    accesses = [_access(v, map_, memory) for v, map_ in zip(operands, maps, strict=True)]
    count = maps[0].n_dims
    sizes: dict[int, int] = {}
    for access, map_ in zip(accesses, maps, strict=True):
        for loop, size in zip(map(_loop, map_.results), access.shape, strict=True):
            if loop is not None:
                sizes[loop] = size
    if set(range(count)) - sizes.keys():
        return None
    single = {loop for loop in sizes if sizes[loop] == 1}
    parallel = {loop for loop, kind in enumerate(kinds) if "parallel" in kind}
    if any(
        not access.is_plain or not parallel <= {*access.loops, *single}
        for access in accesses[inputs:]
    ):
        return None
    numbered = tuple(sizes[loop] for loop in range(count))
    order, tiles = _order(accesses, numbered, parallel)
    return Shape(numbered, order, frozenset(range(count)) - parallel, tuple(accesses), tiles)


def _access(value: ir.Value, map_: ir.AffineMap, memory: Memory) -> Access:
    indexed = zip(map_.results, _shape(value), strict=True)
    loops = tuple(ONLY if size == 1 else _loop(each) for each, size in indexed)
    counted = [loop for loop in loops if loop != ONLY]
    if len(set(counted)) != len(counted):
        loops = (None,) * len(loops)
    return Access(memory.number(value), memory.root(value), value, loops, map_)


def _shape(value: ir.Value) -> tuple[int, ...]:
    return tuple(value.type.shape) if isinstance(value.type, ir.MemRefType) else ()


def _is_static(type_: ir.Type) -> bool:
    if isinstance(type_, ir.MemRefType):
        return type_.has_static_shape
    return not isinstance(type_, ir.ShapedType)


def _loop(expression: ir.AffineExpr) -> int | None:
    is_loop = isinstance(expression, ir.AffineDimExpr)
    return expression.position if is_loop else None


def _loaded(op: ir.Operation, memory: Memory) -> list[Access] | None:
    """The buffers that the body loads; `None` if the body has effects whose order matters."""
    loaded = []
    for inner in walk(op):
        if inner.name == "memref.load":
            value = inner.operands[0]
            if memory.is_unknown([memory.root(value)]):
                return None
            loops = (None,) * len(value.type.shape)
            loaded.append(Access(memory.number(value), memory.root(value), value, loops))
        elif inner.name.startswith(("memref.", "func.")) or inner.name in _ORDERED:
            return None
    return loaded


_ORDERED = ("cf.assert", "scf.while", "scf.for")


def _order(
    accesses: Sequence[Access], sizes: tuple[int, ...], parallel: set[int]
) -> tuple[tuple[int, ...], tuple[int, int] | None]:
    """The order of the loops with more than one iteration, and two loops to tile, if any.

    Innermost is the loop along which most buffers are contiguous; among equals one that fills a
    vector, then the last one in the op. Reductions are inside of the others, so that the
    accumulator stays in the cache.
    """
    loops = [loop for loop in range(len(sizes)) if sizes[loop] != 1]
    if not loops:
        return (), None
    costs = {loop: sum(_stride_cost(access, loop) for access in accesses) for loop in loops}
    least = min(costs.values())
    equal = [loop for loop in loops if costs[loop] == least]
    innermost = max(equal, key=lambda loop: (min(sizes[loop], _VECTOR), loop))
    others = sorted((loop for loop in loops if loop != innermost), key=lambda n: n not in parallel)
    order = (*others, innermost)
    return order, _tiles(accesses, sizes, parallel) if least else None


def _stride_cost(access: Access, loop: int) -> int:
    """0 where iterations of the loop access consecutive elements, or the same one."""
    if access.map is None or access.is_scalar:
        return 0
    mentioned = [
        dim
        for dim, each in enumerate(access.map.results)
        if access.loops[dim] != ONLY and _mentions(each, loop)
    ]
    if not mentioned:
        return 0
    strides, _ = access.value.type.get_strides_and_offset()
    is_contiguous = len(mentioned) == 1 and strides[mentioned[0]] == 1
    return 0 if is_contiguous else 1


def _mentions(expression: ir.AffineExpr, loop: int) -> bool:
    if isinstance(expression, ir.AffineDimExpr):
        return bool(expression.position == loop)
    if isinstance(expression, ir.AffineBinaryExpr):
        return _mentions(expression.lhs, loop) or _mentions(expression.rhs, loop)
    return False


def _tiles(
    accesses: Sequence[Access], sizes: tuple[int, ...], parallel: set[int]
) -> tuple[int, int] | None:
    """The contiguous loops of a transposition: the read buffer's and the written buffer's."""
    if parallel != set(range(len(sizes))) or any(not access.is_plain for access in accesses):
        return None
    last = []
    for access in reversed(accesses):
        loops = [loop for loop in access.loops if loop is not None and loop != ONLY]
        if loops and loops[-1] not in last:
            last.append(loops[-1])
    return (last[1], last[0]) if len(last) == 2 and min(sizes[a] for a in last) >= 8 else None
