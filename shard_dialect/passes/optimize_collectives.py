"""Cheaper communication in the distributed form, by rewrites that never move more bytes.

*Plan again*: two collectives in a row are planned as one change of sharding.

    %1 = "mesh.all_reduce"(%0)      [[], [], [0]] -> [[], []]
    %2 = "mesh.local_split"(%1)     [[], []]      -> [[], [0]]
      becomes
    %2 = "mesh.reduce_scatter"(%0)  [[], [], [0]] -> [[], [0]]

*Gather later*: an elementwise op on a gathered tensor works on the pieces and gathers its result.

    %1 = "mesh.all_gather"(%0)      [[], [0]] -> [[], []]
    %2 = arith.maximumf %1, %z
      becomes
    %1 = "mesh.local_split"(%z)     free
    %2 = arith.maximumf %0, %1      half the work on two devices
    %3 = "mesh.all_gather"(%2)

*Reduce to pieces*: an all-reduce in front of an elementwise op is a reduce-scatter and an
all-gather, at the same bytes, and the gather can wait. (arXiv 2211.05102, section 3.2.2; RFC,
walkthrough of the 2-D weight stationary MLP.)

The types say what lies how, and each rewrite keeps to them: nothing is taken to be replicated
that its type does not state.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir import build
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.collectives import Collective, read_collective, write_steps
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.ir.mesh import COLLECTIVES, is_reshard
from shard_dialect.ir.program import itemsize
from shard_dialect.ir.shardings import Shardings
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import (
    AllGather,
    AllReduce,
    AllSlice,
    ReduceScatter,
    ReshardError,
    Sharding,
    bytes_moved,
    plan,
)
from shard_dialect.passes.base import Pass
from shard_dialect.passes.consistency import check_can_be_cut
from shard_dialect.rules import rule_of


@dataclass(frozen=True)
class OptimizeCollectives(Pass):
    """Replace collectives by cheaper ones, and compute on pieces before gathering them."""

    name = "optimize-collectives"

    def rewrite(self, module: ir.Operation) -> None:
        shardings = Shardings.of(module)
        for handle in functions_of(module):
            if form_of(handle) != "distributed":
                continue
            check_can_be_cut(handle, shardings)
            rewriter = _Rewriter(shardings)
            changed = [True]
            while any(changed):
                changed = [rewriter.rewrite(op) for op in operations(body(handle))]
                _drop_unused(handle)


class _Rewriter:
    def __init__(self, shardings: Shardings) -> None:
        self.shardings = shardings

    def rewrite(self, op: ir.Operation) -> bool:
        """Try each rewrite on `op`; whether one was done. What it replaces stays, without a use."""
        if not is_reshard(op) or not _uses(op.results[0]):
            return False
        found = read_collective(op)
        return self._plan_again(op, found) or self._compute_on_pieces(op, found)

    def _plan_again(self, op: ir.Operation, second: Collective) -> bool:
        """Plan a collective and the one before it as one, if that is cheaper or shorter."""
        owner = op.operands[0].owner
        if isinstance(owner, ir.Block) or not is_reshard(owner.operation):
            return False
        first = read_collective(owner.operation)
        value = owner.operation.operands[0]
        type_ = value.type
        shape, size = tuple(type_.shape), itemsize(type_.element_type)
        grid = self.shardings.grid(first.source.grid)
        try:
            direct = plan(first.source, second.target, shape, size, grid, False)
        except ReshardError:
            return False
        before = bytes_moved(second.steps, second.source, shape, size, grid)
        steps_before = len(second.steps)
        if _uses(owner.operation.results[0]) == 1:
            before += bytes_moved(first.steps, first.source, shape, size, grid)
            steps_before += len(first.steps)
        if (direct.bytes_moved, len(direct.steps)) >= (before, steps_before):
            return False
        with ir.InsertionPoint(op), op.location:
            value = write_steps(direct.steps, value, first.source, self.shardings)
        op.results[0].replace_all_uses_with(value)
        return True

    def _compute_on_pieces(self, op: ir.Operation, found: Collective) -> bool:
        """Let the elementwise op behind a gather or an all-reduce work on pieces."""
        user = _only_user(op.results[0])
        if user is None or len(found.steps) != 1 or len(user.results) != 1:
            return False
        rule = rule_of(user)
        if rule is None or not rule.is_elementwise:
            return False
        gathered, made = op.results[0].type.element_type, user.results[0].type.element_type
        if itemsize(made) > itemsize(gathered):
            return False  # a gather of the result would move more
        gather = self._gather_in(op, found)
        if gather is None:
            return False
        self._gather_later(op, found, gather, user)
        return True

    def _gather_in(self, op: ir.Operation, found: Collective) -> AllGather | None:
        """The gather that the collective is, or that an all-reduce could end in."""
        step = found.steps[0]
        if isinstance(step, AllGather):
            return step
        if not isinstance(step, AllReduce):
            return None
        grid = self.shardings.grid(found.source.grid)
        local = found.target.local_shape(tuple(op.results[0].type.shape), grid)
        group = grid.axes_size(step.axes)
        dims = [dim for dim, size in enumerate(local) if size % group == 0]
        # A dimension that is split already first: the other ones stay whole for their readers.
        dims.sort(key=lambda dim: not found.target.split_axes[dim])
        return AllGather(dims[0], step.axes) if dims else None

    def _gather_later(
        self, op: ir.Operation, found: Collective, gather: AllGather, user: ir.Operation
    ) -> None:
        step, lies, pieces = found.steps[0], found.source, op.operands[0]
        cut = AllSlice(gather.dim, gather.axes)
        with ir.InsertionPoint(user), user.location:
            if isinstance(step, AllReduce):
                scatter = ReduceScatter(gather.dim, step.axes, step.reduction)
                pieces = write_steps([scatter], pieces, lies, self.shardings)
                lies = scatter.after(lies)
            for place, operand in enumerate(user.operands):
                if operand == op.results[0]:
                    user.operands[place] = pieces
                elif isinstance(operand.type, ir.RankedTensorType) and operand.type.rank:
                    user.operands[place] = self._piece(operand, found.target, cut)
        result = user.results[0]
        result.set_type(self.shardings.typed(result.type, lies))
        with ir.InsertionPoint.after(user), user.location:
            gathered = write_steps([gather], result, lies, self.shardings)
        result.replace_all_uses_except(gathered, gathered.owner.operation)

    def _piece(self, value: ir.Value, lies: Sharding, cut: AllSlice) -> ir.Value:
        owner = value.owner
        if not isinstance(owner, ir.Block) and owner.operation.name == "tensor.empty":
            type_ = self.shardings.typed(value.type, cut.after(lies))
            return build.empty(type_).results[0]
        return write_steps([cut], value, lies, self.shardings)


def _uses(value: ir.Value) -> int:
    return sum(1 for _ in value.uses)


def _only_user(value: ir.Value) -> ir.Operation | None:
    """The op of this block that alone uses `value`, perhaps more than once."""
    users = {use.owner.operation for use in value.uses}
    if len(users) != 1:
        return None
    user = users.pop()
    return user if user.block == value.owner.operation.block else None


def _drop_unused(handle: ir.Operation) -> None:
    for op in reversed(operations(body(handle))):
        if op.name in (*COLLECTIVES, "arith.constant", "tensor.empty") and not _uses(op.results[0]):
            op.erase()
