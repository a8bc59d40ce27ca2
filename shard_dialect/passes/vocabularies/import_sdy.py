"""Import Shardy's annotations into the `mesh` dialect: a step of the pass `import`.

sdy.sharding = #sdy.sharding<...>        on arguments and results: mesh.sharding
sdy.sharding = #sdy.sharding_per_value   on ops: mesh.shardings
sdy.sharding_constraint                  mesh.annotate, for its users; of the value if it has none
sdy.reshard, and Shardy's collectives    mesh.reshard; the operand of a reduction is partial
sdy.manual_computation                   scf.execute_region {mesh.manual_axes}, whose operands
                                         enter by mesh.to_local, and whose results leave by
                                         mesh.to_global
sdy.named_computation                    scf.execute_region {mesh.named_computation}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import annotate, create, create_value, is_used, replace_values
from shard_dialect.ir.context import load_stablehlo
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.function import BOUNDARY, boundary, set_boundary
from shard_dialect.ir.grids import grids_of, write_cluster
from shard_dialect.ir.mesh.attributes import (
    MANUAL,
    NAMED,
    RULE,
    SHARDING,
    SHARDINGS,
    STAGES,
)
from shard_dialect.ir.mesh.notation import write_axes
from shard_dialect.ir.mesh.sharding_attributes import Shardings, write_transfer
from shard_dialect.ir.sdy import ops as sdy
from shard_dialect.ir.sdy import syntax
from shard_dialect.ir.sdy.syntax import axis_number
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import Annotation, Grid, ShardingError
from shard_dialect.model.rule_text import write_rule
from shard_dialect.passes.vocabularies.import_mesh import replace_uses_after


def import_sdy(module: ir.Operation, ops: Sequence[ir.Operation]) -> bool:
    """Import Shardy's `ops` of `module` in place; return whether there were any."""
    sdy_ops = [op for op in ops if _is_sdy(op)]
    if not sdy_ops:
        return False
    importer = _Importer(module)
    for op in sdy_ops:  # outer ops before the ops inside them
        with located(op):
            importer.convert(op)
    for op in reversed(importer.done):
        op.erase()
    return True


def _is_sdy(op: ir.Operation) -> bool:
    """Whether the op is Shardy's, or has an attribute of Shardy's."""
    name, attributes = op.name, op.attributes
    return (
        name.startswith("sdy.")
        or sdy.SHARDING in attributes
        or sdy.RULE in attributes
        or (name == "func.func" and _has_boundary(op))
    )


def _has_boundary(op: ir.Operation) -> bool:
    return any(sdy.SHARDING in entry for key in BOUNDARY for entry in boundary(op, key))


@dataclass(frozen=True)
class _Declaring(sdy.SdyReader):
    """Declares the meshes that shardings inline, and takes the largest for an empty mesh."""

    module: ir.Operation

    def annotation(self, given: syntax.TensorSharding, type_: ir.Type) -> Annotation:
        """As `SdyReader.annotation`. On an empty mesh nothing is split, which holds on any other.

        JAX replicates tensors without a mesh, such as random keys, on an empty one.
        """
        found = super().annotation(given, type_)
        others = [grid for grid in self.grids.values() if grid.rank]
        if not others or not self.is_empty(found.grid):
            return found
        largest = max(others, key=lambda grid: grid.size)
        return replace(found, sharding=replace(found.sharding, grid=largest.name))

    def grid_like(self, mesh: Grid) -> Grid:
        """Return the declared grid equal to `mesh`; declare one if there is none."""
        grid = super().grid_like(mesh)
        if grid is mesh:
            names = (f"inlined_mesh_{number}" for number in count())
            grid = replace(mesh, name=next(name for name in names if name not in self.grids))
            self.grids[grid.name] = grid
            with ir.InsertionPoint.at_block_begin(body(self.module)), self.module.location:
                write_cluster(grid)
        return grid


