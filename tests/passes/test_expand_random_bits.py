"""Each device draws its own part of the random bits that the unsharded program draws."""

import random

import numpy as np
import pytest

import shard_dialect as sd
from tests.extras import needs

LAST = 2**64 - 3
"""A counter whose lower half overflows within three counts."""


def drawn(
    algorithm: str,
    words: int,
    shape: tuple[int, ...],
    element: str,
    split: str = "[[0], [1]]",
    state: str = "ui64",
) -> str:
    result = "x".join(map(str, (*shape, element)))
    sharding = f"mesh.sharding = #mesh.shard<@g, {split}>"
    return f"""
    shard.grid @g(shape = 2x2)
    func.func @main(%s: tensor<{words}x{state}>)
        -> (tensor<{words}x{state}>, tensor<{result}> {{{sharding}}}) {{
      %n, %b = "stablehlo.rng_bit_generator"(%s)
          {{rng_algorithm = #stablehlo<rng_algorithm {algorithm}>}}
          : (tensor<{words}x{state}>) -> (tensor<{words}x{state}>, tensor<{result}>)
      return %n, %b : tensor<{words}x{state}>, tensor<{result}>
    }}"""


@needs("jax")
@pytest.mark.parametrize("seed", range(24))
def test_the_bits_are_those_of_xla(seed: int) -> None:
    rng = random.Random(seed)
    algorithm = rng.choice(("DEFAULT", "PHILOX", "THREE_FRY"))
    words = 2 if algorithm == "THREE_FRY" else rng.choice((2, 3))
    element = rng.choice(("ui8", "ui16", "ui32", "ui64"))
    shape = tuple(rng.choice((2, 4, 6, 8, 12, 5)) for _ in range(rng.choice((1, 2, 3))))
    lists = ", ".join(
        f"[{axis}]" if axis < 2 and size != 5 else "[]" for axis, size in enumerate(shape)
    )
    text = drawn(algorithm, words, shape, element, f"[{lists}]")
    state = [rng.choice((rng.getrandbits(64), LAST)) for _ in range(words)]
    module = sd.parse(text)
    checked = sd.compile(module).check(np.array(state, np.uint64), judge="xla")
    assert checked.passed, f"{text}\n{state}\n{checked}"


@pytest.mark.parametrize(
    ("algorithm", "shape", "element", "shard"),
    [
        ("PHILOX", (8, 16), "ui32", "4x8"),
        ("DEFAULT", (8, 6), "ui32", "4x6"),
        ("PHILOX", (6, 2), "ui64", "3x1"),
        ("THREE_FRY", (8, 5), "ui32", "4x5"),
        ("THREE_FRY", (6, 8), "ui64", "3x4"),
    ],
)
def test_a_device_computes_its_part_and_is_proven(
    algorithm: str, shape: tuple[int, ...], element: str, shard: str
) -> None:
    split = "[[0], [1]]" if shard[-1] != str(shape[1]) else "[[0], []]"
    module = sd.parse(drawn(algorithm, 2, shape, element, split))
    local = sd.run_pipeline(sd.parse(drawn(algorithm, 2, shape, element, split)), "spmd")
    assert not sd.communication(local).bytes_moved
    assert f"tensor<{shard}x{element}>" in sd.to_text(local)
    assert "x".join(map(str, shape)) not in sd.to_text(local).split("attributes", 1)[1]
    assert sd.prove(module, local).answer == "proven"


@needs("jax")
@pytest.mark.parametrize("state", ["ui32", "i32", "i64"])
@pytest.mark.parametrize(("algorithm", "words"), [("THREE_FRY", 2), ("PHILOX", 2), ("DEFAULT", 3)])
def test_a_state_of_other_integers_has_the_same_bits(
    state: str, algorithm: str, words: int
) -> None:
    given = np.array([7, LAST, 2**33 + 1][:words], np.uint64)
    expected = sd.compile(sd.parse(drawn(algorithm, words, (4, 6), "ui32")))(given)
    other = given.view(state.replace("u", "").replace("i", "uint" if state[0] == "u" else "int"))
    text = drawn(algorithm, len(other), (4, 6), "ui32", state=state)
    made = sd.compile(sd.parse(text))(other)
    for ours, theirs in zip(made, expected, strict=True):
        assert (np.asarray(ours).view(np.uint32) == np.asarray(theirs).view(np.uint32)).all()
    assert sd.compile(sd.parse(text)).check(other).passed


@pytest.mark.parametrize(
    ("algorithm", "words", "state"),
    [
        ("THREE_FRY", 4, "ui64"),
        ("PHILOX", 1, "ui64"),
        ("THREE_FRY", 3, "ui32"),
        ("PHILOX", 4, "ui16"),
    ],
)
def test_a_state_of_another_size_is_refused(algorithm: str, words: int, state: str) -> None:
    with pytest.raises(sd.ShardError, match=f"the state of .*{algorithm}.* where it takes 128"):
        sd.run_pipeline(sd.parse(drawn(algorithm, words, (4, 6), "ui32", state=state)), "spmd")
