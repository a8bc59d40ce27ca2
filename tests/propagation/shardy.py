"""What Shardy itself says, through jaxlib: its passes run on text, and shardings read back."""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.context import make_context
from shard_dialect.ir.function import boundary, functions_of, name_of
from shard_dialect.ir.mesh.annotation_ops import BOUNDARY_OPS, TO_GLOBAL, boundary_of, is_manual
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import Function, Op, read_function
from shard_dialect.ir.reading.source import Source
from shard_dialect.model import Sharding
from shard_dialect.model.grid import full_axis
from shard_dialect.ops import rule_of
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.passes.propagate.constants import Constants

PIPELINE = (
    "builtin.module(symbol-dce,sdy-lift-inlined-meshes,sdy-constant-or-scalar-splitter,symbol-dce,"
    "sdy-manual-axes-cleanup,sdy-add-data-flow-edges,sdy-flatten-call-graph,symbol-dce,"
    "sdy-import-func-calls{add-data-flow-edges-on-named-computations=true},symbol-dce,"
    "sdy-apply-sharding-constraints,sdy-sharding-group-import,sdy-pre-order-funcs,"
    "sdy-user-priority-propagate,sdy-export-named-computations,sdy-propagate-to-func-results,"
    "sdy-unflatten-call-graph{dedup-functions-fully=false},symbol-dce,"
    "func.func(sdy-sink-data-flow-edges),sdy-remove-sharding-groups,"
    "sdy-update-non-divisible-input-output-shardings)"
)
"""`sdy-propagation-pipeline` up to where it inserts reshards, without merging constants again."""


def run(text: str, pipeline: str = PIPELINE) -> str:
    """The generic form of what the pipeline makes of a module."""
    import jax._src.interpreters.mlir as jax_mlir
    from jaxlib.mlir import ir, passmanager

    with jax_mlir.make_ir_context() as context:
        context.enable_multithreading(False)
        module = ir.Module.parse(text)
        passmanager.PassManager.parse(pipeline).run(module.operation)
        return str(module.operation.get_asm(print_generic_op_form=True))


PLAIN = "a plain constant"
"""The end of `Lying.what` for what no pass of ours doubles: a slice of it is free."""


@dataclass(frozen=True)
class Lying:
    """How one value lies: which value, and the axes of each dimension as text."""

    what: str
    axes: str


def shardings_of(text: str, passes: str = "import") -> list[Lying]:
    """How the values of a module's functions lie after some of our passes, in order.

    Constants, which either side has as often as it likes, count where they are used.
    """
    with make_context():
        module = Source.of(text.replace('"sdy.constant"', '"stablehlo.constant"')).parse()
        run_pipeline(module, passes)
        shardings = Shardings.of(module.operation)
        found = []
        functions = {name_of(op): read_function(op) for op in functions_of(module.operation)}
        for name in _as_called(functions):
            found += _Reader(functions[name], shardings).read()
        return found


def _as_called(functions: dict[str, Function]) -> list[str]:
    """The names of functions, callers first, each where it is first called."""
    callees = {
        name: [
            op.handle.attributes["callee"].value for op in function.ops if op.name == "func.call"
        ]
        for name, function in functions.items()
    }
    called = {name for names in callees.values() for name in names}
    order = dict.fromkeys(name for name in functions if name not in called)
    waiting = list(order)
    while waiting:
        for name in callees[waiting.pop(0)]:
            if name not in order:
                order[name] = None
                waiting.append(name)
    return list(order)


class _Reader:
    def __init__(self, function: Function, shardings: Shardings) -> None:
        self.function = function
        self.shardings = shardings
        self.constants = Constants(function)
        self.found: list[Lying] = []

    def read(self) -> list[Lying]:
        handle = self.function.handle
        types = handle.attributes["function_type"].value
        for key, values in (("arg_attrs", types.inputs), ("res_attrs", types.results)):
            for place, (entry, type_) in enumerate(zip(boundary(handle, key), values, strict=True)):
                if isinstance(type_, ir.RankedTensorType) and type_.rank:
                    said = self._even(entry.get("mesh.sharding"), type_)
                    self.found.append(Lying(f"{key} {place}", said))
        for op in self.function.ops:
            rule = rule_of(op.handle) if not op.blocks else None
            if not self.constants.add(op, rule):
                self._read(op)
        return self.found

    def _read(self, op: Op) -> None:
        for place, value in enumerate(op.operands):
            if value in self.constants and self.function.values[value].shape:
                made = self.constants[value]
                axes = self._of(made.handle, 0, len(self.function.values[value].shape or ()))
                plain = f", {PLAIN}" if made.name in build.CONSTANTS else ""
                self.found.append(Lying(f"{op.name} operand {place}{plain}", axes))
        if is_manual(op.handle):
            return  # its results are those of the boundary ops inside
        for place, value in enumerate(op.results):
            if self.function.values[value].shape:
                rank = len(self.function.values[value].shape or ())
                self.found.append(Lying(f"{op.name} {place}", self._of(op.handle, place, rank)))

    def _of(self, op: ir.Operation, place: int, rank: int) -> str:
        if op.name in BOUNDARY_OPS and "mesh.shardings" not in op.attributes:
            return self._inside_or_outside(op)
        if "mesh.shardings" in op.attributes:
            return self._axes(op.attributes["mesh.shardings"][place], rank)
        if op.name in ("mesh.annotate", "mesh.reshard"):
            return self._axes(op.attributes["sharding"], rank)
        return self._axes(None, rank)

    def _inside_or_outside(self, op: ir.Operation) -> str:
        """The result of a boundary op, as the boundary says it."""
        boundary = boundary_of(op, self.shardings)
        outside = boundary.outside_annotation.sharding
        if op.name == TO_GLOBAL:
            return str(Sharding("", outside.split_axes))
        free = [
            [axis for axis in axes if full_axis(axis) not in boundary.manual]
            for axes in outside.split_axes
        ]
        return str(Sharding("", tuple(map(tuple, free))))

    def _even(self, attribute: ir.Attribute | None, type_: ir.Type) -> str:
        """What divides: Shardy drops the rest where a user has written it, too."""
        if attribute is None:
            return self._axes(None, type_.rank)
        said = self.shardings.read_annotation(attribute, type_.rank).sharding
        grid = self.shardings.grid(said.grid)
        return str(Sharding("", said.without_uneven_axes(tuple(type_.shape), grid).split_axes))

    def _axes(self, attribute: ir.Attribute | None, rank: int) -> str:
        if attribute is None or isinstance(attribute, ir.UnitAttr):
            return str(Sharding.replicated("", rank))
        said = self.shardings.read_annotation(attribute, rank).sharding
        return str(Sharding("", said.split_axes))


def compare(
    text: str, ours: str = "propagate{strategy=user-priority}", pipeline: str = PIPELINE
) -> tuple[list[tuple[Lying, Lying]], int]:
    """The values that lie otherwise in what we make of a module than in what Shardy makes of it.

    And how many there are in all. Raises `ValueError` where the two are not the same program.
    """
    # Shardy moves some constraints: only ops of one kind are in the same order.
    theirs = sorted(shardings_of(run(text, pipeline)), key=lambda each: each.what)
    mine = sorted(shardings_of(text, ours), key=lambda each: each.what)
    if [each.what for each in mine] != [each.what for each in theirs]:
        raise ValueError("not the same program")
    differ = [pair for pair in zip(mine, theirs, strict=True) if pair[0] != pair[1]]
    return differ, len(mine)
