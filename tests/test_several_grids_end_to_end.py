"""Random programs with tensors on several grids of the same devices give the right numbers."""

from random import Random

import pytest

from shard_dialect.model import Grid
from shard_dialect.testing.check_program import reference_of, run_and_check
from shard_dialect.testing.placement import cluster, encoding
from shard_dialect.testing.random_shardings import any_sharding
from tests.extras import needs

SHAPES = {
    4: ((4,), (2, 2)),
    6: ((6,), (2, 3), (3, 2)),
    8: ((8,), (2, 4), (4, 2), (2, 2, 2)),
    12: ((12,), (3, 4), (4, 3), (2, 6), (2, 3, 2)),
}
OPS = (
    "stablehlo.add {0}, {1} : tensor<{n}x{n}xf32>",
    "stablehlo.tanh {0} : tensor<{n}x{n}xf32>",
    "stablehlo.transpose {0}, dims = [1, 0] : (tensor<{n}x{n}xf32>) -> tensor<{n}x{n}xf32>",
    "stablehlo.dot_general {0}, {1}, contracting_dims = [1] x [0] "
    ": (tensor<{n}x{n}xf32>, tensor<{n}x{n}xf32>) -> tensor<{n}x{n}xf32>",
)


def any_program(rng: Random, *, extents: bool = False) -> str:
    """A module with two or three grids, and ops on square matrices annotated on any of them.

    With `extents`, some shards have halos, or begin at offsets.
    """
    devices = rng.choice(list(SHAPES))
    grids = []
    for name in "abc"[: rng.randint(2, 3)]:
        order = rng.sample(range(devices), devices) if rng.random() < 0.3 else ()
        grids.append(Grid(name, rng.choice(SHAPES[devices]), device_ids=tuple(order)))
    size = rng.choice((devices, 2 * devices, devices + 1))
    shape, type_ = (size, size), f"tensor<{size}x{size}xf32>"

    def sharding() -> str:
        uses = {"extents": True} if extents else {"sub_axes": rng.random() < 0.3}
        return encoding(any_sharding(rng, shape, rng.choice(grids), even=True, **uses))

    values, lines = ["%x", "%y"], []
    for number in range(rng.randint(2, 7)):
        operands = [rng.choice(values[-3:]) for _ in range(2)]
        lines.append(f"%v{number} = {rng.choice(OPS).format(*operands, n=size)}")
        values.append(f"%v{number}")
        if rng.random() < 0.6:
            attribute = sharding()[2:-1].removeprefix("mesh.")
            users = rng.choice(("true", "false"))
            lines.append(
                f'%s{number} = "mesh.annotate"(%v{number}) {{{attribute}, as_result = {users}}} '
                f": ({type_}) -> {type_}"
            )
            values.append(f"%s{number}")
    return (
        "".join(map(cluster, grids))
        + f"func.func @main(%x: {type_}{sharding()}, %y: {type_}) -> ({type_}{sharding()}) {{\n"
        + "\n".join(lines)
        + f"\nreturn {values[-1]} : {type_}\n}}\n"
    )


@needs("jax")
@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("extents", [False, True])
@pytest.mark.parametrize("results", ["pieces", "whole"])
def test_numbers_are_right(seed: int, extents: bool, results: str) -> None:
    rng = Random(seed)
    collectives = 0
    options = f"{{arguments={results} results={results}}}"
    pipeline = f"propagate,materialize,optimize-collectives,partition{options},lower"
    for _ in range(3):
        text = any_program(rng, extents=extents)
        outcome = run_and_check(text, pipeline, reference=reference_of(text))
        assert outcome.verdict.passed, f"{outcome.verdict}\n{text}"
        collectives += outcome.collectives.total()
    assert collectives
