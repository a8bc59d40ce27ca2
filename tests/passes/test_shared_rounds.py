"""Permutations that share rounds: as few as there can be, with the same results."""

from collections import Counter
from random import Random

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.ir.walk import walk
from shard_dialect.passes.shared_rounds import rounds_of
from tests.slow import seed_of

NAME = "mesh.collective_permute"


def permutation(random: Random, size: int) -> list[int]:
    """Some devices send to others, or to themselves; the others to nobody."""
    count = random.randint(0, size)
    to = [-1] * size
    pairs = zip(random.sample(range(size), count), random.sample(range(size), count), strict=True)
    for source, target in pairs:
        to[source] = target
    return to


def test_as_many_rounds_as_the_busiest_device_needs() -> None:
    random = Random(0)
    for _ in range(2000):
        size = random.randint(1, 9)
        permutations = [permutation(random, size) for _ in range(random.randint(0, 6))]
        edges = [
            (source, target, number)
            for number, each in enumerate(permutations)
            for source, target in enumerate(each)
            if target not in (-1, source)
        ]
        rounds = rounds_of(permutations)
        assert sorted(edge for each in rounds for edge in each) == sorted(edges)
        for each in rounds:
            assert len(each) == len({edge[0] for edge in each}) == len({edge[1] for edge in each})
        busiest = [
            *Counter(source for source, _, _ in edges).values(),
            *Counter(target for _, target, _ in edges).values(),
        ]
        assert len(rounds) == max(busiest, default=0)


def program(random: Random) -> str:
    """A local program of permutations on 2x3 devices, some of which use the result of another."""
    axes, size = random.choice([([0], 2), ([1], 3), ([0, 1], 6)])
    local, whole = "tensor<2x3xf32>", "tensor<12x3xf32, #mesh.shard<@g, [[0, 1], []]>>"
    count = random.randint(1, 3)
    values = [f"%a{number}" for number in range(count)]
    arguments = ", ".join(f"{each}: {local} {{mesh.argument = {whole}}}" for each in values)
    lines, made = [], []
    for number in range(random.randint(2, 5)):
        to = permutation(random, size)
        lines.append(
            f'%p{number} = "{NAME}"({random.choice(values)}) {{cluster = @g, mesh_axis = {axes}, '
            f"permutation = {to}}} : ({local}) -> {local}"
        )
        made.append(f"%p{number}")
        if random.random() < 0.3:
            lines.append(f"%s{number} = arith.addf %p{number}, {values[0]} : {local}")
            values.append(f"%s{number}")
    results = ", ".join(f"{local} {{mesh.result = {whole}}}" for _ in made)
    body = "\n".join(lines)
    return (
        "shard.grid @g(shape = 2x3)\n"
        f'func.func @main({arguments}) -> ({results}) attributes {{mesh.form = "local"}} {{\n'
        f"{body}\nreturn {', '.join(made)} : {', '.join([local] * len(made))}\n}}\n"
    )


@pytest.mark.parametrize("number", range(12))
def test_results_are_the_same(number: int, request: pytest.FixtureRequest) -> None:
    random = Random(100 * seed_of(request.config) + number)
    text = program(random)
    before, after = sd.parse(text), sd.parse(text)
    sd.run_pipeline(after, "bundle-collectives")
    counts = [sum(op.name == NAME for op in walk(each.operation)) for each in (before, after)]
    assert counts[1] <= counts[0]
    inputs = [
        np.random.default_rng(number).normal(size=(12, 3)).astype("f")
        for _ in sd.compile(before).program.arguments
    ]
    found, expected = (sd.compile(each)(*inputs) for each in (after, before))
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(own, other)


def test_a_concatenation_moves_what_each_device_lacks() -> None:
    split = '{sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>}'
    module = sd.parse(
        'sdy.mesh @m = <["x"=8]>\n'
        f"func.func @main(%a: tensor<16x4xf32> {split}, %b: tensor<16x4xf32> {split})\n"
        f"    -> (tensor<32x4xf32> {split}) {{\n"
        "  %0 = stablehlo.concatenate %a, %b, dim = 0\n"
        "    : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<32x4xf32>\n"
        "  return %0 : tensor<32x4xf32>\n}"
    )
    sd.run_pipeline(module, "spmd")
    assert sd.communication(module).bytes_moved == 2 * 8 * 4  # two shards of 8 elements
