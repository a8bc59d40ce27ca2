"""The part of torch, and of torch.distributed, that programs of ranks use, on the same arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from shard_dialect.proof.elementwise import combined
from shard_dialect.proof.written.arrays import (
    Array,
    NotKnown,
    as_array,
    called,
    einsum,
    elementwise,
    of,
    of_one_rank,
    only,
    reduced_along,
    together,
    type_of,
)
from shard_dialect.proof.written.library import Library, order_keys
from shard_dialect.proof.written.meeting import Meeting, alike, contents, make_wild, receive
from shard_dialect.proof.written.ranks import IN_PLACE, SUM, Comm, Reduction, Request


class Tensor(Array):
    """An array with torch's methods."""

    __slots__ = ()

    def view(self, *shape: Any) -> Any:
        if len(shape) == 1 and not isinstance(shape[0], (int, tuple, list)):
            return super().view(shape[0])
        return self.reshape(*shape)

    def reshape(self, *shape: Any, order: str = "C") -> Array:
        """As numpy's, for which each size below zero is the one that is left open."""
        listed = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if any(size < -1 for size in listed):
            raise RuntimeError(f"invalid shape dimension in {list(listed)}")
        return super().reshape(*shape, order=order)

    def contiguous(self) -> Array:
        return self if self.data.flags.c_contiguous else self.clone()

    def as_strided(self, shape: Sequence[int], strides: Sequence[int]) -> Array:
        """The elements of a contiguous tensor in one row."""
        if tuple(shape) != (self.size,) or tuple(strides) != (1,):
            raise NotKnown("as_strided but of all elements in one row")
        return self.reshape(-1)

    def clone(self, memory_format: Any = None) -> Array:
        return self.s.array(self.s, self.data.copy(), self.dtype)

    def movedim(self, source: Any, target: Any) -> Array:
        return self.with_data(np.moveaxis(self.data, source, target))

    def permute(self, *order: Any) -> Array:
        return self.transpose(*order)

    def flatten(self, start: int = 0) -> Array:
        return self.reshape(*self.shape[:start], -1)

    def unsqueeze(self, dim: int) -> Array:
        return self.with_data(np.expand_dims(self.data, dim))

    def unbind(self, dim: int = 0) -> list[Array]:
        return list(self.movedim(dim, 0))

    def chunk(self, count: int, dim: int = 0) -> list[Array]:
        size = self.shape[dim]
        only(size % count == 0, "chunks of several sizes")
        return [self.with_data(each) for each in np.split(self.data, count, dim)]

    def unfold(self, dim: int, size: int, step: int) -> Array:
        seen = np.moveaxis(sliding_window_view(self.data, size, dim), dim, 0)[::step]
        return self.with_data(np.moveaxis(seen, 0, dim))

    def to(self, what: Any) -> Array:
        return self if what == "cpu" else self.astype(what, copy=False)

    def __getitem__(self, key: Any) -> Array:
        """A view also where it has no dimensions, unless an index is an array."""
        found = super().__getitem__(key)
        if found.ndim or np.shares_memory(found.data, self.data):
            return found
        return super().__getitem__((*(key if isinstance(key, tuple) else (key,)), ...))

    def cpu(self) -> Array:
        return self

    def numpy(self) -> Array:
        return self

    def numel(self) -> int:
        return self.size

    def element_size(self) -> int:
        return self.itemsize

    def new_zeros(self, *shape: int) -> Array:
        return self.s.array(self.s, np.zeros(shape, self.data.dtype), self.dtype)

    def gather(self, dim: int, index: Array) -> Array:
        places = list(np.indices(index.shape))
        places[dim] = index.numbers()
        return self.with_data(self.data[tuple(places)])

    def amin(self, dim: Any) -> Array:
        return reduced_along(self.s, "min", self, dim)

    def clamp(self, min: Any = None, max: Any = None) -> Array:  # noqa: A002 - torch's names
        low = self if min is None else elementwise(self.s, "maximum", self, min)
        return low if max is None else elementwise(self.s, "minimum", low, max)

    def index_put_(self, index: Any, values: Any, accumulate: bool = False) -> Array:
        only(accumulate, "index_put_ that replaces")
        Library(self.s, print, print).add.at(self, index, values)
        return self


