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
from shard_dialect.ir.attributes import Shardings
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.collectives import read_steps, write_step
from shard_dialect.ir.mesh import COLLECTIVES
from shard_dialect.ir.program import form_of, functions_of, itemsize
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import (
    AllGather,
    AllReduce,
    AllSlice,
    Grid,
    ReduceScatter,
    ReshardError,
    Sharding,
    Step,
    plan,
)
from shard_dialect.passes.base import Pass
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
            rewriter = _Rewriter(shardings)
            changed = [True]
            while any(changed):
                changed = [rewriter.rewrite(op) for op in operations(body(handle))]
                _drop_unused(handle)


@dataclass(frozen=True)
class _Collective:
    """A collective op with its steps, and how its operand and its result lie."""

    op: ir.Operation
    steps: tuple[Step, ...]
    source: Sharding
    target: Sharding
    bytes_moved: int


class _Rewriter:
    def __init__(self, shardings: Shardings) -> None:
        self.shardings = shardings

    def rewrite(self, op: ir.Operation) -> bool:
        """Try each rewrite on `op`; whether one was done. What it replaces stays, without a use."""
        if op.name not in COLLECTIVES or not _uses(op.results[0]):
            return False
        found = self._read(op)
        return self._plan_again(found) or self._compute_on_pieces(found)

    def _read(self, op: ir.Operation) -> _Collective:
        source, target = self._sharding(op.operands[0]), self._sharding(op.results[0])
        name = source.grid or target.grid
        source, target = _on(source, name), _on(target, name)
        steps = read_steps(op, source)
        return _Collective(op, steps, source, target, self._bytes(op.results[0], source, steps))

    def _plan_again(self, second: _Collective) -> bool:
        """Plan a collective and the one before it as one, if that is cheaper or shorter."""
        op = second.op
        owner = op.operands[0].owner
        if isinstance(owner, ir.Block) or owner.operation.name not in COLLECTIVES:
            return False
        first = self._read(owner.operation)
        value = first.op.operands[0]
        shape, size, grid = self._measure(value, second)
        try:
            direct = plan(first.source, second.target, shape, size, grid)
        except ReshardError:
            return False
        only_user = _uses(first.op.results[0]) == 1
        before = second.bytes_moved + (first.bytes_moved if only_user else 0)
        steps_before = len(second.steps) + (len(first.steps) if only_user else 0)
        if (direct.bytes_moved, len(direct.steps)) >= (before, steps_before):
            return False
        with ir.InsertionPoint(op), op.location:
            value = self._write(value, first.source, direct.steps)
        op.results[0].replace_all_uses_with(value)
        return True

    def _compute_on_pieces(self, found: _Collective) -> bool:
        """Let the elementwise op behind a gather or an all-reduce work on pieces."""
        user = _only_user(found.op.results[0])
        if user is None or len(found.steps) != 1 or len(user.results) != 1:
            return False
        rule = rule_of(user)
        if rule is None or not rule.is_elementwise:
            return False
        return any(self._gather_later(found, gather, user) for gather in self._pieces(found))

    def _pieces(self, found: _Collective) -> list[AllGather]:
        """The gathers that the collective could end in."""
        step = found.steps[0]
        if isinstance(step, AllGather):
            return [step]
        if not isinstance(step, AllReduce):
            return []
        shape, _, grid = self._measure(found.op.results[0], found)
        local = found.target.local_shape(shape, grid)
        group = grid.axes_size(step.axes)
        dims = [dim for dim, size in enumerate(local) if size % group == 0]
        # A dimension that is split already first: the other ones stay whole for their readers.
        dims.sort(key=lambda dim: not found.target.split_axes[dim])
        return [AllGather(dim, step.axes) for dim in dims]

    def _gather_later(self, found: _Collective, gather: AllGather, user: ir.Operation) -> bool:
        result = user.results[0]
        if itemsize(result.type.element_type) > itemsize(found.op.results[0].type.element_type):
            return False  # the gather would move more there
        step = found.steps[0]
        pieces = found.op.operands[0]
        lies = found.source
        cut = AllSlice(gather.dim, gather.axes)
        with ir.InsertionPoint(user), user.location:
            if isinstance(step, AllReduce):
                scatter = ReduceScatter(gather.dim, step.axes, step.reduction)
                pieces = self._write(pieces, lies, (scatter,))
                lies = scatter.after(lies)
            for place, operand in enumerate(user.operands):
                if operand == found.op.results[0]:
                    user.operands[place] = pieces
                elif isinstance(operand.type, ir.RankedTensorType):
                    user.operands[place] = self._piece(operand, found.target, cut)
        whole = result.type
        result.set_type(self.shardings.typed(whole, lies))
        with ir.InsertionPoint.after(user), user.location:
            gathered = self._write(result, lies, (gather,))
        result.replace_all_uses_except(gathered, gathered.owner.operation)
        return True

    def _piece(self, value: ir.Value, lies: Sharding, cut: AllSlice) -> ir.Value:
        owner = value.owner
        if not isinstance(owner, ir.Block) and owner.operation.name == "tensor.empty":
            type_ = self.shardings.typed(value.type, cut.after(lies))
            return build.empty(type_).results[0]
        return self._write(value, lies, (cut,))

    def _write(self, value: ir.Value, source: Sharding, steps: tuple[Step, ...]) -> ir.Value:
        now = source
        for step in steps:
            type_ = self.shardings.typed(value.type, step.after(now))
            value = write_step(step, value, now, type_)
            now = step.after(now)
        return value

    def _sharding(self, value: ir.Value) -> Sharding:
        return self.shardings.of_type(value.type) or Sharding.replicated("", value.type.rank)

    def _measure(self, value: ir.Value, found: _Collective) -> tuple[tuple[int, ...], int, Grid]:
        size = itemsize(value.type.element_type)
        return tuple(value.type.shape), size, self.shardings.grid(found.source.grid)

    def _bytes(self, value: ir.Value, source: Sharding, steps: tuple[Step, ...]) -> int:
        grid = self.shardings.grid(source.grid)
        shape, size = tuple(value.type.shape), itemsize(value.type.element_type)
        moved, now = 0, source
        for step in steps:
            operand_bytes = now.local_elements(shape, grid) * size
            moved += step.bytes_moved(grid.axes_size(step.axes), operand_bytes)
            now = step.after(now)
        return moved


def _on(sharding: Sharding, grid: str) -> Sharding:
    return Sharding(grid, sharding.split_axes, sharding.partial, sharding.reduction)


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
