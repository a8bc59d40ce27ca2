"""Whether the types of an op in the distributed form are allowed together by its rule.

Passes make only such types; people edit text. Cutting anything else would give wrong numbers.
"""

from __future__ import annotations

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.mesh.attributes import MANUAL, ints
from shard_dialect.ir.mesh.manual_computation import (
    EDGES,
    TO_GLOBAL,
    TO_LOCAL,
    boundary_of,
    manual_computations,
)
from shard_dialect.ir.mesh.mesh_dialect import COLLECTIVES, UPDATE_HALO
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered import Function, Op
from shard_dialect.ir.region_flow import ENDS, FLOWS, flows_between, flows_through
from shard_dialect.ir.walk import walk
from shard_dialect.model import Assignment, Grid, Sharding, ShardingError, ShardingRule, SubAxis
from shard_dialect.model.axis import Axes
from shard_dialect.passes.materialize.resharded_values import FRESH
from shard_dialect.rules import rule_of
from shard_dialect.rules.registry import carries
from shard_dialect.rules.uneven import may_be_uneven

_FREE = (*COLLECTIVES, *FLOWS, *ENDS, "func.call")
"""Ops whose operands may lie in any way: others say, and check, what they must be."""


def check_can_be_cut(function: ir.Operation, shardings: Shardings) -> None:
    """Raise for a sharding in a type whose shards no pass can make yet."""
    for op in (function, *walk(function)):
        arguments = [
            each for region in op.regions for block in region.blocks for each in block.arguments
        ]
        with located(op):
            for value in (*op.results, *arguments):
                sharding = shardings.of_type(value.type)
                if sharding is None:
                    continue
                if any(None in each for each in sharding.offsets):
                    raise ShardingError(
                        f"cannot cut a tensor as {sharding}: its offsets are not known yet"
                    )
                if sharding.halos and op.name != UPDATE_HALO:
                    raise ShardingError(
                        f"cannot cut a tensor as {sharding}: only '{UPDATE_HALO}' makes halos"
                    )
                if any(isinstance(axis, SubAxis) for axis in sharding.axes):
                    raise ShardingError(f"cannot cut a tensor as {sharding}: it has sub-axes")


def check_flows(function: Function, shardings: Shardings) -> None:
    """Raise unless what flows around loops and out of branches lies alike all the way.

    MLIR checks it for some of these ops only. What decides on a way must be whole: devices that go
    different ways would wait for each other.
    """
    flows = flows_between(function.blocks)
    flows += [flow for op in function.ops for flow in flows_through(op)]
    passed = {(id(op), place) for flow in flows for op, place in flow.sources}
    for flow in flows:
        expected = _lies(function, flow.targets[0], shardings)
        for value in flow.targets[1:]:
            if _lies(function, value, shardings) != expected:
                raise _disagree(function, flow.sources[0][0], value, flow.targets[0], shardings)
        for op, place in flow.sources:
            if _lies(function, op.operands[place], shardings) != expected:
                raise _disagree(function, op, op.operands[place], flow.targets[0], shardings)
    for op in function.ops:
        if op.name not in (*FLOWS, *ENDS) or op.name == "func.return":
            continue
        for place, value in enumerate(op.operands):
            found = _lies(function, value, shardings)
            if found is not None and (id(op), place) not in passed:
                raise error_at(
                    op.location,
                    f"'{op.name}' op operand {place} is {found}, but it must be whole: it decides "
                    "what is done",
                )


def _lies(function: Function, value: int, shardings: Shardings) -> Sharding | None:
    return shardings.of_type(function.values[value].handle.type)


def _disagree(
    function: Function, op: Op, value: int, target: int, shardings: Shardings
) -> ShardError:
    types = [function.values[each].handle.type for each in (value, target)]
    return error_at(
        op.location,
        f"'{op.name}' op passes on a {types[0]} to what is a {types[1]}: they must lie alike",
    )


