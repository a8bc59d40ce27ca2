"""Samples of elementwise ops from the types of their elements, as the ops' records have them.

    f32 f32              %r = arith.addf %0, %1 : tensor<4x8xf32>
    f32 -> i32           %r = arith.fptosi %0 : tensor<4x8xf32> to tensor<4x8xi32>
    i32 3                the second operand is a constant
    f32 f32 -> i1 | olt, %0, %1 : $0 | text of ops before

What follows `|` stands behind the name of the op, or is its attributes; of ops of your own dialect
the generic form is written. Two ops of `arith` are no text of their records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shard_dialect.testing.random_draws import Draws
from shard_dialect.testing.sample import Sample, Tensor
from shard_dialect.testing.samples import linalg_samples, tosa_samples


@dataclass(frozen=True, slots=True)
class _Types:
    """An op, and the types of its operands and results; operands may be numbers."""

    op: str
    operands: Sequence[Tensor | int]
    results: Sequence[Tensor]
    text: str
    before: str

    @property
    def tensors(self) -> list[Tensor]:
        """The operands that are no numbers."""
        return [each for each in self.operands if isinstance(each, Tensor)]


def drawn(op: str, types: str, draws: Draws) -> Sample:
    """A sample of `op` of these types of elements."""
    types, _, text = types.partition(" | ")
    text, _, before = text.partition(" | ")
    given, _, made = types.partition(" -> ")
    first, *others = given.split()
    write, least = _DIALECTS.get(op.partition(".")[0], (_generic, 0))
    x = draws.any(first, least=least)
    operands = [int(each) if each.isdigit() else x.of(each) for each in others]
    results = [x.of(each) for each in (made or first).split()]
    return write(_Types(op, [x, *operands], results, text, before), draws)


def _upstream(op: _Types, _: Draws) -> Sample:
    several = f":{len(op.results)}" if len(op.results) > 1 else ""
    names = [f"%{n}" if isinstance(each, Tensor) else "%c" for n, each in enumerate(op.operands)]
    lines = [
        f"%c = arith.constant dense<{each}> : $0"
        for each in op.operands
        if not isinstance(each, Tensor)
    ]
    is_cast = len(op.operands) == 1 and op.operands[0] != op.results[0]
    text = op.text or f"{', '.join(names)} : {'$0 to ' if is_cast else ''}$r"
    lines += [*filter(None, [op.before]), f"%r{several} = {op.op} {text}"]
    return Sample.of(op.op, op.tensors, "\n".join(lines), op.results)


def _generic(op: _Types, _: Draws) -> Sample:
    types = [each if isinstance(each, Tensor) else op.results[0] for each in op.operands]
    constants = {n: str(each) for n, each in enumerate(op.operands) if not isinstance(each, Tensor)}
    return Sample.generic(op.op, types, op.results, op.text, constants=constants)


def _tosa(op: _Types, draws: Draws) -> Sample:
    first, *others = [
        each if isinstance(each, Tensor) else tosa_samples.constant(each, op.results[0])
        for each in op.operands
    ]
    rest = [
        tosa_samples.broadcast(draws, each) if isinstance(each, Tensor) else each for each in others
    ]
    return tosa_samples.tosa(op.op.partition(".")[2], [first, *rest], op.results, op.text)


def _linalg(op: _Types, draws: Draws) -> Sample:
    text = f"{op.op} {op.text}{linalg_samples.ins(len(op.operands))}"
    return linalg_samples.started(draws, op.op, text, op.tensors, op.results[0])


_DIALECTS: dict[str, tuple[Callable[[_Types, Draws], Sample], int]] = {
    "arith": (_upstream, 0),
    "linalg": (_linalg, 0),
    "math": (_upstream, 0),
    "tosa": (_tosa, 1),
}
"""The function that writes the ops of a dialect, and their least rank."""


def select(draws: Draws) -> Sample:
    x = draws.any()
    if draws.chance(0.3):
        text = "%p = tensor.extract %0[] : $0\n%r = arith.select %p, %1, %2 : $r"
        return Sample.of("arith.select", [Tensor((), "i1"), x, x], text, [x])
    text = "%r = arith.select %0, %1, %2 : $0, $r"
    return Sample.of("arith.select", [x.of("i1"), x, x], text, [x])


def constant(draws: Draws) -> Sample:
    rows, columns = (draws.size() for _ in range(2))
    values = (
        "2.0"
        if draws.chance(0.3)
        else [[float(row * columns + column) for column in range(columns)] for row in range(rows)]
    )
    result = Tensor((rows, columns))
    return Sample.of("arith.constant", [], f"%r = arith.constant dense<{values}> : $r", [result])