_NAMES = {
    "pow": "power", "sgn": "sign", "atan2": "arctan2", "conj_physical": "conj", "mul": "multiply",
    "sub": "subtract", "round": "rint", "acos": "arccos", "asin": "arcsin", "atan": "arctan",
    "acosh": "arccosh", "asinh": "arcsinh", "atanh": "arctanh", "isfinite": "isfinite",
}  # fmt: skip
"""Functions that numpy has by other names."""
_OWN = {"sigmoid": "logistic sigmoid", "rsqrt": "rsqrt", "erf": "erf", "erfc": "erfc"}
"""Functions that it has not."""
_REDUCTIONS = {
    "sum": "add", "prod": "mul", "amax": "max", "amin": "min", "all": "and", "any": "or",
}  # fmt: skip
_DTYPES = {
    name: np.dtype(getattr(np, name))
    for name in "float16 float32 float64 int8 int16 int32 int64 uint8 complex64 complex128".split()
} | {"bool": np.dtype(bool), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


class Torch:
    """A module `torch` for one rank."""

    Tensor, dtype = Tensor, np.dtype
    inf, nan, contiguous_format = np.inf, np.nan, None
    iinfo, finfo = np.iinfo, np.finfo

    def __init__(self, numpy: Library, distributed: Any) -> None:
        self._np, self._s, self.distributed = numpy, numpy.setting, distributed
        self.cuda = SimpleNamespace(device_count=lambda: 0)
        self.nn = SimpleNamespace(
            functional=SimpleNamespace(conv1d=self._conv, conv2d=self._conv, conv3d=self._conv)
        )
        self.einsum, self.where = partial(einsum, self._s), numpy.where
        self.zeros_like, self.full_like = numpy.zeros_like, numpy.full_like
        self.Generator = SimpleNamespace

    def __getattr__(self, name: str) -> Any:
        if name in _DTYPES:
            return _DTYPES[name]
        if name in _OWN:
            return lambda x: called(self._s, _OWN[name].split(), [x], x.dtype)
        if name in _REDUCTIONS:
            return partial(self._reduced, _REDUCTIONS[name])
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "flip":
            return lambda x, dims: self._np.flip(x, dims).clone()
        known = ("broadcast_to", "real", "imag", "frombuffer")
        found = getattr(self._np, _NAMES.get(name, name))
        if hasattr(found, "at") or name in known:
            return found
        raise NotKnown(f"torch.{name}")

    def _reduced(self, kind: str, x: Any, dim: Any = None, dtype: Any = None) -> Array:
        return reduced_along(self._s, kind, x, dim, dtype)

    def device(self, *_: Any) -> str:
        return "cpu"

    def from_numpy(self, x: Any) -> Any:
        return x

    def full(self, shape: Any, number: Any, dtype: Any = None, device: Any = None) -> Array:
        return self._np.full(shape, number, dtype)

    def zeros(self, shape: Any, dtype: Any = None, device: Any = None) -> Array:
        return self._np.full(shape, 0, np.float32 if dtype is None else dtype)

    def empty_like(self, x: Array, memory_format: Any = None) -> Array:
        return self._np.empty(x.shape, x.dtype)

    def tensor(self, x: Any, dtype: Any = None, device: Any = None) -> Array:
        return self._np.array(x, dtype)

    def as_tensor(self, x: Any, dtype: Any = None, device: Any = None) -> Array:
        return of(self._s, x, dtype)

    def arange(self, *given: Any, dtype: Any = None, device: Any = None) -> Array:
        return self._np.arange(*given, dtype=dtype)

    def cat(self, parts: Any, dim: int = 0) -> Array:
        return self._np.concatenate(parts, dim)

    def stack(self, parts: Any, dim: int = 0) -> Array:
        return self._np.stack(parts, dim)

    def clip(self, x: Any, low: Any, high: Any) -> Array:
        return self._np.clip(x, low, high)

    clamp = clip

    def argmax(self, x: Any, dim: Any = None) -> Array:
        return self._np.argmax(x, dim)

    def argmin(self, x: Any, dim: Any = None) -> Array:
        return self._np.argmin(x, dim)

    def argsort(self, x: Any, dim: int = -1, stable: bool = False) -> Array:
        only(stable, "a sort that is not stable")
        order = np.argsort(order_keys(self._s, of(self._s, x)), axis=dim, kind="stable")
        return self._s.array(self._s, order, np.int64)

    def sort(self, x: Any, dim: int = -1, stable: bool = False) -> Any:
        return SimpleNamespace(values=self.take_along_dim(x, self.argsort(x, dim, stable), dim))

    def take_along_dim(self, x: Any, at: Any, dim: int) -> Array:
        return self._np.take_along_axis(x, at, dim)

    def complex(self, real: Any, imaginary: Any) -> Array:
        return self._np.setting.array(
            self._s,
            self._s.machine.field.complex(real.data, imaginary.data),
            np.result_type(real.dtype, np.complex64),
        )

    def div(self, a: Any, b: Any, rounding_mode: str | None = None) -> Array:
        (x, y), dtype = together(self._s, (a, b))
        if rounding_mode is None:
            return elementwise(self._s, "divide", a, b)
        only(rounding_mode == "trunc" and dtype.kind == "i", "a division that rounds so")
        shape = np.broadcast_shapes(x.shape, y.shape)
        left, right = of_one_rank((x, y), shape)
        made = combined(self._s.machine, "div", left, right, type_of(dtype, shape))
        return as_array(self._s, made, dtype, shape)

    def _conv(
        self, x: Array, w: Array, bias: None, stride: Any, padding: int, dilation: Any, groups: int
    ) -> Array:
        only(bias is None and padding == 0, "a convolution with a bias, or padded")
        space = tuple(range(2, x.ndim))
        extents = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation, strict=True)]
        seen = sliding_window_view(x.data, extents, space)
        steps = [slice(None, None, each) for each in (*stride, *dilation)]
        image = x.with_data(seen[(slice(None), slice(None), *steps)])
        letters = "xyz"[: len(space)], "uvw"[: len(space)]
        text = f"bi{letters[0]}{letters[1]},oi{letters[1]}->bo{letters[0]}"
        pairs = zip(image.chunk(groups, 1), w.chunk(groups, 0), strict=True)  # type: ignore[attr-defined]
        return self.cat([einsum(self._s, text, a, b) for a, b in pairs], 1)