def check_types(op: ir.Operation, shardings: Shardings) -> ShardingRule | None:
    """Raise `ShardingError` unless the op may be cut as its types say.

    By its rule, which comes back, or `None` where nothing that the rule speaks of is sharded.
    """
    if op.name in EDGES:
        _check_edge(op, shardings)
        return None
    if op.name in _FREE:
        _check_halos(op, shardings)
        return None
    _check_regions(op, shardings)
    operands = [shardings.of_type(operand.type) for operand in op.operands]
    results = [shardings.of_type(result.type) for result in op.results]
    if not any(operands) and not any(results):
        return None
    rule = rule_of(op)
    if rule is None:
        raise ShardingError(f"'{op.name}' op has no sharding rule: its tensors must be replicated")
    name = next(sharding.grid for sharding in operands + results if sharding is not None)
    _check(op, rule, operands, results, shardings.grid(name))
    return rule


def _check_edge(op: ir.Operation, shardings: Shardings) -> None:
    """The types outside and inside are of one tensor, and of its shards along the manual axes."""
    edge = boundary_of(op, shardings)
    types = [op.operands[0].type, op.results[0].type]
    outer, inner = types if op.name == TO_LOCAL else reversed(types)
    if not isinstance(outer, ir.RankedTensorType):
        return
    lies = shardings.lies(inner, edge.grid)
    expected = edge.outside(lies)
    found = shardings.lies(outer, edge.grid)
    if lies.partial or found != expected:
        raise ShardingError(
            f"'{op.name}' op is between {outer} and {inner}: by its manual axes the one outside "
            f"must be {expected}"
        )
    if edge.fitting(lies, tuple(inner.shape)) != lies:
        raise ShardingError(f"'{op.name}' op has shards that {lies} does not cut evenly")


def check_manual_axes(function: ir.Operation, shardings: Shardings) -> None:
    """Raise where a tensor in a manual computation lies along an axis that it is a shard along."""
    for computation in manual_computations(function):
        manual = ints(computation.attributes[MANUAL])
        for op in walk(computation):
            if op.name == TO_GLOBAL and op.parent == computation:
                continue
            for value in op.results:
                sharding = shardings.of_type(value.type)
                if sharding is not None and set(sharding.axes) & set(manual):
                    raise error_at(
                        op.location,
                        f"'{op.name}' op makes a tensor that lies as {sharding} in a manual "
                        f"computation along axes {manual}",
                    )


def _check_halos(op: ir.Operation, shardings: Shardings) -> None:
    for value in op.operands if op.name != UPDATE_HALO else ():
        sharding = shardings.of_type(value.type)
        if sharding is not None and sharding.halos:
            raise ShardingError(f"'{op.name}' op takes a tensor with halos, {sharding}")


def _check_regions(op: ir.Operation, shardings: Shardings) -> None:
    """Regions stay as they are: what they read and make must be whole."""
    for inner in walk(op):
        types = [value.type for value in (*inner.operands, *inner.results)]
        types += [
            argument.type
            for region in inner.regions
            for block in region.blocks
            for argument in block.arguments
        ]
        if any(shardings.of_type(type_) is not None for type_ in types):
            raise ShardingError(
                f"'{op.name}' op has a region with a '{inner.name}' op on a sharded tensor: "
                "inside regions tensors must be replicated"
            )


def _check(
    op: ir.Operation,
    rule: ShardingRule,
    operands: list[Sharding | None],
    results: list[Sharding | None],
    grid: Grid,
) -> None:
    assignment = assignment_of(op, rule, operands, results, grid)
    _check_uneven(op, rule, assignment, grid)
    carried, places = _carried(op, rule, operands)
    for index, found in enumerate(results):
        expected = partial_too(rule.result_sharding(index, assignment, grid), carried)
        if op.name in (*FRESH, *build.CONSTANTS) and found is not None:
            if found.partial and not reductions.may_be_partial(op, found.reduction):
                raise ShardingError(
                    f"'{op.name}' op gives a partial {found.reduction} whose shards would be "
                    "counted once a device"
                )
            continue
        if expected is not None:
            _expect(op, f"result {index}", found, expected)
    for index, found in enumerate(operands):
        expected = rule.operand_sharding(index, assignment, grid)
        if index in rule.inits:
            result = rule.inits.index(index)
            expected = partial_too(rule.result_sharding(result, assignment, grid), carried)
        elif index in places:
            expected = partial_too(expected, carried)
        if op.name == "linalg.fill":
            continue
        if expected is not None:
            _expect(op, f"operand {index}", found, expected)


