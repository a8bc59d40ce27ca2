"""The part of numpy's functions that programs of ranks use, on arrays of elements of the field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from shard_dialect.proof.elementwise import selected
from shard_dialect.proof.machine import Data
from shard_dialect.proof.written.arrays import (
    COMPARISONS,
    FUNCTIONS,
    KINDS,
    Array,
    NotKnown,
    Setting,
    as_array,
    as_index,
    einsum,
    elementwise,
    is_number,
    of,
    of_one_rank,
    only,
    reduced_along,
    together,
    type_of,
)


def tensordot(s: Setting, a: Any, b: Any, axes: Any) -> Array:
    """The product summed over pairs of dimensions."""
    a, b = of(s, a), of(s, b)
    only(not isinstance(axes, int), "np.tensordot over a number of dimensions")
    pairs = [list(each) if isinstance(each, Iterable) else [each] for each in axes]
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left = [next(letters) for _ in range(a.ndim)]
    right = [next(letters) for _ in range(b.ndim)]
    for x, y in zip(*pairs, strict=True):
        right[y] = left[x]
    summed = {left[each] for each in pairs[0]}
    out = [each for each in (*left, *right) if each not in summed]
    return einsum(s, f"{''.join(left)},{''.join(right)}->{''.join(out)}", a, b)


def where(s: Setting, which: Any, yes: Any, no: Any) -> Array:
    """Elements of one array or another one."""
    (a, b), dtype = together(s, (yes, no))
    bits = of(s, which, np.dtype(bool))
    shape = np.broadcast_shapes(bits.shape, a.shape, b.shape)
    values = of_one_rank((bits, a, b), shape)
    return as_array(s, selected(s.machine, values, type_of(dtype)), dtype, shape)


def order_keys(s: Setting, x: Array) -> Data:
    """Numbers that are in the order of the elements."""
    if x.dtype.kind == "b":
        return x.numbers()
    if is_number(x.dtype):
        return x.data.astype(np.uint64) if x.dtype == np.uint64 else x.data
    only(x.dtype.kind != "c", "an order of complex numbers")
    return s.machine.ranks(x.data)


class Ufunc:
    """A function of numpy with its methods."""

    def __init__(self, s: Setting, name: str) -> None:
        self.s, self.name = s, name

    def __call__(self, *given: Any) -> Array:
        return elementwise(self.s, self.name, *given)

    def reduce(self, x: Any, axis: Any = 0, dtype: Any = None) -> Array:
        only(self.name in KINDS, f"np.{self.name}.reduce")
        return reduced_along(self.s, KINDS[self.name], x, axis, dtype)

    def at(self, x: Array, index: Any, new: Any) -> None:
        """One element after the other, those of one place in rounds."""
        only(not x.is_read_only, "a write through a view of parts, or of other bits")
        places = np.arange(x.size).reshape(x.shape)[as_index(index)]
        value = np.broadcast_to(of(self.s, new, x.dtype).data, places.shape).reshape(-1)
        flat, targets = x.data.reshape(-1), places.reshape(-1)
        only(np.shares_memory(flat, x.data) or not x.size, f"np.{self.name}.at of a view")
        left = np.arange(targets.size)
        while left.size:
            _, once = np.unique(targets[left], return_index=True)
            now = left[np.sort(once)]
            pair = flat[targets[now]], value[now]
            a, b = (self.s.array(self.s, each, x.dtype) for each in pair)
            flat[targets[now]] = elementwise(self.s, self.name, a, b).data
            left = np.setdiff1d(left, now)


_SAME = (
    "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool_ complex64 "
    "complex128 dtype inf nan pi newaxis iinfo finfo errstate ndindex number integer floating"
).split()
"""What is numpy's own."""
_REDUCTIONS = {
    "sum": "add", "prod": "mul", "max": "max", "min": "min", "all": "and", "any": "or",
}  # fmt: skip
_UFUNCS = {*KINDS, *COMPARISONS, *FUNCTIONS, "invert", "logical_not", "true_divide", "matmul"}
_VIEWS: Mapping[str, Callable[..., Data]] = {
    "moveaxis": np.moveaxis, "expand_dims": np.expand_dims, "squeeze": np.squeeze,
    "broadcast_to": np.broadcast_to, "flip": np.flip, "transpose": np.transpose, "roll": np.roll,
    "reshape": np.reshape, "swapaxes": np.swapaxes,
}  # fmt: skip
"""Functions that move elements, whatever they are."""


