"""Translate every vocabulary to Shardy's `sdy`, in generic text, which jaxlib parses.

    "mesh.cluster"() {axis_names = ["x"], ...}      "sdy.mesh"() {mesh = #sdy.mesh<["x"=2]>, ...}
    %1 = "mesh.annotate"(%0)                        %1 = "sdy.sharding_constraint"(%0)
      {sharding = #mesh.shard<@g, [[0]]>, ...}        {sharding = #sdy.sharding<@g, [{"x"}]>}

An annotation of a value itself becomes a constraint without uses, which has the same meaning in
Shardy. So does that of a block argument, unless a loop or a branch makes it equal to a result's. An
axis without a name gets one: `axis_0`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import create, create_value, replace_op
from shard_dialect.ir.diagnostics import located, warn
from shard_dialect.ir.function import BOUNDARY, boundary, form_of, functions_of, set_boundary
from shard_dialect.ir.grids import part_attributes, read_grid, sub_clusters_of
from shard_dialect.ir.mesh.annotation_ops import annotation_in, anything, read_annotation
from shard_dialect.ir.mesh.attributes import (
    BLOCKS,
    MANUAL,
    NAMED,
    RULE,
    SHARDING,
    SHARDINGS,
    STAGES,
    drop_attributes,
    symbol,
)
from shard_dialect.ir.mesh.check_mesh_ops import DIRECTIONS
from shard_dialect.ir.mesh.mesh_dialect import TRANSFER
from shard_dialect.ir.mesh.notation import read_axes
from shard_dialect.ir.mesh.sharding_attributes import Shardings, rank_of, transfer_attributes
from shard_dialect.ir.numbered_function import (
    Block,
    Function,
    flows_through,
    read_function,
    replace_captured,
)
from shard_dialect.ir.reading.string_literals import quoted
from shard_dialect.ir.sdy import ops as sdy
from shard_dialect.ir.sdy.syntax import mesh_body, read_per_value, to_sdy
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Annotation, Sharding, ShardingError
from shard_dialect.model.grid import full_axis
from shard_dialect.model.rule_text import write_rule
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.vocabularies.export_shard import (
    exported_shardings,
    refuse,
    refuse_ops,
    refuse_what_is_left,
)

_TARGET = "Shardy's sdy dialect"
_BEYOND = (
    "mesh.idx",
    "mesh.roll",
    "mesh.size",
    TRANSFER,
)


@dataclass(frozen=True)
class AnnotationsToSdy(Pass):
    """Write the `mesh` dialect's annotations as Shardy's, or refuse what it cannot express."""

    name = "annotations-to-sdy"

    def rewrite(self, module: ir.Operation) -> None:
        """Translate the module, and raise for what Shardy cannot express."""
        shardings = exported_shardings(module)
        grids = shardings.grids
        for part in sub_clusters_of(module).values():  # whose axes have no names of their own
            grids[part.name] = replace(grids[part.name], axes=grids[part.of].axes)
        refuse_ops(module, _BEYOND, _TARGET)
        module.context.allow_unregistered_dialects = True
        exporter = _Exporter(shardings)
        for function in functions_of(module):
            exporter.constrain_blocks(read_function(function))
        for op in reversed(walk(module)):  # inner ops before the ops around them
            with located(op):
                exporter.convert(op)
        refuse_what_is_left(module, _TARGET)


def _rule(op: ir.Operation) -> ir.Attribute:
    """The op's sharding rule as Shardy's text, which has the factors' sizes and only sums."""
    written = sdy.rule_for(op, op.attributes[RULE].value)
    for what, tensors in (("operands", op.operands), ("results", op.results)):
        if not len(tensors):
            raise ShardingError(
                f"a rule of an op without {what} cannot be expressed in {_TARGET}: remove {RULE}"
            )
    for _, kind in written.rule.reductions:
        if kind != "sum":
            raise ShardingError(
                f"a rule that reduces by {kind} cannot be expressed in {_TARGET}: it has sums only"
            )
    return ir.Attribute.parse(f"#sdy.op_sharding_rule<{write_rule(written)}>")


