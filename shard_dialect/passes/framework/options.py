"""Options of passes: the fields of their dataclasses, as text and as Python values.

    strict: bool = False
    \"\"\"Make an op without a sharding rule an error.\"\"\"

is `materialize{strict=true}` in a pipeline, `--materialize=strict=true` as a flag, and has the
string below it as its help. Kinds are `bool`, `int`, `float`, `str` and `Literal["a", "b"]`;
`| None` may follow where the default is `None`, which cannot be written.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from shard_dialect.errors import ShardError

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
    """What a `Literal` may be; empty for other kinds."""

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
    helps = _strings_below_fields(cls)
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


def _strings_below_fields(cls: type[Any]) -> dict[str, str]:
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
    """A value as text that is read back.

    >>> written(True), written(2), written("a b")
    ('true', '2', '"a b"')
    """
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return text if re.fullmatch(r"[^\s,{}'\"]+", text) else f'"{text}"'
