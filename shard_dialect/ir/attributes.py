"""Between MLIR's attributes and the model's values, each conversion made once.

    shard.grid @g(shape = 2x4), "mesh.cluster"() {...}   <->  Grid
    #mesh.shard<@g, [[], [0], {max = [1]}]>              <->  Sharding
    tensor<4x8xf32, #mesh.shard<@g, [[], [0]]>>          <->  (shape, Sharding)

Parsing and printing attributes are the dearest calls of the bindings (about 15 us), so a
`Shardings` keeps what it has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import REDUCTIONS, Grid, Reduction, Sharding, ShardingError

SHARDING = "mesh.sharding"
"""Argument and result attribute of the propagated form."""
SHARDINGS = "mesh.shardings"
"""Op attribute of the propagated form: one sharding for each result."""
ARGUMENT = "mesh.argument"
"""Argument attribute of the local form: the global type, sharding included."""
RESULT = "mesh.result"
"""The same for a result; in the lowered form, for the argument that the result is written to."""
COLLECTIVE = "mesh.collective"
"""Attribute of a declared runtime function of the lowered form: the collective that it does."""
FORMS = ("propagated", "distributed", "local", "lowered")
FORM = "mesh.form"
"""Function attribute: which of the five forms it is in; absent for annotated ones."""

_DYNAMIC = -(2**63)
_MAX_RANK = 64


def grids_of(module: ir.Operation) -> dict[str, Grid]:
    """The module's grids by name: `shard.grid` and `mesh.cluster` alike."""
    grids: dict[str, Grid] = {}
    for op in operations(body(module)):
        grid = read_grid(op)
        if grid is None:
            continue
        if grid.name in grids:
            raise error_at(op.location, f"two grids are named @{grid.name}")
        grids[grid.name] = grid
    return grids


def read_grid(op: ir.Operation) -> Grid | None:
    """The grid that `op` declares, or `None` if it declares none."""
    with located(op):
        if op.name == "shard.grid":
            sizes = [None if size == _DYNAMIC else size for size in op.attributes["shape"]]
            return Grid(op.attributes["sym_name"].value, tuple(sizes))
        if op.name == "mesh.cluster":
            return _read_cluster(op)
    return None


def _read_cluster(op: ir.Operation) -> Grid:
    """RFC: `rank` axes, of which the first have their sizes in `dim_sizes`; 0, -1: unknown."""
    name = expect(op, "sym_name", ir.StringAttr, "a string").value
    rank = integer(expect(op, "rank", ir.IntegerAttr, "an integer"))
    if not 1 <= rank <= _MAX_RANK:
        raise ShardError(f"cluster @{name} has rank {rank}: expected 1 to {_MAX_RANK}")
    sizes = ints(op.attributes["dim_sizes"]) if "dim_sizes" in op.attributes else []
    if len(sizes) > rank:
        raise ShardError(f"cluster @{name} of rank {rank} has {len(sizes)} dim_sizes")
    known = [None if size in (0, -1, _DYNAMIC) else size for size in sizes]
    return Grid(name, (*known, *(None,) * (rank - len(sizes))))


def expect(op: ir.Operation, name: str, kind: type, what: str) -> ir.Attribute:
    """The op's attribute `name`, of class `kind`; raises `ShardingError` if it is another."""
    attribute = op.attributes[name] if name in op.attributes else None
    if not isinstance(attribute, kind):
        raise ShardingError(f"attribute '{name}' must be {what}, found {attribute}")
    return attribute


def integer(attribute: ir.IntegerAttr) -> int:
    """Its value; the bindings overflow past 64 bits."""
    if isinstance(attribute.type, ir.IntegerType) and attribute.type.width > 64:
        raise ShardingError(f"{attribute} is wider than 64 bits")
    return attribute.value


def ints(attribute: ir.Attribute) -> list[int]:
    """The integers of `[0, 1]` or `array<i64: 0, 1>`."""
    if isinstance(attribute, ir.DenseI64ArrayAttr | ir.DenseI32ArrayAttr | ir.DenseI16ArrayAttr):
        return list(attribute)
    if isinstance(attribute, ir.ArrayAttr):
        entries = list(attribute)
        if all(isinstance(entry, ir.IntegerAttr) for entry in entries):
            return [integer(entry) for entry in entries]
    raise ShardingError(f"expected a list of integers, found {attribute}")


def symbol(attribute: ir.Attribute) -> str:
    """The name in `@g`."""
    return str(attribute.value) if isinstance(attribute, ir.FlatSymbolRefAttr) else str(attribute)


