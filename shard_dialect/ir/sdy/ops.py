"""Reads and checks Shardy's ops and attributes in a module.

For the bindings the ops are unregistered, and the attributes opaque text. This module makes the
checks of Shardy's own verifier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from shard_dialect.errors import as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.mesh.attributes import expect, integer
from shard_dialect.ir.mesh.check_mesh_ops import DIRECTIONS
from shard_dialect.ir.sdy import syntax
from shard_dialect.ir.sdy.syntax import NUMBERED_REDUCTIONS, axis_number, to_annotation
from shard_dialect.ir.walk import operations, walk
from shard_dialect.model import Annotation, Grid, Reduction, ShardingError
from shard_dialect.model.rule_text import WrittenRule, check_rule, read_rule

SHARDING = "sdy.sharding"
RULE = "sdy.sharding_rule"
_RULE_START = "#sdy.op_sharding_rule<"
CONSTRAINTS = ("sdy.sharding_constraint", "sdy.reshard")
COLLECTIVES = ("sdy.all_gather", "sdy.all_slice", "sdy.all_to_all", "sdy.collective_permute")
"""The collectives that only change how a value is split."""
TO_UNREDUCED = ("sdy.replicated_to_unreduced", "sdy.sharded_to_unreduced")
REDUCTIONS = {"sdy.all_reduce": "reduction_axes", "sdy.reduce_scatter": "reduce_scatter_axes"}
"""Collectives that add up, with the attribute that lists the axes."""
EDGES = ("sdy.data_flow_edge", "sdy.func_data_flow_edge")
COMPUTATIONS = ("sdy.manual_computation", "sdy.named_computation")


@dataclass(frozen=True)
class SdyReader:
    """Reads the attributes of one module; `grids` are its grids by name."""

    grids: dict[str, Grid]

    def annotation(self, tensor_sharding: syntax.TensorSharding, type_: ir.Type) -> Annotation:
        """The annotation of a value of `type_`, for a sharding on its mesh.

        Raises `ShardingError` if the mesh is not declared, or the sharding does not fit the type.
        """
        if isinstance(tensor_sharding.mesh, Grid):
            grid = self.grid_like(tensor_sharding.mesh)
        elif tensor_sharding.mesh in self.grids:
            grid = self.grids[tensor_sharding.mesh]
        else:
            known = ", ".join(as_symbol(name) for name in self.grids) or "none"
            raise ShardingError(
                f"mesh {as_symbol(tensor_sharding.mesh)} is not declared; the module's: {known}"
            )
        if isinstance(type_, ir.UnrankedTensorType):
            raise ShardingError(f"has a sharding for a {type_}, which has no rank")
        is_tensor = isinstance(type_, ir.RankedTensorType)
        if not is_tensor and (tensor_sharding.replicated or tensor_sharding.unreduced):
            raise ShardingError(
                f"has sharding {tensor_sharding}, with axes, for a {type_}, no tensor"
            )
        rank = type_.rank if is_tensor else 0
        return to_annotation(tensor_sharding, grid, rank)

    def grid_like(self, mesh: Grid) -> Grid:
        """The declared grid that equals a mesh written out in a sharding; else that mesh."""
        return next((grid for grid in self.grids.values() if _same_mesh(grid, mesh)), mesh)

    def sharding(self, attribute: ir.Attribute, type_: ir.Type) -> Annotation:
        """The annotation in a `#sdy.sharding`. Raises `ShardingError`."""
        return self.annotation(syntax.read_sharding(str(attribute)), type_)

    def per_value(self, attribute: ir.Attribute, types: Sequence[ir.Type]) -> list[Annotation]:
        """The annotations in a `#sdy.sharding_per_value`, one for each type.

        An op without results may have one, on a maximal mesh. Raises `ShardingError`.
        """
        return self._each(syntax.read_per_value(str(attribute)), types)

    def manual_shardings(self, op: ir.Operation) -> tuple[list[Annotation], list[Annotation]]:
        """The annotations of a manual computation's operands and results. Raises `ShardingError`.

        Those on an empty mesh are replicated, on the mesh of the others.
        """
        keys = ("in_shardings", "out_shardings")
        sides = [syntax.read_per_value(str(_attribute(op, key))) for key in keys]
        meshes = [each.mesh for each in (*sides[0], *sides[1]) if not self.is_empty(each.mesh)]
        operands, results = (
            [replace(e, mesh=meshes[0]) if meshes and self.is_empty(e.mesh) else e for e in each]
            for each in sides
        )
        return self._each(operands, _types(op.operands)), self._each(results, _types(op.results))

    def is_empty(self, mesh: str | Grid) -> bool:
        """Whether nothing can be split on a mesh, which names no device either."""
        grid = mesh if isinstance(mesh, Grid) else self.grids.get(mesh)
        return grid is not None and not grid.rank and not grid.device_ids

    def _each(
        self, shardings: Sequence[syntax.TensorSharding], types: Sequence[ir.Type]
    ) -> list[Annotation]:
        if not types and len(shardings) == 1 and not shardings[0].dims:
            return [self.annotation(shardings[0], ir.NoneType.get())]
        if len(shardings) != len(types):
            raise ShardingError(f"has {len(shardings)} shardings for {len(types)} values")
        return [self.annotation(each, type_) for each, type_ in zip(shardings, types, strict=True)]

    def rule(self, op: ir.Operation) -> WrittenRule:
        """The rule in an op's `sdy.sharding_rule`. Raises `ShardError` if it does not fit."""
        text = str(op.attributes[RULE])
        if not text.startswith(_RULE_START) or not text.endswith(">"):
            raise ShardingError(f"{RULE} must be {_RULE_START}...>, found {text}")
        return rule_for(op, text[len(_RULE_START) : -1])


