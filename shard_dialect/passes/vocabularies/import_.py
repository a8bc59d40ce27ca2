"""Translate every vocabulary to the `mesh` dialect's annotated form.

    shard.grid @g(shape = 2x4)                               "mesh.cluster"() {sym_name = "g", ...}
    %s = shard.sharding @g split_axes = [[0]]                %1 = "mesh.annotate"(%0)
    %1 = shard.shard %0 to %s : tensor<4xf32>                  {sharding = #mesh.shard<@g, [[0]]>}

    "sdy.sharding_constraint"(%0) {sharding = ...}           "mesh.annotate"(%0) {as_result = false}

Annotations of the `mesh` dialect are brought to one canonical spelling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir, know_stablehlo_passes, run_upstream
from shard_dialect.ir.building.build import annotate, create, create_value, is_used, replace_op
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.function import boundary, name_of, recorded_form, set_boundary
from shard_dialect.ir.grids import read_grid, write_cluster
from shard_dialect.ir.mesh.attributes import (
    BLOCKS,
    SHARDING,
    SHARDINGS,
    STAGES,
    STANDS_FOR,
    symbol,
)
from shard_dialect.ir.mesh.sharding_attributes import Shardings, annotated_blocks, write_transfer
from shard_dialect.ir.shard.sharding_ops import Layout, grid_name, sharding_behind
from shard_dialect.ir.verify import check_agreement
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Annotation, ShardingError
from shard_dialect.passes.decompose_chlo import keep_functions
from shard_dialect.passes.framework.base import (
    CURRENT,
    UNCHANGED,
    Outcome,
    Pass,
    forget_analyses,
    forms_of,
    is_imported,
    known,
    learn,
)
from shard_dialect.passes.vocabularies.import_mesh import import_mesh
from shard_dialect.passes.vocabularies.import_sdy import import_sdy

_SHARDINGS = ("shard.get_sharding", "shard.sharding")
"""Ops that have no uses once the annotations are imported; users before their operands."""


def import_shard(module: ir.Operation, ops: Sequence[ir.Operation]) -> bool:
    """Import upstream's `ops` of `module` in place; return whether there were any."""
    shard_ops = [op for op in ops if op.name.startswith("shard.")]
    if not shard_ops:
        return False
    shard_ops = _with_shardings_themselves(shard_ops)
    shardings = Shardings.of(module)
    annotations, others = [], []
    for op in shard_ops:
        if op.name == "shard.shard":
            with located(op):
                annotations.append((op, _sharding_op_of(op)))
        else:
            others.append(op)
    importer = _Importer(shardings)
    # Those that stand for an attribute go last, when the op that gets it is imported.
    for op, sharding_op in sorted(annotations, key=lambda each: STANDS_FOR in each[0].attributes):
        with located(op):
            importer.convert(op, sharding_op)
    importer.write_boundaries()
    _import_grids(module, _without_unused(others))
    return True


def _with_shardings_themselves(ops: Sequence[ir.Operation]) -> list[ir.Operation]:
    """Replace each `shard.get_sharding` by the sharding, which annotations will not name any more.

    Returns the other ops.
    """
    left = []
    for op in ops:
        found = sharding_behind(op.results[0]) if op.name == "shard.get_sharding" else None
        if found is None:
            left.append(op)
        else:
            replace_op(op, found.results[0])
    return left


def _sharding_op_of(op: ir.Operation) -> ir.Operation:
    sharding_op = sharding_behind(op.operands[1])
    if sharding_op is None:
        raise ShardingError("takes a sharding that no 'shard.sharding' op makes")
    return sharding_op


