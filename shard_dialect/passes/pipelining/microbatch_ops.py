"""The ops that take a batch apart and put it together: StableHLO's, or those of upstream.

A program has one of the two vocabularies, and is to have no other in the end. Numbers, such as that
of a microbatch, are tensors of one `i32` with StableHLO, and of type `index` without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.model import Reduction
from shard_dialect.passes.pipelining.unroll_loops import integer_constant

_NUMBERS = {
    "add": "arith.addi",
    "multiply": "arith.muli",
    "divide": "arith.divsi",
    "remainder": "arith.remsi",
    "maximum": "arith.maxsi",
    "minimum": "arith.minsi",
    "and": "arith.andi",
}
"""Functions of two numbers by their name in StableHLO, and what upstream calls them."""


@dataclass(frozen=True)
class MicrobatchOps:
    """Creates ops at the insertion point, of StableHLO or of upstream's dialects."""

    stablehlo: bool

    @property
    def number_type(self) -> ir.Type:
        """The type of numbers."""
        if not self.stablehlo:
            return ir.IndexType.get()
        return hlo.tensor([], build.integer(32))

    def number(self, value: int) -> ir.Value:
        """A constant number."""
        return integer_constant(self.number_type, value)

    def of_numbers(self, name: str, a: ir.Value, b: int | ir.Value) -> ir.Value:
        """A function of two numbers by its name in StableHLO."""
        other = self.number(b) if isinstance(b, int) else b
        name = f"stablehlo.{name}" if self.stablehlo else _NUMBERS[name]
        return build.create_value(name, a.type, [a, other])

    def compare(self, how: str, a: ir.Value, b: int) -> ir.Value:
        """The comparison of two numbers: `how` is `EQ`, `LT`, `GE`."""
        other = self.number(b)
        if not self.stablehlo:
            return build.compare("eq" if how == "EQ" else f"s{how.lower()}", a, other)
        return hlo.compare(how, a, other)

    def select(self, which: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        """One of two tensors."""
        return (hlo.select if self.stablehlo else build.select)(which, a, b)

    def combined(self, reduction: Reduction, a: ir.Value, b: ir.Value) -> ir.Value:
        """Two values, reduced to one element by element."""
        if not self.stablehlo:
            return reductions.combine(reduction, a, b)
        return hlo.elementwise(hlo.COMBINERS[reduction], a, b)

    def identity(self, reduction: Reduction, type_: ir.RankedTensorType) -> ir.Value:
        """A tensor filled with the identity of the reduction."""
        if not self.stablehlo:
            value = reductions.identity_value(reduction, type_.element_type)
            return build.fill(value, build.empty(type_)).results[0]
        return hlo.splat(reductions.identity(reduction, type_.element_type), type_)

    def part(self, whole: ir.Value, dim: int, begin: ir.Value, size: int) -> ir.Value:
        """The `size` elements of dimension `dim` from the number `begin` on."""
        if not self.stablehlo:
            return build.extract_slice(whole, begin, size, dim)
        return hlo.slice_at(whole, dim, begin, size)

    def put(self, whole: ir.Value, part: ir.Value, dim: int, begin: ir.Value) -> ir.Value:
        """`whole` with `part` in the place of the elements of dimension `dim` from `begin` on."""
        if not self.stablehlo:
            return build.insert_slice_at(whole, part, dim, begin)
        return hlo.update_at(whole, part, dim, begin)

    def row(self, tensor: ir.Value) -> ir.Value:
        """The tensor as a row of one with a dimension more in front."""
        box = build.resized(tensor.type, [1, *tensor.type.shape])
        if self.stablehlo:
            return hlo.reshape(tensor, box.shape)
        attributes = build.slice_attributes(box.shape, [0] * box.rank, [1, 1, 0, 0, 0])
        operands = [tensor, build.empty(box)]
        return build.create_value("tensor.insert_slice", box, operands, attributes)

    def of_row(self, row: ir.Value) -> ir.Value:
        """A row without its dimension of size 1 in front."""
        box = row.type
        type_ = build.resized(box, list(box.shape)[1:])
        if self.stablehlo:
            return hlo.reshape(row, type_.shape)
        attributes = build.slice_attributes(box.shape, [0] * box.rank, [1, 0, 0, 0])
        return build.create_value("tensor.extract_slice", type_, [row], attributes)

    def loop(
        self, begin: int, end: int, inits: Sequence[ir.Value]
    ) -> tuple[ir.Operation, ir.Block]:
        """A loop over the numbers from `begin` to before `end` that carries values; its body.

        The arguments of the body are the number and the carried values. `end_body` ends it.
        """
        types = [self.number_type, *(each.type for each in inits)]
        places = [ir.Location.current] * len(types)
        if not self.stablehlo:
            bounds = [build.index(each) for each in (begin, end, 1)]
            loop = build.create("scf.for", types[1:], [*bounds, *inits], regions=1)
            return loop, loop.regions[0].blocks.append(*types, arg_locs=places)
        loop = build.create("stablehlo.while", types, [self.number(begin), *inits], regions=2)
        test, body = (region.blocks.append(*types, arg_locs=places) for region in loop.regions)
        with ir.InsertionPoint(test):
            hlo.ends([self.compare("LT", test.arguments[0], end)])
        return loop, body

    def end_body(self, body: ir.Block, values: Sequence[ir.Value]) -> None:
        """End the body of a loop, at the insertion point, with the values of the next trip."""
        if not self.stablehlo:
            build.create("scf.yield", [], values)
            return
        following = self.of_numbers("add", body.arguments[0], 1)
        hlo.ends([following, *values])

    def case(
        self,
        number: ir.Value,
        types: Sequence[ir.Type],
        branches: Sequence[Callable[[], Sequence[ir.Value]]],
    ) -> list[ir.Value]:
        """The results of the branch with a number; `branches` write, and return, theirs."""
        if self.stablehlo:
            op = build.create("stablehlo.case", types, [number], regions=len(branches))
            regions = list(op.regions)
        else:
            op, regions = build.index_switch(number, types, len(branches))
        for region, branch in zip(regions, branches, strict=True):
            with ir.InsertionPoint(region.blocks.append()):
                build.create("stablehlo.return" if self.stablehlo else "scf.yield", [], branch())
        return list(op.results)

    def carried(self, loop: ir.Operation) -> list[ir.Value]:
        """The values that a loop has carried, after it."""
        return list(loop.results)[int(self.stablehlo) :]
