"""What MLIR's own verifiers let through and no pass could make sense of, refused by us first.

Two kinds of check: of one `mesh` op against its types (`MESH_OPS`, run by MLIR wherever it
verifies), and of a whole module, which knows the grids (`verify`, run on every file read).
"""

from __future__ import annotations

from shard_dialect.errors import ShardError
from shard_dialect.ir import annotation
from shard_dialect.ir.attributes import (
    ARGUMENT,
    COLLECTIVE,
    FORM,
    FORMS,
    RESULT,
    SHARDING,
    SHARDINGS,
    Shardings,
    expect,
    read_grid,
)
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.collectives import read_collective
from shard_dialect.ir.diagnostics import error_at, location_text
from shard_dialect.ir.function import form_of
from shard_dialect.ir.local import read_local
from shard_dialect.ir.mesh import COLLECTIVES, Check
from shard_dialect.ir.shard_checks import check as check_upstream
from shard_dialect.ir.walk import walk
from shard_dialect.model import Sharding, ShardingError


def _check_cluster(op: ir.Operation) -> None:
    read_grid(op)


def _check_annotate(op: ir.Operation) -> None:
    annotation.flag(op, "required", default=False)
    annotation.flag(op, "as_result", default=True)


def _check_collective(op: ir.Operation) -> None:
    found = read_collective(op)
    expected = found.source
    for step in found.steps:
        expected = step.after(expected)
    if expected != found.target:
        raise ShardingError(
            f"gives {expected} from {found.source}, but its result type says {found.target}"
        )
    given, made = op.operands[0].type, op.results[0].type
    if given.shape != made.shape or given.element_type != made.element_type:
        raise ShardingError("has different global tensors as its operand and its result")


MESH_OPS: dict[str, Check] = {
    "mesh.cluster": _check_cluster,
    "mesh.annotate": _check_annotate,
    **dict.fromkeys(COLLECTIVES, _check_collective),
}


_LOCAL = ("local", "lowered")
"""The forms that have no sharded types any more."""


def verify(module: ir.Operation) -> None:
    """Raise a located `ShardError` for the first thing in `module` that is wrong."""
    shardings = Shardings.of(module)
    for op in walk(module):
        try:
            _check_op(op, shardings)
        except ShardingError as error:
            message = f"'{op.name}' op {error.message}"
            raise ShardError(message, error.location or location_text(op.location)) from None


def _check_op(op: ir.Operation, shardings: Shardings) -> None:
    for result in op.results:
        if shardings.of_type(result.type) is not None:
            _check_may_be_sharded(op)
    check_upstream(op, shardings)
    if op.name in annotation.OPS:
        annotation.read_annotation(op, shardings)
    elif op.name == "func.func":
        _check_function(op, shardings)
    if SHARDINGS in op.attributes:
        _check_result_shardings(op, shardings)


def _check_function(op: ir.Operation, shardings: Shardings) -> None:
    if "mesh_cluster" in op.attributes:
        expect(op, "mesh_cluster", ir.FlatSymbolRefAttr, "the name of a grid")
        shardings.grid(annotation.cluster_name(op))
    if FORM in op.attributes:
        form = expect(op, FORM, ir.StringAttr, "a string").value
        if form not in FORMS:
            raise ShardingError(f"{FORM} is '{form}', expected one of {', '.join(FORMS)}")
    if COLLECTIVE in op.attributes:
        _check_runtime_function(op, shardings)
    type_ = op.attributes["function_type"].value
    for key, types in (("arg_attrs", type_.inputs), ("res_attrs", type_.results)):
        for index, each in enumerate(types):
            if shardings.of_type(each) is not None and form_of(op) in _LOCAL:
                raise ShardingError(f"is in the {form_of(op)} form, which has no sharded types")
            if key in op.attributes:
                _check_boundary(op, each, op.attributes[key][index], shardings)


def _check_boundary(
    op: ir.Operation, type_: ir.Type, attributes: ir.DictAttr, shardings: Shardings
) -> None:
    if SHARDING in attributes:
        if not isinstance(type_, ir.RankedTensorType):
            raise error_at(op.location, f"{SHARDING} on a {type_}, which is not a ranked tensor")
        shardings.read(attributes[SHARDING], type_.rank)
    for key in (ARGUMENT, RESULT):
        if key not in attributes:
            continue
        whole = attributes[key]
        if not isinstance(whole, ir.TypeAttr) or not isinstance(whole.value, ir.RankedTensorType):
            raise ShardingError(f"{key} must be a tensor type, found {whole}")
        sharding = shardings.of_type(whole.value)
        local = whole.value if sharding is None else shardings.local(whole.value)
        if (list(type_.shape), type_.element_type) != (list(local.shape), local.element_type):
            raise ShardingError(f"{key} is {whole}, whose piece is {local}, not {type_}")


def _check_may_be_sharded(op: ir.Operation) -> None:
    parent = op.parent
    while parent is not None and parent.name != "func.func":
        parent = parent.parent
    if parent is not None and FORM in parent.attributes and form_of(parent) in _LOCAL:
        raise ShardingError(f"is in a function in the {form_of(parent)} form, of plain types")


def _check_runtime_function(op: ir.Operation, shardings: Shardings) -> None:
    what = expect(op, COLLECTIVE, ir.DictAttr, "a dictionary")
    inputs = op.attributes["function_type"].value.inputs
    try:
        read = read_local(what["name"].value, what)
    except (AttributeError, KeyError, TypeError, ValueError):
        read = None
    if read is None or [isinstance(each, ir.MemRefType) for each in inputs] != [True, True]:
        raise ShardingError(
            f"{COLLECTIVE} describes no collective from one buffer to another: {what}"
        )
    grid = shardings.grid(read[0])
    Sharding(grid.name, (read[1].axes,)).check(grid, 1)
    source, target = (tuple(each.shape) for each in inputs)
    expected = read[1].local_shape_after(source, grid.axes_size(read[1].axes))
    if expected != target or inputs[0].element_type != inputs[1].element_type:
        raise ShardingError(f"{COLLECTIVE} does not make {inputs[1]} of {inputs[0]}: {what}")


def _check_result_shardings(op: ir.Operation, shardings: Shardings) -> None:
    given = list(expect(op, SHARDINGS, ir.ArrayAttr, "a list of shardings"))
    if len(given) != len(op.results):
        raise ShardingError(f"has {len(given)} {SHARDINGS} for {len(op.results)} results")
    for attribute, result in zip(given, op.results, strict=True):
        if not isinstance(attribute, ir.UnitAttr) and not isinstance(
            result.type, ir.RankedTensorType
        ):
            raise ShardingError(f"has a sharding for a {result.type}")
    shardings.of_results(op)
