"""The graph of a module and its gradients as two: a program that runs now, and one for later.

    y = tanh(x @ w)                 forward:   y = tanh(x @ w)                 y is saved
    w' = x.T @ (c * (1 - y * y))    backward:  of x, the saved y, and the cotangent c

What stands before the first cotangent is forward; all after it is backward, also what a checkpoint
computes again. Of forward values, the backward part is given those that torch would save, but
computes views, and short chains of pointwise ops on what it has, again.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch

from shard_dialect.model.reached import reached
from shard_dialect.torch.graph.decisions import Decision
from shard_dialect.torch.graph.index_checks import IndexCheck

aten = torch.ops.aten
Node = Any
COTANGENT, SAVED = "cotangent.", "saved."
"""Before the numbers of results whose cotangents are given, and of forward values that are kept."""
_RESHAPES = {aten.view.default, aten._unsafe_view.default}
_MOST_AGAIN = 4
"""The most pointwise ops that are computed again for a value that is not saved."""


def _cotangent(x: torch.Tensor, number: int) -> torch.Tensor:
    return x.clone()


cotangent = torch.library.custom_op("shard_dialect::cotangent", _cotangent, mutates_args=())
"""In a trace, what stands for the cotangent of a result, which the backward part is called with."""
cotangent.register_fake(lambda x, number: torch.empty_like(x))


@dataclass(frozen=True)
class Part:
    """A graph that is one program, and the names of what it is called with, and of what it returns.

    The last results are what `checks` are of.
    """

    graph: Any
    names: Sequence[str]
    result_names: Sequence[str]
    checks: Sequence[IndexCheck | Decision]
    before: tuple[int, ...] = ()
    """What another part has decided, whose results this one is called with."""

    @property
    def path(self) -> tuple[int, ...]:
        """What it decides by elements."""
        return tuple(each.value for each in self.checks if isinstance(each, Decision))

    def chosen(self, results: Sequence[Any], *kinds: str) -> list[Any]:
        """Of the results, those whose names begin with one of `kinds`."""
        pairs = zip(self.result_names, results, strict=False)
        return [each for name, each in pairs if name.startswith(kinds)]


def split(part: Part, *later: str) -> tuple[Part, Part | None]:
    """The forward and the backward part, the names of whose results begin with one of `later`.

    Without a cotangent, nothing has a derivative, and there is no backward part.
    """
    *nodes, end = part.graph.graph.nodes
    inputs = dict(
        zip((each for each in nodes if each.op == "placeholder"), part.names, strict=True)
    )
    first = next((at for at, node in enumerate(nodes) if _is_cotangent(node)), len(nodes))
    late = set(nodes[first:])
    results = list(zip(part.result_names, end.args[0], strict=True))
    start = len(results) - len(part.checks)
    checks = list(zip(results[start:], part.checks, strict=True))
    # A number that the forward part decides by is made at the end of the trace.
    behind = [each for each in checks if _is_behind(each[0][1], late)]
    ahead = [each for each in checks if each not in behind]
    gradients = [each for each in results[:start] if each[0].startswith(later)]
    plain = [each for each in results[:start] if each not in gradients]

    wanted = [node for _, node in (*gradients, *(each for each, _ in behind))]
    used = _reached(wanted, late)
    needed = used - late
    saved, again = _saved([each for each in nodes if each not in late], needed)
    unmerged = {node: _unmerged(node, late) for node in saved}
    # A value that is a result, too, is returned twice: the backward part overwrites what is saved,
    # and the result is the user's. With one for both, less is held, but more is at the peak.
    kept = {node: f"{SAVED}{number}" for number, node in enumerate(unmerged.values())}
    outputs = [node for _, node in (*plain, *(each for each, _ in ahead))]
    ended = _reached(outputs, set(nodes))  # complex results become pairs at the end, too
    forward = _part(
        part.graph,
        inputs,
        [each for each in nodes if each not in late or each in ended],
        [*plain, *((name, node) for node, name in kept.items())],
        ahead,
    )
    if not late:
        return forward, None
    given = {node: name for node, name in inputs.items() if node in needed or node in again}
    given |= kept
    given |= {node: f"{COTANGENT}{node.args[1]}" for node in nodes if _is_cotangent(node)}
    then = [each for each in nodes if each in used & late]
    backward = _part(part.graph, given, then, gradients, behind, unmerged)
    return forward, replace(backward, before=forward.path)


def _part(
    graph: Any,
    given: Mapping[Node, str],
    nodes: Iterable[Node],
    results: Sequence[tuple[str, Node]],
    checks: Sequence[tuple[tuple[str, Node], IndexCheck | Decision]],
    unmerged: Mapping[Node, Node] = MappingProxyType({}),
) -> Part:
    """The part that computes `nodes` from those that are `given`, or from views of them.

    What these need besides is computed right before it is used first, and is held no longer.
    """
    found, copies = torch.fx.Graph(), dict[Node, Node]()
    for node in given:
        copies[node] = found.placeholder(node.name)
        copies[node].meta = dict(node.meta)

    def copy(node: Node) -> None:
        merged = unmerged.get(node)
        for each in node.all_input_nodes if merged is None else ():
            if each not in copies:
                copy(each)
        if merged is None:
            copies[node] = found.node_copy(node, copies.__getitem__)
        else:
            shape = list(node.meta["val"].shape)
            copies[node] = found.call_function(aten.view.default, (copies[merged], shape))
            copies[node].meta = dict(node.meta)

    outputs = [*results, *(each for each, _ in checks)]
    for node in (*nodes, *(each for _, each in outputs)):
        if node not in copies:
            copy(node)
    found.output(tuple(copies[node] for _, node in outputs))
    found.eliminate_dead_code()
    return Part(
        torch.fx.GraphModule(graph, found),
        list(given.values()),
        [name for name, _ in outputs],
        [each for _, each in checks],
    )


def _is_cotangent(node: Node) -> bool:
    return node.op == "call_function" and node.target is torch.ops.shard_dialect.cotangent.default


def _is_behind(node: Node, late: set[Node]) -> bool:
    """Whether a result is computed from what only the backward part has."""
    return node in late and (
        _is_cotangent(node) or any(each in late for each in node.all_input_nodes)
    )


def _reached(wanted: Sequence[Node], through: set[Node]) -> set[Node]:
    """What is wanted, and what that is computed from by the nodes `through`, with their inputs."""

    def inputs(node: Node) -> list[Node]:
        return node.all_input_nodes if node in through and not _is_cotangent(node) else []

    return set(reached(wanted, inputs))


def _saved(nodes: Sequence[Node], needed: set[Node]) -> tuple[list[Node], set[Node]]:
    """The values to save, and the nodes from which all that are `needed` are computed again."""
    again: dict[Node, frozenset[Node]] = {}
    saved, bases = [], {_behind_views(each) for each in needed}
    for node in nodes:
        inputs = node.all_input_nodes
        if node.op == "placeholder":
            again[node] = frozenset((node,))
        elif _is_cheap(node) and all(each in again for each in inputs):
            whole = frozenset((node,)).union(*(again[each] for each in inputs))
            if sum(_is_pointwise(each) for each in whole) <= _MOST_AGAIN:
                again[node] = whole
        if node in bases and node not in again:
            saved.append(node)
            again[node] = frozenset()
    return saved, set[Node]().union(*(again[each] for each in needed))


def _behind_views(node: Node) -> Node:
    """What a tensor is a view of, if that has no more elements."""
    while _is_view(node):
        (source, *_) = node.all_input_nodes
        if source.meta["val"].numel() > node.meta["val"].numel():
            break
        node = source
    return node


def _unmerged(node: Node, late: set[Node]) -> Node:
    """A forward view in which no dimensions are merged, as batch and heads are for a product.

    A merged dimension may be split along both of its parts, which no placement can say.
    """
    views = [each for each in node.users if each.target in _RESHAPES and each not in late]
    return max((node, *views), key=lambda each: len(each.meta["val"].shape))


def _is_cheap(node: Node) -> bool:
    """Whether it is a constant, a view, or computes each element from those in its place."""
    if node.op == "get_attr" or node.target is operator.getitem or _is_pointwise(node):
        return True
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None:
        return False
    if torch.Tag.nondeterministic_seeded in node.target.tags:
        return False
    return not node.all_input_nodes or _is_view(node)


def _is_view(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or len(node.all_input_nodes) != 1:
        return False
    is_alias = any(each.alias_info for each in schema.returns)
    return is_alias or node.target in _RESHAPES


def _is_pointwise(node: Node) -> bool:
    if node.op != "call_function":
        return False
    tags = getattr(node.target, "tags", ())
    return torch.Tag.pointwise in tags or node.target is torch.ops.aten._to_copy.default