def rule_for(op: ir.Operation, text: str) -> WrittenRule:
    """The rule in `text`. Raises `ShardError` if it does not fit the tensors of `op`."""
    shapes = [
        tuple(each.type.shape)
        if isinstance(each.type, ir.RankedTensorType) and each.type.has_static_shape
        else None
        for each in (*op.operands, *op.results)
    ]
    written = read_rule(text, shapes)
    check_rule(written.rule, shapes[: len(op.operands)], shapes[len(op.operands) :])
    return written


def _same_mesh(a: Grid, b: Grid) -> bool:
    return (a.shape, a.axes, a.device_ids) == (b.shape, b.axes, b.device_ids)


def direction(op: ir.Operation) -> str:
    """The direction in which a barrier lets shardings pass. Raises `ShardingError`."""
    number = integer(expect(op, "allowed_direction", ir.IntegerAttr, "a number"))
    if number == 3:
        raise ShardingError("allows both directions, and so bars nothing: leave it out")
    if not 0 <= number < len(DIRECTIONS):
        raise ShardingError(f"allows direction {number}: expected 0 to {len(DIRECTIONS) - 1}")
    return DIRECTIONS[number]


def verify_op(op: ir.Operation, reader: SdyReader) -> None:
    """Raise `ShardingError` for an op that Shardy's verifier would refuse."""
    if op.name.startswith("sdy."):
        if op.name not in _CHECKS:
            raise ShardingError("is not known: expected an op of Shardy of jaxlib 0.10")
        _CHECKS[op.name](op, reader)
    if SHARDING in op.attributes:
        reader.per_value(op.attributes[SHARDING], [result.type for result in op.results])
    if RULE in op.attributes:
        reader.rule(op)
    _check_free(op)


def _check_free(op: ir.Operation) -> None:
    """Raise `ShardingError` if a sharding in a manual computation uses one of its manual axes."""
    free = [
        each
        for key, read in _SHARDINGS.items()
        if key in op.attributes and (key == SHARDING or op.name.startswith("sdy."))
        for each in read(str(op.attributes[key]))
    ]
    outer = _manual_around(op) if free else set()
    for each in free if outer else ():
        for ref in (
            *(ref for dim in each.dims for ref in dim.axes),
            *each.replicated,
            *each.unreduced,
        ):
            if ref.name in outer:
                raise ShardingError(f'has axis "{ref.name}" in {each}, which is manual here')


def _check_mesh(op: ir.Operation, reader: SdyReader) -> None:
    if op.parent is None or op.parent.name != "builtin.module":
        raise ShardingError("declares a mesh inside of another op: expected it in the module")


def _check_constraint(op: ir.Operation, reader: SdyReader) -> None:
    _check_identity(op)
    reader.sharding(_attribute(op, "sharding"), op.operands[0].type)


def _check_collective(op: ir.Operation, reader: SdyReader) -> None:
    _check_identity(op)
    _check_ranked(op)
    reader.sharding(_attribute(op, "out_sharding"), op.operands[0].type)
    if op.name in REDUCTIONS:
        reduced(op, reader)


