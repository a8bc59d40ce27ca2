"""Functions in the distributed form that are given whole tensors, or give such back.

    func.func @main(%x: tensor<4xf32, #mesh.shard<@g, [[0]]>>) ... {

becomes, for whole arguments

    func.func @main(%whole: tensor<4xf32>) ... {
      %x = "mesh.local_split"(%whole) {sharding = [[0]]}

and for whole results is gathered (or reduced) what is returned. A function that another one of the
module calls stays as it is: its callers have shards.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import functions_of, name_of, returns_of, update_type
from shard_dialect.ir.mesh.mesh_collectives import write_steps
from shard_dialect.ir.mesh.mesh_dialect import is_reshard
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered import itemsize
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Sharding
from shard_dialect.planner import plan


def not_called(module: ir.Operation) -> list[ir.Operation]:
    """The functions with a body that no other one calls."""
    functions = functions_of(module)
    called = {
        op.attributes["callee"].value
        for function in functions
        for op in walk(function)
        if op.name == "func.call"
    }
    return [function for function in functions if name_of(function) not in called]


def take_whole(function: ir.Operation, shardings: Shardings) -> None:
    """Let each device take its shards of whole arguments; what gathered them takes larger ones."""
    block = body(function)
    first = operations(block)[0]
    replaced = []
    for argument in block.arguments:
        lies = shardings.of_type(argument.type)
        if lies is None:
            continue
        uses = [(use.owner.operation, use.operand_number) for use in argument.uses]
        reshards = [_reshard_to(user, lies, shardings) for user, _ in uses]
        argument.set_type(shardings.typed(argument.type, None))
        whole = Sharding.replicated(lies.grid, lies.rank)
        taken: dict[Sharding, ir.Value] = {}
        for (user, place), target in zip(uses, reshards, strict=True):
            wanted = target or lies
            if wanted not in taken:
                with ir.InsertionPoint(first), argument.location:
                    taken[wanted] = _moved(argument, whole, wanted, shardings)
            if target is None:
                user.operands[place] = taken[wanted]
                continue
            user.results[0].replace_all_uses_with(taken[wanted])
            replaced.append(user)
    for user in replaced:  # of which one may be the first op
        user.erase()
    update_type(function)


def _reshard_to(op: ir.Operation, source: Sharding, shardings: Shardings) -> Sharding | None:
    """How `op` lets an argument lie, if a slice of the whole can stand for it."""
    if not is_reshard(op) or source.partial:
        return None
    target = shardings.lies(op.results[0].type, shardings.grid(source.grid))
    return None if target.partial or target.halos else target


def give_whole(function: ir.Operation, shardings: Shardings) -> None:
    """Let each device return whole results."""
    for end in returns_of(function):
        for place, value in enumerate(list(end.operands)):
            lies = shardings.of_type(value.type)
            if lies is None:
                continue
            whole = Sharding.replicated(lies.grid, lies.rank)
            with ir.InsertionPoint(end), end.location:
                end.operands[place] = _moved(value, lies, whole, shardings)
    update_type(function)


def _moved(value: ir.Value, source: Sharding, target: Sharding, shardings: Shardings) -> ir.Value:
    type_ = value.type
    grid = shardings.grid(source.grid)
    found = plan(source, target, tuple(type_.shape), itemsize(type_.element_type), grid)
    return write_steps(found.steps, value, source, shardings)
