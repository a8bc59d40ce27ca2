"""Samples of `bufferization` ops on tensors, and of `ml_program`'s globals."""

from __future__ import annotations

from shard_dialect.testing.random_draws import Draws
from shard_dialect.testing.sample import Sample, Tensor

_GLOBAL = "ml_program.global private mutable @x(dense<0.0> : {0}) : {0}\n"
_CONSTANT = "ml_program.global private @x(dense<2.0> : {0}) : {0}\n"


def alloc_tensor(draws: Draws) -> Sample:
    x, op = draws.any(), "bufferization.alloc_tensor"
    if draws.chance(0.5):
        return Sample.of(op, [x], f"%r = {op}() copy(%0) : $0", [x])
    text = f"%e = {op}() : $0\n%r = linalg.exp ins(%0 : $0) outs(%e : $0) -> $r"
    return Sample.of(op, [x], text, [x])


def materialize(draws: Draws) -> Sample:
    x, op = draws.any(), "bufferization.materialize_in_destination"
    text = f"%e = bufferization.alloc_tensor() : $0\n%r = {op} %0 in %e : ($0, $0) -> $r"
    return Sample.of(op, [x], text, [x])


def buffer(op: str, draws: Draws) -> Sample:
    """To a buffer, and back."""
    x = draws.any(least=1)
    made = str(x).replace("tensor", "memref")
    text = (
        f"%b = bufferization.to_buffer %0 : $0 to {made}\n"
        f"%r = bufferization.to_tensor %b restrict : {made} to $r"
    )
    return Sample.of(op, [x], text, [x])


def global_(op: str, draws: Draws) -> Sample:
    """A load of a global, after it has been stored, if it is not constant."""
    x = Tensor(tuple(draws.size() for _ in range(draws.number(1, 2))))
    if op.endswith("const"):
        text = "%c = ml_program.global_load_const @x : $r\n%r = arith.addf %0, %c : $r"
        return Sample.of(op, [x], text, [x], _CONSTANT.format(x))
    text = (
        "%a = math.exp %0 : $0\nml_program.global_store @x = %a : $0\n"
        "%r = ml_program.global_load @x : $r"
    )
    return Sample.of(op, [x], text, [x], _GLOBAL.format(x))