class _Talk:
    """One message of a batch."""

    def __init__(self, how: Any, tensor: Any, peer: int, group: Any = None) -> None:
        self.how, self.tensor, self.peer, self.group = how, tensor, peer, group


def _under_way(received: Sequence[Any], sent: Sequence[Any] = ()) -> Request:
    """A collective that has been started: nothing is known of what it gives until it is done."""
    found = [contents(each) for each in received]
    for each in received:
        make_wild(each)
    buffers = (*received, *sent)
    before = [contents(each) for each in buffers]

    def finish() -> None:
        now = zip(buffers, before, strict=True)
        same = all(np.array_equal(contents(each), old, equal_nan=True) for each, old in now)
        only(same, "a buffer that is written to before its collective is done")
        for each, data in zip(received, found, strict=True):
            receive(each, data)

    return Request(finish)


class Distributed:
    """A module `torch.distributed` for one rank: groups have their ranks in ascending order."""

    P2POp, Work = _Talk, Request
    ProcessGroup = object
    ReduceOp = SimpleNamespace(
        SUM=SUM,
        PRODUCT=Reduction("multiply"),
        MAX=Reduction("maximum"),
        MIN=Reduction("minimum"),
    )

    def __init__(self, meeting: Meeting, world: Comm) -> None:
        self._meeting, self._world, self._groups = meeting, world, 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotKnown(f"torch.distributed.{name}")

    def is_initialized(self) -> bool:
        return True

    def get_rank(self) -> int:
        return self._world.rank

    def get_world_size(self) -> int:
        return self._world.size

    def destroy_process_group(self) -> None:
        pass

    def new_group(self, ranks: Sequence[int], timeout: Any = None) -> Comm | None:
        self._groups += 1
        listed = sorted(map(int, ranks))
        said = self._world.meet("new_group", listed)
        only(all(each == listed for each in said), "a group that not all ranks make")
        if self._world.rank not in ranks:
            return None
        return Comm(self._meeting, ("group", self._groups), listed, self._world.rank)

    def _of(self, group: Any) -> Comm:
        return self._world if group is None else group

    def barrier(self, group: Any = None) -> None:
        self._of(group).Barrier()

    def all_gather(
        self, received: Sequence[Any], sent: Any, group: Any = None, async_op: bool = False
    ) -> Request | None:
        listed = self._of(group).meet("all_gather", contents(sent))
        for buffer, data in zip(received, alike(listed, sent), strict=True):
            receive(buffer, data)
        return _under_way(received, [sent]) if async_op else None

    def all_reduce(
        self, x: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
    ) -> Request | None:
        self._of(group).Allreduce(IN_PLACE, x, op)
        return _under_way([x]) if async_op else None

    def reduce(self, x: Any, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> None:
        group = self._of(group)
        group.Reduce(x, x, op, group.position(dst))
        if group.rank != group.position(dst):
            make_wild(x)  # torch says nothing of it

    def reduce_scatter(
        self,
        received: Any,
        sent: Sequence[Any],
        op: Any = ReduceOp.SUM,
        group: Any = None,
        async_op: bool = False,
    ) -> Request | None:
        group = self._of(group)
        listed = group.meet(("reduce_scatter", op), [contents(each) for each in sent])
        parts = alike([each[group.rank] for each in listed], received)
        receive(received, op.of(parts, received).reshape(-1))
        return _under_way([received], sent) if async_op else None

    def all_to_all_single(
        self, received: Any, sent: Any, group: Any = None, async_op: bool = False
    ) -> Request | None:
        self._of(group).Alltoall(sent, received)
        return _under_way([received], [sent]) if async_op else None

    def broadcast(self, x: Any, src: int, group: Any = None) -> None:
        group = self._of(group)
        group.Bcast(x, group.position(src))

    def gather(self, sent: Any, received: Any, dst: int, group: Any = None) -> None:
        group = self._of(group)
        listed = alike(group.meet(("gather", dst), contents(sent)), sent)
        for buffer, data in zip(received or [], listed, strict=received is not None):
            receive(buffer, data)

    def scatter(self, received: Any, sent: Any, src: int, group: Any = None) -> None:
        group = self._of(group)
        own = None if sent is None else [contents(each) for each in sent]
        receive(received, group.meet(("scatter", src), own)[group.position(src)][group.rank])

    def gather_object(self, given: Any, received: Any, dst: int = 0) -> None:
        listed = self._world.gather(given, dst)
        if received is not None:
            received[:] = listed

    def isend(self, sent: Any, dst: int, group: Any = None, tag: int = 0) -> Request:
        group = self._of(group)
        return group.Isend(sent, group.position(dst), tag)

    def send(self, sent: Any, dst: int, group: Any = None, tag: int = 0) -> None:
        group = self._of(group)
        group.Send(sent, group.position(dst), tag)

    def recv(self, received: Any, src: int | None = None, group: Any = None, tag: int = 0) -> None:
        group = self._of(group)
        group.Recv(received, -1 if src is None else group.position(src), tag)

    def irecv(
        self, received: Any, src: int | None = None, group: Any = None, tag: int = 0
    ) -> Request:
        group = self._of(group)
        return group.Irecv(received, -1 if src is None else group.position(src), tag)

    def batch_isend_irecv(self, talks: Iterable[_Talk]) -> list[Request]:
        """All are under way at once."""
        return [
            getattr(self, each.how.__name__)(each.tensor, each.peer, each.group) for each in talks
        ]


def is_used(text: str) -> bool:
    """Whether a program's text imports torch."""
    return any(line.split()[:2] == ["import", "torch"] for line in text.splitlines())
