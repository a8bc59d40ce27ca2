"""What our pipeline makes a program communicate, read from its local form.

Loop bodies count as often as the loop runs, where that is known; of branches all count.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import shard_dialect as sd
from benchmarks.tally import Tally
from shard_dialect.abi.lowered_program import Site, choose_entry, find_function
from shard_dialect.abi.tensor_types import TensorType, dtype_of
from shard_dialect.collectives.collective_table import LOCAL
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.mesh.mesh_collectives import read_collective
from shard_dialect.ir.mesh.mesh_dialect import is_reshard
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.reading.constants import trips_of
from shard_dialect.ir.shard.local_collectives import read_local
from shard_dialect.ir.walk import operations, walk
from shard_dialect.ops import rule_of
from shard_dialect.ops.stablehlo.attribute_reading import numbers
from shard_dialect.passes.framework.pipeline import steps_before
from shard_dialect.planner.prices import operand_shape
from shard_dialect.runtime.communication_report import Report

DISTRIBUTED = "counted from the distributed form"


@dataclass(frozen=True)
class Ours:
    """What is counted; `devices`, and the `flops` of the products of the unsharded program."""

    tally: Tally | None
    devices: int
    flops: int
    error: str = ""
    """Why nothing was, in one line."""


def count(path: Path) -> Ours:
    """Run the pipeline on the program at `path`, calls inlined, and count."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            module = sd.parse(path)
            with module.context, ir.Location.unknown():
                if any(op.name == "func.call" for op in walk(module.operation)):
                    sd.run_pipeline(module, "inline")
                found = _count(module)
        except sd.ShardError as error:
            return Ours(None, 1, 0, _line(error))
    told = [each for each in warned if isinstance(each.message, sd.ShardWarning)]
    if found.tally and told:
        more = f", and {len(told) - 1} more" if len(told) > 1 else ""
        found.tally.note(_line(told[0].message) + more)
    return found


def _count(module: ir.Module) -> Ours:
    before = steps_before("partition")
    unsharded = _products(module)
    devices = 1
    try:
        imported = _copy(module)
        sd.run_pipeline(imported, "import")
        grids = Shardings.of(imported.operation).grids.values()
        devices = max((grid.size for grid in grids), default=1)
        sd.run_pipeline(module, before)
        distributed = _copy(module)
    except sd.ShardError as refused:
        return Ours(None, devices, unsharded, _line(refused))
    try:
        sd.run_pipeline(module, "partition,bundle-collectives")
    except sd.ShardError as refused:
        tally = tally_of(distributed)
        tally.knows_flops = False  # its shapes are global
        tally.note(f"{DISTRIBUTED}: {_line(refused)}")
        return Ours(tally, devices, unsharded)
    return Ours(tally_of(module), devices, unsharded)


def _copy(module: ir.Module) -> ir.Module:
    return ir.Module.parse(module.operation.get_asm(enable_debug_info=True))


def _line(told: sd.ShardError | Warning | str) -> str:
    """The first, the file without its folder."""
    place, _, rest = str(told).splitlines()[0].partition(" ")
    return f"{Path(place).name} {rest}"


def _products(module: ir.Module) -> int:
    return sum(flops(op) * times for op, times in _run(module, Tally()))


def tally_of(module: ir.Module) -> Tally:
    """What the entry of a module in the local or the distributed form does on one device."""
    tally = Tally()
    shardings = Shardings.of(module.operation)
    for op, times in _run(module, tally):
        for entry in Report.of(list(_sites(op, shardings, tally))).entries:
            tally.add(entry.kind, entry.bytes_moved, times)
        tally.flops += flops(op) * times
    return tally


def _sites(op: ir.Operation, shardings: Shardings, tally: Tally) -> Iterator[Site]:
    """The steps of a collective, each with the types on one device."""
    if is_reshard(op) and op.name.startswith("mesh."):
        found = read_collective(op)
        type_, grid, now = op.operands[0].type, shardings.grid(found.source.grid), found.source
        for step in found.steps:
            after = step.after(now)
            shape = tuple(type_.shape)
            shapes = (operand_shape(step, now, shape, grid), after.local_shape(shape, grid))
            source, target = (TensorType(each, dtype_of(type_.element_type)) for each in shapes)
            yield Site(step, grid, source, target, str(source), str(target))
            now = after
    elif op.name in LOCAL:
        read = read_local(op.name, op.attributes)
        if read is None:
            tally.note(f"without {op.name}, which is not counted")
            return
        types = (op.operands[0].type, op.results[0].type)
        source, target = (TensorType(tuple(t.shape), dtype_of(t.element_type)) for t in types)
        grid = shardings.grid(read[0])
        yield Site(read[1], grid, source, target, str(source), str(target))


def _run(module: ir.Module, tally: Tally) -> Iterator[tuple[ir.Operation, int]]:
    """The ops that the entry runs, calls followed, and how often each is run."""
    functions = {name_of(op): op for op in functions_of(module.operation)}

    def inside(op: ir.Operation, times: int) -> Iterator[tuple[ir.Operation, int]]:
        blocks = [block for region in op.regions for block in region]
        for inner in (each for block in blocks for each in operations(block)):
            yield inner, times
            often = trips_of(inner)
            if often is None:
                tally.note(f"the body of {inner.name} counts once: how often it runs is not known")
            yield from inside(inner, times * (1 if often is None else often))
            if inner.name == "func.call" and inner.attributes["callee"].value in functions:
                yield from inside(functions[inner.attributes["callee"].value], times)

    name = choose_entry(module.operation, None)
    return inside(find_function(module.operation, name), 1)


_PRODUCTS = ("stablehlo.dot_general", "stablehlo.dot", "tosa.matmul")
_OF_LINALG = ("matmul", "matvec", "vecmat", "dot", "contract", "mmt4d", "conv_")


def flops(op: ir.Operation) -> int:
    """A multiplication and an addition for each step of a product's loops; 0 for other ops."""
    if op.name == "stablehlo.convolution":
        given = numbers(op, "dimension_numbers", "ConvDimensionNumbers")
        kernel = _shape(op.operands[1])
        features: int = kernel[given.kernel_output_feature_dimension]
        return 2 * prod(_shape(op.results[0])) * prod(kernel) // features
    if op.name.startswith("tosa.conv"):
        return 2 * prod(_shape(op.results[0])) * prod(_shape(op.operands[1])[1:])
    linalg = op.name.removeprefix("linalg.")
    named = linalg != op.name and any(part in linalg for part in _OF_LINALG)
    if not named and op.name not in _PRODUCTS and not _is_generic_product(op):
        return 0
    rule = rule_of(op)
    return 2 * prod(rule.sizes) if rule else 0


def _shape(value: ir.Value) -> tuple[int, ...]:
    return tuple(value.type.shape)


def _is_generic_product(op: ir.Operation) -> bool:
    """A `linalg.generic` that reduces, and multiplies two of its tensors."""
    if op.name != "linalg.generic" or "reduction" not in str(op.attributes["iterator_types"]):
        return False
    names = {inner.name for inner in walk(op)}
    return len(op.operands) == 3 and bool(names & {"arith.mulf", "arith.muli"})


def local_flops(program: Any) -> int:
    """Of the products of a program of `sd.compile`, on one device."""
    module = sd.parse(program.text("local"))
    with module.context, ir.Location.unknown():
        return tally_of(module).flops
