"""From propagated to distributed: every change of sharding becomes a `mesh` collective.

    %1 = linalg.matmul {mesh.shardings = [#mesh.shard<@g, [[], [0]]>]} ins(%x, %w ...)

becomes, with %x split along the reduced dimension and %w along both

    %1 = linalg.matmul ins(%x, %w ...) -> tensor<4x16xf32, #mesh.shard<@g, [[], [], [0]]>>
    %2 = "mesh.reduce_scatter"(%1) {mesh_axis = [0], reduction = "sum", tensor_axis = 1 : i64}
           : (tensor<4x16xf32, #mesh.shard<@g, [[], [], [0]]>>)
           -> tensor<4x16xf32, #mesh.shard<@g, [[], [0]]>>

For each op in turn, `choose_op_sharding.choose` splits the factors of its sharding rule so that the
fewest bytes move. It counts the reshards of the operands to the shardings that the split requires,
and those of the results to the target shardings that propagation chose. With `objective=time`, the
least time is chosen, of collectives and products on a device model, and reshards are planned for
time (docs/planner.md). An op without a rule gets replicated operands and runs replicated, with a
warning (`strict`: an error).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import drop_unused, replace_op
from shard_dialect.ir.diagnostics import error_at, located, warn
from shard_dialect.ir.function import (
    drop_from_boundary,
    form_of,
    functions_of,
    set_form,
    update_type,
)
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.annotation_ops import TO_GLOBAL, TO_LOCAL, is_manual
from shard_dialect.ir.mesh.attributes import (
    BLOCKS,
    SHARDING,
    SHARDINGS,
    STAGES,
    drop_attributes,
    symbol,
)
from shard_dialect.ir.mesh.mesh_dialect import COLLECTIVES
from shard_dialect.ir.mesh.notation import read_axes, write_axes
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import (
    ENDS,
    FLOWS,
    LOOPS,
    PARALLEL,
    Block,
    Flow,
    Op,
    flows_between,
    flows_through,
    in_order,
    read_functions,
)
from shard_dialect.ir.verify import declares_no_grid
from shard_dialect.ir.walk import walk
from shard_dialect.model import Sharding
from shard_dialect.ops.op_table import OpKinds
from shard_dialect.passes.framework.base import Pass, known
from shard_dialect.passes.framework.options import ObjectiveOptions
from shard_dialect.passes.materialize.carried_sums import carry_partial_sums
from shard_dialect.passes.materialize.choose_op_sharding import Choice, Choices, choose_passed
from shard_dialect.passes.materialize.gathered_before_loops import gather_before_loops
from shard_dialect.passes.materialize.resharded_values import (
    FRESH,
    ManualBoundaries,
    ReshardedValues,
    is_fresh,
)
from shard_dialect.passes.materialize.target_shardings import (
    Signature,
    TargetShardings,
    read_target_shardings,
)
from shard_dialect.passes.materialize.uneven_targets import keep_uneven
from shard_dialect.passes.propagate.module_graph import BARRIER, GROUP
from shard_dialect.planner import Prices
from shard_dialect.processes.to_parent import counted

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
class InsertCollectives(ObjectiveOptions, Pass):
    """Insert a collective wherever a sharding changes, and move shardings into types."""

    name = "insert-collectives"

    strict: bool = False
    """Make an op without a sharding rule an error."""

    def rewrite(self, module: ir.Operation) -> None:
        """Rewrite each function in the propagated form; raises a located `ShardError`."""
        if known(module, declares_no_grid):
            for handle in functions_of(module):
                _drop_barriers(handle)
            return
        prices = self.prices()
        shardings = Shardings.of(module)
        handles = [op for op in functions_of(module) if form_of(op) == "propagated"]
        # All functions are read before any is rewritten: calls need the signatures of their
        # callees.
        targets = read_target_shardings(module, read_functions(handles), shardings)
        kinds = OpKinds()
        if any(op.name in LOOPS for each in targets for op in each.function.ops):
            targets = carry_partial_sums(targets, kinds, prices)
            targets = gather_before_loops(targets, kinds, prices)
        targets = [
            keep_uneven(each, kinds, prices) if each.uneven and not each.stages.transfers else each
            for each in targets
        ]
        signatures = {each.function.name: each.signature for each in targets}
        for each in counted(targets, "functions"):
            _Materializer(each, shardings, signatures, kinds, self.strict, prices).run()


def _drop_barriers(function: ir.Operation) -> None:
    """Erase the ops that only direct propagation."""
    for op in walk(function):
        if op.name in (BARRIER, GROUP):
            replace_op(op, *(op.operands if op.name == BARRIER else ()))


class _Materializer:
    """Rewrites one function in place, in one pass over its ops in order."""

    def __init__(
        self,
        targets: TargetShardings,
        shardings: Shardings,
        signatures: dict[str, Signature],
        kinds: OpKinds,
        strict: bool,
        prices: Prices,
    ) -> None:
        self.function = targets.function
        self.shardings = shardings
        self.signatures = signatures
        self.signature = targets.signature
        self.strict = strict
        self.target_of = targets.of
        self.loops, self.grid_of = targets.loops, targets.grid_of
        self.stages, self.refinement_of = targets.stages, targets.refinement_of
        self.grid = targets.grid
        self.kinds = kinds
        self.resharded = ReshardedValues(targets.function, shardings, targets.grid, prices)
        self.boundaries = ManualBoundaries(
            shardings, self.resharded, self.target_of, targets.refinement_of
        )
        self.choices = Choices(self.resharded, self.target_of, kinds)
        self.source_targets: dict[tuple[int, int], Sharding] = {}
        """The target sharding of each source of a flow, by the op's id and the operand number."""

    def run(self) -> None:
        function = self.function
        for op in self.stages.transfers:
            self._refine_transfer(op.handle)
        for flow in flows_between(function.blocks):
            self._prepare(flow)
        # Each value must be known before an op reads it; blocks may be listed in another order.
        for block in in_order(function.blocks):
            with self.resharded.block():
                self._rewrite_block(block)
        drop_from_boundary(function.handle, SHARDING)
        update_type(function.handle)
        set_form(function.handle, "distributed")
        self._clean_up()

    def _refine_transfer(self, transfer: ir.Operation) -> None:
        """Make a transfer between stages name the refined grid, and its axes."""
        refinement = self.refinement_of(self.shardings.grid(symbol(transfer.attributes["cluster"])))
        if refinement is None:
            return
        transfer.attributes["cluster"] = ir.FlatSymbolRefAttr.get(refinement.fine.name)
        if "mesh_axis" in transfer.attributes:
            axes = refinement.refined_axes(read_axes(transfer.attributes["mesh_axis"]))
            transfer.attributes["mesh_axis"] = write_axes(axes)

    def _rewrite_block(self, block: Block) -> None:
        for number in block.arguments:
            self._enter(number)
        for op in counted(block.ops, "ops"):
            with located(op.handle):
                self._action_for(op)(op)

    def _enter(self, number: int) -> None:
        """Give a block argument, or a result of an op with regions, its target sharding."""
        sharding = self.target_of.get(number)
        if sharding is not None:
            self._retype(number, sharding)
            self.resharded.add(number, self.function.values[number].handle, sharding)

    def _prepare(self, flow: Flow) -> None:
        """Give all targets of a flow one target sharding, and note it for the flow's sources."""
        sharding = self.target_of.get(flow.targets[0])
        if sharding is not None:
            self.target_of |= dict.fromkeys(flow.targets, sharding)
            self.source_targets |= {(id(op), number): sharding for op, number in flow.sources}

    def _replicate_targets(self, flow: Flow) -> None:
        for value in flow.targets:
            if value in self.target_of:
                rank = self.target_of[value].rank
                self.target_of[value] = Sharding.replicated(self.grid.name, rank)

    def _action_for(self, op: Op) -> Callable[[Op], None]:
        """The method that rewrites an op of this kind."""
        by_name = {
            GROUP: lambda _: None,
            TO_LOCAL: self._cross_boundary,
            TO_GLOBAL: self._cross_boundary,
            "func.call": self._call,
            "func.return": self._return,
            "tensor.parallel_insert_slice": self._replicate_operands,
        }
        if op.name in by_name:
            return by_name[op.name]
        if STAGES in op.handle.attributes:
            return self._transfer
        if op.name in (*annotation_ops.OPS, BARRIER):
            return self._annotate
        if op.name in FLOWS:
            return self._flow
        if build.is_constant(op.handle):
            return self._keep_constant
        if is_fresh(op, self.function):
            return self._defer
        if op.name in ENDS:
            return self._pass_on
        tensors = (*op.operands, *op.results)
        if not op.captures and not any(self.function.values[v].is_tensor for v in tensors):
            return lambda _: None
        return self._compute

    def _pass_on(self, op: Op) -> None:
        """Reshard the sources of flows to their target shardings.

        Other operands, which choose a control flow path, are replicated.
        """
        for number, value in enumerate(op.operands):
            if value in self.target_of:
                replicated = Sharding.replicated(self.grid.name, self.target_of[value].rank)
                target = self.source_targets.get((id(op), number), replicated)
                op.handle.operands[number] = self.resharded.get(value, target, op)

    def _flow(self, op: Op) -> None:
        if is_manual(op.handle):
            self.boundaries.open(op)
        outside = {value: self.target_of.get(value) for value in op.results}
        for flow in flows_through(op):
            # Outside of the loop nothing says which device writes which slice.
            if op.name == "scf.forall":  # its iterations write slices of these
                self._replicate_targets(flow)
            self._prepare(flow)
        self._pass_on(op)
        can_hoist = op.name in (*LOOPS, PARALLEL) or is_manual(op.handle)
        for block in in_order(op.blocks):
            with self.resharded.block(op if can_hoist else None):
                self._rewrite_block(block)
        for value, target in outside.items():
            carried = self.target_of.get(value)
            if carried is None or target is None or carried.partial == target.partial:
                self._enter(value)
            else:  # a loop carries partial sums
                self.target_of[value] = target
                self._define(op, value, carried)

    def _cross_boundary(self, op: Op) -> None:
        sharding = self.boundaries.cross(op)
        if sharding is not None:
            self._define(op, op.results[0], sharding)

    def _transfer(self, op: Op) -> None:
        """Pass a tensor on, between the shardings with which the fewest bytes move."""
        (value, *into), (result,) = op.operands, op.results
        if value not in self.target_of or result not in self.target_of:
            return
        grid = self.shardings.grid(symbol(op.handle.attributes["cluster"]))
        passed = choose_passed(self.stages.places(op, grid), self.resharded, op, self.target_of)
        if passed.source != passed.target and "mesh_axis" in op.handle.attributes:
            del op.handle.attributes["mesh_axis"], op.handle.attributes["permutation"]
        op.handle.operands[0] = self.resharded.get(value, passed.source, op)
        for number, other in enumerate(into, 1):
            op.handle.operands[number] = self.resharded.get(other, passed.target, op)
        self._define(op, result, passed.target)

    def _annotate(self, op: Op) -> None:
        target = self.target_of[op.results[0]]
        self.resharded.alias(op.results[0], op.operands[0], target, op)

    def _keep_constant(self, op: Op) -> None:
        for value in op.results:
            if value in self.target_of:
                replicated = Sharding.replicated(self.grid.name, self.target_of[value].rank)
                self.resharded.add(value, self.function.values[value].handle, replicated)

    def _defer(self, op: Op) -> None:
        self.resharded.add_fresh(op.results[0], op)

    def _call(self, op: Op) -> None:
        callee = op.handle.attributes["callee"].value
        signature = self.signatures.get(callee)
        if signature is None:
            self._replicate(op)
            return
        for number, (value, sharding) in enumerate(
            zip(op.operands, signature.arguments, strict=True)
        ):
            if sharding is not None:
                op.handle.operands[number] = self.resharded.get(value, sharding, op)
        for value, sharding in zip(op.results, signature.results, strict=True):
            if sharding is not None:
                self._define(op, value, sharding)

    def _compute(self, op: Op) -> None:
        kind = self.kinds.kind_in(self.function.values, op)
        if kind.rule is None:
            self._replicate(op)
            return
        self._replicate_captures(op)
        grid = self.grid_of(op)
        choice = self.choices.choose(op, kind, grid, self.loops(op, kind.rule))
        for number, target in enumerate(choice.operands):
            if target is not None:
                op.handle.operands[number] = self.resharded.get(op.operands[number], target, op)
        self._combine_late_inits(op, choice)
        late = {result for result, _, _ in choice.late_inits}
        for result, (value, produced) in enumerate(zip(op.results, choice.results, strict=True)):
            if produced is not None and result not in late:
                self._define(op, value, produced)

    def _replicate_operands(self, op: Op) -> None:
        for number, value in enumerate(op.operands):
            if value in self.target_of:
                op.handle.operands[number] = self.resharded.unsharded(value, op)

    def _replicate(self, op: Op) -> None:
        """Run an op without a sharding rule on replicated operands, on every device."""
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
        self._replicate_operands(op)
        self._replicate_captures(op)
        for value in op.results:
            if value in self.target_of:
                replicated = Sharding.replicated(self.grid.name, self.target_of[value].rank)
                self._define(op, value, replicated)

    def _replicate_captures(self, op: Op) -> None:
        """Replicate the tensors that the regions of an op read from outside."""
        for inner, number, value in op.captures:
            if value in self.target_of:
                inner.operands[number] = self.resharded.unsharded(value, op)

    def _combine_late_inits(self, op: Op, choice: Choice) -> None:
        """Start partial results from the identity, and combine them with the init once reduced.

        If each device started from the init, the reduction would count it once for each device.
        """
        for result, number, produced in choice.late_inits:
            value = op.results[result]
            op.handle.operands[number] = self.resharded.identity(value, produced, op)
            target = self.target_of[value]
            self._retype(value, produced)
            self.resharded.combine(value, op, op.operands[number], produced, target)

    def _define(self, op: Op, value: int, produced: Sharding) -> None:
        self._retype(value, produced)
        self.resharded.define(value, produced, self.target_of[value], op)

    def _retype(self, value: int, sharding: Sharding) -> None:
        handle = self.function.values[value].handle
        handle.set_type(self.shardings.typed(handle.type, sharding))

    def _return(self, op: Op) -> None:
        for number, sharding in enumerate(self.signature.results):
            if sharding is not None:
                value = op.operands[number]
                op.handle.operands[number] = self.resharded.get(value, sharding, op)

    def _clean_up(self) -> None:
        """Drop annotations, and ops whose results the rewriting left without a use."""
        drop_attributes(self.function.handle, BLOCKS, SHARDINGS)
        for op in reversed(walk(self.function.handle)):
            drop_attributes(op, BLOCKS, SHARDINGS)
            if annotation_ops.has_loops(op):
                del op.attributes[annotation_ops.LOOPS]
            if op.name in _DROPPABLE:
                drop_unused([op])