class _Importer:
    """Converts the ops of one module; `done` lists the replaced ops, outer ones first."""

    def __init__(self, module: ir.Operation) -> None:
        self.module = module
        self.shardings = Shardings(grids_of(module))
        self.reader = _Declaring(self.shardings.grids, module)
        self.done: list[ir.Operation] = []
        self.without_uses: dict[ir.Value, list[Annotation]] = {}
        """For each value, its constraints without uses."""
        ir.Context.current.dialects["scf"]  # loads it

    def convert(self, op: ir.Operation) -> None:
        sdy.verify_op(op, self.reader)
        if op.name == "func.func":
            self._boundary(op)
        if sdy.SHARDING in op.attributes:
            types = [result.type for result in op.results]
            annotations = self.reader.per_value(op.attributes[sdy.SHARDING], types)
            del op.attributes[sdy.SHARDING]
            if annotations:
                op.attributes[SHARDINGS] = self._per_value(annotations, types)
        if sdy.RULE in op.attributes:
            op.attributes[RULE] = ir.StringAttr.get(write_rule(self.reader.rule(op)))
            del op.attributes[sdy.RULE]
        if op.name in _CONVERT:
            with ir.InsertionPoint(op), op.location:
                _CONVERT[op.name](self, op)
            self.done.append(op)

    def _per_value(
        self, annotation: Sequence[Annotation], types: Sequence[ir.Type]
    ) -> ir.ArrayAttr:
        """Return one attribute per value: unit for a fully open sharding, and for a scalar's."""

        def is_empty(number: int, each: Annotation) -> bool:
            is_scalar = number < len(types) and self._is_of_scalar(each, types[number])
            return each.is_unconstrained or is_scalar

        return ir.ArrayAttr.get(
            [
                ir.UnitAttr.get() if is_empty(number, each) else self.shardings.write(each)
                for number, each in enumerate(annotation)
            ]
        )

    def _is_of_scalar(self, annotation: Annotation, type_: ir.Type) -> bool:
        """Whether it annotates a scalar, which is never split, on a grid of several devices.

        On a maximal mesh, whose grid has rank 0, the annotation chooses the scalar's device.
        """
        is_tensor = isinstance(type_, ir.RankedTensorType)
        return not is_tensor and self.shardings.grid(annotation.grid).rank > 0

    def _boundary(self, op: ir.Operation) -> None:
        type_ = op.attributes["function_type"].value
        for key, types in zip(BOUNDARY, (type_.inputs, type_.results), strict=True):
            entries = boundary(op, key)
            for entry, each in zip(entries, types, strict=True):
                if sdy.SHARDING in entry:
                    annotation = self.reader.sharding(entry.pop(sdy.SHARDING), each)
                    if not self._is_of_scalar(annotation, each):
                        entry[SHARDING] = self.shardings.write(annotation)
            set_boundary(op, key, entries)

    def mesh(self, op: ir.Operation) -> None:
        write_cluster(self.shardings.grids[op.attributes["sym_name"].value], op)

    def constraint(self, op: ir.Operation) -> None:
        """Convert a constraint: for its users, or, without any, of the value itself.

        In the latter case all later uses of the value read the annotation. If another annotation of
        the value contradicts it, it applies to these uses only. Where several without uses
        contradict each other, each tells axes of the value but closes none of its dimensions; one
        whose axes contradict those before it tells nothing.
        """
        value, result = op.operands[0], op.results[0]
        if not isinstance(value.type, ir.RankedTensorType) or _is_element(op):
            result.replace_all_uses_with(value)  # a scalar is never split
            return
        annotation = self.reader.sharding(op.attributes["sharding"], value.type)
        attribute = self.shardings.write(annotation)
        if value not in self.without_uses:
            self.without_uses[value] = self._without_uses(value)
        if is_used(result):
            new = annotate(value, attribute, as_result=False)
            result.replace_all_uses_with(new)
        elif SHARDINGS not in op.attributes and _is_annotated(value, attribute):
            return
        else:
            others = self.without_uses[value]
            is_contradicted = any(annotation.meet(each) is None for each in others)
            if is_contradicted:
                annotation = replace(annotation, open=tuple(range(annotation.sharding.rank)))
                attribute = self.shardings.write(annotation)
            agrees = self._agrees(value, annotation)
            if is_contradicted and not agrees:
                return
            new = annotate(value, attribute, as_result=agrees)
            self.without_uses[new] = others
            replace_uses_after(value, new, op)
        _keep_shardings(op, new)

    def _without_uses(self, value: ir.Value) -> list[Annotation]:
        """The constraints of a value that have no uses, before any of them is imported."""
        users = (use.owner.operation for use in value.uses)
        return [
            self.reader.sharding(user.attributes["sharding"], value.type)
            for user in users
            if user.name == "sdy.sharding_constraint" and not is_used(user.results[0])
        ]

    def _agrees(self, value: ir.Value, annotation: Annotation) -> bool:
        """Whether `annotation` does not contradict the annotation that `value` already has."""
        before = _annotation_of(value)
        if before is None:
            return True
        return self.shardings.read_annotation(before, value.type.rank).meet(annotation) is not None

    def reshard(self, op: ir.Operation) -> None:
        value = op.operands[0]
        if STAGES in op.attributes:
            found = self.reader.sharding(op.attributes["sharding"], value.type)
            new = write_transfer(op, found.grid)
            op.results[0].replace_all_uses_with(new)
            _keep_shardings(op, new)
            return
        if not isinstance(value.type, ir.RankedTensorType):
            op.results[0].replace_all_uses_with(value)
            return
        self._reshard(op, value, self.reader.sharding(op.attributes["sharding"], value.type))

    def _reshard(self, op: ir.Operation, value: ir.Value, target: Annotation) -> None:
        sharding = {"sharding": self.shardings.write(target)}
        new = create("mesh.reshard", [value.type], [value], sharding)
        op.results[0].replace_all_uses_with(new.results[0])
        _keep_shardings(op, new.results[0])

    def collective(self, op: ir.Operation) -> None:
        """Convert a collective, which changes how a value is stored, and no element of it."""
        value = op.operands[0]
        if op.name in sdy.REDUCTIONS:
            if isinstance(value.owner, ir.Block) and op.parent.name == "func.func":
                raise ShardingError(
                    f"'{op.name}' op is on an argument: only a value that an op makes can be "
                    "partial"
                )
            partial = self.shardings.write(sdy.reduced(op, self.reader))
            value = annotate(value, partial, as_result=False)
        self._reshard(op, value, self.reader.sharding(op.attributes["out_sharding"], value.type))

    def constant(self, op: ir.Operation) -> None:
        load_stablehlo(op.context)
        types = [op.results[0].type]
        new = create("stablehlo.constant", types, [], {"value": op.attributes["value"]})
        op.results[0].replace_all_uses_with(new.results[0])
        _keep_shardings(op, new.results[0])

    def edge(self, op: ir.Operation) -> None:
        """Convert the sharding that Shardy has found for values of one edge, such as a loop's.

        It replaces that of the op that makes the value.
        """
        value = op.operands[0]
        if "sharding" in op.attributes and isinstance(value.type, ir.RankedTensorType):
            found = self.reader.sharding(op.attributes["sharding"], value.type)
            attribute = self.shardings.write(found)
            if not _annotated_anew(value, attribute):
                value = annotate(value, attribute, as_result=True)
        op.results[0].replace_all_uses_with(value)

    def group(self, op: ir.Operation) -> None:
        create("mesh.sharding_group", [], [op.operands[0]], {"group_id": op.attributes["group_id"]})

    def barrier(self, op: ir.Operation) -> None:
        value = op.operands[0]
        direction = {"allowed_direction": ir.StringAttr.get(sdy.direction(op))}
        new = create("mesh.propagation_barrier", [value.type], [value], direction)
        op.results[0].replace_all_uses_with(new.results[0])
        _keep_shardings(op, new.results[0])

    def named(self, op: ir.Operation) -> None:
        """Annotate the block arguments in the region, and the results by an attribute of its op."""
        region = self._region(op, {NAMED: op.attributes["name"]})
        inside = list(op.operands)
        if "in_shardings" in op.attributes:
            types = [value.type for value in inside]
            annotation = self.reader.per_value(op.attributes["in_shardings"], types)
            with ir.InsertionPoint.at_block_begin(body(region)):
                inside = [
                    annotate(value, self.shardings.write(each), as_result=False)
                    if isinstance(value.type, ir.RankedTensorType) and not each.is_unconstrained
                    else value
                    for value, each in zip(inside, annotation, strict=True)
                ]
        if "out_shardings" in op.attributes:
            types = [result.type for result in op.results]
            out = self.reader.per_value(op.attributes["out_shardings"], types)
            region.attributes[SHARDINGS] = self._per_value(out, types)
        self._move_body(op, region, inside)

    def manual(self, op: ir.Operation) -> None:
        names = syntax.read_manual_axes(str(op.attributes["manual_axes"]))
        results = [result.type for result in op.results]
        annotations_in, annotations_out = self.reader.manual_shardings(op)
        grid = self._common_grid([*annotations_in, *annotations_out])
        axes = write_axes([axis_number(name, grid, "manual_axes") for name in names])
        region = self._region(op, {MANUAL: axes})

        def cross(name: str, value: ir.Value, annotation: Annotation, type_: ir.Type) -> ir.Value:
            attributes = {"sharding": self.shardings.write(annotation), "manual_axes": axes}
            return create_value(name, type_, [value], attributes)

        arguments = list(body(op).arguments)
        with ir.InsertionPoint.at_block_begin(body(region)):
            inside = [
                cross("mesh.to_local", value, annotation, argument.type)
                for value, annotation, argument in zip(
                    op.operands, annotations_in, arguments, strict=True
                )
            ]
        with ir.InsertionPoint(operations(body(op))[-1]):
            outside = [
                cross("mesh.to_global", value, annotation, type_)
                for value, annotation, type_ in zip(
                    _returned(op), annotations_out, results, strict=True
                )
            ]
        self._move_body(op, region, inside, outside)

    def _common_grid(self, annotation: Sequence[Annotation]) -> Grid:
        grids = [self.shardings.grid(each.grid) for each in annotation if each.grid]
        real = [grid for grid in grids if grid.rank]
        if real:
            return real[0]
        return next((grid for grid in self.shardings.grids.values() if grid.rank), Grid("", ()))

    def _region(self, op: ir.Operation, attributes: dict[str, ir.Attribute]) -> ir.Operation:
        """Create an empty region op with the result types of `op`."""
        types = [result.type for result in op.results]
        # Upstream's canonicalization would inline the region into the block around it.
        marks = {"no_inline": ir.UnitAttr.get()}
        region = create("scf.execute_region", types, [], attributes | marks, regions=1)
        region.regions[0].blocks.append()
        return region

    def _move_body(
        self,
        op: ir.Operation,
        region: ir.Operation,
        inside: Sequence[ir.Value],
        outside: Sequence[ir.Value] | None = None,
    ) -> None:
        """Move the body of `op` to `region`; `inside` replaces its arguments.

        The region yields `outside`; if that is `None`, the values that `op` returned.
        """
        replace_values(body(op).arguments, inside)
        block = body(region)
        *moved, terminator = operations(body(op))
        for each in moved:
            block.append(each)
        with ir.InsertionPoint(block), terminator.location:
            create("scf.yield", [], _returned(op) if outside is None else outside)
        replace_values(op.results, region.results)


