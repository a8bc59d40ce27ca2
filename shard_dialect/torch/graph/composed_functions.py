"""Functions of torch that a trace replaces by others, so that torch derives them, too.

embedding_bag(i, w)     ->   embedding(i, w).mean(1)
x.cumprod(d)            ->   x * shifted(x, 1), of that times it shifted by 2, by 4, ...
_grouped_mm(a, b, ends) ->   for each row of a, the product with the matrix of its group
histc(x, bins, ...)     ->   of each bin, how many elements are in it
ctc_loss(p, ...)        ->   at each time, the log of the sum of the ways to each label
lstsq(a, b)             ->   pinv(a) @ b
cdist(a, b)             ->   norms of all differences
lstm(x, ..., dropout)   ->   layer by layer, with the dropout that torch's decomposition forgets
pack_padded_sequence    ->   a lookup of the elements, by lengths that a program is for
adaptive_max_pool2d     ->   max of windows, as long as the longest one
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import torch
from torch._decomp import decompositions as _decompositions
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from shard_dialect.errors import ShardError
from shard_dialect.torch.graph import higher_order_ops
from shard_dialect.torch.graph.orders import scanned
from shard_dialect.torch.graph.tensor_trees import Tensor


def average_from_the_first(module: Any) -> None:
    """Let batch norms without a momentum read how many batches there were in the program.

    torch's forward reads a number. To be called where attributes are set back afterwards.
    """
    for each in module.modules():
        is_norm = isinstance(each, torch.nn.modules.batchnorm._BatchNorm)
        if is_norm and each.momentum is None and each.training and each.track_running_stats:
            each.forward = partial(_batch_norm, each)


def _batch_norm(own: Any, x: Tensor) -> Tensor:
    own._check_input_dim(x)
    own.num_batches_tracked.add_(1)
    with torch.no_grad():
        dims = [dim for dim in range(x.dim()) if dim != 1]
        for running, now in (
            (own.running_mean, x.mean(dims)),
            (own.running_var, x.var(dims, correction=1)),
        ):
            running.add_((now - running) / own.num_batches_tracked)
    return torch.nn.functional.batch_norm(
        x, None, None, own.weight, own.bias, training=True, eps=own.eps
    )


class ComposedFunctions(TorchFunctionMode):  # type: ignore[misc]
    """Within a `with` block, torch's functions of the table are ours."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """As the base class does."""
        if func in higher_order_ops.FUNCTIONS:
            with ComposedFunctions():  # in the functions that it is given, too
                return higher_order_ops.FUNCTIONS[func](*args, **(kwargs or {}))
        ours = _OURS.get(func)
        if ours is None:
            return func(*args, **(kwargs or {}))
        named = {_NAMES.get(name, name): each for name, each in (kwargs or {}).items()}
        if torch.is_autocast_enabled("cpu") and getattr(func, "__name__", "") in _IN_F32:
            args, named = pytree.tree_map(_in_f32, (args, named))
            with torch.autocast("cpu", enabled=False):
                return ours(*args, **named)
        return ours(*args, **named)


_NAMES = {"input": "x", "min": "low", "max": "high"}
"""torch's names of arguments that are Python's names of functions, and ours."""


_IN_F32 = {
    *("cdist", "ctc_loss", "grid_sample", "grid_sampler", "linalg_lstsq"),
    *("multilabel_margin_loss", "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices"),
}
"""The names of those that torch's autocast computes in f32."""


def _in_f32(each: Any) -> Any:
    is_narrow = isinstance(each, torch.Tensor) and each.dtype in (torch.bfloat16, torch.float16)
    return each.float() if is_narrow else each


