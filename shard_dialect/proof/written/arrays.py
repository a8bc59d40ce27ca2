"""The part of numpy that programs of ranks use, on elements of the field.

Floats are elements, and so are bits, which may depend on how floats compare; integers are what they
are. Views are numpy's own, so that what is written through one shows in others. What is not here is
no guess: it raises an error at the line that asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from shard_dialect.proof.contractions import Over, contracted
from shard_dialect.proof.elementwise import combined, reduced, selected
from shard_dialect.proof.field import ONE
from shard_dialect.proof.machine import OPS, Data, Machine, Value
from shard_dialect.proof.reading import Op, Type

_MOST_STEPS = 1 << 17
"""Of one rank: a loop that runs on is given up."""


class NotKnown(Exception):
    """What the prover does not know, by name."""


@dataclass
class Setting:
    """What the arrays of one evaluation share."""

    machine: Machine
    names: frozenset[str]
    """The ops of the unsharded program, whose functions have the same names here."""
    location: Any
    assembles: Callable[[], bool]
    """Whether results are put together, of which no part may be put in place of another one."""
    array: Any
    """The class of arrays."""
    steps: Iterator[int] = field(default_factory=count)


def type_of(dtype: np.dtype[Any], shape: Sequence[int] = ()) -> Type:
    """The prover's type of such elements."""
    shape = tuple(shape)
    if dtype.kind == "c":
        return Type(str(dtype), shape, "complex", 8 * dtype.itemsize)
    if dtype.kind == "b":
        return Type("i1", shape, "signed", 1)
    if dtype.kind in "iu":
        return Type(
            str(dtype), shape, "signed" if dtype.kind == "i" else "unsigned", 8 * dtype.itemsize
        )
    return Type(str(dtype), shape, "float", 8 * dtype.itemsize, float(ml_dtypes.finfo(dtype).max))


def is_number(dtype: np.dtype[Any]) -> bool:
    """Whether elements are integers rather than elements of the field."""
    return dtype.kind in "iu"


