"""Sharding rules as text, as Shardy writes them.

    ([i, k], [k, j])->([i, j]) {i=8, j=16, k=4} reduction={k}
    ([ij])->([i, j]) {i=2, j=4}                   a dimension of two factors, major to minor
    ([i, *])->([i, *]) {i=8} need_replication={}  `*`: a dimension without factors

Factors are letters from `i` to `z`, then `z_1`, `z_2`. Source: Shardy, OpShardingRuleAttr.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from shard_dialect.errors import ShardError
from shard_dialect.model.rule import Dims, ShardingRule
from shard_dialect.model.sharding import Shape

KINDS = ("reduction", "need_replication", "permutation", "blocked_propagation")
_RULE = re.compile(
    r"\((?P<operands>[^()]*)\)\s*->\s*\((?P<results>[^()]*)\)\s*\{(?P<sizes>[^{}]*)\}"
    r"(?P<sets>(?:\s*[a-z_]+\s*=\s*\{[^{}]*\})*)\s*(?P<custom>,\s*custom)?"
)
_SET = re.compile(r"([a-z_]+)\s*=\s*\{([^{}]*)\}")
_FACTOR = re.compile(r"z_\d{1,4}|[i-z]")
_DIM = re.compile(r"\*|(?:z_\d{1,4}|[i-z])+")


@dataclass(frozen=True, slots=True)
class WrittenRule:
    """The rule, its sets of factors in the order of `KINDS`, and whether it is a user's own."""

    rule: ShardingRule
    sets: tuple[tuple[int, ...], ...]
    is_custom: bool = False

    @property
    def kept_whole(self) -> frozenset[int]:
        """The factors that no axis may split, or be propagated along."""
        _, *others = self.sets
        return frozenset(factor for members in others for factor in members)


