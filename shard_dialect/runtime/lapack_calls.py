"""Calls of LAPACK from compiled code, by scipy: matrix decompositions, which StableHLO lacks.

    %v, %w, %info = stablehlo.custom_call @lapack_ssyevd_ffi(%a) {mhlo.backend_config = {
        mode = 86 : ui8, uplo = 76 : ui8}, ...}

The routines are those of emitted programs (`backends.python.written.with_lapack`). Options are
letters by their codes. A routine is called for one matrix of the batch after the other.
Where JAX would have a routine decompose a matrix with infinite elements or NaN, which may never
end, the results are NaN and `info` is 1: JAX makes NaN of what failed.

Source: the names, options and results of jaxlib's LAPACK calls, `jax/_src/lax/linalg.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from shard_dialect.abi.tensor_types import Array
from shard_dialect.errors import ShardError
from shard_dialect.ops.library_calls import function_of, letter_of, options_read, routine_of


def call_lapack(
    target: str, text: str, operands: Sequence[Array], results: Sequence[Array]
) -> None:
    """Compute `results`; raises a `ShardError` without scipy."""
    name = routine_of(target)
    assert name is not None, "other calls are refused before"
    try:
        from shard_dialect.backends.python.written import with_lapack as routines
    except ImportError:
        raise ShardError("the program calls LAPACK: pip install scipy") from None
    call = partial(routines.by_scipy, letter_of(operands[0].dtype))
    routine = getattr(routines, function_of(name))
    try:
        routines.on_each_matrix(routine, call, options_read(text), operands, results)
    except ValueError as error:
        raise ShardError(str(error)) from None