def _is_annotated(value: ir.Value, annotation: ir.Attribute) -> bool:
    before = _annotation_of(value)
    return before is not None and before == annotation


def _annotation_of(value: ir.Value) -> ir.Attribute | None:
    """The annotation of a value at its definition: on the argument, on the op, or `annotate`."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        handle = owner.owner.operation
        is_argument = handle.name == "func.func" and owner == handle.regions[0].blocks[0]
        if not is_argument or "arg_attrs" not in handle.attributes:
            return None
        entry = handle.attributes["arg_attrs"][value.arg_number]
        return entry[SHARDING] if SHARDING in entry else None
    if SHARDINGS in owner.attributes:
        annotation = owner.attributes[SHARDINGS][ir.OpResult(value).result_number]
        return None if isinstance(annotation, ir.UnitAttr) else annotation
    says = owner.name in ("mesh.annotate", "mesh.reshard")
    return owner.attributes["sharding"] if says else None


def _annotated_anew(value: ir.Value, annotation: ir.Attribute) -> bool:
    """Replace the annotation on the op that makes a value, if there is one."""
    if isinstance(value.owner, ir.Block) or _annotation_of(value) is None:
        return False
    if SHARDINGS in value.owner.attributes:
        every = list(value.owner.attributes[SHARDINGS])
        every[ir.OpResult(value).result_number] = annotation
        value.owner.attributes[SHARDINGS] = ir.ArrayAttr.get(every)
    else:
        value.owner.attributes["sharding"] = annotation
    return True


def _keep_shardings(op: ir.Operation, new: ir.Value) -> None:
    """Copy the annotations of the op's results to the op that defines `new`."""
    if SHARDINGS in op.attributes:
        new.owner.operation.attributes[SHARDINGS] = op.attributes[SHARDINGS]