def reduced(op: ir.Operation, reader: SdyReader) -> Annotation:
    """The annotation of a reduction's operand: partial along the axes that it adds up.

    Raises `ShardingError` for axes that the mesh of `out_sharding` has not.
    """
    out = syntax.read_sharding(str(_attribute(op, "out_sharding")))
    axes = syntax.read_axis_lists(str(_attribute(op, REDUCTIONS[op.name])))
    grid = reader.grids[reader.annotation(out, op.operands[0].type).grid]
    order = [grid.axis_name(axis) for axis in range(grid.rank)]
    for each in axes:
        axis_number(each.name, grid, op.name)
    partial = sorted({*axes, *out.unreduced}, key=lambda each: (order.index(each.name), each.sub))
    dims = out.dims
    if op.name == "sdy.reduce_scatter":  # the result is split along axes that the operand is not
        dims = tuple(syntax.Dim(is_open=True) for _ in dims)
    reduced = {each.name for each in axes}
    replicated = tuple(each for each in out.replicated if each.name not in reduced)
    operand = replace(
        out, dims=dims, replicated=replicated, unreduced=tuple(partial), reduction=_reduction(op)
    )
    return reader.annotation(operand, op.operands[0].type)


def _reduction(op: ir.Operation) -> Reduction:
    """The reduction, which newer versions of Shardy number unless it is a sum."""
    if "reduction_op" not in op.attributes:
        return NUMBERED_REDUCTIONS[0]
    number = integer(expect(op, "reduction_op", ir.IntegerAttr, "a number"))
    if not 0 <= number < len(NUMBERED_REDUCTIONS):
        last = len(NUMBERED_REDUCTIONS) - 1
        raise ShardingError(f"has reduction_op {number}: expected 0 to {last}")
    return NUMBERED_REDUCTIONS[number]


def _check_edge(op: ir.Operation, reader: SdyReader) -> None:
    _check_identity(op)
    if "sharding" in op.attributes:
        reader.sharding(op.attributes["sharding"], op.operands[0].type)


def _check_sdy_constant(op: ir.Operation, reader: SdyReader) -> None:
    _attribute(op, "value")
    if len(op.operands) or len(op.results) != 1:
        raise ShardingError("takes nothing and gives one value")


def _check_identity(op: ir.Operation) -> None:
    types = [value.type for value in (*op.operands, *op.results)]
    if len(op.operands) != 1 or len(op.results) != 1 or types[0] != types[1]:
        raise ShardingError("takes one value and gives it: expected one operand and result alike")


def _check_ranked(op: ir.Operation) -> None:
    if not isinstance(op.operands[0].type, ir.RankedTensorType):
        raise ShardingError(f"is on a {op.operands[0].type}: expected a ranked tensor")


def _check_group(op: ir.Operation, reader: SdyReader) -> None:
    integer(expect(op, "group_id", ir.IntegerAttr, "a number"))
    if len(op.operands) != 1 or len(op.results):
        raise ShardingError("takes one tensor and gives none")
    _check_ranked(op)


def _check_barrier(op: ir.Operation, reader: SdyReader) -> None:
    _check_identity(op)
    _check_ranked(op)
    direction(op)


def _check_named(op: ir.Operation, reader: SdyReader) -> None:
    expect(op, "name", ir.StringAttr, "a string")
    _check_region(op)
    operands, results = _types(op.operands), _types(op.results)
    if _types(op.regions[0].blocks[0].arguments) != operands:
        raise ShardingError("has operands and block arguments of different types")
    if _types(_terminator(op).operands) != results:
        raise ShardingError("returns other types from its region than its own results have")
    for key, types in (("in_shardings", operands), ("out_shardings", results)):
        if key in op.attributes:
            reader.per_value(op.attributes[key], types)


def _check_manual(op: ir.Operation, reader: SdyReader) -> None:
    _check_region(op)
    manual = syntax.read_manual_axes(str(_attribute(op, "manual_axes")))
    _check_nesting(op, manual)
    arguments = _types(op.regions[0].blocks[0].arguments)
    returned = _types(_terminator(op).operands)
    used: set[str] = set()
    operands, results = reader.manual_shardings(op)
    for shardings, what, types, local in (
        (operands, "operand", _types(op.operands), arguments),
        (results, "result", _types(op.results), returned),
    ):
        if len(types) != len(local):
            raise ShardingError(f"has {len(types)} {what}s, and {len(local)} in its region")
        for number, annotation in enumerate(shardings):
            grid = reader.grids.get(annotation.grid)
            if grid is None:
                continue
            used.add(annotation.grid)
            axes = [axis_number(name, grid, "manual_axes") for name in manual]
            with_number = f"{what} {number}"
            _check_local(annotation, grid, axes, types[number], local[number], with_number)
    if len(used) > 1 and manual:
        raise ShardingError(f"has shardings on meshes {', '.join(sorted(used))}: expected one")


