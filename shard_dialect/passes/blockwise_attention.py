"""Compute tensors that are too large to store in blocks, in a loop: the scores of attention.

    %s = dot_general %q, %k     4096x4096      %o = scf.for %i = 0 to 16 iter_args(%o = empty) {
    %p = softmax %s                              %s = dot_general %q[256 rows], %k    256x4096
    %o = dot_general %p, %v                      %p = softmax %s
                                                 insert (dot_general %p, %v) into %o
                                               }

The loop is to a dimension what devices along an axis are to a split one: the sharding rules of the
ops say which dimensions of their tensors go along, and what a reduction along it leaves to be added
up, and their partition functions write the ops for one block. So this is not only for attention:
the logits of a large vocabulary are computed in blocks, too. Softmax is over whole rows, so that
what the forward pass computes is rounded as before; sums over blocks, such as the gradients of keys
and values, are added in another order, in f32 where elements have 16 bits.

A backward pass reads what the forward pass has computed, long before. Values as large are computed
again for it, from those that are stored anyway, so that there are two loops.

The pass is for the local form, where tensors are as large as on a device. It begins at products
that are larger than what they are made of. Tensors that are arguments, results, communicated, or
carried by loops are stored whatever their size: the scores that a scan over layers keeps for its
backward pass are not stored if `jax.checkpoint` computes them again.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from math import inf, prod

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.loops_and_masks import counted, elementwise
from shard_dialect.ir.building.reductions import combine, identity_tensor
from shard_dialect.ir.function import form_of, functions_of, is_private, name_of
from shard_dialect.ir.numbered_function import Block, Function, read_by, read_function
from shard_dialect.ir.walk import walk
from shard_dialect.model import ShardingRule
from shard_dialect.model.factor_projection import Dims
from shard_dialect.ops import PartitionedOp, Shard, record_of, rule_of
from shard_dialect.ops.op_table import traits_of
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.passes.calls import callee_of, drop_uncalled, inline_call
from shard_dialect.passes.framework.base import Pass


@dataclass(frozen=True)
class BlockwiseAttention(Pass):
    """Compute in blocks what is too large to store, such as the scores of attention."""

    name = "blockwise-attention"

    block_bytes: int = 1 << 26
    """Tensors of more bytes on a device are computed in blocks of at most as many."""

    def rewrite(self, module: ir.Operation) -> None:
        """Rewrite functions in the local form; raises `ShardError` where there is none."""
        if self.block_bytes < 1:
            raise ShardError(f"block-bytes is {self.block_bytes}: expected a positive number")
        if not _local(module):
            raise ShardError("no function is in the local form: put it behind --spmd")
        while _inline_large(module, self.block_bytes):
            pass  # what was inlined may have such calls, too
        for handle in _local(module):
            tried: set[ir.Value] = set()
            changed = [True]
            while any(changed):
                function = read_function(handle)
                values = [
                    _Values(function, each, self.block_bytes) for each in _blocks(function.blocks)
                ]
                changed = [each.rewrite(tried) for each in values]


def _blocks(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        for op in block.ops:
            yield from _blocks(op.blocks)


def _local(module: ir.Operation) -> list[ir.Operation]:
    return [each for each in functions_of(module) if form_of(each) == "local"]


def _inline_large(module: ir.Operation, limit: int) -> bool:
    """Inline the calls that take or make a large tensor, as JAX writes `where` by one."""
    functions = _local(module)
    callees = {
        name_of(each): each
        for each in functions
        if is_private(each) and len(each.regions[0].blocks) == 1
    }
    calls = [
        op
        for handle in functions
        for op in walk(handle)
        if op.name == "func.call" and callee_of(op) in callees
        if any(_bytes(each.type) > limit for each in (*op.operands, *op.results))
    ]
    called = {callee_of(op) for op in calls}
    for op in calls:
        inline_call(op, callees[callee_of(op)])
    drop_uncalled(module, called)
    return bool(calls)


def _bytes(type_: ir.Type) -> int:
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        return 0
    return int(prod(type_.shape)) * -(-_width(type_.element_type) // 8)


def _width(element: ir.Type) -> int:
    if isinstance(element, ir.ComplexType):
        return 2 * _width(element.element_type)
    return int(getattr(element, "width", 64))


@dataclass(frozen=True)
class _Tiling:
    """Ops of a block, in order, that are computed in blocks along one dimension of each tensor.

    `factors` has the factor of each op, by its position, that goes along.
    """

    positions: tuple[int, ...]
    factors: dict[int, int]
    blocks: int
    sums: frozenset[int]
    """The results that are summed along the factor."""


class _Values:
    """The values of one block: which are large, and where they are made and read."""

    def __init__(self, function: Function, block: Block, limit: int) -> None:
        self.function, self.block, self.limit = function, block, limit
        self.ops = block.ops
        self.maker = {value: n for n, op in enumerate(self.ops) for value in op.results}
        self.readers: dict[int, list[int]] = {value: [] for value in self.maker}
        for position, op in enumerate(self.ops):
            for value in dict.fromkeys(read_by(op)):
                if value in self.readers:
                    self.readers[value].append(position)
        self._rules: dict[int, ShardingRule | None] = {}

    def rewrite(self, tried: set[ir.Value]) -> bool:
        """Compute the large tensors in blocks that can be; whether the values are to be read anew.

        Loops that lie one after another are written at once: a module may have one for each layer.
        """
        is_changed, end = False, -1
        for component in self._components():
            first = self.ops[component[0]].handle.results[0]
            if first in tried:
                continue
            inside, late = self._before_others(component)
            tiling = self._tiling(inside)
            if tiling is None:
                tried.add(first)
            elif self._compute_again(tiling.positions, late):
                is_changed = True
            elif tiling.positions[0] > end:  # else the ops of the loop before may have moved
                _Loop(self, tiling).write()
                is_changed, end = True, tiling.positions[-1]
        return is_changed

    def _type(self, value: int) -> ir.Type:
        return self.function.values[value].handle.type

    def is_large(self, value: int) -> bool:
        """Whether the tensor is to be computed in blocks: if it is as large as some scores."""
        type_ = self._type(value)
        return _bytes(type_) > self.limit and prod(type_.shape) >= self._fewest

    @cached_property
    def _fewest(self) -> float:
        """The elements of the smallest scores: a product that is larger than its operands.

        Others, such as the layers of a perceptron, are read from memory once more for each block.
        """
        found = inf
        for position, op in enumerate(self.ops):
            is_large = any(_bytes(self._type(each)) > self.limit for each in op.results)
            if is_large and self._is_product(position):
                *operands, made = (
                    prod(self._type(each).shape) for each in (*op.operands, op.results[0])
                )
                found = min(found, made if made > sum(operands) else inf)
        return found

    def rule(self, position: int) -> ShardingRule | None:
        """The rule of an op whose factors may go along with a loop."""
        if position not in self._rules:
            op = self.ops[position]
            is_plain = not op.blocks and not op.captures and bool(op.results)
            # What is taken out of another tensor, or put into one, is stored there.
            is_plain &= not traits_of(op.name) & (Trait.UPDATES | Trait.SLICES) & ~Trait.MOVES
            is_list = (
                build.is_constant(op.handle) and build.splat_value(op.handle.results[0]) is None
            )
            rule = rule_of(op.handle) if is_plain and not is_list else None
            self._rules[position] = rule if rule is not None and not rule.inits else None
        return self._rules[position]

    def _components(self) -> list[list[int]]:
        """The positions of the ops that make or read large tensors, by tensors in common."""
        of: dict[int, list[int]] = {}
        for value, position in self.maker.items():
            together = [position, *self.readers[value]]
            if not self.is_large(value) or any(self.rule(each) is None for each in together):
                continue
            joined = sorted({each for one in together for each in of.get(one, [one])})
            for each in joined:
                of[each] = joined
        return sorted({tuple(each): each for each in of.values()}.values())

    def _before_others(self, component: Sequence[int]) -> tuple[list[int], list[int]]:
        """The ops of a component that can be in its first loop, with those between; and the others.

        Between are a softmax's sums of rows, which are small. The others read, through ops that
        cannot be in the loop, what the loop gives.
        """
        ours = set(component)
        needed = self._ancestors(component)
        inside, late = set(), set()
        outside: set[int] = set()
        for position in range(component[0], len(self.ops)):
            reads = {self.maker.get(value) for value in read_by(self.ops[position])}
            if reads & outside:
                outside.add(position)
                if position in ours:
                    late.add(position)
            elif position in ours:
                inside.add(position)
            elif reads & inside:
                rule = self.rule(position)
                may_be_in = position in needed and rule is not None and not rule.is_product
                (inside if may_be_in else outside).add(position)
        return sorted(inside), sorted(late)

    def _ancestors(self, positions: Sequence[int]) -> set[int]:
        """The ops that those at these positions depend on."""
        found: set[int] = set()
        todo = list(positions)
        while todo:
            for value in read_by(self.ops[todo.pop()]):
                maker = self.maker.get(value)
                if maker is not None and maker not in found:
                    found.add(maker)
                    todo.append(maker)
        return found

    def _tiling(self, positions: Sequence[int]) -> _Tiling | None:
        """The best way to compute these ops in blocks; `None` if there is none.

        Tensors that are small enough come before few sums, and these before few blocks.
        """
        made = [value for each in positions for value in self.ops[each].results]
        large = [value for value in made if self.is_large(value)]
        # What only elementwise ops make, no compiler stores.
        products = [value for value in large if self._is_product(self.maker[value])]
        if not products:
            return None
        first, most = products[0], max(_bytes(self._type(value)) for value in large)
        found = []
        for dim, size in enumerate(self._type(first).shape):
            number = next(n for n in count(-(-most // self.limit)) if size % n == 0 or n >= size)
            tiling = self._along(positions, first, dim, min(number, size)) if size > 1 else None
            if tiling is not None:
                found.append((-(-most // tiling.blocks), len(tiling.sums), tiling.blocks, tiling))
        best = min(found, key=lambda each: (max(each[0], self.limit), *each[1:3]), default=None)
        return best and best[3]

    def _is_product(self, position: int) -> bool:
        rule = self.rule(position)
        return rule is not None and rule.is_product

    def _along(self, positions: Sequence[int], first: int, dim: int, blocks: int) -> _Tiling | None:
        """The ops in blocks along a dimension of a value that they make.

        Those that neither read nor make anything that goes along are left out.
        """
        tiled, factors = {first: dim}, dict[int, int]()
        inside, todo = set(positions), [first]
        while todo:
            value = todo.pop()
            for position in {self.maker[value], *self.readers[value]} & inside:
                found = self._factor(position, value, tiled[value], blocks)
                if found is None or factors.setdefault(position, found) != found:
                    return None
                for other, at in self.cuts(position, found):
                    if at is not None and self.maker.get(other) in inside and other not in tiled:
                        tiled[other] = at
                        todo.append(other)
        for position, factor in factors.items():
            for value, at in self.cuts(position, factor)[: len(self.ops[position].operands)]:
                if self.maker.get(value) in factors and tiled.get(value) != at:
                    return None
        made = [value for position in factors for value in self.ops[position].results]
        sums = frozenset(value for value in made if value not in tiled)
        is_whole = all(self._may_be_summed(value, factors) for value in sums)
        if not is_whole or self._reads_what_it_gives(factors):
            return None
        return _Tiling(tuple(sorted(factors)), factors, blocks, sums)

    def _reads_what_it_gives(self, positions: Collection[int]) -> bool:
        """Whether one of these ops depends on another through ops that are not among them."""
        after: set[int] = set()
        for position in range(min(positions), max(positions) + 1):
            makers = {self.maker.get(value) for value in read_by(self.ops[position])}
            if position in positions:
                if makers & after:
                    return True
            elif not makers.isdisjoint(after | set(positions)):
                after.add(position)
        return False

    def _may_be_summed(self, value: int, factors: Mapping[int, int]) -> bool:
        """Whether a result without the factor is a sum along it, and is read after the loop."""
        position = self.maker[value]
        rule = self.rule(position)
        is_sum = rule is not None and rule.reduction_of.get(factors[position]) == "sum"
        return is_sum and factors.keys().isdisjoint(self.readers[value])

    def _factor(self, position: int, value: int, dim: int, blocks: int) -> int | None:
        """The factor that a dimension of an op's operand or result has, if it may go along.

        Of several factors that is the major one: the blocks of the others are not in a row.
        """
        rule = self.rule(position)
        assert rule is not None, "ops without a rule are in no component"
        found = {dims[dim] for each, dims in self._tensors(position) if each == value and dims}
        factors = found.pop() if len(found) == 1 else ()
        barred = rule.need_replication | rule.permuted | rule.blocked | rule.windowed_factors
        if not factors or factors[0] in barred or rule.sizes[factors[0]] % blocks:
            return None
        everywhere = [each for _, dims in self._tensors(position) for each in dims]
        return None if any(factors[0] in each[1:] for each in everywhere) else factors[0]

    def cuts(self, position: int, factor: int) -> list[tuple[int, int | None]]:
        """The operands and results of an op, with the dimension of each that has the factor."""
        return [
            (value, next((dim for dim, each in enumerate(dims) if each[:1] == (factor,)), None))
            for value, dims in self._tensors(position)
        ]

    def _tensors(self, position: int) -> Iterator[tuple[int, Dims]]:
        """The operands and results of an op with the factors of each; () for what is no tensor."""
        rule, op = self.rule(position), self.ops[position]
        assert rule is not None, "ops without a rule are in no component"
        numbers, tensors = (*op.operands, *op.results), (*rule.operands, *rule.results)
        for value, dims in zip(numbers, tensors, strict=True):
            yield value, dims or ()

    def _compute_again(self, inside: Sequence[int], late: Sequence[int]) -> bool:
        """Compute again, for ops that come late, the large tensors that they read from the loop."""
        ours = set(inside)
        again: list[int] = []
        todo = [value for each in late for value in self.ops[each].operands]
        while todo:
            value = todo.pop()
            maker = self.maker.get(value)
            if maker in ours and maker not in again and self.is_large(value):
                again.append(maker)
                todo += self.ops[maker].operands
        if not again:
            return False
        copies: dict[ir.Value, ir.Value] = {}
        for position in sorted(again):
            op = self.ops[position].handle
            is_before = position < late[0]
            first = self.ops[late[0]].handle
            with ir.InsertionPoint(first) if is_before else ir.InsertionPoint.after(op):
                copy = op.clone().operation
            for number, operand in enumerate(op.operands):
                copy.operands[number] = copies.get(operand, operand)
            copies.update(zip(op.results, copy.results, strict=True))
        for position in late:
            handle = self.ops[position].handle
            for number, operand in enumerate(handle.operands):
                handle.operands[number] = copies.get(operand, operand)
        return True


@dataclass
class _Loop:
    """Writes the loop of a tiling."""

    values: _Values
    tiling: _Tiling
    local: dict[ir.Value, ir.Value] = field(default_factory=dict)
    """The block of each tensor that is made in the loop, by the tensor."""
    read: dict[tuple[ir.Value, int], ir.Value] = field(default_factory=dict)
    """The block of each tensor that the loop reads, by the tensor and the dimension that is cut."""
    index: ir.Value | None = None
    begins: dict[int, ir.Value] = field(default_factory=dict)
    """Where this iteration's blocks of so many rows begin."""

    def write(self) -> None:
        """Write the loop behind its ops, and what reads it behind that; drop the ops."""
        ops = [self.values.ops[each] for each in self.tiling.positions]
        inside = set(self.tiling.positions)
        results = [
            value
            for op in ops
            for value in op.results
            if not inside.issuperset(self.values.readers[value])
        ]
        handles = [self.values.function.values[value].handle for value in results]
        with ir.InsertionPoint.after(ops[-1].handle), ops[-1].location:
            inits = [self._init(value) for value in results]
            loop, block = counted([0, self.tiling.blocks, 1], inits)
            self.index, *carried = block.arguments
            with ir.InsertionPoint(block):
                for position in self.tiling.positions:
                    self._write(position)
                given = [
                    self._given(value, handle, into)
                    for value, handle, into in zip(results, handles, carried, strict=True)
                ]
                build.create("scf.yield", [], given)
            made = [
                self._rounded(value, handle.type)
                for value, handle in zip(loop.results, handles, strict=True)
            ]
            rounded = [each.owner.operation for each in made if each.owner.operation != loop]
            last = rounded[-1] if rounded else loop
        self._move_readers(last, loop)
        for handle, value in zip(handles, made, strict=True):
            handle.replace_all_uses_with(value)
        for op in reversed(ops):
            op.handle.erase()

    def _init(self, value: int) -> ir.Value:
        type_ = self.values.function.values[value].handle.type
        if value in self.tiling.sums:
            return identity_tensor("sum", _wide(type_))
        return build.empty(type_).results[0]

    def _given(self, value: int, handle: ir.Value, into: ir.Value) -> ir.Value:
        own = self.local[handle]
        if value in self.tiling.sums:
            return combine("sum", into, _converted(own, into.type, "arith.extf"))
        dim = self._dim(value)
        return build.insert_slice_at(into, own, dim, self._begin(own.type.shape[dim]))

    def _rounded(self, value: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
        return _converted(value, type_, "arith.truncf")

    def _dim(self, value: int) -> int:
        maker = self.values.maker[value]
        cut = dict(self.values.cuts(maker, self.tiling.factors[maker]))[value]
        assert cut is not None, "it is no sum"
        return cut

    def _write(self, position: int) -> None:
        """Write one op for a block of its factor."""
        op, factor = self.values.ops[position], self.tiling.factors[position]
        rule = self.values.rule(position)
        assert rule is not None, "the op is in the tiling"
        handle = op.handle
        cuts = [cut for _, cut in self.values.cuts(position, factor)]
        operands = list(map(self._block, handle.operands, cuts))
        with handle.location:
            copy = handle.clone().operation
            for number, operand in enumerate(operands):
                copy.operands[number] = operand
            shards = list(map(self._shard, (*handle.operands, *handle.results), cuts))
            for result, shard in zip(copy.results, shards[len(operands) :], strict=True):
                if shard is not None:
                    build.retype(result, build.resized(result.type, shard.shape))
            # A partition function may give the readers of the op other values, so there is one.
            reader = build.create("builtin.unrealized_conversion_cast", [], list(copy.results))
            record = record_of(copy)
            if record is not None and record.partition is not None:
                count = len(operands)
                shards_of = tuple(shards[:count]), tuple(shards[count:])
                record.partition(PartitionedOp(copy, rule, *shards_of))
            self.local.update(zip(handle.results, list(reader.operands), strict=True))
            reader.erase()

    def _begin(self, rows: int) -> ir.Value:
        """Where this iteration's block of so many rows begins."""
        if rows not in self.begins:
            assert self.index is not None, "it is in the loop"
            factors = [self.index, build.index(rows)]
            made = build.create("arith.muli", [self.index.type], factors)
            self.begins[rows] = made.results[0]
        return self.begins[rows]

    def _block(self, value: ir.Value, dim: int | None) -> ir.Value:
        """This iteration's block of a tensor; all of it without a dimension to cut."""
        if value in self.local or dim is None:
            return self.local.get(value, value)
        if (value, dim) not in self.read:
            size = value.type.shape[dim] // self.tiling.blocks
            self.read[value, dim] = build.extract_slice(value, self._begin(size), size, dim)
        return self.read[value, dim]

    def _shard(self, value: ir.Value, along: int | None) -> Shard | None:
        """A block as if it were a shard: iterations are the devices of an axis."""
        if not isinstance(value.type, ir.RankedTensorType):
            return None
        shape, blocks = tuple(value.type.shape), self.tiling.blocks
        cut = [dim == along for dim in range(len(shape))]
        own = tuple(n // blocks if each else n for n, each in zip(shape, cut, strict=True))
        devices = tuple(blocks if each else 1 for each in cut)
        return Shard(shape, own, self._own, ((0, 0),) * len(shape), devices)

    def _own(self, dim: int, numbers: Sequence[int]) -> ir.Value:
        """Of `numbers`, one an iteration, this one's, as a `tensor<1xi64>`."""
        integer = ir.IntegerType.get_signless(64)
        listed = ir.DenseElementsAttr.get(array("q", numbers), type=integer)
        value = build.scalar(listed).results[0]
        assert self.index is not None, "it is in the loop"
        return build.extract_slice(value, self.index, 1) if len(numbers) > 1 else value

    def _move_readers(self, last: ir.Operation, loop: ir.Operation) -> None:
        """Move the ops between those of the loop that read its results behind it, in order."""
        first, end = self.tiling.positions[0], self.tiling.positions[-1]
        inside, moved = set(self.tiling.positions), set[int]()
        for position in range(first, end):
            reads = {self.values.maker.get(each) for each in read_by(self.values.ops[position])}
            if position not in inside and reads & (inside | moved):
                moved.add(position)
                handle = self.values.ops[position].handle
                handle.move_after(last)
                last = handle


def _wide(type_: ir.RankedTensorType) -> ir.RankedTensorType:
    """The type in which sums of many are added up."""
    element = type_.element_type
    is_narrow = isinstance(element, ir.FloatType) and element.width < 32
    return ir.RankedTensorType.get(type_.shape, ir.F32Type.get()) if is_narrow else type_


def _converted(value: ir.Value, type_: ir.RankedTensorType, name: str) -> ir.Value:
    if value.type == type_:
        return value
    element = type_.element_type

    def convert(each: ir.Value, *_: ir.Value) -> ir.Value:
        return build.cast(name, each, element)

    return elementwise([value], convert, type_)
