"""What shardings pass through: a program as values and nodes, by number.

    %2 = stablehlo.add %0, %1      a node with the rule of the op, from values 1 and 2 to value 3
    %3 = stablehlo.while(%x = %2)  a node without an op's rule: %3, which %x is too, is what %2 is,
                                   and what the body returns

Value 0 stands for whatever is no tensor, and is never known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from shard_dialect.model import Annotation, Axes, ShardingRule
from shard_dialect.model.rule import Role
from shard_dialect.model.sharding import Shape
from shard_dialect.propagation.step import Direction, PreparedRule

NOTHING = 0
"""The value that is no tensor."""


@dataclass(slots=True)
class Node:
    """`values` are its operands and results; `origin` is the caller's number of the op.

    `to` restricts a barrier to one direction, whatever the stage. An annotation says how its result
    lies (`said`): of its operand, too, or for the `users` of the result alone.
    """

    form: int
    values: tuple[int, ...]
    role: Role
    used_once: bool
    origin: int
    to: Direction | None = None
    annotates: Literal["value", "users"] | None = None


@dataclass
class Graph:
    """Nodes in the order of the program; `exits` give the results of functions their shardings."""

    forms: list[PreparedRule] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    exits: list[Node] = field(default_factory=list)
    said: list[Annotation | None] = field(default_factory=lambda: [None])
    """What is known of each value from the start."""
    groups: list[tuple[int, ...]] = field(default_factory=list)
    """Values that lie alike."""
    sizes: list[tuple[Shape, int]] = field(default_factory=lambda: [((), 0)])
    """The shape and the bytes of an element, each pair once."""
    kinds: list[int] = field(default_factory=lambda: [0])
    """For each value which of `sizes` it has."""
    _sizes: dict[tuple[Shape, int], int] = field(default_factory=dict)
    _identities: dict[tuple[Shape, int], int] = field(default_factory=dict)

    def value(self, shape: Shape, itemsize: int, said: Annotation | None = None) -> int:
        """A new tensor of this shape, with so many bytes an element; its number."""
        size = (shape, itemsize)
        if size not in self._sizes:
            self._sizes[size] = len(self.sizes)
            self.sizes.append(size)
        self.kinds.append(self._sizes[size])
        self.said.append(said)
        return len(self.said) - 1

    def form(
        self,
        rule: ShardingRule,
        pinned: tuple[tuple[int, Axes], ...] = (),
        pinned_on: str | None = None,
    ) -> int:
        """A rule made ready for any number of nodes; its number."""
        self.forms.append(PreparedRule.of(rule, pinned, pinned_on))
        return len(self.forms) - 1

    def identity(self, shape: Shape, sources: int = 1) -> int:
        """The form of a value that is each of its sources."""
        key = (shape, sources)
        if key not in self._identities:
            dims = tuple((dim,) for dim in range(len(shape)))
            self._identities[key] = self.form(
                ShardingRule(shape, (dims,) * sources, (dims,), role="pass")
            )
        return self._identities[key]

    def flow(self, shape: Shape, sources: Sequence[int], target: int, origin: int) -> None:
        """Let `target` be each of `sources`: around a loop, out of a branch, into a call."""
        form = self.identity(shape, len(sources))
        self.nodes.append(Node(form, (*sources, target), "pass", True, origin))

    def exit(self, shape: Shape, value: int, said: Annotation | None, origin: int) -> int:
        """What a function returns: how `value` lies for its callers is a value of its own."""
        result = self.value(*self.sizes[self.kinds[value]], said)
        node = Node(self.identity(shape), (value, result), "pass", True, origin)
        self.exits.append(node)
        return result
