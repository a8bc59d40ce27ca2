"""Arrays: element types, random inputs, files, and comparing results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from shard_dialect.errors import ShardError, cannot
from shard_dialect.ir.bindings import ir
from shard_dialect.model.sharding import Shape
from shard_dialect.outputs import Output

Array = NDArray[np.generic]

_DTYPES: dict[str, np.dtype[np.generic]] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "i1": np.dtype(np.bool_),
    "i2": np.dtype(ml_dtypes.int2),
    "i4": np.dtype(ml_dtypes.int4),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "ui2": np.dtype(ml_dtypes.uint2),
    "ui4": np.dtype(ml_dtypes.uint4),
    "ui8": np.dtype(np.uint8),
    "ui16": np.dtype(np.uint16),
    "ui32": np.dtype(np.uint32),
    "ui64": np.dtype(np.uint64),
    "index": np.dtype(np.int64),
    "complex<f32>": np.dtype(np.complex64),
    "complex<f64>": np.dtype(np.complex128),
}
KNOWN_DTYPES = frozenset(_DTYPES.values())


_LESS_THAN_A_BYTE = [_DTYPES[name] for name in ("i2", "i4", "ui2", "ui4")]
"""In memory each of these takes one, of which the other bits mean nothing."""


def dtype_of(element: ir.Type) -> np.dtype[np.generic]:
    """The numpy type of an MLIR element type."""
    if not can_be_run(element):
        raise ShardError(f"cannot run on elements of type {element} yet")
    return _DTYPES[str(element)]


def can_be_run(element: ir.Type) -> bool:
    """Whether there is a numpy type for an MLIR element type."""
    return str(element) in _DTYPES


@dataclass(frozen=True, slots=True)
class TensorType:
    """A shape and an element type, written as MLIR does: `2x4xf32`."""

    shape: Shape
    dtype: np.dtype[np.generic]

    def __str__(self) -> str:
        name = next(name for name, dtype in _DTYPES.items() if dtype == self.dtype)
        return "x".join([*map(str, self.shape), name])


def random_inputs(types: Sequence[TensorType], seed: int) -> list[Array]:
    """Inputs drawn from a normal distribution, or from small integers, the same for one seed.

    Those below zero are the largest ones of unsigned types.
    """
    generator = np.random.default_rng(seed)

    def draw(type_: TensorType) -> Array:
        if type_.dtype == np.bool_:
            return generator.integers(0, 2, type_.shape).astype(np.bool_)
        if np.issubdtype(type_.dtype, np.integer) or type_.dtype in _LESS_THAN_A_BYTE:
            return generator.integers(-4, 5, type_.shape).astype(type_.dtype)
        if type_.dtype.kind == "c":
            pairs = generator.standard_normal((*type_.shape, 2))
            return pairs.view(np.complex128)[..., 0].astype(type_.dtype)
        return generator.standard_normal(type_.shape).astype(type_.dtype)

    return [draw(type_) for type_ in types]


def shapes_in(path: str) -> dict[str, Shape]:
    """The shapes of a `.npz` file's arrays."""
    return {name: array.shape for name, array in _arrays(path).items()}


def load_inputs(path: str, types: Sequence[TensorType]) -> list[Array]:
    """The arrays `arg0`, `arg1`, ... of a `.npz` file; raises unless their types are `types`."""
    given = _arrays(path)
    names = [f"arg{index}" for index in range(len(types))]
    if sorted(given) != sorted(names):
        found = ", ".join(sorted(given)) or "none"
        raise ShardError(f"'{path}' holds {found}; expected {', '.join(names) or 'none'}")
    for name, type_ in zip(names, types, strict=True):
        _check_type(path, name, given[name], type_)
    return [
        np.asarray(given[name].view(type_.dtype), order="C")
        for name, type_ in zip(names, types, strict=True)
    ]


def _arrays(path: str) -> dict[str, Array]:
    try:
        with open(path, "rb") as stream, np.load(stream) as file:
            return {name: _read(path, file, name) for name in file.files}
    except OSError as error:
        raise cannot("read", path, error) from None
    except (ShardError, MemoryError):
        raise
    except Exception as error:  # whatever numpy, zipfile and zlib make of what is in it
        is_unknown = isinstance(error, NotImplementedError | RuntimeError)
        reason = f": {error}" if is_unknown else ""
        raise ShardError(f"cannot read '{path}': it is no .npz file of arrays{reason}") from None


def _read(path: str, file: Mapping[str, Array], name: str) -> Array:
    try:
        return file[name]
    except ValueError as error:
        if "Object arrays" in str(error):
            raise ShardError(f"'{path}': {name} has dtype object: its elements are none") from None
        raise


def _check_type(path: str, name: str, array: Array, type_: TensorType) -> None:
    if array.dtype.names is not None:
        raise ShardError(
            f"'{path}': {name} has the structured dtype {array.dtype}, expected {type_.dtype}"
        )
    if array.shape != type_.shape:
        raise ShardError(
            f"'{path}': {name} has shape {_shape(array.shape)}, expected {_shape(type_.shape)}"
        )
    # numpy writes the element types that it does not know, bf16 for one, as raw bytes.
    is_known = type_.dtype.isbuiltin == 1
    raw = array.dtype.type is np.void and array.dtype.itemsize == type_.dtype.itemsize
    if array.dtype != type_.dtype and (is_known or not raw):
        raise ShardError(f"'{path}': {name} has dtype {array.dtype}, expected {type_.dtype}")


def _shape(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "()"


def save_outputs(file: Output, outputs: Sequence[Array]) -> None:
    """Write `result0`, `result1`, ... to a `.npz` file."""
    arrays: Mapping[str, Array] = {f"result{i}": each for i, each in enumerate(outputs)}
    file.replace(lambda stream: np.savez(stream, allow_pickle=False, **arrays))
