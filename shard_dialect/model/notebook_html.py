"""HTML with which values show themselves in notebooks: tables, and text that folds.

It sets no colours, so that it is legible on a light and a dark page alike, and escapes what it is
given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_OPEN_LINES = 40
"""The most lines that are shown without a click."""


def print_text(value: object, printer: Any, _is_cycle: bool) -> None:
    """As the `_repr_pretty_` of a class: IPython prints its text where it does not show HTML."""
    printer.text(str(value))


def table_html(title: str, head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table below its title; numbers have commas, and stand at the right.

    >>> table_html("sizes", ["axis", "devices"], [["<x>", 1024]]).count("&lt;x&gt;")
    1
    """
    lines = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    heads = "".join(f'<th style="text-align: left">{escape(str(each))}</th>' for each in head)
    return (
        f"<div>{escape(title)}<table><thead><tr>{heads}</tr></thead>"
        f"<tbody>{lines}</tbody></table></div>"
    )


def _cell(value: object) -> str:
    is_number = isinstance(value, int)
    side = "right" if is_number else "left"
    text = f"{value:,}" if is_number else "" if value is None else str(value)
    return f'<td style="text-align: {side}">{escape(text)}</td>'


def text_html(title: str, text: str, *, fold: bool = False) -> str:
    """A text as it is, below its title; a long one, or with `fold` any, opens by a click."""
    is_folded = fold or text.count("\n") > _OPEN_LINES
    return (
        f"<details{'' if is_folded else ' open'}><summary>{escape(title)}</summary>"
        f'<pre style="overflow-x: auto; white-space: pre">{escape(text)}</pre></details>'
    )
