"""Shardings in attributes and types <-> the model's shardings, with a cache.

    #mesh.shard<@g, [[], [0], {max = [1]}]>              <->  Sharding, Annotation
    tensor<4x8xf32, #mesh.shard<@g, [[], [0]]>>          <->  (shape, Sharding)

Parsing and printing attributes are the most expensive calls of the bindings (about 15 us), so
`Shardings` caches them.

The stages of arguments and results, `shard_dialect.stage = @a`, and of transfers,
`shard_dialect.stages`, are read here, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shard_dialect.errors import as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create_value
from shard_dialect.ir.function import BOUNDARY, boundary
from shard_dialect.ir.grids import grids_of, sub_clusters_of
from shard_dialect.ir.mesh.attributes import BLOCKS, SHARDINGS, STAGE, STAGES, ints, symbol
from shard_dialect.ir.mesh.mesh_dialect import TRANSFER
from shard_dialect.ir.mesh.notation import only_sharding, read_notation
from shard_dialect.ir.walk import walk
from shard_dialect.model import Annotation, Grid, Sharding, ShardingError


class Shardings:
    """Reads and writes the shardings of one module; `grids` are its grids by name."""

    def __init__(self, grids: dict[str, Grid]) -> None:
        self.grids = grids
        self._read: dict[tuple[ir.Attribute, int], Annotation] = {}
        self._written: dict[Sharding | Annotation, ir.Attribute] = {}
        self._types: dict[tuple[ir.Type, Sharding | None], ir.Type] = {}
        self._in_types: dict[ir.Type, Sharding | None] = {}
        self._of_results: dict[tuple[ir.Attribute, tuple[ir.Type, ...]], dict[int, Annotation]] = {}
        self._local: dict[ir.Type, ir.Type] = {}

    @classmethod
    def of(cls, module: ir.Operation) -> Shardings:
        """For the grids that `module` declares."""
        return cls(grids_of(module))

    def grid(self, name: str) -> Grid:
        """The grid with this name. Raises `ShardingError` if it is not declared."""
        if name not in self.grids:
            known = ", ".join(as_symbol(known) for known in self.grids) or "none"
            raise ShardingError(
                f"grid {as_symbol(name)} is not declared; the module's grids: {known}"
            )
        return self.grids[name]

    def read(self, attribute: ir.Attribute, rank: int) -> Sharding:
        """The sharding `#mesh.shard<@g, [...]>` of a tensor with `rank` dimensions, checked."""
        annotation = self.read_annotation(attribute, rank)
        return only_sharding(annotation, attribute)

    def read_annotation(self, attribute: ir.Attribute, rank: int) -> Annotation:
        """As `read`, for an annotation, which may have open dimensions and the like."""
        key = (attribute, rank)
        if key not in self._read:
            self._read[key] = self.checked(read_annotation(attribute, rank), rank)
        return self._read[key]

    def checked(self, annotation: Annotation, rank: int) -> Annotation:
        """The same annotation; raises `ShardingError` unless its grid exists and has its axes."""
        annotation.check(self.grid(annotation.grid), rank)
        return annotation

    def write(self, annotation: Sharding | Annotation) -> ir.Attribute:
        """The attribute `#mesh.shard<@g, [...]>`."""
        if annotation not in self._written:
            self._written[annotation] = ir.Attribute.parse(
                f"#mesh.shard<{ir.FlatSymbolRefAttr.get(annotation.grid)}, {annotation}>"
            )
        return self._written[annotation]

    def of_type(self, type_: ir.Type) -> Sharding | None:
        """The sharding in a tensor type, or `None` for a plain type."""
        if type_ not in self._in_types:
            encoding = type_.encoding if isinstance(type_, ir.RankedTensorType) else None
            has_sharding = encoding is not None and is_sharding(encoding)
            self._in_types[type_] = self.read(encoding, type_.rank) if has_sharding else None
        return self._in_types[type_]

    def sharding_of(self, type_: ir.RankedTensorType, grid: Grid) -> Sharding:
        """The sharding in a tensor type; a type without one is replicated on `grid`."""
        return self.of_type(type_) or Sharding.replicated(grid.name, type_.rank)

    def of_results(self, op: ir.Operation) -> Mapping[int, Annotation]:
        """The annotations of an op's results, by result number.

        A list of another length was left by a pass of MLIR that dropped results: it is ignored.
        """
        attribute = op.attributes.get(SHARDINGS)
        if attribute is None:
            return {}
        key = (attribute, tuple([result.type for result in op.results]))
        if key not in self._of_results:
            fits = len(attribute) == len(op.results)
            self._of_results[key] = self._of_values(attribute, op.results) if fits else {}
        return self._of_results[key]

    def of_blocks(self, op: ir.Operation) -> list[dict[int, Annotation]]:
        """The annotations of the block arguments of an op, a dict for each block.

        A function's first block is left out. The list is empty if MLIR dropped blocks or arguments.
        """
        if BLOCKS not in op.attributes:
            return []
        blocks = annotated_blocks(op)
        by_block = list(op.attributes[BLOCKS])
        if [len(each) for each in by_block] != [len(block.arguments) for block in blocks]:
            return []
        return [
            self._of_values(each, block.arguments)
            for each, block in zip(by_block, blocks, strict=True)
        ]

    def _of_values(
        self, attributes: Iterable[ir.Attribute], values: Iterable[ir.Value]
    ) -> dict[int, Annotation]:
        return {
            number: self.read_annotation(attribute, rank_of(value.type))
            for number, (attribute, value) in enumerate(zip(attributes, values, strict=True))
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
        """The plain type of one device's shard of a tensor of distributed type `type_`."""
        if type_ not in self._local:
            sharding = self.of_type(type_)
            if sharding is None:
                return type_
            shape = sharding.local_shape(tuple(type_.shape), self.grid(sharding.grid))
            self._local[type_] = _tensor(shape, type_.element_type)
        return self._local[type_]