def _check_local(
    annotation: Annotation,
    grid: Grid,
    manual: Sequence[int],
    type_: ir.Type,
    local: ir.Type,
    what: str,
) -> None:
    """Raise unless `local` is the local type, with manual axes major in each dimension."""
    if not isinstance(type_, ir.RankedTensorType):
        return
    try:
        sizes = list(annotation.sharding.manual_shape(tuple(type_.shape), manual, grid))
    except ShardingError as error:
        raise ShardingError(f"{what}: {error.message}") from None
    is_tensor = isinstance(local, ir.RankedTensorType)
    if not is_tensor or list(local.shape) != sizes or local.element_type != type_.element_type:
        raise ShardingError(f"{what}: expected shape {sizes} of {type_} in the region, not {local}")


def _check_nesting(op: ir.Operation, manual: Sequence[str]) -> None:
    outer = _manual_around(op)
    for name in manual:
        if name in outer:
            raise ShardingError(f'axis "{name}" is manual already, in the op around it')


def _manual_around(op: ir.Operation) -> set[str]:
    """The axes of the manual computations around `op`."""
    names: set[str] = set()
    parent = op.parent
    while parent is not None:
        if parent.name == "sdy.manual_computation":
            names.update(syntax.read_manual_axes(str(_attribute(parent, "manual_axes"))))
        parent = parent.parent
    return names


def _check_region(op: ir.Operation) -> None:
    """Raise unless there is one block that returns; `sdy_spelling` may add an empty region."""
    regions = [list(region.blocks) for region in op.regions]
    if not regions or len(regions[0]) != 1 or any(regions[1:]):
        raise ShardingError("must have one region of one block")
    inside = operations(regions[0][0])
    if not inside or inside[-1].name != "sdy.return":
        raise ShardingError("must end in 'sdy.return'")
    _check_isolation(op)


def _check_isolation(op: ir.Operation) -> None:
    known = set(_defined_in(op))
    for inner in walk(op):
        for operand in inner.operands:
            if operand not in known:
                raise error_at(
                    inner.location,
                    f"'{inner.name}' op uses a value from outside of the '{op.name}' around it",
                )


def _defined_in(op: ir.Operation) -> Iterator[ir.Value]:
    for each in (op, *walk(op)):
        for region in each.regions:
            for block in region.blocks:
                yield from block.arguments
        if each is not op:
            yield from each.results


def _check_return(op: ir.Operation, reader: SdyReader) -> None:
    if op.parent is None or op.parent.name not in COMPUTATIONS:
        raise ShardingError(f"is not in one of {', '.join(COMPUTATIONS)}")


def _attribute(op: ir.Operation, key: str) -> ir.Attribute:
    if key not in op.attributes:
        raise ShardingError(f"has no attribute '{key}'")
    return op.attributes[key]


def _terminator(op: ir.Operation) -> ir.Operation:
    return operations(op.regions[0].blocks[0])[-1]


def _types(values: Iterator[ir.Value] | Sequence[ir.Value]) -> list[ir.Type]:
    return [value.type for value in values]


_SHARDINGS: dict[str, Callable[[str], Sequence[syntax.TensorSharding]]] = {
    SHARDING: syntax.read_per_value,
    "sharding": lambda text: (syntax.read_sharding(text),),
    "out_sharding": lambda text: (syntax.read_sharding(text),),
    "in_shardings": syntax.read_per_value,
    "out_shardings": syntax.read_per_value,
}
"""The attributes that hold shardings; all but the first on Shardy's own ops only."""

_CHECKS: dict[str, Callable[[ir.Operation, SdyReader], None]] = {
    "sdy.mesh": _check_mesh,
    "sdy.sharding_constraint": _check_constraint,
    "sdy.reshard": _check_constraint,
    "sdy.sharding_group": _check_group,
    "sdy.propagation_barrier": _check_barrier,
    "sdy.manual_computation": _check_manual,
    "sdy.named_computation": _check_named,
    "sdy.return": _check_return,
    "sdy.constant": _check_sdy_constant,
    **dict.fromkeys(EDGES, _check_edge),
    **dict.fromkeys((*COLLECTIVES, *TO_UNREDUCED, *REDUCTIONS), _check_collective),
}
