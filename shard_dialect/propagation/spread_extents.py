"""After propagation, spread offsets along factors, and halos to the results of functions.

    %s = [[0], {offsets = [[0, 3, 4]]}]     annotated
    %1 = exp %s                             [[0]] so far, and then with the offsets of %s
    %2 = reverse %1                         [[0]]: its factor needs equal shards

So elements stay where they are along chains of ops that can work on such shards. A tensor gets the
offsets of a dimension if it is split along the same axes there, and no annotation has split it.

A function returns the halos of a value that it returns, if that is annotated with them. No other
value gets halos: whether ops compute them is decided by what that costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shard_dialect.model import Axes, ShardingRule
from shard_dialect.model.sharding import Sizes
from shard_dialect.propagation.engine import Engine
from shard_dialect.propagation.graph import NO_TENSOR, Node


def spread_extents(engine: Engine) -> None:
    """Give values the offsets of others, and results of functions the halos of returned values."""
    annotated = [each.sharding for each in engine.graph.annotations if each is not None]
    if any(sharding.offsets for sharding in annotated):
        _spread_offsets(engine)
    if any(sharding.halos for sharding in annotated):
        for node in engine.graph.exits:
            _return_halos(engine, *node.values)


def _return_halos(engine: Engine, value: int, result: int) -> None:
    returned, current = engine.known(value), engine.known(result)
    if returned is None or current is None or engine.graph.annotations[result] is not None:
        return
    sharding, halos = current.sharding, returned.sharding
    if halos.halos and halos.bare == sharding:
        engine.learn(result, replace(current, sharding=halos))


def _spread_offsets(engine: Engine) -> None:
    """Forward and backward, until nothing changes."""
    graph = engine.graph
    nodes = [*graph.nodes, *graph.exits]
    group_of = {value: group for group in graph.groups for value in group}
    again = True
    while again:
        again = False
        for node in (*nodes, *reversed(nodes)):
            for value, dim, offsets in _missing(engine, node):
                members = group_of.get(value, (value,))
                if all(_may_have_offsets(engine, each, dim) for each in members):
                    for each in members:
                        _give(engine, each, dim, offsets)
                    again = True


def _missing(engine: Engine, node: Node) -> list[tuple[int, int, Sizes]]:
    """The values of a node, each with a dimension that may have offsets, and those."""
    prepared = engine.graph.rules[node.rule_number]
    known = [engine.known(value) if value != NO_TENSOR else None for value in node.values]
    if not any(each is not None and each.sharding.offsets for each in known):
        return []
    sides: dict[str | None, Sequence[int]] = {
        "none": (),
        "forward": range(prepared.results, len(node.values)),
        "backward": range(prepared.results),
    }
    may_change = sides.get(node.to, range(len(node.values)))
    at: dict[tuple[int, str, Axes], Sizes] = {}
    found = []
    factors = _factors_at_offsets(prepared.rule)
    for index, annotation in enumerate(known):
        if annotation is not None and annotation.sharding.offsets:
            sharding = annotation.sharding
            for dim, offsets in enumerate(sharding.offsets):
                dims = prepared.tensors[index][dim]
                if offsets and len(dims) == 1 and dims[0] in factors:
                    at.setdefault((dims[0], sharding.grid, sharding.split_axes[dim]), offsets)
    for index in may_change if at else ():
        annotation = known[index]
        if annotation is None:
            continue
        sharding = annotation.sharding
        for dim, dims in enumerate(prepared.tensors[index]):
            key = (dims[0], sharding.grid, sharding.split_axes[dim])
            if len(dims) == 1 and key in at:
                found.append((node.values[index], dim, at[key]))
    return found


def _factors_at_offsets(rule: ShardingRule) -> frozenset[int]:
    return rule.may_be_uneven - rule.windowed_factors


def _may_have_offsets(engine: Engine, value: int, dim: int) -> bool:
    """Whether no annotation has split the dimension of a value, and it has no offsets yet."""
    annotated, current = engine.graph.annotations[value], engine.known(value)
    if current is None or (annotated is not None and annotated.sharding.split_axes[dim]):
        return False
    sharding = current.sharding
    return not any(sharding.halo(dim)) and not (sharding.offsets and sharding.offsets[dim])


def _give(engine: Engine, value: int, dim: int, offsets: Sizes) -> None:
    current = engine.known(value)
    assert current is not None, "it is split"
    sharding = current.sharding.with_dim(dim, current.sharding.split_axes[dim], offsets)
    opened = tuple(each for each in current.open if each != dim)
    engine.learn(value, replace(current, sharding=sharding, open=opened))
