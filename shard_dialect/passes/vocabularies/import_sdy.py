"""Shardy's annotations to ours: part of the pass `import`.

sdy.sharding = #sdy.sharding<...>        on arguments and results: mesh.sharding
sdy.sharding = #sdy.sharding_per_value   on ops: mesh.shardings
sdy.sharding_constraint                  mesh.annotate, for users; itself, if it has none
sdy.manual_computation                   scf.execute_region {mesh.manual_axes}, whose operands
                                         go in by mesh.to_local and come out by mesh.to_global
sdy.named_computation                    scf.execute_region {mesh.named_computation}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import annotate, create
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.function import BOUNDARY, boundary, set_boundary
from shard_dialect.ir.grids import grids_of, write_cluster
from shard_dialect.ir.mesh.attributes import MANUAL, NAMED, RULE, SHARDING, SHARDINGS
from shard_dialect.ir.mesh.notation import write_axes
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.sdy import ops as sdy
from shard_dialect.ir.sdy import syntax
from shard_dialect.ir.sdy.convert import axis_number
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import Annotation, Grid
from shard_dialect.model.rule_text import write_rule
from shard_dialect.passes.vocabularies.import_mesh import replace_uses_after


def import_sdy(module: ir.Operation, ops: Sequence[ir.Operation]) -> bool:
    """Change the module, whose `ops` these are; whether there was anything to change."""
    found = [op for op in ops if _is_sdys(op)]
    if not found:
        return False
    importer = _Importer(module)
    for op in found:  # each before those inside it
        with located(op):
            importer.convert(op)
    for op in reversed(importer.done):
        op.erase()
    return True


def _is_sdys(op: ir.Operation) -> bool:
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
    """Declares the meshes that shardings write out in place."""

    module: ir.Operation

    def grid_like(self, mesh: Grid) -> Grid:
        found = super().grid_like(mesh)
        if found is mesh:
            names = (f"inlined_mesh_{number}" for number in count())
            found = replace(mesh, name=next(name for name in names if name not in self.grids))
            self.grids[found.name] = found
            with ir.InsertionPoint.at_block_begin(body(self.module)), self.module.location:
                write_cluster(found)
        return found


class _Importer:
    """Converts the ops of one module; those that gave way are in `done`, outer ones first."""

    def __init__(self, module: ir.Operation) -> None:
        self.module = module
        self.shardings = Shardings(grids_of(module))
        self.reader = _Declaring(self.shardings.grids, module)
        self.done: list[ir.Operation] = []
        ir.Context.current.dialects["scf"]  # loads it

    def convert(self, op: ir.Operation) -> None:
        sdy.verify_op(op, self.reader)
        if op.name == "func.func":
            self._boundary(op)
        if sdy.SHARDING in op.attributes:
            types = [result.type for result in op.results]
            said = self.reader.per_value(op.attributes[sdy.SHARDING], types)
            del op.attributes[sdy.SHARDING]
            if said:
                op.attributes[SHARDINGS] = self._per_value(said, types)
        if sdy.RULE in op.attributes:
            op.attributes[RULE] = ir.StringAttr.get(write_rule(self.reader.rule(op)))
            del op.attributes[sdy.RULE]
        if op.name in _CONVERT:
            with ir.InsertionPoint(op), op.location:
                _CONVERT[op.name](self, op)
            self.done.append(op)

    def _per_value(self, said: Sequence[Annotation], types: Sequence[ir.Type]) -> ir.ArrayAttr:
        """One for each value; what is open everywhere says nothing, nor does that of a scalar."""

        def says_nothing(number: int, each: Annotation) -> bool:
            is_scalar = number < len(types) and self._is_of_scalar(each, types[number])
            return each.says_nothing or is_scalar

        return ir.ArrayAttr.get(
            [
                ir.UnitAttr.get() if says_nothing(number, each) else self.shardings.write(each)
                for number, each in enumerate(said)
            ]
        )

    def _is_of_scalar(self, said: Annotation, type_: ir.Type) -> bool:
        """Whether it says how a scalar lies, which is whole; not on which one device it is."""
        is_tensor = isinstance(type_, ir.RankedTensorType)
        return not is_tensor and self.shardings.grid(said.grid).rank > 0

    def _boundary(self, op: ir.Operation) -> None:
        type_ = op.attributes["function_type"].value
        for key, types in zip(BOUNDARY, (type_.inputs, type_.results), strict=True):
            entries = boundary(op, key)
            for entry, each in zip(entries, types, strict=True):
                if sdy.SHARDING in entry:
                    said = self.reader.sharding(entry.pop(sdy.SHARDING), each)
                    if not self._is_of_scalar(said, each):
                        entry[SHARDING] = self.shardings.write(said)
            set_boundary(op, key, entries)

    def mesh(self, op: ir.Operation) -> None:
        write_cluster(self.shardings.grids[op.attributes["sym_name"].value])

    def constraint(self, op: ir.Operation) -> None:
        """One without uses says how its operand lies, if nothing else does; and all that come after
        it see it so.
        """
        value, result = op.operands[0], op.results[0]
        if not isinstance(value.type, ir.RankedTensorType):
            result.replace_all_uses_with(value)  # a scalar is whole
            return
        annotation = self.reader.sharding(op.attributes["sharding"], value.type)
        said = self.shardings.write(annotation)
        if any(True for _ in result.uses):
            new = annotate(value, said, as_result=False)
            result.replace_all_uses_with(new)
        elif SHARDINGS not in op.attributes and _is_said(value, said):
            return
        else:
            new = annotate(value, said, as_result=self._agrees(value, annotation))
            replace_uses_after(value, new, op)
        _keep_shardings(op, new)

    def _agrees(self, value: ir.Value, said: Annotation) -> bool:
        """Whether a value may lie so, by what is said of it already."""
        before = _said_of(value)
        if before is None:
            return True
        return self.shardings.read_annotation(before, value.type.rank).meet(said) is not None

    def reshard(self, op: ir.Operation) -> None:
        value = op.operands[0]
        if not isinstance(value.type, ir.RankedTensorType):
            op.results[0].replace_all_uses_with(value)
            return
        said = self.shardings.write(self.reader.sharding(op.attributes["sharding"], value.type))
        new = create("mesh.reshard", [value.type], [value], {"sharding": said})
        op.results[0].replace_all_uses_with(new.results[0])
        _keep_shardings(op, new.results[0])

    def group(self, op: ir.Operation) -> None:
        create("mesh.sharding_group", [], [op.operands[0]], {"group_id": op.attributes["group_id"]})

    def barrier(self, op: ir.Operation) -> None:
        value = op.operands[0]
        direction = {"allowed_direction": ir.StringAttr.get(sdy.direction(op))}
        new = create("mesh.propagation_barrier", [value.type], [value], direction)
        op.results[0].replace_all_uses_with(new.results[0])
        _keep_shardings(op, new.results[0])

    def named(self, op: ir.Operation) -> None:
        """The shardings of block arguments are annotations in the region; of results, on the op."""
        region = self._region(op, {NAMED: op.attributes["name"]})
        inside = list(op.operands)
        if "in_shardings" in op.attributes:
            types = [value.type for value in inside]
            said = self.reader.per_value(op.attributes["in_shardings"], types)
            with ir.InsertionPoint.at_block_begin(body(region)):
                inside = [
                    annotate(value, self.shardings.write(each), as_result=False)
                    if isinstance(value.type, ir.RankedTensorType) and not each.says_nothing
                    else value
                    for value, each in zip(inside, said, strict=True)
                ]
        if "out_shardings" in op.attributes:
            types = [result.type for result in op.results]
            out = self.reader.per_value(op.attributes["out_shardings"], types)
            region.attributes[SHARDINGS] = self._per_value(out, types)
        self._move_body(op, region, inside)

    def manual(self, op: ir.Operation) -> None:
        names = syntax.read_manual_axes(str(op.attributes["manual_axes"]))
        types = [value.type for value in op.operands]
        results = [result.type for result in op.results]
        said_in = self.reader.per_value(op.attributes["in_shardings"], types)
        said_out = self.reader.per_value(op.attributes["out_shardings"], results)
        grid = self._common_grid([*said_in, *said_out])
        axes = write_axes([axis_number(name, grid, "manual_axes") for name in names])
        region = self._region(op, {MANUAL: axes})

        def cross(name: str, value: ir.Value, said: Annotation, type_: ir.Type) -> ir.Value:
            attributes = {"sharding": self.shardings.write(said), "manual_axes": axes}
            return create(name, [type_], [value], attributes).results[0]

        arguments = list(body(op).arguments)
        with ir.InsertionPoint.at_block_begin(body(region)):
            inside = [
                cross("mesh.to_local", value, said, argument.type)
                for value, said, argument in zip(op.operands, said_in, arguments, strict=True)
            ]
        with ir.InsertionPoint(operations(body(op))[-1]):
            outside = [
                cross("mesh.to_global", value, said, type_)
                for value, said, type_ in zip(_returned(op), said_out, results, strict=True)
            ]
        self._move_body(op, region, inside, outside)

    def _common_grid(self, said: Sequence[Annotation]) -> Grid:
        grids = [self.shardings.grid(each.grid) for each in said if each.grid]
        real = [grid for grid in grids if grid.rank]
        if real:
            return real[0]
        return next((grid for grid in self.shardings.grids.values() if grid.rank), Grid("", ()))

    def _region(self, op: ir.Operation, attributes: dict[str, ir.Attribute]) -> ir.Operation:
        """An empty region op that gives what `op` gave."""
        types = [result.type for result in op.results]
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
        """Move the ops of the region over, its arguments replaced; it gives `outside`, if given."""
        for argument, value in zip(body(op).arguments, inside, strict=True):
            argument.replace_all_uses_with(value)
        block = body(region)
        *moved, terminator = operations(body(op))
        for each in moved:
            block.append(each)
        with ir.InsertionPoint(block), terminator.location:
            create("scf.yield", [], _returned(op) if outside is None else outside)
        for old, new in zip(op.results, region.results, strict=True):
            old.replace_all_uses_with(new)


def _is_said(value: ir.Value, said: ir.Attribute) -> bool:
    before = _said_of(value)
    return before is not None and before == said


def _said_of(value: ir.Value) -> ir.Attribute | None:
    """What is said already of how a value lies, by what makes it."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        handle = owner.owner.operation
        is_argument = handle.name == "func.func" and owner == handle.regions[0].blocks[0]
        if not is_argument or "arg_attrs" not in handle.attributes:
            return None
        entry = handle.attributes["arg_attrs"][value.arg_number]
        return entry[SHARDING] if SHARDING in entry else None
    if SHARDINGS in owner.attributes:
        said = owner.attributes[SHARDINGS][ir.OpResult(value).result_number]
        return None if isinstance(said, ir.UnitAttr) else said
    return owner.attributes["sharding"] if owner.name == "mesh.annotate" else None


def _keep_shardings(op: ir.Operation, new: ir.Value) -> None:
    """What was said of the op's result is said of `new`."""
    if SHARDINGS in op.attributes:
        new.owner.operation.attributes[SHARDINGS] = op.attributes[SHARDINGS]


def _returned(op: ir.Operation) -> Sequence[ir.Value]:
    return list(operations(body(op))[-1].operands)


_CONVERT: dict[str, Callable[[_Importer, ir.Operation], None]] = {
    "sdy.mesh": _Importer.mesh,
    "sdy.sharding_constraint": _Importer.constraint,
    "sdy.reshard": _Importer.reshard,
    "sdy.sharding_group": _Importer.group,
    "sdy.propagation_barrier": _Importer.barrier,
    "sdy.named_computation": _Importer.named,
    "sdy.manual_computation": _Importer.manual,
}