class Shardings:
    """Reads and writes the shardings of one module; `grids` are its grids by name."""

    def __init__(self, grids: dict[str, Grid]) -> None:
        self.grids = grids
        self._read: dict[tuple[ir.Attribute, int], Sharding] = {}
        self._written: dict[Sharding, ir.Attribute] = {}
        self._types: dict[tuple[ir.Type, Sharding | None], ir.Type] = {}

    @classmethod
    def of(cls, module: ir.Operation) -> Shardings:
        return cls(grids_of(module))

    def grid(self, name: str) -> Grid:
        if name not in self.grids:
            known = ", ".join(f"@{known}" for known in self.grids) or "none"
            raise ShardingError(f"grid @{name} is not declared; the module's grids: {known}")
        return self.grids[name]

    def read(self, attribute: ir.Attribute, rank: int) -> Sharding:
        """The sharding `#mesh.shard<@g, [...]>` of a tensor of `rank` dimensions, checked."""
        key = (attribute, rank)
        if key not in self._read:
            self._read[key] = self.checked(read_sharding(attribute, rank), rank)
        return self._read[key]

    def checked(self, sharding: Sharding, rank: int) -> Sharding:
        """The same sharding; raises unless its grid is declared and has its axes."""
        sharding.check(self.grid(sharding.grid), rank)
        return sharding

    def write(self, sharding: Sharding) -> ir.Attribute:
        if sharding not in self._written:
            text = f"#mesh.shard<@{sharding.grid}, {sharding}>"
            self._written[sharding] = ir.Attribute.parse(text)
        return self._written[sharding]

    def of_type(self, type_: ir.Type) -> Sharding | None:
        """The sharding in a tensor type, or `None` for a plain type."""
        if not isinstance(type_, ir.RankedTensorType) or type_.encoding is None:
            return None
        if not is_sharding(type_.encoding):
            return None
        return self.read(type_.encoding, type_.rank)

    def of_results(self, op: ir.Operation) -> dict[int, Sharding]:
        """The shardings of an op's results in the propagated form, by result number."""
        if SHARDINGS not in op.attributes:
            return {}
        return {
            number: self.read(attribute, op.results[number].type.rank)
            for number, attribute in enumerate(op.attributes[SHARDINGS])
            if not isinstance(attribute, ir.UnitAttr)
        }

    def typed(self, type_: ir.RankedTensorType, sharding: Sharding | None) -> ir.RankedTensorType:
        """The type with this sharding; a plain type for a replicated tensor."""
        key = (type_, sharding)
        if key not in self._types:
            encoding = None if sharding is None or sharding.is_replicated else self.write(sharding)
            self._types[key] = _tensor(type_.shape, type_.element_type, encoding)
        return self._types[key]

    def local(self, type_: ir.RankedTensorType) -> ir.RankedTensorType:
        """The plain type of one device's piece of a tensor of distributed type `type_`."""
        sharding = self.of_type(type_)
        if sharding is None:
            return type_
        shape = sharding.local_shape(tuple(type_.shape), self.grid(sharding.grid))
        return _tensor(shape, type_.element_type)


def _tensor(
    shape: Sequence[int], element: ir.Type, encoding: ir.Attribute | None = None
) -> ir.RankedTensorType:
    return ir.RankedTensorType.get(shape, element, encoding, loc=ir.Location.unknown())


def is_sharding(attribute: ir.Attribute) -> bool:
    return str(attribute).startswith("#mesh.shard<")


def read_sharding(attribute: ir.Attribute, rank: int) -> Sharding:
    """The sharding `#mesh.shard<@g, [...]>` of a tensor of `rank` dimensions."""
    if not is_sharding(attribute):
        raise ShardingError(f"expected #mesh.shard<@grid, [...]>, found {attribute}")
    grid, axes = (parameter.maybe_downcast() for parameter in ir.DynamicAttr(attribute).params)
    return read_axes(symbol(grid), axes, rank)


def read_axes(grid: str, axes: ir.Attribute, rank: int) -> Sharding:
    """The sharding that the RFC's `[[0], [], [1]]` gives a tensor of `rank` dimensions.

    Fewer lists than dimensions leave the last ones whole; one more is a partial sum.
    """
    if not isinstance(axes, ir.ArrayAttr):
        raise ShardingError(f"expected a list of lists of axes, found {axes}")
    lists = list(axes)
    partial: tuple[int, ...] = ()
    reduction: Reduction = "sum"
    if lists and isinstance(lists[-1], ir.DictAttr):
        partial, reduction = _read_partial(lists.pop())
    elif len(lists) == rank + 1:
        partial = tuple(ints(lists.pop()))
    split = [tuple(ints(entry)) for entry in lists]
    if len(split) > rank:
        raise ShardingError(
            f"sharding {axes} has split axes for {len(split)} dimensions, but the tensor has {rank}"
        )
    return Sharding(grid, (*split, *((),) * (rank - len(split))), partial, reduction)


def _read_partial(entry: ir.DictAttr) -> tuple[tuple[int, ...], Reduction]:
    named = list(entry)
    if len(named) != 1 or named[0].name not in REDUCTIONS:
        raise ShardingError(
            f"expected one reduction of {', '.join(REDUCTIONS)} with its axes, found {entry}"
        )
    return tuple(ints(named[0].attr)), cast("Reduction", named[0].name)


def i64_array(values: Sequence[int]) -> ir.ArrayAttr:
    """`[0, 1]`."""
    i64 = ir.IntegerType.get_signless(64)
    return ir.ArrayAttr.get([ir.IntegerAttr.get(i64, value) for value in values])
