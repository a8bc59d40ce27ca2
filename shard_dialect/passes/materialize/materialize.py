"""From propagated to distributed: every change of sharding becomes a `mesh` collective.

    %1 = linalg.matmul {mesh.shardings = [#mesh.shard<@g, [[], [0]]>]} ins(%x, %w ...)

becomes, with %x split along the reduced dimension and %w along both

    %1 = linalg.matmul ins(%x, %w ...) -> tensor<4x16xf32, #mesh.shard<@g, [[], [], [0]]>>
    %2 = "mesh.reduce_scatter"(%1) {mesh_axis = [0], reduction = "sum", tensor_axis = 1 : i64}
           : (tensor<4x16xf32, #mesh.shard<@g, [[], [], [0]]>>)
           -> tensor<4x16xf32, #mesh.shard<@g, [[], [0]]>>

For each op in turn `choice.choose` splits the op's factors so that the fewest bytes move: to bring
its operands there from what they are, and its results from there to what propagation said. An op
without a rule gets whole operands and runs replicated, with a warning (`strict`: an error).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.diagnostics import error_at, located, warn
from shard_dialect.ir.function import (
    drop_from_boundary,
    set_form,
    update_type,
)
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.attributes import BLOCKS, SHARDING, SHARDINGS, STAGES, symbol
from shard_dialect.ir.mesh.manual_computation import TO_GLOBAL, TO_LOCAL, is_manual
from shard_dialect.ir.mesh.mesh_dialect import COLLECTIVES
from shard_dialect.ir.mesh.notation import write_axes
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered import Block, Op, read_functions
from shard_dialect.ir.region_flow import (
    ENDS,
    FLOWS,
    LOOPS,
    PARALLEL,
    Flow,
    flows_between,
    flows_through,
    in_order,
)
from shard_dialect.ir.walk import walk
from shard_dialect.model import Sharding
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.materialize.choose_op_sharding import Choice, choose
from shard_dialect.passes.materialize.manual_boundaries import ManualBoundaries
from shard_dialect.passes.materialize.resharded_values import FRESH, ReshardedValues, is_fresh
from shard_dialect.passes.materialize.target_shardings import (
    Signature,
    TargetShardings,
    read_target_shardings,
)
from shard_dialect.passes.propagate.module_graph import BARRIER, GROUP
from shard_dialect.passes.propagate.propagate import complete_again
from shard_dialect.rules.rule_cache import RuleMemo

_DROPPABLE = (
    *annotation_ops.OPS,
    BARRIER,
    GROUP,
    "shard.sharding",
    *COLLECTIVES,
    *FRESH,
    *build.CONSTANTS,
)


@dataclass(frozen=True)
class Materialize(Pass):
    """Make every communication explicit: shardings move into types, collectives appear."""

    name = "materialize"

    strict: bool = False
    """Make an op without a sharding rule an error."""

    def rewrite(self, module: ir.Operation) -> None:
        handles, shardings = complete_again(module)
        targets = read_target_shardings(module, read_functions(handles), shardings)
        signatures = {each.function.name: each.signature for each in targets}
        for each in targets:
            _Materializer(each, shardings, signatures, self.strict).run()


class _Materializer:
    """Goes through one function once, front to back, changing it in place."""

    def __init__(
        self,
        wanted: TargetShardings,
        shardings: Shardings,
        signatures: dict[str, Signature],
        strict: bool,
    ) -> None:
        self.function = wanted.function
        self.shardings = shardings
        self.signatures = signatures
        self.signature = wanted.signature
        self.strict = strict
        self.wanted = wanted.of
        self.loops = wanted.loops
        self.grid = wanted.grid
        self.rules = RuleMemo()
        self.resharded = ReshardedValues(wanted.function, shardings, wanted.grid)
        self.edges = ManualBoundaries(shardings, self.resharded, self.wanted, wanted.fine)
        self.ends: dict[tuple[int, int], Sharding] = {}
        """What the ops that end blocks pass on, by the op and the place."""

    def run(self) -> None:
        function = self.function
        for op in function.ops:
            if STAGES in op.handle.attributes:
                self._follow_refinement(op.handle)
        for flow in flows_between(function.blocks):
            self._prepare(flow)
        for block in in_order(function.blocks):
            with self.resharded.block():
                self._go_through(block)
        drop_from_boundary(function.handle, SHARDING)
        update_type(function.handle)
        set_form(function.handle, "distributed")
        self._clean_up()

    def _follow_refinement(self, passed: ir.Operation) -> None:
        """Let what is passed from stage to stage go along the axis on the grid of the function."""
        if symbol(passed.attributes["cluster"]) != self.grid.name:
            passed.attributes["cluster"] = ir.FlatSymbolRefAttr.get(self.grid.name)
            passed.attributes["mesh_axis"] = write_axes(self.grid.stage_axes)

    def _go_through(self, block: Block) -> None:
        for number in block.arguments:
            self._enter(number)
        for op in block.ops:
            with located(op.handle):
                self._act_on(op)(op)

    def _enter(self, number: int) -> None:
        """Begin with a value that no op is asked to compute: it lies as is wanted of it."""
        sharding = self.wanted.get(number)
        if sharding is not None:
            self._retype(number, sharding)
            self.resharded.add(number, self.function.values[number].handle, sharding)

    def _prepare(self, flow: Flow) -> None:
        """Let the targets of a flow lie alike, and note that its sources are to lie so too."""
        sharding = self.wanted.get(flow.targets[0])
        if sharding is not None:
            self.wanted |= dict.fromkeys(flow.targets, sharding)
            self.ends |= {(id(op), place): sharding for op, place in flow.sources}

    def _keep_targets_whole(self, flow: Flow) -> None:
        for value in flow.targets:
            if value in self.wanted:
                rank = self.wanted[value].rank
                self.wanted[value] = Sharding.replicated(self.grid.name, rank)

    def _act_on(self, op: Op) -> Callable[[Op], None]:
        """What is to be done with an op, by its kind."""
        by_name = {
            GROUP: lambda _: None,
            TO_LOCAL: self._go_in,
            TO_GLOBAL: self._come_out,
            "func.call": self._call,
            "func.return": self._return,
            "tensor.parallel_insert_slice": self._take_all_whole,
        }
        if op.name in by_name:
            return by_name[op.name]
        if op.name in (*annotation_ops.OPS, BARRIER):
            return self._annotate
        if op.name in FLOWS:
            return self._flow
        if build.is_constant(op.handle):
            return self._keep_whole
        if is_fresh(op, self.function):
            return self._defer
        if op.name in ENDS:
            return self._pass_on
        tensors = (*op.operands, *op.results)
        if not op.captures and not any(self.function.values[v].is_tensor for v in tensors):
            return lambda _: None
        return self._compute

    def _pass_on(self, op: Op) -> None:
        """Let the sources of flows lie as their targets do; what decides on a way is whole."""
        for place, value in enumerate(op.operands):
            if value in self.wanted:
                whole = Sharding.replicated(self.grid.name, self.wanted[value].rank)
                target = self.ends.get((id(op), place), whole)
                op.handle.operands[place] = self.resharded.get(value, target, op)

    def _flow(self, op: Op) -> None:
        if is_manual(op.handle):
            self.edges.open(op)
        for flow in flows_through(op):
            if op.name == "scf.forall":  # its iterations write to parts of these
                self._keep_targets_whole(flow)
            self._prepare(flow)
        self._pass_on(op)
        is_left = op.name in (*LOOPS, PARALLEL) or is_manual(op.handle)
        for block in in_order(op.blocks):
            with self.resharded.block(op if is_left else None):
                self._go_through(block)
        for value in op.results:
            self._enter(value)

    def _go_in(self, op: Op) -> None:
        lies = self.edges.go_in(op)
        if lies is not None:
            self._define(op, op.results[0], lies)

    def _come_out(self, op: Op) -> None:
        lies = self.edges.come_out(op)
        if lies is not None:
            self._define(op, op.results[0], lies)

    def _annotate(self, op: Op) -> None:
        target = self.wanted[op.results[0]]
        self.resharded.alias(op.results[0], op.operands[0], target, op)

    def _keep_whole(self, op: Op) -> None:
        for value in op.results:
            if value in self.wanted:
                whole = Sharding.replicated(self.grid.name, self.wanted[value].rank)
                self.resharded.add(value, self.function.values[value].handle, whole)

    def _defer(self, op: Op) -> None:
        self.resharded.add_fresh(op.results[0], op)

    def _call(self, op: Op) -> None:
        callee = op.handle.attributes["callee"].value
        signature = self.signatures.get(callee)
        if signature is None:
            self._replicate(op)
            return
        for place, (value, sharding) in enumerate(
            zip(op.operands, signature.arguments, strict=True)
        ):
            if sharding is not None:
                op.handle.operands[place] = self.resharded.get(value, sharding, op)
        for value, sharding in zip(op.results, signature.results, strict=True):
            if sharding is not None:
                self._define(op, value, sharding)

    def _compute(self, op: Op) -> None:
        rule = self.rules.rule_of(op, self.function.values)
        if rule is None:
            self._replicate(op)
            return
        self._take_whole(op)
        loops = self.loops(op, rule)
        choice = choose(op, rule, self.resharded, self.wanted, loops)
        for place, target in enumerate(choice.operands):
            if target is not None:
                op.handle.operands[place] = self.resharded.get(op.operands[place], target, op)
        self._add_inits_late(op, choice)
        late = {value for value, _, _ in choice.late_inits}
        for value, produced in zip(op.results, choice.results, strict=True):
            if produced is not None and value not in late:
                self._define(op, value, produced)

    def _take_all_whole(self, op: Op) -> None:
        for place, value in enumerate(op.operands):
            if value in self.wanted:
                op.handle.operands[place] = self.resharded.whole(value, op)

    def _replicate(self, op: Op) -> None:
        """Run an op that we know nothing about whole, on every device."""
        for inner in walk(op.handle):
            if inner.name == "func.call" and inner.attributes["callee"].value in self.signatures:
                raise error_at(
                    inner.location, "'func.call' op inside a region is not supported yet"
                )
        message = (
            f"'{op.name}' op has no sharding rule: it runs replicated, on gathered operands; "
            f'give it one with @sharding_rule("{op.name}")'
        )
        if self.strict:
            raise error_at(op.location, message)
        warn(message, op.location)
        self._take_all_whole(op)
        self._take_whole(op)
        for value in op.results:
            if value in self.wanted:
                whole = Sharding.replicated(self.grid.name, self.wanted[value].rank)
                self._define(op, value, whole)

    def _take_whole(self, op: Op) -> None:
        """Give the regions of an op whole tensors for those that they read from outside."""
        for inner, place, value in op.captures:
            if value in self.wanted:
                inner.operands[place] = self.resharded.whole(value, op)

    def _add_inits_late(self, op: Op, choice: Choice) -> None:
        """Start the partial results from the identity; combine with the init once they are whole.

        With the init itself as a start it would be counted once a device.
        """
        for value, place, produced in choice.late_inits:
            op.handle.operands[place] = self.resharded.identity(value, produced, op)
            target = self.wanted[value]
            self._retype(value, produced)
            self.resharded.combine(value, op, op.operands[place], produced, target)

    def _define(self, op: Op, value: int, produced: Sharding) -> None:
        self._retype(value, produced)
        self.resharded.define(value, produced, self.wanted[value], op)

    def _retype(self, value: int, sharding: Sharding) -> None:
        handle = self.function.values[value].handle
        handle.set_type(self.shardings.typed(handle.type, sharding))

    def _return(self, op: Op) -> None:
        for place, sharding in enumerate(self.signature.results):
            if sharding is not None:
                value = op.operands[place]
                op.handle.operands[place] = self.resharded.get(value, sharding, op)

    def _clean_up(self) -> None:
        """Drop annotations, and whatever the rewriting left without a use."""
        for key in (BLOCKS, SHARDINGS):
            if key in self.function.handle.attributes:
                del self.function.handle.attributes[key]
        for op in reversed(walk(self.function.handle)):
            for key in (BLOCKS, SHARDINGS):
                if key in op.attributes:
                    del op.attributes[key]
            if annotation_ops.has_loops(op):
                del op.attributes[annotation_ops.LOOPS]
            if op.name in _DROPPABLE and not any(True for each in op.results for _ in each.uses):
                op.erase()
