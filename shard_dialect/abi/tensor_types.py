"""Element types, MLIR's and numpy's, and tensor types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.model.sharding import Reduction, Shape

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
    "f4E2M1FN": np.dtype(ml_dtypes.float4_e2m1fn),
    "f6E2M3FN": np.dtype(ml_dtypes.float6_e2m3fn),
    "f6E3M2FN": np.dtype(ml_dtypes.float6_e3m2fn),
    "f8E3M4": np.dtype(ml_dtypes.float8_e3m4),
    "f8E4M3": np.dtype(ml_dtypes.float8_e4m3),
    "f8E4M3B11FNUZ": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8E8M0FNU": np.dtype(ml_dtypes.float8_e8m0fnu),
}
KNOWN_DTYPES = frozenset(_DTYPES.values())
FLOATS_OF_A_BYTE = frozenset(name for name in _DTYPES if name.startswith(("f4", "f6", "f8")))
"""Floats of eight bits and less: each takes a byte in memory."""
NARROW_FLOATS = frozenset(name for name in FLOATS_OF_A_BYTE if not name.startswith("f8"))
"""Types that our own code only moves: LLVM has no arithmetic on them, XLA has."""


SUB_BYTE_DTYPES = [_DTYPES[name] for name in ("i2", "i4", "ui2", "ui4")]
"""Types whose elements each take one byte in memory, whose other bits have no meaning."""


def dtype_of(element: ir.Type) -> np.dtype[np.generic]:
    """The numpy type of an MLIR element type."""
    if not has_numpy_type(element):
        raise ShardError(f"cannot run on elements of type {element} yet")
    return _DTYPES[str(element)]


def has_numpy_type(element: ir.Type) -> bool:
    """Whether there is a numpy type for an MLIR element type."""
    return str(element) in _DTYPES


@dataclass(frozen=True, slots=True)
class TensorType:
    """A shape and an element type, written as MLIR does: `2x4xf32`."""

    shape: Shape
    dtype: np.dtype[np.generic]

    @property
    def element(self) -> str:
        """MLIR's name of the element type; `i64` for indices, too."""
        return next(name for name, dtype in _DTYPES.items() if dtype == self.dtype)

    def __str__(self) -> str:
        return "x".join([*map(str, self.shape), self.element])


def identity(reduction: Reduction, dtype: np.dtype[Any]) -> Any:
    """The element of `dtype` that a reduction leaves unchanged."""
    if dtype == np.bool_:
        return reduction in ("min", "product", "bitwise_and")
    if reduction == "product":
        return 1
    if reduction not in ("max", "min", "bitwise_and"):
        return 0
    try:
        limits = ml_dtypes.iinfo(dtype)
    except ValueError:  # floats
        return -np.inf if reduction == "max" else np.inf
    if reduction == "bitwise_and":
        return -1 if limits.min else limits.max
    return limits.min if reduction == "max" else limits.max
