"""Which ops of a block of the program are computed in blocks of elements, and along what.

    %s = dot_general %q, %k         4x64x64, too large: with its readers a component
    %m = reduce max %s              4x64, between ops of the component, and small: with them
    %p = exp (%s - %m)              4x64x64
    %o = dot_general %p, %v         a reader
    %y = dot_general %o, %w         outside: it reads what the loop gives

A factor of an op's sharding rule goes along with the loop if it may be split: each tensor that has
it is cut along its dimension. A result that lacks it is a sum, to be added up from block to block.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from math import inf, prod

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import copy_along
from shard_dialect.ir.numbered_function import Block, Function, itemsize, read_by
from shard_dialect.model import ShardingRule
from shard_dialect.model.factor_projection import Dims
from shard_dialect.model.reached import reached
from shard_dialect.ops import rule_of
from shard_dialect.ops.op_table import traits_of
from shard_dialect.ops.scalar_functions import Trait


def bytes_of(type_: ir.Type) -> int:
    """The bytes of a tensor of known size; 0 of anything else."""
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        return 0
    return int(prod(type_.shape)) * itemsize(type_.element_type)


@dataclass(frozen=True)
class Tiling:
    """Ops of a block, in order, that are computed in blocks along one dimension of each tensor.

    `factors` has the factor of each op, by its position, that goes along.
    """

    positions: tuple[int, ...]
    factors: dict[int, int]
    blocks: int
    sums: frozenset[int]
    """The results that are summed along the factor."""


class Values:
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

    def _type(self, value: int) -> ir.Type:
        return self.function.values[value].handle.type

    def is_large(self, value: int) -> bool:
        """Whether the tensor is to be computed in blocks: if it is as large as some scores."""
        type_ = self._type(value)
        return bytes_of(type_) > self.limit and prod(type_.shape) >= self._fewest

    @cached_property
    def _fewest(self) -> float:
        """The elements of the smallest scores: a product that is larger than its operands.

        Others, such as the layers of a perceptron, are read from memory once more for each block.
        """
        found = inf
        for position, op in enumerate(self.ops):
            is_large = any(bytes_of(self._type(each)) > self.limit for each in op.results)
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
            traits = traits_of(op.name)
            is_plain &= Trait.UPDATES not in traits and Trait.SLICES not in traits
            is_list = (
                build.is_constant(op.handle) and build.splat_value(op.handle.results[0]) is None
            )
            rule = rule_of(op.handle) if is_plain and not is_list else None
            self._rules[position] = rule if rule is not None and not rule.inits else None
        return self._rules[position]

    def components(self) -> list[list[int]]:
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

    def before_others(self, component: Sequence[int]) -> tuple[list[int], list[int]]:
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

        def makers(position: int) -> list[int]:
            return [self.maker[each] for each in read_by(self.ops[position]) if each in self.maker]

        return set(reached(chain.from_iterable(map(makers, positions)), makers))

    def tiling(self, positions: Sequence[int]) -> Tiling | None:
        """The best way to compute these ops in blocks; `None` if there is none.

        Tensors that are small enough come before few sums, and these before few blocks.
        """
        made = [value for each in positions for value in self.ops[each].results]
        large = [value for value in made if self.is_large(value)]
        # What only elementwise ops make, no compiler stores.
        products = [value for value in large if self._is_product(self.maker[value])]
        if not products:
            return None
        first, most = products[0], max(bytes_of(self._type(value)) for value in large)
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

    def _along(self, positions: Sequence[int], first: int, dim: int, blocks: int) -> Tiling | None:
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
        return Tiling(tuple(sorted(factors)), factors, blocks, sums)

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

    def is_only_for(self, late: Sequence[int], tiling: Tiling) -> bool:
        """Whether only ops that come late read the loop, which would be computed again for them."""
        return not any(
            reader not in tiling.factors
            and (reader not in late or value in tiling.sums or not self.is_large(value))
            for each in tiling.positions
            for value in self.ops[each].results
            for reader in self.readers[value]
        )

    def compute_again(self, tiling: Tiling, late: Sequence[int]) -> bool:
        """Compute again, for ops that come late, the large tensors that they read from the loop.

        Sums are whole after it.
        """
        ours = set(tiling.positions)
        again: list[int] = []
        todo = [value for each in late for value in self.ops[each].operands]
        while todo:
            value = todo.pop()
            maker = self.maker.get(value)
            if maker not in ours or maker in again or value in tiling.sums:
                continue
            if self.is_large(value):
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
                copy_along(op, copies)
        for position in late:
            handle = self.ops[position].handle
            for number, operand in enumerate(handle.operands):
                handle.operands[number] = copies.get(operand, operand)
        return True
