"""Samples of StableHLO's ops that read or write at computed indices."""

from __future__ import annotations

from shard_dialect.testing.random_draws import Draws, listed
from shard_dialect.testing.sample import Sample, Tensor
from shard_dialect.testing.samples.stablehlo_text import IDENTITIES, hlo, joining

_SECOND = "\n^bb0(%x: tensor<f32>, %y: tensor<f32>):\nstablehlo.return %y : tensor<f32>\n"


def _table(draws: Draws) -> tuple[Tensor, Tensor, int, int, Tensor]:
    """A table, indices into a dimension of it, which one, how many at once, and the result."""
    table = draws.any(least=1)
    dim = draws.dim(table)
    batch = [draws.size() for _ in range(draws.number(1, 1 if len(table.shape) > 2 else 2))]
    count = draws.pick(1, 1, 1, min(2, table.shape[dim]))
    read = table.sized(dim, count) if count > 1 else table.without(dim)
    return table, Tensor((*batch, 1), "i32"), dim, count, Tensor((*batch, *read.shape))


def gather(draws: Draws) -> Sample:
    table, indices, dim, count, result = _table(draws)
    batch = len(indices.shape) - 1
    window = list(range(batch, len(result.shape)))
    attributes = (
        f"dimension_numbers = #stablehlo.gather<offset_dims = {window}, "
        f"collapsed_slice_dims = {[dim] if count == 1 else []}, start_index_map = [{dim}], "
        f"index_vector_dim = {batch}>, slice_sizes = {listed(table.sized(dim, count).shape)}"
    )
    return hlo("gather", [table, indices], [result], attributes)


def scatter(draws: Draws) -> Sample:
    table, indices, dim, count, update = _table(draws)
    batch = len(indices.shape) - 1
    attributes = (
        "scatter_dimension_numbers = #stablehlo.scatter<"
        f"update_window_dims = {list(range(batch, len(update.shape)))}, "
        f"inserted_window_dims = {[dim] if count == 1 else []}, "
        f"scatter_dims_to_operand_dims = [{dim}], index_vector_dim = {batch}>"
    )
    name, element = draws.pick(*IDENTITIES)
    region = joining(name, element)
    if draws.chance(0.3):
        region, element = _SECOND, "f32"
    table, update = table.of(element), update.of(element)
    return hlo("scatter", [table, indices, update], [table], attributes, region)


def _slice_of(draws: Draws) -> tuple[Tensor, Tensor, list[Tensor]]:
    """A tensor, one that is a part of it, and where it begins."""
    x = draws.any(least=1)
    slice_ = Tensor(tuple(draws.pick(size, draws.number(1, size)) for size in x.shape))
    return x, slice_, [Tensor((), "i32")] * len(x.shape)


def dynamic_slice(draws: Draws) -> Sample:
    x, slice_, positions = _slice_of(draws)
    attributes = f"slice_sizes = {listed(slice_.shape)}"
    return hlo("dynamic_slice", [x, *positions], [slice_], attributes)


def dynamic_update_slice(draws: Draws) -> Sample:
    x, slice_, positions = _slice_of(draws)
    return hlo("dynamic_update_slice", [x, slice_, *positions], [x])