class _Exporter:
    def __init__(self, shardings: Shardings) -> None:
        self.shardings = shardings

    def convert(self, op: ir.Operation) -> None:
        if op.name == "func.func":
            self._boundary(op)
        if RULE in op.attributes:
            op.attributes[sdy.RULE] = _rule(op)
            del op.attributes[RULE]
        if SHARDINGS in op.attributes:
            per_value = self._per_value(op)
            del op.attributes[SHARDINGS]
            if NAMED in op.attributes:
                op.attributes[_OUT] = per_value
            else:
                op.attributes[sdy.SHARDING] = per_value
        if op.name in _CONVERT:
            with ir.InsertionPoint(op), op.location:
                _CONVERT[op.name](self, op)

    def constrain_blocks(self, function: Function) -> None:
        """Replace the shardings of block arguments by constraints, where no result implies them."""
        _, *blocks = function.blocks
        self._constrain(function, function.handle, blocks, {})
        for op in function.ops:
            found = self.shardings.of_results(op.handle)
            results = {value: found.get(number) for number, value in enumerate(op.results)}
            implied = {
                value: results[result]
                for flow in flows_through(op)
                for result in flow.targets
                if result in results
                for value in flow.targets
            }
            self._constrain(function, op.handle, op.blocks, implied)

    def _constrain(
        self,
        function: Function,
        handle: ir.Operation,
        blocks: Sequence[Block],
        implied: Mapping[int, Annotation | None],
    ) -> None:
        """Constrain the arguments of an op's blocks that have another sharding than is implied."""
        annotations = self.shardings.of_blocks(handle)
        for block, by_number in zip(blocks, annotations, strict=False):
            with ir.InsertionPoint.at_block_begin(block.handle), handle.location:
                for number, annotation in by_number.items():
                    argument = block.arguments[number]
                    if annotation != implied.get(argument):
                        value = function.values[argument].handle
                        attributes = {"sharding": self._sharding(_inferred(annotation))}
                        create("sdy.sharding_constraint", [value.type], [value], attributes)
        drop_attributes(handle, BLOCKS)

    def _boundary(self, op: ir.Operation) -> None:
        type_ = op.attributes["function_type"].value
        # Of a propagated function's results, propagation may have chosen the offsets.
        keeps = (True, form_of(op) != "propagated")
        for key, types, keep in zip(BOUNDARY, (type_.inputs, type_.results), keeps, strict=True):
            entries = boundary(op, key)
            for number, (entry, each) in enumerate(zip(entries, types, strict=True)):
                if SHARDING not in entry:
                    continue
                annotation = self.shardings.read_annotation(entry.pop(SHARDING), rank_of(each))
                if annotation.sharding.offsets and not keep:
                    warn(
                        f"shards of result {number} begin at offsets {annotation.sharding}, which "
                        f"cannot be expressed in {_TARGET}: they are left out",
                        op.location,
                    )
                    annotation = _inferred(annotation)
                entry[sdy.SHARDING] = self._sharding(annotation)
            set_boundary(op, key, entries)

    def _text(self, annotation: Annotation) -> str:
        return str(to_sdy(annotation, self.shardings.grid(annotation.grid)))

    def _sharding(self, annotation: Annotation) -> ir.Attribute:
        return ir.Attribute.parse(f"#sdy.sharding{self._text(annotation)}")

    def _list(self, texts: Sequence[str]) -> ir.Attribute:
        return ir.Attribute.parse(f"#sdy.sharding_per_value<[{', '.join(texts)}]>")

    def _per_value(self, op: ir.Operation) -> ir.Attribute:
        """The shardings of an op's results; a result without one gets a fully open sharding."""
        if not len(op.results):  # on the one device of a maximal mesh
            annotation = self.shardings.read_annotation(op.attributes[SHARDINGS][0], 0)
            return self._list([self._text(annotation)])
        annotations = self.shardings.of_results(op)
        grid = next((annotation.grid for annotation in annotations.values()), None)
        grid = grid or next(iter(self.shardings.grids))
        texts = []
        for number, result in enumerate(op.results):
            rank = rank_of(result.type)
            nothing = Annotation(Sharding.replicated(grid, rank), open=tuple(range(rank)))
            texts.append(self._text(_inferred(annotations.get(number, nothing))))
        return self._list(texts)

    def cluster(self, op: ir.Operation) -> None:
        grid = read_grid(op)
        assert grid is not None, "a cluster declares a grid"
        if not grid.is_static:
            raise refuse(op.location, f"grid {grid}, of unknown sizes,", _TARGET)
        mesh = ir.Attribute.parse(f"#sdy.mesh{mesh_body(self.shardings.grid(grid.name))}")
        attributes = {"sym_name": ir.StringAttr.get(grid.name), "mesh": mesh}
        create("sdy.mesh", [], [], attributes | part_attributes(grid, op))
        op.erase()

    def transfer(self, op: ir.Operation) -> None:
        """Write a transfer between stages as the change of sharding that it is for Shardy."""
        if STAGES not in op.attributes:
            raise refuse(op.location, f"'{op.name}' op", _TARGET)
        value, named = op.operands[0], transfer_attributes(op)
        grid = self.shardings.grid(symbol(op.attributes["cluster"]))
        text = self._text(anything(grid, rank_of(value.type)))
        if sdy.SHARDING in op.attributes:
            named[sdy.SHARDING] = op.attributes[sdy.SHARDING]
            text = str(read_per_value(str(named[sdy.SHARDING]))[0])
        named["sharding"] = ir.Attribute.parse(f"#sdy.sharding{text}")
        new = create("sdy.reshard", [value.type], [value], named)
        replace_op(op, new.results[0])

    def annotation(self, op: ir.Operation) -> None:
        annotated = read_annotation(op, self.shardings)
        assert annotated is not None, f"{op.name} is an annotation"
        if not annotated.required:
            raise refuse(op.location, f"the soft constraint {annotated.annotation}", _TARGET)
        value = op.operands[0]
        name = "sdy.reshard" if op.name == "mesh.reshard" else "sdy.sharding_constraint"
        attributes = {"sharding": self._sharding(annotated.annotation)}
        if sdy.SHARDING in op.attributes:
            attributes[sdy.SHARDING] = op.attributes[sdy.SHARDING]
        new = create_value(name, value.type, [value], attributes)
        replace_op(op, new if annotated.for_users else value)

    def group(self, op: ir.Operation) -> None:
        i64 = build.integer(64)
        number = ir.IntegerAttr.get(i64, op.attributes["group_id"].value)
        create("sdy.sharding_group", [], [op.operands[0]], {"group_id": number})
        op.erase()

    def barrier(self, op: ir.Operation) -> None:
        value = op.operands[0]
        number = DIRECTIONS.index(op.attributes["allowed_direction"].value)
        i32 = build.integer(32)
        direction = {"allowed_direction": ir.IntegerAttr.get(i32, number)}
        if sdy.SHARDING in op.attributes:
            direction[sdy.SHARDING] = op.attributes[sdy.SHARDING]
        new = create("sdy.propagation_barrier", [value.type], [value], direction)
        replace_op(op, new.results[0])

    def region(self, op: ir.Operation) -> None:
        if MANUAL in op.attributes:
            self._manual(op)
        elif NAMED in op.attributes:
            self._named(op)

    def _manual(self, op: ir.Operation) -> None:
        inside = operations(body(op))
        into = [each for each in inside if each.name == "mesh.to_local"]
        out = [value.owner.operation for value in inside[-1].operands if _is_new(value)]
        if len(out) != len(op.results) or any(each.name != "mesh.to_global" for each in out):
            raise ShardingError("has a manual computation that gives what no 'mesh.to_global' made")
        for each in inside[:-1]:
            if each.name == "mesh.to_global" and any(
                use.owner.operation != inside[-1] for use in each.results[0].uses
            ):
                raise ShardingError("has a manual computation that reads a 'mesh.to_global'")
        _take_constants_in(op)
        _refuse_captures(op, [each.operands[0] for each in into])
        manual = [full_axis(axis) for axis in read_axes(op.attributes[MANUAL])]
        attributes = {
            "in_shardings": self._list([self._crossing(each, 0) for each in into]),
            "out_shardings": self._list([self._crossing(each, 1) for each in out]),
            "manual_axes": self._manual_axes([*into, *out], manual),
        }
        operands = [each.operands[0] for each in into]
        arguments = [each.results[0] for each in into]
        results = [each.operands[0] for each in out]
        self._replace("sdy.manual_computation", op, attributes, operands, arguments, results)

    def _crossing(self, op: ir.Operation, side: int) -> str:
        """The annotation that a `to_local` or `to_global` has for the global tensor."""
        global_type = (op.operands[0] if side == 0 else op.results[0]).type
        return self._text(annotation_in(op, global_type, self.shardings))

    def _manual_axes(self, crossings: Sequence[ir.Operation], axes: Sequence[int]) -> ir.Attribute:
        names = []
        for op in crossings:
            global_type = (op.operands[0] if op.name == "mesh.to_local" else op.results[0]).type
            grid = self.shardings.grid(annotation_in(op, global_type, self.shardings).grid)
            if grid.rank:
                names = [grid.axis_name(axis) for axis in axes]
                break
        else:
            some = next((grid for grid in self.shardings.grids.values() if grid.rank), None)
            names = [some.axis_name(axis) for axis in axes] if some else []
        listed = ", ".join(map(quoted, names))
        return ir.Attribute.parse(f"#sdy<manual_axes{{{listed}}}>")

    def _named(self, op: ir.Operation) -> None:
        operands = _captured(op)
        attributes = {"name": op.attributes[NAMED]}
        if _OUT in op.attributes:
            attributes["out_shardings"] = op.attributes[_OUT]
        results = list(operations(body(op))[-1].operands)
        self._replace("sdy.named_computation", op, attributes, operands, operands, results)

    def _replace(
        self,
        name: str,
        op: ir.Operation,
        attributes: dict[str, ir.Attribute],
        operands: Sequence[ir.Value],
        arguments: Sequence[ir.Value],
        results: Sequence[ir.Value],
    ) -> None:
        """Create the computation; its block's arguments replace `arguments` in the moved body."""
        types = [result.type for result in op.results]
        # MLIR resolves no symbols in the only region of an op that it does not know.
        regions = 1 + any(each.name == "func.call" for each in walk(op))
        new = create(name, types, operands, attributes, regions=regions)
        locations = [op.location] * len(arguments)
        block = new.regions[0].blocks.append(*[v.type for v in arguments], arg_locs=locations)
        *moved, terminator = operations(body(op))
        for each in moved:
            block.append(each)
        stands = dict(zip(arguments, block.arguments, strict=True))
        with ir.InsertionPoint(block), terminator.location:
            create("sdy.return", [], results)
        terminator.erase()  # it uses values that are erased below
        replace_captured(new, stands)
        for each in moved:
            if each.name in ("mesh.to_global", "mesh.to_local"):
                each.erase()
        replace_op(op, *new.results)