class Array:
    """A view of elements in memory."""

    __slots__ = ("data", "dtype", "is_read_only", "s", "written")

    def __init__(self, s: Setting, data: Data, dtype: Any, *, is_read_only: bool = False) -> None:
        self.s, self.data, self.dtype = s, data, np.dtype(dtype)
        self.is_read_only = is_read_only
        self.written: Data | None = None
        only(next(s.steps) < _MOST_STEPS, f"a loop of more than {_MOST_STEPS} operations")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def ndim(self) -> int:
        return self.data.ndim

    @property
    def size(self) -> int:
        return self.data.size

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def T(self) -> Array:
        return self.with_data(self.data.T)

    @property
    def real(self) -> Array:
        return called(self.s, ["real", "re"], [self], _part(self.dtype))

    @property
    def imag(self) -> Array:
        return called(self.s, ["imag", "im"], [self], _part(self.dtype))

    @property
    def value(self) -> Value:
        """As the machine has it."""
        return Value(self.data, not is_number(self.dtype))

    @property
    def type(self) -> Type:
        """As the prover has it."""
        return type_of(self.dtype, self.shape)

    def with_data(self, data: Data) -> Array:
        """Other elements of the same type."""
        return self.s.array(self.s, data, self.dtype, is_read_only=self.is_read_only)

    def with_bits(self, dtype: np.dtype[Any]) -> Array:
        """The same bits as other integers, to be read."""
        return self.s.array(self.s, _wrapped(self.data, dtype), dtype, is_read_only=True)

    def reshape(self, *shape: Any, order: str = "C") -> Array:
        only(order in ("C", "K"), "an order of memory")
        return self.with_data(self.data.reshape(*shape))

    def ravel(self) -> Array:
        return self.reshape(-1)

    def flatten(self) -> Array:
        return self.with_data(self.data.flatten())

    def transpose(self, *order: Any) -> Array:
        return self.with_data(self.data.transpose(*order))

    def swapaxes(self, a: int, b: int) -> Array:
        return self.with_data(self.data.swapaxes(a, b))

    def squeeze(self, axis: Any = None) -> Array:
        return self.with_data(self.data.squeeze(axis))

    def copy(self, order: str = "C") -> Array:
        return self.s.array(self.s, self.data.copy(), self.dtype)

    def view(self, dtype: Any) -> Any:
        """Of bytes what has them; of integers of one width the same bits, to be read."""
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self
        if dtype == np.uint8 and self.ndim == 1:
            return Memory(self)
        if is_number(dtype) and is_number(self.dtype) and dtype.itemsize == self.dtype.itemsize:
            return self.with_bits(dtype)
        raise NotKnown(f"a view of {self.dtype} as {dtype}")

    def astype(self, dtype: Any, copy: bool = True) -> Array:
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self.copy()
        op = _op(self.s, "stablehlo.convert", [self.type], [type_of(dtype, self.shape)])
        return as_array(self.s, OPS[op.name](self.s.machine, op, [self.value]), dtype)

    def conj(self) -> Array:
        return self if self.dtype.kind != "c" else called(self.s, ["conj"], [self], self.dtype)

    def _reduce(self, kind: str, axis: Any, dtype: Any = None) -> Array:
        return reduced_along(self.s, kind, self, axis, dtype)

    def sum(self, axis: Any = None, dtype: Any = None) -> Array:
        return self._reduce("add", axis, dtype)

    def max(self, axis: Any = None) -> Array:
        return self._reduce("max", axis)

    def min(self, axis: Any = None) -> Array:
        return self._reduce("min", axis)

    def tolist(self) -> Any:
        return self.numbers().tolist()

    def item(self) -> Any:
        return self.numbers().item()

    def numbers(self) -> Data:
        """What the elements are, where they depend on no float."""
        if is_number(self.dtype):
            return self.data
        if self.dtype.kind == "b" and not np.any(self.data > 1):
            return self.data.astype(bool)
        raise NotKnown("a choice by how floats compare, or a number of a float")

    def __int__(self) -> int:
        return int(self.numbers())

    __index__ = __int__

    def __bool__(self) -> bool:
        return bool(self.numbers())

    def __float__(self) -> float:
        return float(self.numbers())

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Array]:
        return (self[each] for each in range(len(self)))

    def __getitem__(self, key: Any) -> Array:
        return self.with_data(np.asarray(self.data[_key(key)]))

    def __setitem__(self, key: Any, new: Any) -> None:
        only(not self.is_read_only, "a write through a view of other bits")
        value = of(self.s, new, self.dtype)
        key = _key(key)
        if self.s.assembles():
            if self.written is None:
                self.written = np.zeros(self.shape, bool)
            data = np.broadcast_to(value.data, self.data[key].shape)
            differs = self.written[key] & (self.data[key] != data)
            self.written[key] = True
            wild = self.data[key] + data + data  # is neither one rank's nor the other's
            wild = wild if is_number(self.dtype) else self.s.machine.field.reduced(wild)
            self.data[key] = np.where(differs, wild, data)
            return
        self.data[key] = value.data

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **more: Any) -> Array:
        only(not more or set(more) <= {"axis", "dtype"}, f"np.{ufunc.__name__} with {list(more)}")
        if method == "reduce":
            return reduced_along(self.s, _KINDS[ufunc.__name__], given[0], **{"axis": 0, **more})
        if method != "__call__":
            raise NotKnown(f"np.{ufunc.__name__}.{method}")
        return elementwise(self.s, ufunc.__name__, *given)


def _operator(name: str, *, is_swapped: bool = False) -> Callable[..., Array]:
    def apply(self: Array, *others: Any) -> Array:
        given = (*others, self) if is_swapped else (self, *others)
        return elementwise(self.s, name, *given)

    return apply


