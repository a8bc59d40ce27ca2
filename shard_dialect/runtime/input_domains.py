"""Where a program is defined: the values that its arguments may have, as the program itself says.

    %v = 0.9 * %arg0 + 0.1 * (%g * %g)        a root is of no negative number,
    %0 = stablehlo.sqrt %v                    so %arg0 has none

    %2 = arith.cmpi slt, %in, %c10            an assertion of each element of %arg1,
    cf.assert %2                              so %arg1 is less than 10

From what is required, the search goes back to the arguments: through ops that only move elements,
into the bodies of `linalg` ops, and, for signs, through sums, products and quotients. At any
other op it ends, and the arguments before that keep the bounds that they have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.function import boundary, functions_of, name_of
from shard_dialect.ir.mesh.attributes import RESULT
from shard_dialect.ir.reading.constants import constant_integer
from shard_dialect.ir.walk import body, operations, walk


@dataclass(frozen=True, slots=True)
class Domain:
    """The least and the largest value of an argument's elements; `None` where there is no bound."""

    low: int | None = None
    high: int | None = None

    def within(self, other: Domain) -> Domain:
        """The values that are in both."""
        lows = [each for each in (self.low, other.low) if each is not None]
        highs = [each for each in (self.high, other.high) if each is not None]
        return Domain(max(lows, default=None), min(highs, default=None))


_NOT_NEGATIVE = Domain(low=0)
_ROOTS = ("sqrt", "rsqrt", "log", "log2", "log10")
"""Functions of numbers that are not negative, by their names in `math`, StableHLO and TOSA."""
_SIGNED = ("add", "addf", "mul", "mulf", "multiply", "div", "divf", "divide", "reduce", "select")
"""Ops whose results are not negative if no operand is."""
_MOVES = (
    "all_gather all_slice annotate broadcast broadcast_in_dim collapse_shape concat concatenate "
    "convert dynamic_slice expand_shape extract extract_slice extf extsi extui gather index_cast "
    "local_split pad reshape reshard reverse shard sharding_constraint slice transpose truncf "
    "trunci"
).split()
"""Ops whose results have the elements of their first operand, or of several."""
_BOUNDS = {
    "slt": lambda n: Domain(high=n - 1),
    "sle": lambda n: Domain(high=n),
    "sgt": lambda n: Domain(low=n + 1),
    "sge": lambda n: Domain(low=n),
    "ult": lambda n: Domain(0, n - 1),
    "ule": lambda n: Domain(0, n),
}
_SWAPPED = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle", "ugt": "ult", "uge": "ule"}


def domains_of(module: ir.Operation, entry: str) -> list[Domain]:
    """The domain of each argument of the function `entry`."""
    function = next(each for each in functions_of(module) if name_of(each) == entry)
    search = _Search(function)
    for op in walk(function):
        for value, domain in _required(op):
            search.require(value, domain)
    # In the lowered form arguments are for results, too.
    attributes = boundary(function, "arg_attrs")
    return [
        domain for domain, each in zip(search.found, attributes, strict=True) if RESULT not in each
    ]


def _required(op: ir.Operation) -> Iterator[tuple[ir.Value, Domain]]:
    """The values that an op reads, with the domain in which it is defined."""
    dialect, _, name = op.name.partition(".")
    if name in _ROOTS and dialect in ("math", "stablehlo", "tosa"):
        yield op.operands[0], _NOT_NEGATIVE
    elif op.name == "cf.assert":
        yield from _asserted(op.operands[0])
    elif op.name == "tensor.extract":
        sizes = op.operands[0].type.shape
        for index, size in zip(list(op.operands)[1:], sizes, strict=True):
            yield index, Domain(0, size - 1 if size > 0 else None)


def _asserted(condition: ir.Value) -> Iterator[tuple[ir.Value, Domain]]:
    op = condition.owner
    if isinstance(op, ir.Block):
        return
    if op.name == "arith.andi":
        for each in op.operands:
            yield from _asserted(each)
    elif op.name == "arith.cmpi":
        how = build.OF_INTEGERS[op.attributes["predicate"].value]
        for value, bound, name in (
            (op.operands[0], op.operands[1], how),
            (op.operands[1], op.operands[0], _SWAPPED.get(how, "")),
        ):
            number = constant_integer(bound)
            if number is not None and name in _BOUNDS:
                yield value, _BOUNDS[name](number)


@dataclass
class _Search:
    """The way from values back to the arguments of a function."""

    function: ir.Operation
    found: list[Domain] = field(init=False)
    _seen: set[tuple[ir.Value, Domain]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.found = [Domain() for _ in body(self.function).arguments]

    def require(self, value: ir.Value, domain: Domain) -> None:
        """Note that the elements of a value are in a domain, for the arguments it is made of."""
        waiting = [value]
        while waiting:
            each = waiting.pop()
            if (each, domain) not in self._seen:
                self._seen.add((each, domain))
                waiting += self._before(each, domain)

    def _before(self, value: ir.Value, domain: Domain) -> list[ir.Value]:
        """The values whose elements are then in the domain, too."""
        if isinstance(value.owner, ir.Block):
            return self._behind_argument(ir.BlockArgument(value), domain)
        op = value.owner
        operands = list(op.operands)
        name = op.name.partition(".")[2]
        if op.name.startswith("linalg.") and len(op.regions):
            number = ir.OpResult(value).result_number
            return [operations(op.regions[0].blocks[0])[-1].operands[number]]
        if name in _MOVES:
            return operands if name.startswith("concat") else operands[:1]
        is_square = len(operands) == 2 and operands[0] == operands[1]
        if domain == _NOT_NEGATIVE and name in _SIGNED and not is_square:
            return operands
        return []

    def _behind_argument(self, value: ir.BlockArgument, domain: Domain) -> list[ir.Value]:
        owner, number = value.owner.owner.operation, value.arg_number
        if owner == self.function:
            self.found[number] = self.found[number].within(domain)
        elif owner.name.startswith("linalg."):
            return [owner.operands[number]]
        return []
