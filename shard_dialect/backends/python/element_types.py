"""The element types of emitted programs: the types by which numpy and torch hold MLIR's elements.

torch has next to no ops on unsigned integers of more than 8 bits, so it holds them as signed ones
of the same bits. numpy holds bf16 as `ml_dtypes` does.
"""

from __future__ import annotations

import re

import numpy as np

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


def element_of(type_: ir.Type) -> ir.Type:
    """The element type of a tensor, or the type itself."""
    return type_.element_type if isinstance(type_, ir.ShapedType) else type_


def held_by(target: str, element: str) -> str | None:
    """The target's type that holds elements of a type; `None` if there is none."""
    return (_TORCH if target == "torch" else _NUMPY).get(element)


def held_by_torch(element: str) -> str:
    """The name in `torch` of the type that holds elements of a type."""
    return _TORCH[element].removeprefix("torch.")


def numpy_name(element: str) -> str:
    """Numpy's name of the type of elements that are not bf16, as for `np.dtype`."""
    return _NUMPY[element].removeprefix("np.").removesuffix("_")


def is_half(element: ir.Type) -> bool:
    """Whether elements are floats of 16 bits, which are added up in f32."""
    return str(element) in ("f16", "bf16")


def is_complex(element: ir.Type) -> bool:
    """Whether elements are complex numbers."""
    return isinstance(element, ir.ComplexType)


def is_unsigned(element: ir.Type) -> bool:
    """Whether elements are integers whose type is unsigned."""
    return isinstance(element, ir.IntegerType) and element.is_unsigned


def is_flipped(element: ir.Type) -> bool:
    """Whether torch holds elements as signed integers that are none."""
    return str(element) in _FLIPPED


def unsigned_view(element: ir.Type) -> str:
    """Numpy's unsigned type with the bits of a signless one."""
    return f"np.uint{element.width}"


def as_held(value: int, element: ir.Type) -> int:
    """An integer as torch holds it: in a signed type, if it has no other for the elements.

    The largest integer of 32 bits becomes -1, for example.
    """
    if not is_flipped(element):
        return value
    half = 1 << (element.width - 1)
    return (value + half) % (2 * half) - half


def elements_of(dense: ir.Attribute) -> list[complex]:
    """The elements of a constant in row-major order, as Python's numbers."""
    element = dense.type.element_type
    if not is_complex(element) and str(element) != "bf16":
        numbers: list[complex] = np.array(dense).flatten().tolist()
        return numbers
    # The bindings read neither, so their text is.
    text = str(dense).removeprefix("dense<").rpartition("> : ")[0]
    component = element.element_type if is_complex(element) else element
    if text.startswith('"0x'):
        found = _floats(bytes.fromhex(text[3:-1]), component)
    else:
        found = [_float(each, component) for each in re.findall(r"[^\s\[\](),]+", text)]
    if is_complex(element):
        return [complex(*pair) for pair in zip(found[::2], found[1::2], strict=True)]
    return list(found)


def _float(text: str, element: ir.Type) -> float:
    """A float of MLIR's text, which has the bits of those that are no numbers."""
    if not text.startswith("0x"):
        return float(text)
    size = element.width // 8
    return _floats(int(text, 16).to_bytes(size, "little"), element)[0]


def _floats(raw: bytes, element: ir.Type) -> list[float]:
    if str(element) == "bf16":
        bits = np.frombuffer(raw, "<u2").astype("<u4") << 16
        return [float(each) for each in bits.view("<f4")]
    return [float(each) for each in np.frombuffer(raw, f"<f{element.width // 8}")]