_OUT = "mesh.out_shardings"
"""Temporary on a named region: the annotations of its results."""


def _inferred(annotation: Annotation) -> Annotation:
    """The annotation without offsets, which Shardy lacks; a user's are refused where he wrote them.

    Uneven shards that a reshape merges are at offsets then; Shardy splits them anew.
    """
    return replace(annotation, sharding=replace(annotation.sharding, offsets=()))


def _is_new(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block)


def _captured(op: ir.Operation) -> list[ir.Value]:
    """The values from outside that the op's region reads, in the order of their first use."""
    inside = {result for each in walk(op) for result in each.results}
    for each in walk(op):
        for region in each.regions:
            inside |= {argument for block in region.blocks for argument in block.arguments}
    values: dict[ir.Value, None] = {}
    for each in walk(op):
        for operand in each.operands:
            if operand not in inside:
                values[operand] = None
    return list(values)


def _take_constants_in(op: ir.Operation) -> None:
    """Clone the constants that the region captures into it; `cse` had hoisted them."""
    for value in _captured(op):
        owner = value.owner
        is_constant = not isinstance(owner, ir.Block) and build.is_constant(owner.operation)
        readers = [use.owner.operation for use in value.uses] if is_constant else []
        inside = [
            each for each in readers if each.name != "mesh.to_local" and each in list(walk(op))
        ]
        if inside:
            with ir.InsertionPoint.at_block_begin(body(op)), op.location:
                copy = owner.operation.clone().results[0]
            for each in inside:
                each.replace_uses_of_with(value, copy)


def _refuse_captures(op: ir.Operation, captures: Sequence[ir.Value]) -> None:
    allowed = set(captures)
    for value in _captured(op):
        if value not in allowed:
            raise ShardingError(
                f"has a manual computation that reads a {value.type} from outside: expected only "
                "what 'mesh.to_local' takes"
            )


_CONVERT: dict[str, Callable[[_Exporter, ir.Operation], None]] = {
    "mesh.annotate": _Exporter.annotation,
    "mesh.cluster": _Exporter.cluster,
    "mesh.collective_permute": _Exporter.transfer,
    "mesh.propagation_barrier": _Exporter.barrier,
    "mesh.reshard": _Exporter.annotation,
    "mesh.sharding_group": _Exporter.group,
    "mesh.sub_cluster": _Exporter.cluster,
    "scf.execute_region": _Exporter.region,
}