_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "power", "and": "bitwise_and",
    "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift",
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal", "neg": "negative", "invert": "invert", "abs": "absolute",
    "matmul": "matmul",
}  # fmt: skip
for _name, _ufunc in _OPERATORS.items():
    setattr(Array, f"__{_name}__", _operator(_ufunc))
    setattr(Array, f"__r{_name}__", _operator(_ufunc, is_swapped=True))
    setattr(Array, f"__i{_name}__", lambda self, other, name=_ufunc: _into(self, name, other))
Array.__hash__ = None  # type: ignore[assignment]


def _into(self: Array, name: str, other: Any) -> Array:
    only(self.ndim > 0, "an operation in place on what may be a number, which has no place")
    made = elementwise(self.s, name, self, other)
    if not np.can_cast(made.dtype, self.dtype, "same_kind"):
        raise TypeError(f"{made.dtype} is not cast to {self.dtype} in place")
    self[...] = made
    return self


class Kept(np.ndarray[Any, Any]):
    """An array of numpy's own numbers in which results are put together, as above."""

    assembles: Callable[[], bool] | None = None
    written: Data | None = None

    def __setitem__(self, key: Any, new: Any) -> None:
        own = self.view(np.ndarray)
        if self.assembles is None or not self.assembles():
            own[key] = new
            return
        if self.written is None:
            self.written = np.zeros(self.shape, bool)
        data = np.broadcast_to(np.asarray(new).astype(self.dtype), own[key].shape)
        near = np.isclose(own[key], data, rtol=_NEAR, atol=_NEAR, equal_nan=True)
        differs = self.written[key] & ~near
        self.written[key] = True
        own[key] = np.where(differs, own[key] + data + data + data.dtype.type(1), data)


_NEAR = 1e-3


@dataclass(frozen=True)
class Memory:
    """The bytes of an array."""

    array: Array

    def numpy(self) -> Memory:
        return self

    def view(self, dtype: Any) -> Array:
        """The elements that have these bytes."""
        own, dtype = self.array, np.dtype(dtype)
        if dtype == own.dtype or (dtype.kind == "V" and dtype.itemsize == own.itemsize):
            return own
        only(is_number(own.dtype) and is_number(dtype), f"bytes of {own.dtype} as {dtype}")
        only(own.itemsize == dtype.itemsize, f"bytes of {own.dtype} as {dtype}")
        return own.with_bits(dtype)


def only(is_known: bool, what: str) -> None:
    """Raise `NotKnown` unless it is known."""
    if not is_known:
        raise NotKnown(what)


