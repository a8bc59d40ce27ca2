"""Make a pipeline of a function: stages on parts of the grid, and microbatches in their order.

    func.func @main(%x: tensor<32x8xf32>, %w: tensor<8x8xf32>, %v: tensor<8x8xf32>) ...
      with pipeline{stages=2 microbatches=8 arguments=0} becomes

    %0:2 = stablehlo.while(%t = 0, %p = zeros, %y = zeros)
      %x0 = rows of %x of microbatch %t                             microbatch %t on @stage0,
      %h = stablehlo.dot_general %x0, %w
      %q = "mesh.collective_permute"(%h) {cluster = @stage1}
      %v0 = stablehlo.dot_general %p, %v                            and the one before on @stage1
      ...

Reductions over the batch, such as gradients, are added up over the microbatches, on the stage that
computes them. Results that have the batch as a dimension are concatenated. Calls are inlined, and
loops over layers divided among the stages. `propagate` goes on from there: the result is in the
annotated form, as somebody would write it by hand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.diagnostics import error_at, warn
from shard_dialect.ir.function import (
    forget_form,
    form_of,
    functions_of,
    is_private,
    name_of,
    returns_of,
    update_type,
)
from shard_dialect.ir.grids import fresh_name
from shard_dialect.ir.mesh.attributes import SHARDINGS
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import read_function
from shard_dialect.ir.verify import declares_no_grid
from shard_dialect.ir.walk import body, operations, source_behind, walk
from shard_dialect.model import Grid
from shard_dialect.ops.stablehlo.attribute_reading import padded_at
from shard_dialect.passes.calls import Calls, callee_of, drop_uncalled, inline_calls
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.framework.options import StageOptions
from shard_dialect.passes.pipelining.annotations_on_stages import AnnotationsOnStages
from shard_dialect.passes.pipelining.batch_types import batch_dim
from shard_dialect.passes.pipelining.choose_stages import LayerStacks, StageChoice
from shard_dialect.passes.pipelining.divide_loops import divide_loops
from shard_dialect.passes.pipelining.microbatch_ops import MicrobatchOps
from shard_dialect.passes.pipelining.split_batch import MicrobatchProgram, is_stablehlo, split_batch
from shard_dialect.passes.pipelining.timetable import Timetable
from shard_dialect.passes.pipelining.unroll_loops import (
    UPDATE,
    are_disjoint,
    written,
)
from shard_dialect.passes.pipelining.write_loops import LoopWriter
from shard_dialect.passes.propagate.constraints import default_grid

_MEANT = re.compile("stage|pipe|pp$")
"""The beginning of the name of an axis that is probably meant for stages."""


@dataclass(frozen=True)
class DivideIntoStages(StageOptions, Pass):
    """Divide the function into stages on parts of the grid, and its batch into microbatches."""

    name = "divide-into-stages"

    def rewrite(self, module: ir.Operation) -> None:
        """Rewrite the module's function; raise a located `ShardError` for what has no pipeline."""
        function = _inlined(module)
        if declares_no_grid(module):
            raise error_at(
                function.location, "the module declares no grid: stages are parts of one"
            )
        if form_of(function) != "annotated":
            raise error_at(function.location, "a pipeline is made before --propagate")
        if min(self.stages, self.chunks, self.microbatches) < 1:
            raise ShardError("pass 'pipeline' needs at least one stage, chunk and microbatch")
        texts = [each.strip() for each in self.arguments.split(",")]
        if not all(each.isdecimal() for each in texts):
            raise ShardError(
                f"option 'arguments' of pass 'pipeline' is '{self.arguments}': expected numbers, "
                "as in arguments='0,3'"
            )
        self._divide(function, sorted(set(map(int, texts))))

    def _divide(self, function: ir.Operation, batched: Sequence[int]) -> None:
        parts = None if self.schedule == "zero-bubble" else self.stages * self.chunks
        divide_loops(function, batched, self.microbatches, parts)
        join_parts(function)
        shardings = Shardings.of(function.parent)
        names = set(shardings.grids)
        microbatches = fresh_name("microbatches", names)
        stages = [fresh_name(f"stage{at}", names) for at in range(self.stages)]
        grid = default_grid(read_function(function), shardings)
        _warn_of_other_axis(grid, function)
        annotations = AnnotationsOnStages(function, shardings, grid, stages)
        annotations.take()
        arguments = body(function).arguments
        whole = [value.type for value in arguments]
        dims, split = split_batch(function, batched, self.microbatches, microbatches)
        program = MicrobatchProgram.read(function, split)
        _drop(microbatches, function.parent)
        annotations.declare()
        weights = self.schedule == "zero-bubble"
        stacks = LayerStacks.find(program)
        choice = StageChoice(program, stacks, self.stages, self.chunks, weights)
        idle = [str(at) for at in range(self.stages) if at not in choice.of_op.values()]
        if idle:
            warn(
                f"{self.stages} stages are more than the function can be divided into: stage "
                f"{', '.join(idle)} has nothing to do",
                function.location,
            )
        for value, type_ in zip(arguments, whole, strict=True):
            value.set_type(type_)
        end = returns_of(function)[0]
        passes = tuple(choice.passes)
        timetable = Timetable(self.schedule, self.stages, self.microbatches, passes, self.chunks)
        with ir.InsertionPoint(end), function.location:
            ops = MicrobatchOps(any(map(is_stablehlo, walk(function))))
            parts = self._parts(annotations, batched) if ops.stablehlo else 1
            LoopWriter(program, choice, annotations, timetable, end, ops, parts).write(dims)
        forget_form(function)
        update_type(function)
        annotations.annotate_boundary(
            program.function.arguments,
            program.returned,
            choice.of_value.get,
            choice.stacks.taken,
        )

    def _parts(self, annotations: AnnotationsOnStages, batched: Sequence[int]) -> int:
        """The number of devices that share the batch, if these can share every microbatch, or 1."""
        arguments = body(annotations.function).arguments
        shapes = {number: list(arguments[number].type.shape) for number in batched}
        dims = {number: batch_dim(shape) for number, shape in shapes.items()}
        parts = {annotations.parts_of(number, dim) for number, dim in dims.items()} - {1}
        sizes = [shapes[number][dim] // self.microbatches for number, dim in dims.items()]
        count = next(iter(parts), 1)
        return count if len(parts) == 1 and not any(size % count for size in sizes) else 1


def _inlined(module: ir.Operation) -> ir.Operation:
    """The module's one function that no other calls, with all calls in it inlined."""
    functions = functions_of(module)
    calls = Calls(module)
    called = {callee_of(call) for its in calls.calls.values() for call in its}
    entries = [each for each in functions if name_of(each) not in called or not is_private(each)]
    if len(entries) != 1:
        raise ShardError(
            f"pass 'pipeline' divides one function, and the module has {len(entries)} that others "
            "may call"
        )
    if any(calls.calls.values()):
        calls.refuse_recursion()
        inline_calls(entries[0], module)
        drop_uncalled(module, called)
    return entries[0]


def _drop(grid: str, module: ir.Operation) -> None:
    """Drop the declaration of the grid of microbatches."""
    for op in operations(body(module)):
        if op.name == "mesh.cluster" and name_of(op) == grid:
            op.erase()


def _warn_of_other_axis(grid: Grid, function: ir.Operation) -> None:
    """Say which axis is divided into stages, where another one has a name as if it were."""
    others = [name for name in grid.axes[1:] if _MEANT.match(name)]
    if others and not _MEANT.match(grid.axes[0]):
        warn(
            f"axis 0 of grid {grid}, '{grid.axes[0]}', is divided into stages, not '{others[0]}': "
            "declare the axis of the stages first",
            function.location,
        )


_REPEAT = "stablehlo.broadcast_in_dim"
_Part = tuple[ir.Value, list[int]]
"""A part, and the indices at which it is written."""


def join_parts(function: ir.Operation) -> None:
    """Replace sums of disjoint parts, each in zeros of its own, by updates of one tensor, in place.

        %a = stablehlo.dynamic_update_slice %zeros, %g, %c1, ...
        %b = stablehlo.pad %h, 0, low = [2, 0], high = [1, 0]       %a, and %h put into it as row 2
        %c = stablehlo.add %a, %b

    So JAX writes the gradient of weights of which a loop, or unrolled layers, take one row after
    the other. Each stage can then put in its own rows. The function has one block.
    """
    parts_of: dict[ir.Value, list[_Part] | None] = {}
    for op in operations(body(function)):
        for value in op.results:
            parts_of[value] = _parts(value, parts_of)
        if op.name != "stablehlo.add" or SHARDINGS in op.attributes:
            continue
        first, second = (parts_of.get(value) for value in op.operands)
        if first is None or second is None or not _are_apart(first, second):
            continue
        with ir.InsertionPoint(op), op.location:
            joined = _joined(op.operands[0], first, second)
        parts_of[joined] = [*first, *second]
        replace_op(op, joined)


def _parts(value: ir.Value, parts_of: dict[ir.Value, list[_Part] | None]) -> list[_Part] | None:
    """The parts of a tensor that is zero elsewhere; `None` if it is not known to be."""
    op = value.owner
    if _is_zero(value):
        return []
    if (found := written(value)) is not None:
        before = parts_of.get(op.operands[0])
        return None if before is None else [*before, found]
    if not isinstance(op, ir.Block) and op.name == "stablehlo.pad" and _is_zero(op.operands[1]):
        low = padded_at(op)
        return None if low is None else [(op.operands[0], low)]
    return None


def _is_zero(value: ir.Value) -> bool:
    """Whether all elements are constants, and zero."""
    value = source_behind(value, _REPEAT)
    constant = build.splat_value(value) or build.constant_value(value)
    return isinstance(constant, ir.FloatAttr | ir.IntegerAttr) and constant.value == 0


def _are_apart(first: list[_Part], second: list[_Part]) -> bool:
    return all(
        are_disjoint(at, update.type.shape, other_at, other.type.shape)
        for update, at in first
        for other, other_at in second
    )


def _joined(whole: ir.Value, first: list[_Part], second: list[_Part]) -> ir.Value:
    """`whole`, which has the `first` parts, with the `second` put in."""
    if first and whole.owner.name != UPDATE:
        element = reductions.identity("sum", whole.type.element_type)
        whole = hlo.splat(element, whole.type)
        second = [*first, *second]
    index = hlo.tensor([], build.integer(32))
    for update, at in second:
        whole = hlo.dynamic_update(whole, update, [hlo.number(begin, index) for begin in at])
    return whole