def _embedding_bag(
    x: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    if max_norm is not None or scale_grad_by_freq:
        raise ShardError("embedding_bag with max_norm or scale_grad_by_freq is not supported")
    found = torch.nn.functional.embedding(x, weight)
    is_kept = torch.ones_like(x, dtype=torch.bool)
    if padding_idx is not None:
        is_kept = x != padding_idx % weight.shape[0]
    if offsets is None:
        found, in_bag = found.unsqueeze(1), is_kept.unsqueeze(1)  # bags, 1, elements
    else:
        starts = offsets[:-1] if include_last_offset else offsets
        place = torch.arange(x.shape[0])
        last = (place.unsqueeze(1) >= starts.unsqueeze(0)).sum(1) - 1
        in_bag = (last.unsqueeze(0) == torch.arange(starts.shape[0]).unsqueeze(1)) & is_kept
        if include_last_offset:
            in_bag = in_bag & (place < offsets[-1])
        in_bag, found = in_bag.unsqueeze(1), found.unsqueeze(0).unsqueeze(0)
    share = in_bag.unsqueeze(-1)
    if mode == "max":
        low = torch.where(share, found, float("-inf")).amax(-2)
        return torch.where(share.any(-2), low, 0.0).squeeze(1)
    scale = share.to(found.dtype)
    if per_sample_weights is not None:
        weights = per_sample_weights
        scale = scale * (weights.unsqueeze(1) if offsets is None else weights).unsqueeze(-1)
    total = (found * scale).sum(-2).squeeze(1)
    if mode == "sum":
        return total
    return total / share.sum(-2).squeeze(1).clamp(min=1).to(total.dtype)


def _cumprod(x: Tensor, dim: int, *, dtype: Any = None, out: Any = None) -> Tensor:
    is_whole = not (x.is_floating_point() or x.is_complex())
    found = x.to(dtype or (torch.int64 if is_whole else x.dtype))
    return scanned(torch.mul, found, dim, 1) if found.dim() else found.clone()


def grouped_mm(
    a: Tensor, b: Tensor, offs: Tensor | None = None, bias: Any = None, out_dtype: Any = None
) -> Tensor:
    """Of rows in groups, whose ends are `offs`, the products with the matrices of the groups."""
    if offs is None:
        found = torch.bmm(a, b)
    elif a.dim() == 2 and b.dim() == 3:
        found = torch.einsum("et,tk,ekn->tn", _groups(a.shape[0], offs, a.dtype), a, b)
    elif a.dim() == 3 and b.dim() == 2:
        found = torch.einsum("et,emk,kt->mt", _groups(b.shape[1], offs, a.dtype), a, b)
    else:
        found = torch.einsum("et,kt,tn->ekn", _groups(a.shape[1], offs, a.dtype), a, b)
    found = found if bias is None else found + bias
    return found if out_dtype is None else found.to(out_dtype)


def _layer_by_layer(op: Any) -> Callable[..., Any]:
    """An op of recurrent layers, of which one with a dropout is several of one layer."""

    def composed(x: Tensor, *args: Any) -> Any:
        at = 1 if isinstance(args[2], bool) else 2  # behind the states: the sizes of packed batches
        *sizes, states = args[:at]
        weights, biased, layers, share, trains, both_ways, *batch_first = args[at:]
        if not (share and trains and layers > 1):
            return op(x, *args)
        is_tuple = isinstance(states, (tuple, list))
        each, ways = len(weights) // layers, 1 + both_ways
        x, ends = (x.transpose(0, 1) if any(batch_first) else x), []
        for layer in range(layers):
            own = [
                state.narrow(0, layer * ways, ways) for state in (states if is_tuple else [states])
            ]
            given = weights[layer * each : (layer + 1) * each], biased, 1, 0.0, trains, both_ways
            first = tuple(own) if is_tuple else own[0]
            x, *end = op(x, *sizes, first, *given, *(False for _ in batch_first))
            x = torch.dropout(x, share, True) if layer < layers - 1 else x
            ends.append(end)
        x = x.transpose(0, 1) if any(batch_first) else x
        return (x, *(torch.cat(parts) for parts in zip(*ends, strict=True)))

    return composed


def _groups(count: int, ends: Tensor, dtype: Any) -> Tensor:
    """`[groups, rows]`: 1 where a row is in a group, whose ends are given."""
    row = torch.arange(count).unsqueeze(0)
    ends = ends.unsqueeze(1)
    begins = torch.nn.functional.pad(ends[:-1], (0, 0, 1, 0))
    return ((row >= begins) & (row < ends)).to(dtype)


def _histc(x: Tensor, bins: int = 100, low: float = 0, high: float = 0) -> Tensor:
    flat = x.reshape(-1, 1)
    lowest: Any = low
    highest: Any = high
    if low == high:
        lowest, highest = x.min(), x.max()
        is_one = lowest == highest
        lowest, highest = lowest - is_one.to(x.dtype), highest + is_one.to(x.dtype)
    place = ((flat - lowest) * (bins / (highest - lowest))).floor().clamp(max=bins - 1)
    inside = (flat >= lowest) & (flat <= highest)
    counts = ((place == torch.arange(bins)) & inside).sum(0)
    return counts.to(x.dtype)


def _cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    return torch.linalg.vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)


