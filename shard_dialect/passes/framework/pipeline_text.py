"""Parses the text of a pipeline: `propagate,materialize{strict=true},func.func(cse,canonicalize)`.

pipeline ::= [element {"," element}]
element  ::= name ["{" options "}"]  |  anchor "(" pipeline ")"
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from shard_dialect.errors import ShardError

_NAME = re.compile(r"[\w.-]+")
_DEEPEST = 100
"""How deep groups may stand in each other: MLIR's own parser recurses too."""


@dataclass(frozen=True, slots=True)
class Element:
    """A pass or a named pipeline, with the text of its options."""

    name: str
    options: str = ""

    def __str__(self) -> str:
        return f"{self.name}{{{self.options}}}" if self.options else self.name


@dataclass(frozen=True, slots=True)
class Group:
    """Passes that run on each op called `anchor` (or on `any`) directly in the surrounding op."""

    anchor: str
    inside: tuple[Node, ...]

    def __str__(self) -> str:
        return f"{self.anchor}({','.join(map(str, self.inside))})"


Node = Element | Group


def parse_pipeline(text: str) -> tuple[Node, ...]:
    """The elements of a pipeline's text. Raises `ShardError`.

    >>> [str(node) for node in parse_pipeline("a, b{x=1,y={2}}, func.func(c,any(d))")]
    ['a', 'b{x=1,y={2}}', 'func.func(c,any(d))']
    """
    if not text.strip():
        return ()
    reader = _Reader(text)
    nodes = reader.nodes(0)
    if reader.at < len(text):
        raise reader.unbalanced() if text[reader.at] == ")" else reader.unexpected("','")
    return nodes


def elements_of(nodes: tuple[Node, ...]) -> Iterator[Element]:
    """All passes, also those in groups."""
    for node in nodes:
        if isinstance(node, Group):
            yield from elements_of(node.inside)
        else:
            yield node


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def nodes(self, depth: int) -> tuple[Node, ...]:
        if depth > _DEEPEST:
            raise ShardError(f"the pipeline has groups more than {_DEEPEST} deep in each other")
        nodes = [self.node(depth)]
        while self.next_is(","):
            nodes.append(self.node(depth))
        return tuple(nodes)

    def node(self, depth: int) -> Node:
        self.skip_space()
        name = _NAME.match(self.text, self.at)
        if name is None:
            raise self.unexpected("the name of a pass")
        self.at = name.end()
        if self.next_is("{"):
            return Element(name[0], self.options())
        if self.next_is("("):
            inside = self.nodes(depth + 1)
            if not self.next_is(")"):
                raise (
                    self.unbalanced()
                    if self.at == len(self.text)
                    else self.unexpected("',' or ')'")
                )
            return Group(name[0], inside)
        return Element(name[0])

    def options(self) -> str:
        start, depth = self.at, 1
        for at in range(start, len(self.text)):
            depth += {"{": 1, "}": -1}.get(self.text[at], 0)
            if depth == 0:
                self.at = at + 1
                return self.text[start:at].strip()
        raise self.unbalanced()

    def next_is(self, letter: str) -> bool:
        self.skip_space()
        is_next = self.text.startswith(letter, self.at)
        self.at += is_next
        return is_next

    def skip_space(self) -> None:
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1

    def unbalanced(self) -> ShardError:
        return ShardError(f"the pipeline '{self.text}' has unbalanced brackets")

    def unexpected(self, expected: str) -> ShardError:
        rest = self.text[self.at :]
        actual = f"'{rest}'" if rest else "its end"
        return ShardError(f"the pipeline '{self.text}' should have {expected} at {actual}")
