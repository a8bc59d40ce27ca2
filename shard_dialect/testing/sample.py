"""A sample: the text of one op, and the types of its operands and results.

    Sample.of("tosa.abs", [Tensor((4, 8))], "%r = tosa.abs %0 : ($0) -> $r", [Tensor((4, 8))])

In the body `%0`, `%1`, ... are the operands, `%r` is the op's result (`%r:2` for two results), and
other names are auxiliary values; `$0` is the type of `%0`, and `$r`, `$s`, `$t` are those of the
results.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from shard_dialect.model.sharding import Shape

_TENSOR = re.compile(r"((?:\d+x)*)(.+)$")
_NAME = re.compile(r"%(\w+)")
_RESULTS = "rst"
_SINGLE = re.compile(r"(?<!complex<)(?:(?<=x)|(?<=<)|\b)f32\b")
_INFINITIES = {
    "0xFF800000": {"bf16": "0xFF80", "f16": "0xFC00"},
    "0x7F800000": {"bf16": "0x7F80", "f16": "0x7C00"},
}
"""As bits of f32, and of the narrower floats."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A type, written as MLIR does.

    >>> print(Tensor((4, 8), "i32"), Tensor.read("2xf64").shape)
    tensor<4x8xi32> (2,)
    """

    shape: Shape
    element: str = "f32"

    @classmethod
    def read(cls, text: str) -> Tensor:
        """The type in `4x8xf32`, or in `tensor<4x8xf32>`."""
        match = _TENSOR.match(text[7:-1] if text.startswith("tensor<") else text)
        assert match is not None, f"'{text}' is no tensor's type"
        return cls(tuple(map(int, match[1].split("x")[:-1])), match[2])

    @property
    def is_float(self) -> bool:
        """Whether the elements are floats."""
        return "f" in self.element

    def of(self, element: str) -> Tensor:
        """The same shape with another element type."""
        return replace(self, element=element)

    def sized(self, dim: int, size: int) -> Tensor:
        """The same type with another size of one dimension."""
        return replace(self, shape=(*self.shape[:dim], size, *self.shape[dim + 1 :]))

    def without(self, *dims: int) -> Tensor:
        """The same type without these dimensions."""
        kept = tuple(size for dim, size in enumerate(self.shape) if dim not in dims)
        return replace(self, shape=kept)

    def __str__(self) -> str:
        return f"tensor<{'x'.join([*map(str, self.shape), self.element])}>"


@dataclass(frozen=True, slots=True)
class Sample:
    """An instance of the op `op`: `body` computes `%r` from `%0`, `%1`, ..."""

    op: str
    operands: tuple[Tensor, ...]
    body: str
    results: tuple[Tensor, ...]
    declared: str = ""
    """Text that goes beside the function in the module."""

    @classmethod
    def of(
        cls,
        op: str,
        operands: Sequence[Tensor],
        body: str,
        results: Sequence[Tensor],
        declared: str = "",
    ) -> Sample:
        """The sample, with the types of operands and results filled in."""
        for name, type_ in (*enumerate(operands), *zip(_RESULTS, results, strict=False)):
            body = body.replace(f"${name}", str(type_))
        return cls(op, tuple(operands), body, tuple(results), declared)

    @classmethod
    def generic(
        cls,
        op: str,
        operands: Sequence[Tensor],
        results: Sequence[Tensor],
        attributes: str = "",
        region: str = "",
        constants: Mapping[int, str] | None = None,
    ) -> Sample:
        """The sample in generic form; `constants` replaces some operands."""
        known = constants or {}
        constant = "stablehlo.constant" if op.startswith("stablehlo.") else "arith.constant"
        names: list[str] = []
        lines: list[str] = []
        operand_types: list[Tensor] = []
        for number, type_ in enumerate(operands):
            if number in known:
                names.append(f"%c{number}")
                lines.append(f"%c{number} = {constant} dense<{known[number]}> : {type_}\n")
            else:
                names.append(f"%{len(operand_types)}")
                operand_types.append(type_)
        several = f":{len(results)}" if len(results) > 1 else ""
        types = f"({', '.join(map(str, operands))}) -> ({', '.join(map(str, results))})"
        inside = f" ({{{region}}})" if region else ""
        given = f" {{{attributes}}}" if attributes else ""
        text = f'%r{several} = "{op}"({", ".join(names)}){inside}{given} : {types}'
        return cls.of(op, operand_types, "".join(lines) + text, results)

    def in_precision(self, element: str) -> Sample:
        """The same with `bf16` or `f16` for every `f32`.

        >>> sample = Sample.of("math.sin", [Tensor((2,))], "%r = math.sin %0 : $0", [Tensor((2,))])
        >>> sample.in_precision("bf16").body
        '%r = math.sin %0 : tensor<2xbf16>'
        """

        def narrowed(text: str) -> str:
            for bits, others in _INFINITIES.items():
                text = text.replace(bits, others[element])
            return _SINGLE.sub(element, text)

        operands, results = (
            tuple(each.of(element) if each.element == "f32" else each for each in tensors)
            for tensors in (self.operands, self.results)
        )
        return Sample(self.op, operands, narrowed(self.body), results, narrowed(self.declared))

    @property
    def result_names(self) -> tuple[str, ...]:
        """The names of the results, as in `%r#0`."""
        several = len(self.results) > 1
        return tuple(f"%r#{number}" if several else "%r" for number in range(len(self.results)))

    @property
    def jumps(self) -> bool:
        """Whether rounding may decide the result: floats are operands, integers are results."""
        makes_others = any(not each.is_float for each in self.results)
        return makes_others and any(each.is_float for each in self.operands)

    def renamed(self, operands: Sequence[str], result: str, prefix: str) -> str:
        """The body with other names: of the operands, of the result, and of whatever else it names.

        >>> sample = Sample.of("math.sin", [Tensor((2,))], "%r = math.sin %0 : $0", [Tensor((2,))])
        >>> sample.renamed(["%x"], "%y", "z")
        '%y = math.sin %x : tensor<2xf32>'
        """
        known: Mapping[str, str] = {
            "r": result,
            **{str(number): name for number, name in enumerate(operands)},
        }
        return _NAME.sub(lambda match: known.get(match[1], f"%{prefix}{match[1]}"), self.body)
