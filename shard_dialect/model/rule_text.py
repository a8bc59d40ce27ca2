"""The text of sharding rules, in Shardy's notation.

    ([i, k], [k, j])->([i, j]) {i=8, j=16, k=4} reduction={k}
    ([ij])->([i, j]) {i=2, j=4}                   a dimension of two factors, major to minor
    ([i, *])->([i, *]) {i=8} need_replication={}  `*`: a dimension without factors

Factors are letters, or a letter with a number: `i`, `z_1`. Where the shapes are known, the sizes
may be omitted; all but one factor of a dimension must then get their size from other dimensions. A
reduction other than the sum follows its factor:

    ([i, k]) -> ([i]) reduction={k: max}

Source: Shardy, OpShardingRuleAttr, whose sizes come in the order of the factors from `i` on.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast, get_args

from shard_dialect.errors import ShardError, value_text
from shard_dialect.model.factor_projection import Dims
from shard_dialect.model.rule import Role, ShardingRule, Window
from shard_dialect.model.sharding import REDUCTIONS, Reduction, Shape

KINDS = ("reduction", "need_replication", "permutation", "blocked_propagation")
"""The sets of factors that a rule may have."""
_RULE = re.compile(
    r"\((?P<operands>[^()]*)\)\s*->\s*\((?P<results>[^()]*)\)\s*(?:\{(?P<sizes>[^{}]*)\})?"
    r"(?P<sets>(?:\s*[a-z_]+\s*=\s*\{[^{}]*\})*)\s*(?P<custom>,\s*custom)?"
)
_SET = re.compile(r"([a-z_]+)\s*=\s*\{([^{}]*)\}")
_NAME = r"[a-z](?:_\d{1,4})?"
_DIM = re.compile(rf"\*|1|(?:{_NAME})+")


@dataclass(frozen=True, slots=True)
class WrittenRule:
    """A rule, and whether the user wrote it."""

    rule: ShardingRule
    is_custom: bool = False


def read_rule(text: str, shapes: Sequence[Shape | None] | None = None) -> WrittenRule:
    """The rule in `text`, for tensors of these `shapes`, operands first.

    Raises `ShardError` where the text is malformed, or contradicts itself or the shapes.
    """
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise ShardError(
            f"expected a rule as ([i, k], [k, j])->([i, j]) {{i=4, j=8, k=2}} reduction={{k}}, "
            f"found {text[:_MOST_TEXT]}"
        )
    sides = [_tensors(match[side]) for side in ("operands", "results")]
    if match["sizes"] is not None:
        sizes = _sizes(match["sizes"])
    elif shapes is not None:
        sizes = _sizes_in([*sides[0], *sides[1]], shapes, text)
    else:
        raise ShardError(f"rule {text} has no sizes: write them behind it, as {{i=4, j=8}}")
    numbers = {name: number for number, name in enumerate(sizes)}
    sets = dict(_SET.findall(match["sets"]))
    for name in sets:
        if name not in KINDS:
            raise ShardError(f"unknown set of factors '{name}': expected {', '.join(KINDS)}")
    reductions, *others = (_members(sets.get(name, ""), name, numbers) for name in KINDS)
    special = [*reductions, *others[0], *others[1]]
    for name, number in numbers.items():
        if special.count(number) > 1:
            raise ShardError(f"factor {name} of rule {text} is of two kinds")
    operands, results = (tuple(_dims(names, numbers, sizes) for names in side) for side in sides)
    _check_use(text, tuple(numbers), operands, results, reductions)
    need_replication, permuted, blocked = (frozenset(each) for each in others)
    rule = ShardingRule(
        tuple(sizes.values()),
        operands,
        results,
        tuple(reductions.items()),
        need_replication,
        permuted,
        blocked,
    )
    return WrittenRule(rule, match["custom"] is not None)


def write_rule(written: WrittenRule) -> str:
    """The text that `read_rule` reads back."""
    rule = written.rule
    sizes = ", ".join(f"{letter(factor)}={size}" for factor, size in enumerate(rule.sizes))
    sides = (_side(rule.operands), _side(rule.results))
    text = f"({sides[0]})->({sides[1]}) {{{sizes}}}"
    reductions = (
        letter(factor) + ("" if kind == "sum" else f": {kind}") for factor, kind in rule.reductions
    )
    others = (
        (letter(factor) for factor in sorted(factors))
        for factors in (rule.need_replication, rule.permuted, rule.blocked)
    )
    for name, members in zip(KINDS, (reductions, *others), strict=True):
        listed = ", ".join(members)
        text += f" {name}={{{listed}}}" if listed else ""
    return text + (", custom" if written.is_custom else "")


def check_rule(
    rule: ShardingRule, operands: Sequence[Shape | None], results: Sequence[Shape | None]
) -> None:
    """Raise `ShardError` unless the rule fits an op with tensors of these shapes.

    A factor of a window or a slice has the size of the dimension on one side only.
    """
    free = rule.permuted | rule.need_replication | rule.windowed_factors
    for what, mappings, shapes in (
        ("operand", rule.operands, operands),
        ("result", rule.results, results),
    ):
        if len(mappings) != len(shapes):
            raise ShardError(
                f"the rule is for {len(mappings)} {what}s, but the op has {len(shapes)}: expected "
                "as many"
            )
        for number, (dims, shape) in enumerate(zip(mappings, shapes, strict=True)):
            if shape is None and dims is None:
                continue
            if shape is None:
                raise ShardError(f"{what} {number} has no static shape for the rule to speak of")
            if dims is None or len(dims) != len(shape):
                raise ShardError(
                    f"the rule has {len(dims or ())} dimensions for {what} {number}, "
                    f"which has {len(shape)}"
                )
            for dim, factors in enumerate(dims):
                split = prod(rule.sizes[factor] for factor in factors)
                if factors and not free & {*factors} and shape[dim] != split:
                    raise ShardError(
                        f"the rule has factors of {split} elements for dimension {dim} of {what} "
                        f"{number}, which has {shape[dim]}"
                    )


def check_factors(rule: ShardingRule) -> None:
    """Raise `ShardError` unless the fields of a rule are of their types, and speak of its factors.

    Lists and sets will not do for tuples and frozensets: rules are keys.
    """
    factors = range(len(_listed("sizes", rule.sizes)))
    _expect("sizes", rule.sizes, range(_MOST_ELEMENTS))
    for what, tensors in (("operands", rule.operands), ("results", rule.results)):
        for dims in filter(None, _listed(what, tensors)):
            for dim in _listed(f"dimensions of {what}", dims):
                _expect(f"factors of {what}", dim, factors)
            used = [factor for dim in dims for factor in dim]
            if len({*used}) < len(used):
                raise ShardError(f"its {what} have a factor twice in a tensor: {value_text(dims)}")
    for each in _listed("reductions", rule.reductions):
        if not isinstance(each, tuple) or len(each) != 2 or each[1] not in REDUCTIONS:
            raise ShardError(
                f"its reductions have {value_text(each)}: expected a factor and one of "
                f"{', '.join(REDUCTIONS)}"
            )
        _expect("reductions", each[:1], factors)
    for what in ("need_replication", "permuted", "blocked"):
        _expect(what, getattr(rule, what), factors, frozenset)
    _expect("inits", rule.inits, range(len(rule.operands)))
    for window in _listed("windows", rule.windows):
        _check_window(window, rule)
    if rule.role not in get_args(Role):
        raise ShardError(f"its role is {value_text(rule.role)}: leave it out")


def _check_window(window: object, rule: ShardingRule) -> None:
    if not isinstance(window, Window):
        raise ShardError(f"its windows have {value_text(window)}: expected Windows")
    _expect("factors of windows", (window.factor,), range(len(rule.sizes)))
    _expect("operands of windows", (window.operand,), range(len(rule.operands)))
    dims = rule.operands[window.operand] or ()
    _expect("dimensions of windows", (window.dim,), range(len(dims)))


def _expect(what: str, numbers: object, known: range, kind: type[Collection[int]] = tuple) -> None:
    """Raise `ShardError` unless `numbers` is a tuple, or of another kind, of known numbers."""
    if type(numbers) is not kind or not all(type(n) is int and n in known for n in numbers):
        raise ShardError(
            f"its {what} are {value_text(numbers)}: expected a {kind.__name__} of numbers from 0 "
            f"to {len(known) - 1}"
        )


_MOST_ELEMENTS, _MOST_TEXT = 1 << 62, 200


def _listed(what: str, given: object) -> tuple[Any, ...]:
    if not isinstance(given, tuple):
        raise ShardError(f"its {what} are {value_text(given)}: expected a tuple")
    return given


def letter(factor: int) -> str:
    """The name of a factor in the text of a rule.

    >>> letter(0), letter(17), letter(18)
    ('i', 'z', 'z_1')
    """
    last = ord("z") - ord("i")
    return chr(ord("i") + factor) if factor <= last else f"z_{factor - last}"


def _sizes(text: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for entry in filter(None, (each.strip() for each in text.split(","))):
        match = re.fullmatch(rf"({_NAME})\s*=\s*(\d{{1,18}})", entry)
        if match is None or match[1] != letter(len(sizes)):
            raise ShardError(
                f"expected the size of factor {letter(len(sizes))}, found '{entry}' in {{{text}}}"
            )
        sizes[match[1]] = int(match[2])
    return sizes


def _sizes_in(
    tensors: Sequence[Sequence[str]], shapes: Sequence[Shape | None], text: str
) -> dict[str, int]:
    """The size of each factor, from the shapes, in order of first use."""
    if [len(names) for names in tensors] != [len(shape or ()) for shape in shapes]:
        listed = ", ".join(str(list(shape or ())) for shape in shapes)
        raise ShardError(f"rule {text} is for tensors of other ranks than those here: {listed}")
    dims = [
        (re.findall(_NAME, name), size)
        for names, shape in zip(tensors, shapes, strict=True)
        for name, size in zip(names, shape or (), strict=True)
    ]
    sizes: dict[str, int | None] = {factor: None for factors, _ in dims for factor in factors}
    for _ in sizes:  # each round finds one at least
        for factors, size in dims:
            open_ones = [factor for factor in factors if sizes[factor] is None]
            known = prod(sizes[factor] or 1 for factor in factors)
            if len(open_ones) == 1 and size % known == 0:
                sizes[open_ones[0]] = size // known
    for factor, sizes_read in sizes.items():
        if sizes_read is None:
            raise ShardError(f"the size of factor {factor} of rule {text} is not known: give it")
    for factors, size in dims:
        if factors and prod(cast("int", sizes[factor]) for factor in factors) != size:
            raise ShardError(
                f"dimension {''.join(factors)} of rule {text} is of size {size} in one tensor, and "
                "of another elsewhere"
            )
    return cast("dict[str, int]", sizes)


def _members(text: str, kind: str, numbers: dict[str, int]) -> dict[int, Reduction]:
    """The factors of a set, each with its reduction, which only the set `reduction` uses."""
    members: dict[int, Reduction] = {}
    for each in text.split(",") if text.strip() else ():
        name, _, reduction = (field.strip() for field in each.partition(":"))
        if not re.fullmatch(_NAME, name) or (reduction and kind != "reduction"):
            raise ShardError(f"expected factors in {kind}={{{text}}}")
        if name not in numbers:
            raise ShardError(f"factor {name} in {kind}={{{text}}} has no size")
        if reduction and reduction not in REDUCTIONS:
            raise ShardError(
                f"unknown reduction '{reduction}' in {kind}={{{text}}}: expected "
                f"{', '.join(REDUCTIONS)}"
            )
        if numbers[name] <= max(members, default=-1):
            raise ShardError(f"expected each factor once and in order in {kind}={{{text}}}")
        members[numbers[name]] = reduction or "sum"
    return members


def _tensors(text: str) -> list[list[str]]:
    """The factors of each dimension of each tensor, as text."""
    if not re.fullmatch(r"\s*(?:\[[^\[\]]*\]\s*(?:,\s*\[[^\[\]]*\]\s*)*)?", text):
        raise ShardError(f"expected tensors as [i, j], found ({text})")
    tensors = []
    for inside in re.findall(r"\[([^\[\]]*)\]", text):
        names = [name.strip() for name in inside.split(",")] if inside.strip() else []
        for name in names:
            if not _DIM.fullmatch(name):
                raise ShardError(f"expected factors or *, found '{name}' in [{inside}]")
        tensors.append(names)
    return tensors


def _dims(names: Sequence[str], numbers: dict[str, int], sizes: dict[str, int]) -> Dims:
    dims = [re.findall(_NAME, name) for name in names]
    used = [factor for dim in dims for factor in dim]
    shown = f"[{', '.join(names)}]"
    for factor in used:
        if factor not in numbers:
            raise ShardError(f"factor {factor} in {shown} has no size")
        if used.count(factor) > 1:
            raise ShardError(f"factor {factor} is twice in {shown}")
    for dim in dims:
        if len(dim) > 1 and any(sizes[factor] == 1 for factor in dim):
            raise ShardError(f"a dimension of {shown} has a factor of size 1 among others")
    return tuple(tuple(numbers[factor] for factor in dim) for dim in dims)


def _check_use(
    text: str,
    names: Sequence[str],
    operands: Sequence[Dims],
    results: Sequence[Dims],
    reductions: Iterable[int],
) -> None:
    in_results = {factor for dims in results for dim in dims for factor in dim}
    used = in_results | {factor for dims in operands for dim in dims for factor in dim}
    for factor, name in enumerate(names):
        if factor not in used:
            raise ShardError(f"factor {name} of rule {text} is in no tensor")
    for factor in reductions:
        if factor in in_results:
            raise ShardError(f"factor {names[factor]} of rule {text} is reduced, and in a result")


def _side(tensors: Sequence[Dims | None]) -> str:
    def dim(factors: tuple[int, ...]) -> str:
        return "".join(map(letter, factors)) or "*"

    return ", ".join(f"[{', '.join(map(dim, dims or ()))}]" for dims in tensors)
