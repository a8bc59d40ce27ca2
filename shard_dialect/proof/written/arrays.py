"""Arrays as numpy's, of elements of the field.

Floats are elements, and so are bits, which may depend on how floats compare; integers are what they
are. Views are numpy's own, so that what is written through one shows in others. What is not here is
no guess: it raises an error at the line that asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import ml_dtypes
import numpy as np

from shard_dialect.proof.contractions import Over, contracted
from shard_dialect.proof.elementwise import combined, reduced
from shard_dialect.proof.field import ONE, mixed
from shard_dialect.proof.machine import OPS, Data, Machine, Value
from shard_dialect.proof.reading import Op, Type

_MOST_STEPS = 1 << 17
"""Of one rank: a loop that runs on is given up."""


class NotKnown(Exception):
    """What the prover does not know, by name."""


class Differing(Exception):
    """Ranks have different numbers as copies of one part of a result."""


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
        return part(self, "real") if self.dtype.kind == "c" else self

    @property
    def imag(self) -> Array:
        return part(self, "imag")

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
            return self.copy() if copy else self
        op = _op(self.s, "stablehlo.convert", [self.type], type_of(dtype, self.shape))
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

    def __copy__(self) -> Array:
        return self.copy()

    def __deepcopy__(self, _: Any) -> Array:
        return self.copy()

    def __getitem__(self, key: Any) -> Array:
        return self.with_data(np.asarray(self.data[as_index(key)]))

    def __setitem__(self, key: Any, new: Any) -> None:
        only(not self.is_read_only, "a write through a view of parts, or of other bits")
        value = of(self.s, new, self.dtype)
        key = as_index(key)
        if self.s.assembles():
            if self.written is None:
                self.written = np.zeros(self.shape, bool)
            data = np.broadcast_to(value.data, self.data[key].shape)
            differs = self.written[key] & (self.data[key] != data)
            self.written[key] = True
            self.data[key] = np.where(differs, self._neither(self.data[key], data), data)
            return
        self.data[key] = value.data

    def _neither(self, one: Data, other: Data) -> Data:
        """Elements drawn for each pair, since a sum of the two could be what is expected."""
        field = self.s.machine.field
        drawn = mixed(field.key("differs"), one.astype(np.uint64), other.astype(np.uint64))
        return drawn.astype(np.int64) if is_number(self.dtype) else field.reduced(drawn)

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **more: Any) -> Array:
        only(not more or set(more) <= {"axis", "dtype"}, f"np.{ufunc.__name__} with {list(more)}")
        if method == "reduce":
            return reduced_along(self.s, KINDS[ufunc.__name__], given[0], **{"axis": 0, **more})
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
        if np.any(self.written[key] & ~near):
            raise Differing
        self.written[key] = True
        own[key] = data


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


def as_index(key: Any) -> Any:
    """An index, in which arrays are their numbers."""
    if isinstance(key, tuple):
        return tuple(map(as_index, key))
    return key.numbers() if isinstance(key, Array) else key


def _wrapped(data: Data, dtype: np.dtype[Any]) -> Data:
    return data.astype(dtype).astype(np.int64)


def part(x: Array, name: str) -> Array:
    """The real or the imaginary part, which is a view: it may be read only."""
    made = called(x.s, FUNCTIONS[name].split(), [x], _part(x.dtype))
    made.is_read_only = True
    return made


def _part(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.empty(0, dtype).real.dtype


def _op(
    s: Setting, name: str, given: Sequence[Type], made: Type, attributes: Mapping[str, Any] = {}
) -> Op:
    return Op(name, (), (), tuple(given), (made,), dict(attributes), (), (), s.location)


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


KINDS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "maximum": "max",
    "minimum": "min", "fmax": "max", "fmin": "min", "bitwise_and": "and", "bitwise_or": "or",
    "bitwise_xor": "xor", "logical_and": "and", "logical_or": "or", "logical_xor": "xor",
    "left_shift": "shl", "right_shift": "shr", "fmod": "rem", "floor_divide": "floordiv",
}  # fmt: skip
COMPARISONS = {
    "equal": "EQ", "not_equal": "NE", "less": "LT", "less_equal": "LE", "greater": "GT",
    "greater_equal": "GE",
}  # fmt: skip
FUNCTIONS = {
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
    values, direction = of_one_rank(arrays, shape), COMPARISONS.get(name)
    if direction is not None:
        return as_array(s, _compared(s, direction, values, type_of(dtype, shape)), bool, shape)
    if len(given) == 1 and (is_number(dtype) or dtype.kind == "b"):
        return _of_one(s, name, values[0], dtype)
    if name in KINDS:
        return _combined(s, name, values, dtype, shape)
    if name not in FUNCTIONS or is_number(dtype):
        raise NotKnown(f"np.{name} of {dtype}")
    arrays = [s.array(s, np.broadcast_to(each.data, shape), each.dtype) for each in arrays]
    made = {"real": _part(dtype), "imag": _part(dtype)}.get(name, dtype)
    made = np.dtype(bool) if name in _OF_BITS else made
    return called(s, FUNCTIONS[name].split(), arrays, made)


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
    kind, type_ = KINDS[name], type_of(dtype, shape)
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
        op = _op(s, _OF_INTEGERS[kind], [type_, type_], type_)
        found = OPS[op.name](s.machine, op, values)
    if kind != "shr":
        found = Value(np.where(values[1].data == 0, 0, found.data), False)
    return as_array(s, found, dtype)


def of_one_rank(arrays: Sequence[Array], shape: Sequence[int]) -> list[Value]:
    """The values of arrays, with as many dimensions as a shape."""
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
    op = _op(s, name, [type_, type_], type_of(np.dtype(bool)), attributes)
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
    made = type_of(np.dtype(dtype), shape)
    op = _op(s, (used or known)[0], [each.type for each in given], made)
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
