"""Translate every vocabulary to upstream's `shard`, or to the RFC's `mesh` without our extensions.

`export-shard` translates to upstream's `shard`.

    "mesh.cluster"() {sym_name = "g", ...}        shard.grid @g(shape = 2)
    %1 = "mesh.annotate"(%0)                      %s = shard.sharding @g split_axes = [[0]]
      {sharding = #mesh.shard<@g, [[0]]>}         %1 = shard.shard %0 to %s : tensor<4xf32>

Upstream expresses every annotation by `shard.shard`. One that stands for an attribute of the `mesh`
dialect is marked `stands_for`, so that `import` can restore the attribute.

`export-mesh` translates to the RFC's vocabulary, the `mesh` dialect without our extensions.

    shard.grid @g(shape = 2)                      "mesh.cluster"() {sym_name = "g", ...}
    %s = shard.sharding @g split_axes = [[0]]     %1 = "mesh.annotate"(%0)
    %1 = shard.shard %0 to %s : tensor<4xf32>       {sharding = #mesh.shard<@g, [[0]]>}

The RFC has no sub-axes, halos, offsets, open dimensions, priorities and axis names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import annotate, create_value, replace_op
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import (
    BOUNDARY,
    boundary,
    form_of,
    functions_of,
    refuse_form,
    returns_of,
    set_boundary,
)
from shard_dialect.ir.grids import read_grid, write_grid
from shard_dialect.ir.mesh.annotation_ops import (
    LOOPS,
    AnnotationOp,
    anything,
    has_loops,
    read_annotation,
    read_loops,
)
from shard_dialect.ir.mesh.attributes import (
    BLOCKS,
    MANUAL,
    NAMED,
    RULE,
    SHARDING,
    SHARDINGS,
    STAGES,
    STANDS_FOR,
    symbol,
)
from shard_dialect.ir.mesh.mesh_dialect import TRANSFER
from shard_dialect.ir.mesh.sharding_attributes import (
    Shardings,
    annotated_blocks,
    rank_of,
    transfer_attributes,
)
from shard_dialect.ir.shard.sharding_ops import write_sharding_op
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Annotation, Sharding, SubAxis
from shard_dialect.ops import rule_of
from shard_dialect.passes.framework.base import UNCHANGED, Outcome, Pass


def exported_shardings(module: ir.Operation) -> Shardings:
    """The shardings of an imported module. Raises for the distributed and later forms."""
    for function in functions_of(module):
        if form_of(function) not in ("annotated", "propagated"):
            raise refuse_form(function, ": only annotated and propagated ones are exported")
    shardings = Shardings.of(module)
    for op in walk(module):
        with located(op):
            _annotate_operands(op, shardings)
    return shardings


def _annotate_operands(op: ir.Operation, shardings: Shardings) -> None:
    """Replace the annotation of a product's loops by those of its operands, as it takes them.

    Each loop of a product is a dimension of an operand.
    """
    rule = rule_of(op) if has_loops(op) else None
    loops = None if rule is None else read_loops(op, shardings)
    if rule is None or loops is None or not rule.is_product or len(loops[1]) != len(rule.sizes):
        return
    name, assignment = loops
    for number, value in enumerate(op.operands):
        sharding = rule.operand_sharding(number, assignment, shardings.grid(name))
        if sharding is not None:
            with ir.InsertionPoint(op), op.location:
                attribute = shardings.write(Annotation(sharding))
                op.operands[number] = annotate(value, attribute, as_result=False)
    del op.attributes[LOOPS]


def annotations_by_op(
    module: ir.Operation, shardings: Shardings
) -> Iterator[tuple[ir.Operation, AnnotationOp]]:
    """Yield the annotation ops of a module with their annotations."""
    for op in walk(module):
        with located(op):
            annotated = read_annotation(op, shardings)
        if annotated is not None:
            yield op, annotated


def all_annotations(
    module: ir.Operation, shardings: Shardings
) -> Iterator[tuple[ir.Location, Annotation]]:
    """Yield every annotation of a module with its location: of ops, of results, of the boundary."""
    for op, annotated in annotations_by_op(module, shardings):
        yield op.location, annotated.annotation
    for op in walk(module):
        with located(op):
            for annotation in shardings.of_results(op).values():
                yield op.location, annotation
        if op.name != "func.func":
            continue
        type_ = op.attributes["function_type"].value
        for key, types in zip(BOUNDARY, (type_.inputs, type_.results), strict=True):
            for entry, each in zip(boundary(op, key), types, strict=True):
                if SHARDING in entry:
                    yield op.location, shardings.read_annotation(entry[SHARDING], rank_of(each))


def refuse(location: ir.Location, what: str, target: str) -> ShardError:
    """Return the error for a thing that the target vocabulary cannot express."""
    return error_at(location, f"{what} cannot be expressed in {target}")


def refuse_what_is_left(module: ir.Operation, target: str) -> None:
    """Raise for a `mesh` attribute that an export did not translate."""
    for op in walk(module):
        names = [each for each in op.attributes if each.startswith("mesh.")]
        if op.name == "func.func":
            names += [each for key in BOUNDARY for entry in boundary(op, key) for each in entry]
            names = [each for each in names if each.startswith("mesh.")]
        if names:
            raise refuse(op.location, f"{names[0]} of '{op.name}' op", target)
        if has_loops(op):
            raise refuse(op.location, f"how the loops of '{op.name}' op are split", target)


def refuse_ops(module: ir.Operation, names: tuple[str, ...], target: str) -> None:
    """Raise for the first op that has one of `names`, which `target` cannot express."""
    for op in walk(module):
        if op.name in names:
            raise refuse(op.location, f"'{op.name}' op", target)


_PERMUTE = "mesh.collective_permute"
_SHARD = "upstream's shard dialect"
_BEYOND_SHARD = (
    "mesh.idx",
    "mesh.propagation_barrier",
    "mesh.roll",
    "mesh.sharding_group",
    "mesh.size",
    "mesh.to_global",
    "mesh.to_local",
    TRANSFER,
)


@dataclass(frozen=True)
class AnnotationsToShard(Pass):
    """Write the `mesh` dialect's annotations as upstream's; refuse what it cannot express."""

    name = "annotations-to-shard"

    def rewrite(self, module: ir.Operation) -> None:
        """Translate the module, and raise for what upstream cannot express."""
        shardings = exported_shardings(module)
        refuse_ops(module, _BEYOND_SHARD, _SHARD)
        _export_grids(module)
        for function in functions_of(module):
            _Exporter(function, shardings).export()
        refuse_what_is_left(module, _SHARD)


def _export_grids(module: ir.Operation) -> None:
    for op in operations(body(module)):
        grid = read_grid(op) if op.name in ("mesh.cluster", "mesh.sub_cluster") else None
        if grid is None:
            continue
        if grid.device_ids or not grid.rank:
            raise refuse(
                op.location, f"grid {as_symbol(grid.name)}, with devices in an order,", _SHARD
            )
        with ir.InsertionPoint(op), op.location:
            write_grid(grid, op)
        op.erase()


class _Exporter:
    """Exports a function, which names each sharding once, in front of its ops."""

    def __init__(self, function: ir.Operation, shardings: Shardings) -> None:
        self.function, self.shardings = function, shardings
        self.named: dict[Sharding, ir.Value] = {}

    def export(self) -> None:
        self._boundary()
        for op in (self.function, *walk(self.function)):
            if op.name != _PERMUTE:
                self._results(op)
            self._blocks(op)
        for op in walk(self.function):
            if op.name == _PERMUTE:
                self._transfer(op)
        for op, annotated in annotations_by_op(self.function, self.shardings):
            if not annotated.required:
                raise refuse(op.location, f"the soft constraint {annotated.annotation}", _SHARD)
            with ir.InsertionPoint(op), op.location:
                new = self._shard(
                    op.operands[0],
                    annotated.annotation,
                    list(op.operands)[1:],
                    for_users=annotated.for_users,
                    stands_for="reshard" if op.name == "mesh.reshard" else None,
                )
            replace_op(op, new)

    def _transfer(self, op: ir.Operation) -> None:
        """Turn a transfer between stages into the `shard.shard` that it is for upstream."""
        value = op.operands[0]
        if STAGES not in op.attributes or not isinstance(value.type, ir.RankedTensorType):
            raise refuse(op.location, f"'{op.name}' op", _SHARD)
        with located(op), ir.InsertionPoint(op), op.location:
            cluster = self.shardings.grid(symbol(op.attributes["cluster"]))
            found = self.shardings.of_results(op).get(0, anything(cluster, value.type.rank))
            new = self._shard(value, replace(found, open=()), for_users=True, stands_for="transfer")
        for name, attribute in transfer_attributes(op).items():
            new.owner.attributes[name] = attribute
        replace_op(op, new)

    def _results(self, op: ir.Operation) -> None:
        """Turn the annotations of an op's results into `shard.shard` ops after it.

        That of an annotation op which says the same follows from its form.
        """
        if SHARDINGS not in op.attributes:
            return
        with located(op):
            annotations = self.shardings.of_results(op)
            own = read_annotation(op, self.shardings)
        del op.attributes[SHARDINGS]
        if own is not None and op.name == "mesh.annotate" and annotations == {0: own.annotation}:
            return
        for number, annotation in annotations.items():
            with ir.InsertionPoint.after(op), op.location:
                self._interpose(op.results[number], annotation, "op")

    def _blocks(self, op: ir.Operation) -> None:
        """Turn the annotations of block arguments into `shard.shard` ops at the blocks' begins."""
        if BLOCKS not in op.attributes:
            return
        with located(op):
            by_block = self.shardings.of_blocks(op)
        del op.attributes[BLOCKS]
        for block, by_number in zip(annotated_blocks(op), by_block, strict=False):
            first = operations(block)[0]
            for number, annotation in by_number.items():
                with ir.InsertionPoint(first), op.location:
                    self._interpose(block.arguments[number], annotation, "block")

    def _boundary(self) -> None:
        function = self.function
        arguments, first = boundary(function, "arg_attrs"), operations(body(function))[0]
        for argument, entry in zip(body(function).arguments, arguments, strict=True):
            if SHARDING in entry:
                attribute = entry.pop(SHARDING)
                annotation = self.shardings.read_annotation(attribute, rank_of(argument.type))
                with ir.InsertionPoint(first), function.location:
                    self._interpose(argument, annotation, "argument")
        set_boundary(function, "arg_attrs", arguments)
        results = boundary(function, "res_attrs")
        for number, entry in enumerate(results):
            if SHARDING not in entry:
                continue
            attribute = entry.pop(SHARDING)
            for end in returns_of(function):
                value = end.operands[number]
                if not isinstance(value.type, ir.RankedTensorType):
                    continue
                annotation = self.shardings.read_annotation(attribute, rank_of(value.type))
                with ir.InsertionPoint(end), function.location:
                    end.operands[number] = self._shard(
                        value, annotation, for_users=True, stands_for="result"
                    )
        set_boundary(function, "res_attrs", results)

    def _interpose(self, value: ir.Value, annotation: Annotation, stands_for: str) -> None:
        """Let all uses of `value` read a `shard.shard` of it. Scalars have none."""
        if not isinstance(value.type, ir.RankedTensorType):
            return
        users = [
            (use.owner.operation, use.operand_number)
            for use in value.uses
            if use.owner.operation.name != "tensor.parallel_insert_slice"  # into an argument only
        ]
        new = self._shard(value, annotation, stands_for=stands_for)
        for user, number in users:
            user.operands[number] = new

    def _shard(
        self,
        value: ir.Value,
        annotation: Annotation,
        sizes: list[ir.Value] | None = None,
        *,
        for_users: bool = False,
        stands_for: str | None = None,
    ) -> ir.Value:
        """`shard.shard` at the insertion point."""
        _refuse_what_upstream_lacks(annotation)
        attributes: dict[str, ir.Attribute] = {}
        if for_users:
            attributes["annotate_for_users"] = ir.UnitAttr.get()
        if stands_for:
            attributes[STANDS_FOR] = ir.StringAttr.get(stands_for)
        sharding = annotation.sharding
        if sharding.offsets:  # upstream's offsets are those of all split dimensions
            grid = self.shardings.grid(sharding.grid)
            sharding = sharding.with_offsets_everywhere(tuple(value.type.shape), grid)
        written = self._sharding(sharding, sizes or [])
        return create_value("shard.shard", value.type, [value, written], attributes)

    def _sharding(self, sharding: Sharding, sizes: list[ir.Value]) -> ir.Value:
        """`shard.sharding`; one with `sizes` that the program computes stands behind these."""
        if sizes:
            return write_sharding_op(sharding, sizes)
        if sharding not in self.named:
            # Behind those that are named already, since annotations at the begin may be replaced.
            point = ir.InsertionPoint.at_block_begin(body(self.function))
            if self.named:
                point = ir.InsertionPoint.after(next(reversed(self.named.values())).owner)
            with point:
                self.named[sharding] = write_sharding_op(sharding, [])
        return self.named[sharding]