class _Importer:
    """Converts annotations; `boundaries` collects the attributes of arguments and results."""

    def __init__(self, shardings: Shardings) -> None:
        self.shardings = shardings
        self.boundaries: dict[tuple[str, str], list[dict[str, ir.Attribute]]] = {}
        self.functions: dict[str, ir.Operation] = {}

    def convert(self, op: ir.Operation, sharding_op: ir.Operation) -> None:
        source = op.operands[0]
        rank = source.type.rank
        sharding = Layout.of(sharding_op).sharding(
            rank, self.shardings.grid(grid_name(sharding_op))
        )
        attribute = self.shardings.write(self.shardings.checked(Annotation(sharding), rank))
        stands_for = op.attributes[STANDS_FOR].value if STANDS_FOR in op.attributes else None
        restore = _RESTORE.get(stands_for) if stands_for else None
        with ir.InsertionPoint(op), op.location:
            if STAGES in op.attributes:
                new = write_transfer(op, sharding.grid)
                if self._is_propagated(op):
                    new.owner.attributes[SHARDINGS] = ir.ArrayAttr.get([attribute])
            elif stands_for == "reshard":
                attributes = {"sharding": attribute}
                new = create_value("mesh.reshard", source.type, [source], attributes)
            elif restore and restore(self, op, attribute):
                new = source
            else:
                for_users = "annotate_for_users" in op.attributes
                new = annotate(
                    source, attribute, list(sharding_op.operands), as_result=not for_users
                )
                if self._is_propagated(op):
                    new.owner.attributes[SHARDINGS] = ir.ArrayAttr.get([attribute])
        replace_op(op, new)

    def _is_propagated(self, op: ir.Operation) -> bool:
        """Whether the op's function is in the propagated form, where each value has a sharding."""
        while op.parent is not None:
            op = op.parent.operation
            if op.name == "func.func":
                return recorded_form(op) == "propagated"
        return False

    def to_argument(self, op: ir.Operation, sharding: ir.Attribute) -> bool:
        """Set the sharding on the annotated argument; return whether the value is an argument."""
        value = op.operands[0]
        if not isinstance(value.owner, ir.Block):
            return False
        return self._to_boundary(value.owner.owner, "arg_attrs", value.arg_number, sharding)

    def to_result(self, op: ir.Operation, sharding: ir.Attribute) -> bool:
        uses = list(op.results[0].uses)
        if len(uses) != 1 or uses[0].owner.operation.name != "func.return":
            return False
        function = uses[0].owner.operation.parent
        return self._to_boundary(function, "res_attrs", uses[0].operand_number, sharding)

    def _to_boundary(
        self, function: ir.Operation, key: str, number: int, sharding: ir.Attribute
    ) -> bool:
        function = function.operation
        if function.name != "func.func":
            return False
        name = name_of(function)
        self.functions[name] = function
        entries = self.boundaries.setdefault((name, key), boundary(function, key))
        entries[number][SHARDING] = sharding
        return True

    def write_boundaries(self) -> None:
        for (name, key), entries in self.boundaries.items():
            set_boundary(self.functions[name], key, entries)

    def to_block(self, op: ir.Operation, sharding: ir.Attribute) -> bool:
        """Note the sharding of an argument of a block that is not a function's first one."""
        value = op.operands[0]
        if not isinstance(value.owner, ir.Block):
            return False
        owner = value.owner.owner.operation
        blocks = annotated_blocks(owner)
        if value.owner not in blocks:
            return False
        lists = [[ir.UnitAttr.get()] * len(block.arguments) for block in blocks]
        if BLOCKS in owner.attributes:
            lists = [list(each) for each in owner.attributes[BLOCKS]]
        lists[blocks.index(value.owner)][value.arg_number] = sharding
        owner.attributes[BLOCKS] = ir.ArrayAttr.get([ir.ArrayAttr.get(each) for each in lists])
        return True

    def to_op(self, op: ir.Operation, sharding: ir.Attribute) -> bool:
        value = op.operands[0]
        if isinstance(value.owner, ir.Block):
            return False
        owner = value.owner.operation
        annotations = [ir.UnitAttr.get()] * len(owner.results)
        if SHARDINGS in owner.attributes:
            annotations = list(owner.attributes[SHARDINGS])
        annotations[value.result_number] = sharding
        owner.attributes[SHARDINGS] = ir.ArrayAttr.get(annotations)
        return True