def read_rule(text: str) -> WrittenRule:
    """The rule in `text`. Raises `ShardError` where it contradicts itself."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise ShardError(
            f"expected a rule as ([i, k], [k, j])->([i, j]) {{i=4, j=8, k=2}} reduction={{k}}, "
            f"found {text}"
        )
    sizes = _sizes(match["sizes"])
    found = dict(_SET.findall(match["sets"]))
    for name in found:
        if name not in KINDS:
            raise ShardError(f"unknown set of factors '{name}': expected {', '.join(KINDS)}")
    sets = tuple(_members(found.get(name, ""), name, sizes) for name in KINDS)
    special = [factor for members in sets[:3] for factor in members]
    for factor in special:
        if special.count(factor) > 1:
            raise ShardError(f"factor {letter(factor)} of rule {text} is of two kinds")
    operands = _tensors(match["operands"], sizes)
    results = _tensors(match["results"], sizes)
    _check_use(text, sizes, operands, results, sets[0])
    rule = ShardingRule(
        tuple(sizes.values()),
        operands,
        results,
        tuple((factor, "sum") for factor in sets[0]),
        frozenset((*sets[1], *sets[2])),
    )
    return WrittenRule(rule, sets, match["custom"] is not None)


def write_rule(written: WrittenRule) -> str:
    """The text that `read_rule` reads back."""
    rule = written.rule
    sizes = ", ".join(f"{letter(factor)}={size}" for factor, size in enumerate(rule.sizes))
    sides = (_side(rule.operands), _side(rule.results))
    text = f"({sides[0]})->({sides[1]}) {{{sizes}}}"
    for name, members in zip(KINDS, written.sets, strict=True):
        if members:
            text += f" {name}={{{', '.join(map(letter, members))}}}"
    return text + (", custom" if written.is_custom else "")


def check_rule(
    rule: ShardingRule, operands: Sequence[Shape | None], results: Sequence[Shape | None]
) -> None:
    """Raise unless an op with tensors of these shapes can have the rule."""
    for what, mappings, shapes in (
        ("operand", rule.operands, operands),
        ("result", rule.results, results),
    ):
        if len(mappings) != len(shapes) or not mappings:
            raise ShardError(
                f"the rule is for {len(mappings)} {what}s, but the op has {len(shapes)}: expected "
                "as many, and at least one"
            )
        for number, (dims, shape) in enumerate(zip(mappings, shapes, strict=True)):
            if shape is None:
                raise ShardError(f"{what} {number} has no static shape for the rule to speak of")
            if dims is None or len(dims) != len(shape):
                raise ShardError(
                    f"the rule has {len(dims or ())} dimensions for {what} {number}, "
                    f"which has {len(shape)}"
                )


def letter(factor: int) -> str:
    """The name of a factor.

    >>> letter(0), letter(17), letter(18)
    ('i', 'z', 'z_1')
    """
    last = ord("z") - ord("i")
    return chr(ord("i") + factor) if factor <= last else f"z_{factor - last}"


def _number(name: str) -> int:
    last = ord("z") - ord("i")
    return last + int(name[2:]) if name.startswith("z_") else ord(name) - ord("i")


def _sizes(text: str) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for entry in filter(None, (each.strip() for each in text.split(","))):
        match = re.fullmatch(r"(z_\d{1,4}|[i-z])\s*=\s*(\d{1,18})", entry)
        if match is None or _number(match[1]) != len(sizes):
            raise ShardError(
                f"expected the size of factor {letter(len(sizes))}, found '{entry}' in {{{text}}}"
            )
        sizes[len(sizes)] = int(match[2])
    return sizes


def _members(text: str, kind: str, sizes: dict[int, int]) -> tuple[int, ...]:
    names = [each.strip() for each in text.split(",")] if text.strip() else []
    if not all(_FACTOR.fullmatch(name) for name in names):
        raise ShardError(f"expected factors in {kind}={{{text}}}")
    members = tuple(map(_number, names))
    for factor in members:
        if factor not in sizes:
            raise ShardError(f"factor {letter(factor)} in {kind}={{{text}}} has no size")
    if list(members) != sorted(set(members)):
        raise ShardError(f"expected each factor once and in order in {kind}={{{text}}}")
    return members


def _tensors(text: str, sizes: dict[int, int]) -> tuple[Dims, ...]:
    if not re.fullmatch(r"\s*(?:\[[^\[\]]*\]\s*(?:,\s*\[[^\[\]]*\]\s*)*)?", text):
        raise ShardError(f"expected tensors as [i, j], found ({text})")
    return tuple(_dims(each, sizes) for each in re.findall(r"\[([^\[\]]*)\]", text))


def _dims(text: str, sizes: dict[int, int]) -> Dims:
    dims = []
    for entry in (each.strip() for each in text.split(",")) if text.strip() else ():
        if not _DIM.fullmatch(entry):
            raise ShardError(f"expected factors or *, found '{entry}' in [{text}]")
        dims.append(tuple(map(_number, _FACTOR.findall(entry))))
    used = [factor for dim in dims for factor in dim]
    for factor in used:
        if factor not in sizes:
            raise ShardError(f"factor {letter(factor)} in [{text}] has no size")
        if used.count(factor) > 1:
            raise ShardError(f"factor {letter(factor)} is twice in [{text}]")
    for dim in dims:
        if len(dim) > 1 and any(sizes[factor] == 1 for factor in dim):
            raise ShardError(f"a dimension of [{text}] has a factor of size 1 among others")
    return tuple(dims)


def _check_use(
    text: str,
    sizes: dict[int, int],
    operands: Sequence[Dims],
    results: Sequence[Dims],
    reductions: Sequence[int],
) -> None:
    made = {factor for dims in results for dim in dims for factor in dim}
    used = made | {factor for dims in operands for dim in dims for factor in dim}
    for factor in sizes:
        if factor not in used:
            raise ShardError(f"factor {letter(factor)} of rule {text} is in no tensor")
    for factor in reductions:
        if factor in made:
            raise ShardError(f"factor {letter(factor)} of rule {text} is reduced, and in a result")


def _side(tensors: Sequence[Dims | None]) -> str:
    def dim(factors: tuple[int, ...]) -> str:
        return "".join(map(letter, factors)) or "*"

    return ", ".join(f"[{', '.join(map(dim, dims or ()))}]" for dims in tensors)
