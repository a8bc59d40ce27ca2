"""What code does with what it has by a name, as its bytecode says.

found.append(y)                  adds
self.found += [y]                adds
found["y"].append(y)             adds to an item
if "y" not in found: ...         asks for a key
len(found), for each in found    something else, for which each item may matter
"""

from __future__ import annotations

import dis
import functools
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import CodeType
from typing import NamedTuple


class Use(NamedTuple):
    """One way to use a value, or an item of an item of it."""

    way: str
    depth: int = 0
    """Of how many dicts it is an item."""


ADDS, ASKS_KEYS, OTHER = "adds", "asks keys", "other"
_ITEM, _ASKED, _NOT_TAKEN = "is an item", "is asked", "is not taken"
_METHODS = {"append": ADDS, "extend": ADDS, "setdefault": _ASKED}
_NOTHING = ("CACHE", "EXTENDED_ARG", "KW_NAMES", "NOP", "NOT_TAKEN")
_PUSHING = ("LOAD_CONST", "LOAD_DEREF", "LOAD_FAST", "LOAD_GLOBAL", "LOAD_NAME", "PUSH_NULL")
_GETTING = ("LOAD_ATTR", "LOAD_METHOD")
_CALLING = ("CALL", "PRECALL")
_MAKING = (*_CALLING, "BINARY_", "INPLACE_", "UNARY_", "COMPARE_OP", "CONTAINS_OP", "BUILD_")
"""These push one value: of what is known by no name, nothing is said."""


def only_adds(uses: Iterable[Use], depth: int) -> bool:
    """Whether no such use depends on what a list has that is so deep in dicts.

    >>> only_adds([Use(ADDS, 1), Use(ASKS_KEYS)], 1)
    True
    >>> only_adds([Use(ADDS)], 1), only_adds([Use(ADDS, 1), Use(OTHER)], 1)
    (False, False)
    """
    return all(
        each.depth == depth if each.way == ADDS else each.way == ASKS_KEYS and each.depth < depth
        for each in uses
    )


def reads_items(uses: Iterable[Use]) -> bool:
    """Whether some use depends on more of dicts than their keys.

    >>> reads_items([Use(ADDS, 1), Use(ASKS_KEYS)]), reads_items([Use(OTHER)])
    (False, True)
    """
    return any(each.way == OTHER for each in uses)


@functools.cache
def uses_in(code: CodeType) -> Mapping[str, frozenset[Use]]:
    """By the names of globals, attributes and variables of functions around, in all of a function.

    A value that is in a variable of its own has been used in another way before.
    """
    found: defaultdict[str, set[Use]] = defaultdict(set)
    steps = [each for each in dis.get_instructions(code) if each.opname not in _NOTHING]
    for number, each in enumerate(steps):
        is_named = each.opname.startswith(("LOAD_", "IMPORT_"))
        if is_named and isinstance(each.argval, str) and not _is_own(each):
            found[each.argval].add(_use(steps[number + 1 :]))
    for inside in code.co_consts:
        for name, uses in uses_in(inside).items() if isinstance(inside, CodeType) else ():
            found[name] |= uses
    return {name: frozenset(uses) for name, uses in found.items()}


def _is_own(step: dis.Instruction) -> bool:
    """Whether it is about a variable of the function, or a constant."""
    return step.opname.startswith(("LOAD_FAST", "LOAD_CLOSURE", "LOAD_CONST"))


def _use(steps: Iterable[dis.Instruction]) -> Use:
    """What these do with the value that is on top of the stack."""
    depth, height, is_asked = 0, 1, False
    for each in steps:
        way = _way(each, height) if _takes(each, height) else _NOT_TAKEN
        if is_asked and way != _NOT_TAKEN:
            way = _ITEM if each.opname.startswith(_CALLING) else OTHER
        if way == _ITEM:
            depth, height, is_asked = depth + 1, 1, False
        elif way in (_NOT_TAKEN, _ASKED):
            height += dis.stack_effect(each.opcode, each.arg)
            is_asked |= way == _ASKED
        else:
            return Use(way, depth)
    return Use(OTHER)


def _takes(step: dis.Instruction, height: int) -> bool:
    """Whether it takes the value that is so high on the stack, which is 1 at the top."""
    if step.opname in _GETTING:
        return height == 1
    if step.opname.startswith(_MAKING):
        return 1 - dis.stack_effect(step.opcode, step.arg) >= height
    return not step.opname.startswith(_PUSHING)


def _way(step: dis.Instruction, height: int) -> str:
    """What it does with a value that it takes."""
    is_flagged = sys.version_info >= (3, 12) and bool((step.arg or 0) & 1)
    if step.opname == "LOAD_METHOD" or (step.opname == "LOAD_ATTR" and is_flagged):
        return _METHODS.get(step.argval, OTHER)
    if (step.opname, height) in (("CONTAINS_OP", 1), ("STORE_SUBSCR", 2)):
        return ASKS_KEYS
    if height == 2 and (step.opname == "INPLACE_ADD" or step.argrepr == "+="):
        return ADDS
    is_item = step.opname == "BINARY_SUBSCR" or step.argrepr == "[]"
    return _ITEM if height == 2 and is_item else OTHER
