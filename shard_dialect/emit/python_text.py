"""Python as text: lines that are folded as a formatter would, and names."""

from __future__ import annotations

import keyword
import re

from shard_dialect.errors import shown

WIDTH = 88
_LONGEST = 60
"""Characters of a name, before a number that tells it from others."""


def folded(line: str, comment: str = "", after: str = "") -> list[str]:
    r"""The line, and where it is too long what its last brackets hold on lines of their own.

    `after` stands behind it. The comment may come from the source: whatever is in it, it ends with
    the line.

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
    if len(_parts(returned)) > 1 and returned != line.strip():
        return [
            f"{indent}return (",
            *[f"{indent}    {each}," for each in _parts(returned)],
            f"{indent})",
        ]
    opening = _opening(line)
    if opening is None:
        return [line + end]
    head, inside, tail = line[: opening + 1], line[opening + 1 : -1], line[-1]
    inner = indent + "    "
    if len(inner) + len(inside) <= WIDTH:
        return [head, inner + inside, indent + tail + end]
    parts = _parts(inside)
    # Behind one part alone a comma would make a tuple, but where it is an argument.
    comma = "," if len(parts) > 1 or _is_call(head, inside) else ""
    rows = [row for part in parts for row in folded(inner + part, after=comma)]
    return [head, *rows, indent + tail + end]


def _is_call(head: str, inside: str) -> bool:
    """Whether the bracket at the end of `head` opens the arguments of a call."""
    return bool(re.search(r"\w\($", head)) and " for " not in inside


def _opening(line: str) -> int | None:
    """Where the bracket opens that the line ends with."""
    if not line or line[-1] not in ")]":
        return None
    line = _without_strings(line)
    depth = 0
    for place in range(len(line) - 1, -1, -1):
        depth += (line[place] in ")]}") - (line[place] in "([{")
        if not depth:
            return place if place < len(line) - 2 else None
    return None


def _without_strings(text: str) -> str:
    """The text with what is between quotes made letters."""
    return re.sub(r'"[^"]*"', lambda match: "x" * len(match[0]), text)


def _parts(inside: str) -> list[str]:
    """What commas outside of brackets separate."""
    parts, depth, begin = [], 0, 0
    for place, character in enumerate(_without_strings(inside)):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            parts.append(inside[begin:place].strip())
            begin = place + 1
    return [*parts, inside[begin:].strip()]


def in_docstring(text: str) -> str:
    r"""The text as it may stand between triple quotes, whatever is in it.

    >>> print(in_docstring('a "b" \\ \n'))
    a \"b\" \\ \n
    """
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return shown(quoted)  # what this escapes, Python reads again


class Names:
    """Names that are given once."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = set(taken)

    def new(self, wanted: str) -> str:
        """A name like the one that is wanted, with a number behind it if it is taken."""
        base = re.sub(r"\W", "_", wanted, flags=re.ASCII).strip("_").lower() or "value"
        base = base[:_LONGEST]
        base = f"_{base}" if base[0].isdecimal() else base
        base = f"{base}_" if keyword.iskeyword(base) else base
        name, number = base, 1
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        return name
