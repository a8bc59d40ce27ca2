"""Functions that have modules of a module in variables around, of which a copy needs others.

    self.mlp = nn.Sequential(...)
    mlp = self.mlp
    self.f = lambda x: mlp(x)       copied by `copy`, this calls the `mlp` of the first module

Functions without such modules are those of the copy, too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any

import torch

from shard_dialect.torch.module_code import held_by, inside_of


def copy_functions(module: Any, memo: dict[int, Any]) -> Callable[[], None]:
    """Put copies of the functions into the `memo` with which `copy` copies the module.

    What is returned is to be called after that: it gives them the copies of what they have.
    """
    copied = _with_modules_of(module)
    inside = {id(each) for each in (*module.modules(), *copied)}
    cells: dict[int, CellType] = {}  # functions share them
    for each in copied:
        around = [
            cells.setdefault(id(cell), CellType()) if id(_content(cell)) in inside else cell
            for cell in each.__closure__ or ()
        ]
        names = each.__code__, each.__globals__, each.__name__, each.__defaults__
        memo[id(each)] = made = FunctionType(*names, tuple(around))
        made.__kwdefaults__, made.__qualname__ = each.__kwdefaults__, each.__qualname__
        vars(made).update(vars(each))

    def now(value: Any) -> Any:
        return copy.deepcopy(value, memo) if id(value) in inside else value

    def fill() -> None:
        for each in copied:
            made = memo[id(each)]
            for old, new in zip(each.__closure__ or (), made.__closure__ or (), strict=True):
                if new is not old:
                    new.cell_contents = now(old.cell_contents)
            own = each.__kwdefaults__
            made.__defaults__ = each.__defaults__ and tuple(map(now, each.__defaults__))
            made.__kwdefaults__ = own and {key: now(value) for key, value in own.items()}

    return fill


def _with_modules_of(module: Any) -> list[Any]:
    """The functions in attributes and hooks that have such modules, or such functions."""
    inside = {id(each) for each in module.modules()}
    waiting = [value for each in module.modules() for _, value in held_by(each, is_inside=True)]
    functions, known = list[Any](), set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) not in known and not isinstance(value, torch.Tensor):
            known.add(id(value))
            waiting += inside_of(value)
            if type(value) is FunctionType:
                functions.append(value)
                waiting += _variables(value)
    found, new = list[Any](), functions
    while new:
        new = [
            each
            for each in functions
            if id(each) not in inside and not inside.isdisjoint(map(id, _variables(each)))
        ]
        inside |= set(map(id, new))
        found += new
    return found


def _variables(function: FunctionType) -> list[Any]:
    """What a function has in variables around, and as defaults."""
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    return [*map(_content, function.__closure__ or ()), *defaults]


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # is not set yet
        return None