def _returned(op: ir.Operation) -> Sequence[ir.Value]:
    return list(operations(body(op))[-1].operands)


def _is_element(op: ir.Operation) -> bool:
    """Whether the op is of one element, in the body of a reduction, scatter or sort."""
    around: str = op.parent.name
    is_combiner = around.startswith("stablehlo.") and around not in _BLOCKS_OF_TENSORS
    return is_combiner and op.operands[0].type.rank == 0


_BLOCKS_OF_TENSORS = ("stablehlo.case", "stablehlo.if", "stablehlo.while")

_CONVERT: dict[str, Callable[[_Importer, ir.Operation], None]] = {
    "sdy.mesh": _Importer.mesh,
    "sdy.sharding_constraint": _Importer.constraint,
    "sdy.reshard": _Importer.reshard,
    "sdy.sharding_group": _Importer.group,
    "sdy.propagation_barrier": _Importer.barrier,
    "sdy.named_computation": _Importer.named,
    "sdy.manual_computation": _Importer.manual,
    "sdy.constant": _Importer.constant,
    **dict.fromkeys(sdy.EDGES, _Importer.edge),
    **dict.fromkeys((*sdy.COLLECTIVES, *sdy.TO_UNREDUCED, *sdy.REDUCTIONS), _Importer.collective),
}
