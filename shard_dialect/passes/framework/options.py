"""Options of passes and the text of pipelines: fields of dataclasses, as text and as values.

    strict: bool = False
    \"\"\"Make an op without a sharding rule an error.\"\"\"

is `materialize{strict=true}` in a pipeline, `--materialize=strict=true` as a flag, and has the
string below it as its help. Kinds are `bool`, `int`, `float`, `str` and `Literal["a", "b"]`;
`| None` may follow where the default is `None`, which cannot be written.

`parse_pipeline` reads the text of a pipeline, such as
`propagate,materialize{strict=true},func.func(cse,canonicalize)`:

    pipeline ::= [element {"," element}]
    element  ::= name ["{" options "}"]  |  anchor "(" pipeline ")"

`ObjectiveOptions`, `PropagationOptions`, `SizeOptions` and `StageOptions` are options of pipelines
and their steps.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from shard_dialect.errors import ShardError, did_you_mean

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_SETTING = (  # compiled where it is used: most runs give no options
    r"""(?P<key>[^\s,={}'"]+)(?:=(?P<value>'[^']*'|"[^"]*"|\{[^{}]*\}|[^\s,{}'"]*))?[\s,]*"""
)


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a pass."""

    name: str
    """As written in a pipeline: `max-steps` for the field `max_steps`."""

    kind: type
    choices: tuple[str, ...]
    """The values of a `Literal`; empty for other kinds."""

    default: object
    help: str = ""

    @property
    def field(self) -> str:
        """The name of the dataclass field that holds the option."""
        return self.name.replace("-", "_")

    @property
    def type_text(self) -> str:
        """The type as help shows it: the choices, `up|down`, or the name of the Python type."""
        return "|".join(self.choices) or self.kind.__name__

    @property
    def default_text(self) -> str:
        """The default as it is written in a pipeline; `none` for `None`."""
        return "none" if self.default is None else written(self.default)

    def read(self, text: str, pass_name: str) -> object:
        """The value of `text`. Raises `ShardError` with the values that the option takes."""
        if self.choices:
            if text in self.choices:
                return text
            expected = f"one of {', '.join(self.choices)}"
        else:
            try:
                return _BOOLEANS[text] if self.kind is bool else self.kind(text)
            except (KeyError, ValueError):
                expected = {bool: "true or false", int: "a whole number"}.get(self.kind, "a number")
        raise ShardError(
            f"option '{self.name}' of pass '{pass_name}' must be {expected}, found '{text}'"
        )


@cache
def options_of(cls: type[Any]) -> tuple[Option, ...]:
    """The options of a pass class, without help. Raises `ShardError` for fields of other types.

    >>> @dataclass(frozen=True)
    ... class Example:
    ...     max_steps: int = 3
    ...     order: Literal["up", "down"] = "up"
    >>> [(each.name, each.type_text, each.default_text) for each in options_of(Example)]
    [('max-steps', 'int', '3'), ('order', 'up|down', 'up')]
    """
    hints = get_type_hints(cls)
    return tuple(_option(field, hints[field.name]) for field in dataclasses.fields(cls))


def documented_options(cls: type[Any]) -> tuple[Option, ...]:
    """The options of a pass's class with their help, for which its source is read."""
    helps = {name: text for each in cls.__mro__[::-1] for name, text in _help_of(each).items()}
    return tuple(
        dataclasses.replace(each, help=helps.get(each.field, ""))
        for each in options_of(cls)  # type: ignore[arg-type]  # a class is hashable
    )


def _option(field: dataclasses.Field[Any], hint: Any) -> Option:
    arms = [arm for arm in get_args(hint) if arm is not NoneType]
    if get_origin(hint) is not Literal and len(arms) == 1:
        (hint,) = arms
    choices = tuple(map(str, get_args(hint))) if get_origin(hint) is Literal else ()
    kind = str if choices else hint
    if kind not in (bool, int, float, str):
        shown = getattr(hint, "__name__", None) or str(hint)
        raise ShardError(
            f"option {field.name} cannot be a {shown}: bool, int, float, str or Literal[...]"
        )
    if field.default is dataclasses.MISSING:
        raise ShardError(f"option {field.name} has no default: give it one")
    return Option(field.name.replace("_", "-"), kind, choices, field.default)


def _help_of(cls: type[Any]) -> dict[str, str]:
    """The strings below the fields that a class itself declares."""
    if not dataclasses.is_dataclass(cls):
        return {}
    import ast
    import inspect
    import textwrap

    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError):  # no source, as in a frozen program
        return {}
    (body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef))
    texts = {}
    for node, below in pairwise(body):
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            texts[node.target.id] = inspect.cleandoc(str(below.value.value))
    return texts


def read_options(text: str, options: tuple[Option, ...], pass_name: str) -> dict[str, object]:
    """Field -> value of `strict=true,max-steps=2`; spaces separate as commas do.

    >>> steps, name = Option("max-steps", int, (), 3), Option("file-name", str, (), "")
    >>> read_options("max-steps=2 file-name='a, b'", (steps, name), "example")
    {'max_steps': 2, 'file_name': 'a, b'}
    """
    by_name = {each.name: each for each in options}
    values: dict[str, object] = {}
    rest = text.strip()
    while rest:
        match = re.match(_SETTING, rest)
        if match is None:
            raise ShardError(f"cannot read the options of pass '{pass_name}' at '{rest}'")
        rest = rest[match.end() :]
        option = by_name.get(match["key"])
        if option is None:
            known = ", ".join(by_name) or "none"
            known += did_you_mean(match["key"], by_name)
            last = list(values)[-1] if values else None
            if last and isinstance(values[last], str) and match["key"].isdecimal():
                listed = f"{last.replace('_', '-')}={{{values[last]},{match['key']}}}"
                known += f"; a list is one value in brackets, as in {listed}"
            raise ShardError(
                f"pass '{pass_name}' has no option '{match['key']}': its options are {known}"
            )
        if option.field in values:
            raise ShardError(f"option '{option.name}' of pass '{pass_name}' is given twice")
        if match["value"] is None and option.kind is not bool:
            raise ShardError(
                f"option '{option.name}' of pass '{pass_name}' needs a value: "
                f"{option.name}={option.type_text}"
            )
        values[option.field] = option.read(_unquoted(match["value"] or "true"), pass_name)
    return values