def _refuse_what_upstream_lacks(annotation: Annotation) -> None:
    sharding = annotation.sharding
    placed = zip(sharding.split_axes, sharding.offsets, strict=False)
    lacks = {
        "what fills a halo": sharding.fill != "sum",
        "halos beside offsets": sharding.halos and sharding.offsets,
        # Upstream's verifier adds up the axes' sizes.
        "offsets along several axes": any(len(axes) > 1 and at for axes, at in placed),
        f"the partial {sharding.reduction}": sharding.partial,
        "a sub-axis": any(isinstance(axis, SubAxis) for axis in sharding.axes),
        "what is open, its priorities and replicated axes": annotation != Annotation(sharding),
    }
    for what, is_there in lacks.items():
        if is_there:
            raise refuse(ir.Location.current, f"{what} of {annotation}", _SHARD)


_MESH = "the RFC's mesh dialect"
_BEYOND_MESH = (
    "mesh.propagation_barrier",
    "mesh.reshard",
    "mesh.sharding_group",
    "mesh.to_global",
    "mesh.to_local",
)


@dataclass(frozen=True)
class RefuseBeyondMesh(Pass):
    """Refuse what the RFC's `mesh` dialect cannot express."""

    name = "refuse-beyond-mesh"

    def rewrite(self, module: ir.Operation) -> Outcome:
        """Change nothing; raise for what the RFC cannot express."""
        shardings = exported_shardings(module)
        for location, annotation in all_annotations(module, shardings):
            extra = _beyond(annotation)
            if extra:
                raise refuse(location, f"{extra} of {annotation}", _MESH)
        refuse_ops(module, _BEYOND_MESH, _MESH)
        for op in walk(module):
            for name in (MANUAL, NAMED, RULE):
                if name in op.attributes:
                    raise refuse(op.location, f"{name} of '{op.name}' op", _MESH)
            grid = read_grid(op)
            if grid is not None and (grid.axes or grid.device_ids or not grid.rank):
                raise refuse(
                    op.location, f"grid {as_symbol(grid.name)}, with names or an order,", _MESH
                )
        return UNCHANGED


def _beyond(annotation: Annotation) -> str | None:
    """The first property of the annotation that the RFC cannot express; `None` if there is none."""
    sharding = annotation.sharding
    if any(isinstance(axis, SubAxis) for axis in (*sharding.axes, *annotation.replicated)):
        return "a sub-axis"
    if sharding.halos or sharding.offsets:
        return "the halos or offsets"
    if annotation != Annotation(sharding):
        return "what is open, its priorities and replicated axes"
    return None
