"""StableHLO ops that need one or two dimensions whole, and treat the others as a batch.

    sort along 1          ([a, b]) -> ([a, b]) whole={b}
    batch_norm_training   ([a, b], [b], [b]) -> ([a, b], [b], [b]) whole={a}

Each line, matrix or feature is computed independently of the others.
"""

from __future__ import annotations

from shard_dialect.model import ShardingRule
from shard_dialect.ops.factors import Factors, Kind, Query
from shard_dialect.ops.op_record import Later, OpRecord
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.ops.stablehlo import arithmetic, data_movement
from shard_dialect.ops.stablehlo.attribute_reading import integer, integers, numbers, sorted_dim
from shard_dialect.ops.stablehlo.facets import expansion, python, sample


def triangular_solve(query: Query) -> ShardingRule | None:
    """Solves `op(a) x = b` or `x op(a) = b` for `x`; only batch dimensions pass.

    The factors are the dimension that `a` shares with `b`, the other dimension of `b` and `x`, and
    the dimension that `a` shares with `x`. For `x op(a) = b` the second one comes first.
    """
    factors = Factors(query)
    a, b = factors.operands
    first, last = len(a) - 2, len(a) - 1
    for dim in range(first):
        factors.add_to_all(dim, a[dim])
    is_left = query.op.attributes["left_side"].value
    transposed = numbers(query.op, "transpose_a", "TransposeAttr").value != "NO_TRANSPOSE"
    shared_b, shared_x = (last, first) if is_left == transposed else (first, last)
    side, other = (first, last) if is_left else (last, first)
    if not is_left:
        factors.add(b[other], (None, other), (other,), "need_replication")
    factors.add(a[shared_b], (shared_b, side), (), "need_replication")
    if is_left:
        factors.add(b[other], (None, other), (other,), "need_replication")
    factors.add(a[shared_x], (shared_x, None), (side,), "need_replication")
    return factors.rule()


def fft(query: Query) -> ShardingRule | None:
    """The transformed dimensions, the last ones, are whole; a real transform resizes the last."""
    factors = Factors(query)
    shape, result = factors.operands[0], factors.results[0]
    batch = len(shape) - len(integers(query.op, "fft_length"))
    for dim, size in enumerate(shape):
        kind: Kind = "passed" if dim < batch else "need_replication"
        factors.add_to_all(dim, size, kind, blocked=size != result[dim] and dim == len(shape) - 1)
    return factors.rule()


def sort(query: Query) -> ShardingRule | None:
    """The sorted dimension is whole, and blocked if there is only one line."""
    factors = Factors(query)
    shape = factors.operands[0]
    along = sorted_dim(query.op)
    is_alone = all(size == 1 for dim, size in enumerate(shape) if dim != along)
    for dim, size in enumerate(shape):
        if dim == along:
            factors.add_to_all(dim, size, "need_replication", blocked=is_alone)
        else:
            factors.add_to_all(dim, size)
    return factors.rule()


def batch_norm_inference(query: Query) -> ShardingRule | None:
    """All dimensions pass."""
    return _batch_norm(query, "passed")


def batch_norm(query: Query) -> ShardingRule | None:
    """Training, and its gradient: features pass, the elements of a feature are whole."""
    return _batch_norm(query, "need_replication")


def _batch_norm(query: Query, elements: Kind) -> ShardingRule | None:
    """The rule of a batch norm, whose vectors have one element per feature."""
    factors = Factors(query)
    feature = integer(query.op, "feature_index")
    shape = factors.operands[0]
    for dim, size in enumerate(shape):
        of_vector = 0 if dim == feature else None
        operands, results = (
            [dim if len(each) == len(shape) else of_vector for each in side]
            for side in (factors.operands, factors.results)
        )
        factors.add(size, operands, results, "passed" if dim == feature else elements)
    return factors.rule()


def rng(query: Query) -> ShardingRule | None:
    """All dimensions are whole, since a value drawn depends on its index."""
    factors = Factors(query)
    for dim, size in enumerate(factors.results[0]):
        factors.add(size, (), (dim,), "need_replication")
    return factors.rule()


def rng_bit_generator(query: Query) -> ShardingRule | None:
    """As `rng`; the generator's state is whole too."""
    factors = Factors(query)
    for dim, size in enumerate(factors.operands[0]):
        factors.add(size, (dim,), (dim, None), "need_replication", blocked=True)
    for dim, size in enumerate(factors.results[1]):
        factors.add(size, (), (None, dim), "need_replication")
    return factors.rule()


RECORDS: dict[str, OpRecord] = {
    **{
        f"batch_norm_{kind}": OpRecord(
            rule,
            sample=sample("batch_norm", kind),
            lowering=expansion(f"upstream_workarounds:{kind}"),
            operations=Later("ops.stablehlo.arithmetic:batch_norm", (count,)),
            traits=traits,
        )
        for kind, count, rule, traits in (
            ("grad", 10, batch_norm, Trait.SUMS),
            ("inference", 4, batch_norm_inference, Trait.VARIES),
            ("training", 7, batch_norm, Trait.SUMS),
        )
    },
    "cholesky": OpRecord(
        data_movement.of_matrices,
        loops=expansion("matrix_decompositions:cholesky"),
        operations=arithmetic.cholesky,
        python=python("cholesky"),
        traits=Trait.SUMS,
    ),
    "fft": OpRecord(
        fft,
        loops=expansion("fft:fft"),
        operations=arithmetic.fourier,
        python=python("fft"),
        traits=Trait.SUMS,
    ),
    "rng": OpRecord(rng, operations=arithmetic.random),
    "rng_bit_generator": OpRecord(
        rng_bit_generator,
        lowering=expansion("random_bits:rng_bit_generator"),
        operations=arithmetic.random,
    ),
    "sort": OpRecord(
        sort,
        loops=expansion("sort:sort"),
        operations=arithmetic.sort,
        python=python("sort", "sorting"),
        traits=Trait.MOVES | Trait.STEEP,
    ),
    "triangular_solve": OpRecord(
        triangular_solve,
        loops=expansion("matrix_decompositions:triangular_solve"),
        operations=arithmetic.triangular_solve,
        python=python("triangular_solve"),
        traits=Trait.SUMS,
    ),
}
