"""StableHLO's ops as text, in the generic form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shard_dialect.testing.sample import Sample, Tensor


def hlo(
    name: str,
    operands: Sequence[Tensor],
    results: Sequence[Tensor],
    attributes: str = "",
    region: str = "",
    constants: Mapping[int, str] | None = None,
) -> Sample:
    """A sample of `"stablehlo.name"` in generic form; `constants` replaces some operands."""
    return Sample.generic(f"stablehlo.{name}", operands, results, attributes, region, constants)


IDENTITIES = {
    ("add", "f32"): "0.0", ("multiply", "f32"): "1.0", ("maximum", "f32"): "0xFF800000",
    ("minimum", "f32"): "0x7F800000", ("add", "i32"): "0", ("multiply", "i32"): "1",
    ("maximum", "i32"): "-2147483648", ("minimum", "i32"): "2147483647", ("and", "i1"): "true",
    ("or", "i1"): "false", ("add", "ui32"): "0", ("multiply", "ui8"): "1", ("maximum", "ui32"): "0",
    ("minimum", "ui16"): "65535", ("minimum", "ui64"): "18446744073709551615", ("or", "ui32"): "0",
    ("add", "complex<f32>"): "(0.0, 0.0)", ("multiply", "complex<f64>"): "(1.0, 0.0)",
}  # fmt: skip
"""By ops and elements, what changes nothing."""


def joining(name: str, element: str = "f32", count: int = 1) -> str:
    """A region that joins its arguments in pairs, by the op `name`."""
    type_ = f"tensor<{element}>"
    arguments = ", ".join(f"%x{number}: {type_}" for number in range(2 * count))
    lines = "\n".join(
        f"%y{number} = stablehlo.{name} %x{number}, %x{number + count} : {type_}"
        for number in range(count)
    )
    result = ", ".join(f"%y{number}" for number in range(count))
    types = ", ".join([type_] * count)
    return f"\n^bb0({arguments}):\n{lines}\nstablehlo.return {result} : {types}\n"


def compare(direction: str, element: str = "f32", count: int = 1) -> str:
    """A region that compares the first of its pairs of arguments."""
    arguments = ", ".join(f"%x{number}: tensor<{element}>" for number in range(2 * count))
    return (
        f"\n^bb0({arguments}):\n%p = stablehlo.compare {direction}, %x0, %x1 : "
        f"(tensor<{element}>, tensor<{element}>) -> tensor<i1>\nstablehlo.return %p : tensor<i1>\n"
    )
