"""Format Python text: lines folded as by a formatter, and unique names."""

from __future__ import annotations

import keyword
import re

from shard_dialect.errors import shown

WIDTH = 88
_LONGEST = 60
"""The largest number of characters of a name, without the number that makes it unique."""


def folded(line: str, comment: str = "", after: str = "") -> list[str]:
    r"""Return the lines of a statement; if it is too long, its last brackets' content is folded.

    `after` follows the last line. The comment may come from the source: whatever it contains, it
    ends with the line.

    >>> print(*folded("y = join(" + "a_long_name, " * 6 + "z)"), sep="\n")
    y = join(
        a_long_name, a_long_name, a_long_name, a_long_name, a_long_name, a_long_name, z
    )
    """
    end = after + (f"  # {shown(comment)}" if comment else "")
    if len(line) + len(end) <= WIDTH:
        return [line + end]
    indent = " " * (len(line) - len(line.lstrip()))
    returned = line.strip().removeprefix("return ")
    if len(_items(returned)) > 1 and returned != line.strip():
        return [
            f"{indent}return (",
            *[f"{indent}    {each}," for each in _items(returned)],
            f"{indent})",
        ]
    opening = _opening(line)
    if opening is None:
        return [line + end]
    head, inside, tail = line[: opening + 1], line[opening + 1 : -1], line[-1]
    inner = indent + "    "
    if len(inner) + len(inside) <= WIDTH:
        return [head, inner + inside, indent + tail + end]
    items = _items(inside)
    # A comma after a single element would make a tuple, except in a call.
    comma = "," if len(items) > 1 or _is_call(head, inside) else ""
    rows = [row for item in items for row in folded(inner + item, after=comma)]
    return [head, *rows, indent + tail + end]


def _is_call(head: str, inside: str) -> bool:
    """Whether the bracket at the end of `head` opens the arguments of a call."""
    return bool(re.search(r"\w\($", head)) and " for " not in inside


def _opening(line: str) -> int | None:
    """The position of the bracket that the last character closes, or `None`."""
    if not line or line[-1] not in ")]":
        return None
    line = _without_strings(line)
    depth = 0
    for position in range(len(line) - 1, -1, -1):
        depth += (line[position] in ")]}") - (line[position] in "([{")
        if not depth:
            return position if position < len(line) - 2 else None
    return None


def _without_strings(text: str) -> str:
    """The text with the content of string literals replaced by letters."""
    return re.sub(r'"[^"]*"', lambda match: "x" * len(match[0]), text)


def _items(inside: str) -> list[str]:
    """Split the text at commas outside of brackets."""
    items, depth, begin = [], 0, 0
    for position, character in enumerate(_without_strings(inside)):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            items.append(inside[begin:position].strip())
            begin = position + 1
    return [*items, inside[begin:].strip()]


def in_docstring(text: str) -> str:
    r"""Escape the text, whatever it contains, for a docstring.

    >>> print(in_docstring('a "b" \\ \n'))
    a \"b\" \\ \n
    """
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return shown(quoted)  # its escapes are Python's


class Names:
    """Unique names."""

    def __init__(self, used: set[str]) -> None:
        self.used = set(used)

    def new(self, preferred: str) -> str:
        """A name like `preferred`, with a number appended if it is taken."""
        base = re.sub(r"\W", "_", preferred, flags=re.ASCII).strip("_").lower() or "value"
        base = base[:_LONGEST]
        base = f"_{base}" if base[0].isdecimal() else base
        base = f"{base}_" if keyword.iskeyword(base) else base
        name, number = base, 1
        while name in self.used:
            number += 1
            name = f"{base}_{number}"
        self.used.add(name)
        return name