class Library:
    """A module `numpy` for one rank; `load` and `save` are for files."""

    ndarray = Array

    def __init__(self, s: Setting, load: Callable[..., Any], save: Callable[..., None]) -> None:
        self.setting, self.load, self.savez = s, load, save
        self.einsum, self.tensordot = partial(einsum, s), partial(tensordot, s)
        self.where = partial(where, s)
        windows = SimpleNamespace(sliding_window_view=self._viewed(sliding_window_view))
        self.lib = SimpleNamespace(stride_tricks=windows)
        self.random = SimpleNamespace(Generator=object)

    def __getattr__(self, name: str) -> Any:
        if name in _SAME:
            return getattr(np, name)
        if name in ("real", "imag"):
            return lambda x: getattr(of(self.setting, x), name)
        if name in _UFUNCS:
            return Ufunc(self.setting, name)
        if name in _VIEWS:
            return self._viewed(_VIEWS[name])
        if name in _REDUCTIONS:
            return partial(reduced_along, self.setting, _REDUCTIONS[name])
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotKnown(f"np.{name}")

    def _viewed(self, how: Callable[..., Data]) -> Callable[..., Array]:
        def view(x: Any, *given: Any, **more: Any) -> Array:
            array = of(self.setting, x)
            return array.with_data(how(array.data, *given, **more))

        return view

    def full(self, shape: Any, number: Any, dtype: Any = None, order: str = "C") -> Array:
        only(order == "C", "an order of memory")
        shape = (shape,) if not isinstance(shape, Iterable) else tuple(map(int, shape))
        one = of(self.setting, number, None if dtype is None else np.dtype(dtype))
        return self.setting.array(self.setting, np.broadcast_to(one.data, shape).copy(), one.dtype)

    def zeros(self, shape: Any, dtype: Any = np.float64) -> Array:
        return self.full(shape, 0, dtype)

    def ones(self, shape: Any, dtype: Any = np.float64) -> Array:
        return self.full(shape, 1, dtype)

    def empty(self, shape: Any, dtype: Any = np.float64) -> Array:
        made = self.zeros(shape, dtype)
        wild = self.setting.machine.undefined(type_of(made.dtype, made.shape))
        return as_array(self.setting, wild, made.dtype, made.shape)

    def zeros_like(self, x: Array) -> Array:
        return self.zeros(x.shape, x.dtype)

    def empty_like(self, x: Array) -> Array:
        return self.empty(x.shape, x.dtype)

    def full_like(self, x: Array, number: Any) -> Array:
        return self.full(x.shape, number, x.dtype)

    def array(self, x: Any, dtype: Any = None, order: str = "C") -> Array:
        only(order in ("C", "K"), "an order of memory")
        return of(self.setting, x, None if dtype is None else np.dtype(dtype)).copy()

    def asarray(self, x: Any, dtype: Any = None, order: str = "K") -> Array:
        only(order in ("C", "K"), "an order of memory")
        found = of(self.setting, x, None if dtype is None else np.dtype(dtype))
        return found if order == "K" or found.data.flags.c_contiguous else found.copy()

    def ascontiguousarray(self, x: Any) -> Array:
        return self.asarray(x, order="C")

    def frombuffer(self, data: Any, dtype: Any) -> Array:
        return of(self.setting, np.frombuffer(data, dtype))

    def arange(self, *given: Any, dtype: Any = None) -> Array:
        return of(self.setting, np.arange(*map(int, given), dtype=dtype))

    def concatenate(self, parts: Any, axis: int = 0) -> Array:
        arrays, dtype = together(self.setting, list(parts))
        joined = np.concatenate([each.data for each in arrays], axis)
        return self.setting.array(self.setting, joined, dtype)

    def stack(self, parts: Any, axis: int = 0) -> Array:
        arrays, dtype = together(self.setting, list(parts))
        joined = np.stack([each.data for each in arrays], axis)
        return self.setting.array(self.setting, joined, dtype)

    def split(self, x: Any, parts: Any, axis: int = 0) -> list[Array]:
        array = of(self.setting, x)
        return [array.with_data(each) for each in np.split(array.data, parts, axis)]

    def clip(self, x: Any, low: Any, high: Any) -> Array:
        return elementwise(
            self.setting, "minimum", elementwise(self.setting, "maximum", x, low), high
        )

    def take_along_axis(self, x: Any, at: Any, axis: int) -> Array:
        array = of(self.setting, x)
        places = of(self.setting, at).numbers()
        return array.with_data(np.take_along_axis(array.data, places, axis))

    def argsort(self, x: Any, axis: int = -1, kind: str = "") -> Array:
        only(kind == "stable", "a sort that is not stable")
        keys = order_keys(self.setting, of(self.setting, x))
        return self._positions(np.argsort(keys, axis=axis, kind="stable"))

    def sort(self, x: Any, axis: int = -1, kind: str = "stable") -> Array:
        return self.take_along_axis(x, self.argsort(x, axis, kind), axis)

    def lexsort(self, keys: Sequence[Any], axis: int = -1) -> Array:
        listed = [order_keys(self.setting, of(self.setting, each)) for each in keys]
        return self._positions(np.lexsort(listed, axis))

    def argmax(self, x: Any, axis: Any = None) -> Array:
        return self._positions(np.argmax(order_keys(self.setting, of(self.setting, x)), axis=axis))

    def argmin(self, x: Any, axis: Any = None) -> Array:
        return self._positions(np.argmin(order_keys(self.setting, of(self.setting, x)), axis=axis))

    def argwhere(self, x: Any) -> Array:
        return self._positions(np.argwhere(x.numbers()))

    def ravel_multi_index(self, at: Any, sizes: Sequence[int]) -> int:
        return int(np.ravel_multi_index(tuple(map(int, at)), tuple(sizes)))

    def _positions(self, data: Any) -> Array:
        return self.setting.array(self.setting, np.asarray(data), np.int64)