def _grid_sampler(x: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Tensor:
    if x.dim() != 4:
        return torch.ops.aten.grid_sampler_3d(x, grid, mode, padding, align_corners)
    return _decompositions._grid_sampler_2d(
        x, grid, mode, padding, align_corners, _expand_grid=False
    )


def _grid_sample(
    x: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    at = _MODES.index(mode), _PADDINGS.index(padding_mode)
    return _grid_sampler(x, grid, *at, bool(align_corners))


_MODES, _PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
"""As torch numbers them."""
_NEVER = -1e30
"""The logarithm of no chance, whose derivatives are numbers."""


def _ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    is_one = log_probs.dim() == 2
    if is_one:
        log_probs, targets = log_probs.unsqueeze(1), targets.reshape(1, -1)
    times, count, _ = log_probs.shape
    inputs, lengths = (
        torch.as_tensor(each, dtype=torch.int64).reshape(-1).expand(count)
        for each in (input_lengths, target_lengths)
    )
    targets = _rows(targets.to(torch.int64), lengths)
    labels = torch.stack((torch.full_like(targets, blank), targets), -1).flatten(1)
    labels = torch.nn.functional.pad(labels, (0, 1), value=blank)  # a blank around each
    before = torch.nn.functional.pad(labels, (2, 0), value=blank)[:, :-2]
    skips = (labels != blank) & (labels != before)
    place = torch.arange(labels.shape[1])
    ways = torch.where(place < 2, log_probs[0].gather(1, labels), _NEVER)
    for time in range(1, times):
        steps = torch.nn.functional.pad(ways, (2, 0), value=_NEVER)
        two = torch.where(skips, steps[:, :-2], _NEVER)
        found = torch.stack((ways, steps[:, 1:-1], two)).logsumexp(0)
        found = found + log_probs[time].gather(1, labels)
        ways = torch.where((time < inputs).unsqueeze(1), found, ways)
    ends = 2 * lengths.unsqueeze(1)
    is_end = (place == ends) | (place == ends - 1)
    loss = -torch.where(is_end, ways, _NEVER).logsumexp(1)
    # torch's derivative takes the probabilities to be a softmax.
    chances = log_probs.exp() - log_probs.exp().detach()
    inside = torch.arange(times).unsqueeze(1) < inputs
    loss = loss + torch.where(inside, chances.sum(2), 0.0).sum(0)
    loss = torch.where(loss > -_NEVER / 2, 0.0 if zero_infinity else float("inf"), loss)
    if reduction == "mean":
        return (loss / lengths.clamp(min=1)).mean()
    return loss.sum() if reduction == "sum" else loss[0] if is_one else loss


def _rows(targets: Tensor, lengths: Tensor) -> Tensor:
    """`[rows, longest]`, of targets that may stand one after the other."""
    if targets.dim() == 2:
        return targets
    place = (lengths.cumsum(0) - lengths).unsqueeze(1) + torch.arange(targets.shape[0])
    return targets[place.clamp(max=targets.shape[0] - 1)]


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    others = [each for each in range(v.dim()) if each != dim % v.dim()] if dim != -1 else []
    squares = v.square().sum(others or None, keepdim=bool(others))
    return v * (g / squares.sqrt())


def _in_range(x: torch.Tensor, high: int) -> torch.Tensor:
    return x.clone()


in_range = torch.library.custom_op("shard_dialect::in_range", _in_range, mutates_args=())
"""The operand, whose elements have to be in 0 ... `high - 1`."""
in_range.register_fake(lambda x, high: torch.empty_like(x))


def _one_hot(x: Tensor, num_classes: int = -1) -> Tensor:
    if num_classes < 0:
        num_classes = int(x.max()) + 1
    return (in_range(x, num_classes).unsqueeze(-1) == torch.arange(num_classes)).to(torch.int64)


def _pack(x: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """The elements of all sequences at the first time, then of those that have a second, ..."""
    rows = x if batch_first else x.transpose(0, 1)
    ends = lengths.tolist()
    if ends != sorted(ends, reverse=True) or not ends[-1] > 0:
        raise ValueError(f"lengths have to be greater than 0 and in decreasing order: {ends}")
    counts = _counts_of(ends)
    size = rows.shape[1]
    places = [row * size + time for time, count in enumerate(counts) for row in range(count)]
    return rows.flatten(0, 1)[torch.tensor(places)], torch.tensor(counts)


def _pad_packed(
    data: Tensor, sizes: Tensor, batch_first: bool, value: float, length: int
) -> tuple[Tensor, Tensor]:
    counts = sizes.tolist()
    ends = _counts_of(counts)
    starts = [sum(counts[:time]) for time in range(len(counts))]
    times = max(length, len(counts))
    # After the end of a sequence, its first element stands for the value.
    places = [
        [starts[time] + row if time < end else row for time in range(times)]
        for row, end in enumerate(ends)
    ]
    ends_, is_there = torch.tensor(ends), torch.arange(times) < torch.tensor(ends).unsqueeze(1)
    found = data[torch.tensor(places)]
    is_there = is_there.reshape(is_there.shape + (1,) * (found.dim() - 2))
    found = torch.where(is_there, found, value)
    return (found if batch_first else found.transpose(0, 1)), ends_


def _counts_of(ends: Sequence[int]) -> list[int]:
    """Of decreasing numbers, how many are larger than 0, than 1, ..."""
    return [sum(end > time for end in ends) for time in range(max(ends))]


def _adaptive_max(rank: int, with_indices: bool) -> Callable[..., Any]:
    """The largest element of each window, and where it is in the image: of equal ones the first."""

    def composed(x: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        outer, image = x.dim() - rank, x.shape[-rank:]
        sizes = output_size if isinstance(output_size, Sequence) else [output_size] * rank
        sizes = [size if size else own for size, own in zip(sizes, image, strict=True)]
        place = torch.arange(image.numel()).reshape(image)
        for number, (before, after) in enumerate(zip(image, sizes, strict=True)):
            window = _windows(before, after)
            x, place = (
                each.index_select(dim, window.flatten()).unflatten(dim, window.shape)
                for each, dim in ((x, outer + 2 * number), (place, 2 * number))
            )
        largest, number = _windows_last(x, rank).max(-1)
        place = _windows_last(place, rank).expand((*largest.shape, -1))
        place = place.gather(-1, number.unsqueeze(-1)).squeeze(-1)
        return (largest, place) if with_indices or return_indices else largest

    return composed


def _windows(before: int, after: int) -> Tensor:
    """`[after, longest]`: the elements of each window, and its last one again."""
    ends = [
        (number * before // after, -(-(number + 1) * before // after)) for number in range(after)
    ]
    longest = max(end - begin for begin, end in ends)
    return torch.tensor(
        [[min(begin + each, end - 1) for each in range(longest)] for begin, end in ends]
    )


def _windows_last(x: Tensor, rank: int) -> Tensor:
    """`[..., a, windows of a, b, windows of b]` -> `[..., a, b, windows]`."""
    outer = x.dim() - 2 * rank
    x = x.movedim(tuple(outer + 2 * each + 1 for each in range(rank)), tuple(range(-rank, 0)))
    return x.flatten(-rank)


def _embedding(
    x: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """With dense gradients also if `sparse`, which programs have not."""
    if max_norm is not None:
        with torch.no_grad():
            _renormalize(weight, x, max_norm, norm_type)
    return torch.nn.functional.embedding(
        x, weight, padding_idx, scale_grad_by_freq=scale_grad_by_freq
    )


def _renormalize(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Rows that are looked up, made no longer than `max_norm`, in place."""
    used = torch.zeros(weight.shape[0], dtype=torch.bool).scatter(0, index.reshape(-1), True)
    norm = torch.linalg.vector_norm(weight, norm_type, 1)
    scale = torch.where(used & (norm > max_norm), max_norm / (norm + 1e-7), 1.0)
    return weight.copy_(weight * scale.to(weight.dtype).unsqueeze(1))


def _index_select(x: Tensor, dim: int, index: Tensor, **options: Any) -> Tensor:
    """With a dimension of the index: the derivative's write is of none without one."""
    return torch.index_select(x, dim, index.reshape(-1), **options)


def _rrelu(
    x: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Random in training only."""
    if training:
        found = torch.rrelu(x.clone() if inplace else x, lower, upper, training)
        return x.copy_(found) if inplace else found
    return torch.nn.functional.leaky_relu(x, (lower + upper) / 2, inplace)


def _multilabel_margin_loss(
    x: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Tensor:
    """Labels end at the first -1: torch's decomposition takes what is behind it to be class 0."""
    size = x.shape[-1] if x.dim() else 1
    labels, numbers = target.reshape(-1, size), torch.arange(size)
    end = torch.where(labels == -1, numbers, size).amin(1, keepdim=True)
    is_given = (numbers < end).unsqueeze(2)
    chosen = (labels.unsqueeze(2) == numbers) & is_given
    values = x.reshape(-1, 1, size)
    value = torch.where(chosen, values, 0.0).sum(2, keepdim=True)
    counts = is_given & ~chosen.any(1, keepdim=True)
    loss = torch.where(counts, (1 - value + values).relu(), 0.0).sum((1, 2)) / size
    if size_average is not None or reduce is not None:
        reduction = torch.nn._reduction.legacy_get_string(size_average, reduce)
    if reduction == "none":
        return loss.reshape(target.shape[:-1])
    return loss.sum() if reduction == "sum" else loss.mean()


def _by_rows(function: Any, x: Tensor, **options: Any) -> Any:
    """As calls of torch get it: the derivative solves with the matrix or with its transpose."""
    return function(x.contiguous(), **options)


def _multinomial(x: Tensor, num_samples: int, replacement: bool = False, **options: Any) -> Tensor:
    """As torch draws it, if nothing is drawn twice."""
    if replacement and num_samples > 1:
        return torch.ops.aten.multinomial(x, num_samples, replacement, **options)
    found = x / torch.empty_like(x).exponential_(1)
    return found.topk(num_samples)[1] if num_samples > 1 else found.argmax(-1, keepdim=True)


def _int(x: Tensor) -> int:
    """The program tells the number itself: a float might be rounded in another way."""
    return int(x.to(torch.int64).item())


def _least_squares(
    x: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> Any:
    """Torch has residuals where all matrices are known to have full rank: a branch by elements."""
    rows, columns = x.shape[-2:]
    is_vector = b.dim() == 1 or (b.dim() == x.dim() - 1 and b.shape == x.shape[:-1])
    right = b.unsqueeze(-1) if is_vector else b
    found = torch.linalg.pinv(x, rtol=rcond) @ right
    rank = torch.linalg.matrix_rank(x, rtol=rcond)
    has_rank, has_values = driver != "gels", driver in ("gelsd", "gelss")
    residuals = x.new_empty(0)
    is_long = rows > columns and driver is not None and driver != "gelsy"
    if is_long and (not has_rank or bool((rank == columns).all())):
        residuals = (x @ found - right).square().sum(-2)
    return torch.return_types.linalg_lstsq(
        (
            found.squeeze(-1) if is_vector else found,
            residuals,
            rank if has_rank else rank.new_empty(0),
            torch.linalg.svdvals(x.detach()) if has_values else x.new_empty(0),
        )
    )


def _made_of(function: Any) -> Callable[..., Any]:
    """`torch.tensor` and the like, also of lists in which there are tensors."""

    def composed(data: Any, dtype: Any = None, requires_grad: bool = False, **options: Any) -> Any:
        leaves = pytree.tree_leaves(data) if isinstance(data, (list, tuple)) else []
        if not any(isinstance(each, torch.Tensor) for each in leaves):
            more = {"requires_grad": True} if requires_grad else {}
            return function(data, dtype=dtype, **more, **options)
        types = [each.dtype for each in map(torch.as_tensor, leaves)]
        found = _stacked(data, dtype or reduce(torch.promote_types, types))
        return found.requires_grad_() if requires_grad else found

    return composed


def _stacked(data: Any, dtype: Any) -> Tensor:
    if isinstance(data, (list, tuple)):
        return torch.stack([_stacked(each, dtype) for each in data])
    return torch.as_tensor(data).detach().to(dtype).reshape(())  # torch's, for one element only


def _set_data(own: Tensor, value: Tensor) -> None:
    """As a write, which a trace sees: it is the same for who has no other view of the tensor."""
    if own.grad_fn is not None or (own.shape, own.dtype) != (value.shape, value.dtype):
        raise ShardError(
            f"forward sets the data of a tensor of shape {list(own.shape)}, which is no parameter, "
            f"buffer or argument, or sets it to another shape or type ({list(value.shape)}, "
            f"{value.dtype}): use another tensor"
        )
    own.detach().copy_(value.detach())


def _where(condition: Tensor, x: Any = None, other: Any = None) -> Any:
    """Bytes are truth values, which torch's decompositions do not know."""
    if condition.dtype == torch.uint8:
        condition = condition.bool()
    return torch.where(condition) if x is None else torch.where(condition, x, other)


_OURS: Mapping[Any, Callable[..., Any]] = {
    torch.Tensor.data.__set__: _set_data,
    torch.linalg.lstsq: _least_squares,
    torch.tensor: _made_of(torch.tensor),
    torch.as_tensor: _made_of(torch.as_tensor),
    torch.Tensor.__int__: _int,
    torch.multinomial: _multinomial,
    torch.Tensor.multinomial: _multinomial,
    torch._pack_padded_sequence: _pack,
    torch._pad_packed_sequence: _pad_packed,
    torch.adaptive_max_pool1d: _adaptive_max(1, with_indices=True),
    torch.nn.functional.multilabel_margin_loss: _multilabel_margin_loss,
    torch._C._nn.adaptive_max_pool2d: _adaptive_max(2, with_indices=True),
    torch._C._nn.adaptive_max_pool3d: _adaptive_max(3, with_indices=True),
    **{
        getattr(torch.nn.functional, f"adaptive_max_pool{rank}d{name}"): _adaptive_max(
            rank, with_indices=bool(name)
        )
        for rank in (1, 2, 3)
        for name in ("", "_with_indices")
    },
    torch.where: _where,
    torch.Tensor.where: lambda x, condition, other: _where(condition, x, other),
    torch.embedding_renorm_: _renormalize,
    torch.nn.functional.embedding: _embedding,
    torch.nn.functional.embedding_bag: _embedding_bag,
    torch.nn.functional.one_hot: _one_hot,
    torch.nn.functional.ctc_loss: _ctc_loss,
    torch.index_select: _index_select,
    torch.Tensor.index_select: _index_select,
    torch.nn.functional.rrelu: _rrelu,
    torch.rrelu: _rrelu,
    torch.rrelu_: partial(_rrelu, inplace=True),
    torch.cdist: _cdist,
    torch.grid_sampler: _grid_sampler,
    torch.nn.functional.grid_sample: _grid_sample,
    **{
        getattr(of, name): partial(_by_rows, getattr(torch.linalg, name, getattr(torch, name)))
        for of in (torch, torch.Tensor, torch.linalg)
        for name in ("det", "slogdet", "logdet")
        if hasattr(of, name)
    },
    torch.cumprod: _cumprod,
    torch.Tensor.cumprod: _cumprod,
    torch.histc: _histc,
    torch._weight_norm: _weight_norm,
    **{
        each: _layer_by_layer(each)
        for each in (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)
    },
    torch.Tensor.histc: _histc,
    **{
        function: grouped_mm
        for function in (
            getattr(torch, "_grouped_mm", None),
            getattr(torch.nn.functional, "grouped_mm", None),
        )
        if function is not None
    },
}
