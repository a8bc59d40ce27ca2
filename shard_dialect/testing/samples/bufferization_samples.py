"""Samples of `bufferization` ops on tensors, and of `ml_program`'s globals."""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.testing.random_draws import Draws
from shard_dialect.testing.sample import Sample, Tensor

_GLOBAL = "ml_program.global private mutable @x(dense<0.0> : {0}) : {0}\n"
_CONSTANT = "ml_program.global private @x(dense<2.0> : {0}) : {0}\n"


def _alloc_tensor(draws: Draws) -> Sample:
    x, op = draws.any(), "bufferization.alloc_tensor"
    if draws.chance(0.5):
        return Sample.of(op, [x], f"%r = {op}() copy(%0) : $0", [x])
    text = f"%e = {op}() : $0\n%r = linalg.exp ins(%0 : $0) outs(%e : $0) -> $r"
    return Sample.of(op, [x], text, [x])


def _materialize(draws: Draws) -> Sample:
    x, op = draws.any(), "bufferization.materialize_in_destination"
    text = f"%e = bufferization.alloc_tensor() : $0\n%r = {op} %0 in %e : ($0, $0) -> $r"
    return Sample.of(op, [x], text, [x])


def _buffer(op: str) -> Callable[[Draws], Sample]:
    """To a buffer, and back."""

    def draw(draws: Draws) -> Sample:
        x = draws.any(least=1)
        buffer = str(x).replace("tensor", "memref")
        text = (
            f"%b = bufferization.to_buffer %0 : $0 to {buffer}\n"
            f"%r = bufferization.to_tensor %b restrict : {buffer} to $r"
        )
        return Sample.of(op, [x], text, [x])

    return draw


def _global(op: str, text: str, declared: str = _GLOBAL) -> Callable[[Draws], Sample]:
    def draw(draws: Draws) -> Sample:
        x = Tensor(tuple(draws.size() for _ in range(draws.number(1, 2))))
        return Sample.of(op, [x], text, [x], declared.format(x))

    return draw


_STORE = "%a = math.exp %0 : $0\nml_program.global_store @x = %a : $0\n"
_LOAD = "%r = ml_program.global_load @x : $r"

SAMPLES: dict[str, Callable[[Draws], Sample]] = {
    "bufferization.alloc_tensor": _alloc_tensor,
    "bufferization.materialize_in_destination": _materialize,
    "bufferization.to_buffer": _buffer("bufferization.to_buffer"),
    "bufferization.to_tensor": _buffer("bufferization.to_tensor"),
    "ml_program.global_load": _global("ml_program.global_load", _STORE + _LOAD),
    "ml_program.global_store": _global("ml_program.global_store", _STORE + _LOAD),
    "ml_program.global_load_const": _global(
        "ml_program.global_load_const",
        "%c = ml_program.global_load_const @x : $r\n%r = arith.addf %0, %c : $r",
        _CONSTANT,
    ),
}

_GLOBALS = "nothing lowers globals of tensors"
NOT_RUN = {
    **dict.fromkeys(
        ("ml_program.global_load", "ml_program.global_store", "ml_program.global_load_const"),
        _GLOBALS,
    ),
    "bufferization.to_buffer": "a program is lowered from tensors alone",
    "bufferization.to_tensor": "a program is lowered from tensors alone",
}
JUMPS: set[str] = set()
MOVES = {"bufferization.materialize_in_destination"}
