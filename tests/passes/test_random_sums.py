"""Random sums of what is put into zeros give the numbers that they gave before."""

import random

import pytest

import shard_dialect as sd
from shard_dialect.testing.check_program import reference_of, run_and_check
from tests.extras import needs

ZEROS = {
    "f32": "0.0",
    "bf16": "0.0",
    "f64": "0.0",
    "i32": "0",
    "ui8": "0",
    "i1": "false",
    "complex<f32>": "(0.0, 0.0)",
}
SEEDS = range(60)
WRONG_BY_XLA = (30,)
"""Whose local programs XLA (jaxlib 0.10.2, CPU) compiles to other numbers, unless its algebraic
simplifier is off (`--xla_disable_hlo_passes=algsimp`): a scatter in a loop writes nothing."""


class _Sums:
    """A function that adds to `%sum` what it puts into zeros, in a loop, a branch or a function."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.element = draw.choice(list(ZEROS))
        self.shape = [draw.choice((2, 4, 5, 6)) for _ in range(draw.randint(1, 3))]
        self.order = draw.sample(range(len(self.shape)), len(self.shape))
        self.arguments: list[tuple[str, str]] = []
        put = draw.choice((self.update, self.scatter))()
        zeros, turned = self.type(self.shape), self.type([self.shape[d] for d in self.order])
        self.put = [
            f"%c = stablehlo.constant dense<{ZEROS[self.element]}> : tensor<{self.element}>",
            f"%z = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<{self.element}>) -> {zeros}",
            put,
            f"%t = stablehlo.transpose %p, dims = {self.order} : ({zeros}) -> {turned}",
        ]
        self.sum = turned

    def type(self, shape: list[int]) -> str:
        return f"tensor<{''.join(f'{each}x' for each in shape)}{self.element}>"

    def argument(self, name: str, type_: str) -> str:
        self.arguments.append((name, type_))
        return type_

    def update(self) -> str:
        sizes = [self.draw.choice((1, each, self.draw.randint(1, each))) for each in self.shape]
        part = self.argument("%part", self.type(sizes))
        names = [f"%i{number}" for number in range(len(sizes))]
        types = ", ".join(self.argument(name, "tensor<i32>") for name in names)
        zeros = self.type(self.shape)
        operands, operand_types = ", ".join(["%z, %part", *names]), f"{zeros}, {part}, {types}"
        return f"%p = stablehlo.dynamic_update_slice {operands} : ({operand_types}) -> {zeros}"

    def scatter(self) -> str:
        """One update for each batch, at an index that may lie outside."""
        dims = range(len(self.shape))
        indexed = self.draw.randrange(len(dims))
        batches = [dim for dim in dims if dim != indexed and self.draw.random() < 0.4]
        windows = [dim for dim in dims if dim != indexed and dim not in batches]
        sizes = [self.shape[dim] for dim in batches]
        at = self.argument("%at", f"tensor<{''.join(f'{each}x' for each in sizes)}1xi32>")
        part = self.argument("%part", self.type(sizes + [self.shape[dim] for dim in windows]))
        zeros, element, count = self.type(self.shape), f"tensor<{self.element}>", len(batches)
        numbers = (
            f"update_window_dims = {[*range(count, count + len(windows))]}, "
            f"inserted_window_dims = [{indexed}], input_batching_dims = {batches}, "
            f"scatter_indices_batching_dims = {[*range(count)]}, "
            f"scatter_dims_to_operand_dims = [{indexed}], index_vector_dim = {count}"
        )
        unique = self.draw.choice(("true", "true", "false"))
        returned = self.draw.choice(("%s", "%s", "%s", "%b", "%a"))
        return (
            f'%p = "stablehlo.scatter"(%z, %at, %part) <{{indices_are_sorted = false, '
            f"scatter_dimension_numbers = #stablehlo.scatter<{numbers}>, "
            f"unique_indices = {unique}}}> ({{\n^bb0(%a: {element}, %b: {element}):\n"
            f"  %s = stablehlo.add %a, %b : {element}\n  stablehlo.return {returned} : {element}\n"
            f"}}) : ({zeros}, {at}, {part}) -> {zeros}"
        )

    def sharding(self) -> str:
        dims: list[list[int]] = [[] for _ in self.shape]
        for axis in (0, 1):
            if self.draw.random() < 0.7:
                self.draw.choice(dims).append(axis)
        return f"{{mesh.sharding = #mesh.shard<@grid, {dims}>}}"

    def text(self) -> str:
        draw, type_ = self.draw, self.sum
        names = ", ".join(name for name, _ in self.arguments)
        types = ", ".join(each for _, each in self.arguments)
        boundary = ", ".join(f"{name}: {each}" for name, each in self.arguments)
        put, function = self.put, ""
        if draw.random() < 0.3:
            body = "\n".join(self.put)
            function = (
                f"func.func private @put({boundary}) -> {type_} {{\n{body}\nreturn %t : {type_}\n}}"
            )
            put = [f"%t = func.call @put({names}) : ({types}) -> {type_}"]
        sides = draw.choice(("%s0, %t", "%t, %s0"))
        add = [f"%x = stablehlo.add {sides} : {type_}"]
        before, inside = draw.choice((([], put + add), (put, add)))
        lines = "\n".join(
            [
                *before,
                *(f"%k{number} = arith.constant {number} : index" for number in (0, 1, 2)),
                f"%r = scf.for %i = %k0 to %k{draw.choice((1, 2))} step %k1 "
                f"iter_args(%s0 = %sum) -> ({type_}) {{",
                *inside,
                f"scf.yield %x : {type_}\n}}",
            ]
        )
        if draw.random() < 0.5:
            lines = "\n".join([*put, add[0].replace("%s0", "%sum").replace("%x", "%r")])
        returned = ["%r", *(["%sum"] if draw.random() < 0.3 else [])]
        results = ", ".join([f"{type_} {self.sharding()}", *[type_] * (len(returned) - 1)])
        return (
            f"shard.grid @grid(shape = {draw.choice(('2x2', '4x2', '2x3'))})\n"
            f"func.func @main(%sum: {type_} {self.sharding()}, {boundary}) -> ({results}) {{\n"
            f"{lines}\nreturn {', '.join(returned)} : {', '.join([type_] * len(returned))}\n}}\n"
            f"{function}\n"
        )


@needs("jax")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_sum_is_what_it_was(seed: int) -> None:
    text = _Sums(seed).text()
    pipeline = "spmd,lower" if seed in WRONG_BY_XLA else "spmd"
    outcome = run_and_check(text, pipeline, reference=reference_of(text))
    assert not outcome.verdict.failure, text


def test_many_sums_are_done_in_place() -> None:
    """Else the others would test little; and a second time changes nothing."""
    changed = 0
    for seed in SEEDS:
        before, module = sd.parse(_Sums(seed).text()), sd.parse(_Sums(seed).text())
        sd.run_pipeline(module, "sum-in-place")
        once = str(module)
        changed += once != str(before)
        sd.run_pipeline(module, "sum-in-place")
        assert str(module) == once
    assert changed > len(SEEDS) // 4