def _check_uneven(op: ir.Operation, rule: ShardingRule, assignment: Assignment, grid: Grid) -> None:
    sizes = zip(rule.sizes, assignment, strict=True)
    uneven = {factor for factor, (size, axes) in enumerate(sizes) if size % grid.axes_size(axes)}
    if uneven and uneven - may_be_uneven(op, rule):
        size, axes = min((rule.sizes[factor], assignment[factor]) for factor in uneven)
        raise ShardingError(
            f"'{op.name}' op splits a loop of {size} among {grid.axes_size(axes)} devices, which "
            f"do not divide it: by its rule {rule} their shards must be equal"
        )


def partial_too(made: Sharding | None, carried: Sharding | None) -> Sharding | None:
    """`made`, and partial as `carried` is. Raises `ShardingError` for two kinds of reduction."""
    if made is None or carried is None:
        return made
    if made.partial and made.reduction != carried.reduction:
        raise ShardingError(f"{made} would be partial as {carried} is, too")
    return made.with_partial(made.partial + carried.partial, carried.reduction)


def _carried(
    op: ir.Operation, rule: ShardingRule, operands: list[Sharding | None]
) -> tuple[Sharding | None, frozenset[int]]:
    """What the op takes in parts, and gives in parts, and the operands that are to be so."""
    partial = {
        place: each
        for place, each in enumerate(operands)
        if each is not None and each.partial and place not in rule.inits
    }
    if not partial or op.name in (*FRESH, *build.CONSTANTS):
        return None, frozenset()
    first = next(iter(partial.values()))
    places = carries(op, rule, frozenset(partial), first.reduction, narrow=True)
    if places is None:
        place = min(partial)
        raise ShardingError(
            f"'{op.name}' op operand {place} is partial {partial[place]}, but of parts it does not "
            "make the parts of its result"
        )
    kinds = {kind for factor, kind in rule.reductions}
    if kinds - {first.reduction}:
        raise ShardingError(f"'{op.name}' op reduces in another way than its operand {first}")
    return first, places


def assignment_of(
    op: ir.Operation,
    rule: ShardingRule,
    operands: list[Sharding | None],
    results: list[Sharding | None],
    grid: Grid,
) -> tuple[Axes, ...]:
    """The axes of each factor, by the first tensor that has it; reductions from the operands."""
    axes: dict[int, Axes] = {}
    for dims, sharding in (
        *zip(rule.cut_operands, operands, strict=True),
        *zip(rule.results, results, strict=True),
    ):
        if dims is None or sharding is None:
            continue
        try:
            found = rule.factors_of(dims, sharding, grid)
        except ShardingError:
            raise ShardingError(
                f"'{op.name}' op splits a dimension that its rule {rule} keeps whole"
            ) from None
        for factor, split in found.items():
            if split:
                axes.setdefault(factor, split)
    unsplit = sorted(factor for factor in axes if factor in rule.unsplit)
    if unsplit:
        raise ShardingError(f"'{op.name}' op splits a loop that its rule {rule} keeps whole")
    return tuple(axes.get(factor, ()) for factor in range(len(rule.sizes)))


def _expect(op: ir.Operation, what: str, found: Sharding | None, expected: Sharding) -> None:
    actual = found or Sharding.replicated(expected.grid, expected.rank)
    if actual != expected:
        raise ShardingError(
            f"'{op.name}' op {what} is {actual}, but by the other types and its rule it must be "
            f"{expected}"
        )
