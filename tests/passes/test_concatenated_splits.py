"""Concatenations of tensors that are split in different ways move no more than the plan by hand."""

import random

import pytest

import shard_dialect as sd

Split = int | None
"""The dimension that all devices split; `None` of a replicated tensor."""


def moved(shape: tuple[int, int], source: Split, target: Split, devices: int) -> int:
    """The bytes that a device sends of floats: by an all-to-all, a gather, or a slice."""
    held = shape[0] * shape[1] * 4 // devices
    if source == target or source is None:
        return 0
    return held * (devices - 1) // (1 if target is None else devices)


class Concatenation:
    """Two tensors joined along the second dimension, which may be the same one."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.devices = rng.choice([2, 4, 8])
        self.rows, *columns = (8 * rng.randint(1, 6) for _ in range(3))
        self.operands = [((self.rows, each), rng.choice([0, 1, None])) for each in columns]
        self.target = rng.choice([0, 1])
        if rng.random() < 0.3:
            self.operands[1] = self.operands[0]

    def text(self) -> str:
        same = self.operands[0] is self.operands[1]
        known = self.operands[:1] if same else self.operands
        types = [f"tensor<{each[0]}x{each[1]}xf32>" for each, _ in self.operands]
        arguments = ", ".join(
            f"%x{n}: {types[n]} {self.annotation(split)}" for n, (_, split) in enumerate(known)
        )
        result = f"tensor<{self.rows}x{sum(each[1] for each, _ in self.operands)}xf32>"
        return (
            f'sdy.mesh @m = <["a"={self.devices}]>\n'
            f"func.func @main({arguments}) -> ({result} {self.annotation(self.target)}) {{\n"
            f"  %r = stablehlo.concatenate %x0, %x{0 if same else 1}, dim = 1"
            f" : ({types[0]}, {types[1]}) -> {result}\n"
            f"  return %r : {result}\n}}"
        )

    def annotation(self, split: Split) -> str:
        dims = ", ".join('{"a"}' if dim == split else "{}" for dim in range(2))
        return f"{{sdy.sharding = #sdy.sharding<@m, [{dims}]>}}"

    def least(self) -> int:
        """The bytes if the rows are split in between, or nothing is."""
        joined = self.rows, sum(each[1] for each, _ in self.operands)
        read = self.operands[: 1 if self.operands[0] is self.operands[1] else 2]
        return min(
            sum(moved(*operand, middle, self.devices) for operand in read)
            + moved(joined, middle, self.target, self.devices)
            for middle in (0, None)
        )


@pytest.mark.parametrize("seed", range(60, 84))
def test_no_more_than_by_hand(seed: int) -> None:
    program = Concatenation(seed)
    compiled = sd.compile(sd.parse(program.text()))
    assert compiled.report.bytes_moved <= program.least(), program.text()
    assert compiled.check().passed
