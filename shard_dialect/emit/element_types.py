"""The element types of emitted programs: what numpy and torch hold MLIR's elements in.

torch has next to no ops on unsigned integers of more than 8 bits, so it holds them as signed ones
of the same bits. numpy holds bf16 as `ml_dtypes` does.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir

_SAME = {
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "index": "int64",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
    "ui8": "uint8",
}
_NUMPY = {
    **{name: f"np.{held}" for name, held in _SAME.items()},
    "i1": "np.bool_",
    "ui16": "np.uint16",
    "ui32": "np.uint32",
    "ui64": "np.uint64",
    "bf16": "ml_dtypes.bfloat16",
}
_TORCH = {
    **{name: f"torch.{held}" for name, held in _SAME.items()},
    "i1": "torch.bool",
    "ui16": "torch.int16",
    "ui32": "torch.int32",
    "ui64": "torch.int64",
    "bf16": "torch.bfloat16",
}
_FLIPPED = ("ui16", "ui32", "ui64")


def held_by(target: str, element: str) -> str | None:
    """The target's type that holds elements of a type; `None` if there is none."""
    return (_TORCH if target == "torch" else _NUMPY).get(element)


def held_by_torch(element: str) -> str:
    """The name in `torch` of the type that holds elements of a type."""
    return _TORCH[element].removeprefix("torch.")


def is_half(element: ir.Type) -> bool:
    """Whether elements are floats of 16 bits, which are added up in f32."""
    return str(element) in ("f16", "bf16")


def is_complex(element: ir.Type) -> bool:
    """Whether elements are complex numbers."""
    return isinstance(element, ir.ComplexType)


def is_unsigned(element: ir.Type) -> bool:
    """Whether elements are integers whose type is unsigned."""
    return isinstance(element, ir.IntegerType) and element.is_unsigned
