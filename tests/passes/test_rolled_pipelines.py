"""Loops that read a microbatch stay loops in a pipeline, and compute the same."""

from random import Random

import pytest

from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.testing.check_program import reference_of, run_and_check
from tests.extras import needs
from tests.programs.scanned_decoder import ScannedDecoder

OPTIONS = "stages=2 microbatches=4 arguments='0,1'"
X, W = "tensor<8x4xf32>", "tensor<4x4xf32>"


def pipeline(text: str, options: str) -> str:
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, f"pipeline{{{options}}}")
        return str(module)


def check(text: str, options: str) -> str:
    made = pipeline(text, options)
    outcome = run_and_check(made, "spmd,lower", reference=reference_of(text))
    assert outcome.verdict.passed, f"{outcome.verdict}\n{text}\n{options}\n{made}"
    return made


def drawn(seed: int) -> tuple[ScannedDecoder, str]:
    """A decoder, and options of `pipeline` for it."""
    draw = Random(seed)
    stages = draw.choice((2, 2, 3, 4))
    grid = draw.choice((f"{stages}x2", f"{stages}x2", f"{stages}x1"))
    decoder = ScannedDecoder.draw(draw, grid)
    counts = (2, 4) if decoder.split == "data" else (2, 4, 8)
    return decoder, (
        f"stages={stages} chunks={draw.choice((1, 1, 1, 2))} microbatches={draw.choice(counts)} "
        f"arguments='0,1' schedule={draw.choice(('gpipe', '1f1b', 'zero-bubble'))}"
    )


@pytest.mark.usefixtures("unoptimized")
@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")  # of idle stages
@pytest.mark.parametrize("seed", range(48))
@needs("jax")
def test_drawn_decoders_compute_the_same(seed: int) -> None:
    decoder, options = drawn(seed)
    check(decoder.text(), options)


INNER = f"""
shard.grid @g(shape = 2x2)
func.func @main(%x: {X}, %w: {W}, %v: {W}, %n: tensor<i32>) -> ({X}, {W}) {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : {W}
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({X}, {W}) -> {X}
  %1:3 = stablehlo.while(%i = %zero, %h = %0, %g = %z) : tensor<i32>, {X}, {W}
  cond {{
    %t = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  }} do {{
    %one = stablehlo.constant dense<1> : tensor<i32>
    %half = stablehlo.constant dense<0.5> : {X}
    %2 = stablehlo.multiply %h, %half : {X}
    %a = "mesh.annotate"(%2) {{sharding = #mesh.shard<@g, [[], [1]]>}} : ({X}) -> {X}
    %s = stablehlo.dot_general %a, %h, contracting_dims = [0] x [0] : ({X}, {X}) -> {W}
    %3 = stablehlo.add %g, %s : {W}
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %a, %3 : tensor<i32>, {X}, {W}
  }}
  %4 = stablehlo.dot_general %1#1, %v, contracting_dims = [1] x [0] : ({X}, {W}) -> {X}
  return %4, %1#2 : {X}, {W}
}}
"""


@needs("jax")
def test_a_loop_of_any_number_of_trips_stays() -> None:
    """It may be annotated inside, and add up what all microbatches make."""
    made = check(INNER, "stages=2 microbatches=4")
    inside = made.split("stablehlo.while")[2]
    assert "mesh.shard<@stage0, [[], [1]]>" in inside


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@needs("jax")
def test_the_text_does_not_grow_with_layers(schedule: str) -> None:
    lines = {
        len(pipeline(ScannedDecoder(layers=each, block=2).text(), options).splitlines())
        for each in (4, 8, 16)
        if (options := f"{OPTIONS} schedule={schedule}")
    }
    assert max(lines) - min(lines) < 20, lines  # shapes that are alike by chance


@needs("jax")
def test_the_text_does_not_grow_with_blocks() -> None:
    lines = {
        len(pipeline(ScannedDecoder(layers=2, block=each).text(), OPTIONS).splitlines())
        for each in (1, 2, 4)
    }
    assert max(lines) - min(lines) < 20, lines  # shapes that are alike by chance


@pytest.mark.parametrize("words", [16, 64, 128])
@needs("jax")
def test_a_head_of_much_work_leaves_no_stage_idle(words: int) -> None:
    """What it does in the backward pass is no part of what is divided: else there is a warning."""
    text = ScannedDecoder(layers=16, words=words, grid="8x1").text()
    pipeline(text, "stages=8 microbatches=4 arguments='0,1'")