def annotated_blocks(op: ir.Operation) -> list[ir.Block]:
    """The blocks whose arguments the attribute `mesh.block_shardings` of an op is about."""
    blocks = [block for region in op.regions for block in region.blocks]
    return blocks[1:] if op.name == "func.func" else blocks


def _tensor(
    shape: Sequence[int], element: ir.Type, encoding: ir.Attribute | None = None
) -> ir.RankedTensorType:
    return ir.RankedTensorType.get(shape, element, encoding, loc=ir.Location.unknown())


def rank_of(type_: ir.Type) -> int:
    """The number of dimensions of a sharding of a value of this type: 0 if it is not a tensor."""
    return type_.rank if isinstance(type_, ir.RankedTensorType) else 0


def is_sharding(attribute: ir.Attribute) -> bool:
    """Whether this is a `#mesh.shard` attribute."""
    return str(attribute).startswith(_START)


def read_sharding(attribute: ir.Attribute, rank: int) -> Sharding:
    """The sharding `#mesh.shard<@g, [...]>`, without a check that its grid exists."""
    return only_sharding(read_annotation(attribute, rank), attribute)


def read_annotation(attribute: ir.Attribute, rank: int) -> Annotation:
    """As `read_sharding`, for an annotation, which may have open dimensions and the like."""
    text = str(attribute)
    if (text, rank) not in _KNOWN:
        if not text.startswith(_START):
            raise ShardingError(f"expected #mesh.shard<@grid, [...]>, found {attribute}")
        grid, axes = (parameter.maybe_downcast() for parameter in ir.DynamicAttr(attribute).params)
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[text, rank] = read_notation(symbol(grid), axes, rank)
    return _KNOWN[text, rank]


_START = "#mesh.shard<"
_MOST_KNOWN = 1 << 14
_KNOWN: dict[tuple[str, int], Annotation] = {}
"""By the text of an attribute and the rank of its tensor: an attribute would keep its context."""


def stages_named(op: ir.Operation) -> tuple[str, str] | None:
    """The source and the target stage of a transfer, from its attribute. Raises `ShardingError`."""
    if STAGES not in op.attributes:
        return None
    named = op.attributes[STAGES]
    names = list(named) if isinstance(named, ir.ArrayAttr) else []
    if len(names) != 2 or not all(isinstance(name, ir.FlatSymbolRefAttr) for name in names):
        raise ShardingError(f"{STAGES} is {named}: expected the names of two stages")
    if "cluster" not in op.attributes and op.name.startswith("mesh."):
        raise ShardingError(f"has {STAGES}, and no cluster that they are parts of")
    return symbol(names[0]), symbol(names[1])


def transfer_attributes(op: ir.Operation) -> dict[str, ir.Attribute]:
    """What a transfer between stages has besides a sharding, in whichever vocabulary it is."""
    return {name: op.attributes[name] for name in _OF_TRANSFERS if name in op.attributes}


def write_transfer(op: ir.Operation, grid: str) -> ir.Value:
    """The transfer that an op of another vocabulary stands for, at the insertion point."""
    attributes = {"cluster": ir.FlatSymbolRefAttr.get(grid), **transfer_attributes(op)}
    operand = op.operands[0]
    return create_value("mesh.collective_permute", operand.type, [operand], attributes)


_OF_TRANSFERS = (STAGES, "mesh_axis", "permutation")


def part_offsets(transfer: ir.Operation) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Where the source of a transfer begins in its target, or the target in the source."""
    offsets = tuple(ints(transfer.attributes["offsets"])) if transfer.name == TRANSFER else ()
    return (offsets, ()) if len(transfer.operands) > 1 else ((), offsets)


def has_stages(function: ir.Operation) -> bool:
    """Whether a function has stages on one grid. Raises `ShardingError`."""
    return any(stage for key in BOUNDARY for stage in stages_at(function, key)) or any(
        STAGES in op.attributes for op in walk(function)
    )


def stages_at(function: ir.Operation, key: str) -> list[str | None]:
    """The stage of each argument or result, from its attribute. Raises `ShardingError`."""
    stages: list[str | None] = []
    for entry in boundary(function, key):
        named = entry.get(STAGE)
        if named is not None and not isinstance(named, ir.FlatSymbolRefAttr):
            raise ShardingError(f"{STAGE} is {named}: expected the name of a stage")
        stages.append(None if named is None else symbol(named))
    return stages


def check_stages(op: ir.Operation, module: ir.Operation) -> None:
    """Raise `ShardingError` unless the module declares the stages of an op or function."""
    for name in stages_named(op) or ():
        check_stage(name, module, or_grid=True)
    for key in BOUNDARY if op.name == "func.func" else ():
        for stage in stages_at(op, key):
            if stage is not None:
                check_stage(stage, module)


def check_stage(name: str, module: ir.Operation, *, or_grid: bool = False) -> None:
    """Raise `ShardingError` unless the module declares a sub-cluster, or a grid, of this name."""
    if name not in (grids_of(module) if or_grid else sub_clusters_of(module)):
        known = ", ".join(as_symbol(stage) for stage in sub_clusters_of(module)) or "none"
        raise ShardingError(f"stage {as_symbol(name)} is not declared; the parts of grids: {known}")
