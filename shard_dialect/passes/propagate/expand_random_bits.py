"""Write the bits of a random generator as arithmetic on the positions of its result.

    %state, %bits = stablehlo.rng_bit_generator %0, algorithm = PHILOX : tensor<8x16xui32>

becomes, since Philox makes four numbers of each count,

    %i = positions in tensor<8x4x1xui64>, in order     one for each four numbers
    %a, %b, %c, %d = ten rounds of multiplications and exclusive ors of %0 + %i
    %bits = reshape of the four, concatenated to tensor<8x4x1x4xui32>, to tensor<8x16xui32>

so that each device draws its own part of what the unsharded program draws.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.walk import walk
from shard_dialect.passes.framework.base import Pass, is_imported, needs
from shard_dialect.passes.lower.expansions.random_bits import rng_bit_generator
from shard_dialect.passes.propagate.annotated_results import replace_annotated

_GENERATOR = "stablehlo.rng_bit_generator"


@needs(ops=(_GENERATOR,), forms=("annotated",), keeps=(is_imported,))
@dataclass(frozen=True)
class ExpandRandomBits(Pass):
    """Compute random bits from the positions of the result, so that each device draws its own."""

    name = "expand-random-bits"

    def rewrite(self, module: ir.Operation) -> None:
        """Rewrite the generators of functions in the annotated form."""
        for function in functions_of(module, "annotated"):
            for op in [each for each in walk(function) if _is_of_integers(each)]:
                with ir.InsertionPoint(op), op.location:
                    values = rng_bit_generator(op)
                    for result, value in zip(op.results, values, strict=True):
                        replace_annotated(ir.OpResult(result), value)
                op.erase()


def _is_of_integers(op: ir.Operation) -> bool:
    """Whether what an op draws are bits; of floats the specification does not say how they are."""
    return op.name == _GENERATOR and isinstance(op.results[1].type.element_type, ir.IntegerType)
