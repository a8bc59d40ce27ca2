"""Which element of an argument tells the programs apart, at an element that differs."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from shard_dialect.proof.comparison import Counterexample
from shard_dialect.proof.machine import Data
from shard_dialect.proof.trial import Trial

_MOST_ARGUMENTS = 16
_MOST_ELEMENTS = 1 << 16
"""Of all arguments: of more it would take long."""


def telling(trial: Trial, found: Counterexample) -> str:
    """An element on which one of the programs depends there, and the other does not; or nothing.

    Halves of an argument are drawn again, and then of the half that tells them apart.
    """
    types = trial.pair.unsharded.body.types
    if len(types) > _MOST_ARGUMENTS or sum(prod(each.shape) for each in types) > _MOST_ELEMENTS:
        return ""
    for number, type_ in enumerate(types):
        if not (type_.is_float or type_.is_bit) or 0 in type_.shape:
            continue
        for element, should in _elements(trial, found, number, np.arange(prod(type_.shape))):
            place = [int(each) for each in np.unravel_index(element, type_.shape)]
            name = trial.pair.unsharded.argument_names[number]
            which = f"%{name}" if name else f"argument {number}"
            if should:
                return f"it should depend on {which} at {place}, and does not"
            return f"it depends on {which} at {place}, and should not"
    return ""


def _elements(
    trial: Trial, found: Counterexample, number: int, among: Data
) -> Iterator[tuple[int, bool]]:
    """The element, and whether it is the unsharded program that depends on it."""
    should, does = _depends(trial, found, number, among)
    while len(among) > 1 and (should or does):
        low, high = np.array_split(among, 2)
        sides = [(each, *_depends(trial, found, number, each)) for each in (low, high)]
        telling_first = sorted(sides, key=lambda each: (each[1] == each[2], not each[1]))
        among, should, does = telling_first[0]
    if should != does:
        yield int(among[0]), should


def _depends(trial: Trial, found: Counterexample, number: int, elements: Data) -> tuple[bool, bool]:
    """Whether the wrong element is another one where these are, in either program."""
    before, after = trial.comparison, trial.again(redrawn=(number, elements)).comparison
    if before is None or after is None:
        return False, False
    (wanted, has), (other, its) = before.at(found), after.at(found)
    return wanted != other, has != its
