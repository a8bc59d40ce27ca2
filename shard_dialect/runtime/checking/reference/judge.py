"""What the unsharded program gives, by whoever runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shard_dialect.codegen.array_types import Array, TensorType, dtype_of
from shard_dialect.ir.bindings import ir
from shard_dialect.runtime.checking.reference import rounding
from shard_dialect.runtime.checking.tolerance import is_float, is_narrow, perturbed

Execute = Callable[[Sequence[Array]], Sequence[Array]]
"""Takes all arguments of a function, and gives its results."""


class CannotJudge(Exception):
    """The reason why an executor does not run a program, in a phrase."""


@dataclass(frozen=True)
class Reference:
    """An unsharded program, compiled.

    `factors` are the types of the arguments that come after the program's own, by which what may be
    rounded otherwise is multiplied (`rounding`).
    """

    judge: str
    """Who runs it, as it is reported."""
    arguments: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    factors: tuple[TensorType, ...]
    execute: Execute

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """What the program gives for global inputs."""
        return list(self.execute([*inputs, *rounding.ones(self.factors)]))

    @property
    def takes_wide(self) -> bool:
        """Whether there is anything for `run_nearby` to move."""
        given = [each.dtype for each in (*self.arguments, *self.factors)]
        return any(is_float(each) and not is_narrow(each) for each in given)

    def takes_narrow(self, *, move_inputs: bool) -> bool:
        """Whether there is anything for `run_rounding_otherwise` to move."""
        given = (*self.factors, *(self.arguments if move_inputs else ()))
        return any(is_narrow(each.dtype) for each in given)

    def run_nearby(self, inputs: Sequence[Array], seed: int, units: int) -> list[Array]:
        """The same with floats of 32 and 64 bits moved by up to `units` in the last place.

        Those that come in, and those that have factors.
        """
        given = [*inputs, *rounding.ones(self.factors)]
        return list(self.execute([perturbed(each, seed, units) for each in given]))

    def run_rounding_otherwise(
        self, inputs: Sequence[Array], seed: int, *, move_inputs: bool
    ) -> list[Array]:
        """The same with elements of 16 bits rounded to neighbours here and there.

        With `move_inputs` the inputs of 16 bits, too.
        """
        given = rounding.moved(inputs, seed) if move_inputs else inputs
        factors = rounding.moved(rounding.ones(self.factors), seed + 1)
        return list(self.execute([*given, *factors]))


def boundary_types(function: ir.Operation) -> tuple[list[TensorType], list[TensorType]]:
    """Those of a function's arguments and results. Raises a `ShardError` for elements not run."""
    type_ = function.attributes["function_type"].value

    def typed(each: ir.Type) -> TensorType:
        if not isinstance(each, ir.RankedTensorType) or not each.has_static_shape:
            raise CannotJudge(f"it runs no function on a {each}")
        return TensorType(tuple(each.shape), dtype_of(each.element_type))

    return [typed(each) for each in type_.inputs], [typed(each) for each in type_.results]
