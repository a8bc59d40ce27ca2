"""What MLIR's own verifiers let through and no pass could make sense of, refused by us first.

Two kinds of check: of one `mesh` op against its types (`MESH_OPS`, run by MLIR wherever it
verifies), and of a whole module, which knows the grids (`verify`, run on every file read).
"""

from __future__ import annotations

from dataclasses import replace

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
    sharding_in,
)
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.collectives import read_steps
from shard_dialect.ir.diagnostics import error_at, location_text
from shard_dialect.ir.local import read_local
from shard_dialect.ir.mesh import COLLECTIVES, Check
from shard_dialect.ir.walk import walk
from shard_dialect.model import Sharding, ShardingError


def _check_cluster(op: ir.Operation) -> None:
    read_grid(op)


def _check_annotate(op: ir.Operation) -> None:
    annotation.flag(op, "required", default=False)
    annotation.flag(op, "as_result", default=True)


def _check_collective(op: ir.Operation) -> None:
    source, result = sharding_in(op.operands[0].type), sharding_in(op.results[0].type)
    if source is None or result is None:
        raise ShardingError("takes and gives ranked tensors")
    grid = source.grid or result.grid
    source, result = replace(source, grid=grid), replace(result, grid=result.grid or grid)
    expected = source
    for step in read_steps(op, source):
        expected = step.after(expected)
    if expected != result:
        raise ShardingError(f"gives {expected} from {source}, but its result type says {result}")
    if op.operands[0].type.shape != op.results[0].type.shape:
        raise ShardingError("has different global shapes on its operand and its result")


MESH_OPS: dict[str, Check] = {
    "mesh.cluster": _check_cluster,
    "mesh.annotate": _check_annotate,
    **dict.fromkeys(COLLECTIVES, _check_collective),
}


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
        shardings.of_type(result.type)
    if op.name in annotation.OPS:
        annotation.read_annotation(op, shardings)
    elif op.name == "shard.sharding":
        _check_upstream_sharding(op, shardings)
    elif op.name == "func.func":
        _check_function(op, shardings)
    if SHARDINGS in op.attributes:
        _check_result_shardings(op, shardings)


def _check_upstream_sharding(op: ir.Operation, shardings: Shardings) -> None:
    split = annotation.split_axes(op)
    sharding = Sharding(annotation.grid_name(op), split)
    shardings.checked(sharding, sharding.rank)


def _check_function(op: ir.Operation, shardings: Shardings) -> None:
    if "mesh_cluster" in op.attributes:
        expect(op, "mesh_cluster", ir.FlatSymbolRefAttr, "the name of a grid")
        shardings.grid(annotation.cluster_name(op))
    if FORM in op.attributes:
        form = expect(op, FORM, ir.StringAttr, "a string").value
        if form not in FORMS:
            raise ShardingError(f"{FORM} is '{form}', expected one of {', '.join(FORMS)}")
    if COLLECTIVE in op.attributes:
        _check_runtime_function(op)
    type_ = op.attributes["function_type"].value
    for key, types in (("arg_attrs", type_.inputs), ("res_attrs", type_.results)):
        for index, each in enumerate(types):
            shardings.of_type(each)
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
        if list(type_.shape) != list(local.shape):
            raise ShardingError(f"{key} is {whole}, whose piece is {local}, not {type_}")


def _check_runtime_function(op: ir.Operation) -> None:
    what = expect(op, COLLECTIVE, ir.DictAttr, "a dictionary")
    try:
        read = read_local(what["name"].value, what)
    except (AttributeError, KeyError, TypeError, ValueError):
        read = None
    inputs = op.attributes["function_type"].value.inputs
    if read is None or len(inputs) != 2:
        raise ShardingError(
            f"{COLLECTIVE} describes no collective from one buffer to another: {what}"
        )


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