def _unquoted(text: str) -> str:
    return text[1:-1] if text[:1] in ("'", '"', "{") else text


def written(value: object) -> str:
    r"""A value as text that is read back.

    >>> written(True), written(2), written("a b"), written('a "b"')
    ('true', '2', '"a b"', '\'a "b"\'')
    """
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    if re.fullmatch(r"[^\s,{}'\"]+", text):
        return text
    if '"' not in text:
        return f'"{text}"'
    return f"'{text}'" if "'" not in text else f"{{{text}}}"


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


if TYPE_CHECKING:
    from shard_dialect.planner import Prices


@dataclass(frozen=True)
class ObjectiveOptions:
    """The options of passes that choose between communications."""

    objective: Literal["bytes", "time"] = "bytes"
    """The objective: the fewest bytes that a device sends, or the least time on a device model."""
    device_model: str = "h100"
    """The device model for `objective=time`: its name, or a file that ends in .toml."""

    def __post_init__(self) -> None:
        """Raise `ShardError` for a device model that would have no effect."""
        if self.objective != "time" and self.device_model != ObjectiveOptions.device_model:
            raise ShardError(
                f"option 'device-model' is for objective=time, not for objective={self.objective}"
            )

    def prices(self) -> Prices:
        """The prices of reshards and work. Raises `ShardError` for an unknown device model."""
        from shard_dialect.model.devices.device_model import DeviceModel
        from shard_dialect.planner import BYTES, Prices

        return Prices(DeviceModel.read(self.device_model)) if self.objective == "time" else BYTES


@dataclass(frozen=True)
class SizeOptions:
    """Sizes and values that a program leaves open."""

    entry: str = "main"
    """The function whose arguments have `shapes`."""
    shapes: str = ""
    """Shapes for the arguments, in order, as in `{4x8,,16}`: an empty entry leaves that argument's
    type as it is."""
    scalars: str = ""
    """Values for the integer arguments, in order, as in `{,2}`: an empty entry leaves that argument
    as it is."""
    grid: str = ""
    """The shape of the grid that has unknown sizes, as in 2x4."""


@dataclass(frozen=True)
class StageOptions:
    """How a pipeline of stages is made of a function."""

    stages: int = 2
    """The number of stages, which divides the size of the grid's axis 0."""
    chunks: int = 1
    """The number of chunks of layers that each stage has, interleaved with the other stages'."""
    microbatches: int = 4
    """The number of microbatches, which divides the batch."""
    arguments: str = "0"
    """The numbers of the arguments whose first dimension is the batch, as `0,3`."""
    schedule: Literal["gpipe", "1f1b", "zero-bubble"] = "1f1b"
    """All forward passes before all backward passes; forward and backward passes in turn; or in
    turn, with the gradients of weights where a stage would wait."""


@dataclass(frozen=True)
class PropagationOptions:
    """How far shardings propagate."""

    strategy: Literal["basic", "aggressive", "op-priority", "user-priority", "cost"] = "cost"
    """How far shardings propagate, and how conflicts are resolved: see docs/propagation.md."""

    traversal: Literal["forward", "backward", "forward-backward", "backward-forward"] | None = None
    """Instead of a strategy, visit each op once in each direction, like upstream's
    `sharding-propagation`."""

    stop_after_priority: int | None = None
    """Propagate only the annotations of the priorities up to this one."""

    conservative: bool = False
    """Pass on whole axes alone, and only where they divide the dimension."""

    def __post_init__(self) -> None:
        if self.traversal is not None and self.strategy != PropagationOptions.strategy:
            raise ShardError(
                f"pass 'propagate' has strategy={self.strategy} and traversal={self.traversal}: "
                "give one of the two"
            )
        if self.traversal is not None and self.conservative:
            raise ShardError(
                f"pass 'propagate' has traversal={self.traversal} and conservative: a traversal "
                "goes as upstream's pass does; give one of the two"
            )
        if self.stop_after_priority is not None:
            self._check_priority(self.stop_after_priority)

    def _check_priority(self, priority: int) -> None:
        from shard_dialect.propagation.engine import STRATEGIES  # rarely needed

        if priority < 0:
            raise ShardError(
                f"pass 'propagate' has stop-after-priority={priority}: priorities are from 0 on"
            )
        without = f"traversal={self.traversal}" if self.traversal else f"strategy={self.strategy}"
        if self.traversal or not STRATEGIES[self.strategy].priorities:
            raise ShardError(
                f"pass 'propagate' has stop-after-priority={priority} and {without}, which ignores "
                "priorities: use strategy=cost or strategy=user-priority"
            )

    @property
    def may_rewrite(self) -> bool:
        """Whether the program may be changed where its shardings could not propagate else."""
        return self.strategy == "cost" and self.traversal is None


OPTIONS = tuple(each.name for each in dataclasses.fields(PropagationOptions))
"""The names of the fields."""
