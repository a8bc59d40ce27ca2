"""The interface of a compiled unsharded program, whichever judge runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from shard_dialect.abi.lowered_program import tensor_type
from shard_dialect.abi.tensor_types import Array, TensorType
from shard_dialect.ir.bindings import ir
from shard_dialect.runtime.checking.reference import rounding
from shard_dialect.runtime.checking.tolerance import is_float, is_narrow, perturbed

Execute = Callable[[Sequence[Array]], Sequence[Array]]
"""Takes all arguments of a function, and returns its results."""


@dataclass(frozen=True)
class Compiled:
    """A program that a judge has compiled, and the judge's name."""

    judge: str
    execute: Execute
    in_f64: Callable[[], Execute] | None = None
    """Compiles the same program with 64 bits for each float. Raises `CannotJudge`."""


class CannotJudge(Exception):
    """Raised by a judge that cannot run a program; the message says why, as a phrase."""


@dataclass(frozen=True)
class Reference:
    """A compiled unsharded program.

    `factors` are the types of the arguments that follow the program's own: values that may be
    rounded differently are multiplied by these (`rounding`).
    """

    compiled: Compiled
    arguments: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    factors: tuple[TensorType, ...]

    @property
    def judge(self) -> str:
        """The judge's name, as it is reported."""
        return self.compiled.judge

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The program's results for global inputs."""
        return list(self.compiled.execute([*inputs, *rounding.ones(self.factors)]))

    def run_in_f64(self, inputs: Sequence[Array]) -> list[Array] | None:
        """The results with 64 bits for each float; `None` where the judge has no such program."""
        if self.compiled.in_f64 is None:
            return None
        try:
            execute = self.compiled.in_f64()
        except CannotJudge:
            return None
        return list(execute(list(map(_in_f64, (*inputs, *rounding.ones(self.factors))))))

    @property
    def takes_wide(self) -> bool:
        """Whether there are values that `run_nearby` can perturb."""
        arrays = [each.dtype for each in (*self.arguments, *self.factors)]
        return any(is_float(each) and not is_narrow(each) for each in arrays)

    def takes_narrow(self, *, move_inputs: bool) -> bool:
        """Whether there are values that `run_rounding_otherwise` can perturb."""
        arrays = (*self.factors, *(self.arguments if move_inputs else ()))
        return any(is_narrow(each.dtype) for each in arrays)

    def run_nearby(self, inputs: Sequence[Array], seed: int, units: int) -> list[Array]:
        """The results with floats of 32 and 64 bits perturbed by up to `units` in the last place.

        These are the inputs, and the values that have factors.
        """
        arrays = [*inputs, *rounding.ones(self.factors)]
        # Each by itself: if all moved alike, the difference of two would not move.
        moved = [perturbed(each, (seed, number), units) for number, each in enumerate(arrays)]
        return list(self.compiled.execute(moved))

    def run_rounding_otherwise(
        self, inputs: Sequence[Array], seed: int, *, move_inputs: bool
    ) -> list[Array]:
        """The results with some values of 16 bits rounded to a neighbour.

        With `move_inputs` the inputs of 16 bits are perturbed, too.
        """
        arrays = rounding.perturbed_floats(inputs, seed) if move_inputs else inputs
        factors = rounding.perturbed_floats(rounding.ones(self.factors), seed + 1)
        return list(self.compiled.execute([*arrays, *factors]))


def _in_f64(array: Array) -> Array:
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    return array.astype(np.float64) if is_float(array.dtype) else array


def boundary_types(function: ir.Operation) -> tuple[list[TensorType], list[TensorType]]:
    """The types of a function's arguments and results. Raises `CannotJudge` for others."""
    type_ = function.attributes["function_type"].value

    def typed(each: ir.Type) -> TensorType:
        if not isinstance(each, ir.RankedTensorType) or not each.has_static_shape:
            raise CannotJudge(f"a judge runs functions on tensors of static shape, not on a {each}")
        return tensor_type(each)

    return [typed(each) for each in type_.inputs], [typed(each) for each in type_.results]
