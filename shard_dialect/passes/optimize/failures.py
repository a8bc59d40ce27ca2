"""Where rewrites have failed, so that none is tried again where all that it looks at is the same.

The layers of a model are alike: a rewrite that does not help at a reshard of one layer does not
help at that of another. A rewrite decides by the values that it looks at (`FunctionGraph`): by the
type and the sharding of each, the op that makes it, the ops that use it, and their order.

    %2 = "mesh.all_gather"(%1)      looks at %1 and %2, then at %4
    %4 = stablehlo.tanh %2

So a failure is the list of these values as descriptions, in which ops and other values are numbers
in the order in which they are come across. The failures of a rewrite are a tree, since what it
looks at next depends on what it has seen. To go down the tree at another reshard takes a third of
the time of trying the rewrite there, or less.
"""

from __future__ import annotations

from collections.abc import Hashable

from shard_dialect.passes.optimize.graph import (
    Failures,
    FunctionGraph,
    GraphOp,
    GraphValue,
    Signature,
)

_FEW = 3
"""Rewrites that look at no more values than these take less time than to describe them."""


def has_failed(rewrite: Hashable, reshard: GraphOp, graph: FunctionGraph) -> bool:
    """Whether the rewrite has failed where all that it reads was as it is at `reshard`.

    The graph then has the values that it would look at as those that it has.
    """
    found = _found(rewrite, reshard, graph)
    if found is not None:
        graph.looked_at = dict.fromkeys(found)
    return found is not None


def _found(rewrite: Hashable, reshard: GraphOp, graph: FunctionGraph) -> list[GraphValue] | None:
    """The values that the rewrite would look at before it fails; `None` if it may succeed."""
    node = graph.failures.get(_key(rewrite, reshard))
    if node is None:
        return None
    near, looked_at = _Neighbourhood(graph, reshard), list[GraphValue]()
    while node is not None:
        if node.orders and near.order() in node.orders:
            return looked_at
        if node.looks_at is None:
            break
        value = near.values[node.looks_at]
        assert value is not None, "only values are looked at"
        looked_at.append(value)
        node = node.then.get(near.description(value))
    return None


def note_failure(rewrite: Hashable, reshard: GraphOp, graph: FunctionGraph) -> None:
    """Note that the rewrite has failed at `reshard`, by what the graph says was looked at."""
    if len(graph.looked_at) <= _FEW:
        return
    near = _Neighbourhood(graph, reshard)
    node = graph.failures.setdefault(_key(rewrite, reshard), Failures())
    for value in graph.looked_at:
        number = near.numbers.get(value)
        if node.looks_at is None:
            node.looks_at = number
        if number is None or node.looks_at != number:
            return  # ops in another order: what follows is not told by descriptions
        node = node.then.setdefault(near.description(value), Failures())
    node.orders.add(near.order())


def _key(rewrite: Hashable, reshard: GraphOp) -> Hashable:
    return rewrite, reshard.name, id(reshard.attributes)


class _Neighbourhood:
    """What is around a reshard, with a number for each value and op that is come across."""

    def __init__(self, graph: FunctionGraph, reshard: GraphOp) -> None:
        self.graph = graph
        self.values: list[GraphValue | None] = []
        self.numbers: dict[GraphValue | None, int] = {}
        self._ops: dict[GraphOp, int] = {}
        self._block = reshard.block
        self._op(reshard)

    def description(self, value: GraphValue) -> Hashable:
        """All that a rewrite may read of `value`, with numbers for what was come across before."""
        owner = None if value.owner is None else self._op(value.owner)
        users = tuple([(self._op(user), count) for user, count in value.uses.items()])
        return id(value.sharding), owner, users

    def order(self) -> tuple[int, ...]:
        """The numbers of the ops of the reshard's block as they follow each other."""
        places = [op.position if op.block is self._block else -1 for op in self._ops]
        return tuple(sorted(range(len(places)), key=places.__getitem__))

    def _op(self, op: GraphOp) -> Hashable:
        """The number of an op, or where it is come across for the first time what it is."""
        known = self._ops.get(op)
        if known is not None:
            return known
        self._ops[op] = len(self._ops)
        kind = op.signature = op.signature or _signature(op, self.graph)
        said: list[Hashable] = [kind, op.block is self._block]
        if kind.stays:  # a `return` may have all values of a function
            return tuple(said)
        if op.is_collective:
            said.append(bool(op.results[0].uses))
        for value in (*op.operands, *op.results):
            number = self.numbers.setdefault(value, len(self.values))
            if number == len(self.values):
                self.values.append(value)
            said.append(number)
        return tuple(said)


def _signature(op: GraphOp, graph: FunctionGraph) -> Signature:
    """What an op is, whatever its values are."""
    if op.is_collective:
        key: Hashable = (id(op.attributes), op.name, id(op.results[0].kind))
        return graph.signatures.setdefault(key, Signature(stays=False))
    is_known = op.block is not None and op.handle is not None
    kind = graph.kind_of(op) if is_known else None
    # What a tensor is filled with is in the IR, and not in the op's kind.
    filled = id(op.operands[0]) if op.name == "linalg.fill" else None
    key = (op.name, kind, bool(op.blocks), filled)
    return graph.signatures.setdefault(key, Signature(kind is None or kind.rule is None))