def _key(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(map(_key, key))
    return key.numbers() if isinstance(key, Array) else key


def _wrapped(data: Data, dtype: np.dtype[Any]) -> Data:
    return data.astype(dtype).astype(np.int64)


def _part(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.empty(0, dtype).real.dtype


def _op(s: Setting, name: str, given: Sequence[Type], made: Sequence[Type]) -> Op:
    return Op(name, (), (), tuple(given), tuple(made), {}, (), (), s.location)


def as_array(s: Setting, value: Any, dtype: Any, shape: Sequence[int] | None = None) -> Array:
    """A value of the machine as an array in memory of its own."""
    dtype = np.dtype(dtype)
    data = s.machine.integers(value) if is_number(dtype) else s.machine.elements(value)
    data = np.array(data if shape is None else np.broadcast_to(data, tuple(shape)))
    return s.array(s, data, dtype)


def of(s: Setting, given: Any, dtype: Any = None) -> Array:
    """Numbers, arrays of numpy, or lists of these as an array."""
    if isinstance(given, Array):
        return given if dtype is None or given.dtype == dtype else given.astype(dtype)
    if isinstance(given, (list, tuple)) and any(isinstance(each, (Array, list)) for each in given):
        parts = [of(s, each, dtype) for each in given]
        kind = np.result_type(*(each.dtype for each in parts))
        return s.array(s, np.stack([each.astype(kind).data for each in parts]), kind)
    array = np.asarray(given, dtype)
    type_ = type_of(array.dtype)
    if array.dtype.kind == "c":
        parts_ = (s.machine.field.of_floats(each, np.inf) for each in (array.real, array.imag))
        data = s.machine.field.complex(*parts_)
    elif is_number(array.dtype):
        data = array.astype(np.int64)
    elif array.dtype.kind == "b":
        data = array.astype(np.uint64)
    else:
        data = s.machine.field.of_floats(array.astype(np.float64), type_.largest)
    return s.array(s, np.array(data), array.dtype)


def together(s: Setting, given: Sequence[Any]) -> tuple[list[Array], np.dtype[Any]]:
    """Operands with the elements that numpy computes with."""
    kinds = [each.dtype if isinstance(each, Array) else each for each in given]
    dtype = np.result_type(*kinds)
    return [of(s, each, dtype) for each in given], dtype


_KINDS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "maximum": "max",
    "minimum": "min", "fmax": "max", "fmin": "min", "bitwise_and": "and", "bitwise_or": "or",
    "bitwise_xor": "xor", "logical_and": "and", "logical_or": "or", "logical_xor": "xor",
    "left_shift": "shl", "right_shift": "shr", "fmod": "rem", "floor_divide": "floordiv",
}  # fmt: skip
_COMPARISONS = {
    "equal": "EQ", "not_equal": "NE", "less": "LT", "less_equal": "LE", "greater": "GT",
    "greater_equal": "GE",
}  # fmt: skip
_FUNCTIONS = {
    "exp": "exponential exp", "log": "log", "tanh": "tanh", "sqrt": "sqrt", "sin": "sine sin",
    "cos": "cosine cos", "tan": "tan", "log1p": "log_plus_one log1p", "cbrt": "cbrt",
    "expm1": "exponential_minus_one expm1", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "rint": "round_nearest_even roundeven", "absolute": "abs absf", "abs": "abs absf",
    "fabs": "abs absf", "sign": "sign", "power": "power powf pow", "arctan2": "atan2",
    "isfinite": "is_finite isfinite", "isnan": "isnan", "copysign": "copysign", "exp2": "exp2",
    "log2": "log2", "log10": "log10", "sinh": "sinh", "cosh": "cosh", "arcsin": "asin",
    "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh",
    "arctanh": "atanh", "negative": "negate negf", "real": "real re", "imag": "imag im",
    "conjugate": "conj", "conj": "conj",
}  # fmt: skip
_DIALECTS = ("stablehlo", "math", "tosa", "arith", "chlo", "complex")
_OF_BITS = ("isfinite", "isnan")


def elementwise(s: Setting, name: str, *given: Any) -> Array:
    """What a function of numpy does with each element."""
    if name == "matmul":
        return matmul(s, *given)
    name = "divide" if name == "true_divide" else name
    arrays, dtype = together(s, given)
    if name == "divide" and dtype.kind in "biu":
        dtype = np.dtype(np.float64)
        arrays = [each.astype(dtype) for each in arrays]
    shape = np.broadcast_shapes(*(each.shape for each in arrays))
    values, direction = _of_one_rank(arrays, shape), _COMPARISONS.get(name)
    if direction is not None:
        return as_array(s, _compared(s, direction, values, type_of(dtype, shape)), bool, shape)
    if len(given) == 1 and (is_number(dtype) or dtype.kind == "b"):
        return _of_one(s, name, values[0], dtype)
    if name in _KINDS:
        return _combined(s, name, values, dtype, shape)
    if name not in _FUNCTIONS or is_number(dtype):
        raise NotKnown(f"np.{name} of {dtype}")
    arrays = [s.array(s, np.broadcast_to(each.data, shape), each.dtype) for each in arrays]
    made = {"real": _part(dtype), "imag": _part(dtype)}.get(name, dtype)
    made = np.dtype(bool) if name in _OF_BITS else made
    return called(s, _FUNCTIONS[name].split(), arrays, made)


def _of_one(s: Setting, name: str, value: Value, dtype: np.dtype[Any]) -> Array:
    """Of integers, or of bits."""
    if dtype.kind == "b":
        only(name in ("invert", "logical_not"), f"np.{name} of bits")
        return as_array(s, Value(s.machine.field.sub(ONE, value.data), True), dtype)
    only(name in ("invert", "negative", "absolute", "abs", "sign"), f"np.{name} of {dtype}")
    return as_array(s, Value(_wrapped(getattr(np, name)(value.data), dtype), False), dtype)


def _combined(
    s: Setting, name: str, values: Sequence[Value], dtype: np.dtype[Any], shape: Sequence[int]
) -> Array:
    kind, type_ = _KINDS[name], type_of(dtype, shape)
    if dtype.kind == "b":
        kind = {"add": "or", "mul": "and"}.get(kind, kind)
        only(kind in ("and", "or", "xor", "max", "min"), f"np.{name} of bits")
    only(type_.is_float is False or kind in _OF_FLOATS, f"np.{name} of floats")
    if name.startswith("logical"):
        only(dtype.kind == "b", f"np.{name} of {dtype}")
    if is_number(dtype) and kind in _OF_INTEGERS:
        return _of_integers(s, kind, values, type_, dtype)
    return as_array(s, combined(s.machine, kind, values[0], values[1], type_), dtype, shape)


_OF_FLOATS = ("add", "sub", "mul", "div", "max", "min", "rem")


_OF_INTEGERS = {
    "shr": "stablehlo.shift_right_logical", "floordiv": "stablehlo.divide",
    "rem": "stablehlo.remainder",
}  # fmt: skip
"""Operations that are others on unsigned integers, and of which numpy's is 0 by zero."""


def _of_integers(
    s: Setting, kind: str, values: Sequence[Value], type_: Type, dtype: np.dtype[Any]
) -> Array:
    found: Any = combined(s.machine, kind, values[0], values[1], type_)
    if dtype.kind == "u":
        op = _op(s, _OF_INTEGERS[kind], [type_, type_], [type_])
        found = OPS[op.name](s.machine, op, values)
    if kind != "shr":
        found = Value(np.where(values[1].data == 0, 0, found.data), False)
    return as_array(s, found, dtype)


def _of_one_rank(arrays: Sequence[Array], shape: Sequence[int]) -> list[Value]:
    return [
        Value(
            each.data.reshape((*(1,) * (len(shape) - each.ndim), *each.shape)),
            not is_number(each.dtype),
        )
        for each in arrays
    ]


def _compared(s: Setting, direction: str, values: Sequence[Value], type_: Type) -> Value:
    name = "stablehlo.compare"
    attributes = {"comparison_direction": f"#stablehlo<comparison_direction {direction}>"}
    op = Op(
        name, (), (), (type_, type_), (type_of(np.dtype(bool)),), attributes, (), (), s.location
    )
    found = OPS[name](s.machine, op, values)
    assert isinstance(found, Value), "it has one result"
    return found


def called(s: Setting, names: Sequence[str], given: Sequence[Array], dtype: Any) -> Array:
    """A function, as the op of the unsharded program that is it."""
    known = [f"{dialect}.{name}" for dialect in _DIALECTS for name in names]
    dialects = {each.partition(".")[0] for each in s.names}
    used = [each for each in known if each in s.names] or [
        each for each in known if each.partition(".")[0] in dialects
    ]
    shape = given[0].shape
    op = _op(
        s, (used or known)[0], [each.type for each in given], [type_of(np.dtype(dtype), shape)]
    )
    evaluate = OPS.get(op.name, OPS["math.tanh"])  # a function of elements, by its name
    return as_array(s, evaluate(s.machine, op, [each.value for each in given]), dtype, shape)


def reduced_along(s: Setting, kind: str, x: Any, axis: Any = None, dtype: Any = None) -> Array:
    """The elements along one, several or all dimensions reduced to one."""
    x = of(s, x)
    if dtype is None and kind in ("add", "mul") and x.dtype.kind in "biu":
        dtype = np.result_type(x.dtype, np.uint64 if x.dtype.kind == "u" else np.int64)
    x = x if dtype is None else x.astype(dtype)
    axes = range(x.ndim) if axis is None else (axis if isinstance(axis, tuple) else (axis,))
    dims = [each % x.ndim for each in axes]
    if x.dtype.kind == "b":
        kind = {"max": "or", "min": "and"}.get(kind, kind)
    return as_array(s, reduced(s.machine, kind, x.value, x.type, dims), x.dtype)


def einsum(s: Setting, text: str, *given: Any, optimize: Any = None) -> Array:
    """The sum of products of two arrays."""
    del optimize
    only(len(given) == 2 and "->" in text and "." not in text, f"np.einsum of {text!r}")
    left, _, out = text.replace(" ", "").partition("->")
    words = left.split(",")
    only(all(len(set(word)) == len(word) for word in (*words, out)), "a diagonal")
    arrays, dtype = together(s, given)
    only(dtype.kind != "b", "a product of bits")
    loops = {letter: number for number, letter in enumerate(dict.fromkeys("".join(words)))}
    a, b = (
        Over(each.value, tuple(loops[letter] for letter in word))
        for each, word in zip(arrays, words, strict=True)
    )
    total = contracted(s.machine, a, b, [loops[letter] for letter in out], type_of(dtype))
    return as_array(s, total, dtype)


def matmul(s: Setting, a: Any, b: Any) -> Array:
    """The product of matrices."""
    a, b = of(s, a), of(s, b)
    if a.ndim == b.ndim == 1:
        return einsum(s, "k,k->", a, b)
    left = "mk" if a.ndim > 1 else "k"
    right = "kn" if b.ndim > 1 else "k"
    made = left.replace("k", "") + right.replace("k", "")
    batch = "abcdefgh"[: max(a.ndim - 2, b.ndim - 2, 0)]
    of_a, of_b = batch[len(batch) - max(a.ndim - 2, 0) :], batch[len(batch) - max(b.ndim - 2, 0) :]
    only(not of_a or not of_b or a.shape[:-2] == b.shape[:-2], "np.matmul that broadcasts")
    return einsum(s, f"{of_a}{left},{of_b}{right}->{batch}{made}", a, b)


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
    values = _of_one_rank((bits, a, b), shape)
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
        only(self.name in _KINDS, f"np.{self.name}.reduce")
        return reduced_along(self.s, _KINDS[self.name], x, axis, dtype)

    def at(self, x: Array, index: Any, new: Any) -> None:
        """One element after the other, those of one place in rounds."""
        places = np.arange(x.size).reshape(x.shape)[_key(index)]
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
    "complex128 dtype inf nan pi newaxis iinfo finfo errstate number integer floating"
).split()
"""What is numpy's own."""
_REDUCTIONS = {
    "sum": "add", "prod": "mul", "max": "max", "min": "min", "all": "and", "any": "or",
}  # fmt: skip
_UFUNCS = {*_KINDS, *_COMPARISONS, *_FUNCTIONS, "invert", "logical_not", "true_divide", "matmul"}
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

    def asarray(self, x: Any, dtype: Any = None, order: str = "C") -> Array:
        only(order in ("C", "K"), "an order of memory")
        found = of(self.setting, x, None if dtype is None else np.dtype(dtype))
        return found if found.data.flags.c_contiguous else found.copy()

    def ascontiguousarray(self, x: Any) -> Array:
        return self.asarray(x)

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