_RESTORE: dict[str, Callable[[_Importer, ir.Operation, ir.Attribute], bool]] = {
    "argument": _Importer.to_argument,
    "block": _Importer.to_block,
    "op": _Importer.to_op,
    "result": _Importer.to_result,
}


def _without_unused(ops: Sequence[ir.Operation]) -> list[ir.Operation]:
    """Erase the sharding ops that have no uses; return the other ops."""
    left = list(ops)
    for name in _SHARDINGS:
        kept = []
        for op in left:
            if op.name == name and not is_used(op.results[0]):
                op.erase()
            else:
                kept.append(op)
        left = kept
    return left


def _import_grids(module: ir.Operation, left: Sequence[ir.Operation]) -> None:
    """Replace each `shard.grid` by a `mesh.cluster`, unless ops of `shard` still refer to it."""
    kept = {symbol(op.attributes["grid"]) for op in left if "grid" in op.attributes}
    for op in operations(body(module)):
        grid = read_grid(op) if op.name == "shard.grid" else None
        if grid is not None and grid.name not in kept:
            with ir.InsertionPoint(op), op.location:
                write_cluster(grid, op)
            op.erase()


_COMPOSITE = "stablehlo.composite"
"""An op that a backend may execute as a unit; `import` replaces it by its decomposition."""
_DYNAMIC_IOTA = "stablehlo.dynamic_iota"
_FROM_COMPOSITES = "builtin.module(func.func(stablehlo-legalize-composite-to-call))"


@dataclass(frozen=True)
class Import(Pass):
    """Turn upstream's `shard` and Shardy's `sdy` annotations into the `mesh` dialect's."""

    name = "import"

    def rewrite(self, module: ir.Operation) -> Outcome:
        """Import all annotations, then check that they agree."""
        forms = known(module, forms_of)
        is_late = forms and forms <= {"local", "lowered"}  # whose grids are upstream's
        if is_late or known(module, is_imported):
            return UNCHANGED
        is_changed = import_annotations(module)
        check_agreement(module, Shardings.of(module))
        if is_changed:
            forget_analyses()
        learn(module, is_imported, True)
        return CURRENT if is_changed else UNCHANGED


def import_annotations(module: ir.Operation) -> bool:
    """Import the annotations of `module` in place, and return whether it may have changed.

    Raises a located `ShardError` for an annotation that the `mesh` dialect cannot express.
    """
    ops = walk(module)
    is_changed = False
    for import_one in (import_shard, import_sdy):
        if import_one(module, ops):
            ops, is_changed = walk(module), True
    names = {op.name for op in ops}  # `import_mesh` drops some of them
    if any(name.startswith("chlo.") for name in names):
        keep_functions(module)
        names, is_changed = {op.name for op in walk(module)}, True
    is_changed |= import_mesh(module)
    if _DYNAMIC_IOTA in names:
        _make_iotas(module)
        is_changed = True
    if _COMPOSITE in names:  # last: the pass erases annotations without uses
        know_stablehlo_passes()
        run_upstream(_FROM_COMPOSITES, module)
        is_changed = True
    return is_changed


def _make_iotas(module: ir.Operation) -> None:
    """Replace each `dynamic_iota` of a known type, as torch-mlir writes them, by an `iota`."""
    for op in walk(module):
        if op.name != _DYNAMIC_IOTA or not op.results[0].type.has_static_shape:
            continue
        attributes = {name: op.attributes[name] for name in op.attributes}
        with ir.InsertionPoint(op), op.location:
            iota = create("stablehlo.iota", [op.results[0].type], [], attributes)
        replace_op(op, iota.results[0])
