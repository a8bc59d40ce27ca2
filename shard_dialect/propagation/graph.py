"""The graph that shardings propagate through: a program as numbered values and nodes.

    %2 = stablehlo.add %0, %1      a node with the rule of the op, from values 1 and 2 to value 3
    %3 = stablehlo.while(%x = %2)  a flow: %3 and %x are one value, and a node with the identity
                                   rule gives it the sharding of %2 and of what the body returns

Value 0 stands for anything that is not a tensor, and never has a sharding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from shard_dialect.model import Annotation, Axes, ShardingRule
from shard_dialect.model.rule import Role
from shard_dialect.model.sharding import Shape
from shard_dialect.propagation.op_update import Direction, PreparedRule

NO_TENSOR = 0
"""The value that is no tensor."""


@dataclass(slots=True)
class Node:
    """An op or a flow. `values` are its operands and results; `origin` is the caller's op number.

    `rule_number` is the number of its prepared rule. `used_once` tells whether no other node uses
    its operands. `to` restricts a barrier to one direction in every stage. `annotates` is set for
    an op that annotates its result: the annotation holds for the operand too ("value"), or only for
    the users of the result ("users").
    """

    rule_number: int
    values: tuple[int, ...]
    role: Role
    used_once: bool
    origin: int
    to: Direction | None = None
    annotates: Literal["value", "users"] | None = None


@dataclass
class Graph:
    """Values and nodes, in program order; `exits` are the nodes of the results of functions."""

    rules: list[PreparedRule] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    exits: list[Node] = field(default_factory=list)
    annotations: list[Annotation | None] = field(default_factory=lambda: [None])
    """The annotation of each value before propagation."""
    groups: list[tuple[int, ...]] = field(default_factory=list)
    """Values that have the same sharding."""
    sizes: list[tuple[Shape, int]] = field(default_factory=lambda: [((), 0)])
    """The global shape and the bytes of an element, each pair once."""
    kinds: list[int] = field(default_factory=lambda: [0])
    """For each value, its index in `sizes`."""
    _sizes: dict[tuple[Shape, int], int] = field(default_factory=dict)
    _identities: dict[tuple[Shape, int], int] = field(default_factory=dict)

    def add_value(self, shape: Shape, itemsize: int, annotation: Annotation | None = None) -> int:
        """Add a tensor of this shape, with `itemsize` bytes per element; returns its number."""
        size = (shape, itemsize)
        if size not in self._sizes:
            self._sizes[size] = len(self.sizes)
            self.sizes.append(size)
        self.kinds.append(self._sizes[size])
        self.annotations.append(annotation)
        return len(self.annotations) - 1

    def add_rule(
        self,
        rule: ShardingRule,
        pinned: tuple[tuple[int, Axes], ...] = (),
        pinned_on: str | None = None,
    ) -> int:
        """Prepare a rule for any number of nodes; returns its number in `rules`."""
        self.rules.append(PreparedRule.of(rule, pinned, pinned_on))
        return len(self.rules) - 1

    def identity_rule(self, shape: Shape, sources: int = 1) -> int:
        """The number of the rule of a value that has the same sharding as each of its sources."""
        key = (shape, sources)
        if key not in self._identities:
            dims = tuple((dim,) for dim in range(len(shape)))
            self._identities[key] = self.add_rule(
                ShardingRule(shape, (dims,) * sources, (dims,), role="pass")
            )
        return self._identities[key]

    def add_flow(self, shape: Shape, sources: Sequence[int], target: int, origin: int) -> None:
        """Add a flow from each of `sources` to `target`: a loop, a branch or a call."""
        rule_number = self.identity_rule(shape, len(sources))
        self.nodes.append(Node(rule_number, (*sources, target), "pass", True, origin))

    def add_exit(self, shape: Shape, value: int, annotation: Annotation | None, origin: int) -> int:
        """Add a result of a function; returns the number of the value that its callers see."""
        result = self.add_value(*self.sizes[self.kinds[value]], annotation)
        node = Node(self.identity_rule(shape), (value, result), "pass", True, origin)
        self.exits.append(node)
        return result
