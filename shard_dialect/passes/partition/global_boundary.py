"""Let functions in the distributed form take unsharded arguments, or return unsharded results.

    func.func @main(%x: tensor<4xf32, #mesh.shard<@g, [[0]]>>) ... {

becomes, for unsharded arguments

    func.func @main(%global: tensor<4xf32>) ... {
      %x = "mesh.local_split"(%global) {sharding = [[0]]}

For unsharded results, the returned values are gathered (or reduced). A function that another one of
the module calls stays as it is, since its callers pass shards.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import functions_of, name_of, returns_of, update_type
from shard_dialect.ir.mesh.mesh_collectives import write_steps
from shard_dialect.ir.mesh.mesh_dialect import is_reshard
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import itemsize
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Sharding
from shard_dialect.planner import plan


def not_called(module: ir.Operation) -> list[ir.Operation]:
    """The functions with a body that no function of the module calls."""
    functions = functions_of(module)
    called = {
        op.attributes["callee"].value
        for function in functions
        for op in walk(function)
        if op.name == "func.call"
    }
    return [function for function in functions if name_of(function) not in called]


def unshard_arguments(function: ir.Operation, shardings: Shardings) -> None:
    """Make the arguments unsharded: each device slices its shards from them.

    Reshards of an argument to a larger shard become slices of the unsharded argument, too.
    """
    block = body(function)
    first = operations(block)[0]
    replaced = []
    for argument in block.arguments:
        sharding = shardings.of_type(argument.type)
        if sharding is None:
            continue
        uses = [(use.owner.operation, use.operand_number) for use in argument.uses]
        reshards = [_reshard_to(user, sharding, shardings) for user, _ in uses]
        argument.set_type(shardings.typed(argument.type, None))
        unsharded = Sharding.replicated(sharding.grid, sharding.rank)
        shards: dict[Sharding, ir.Value] = {}
        for (user, number), target in zip(uses, reshards, strict=True):
            target_sharding = target or sharding
            if target_sharding not in shards:
                with ir.InsertionPoint(first), argument.location:
                    shards[target_sharding] = _resharded(
                        argument, unsharded, target_sharding, shardings
                    )
            if target is None:
                user.operands[number] = shards[target_sharding]
                continue
            user.results[0].replace_all_uses_with(shards[target_sharding])
            replaced.append(user)
    for user in replaced:  # of which one may be the first op
        user.erase()
    update_type(function)


def _reshard_to(op: ir.Operation, source: Sharding, shardings: Shardings) -> Sharding | None:
    """The target of `op` if it reshards an argument, and a slice can replace it."""
    if not is_reshard(op) or source.partial:
        return None
    target = shardings.sharding_of(op.results[0].type, shardings.grid(source.grid))
    return None if target.partial or target.grid != source.grid else target


def unshard_results(function: ir.Operation, shardings: Shardings) -> None:
    """Make the results unsharded: each device returns the global tensors."""
    for end in returns_of(function):
        for number, value in enumerate(list(end.operands)):
            sharding = shardings.of_type(value.type)
            if sharding is None:
                continue
            unsharded = Sharding.replicated(sharding.grid, sharding.rank)
            with ir.InsertionPoint(end), end.location:
                end.operands[number] = _resharded(value, sharding, unsharded, shardings)
    update_type(function)


def _resharded(
    value: ir.Value, source: Sharding, target: Sharding, shardings: Shardings
) -> ir.Value:
    type_ = value.type
    grid = shardings.grid(source.grid)
    reshard_plan = plan(source, target, tuple(type_.shape), itemsize(type_.element_type), grid)
    return write_steps(reshard_plan.steps, value, source, shardings)
