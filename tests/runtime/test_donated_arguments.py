"""Arguments that a caller gives away are in the arena, and other buffers follow in their places."""

import random
import re
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.abi.lowered_program import find_function
from shard_dialect.backends.cpu import machine_code
from shard_dialect.backends.cpu.arena import Arena, _placed, _Span, use_arena
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.mesh.attributes import DONATED
from shard_dialect.ir.reading.source import Source
from shard_dialect.runtime.executable import Alone, Executable, Memory

SIZE, COUNT = 64, 6
MATRIX = f"tensor<{SIZE}x{SIZE}xf32>"
GIVEN = ", ".join(f"%saved{n}: {MATRIX} {{{DONATED}}}" for n in range(COUNT))
BACKWARD = "\n".join(
    (
        f"func.func @main(%y0: {MATRIX}, {GIVEN}) -> {MATRIX} {{",
        *(
            f"%y{n + 1} = stablehlo.dot %y{n}, %saved{n} : ({MATRIX}, {MATRIX}) -> {MATRIX}"
            for n in range(COUNT)
        ),
        f"return %y{COUNT} : {MATRIX} }}",
    )
)
MATRICES = ", ".join([MATRIX] * COUNT)
FORWARD = "\n".join(
    (
        f"func.func @main(%x: {MATRIX}) -> ({MATRICES}) {{",
        *(f"%c{n} = stablehlo.constant dense<{n}.0> : {MATRIX}" for n in range(COUNT)),
        *(f"%y{n} = stablehlo.add %x, %c{n} : {MATRIX}" for n in range(COUNT)),
        f"return {', '.join(f'%y{n}' for n in range(COUNT))} : {MATRICES} }}",
    )
)


def compiled(text: str) -> Executable:
    module = sd.parse(text)
    sd.run_pipeline(module, "spmd,lower")
    return Executable(module, "main")


@pytest.fixture
def arenas(monkeypatch: pytest.MonkeyPatch) -> list[Arena]:
    found: list[Arena] = []

    def noticed(function: Any) -> Arena:
        found.append(use_arena(function))
        return found[-1]

    monkeypatch.setattr(machine_code, "use_arena", noticed)
    return found


def test_buffers_share_memory_only_if_one_ends_before_the_other_begins(arenas: list[Arena]) -> None:
    compiled(BACKWARD)
    (arena,) = arenas
    assert [number for number, _ in arena.donated] == [6, 5, 4, 3, 2, 1]
    for a, b in combinations(arena.buffers, 2):
        at_once = a.first <= b.last and b.first <= a.last
        overlap = a.offset < b.offset + b.bytes and b.offset < a.offset + a.bytes
        assert not (at_once and overlap)
    compiled(re.sub(rf" {{{re.escape(DONATED)}}}", "", BACKWARD))
    held = COUNT * SIZE * SIZE * 4
    assert arena.bytes < held + arenas[1].bytes


def test_a_program_computes_where_another_one_has_left_its_results() -> None:
    forward, backward = compiled(FORWARD), compiled(BACKWARD)
    x, y = (np.random.default_rng(n).random((SIZE, SIZE), np.float32) / SIZE for n in (0, 1))
    expected = y
    for n in range(COUNT):
        expected = expected @ (x + n)
    (elsewhere,) = backward.run([y, *(x + n for n in range(COUNT))], Alone())
    np.testing.assert_allclose(elsewhere, expected, rtol=1e-4)
    forward.hand_over(backward, {n: n + 1 for n in range(COUNT)})
    for _ in range(2):
        saved = forward.run([x], Alone())
        start = saved[0].__array_interface__["data"][0] - dict(backward.code.donated)[1]
        assert Memory.at(start, backward.code.arena) is not None
        copies = [each.copy() for each in saved]
        (there,) = backward.run([y, *saved], Alone())
        np.testing.assert_array_equal(there, elsewhere)
        assert any((a != b).any() for a, b in zip(saved, copies, strict=True))
        (mixed,) = backward.run([y, *copies[:3], *(x + n for n in range(3, COUNT))], Alone())
        np.testing.assert_array_equal(mixed, elsewhere)
    del saved
    assert Memory.at(start, backward.code.arena) is None


@pytest.mark.parametrize("seed", range(20))
def test_places_are_apart_and_take_little(seed: int) -> None:
    draw = random.Random(seed)
    spans = []
    for _ in range(draw.randint(1, 60)):
        first, length = draw.randint(0, 50), draw.randint(0, 20)
        size = draw.choice([64, 128, 640, 4096])
        spans.append(_Span(None, (), size, first * 2, (first + length) * 2 + 1))
    total, offsets = _placed(spans)
    live = 0
    for one, at in zip(spans, offsets, strict=True):
        assert 0 <= at <= total - one.size
        beside = [
            (other.size, begin)
            for other, begin in zip(spans, offsets, strict=True)
            if other is not one and other.first < one.last and other.last > one.first
        ]
        assert all(begin >= at + one.size or begin + size <= at for size, begin in beside)
        live = max(live, sum(each.size for each in spans if each.first <= one.first < each.last))
    assert live <= total <= 1.5 * live


def test_a_buffer_lives_from_the_first_access_and_not_from_a_view() -> None:
    text = """
    func.func private @use(memref<64xf32>)
    func.func @main() {
      %a = memref.alloc() : memref<64xf32>
      %b = memref.alloc() : memref<8x8xf32>
      %v = memref.collapse_shape %b [[0, 1]] : memref<8x8xf32> into memref<64xf32>
      func.call @use(%a) : (memref<64xf32>) -> ()
      func.call @use(%v) : (memref<64xf32>) -> ()
      memref.dealloc %a : memref<64xf32>
      memref.dealloc %b : memref<8x8xf32>
      return
    }"""
    with make_context(), ir.Location.unknown():
        module = Source.of(text).parse()
        arena = use_arena(find_function(module.operation, "main"))
    assert len(arena.buffers) == 2
    assert arena.bytes == 64 * 4
