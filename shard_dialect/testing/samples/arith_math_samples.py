"""Samples of `arith` and `math` ops."""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.testing.random_draws import Draws
from shard_dialect.testing.sample import Sample, Tensor

_F32 = {
    "arith": ("addf divf maximumf maxnumf minimumf minnumf mulf remf subf", "negf flush_denormals"),
    "math": (
        "atan2 copysign powf",
        "absf acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 floor "
        "log log10 log1p log2 round roundeven rsqrt sin sinh sqrt tan tanh trunc",
    ),
}
_I32 = {
    "arith": ("addi andi maxsi maxui minsi minui muli ori subi xori", ""),
    "math": ("ipowi", "absi ctlz ctpop cttz"),
}
_BY_THREE = "ceildivsi ceildivui divsi divui floordivsi remsi remui shli shrsi shrui"
"""Whose second operand is a constant: by zero, and beyond the width, they say nothing."""
_CASTS = {
    "bitcast": "f32 i32",
    "convertf": "f16 bf16",
    "extf": "f32 f64",
    "extsi": "i32 i64",
    "extui": "i32 i64",
    "fptosi": "f32 i32",
    "index_cast": "i32 index",
    "index_castui": "i32 index",
    "sitofp": "i32 f32",
    "truncf": "f64 f32",
    "trunci": "i64 i32",
    "uitofp": "i32 f64",
}


def _elementwise(op: str, element: str, count: int) -> Callable[[Draws], Sample]:
    def draw(draws: Draws) -> Sample:
        x = draws.any(element)
        operands = ", ".join(f"%{number}" for number in range(count))
        return Sample.of(op, [x] * count, f"%r = {op} {operands} : $r", [x])

    return draw


def _by_three(op: str) -> Callable[[Draws], Sample]:
    def draw(draws: Draws) -> Sample:
        x = draws.any("i32")
        return Sample.of(op, [x], f"%c = arith.constant dense<3> : $0\n%r = {op} %0, %c : $r", [x])

    return draw


def _cast(op: str, source: str, target: str) -> Callable[[Draws], Sample]:
    def draw(draws: Draws) -> Sample:
        x = draws.any(source)
        return Sample.of(op, [x], f"%r = {op} %0 : $0 to $r", [x.of(target)])

    return draw


def _written(
    op: str, operands: str, text: str, results: str, before: str = ""
) -> Callable[[Draws], Sample]:
    """`%r = op text`, of operands of these elements, all of one shape."""

    def draw(draws: Draws) -> Sample:
        x = draws.any(operands.split()[0])
        result = results.split()
        several = f":{len(result)}" if len(result) > 1 else ""
        return Sample.of(
            op,
            [x.of(each) for each in operands.split()],
            f"{before}%r{several} = {op} {text}",
            [x.of(each) for each in result],
        )

    return draw


def _select(draws: Draws) -> Sample:
    x = draws.any()
    if draws.chance(0.3):
        text = "%p = tensor.extract %0[] : $0\n%r = arith.select %p, %1, %2 : $r"
        return Sample.of("arith.select", [Tensor((), "i1"), x, x], text, [x])
    text = "%r = arith.select %0, %1, %2 : $0, $r"
    return Sample.of("arith.select", [x.of("i1"), x, x], text, [x])


def _constant(draws: Draws) -> Sample:
    rows, columns = (draws.size() for _ in range(2))
    values = (
        "2.0"
        if draws.chance(0.3)
        else [[float(row * columns + column) for column in range(columns)] for row in range(rows)]
    )
    result = Tensor((rows, columns))
    return Sample.of("arith.constant", [], f"%r = arith.constant dense<{values}> : $r", [result])


SAMPLES: dict[str, Callable[[Draws], Sample]] = {
    **{
        f"{dialect}.{name}": _elementwise(f"{dialect}.{name}", element, count)
        for element, dialects in (("f32", _F32), ("i32", _I32))
        for dialect, names in dialects.items()
        for count, listed in zip((2, 1), names, strict=True)
        for name in listed.split()
    },
    **{f"arith.{name}": _by_three(f"arith.{name}") for name in _BY_THREE.split()},
    **{f"arith.{name}": _cast(f"arith.{name}", *types.split()) for name, types in _CASTS.items()},
    "arith.addui_extended": _written(
        "arith.addui_extended", "i32 i32", "%0, %1 : $r, $s", "i32 i1"
    ),
    "arith.subui_extended": _written(
        "arith.subui_extended", "i32 i32", "%0, %1 : $r, $s", "i32 i1"
    ),
    "arith.mulsi_extended": _written("arith.mulsi_extended", "i32 i32", "%0, %1 : $r", "i32 i32"),
    "arith.mului_extended": _written("arith.mului_extended", "i32 i32", "%0, %1 : $r", "i32 i32"),
    "arith.fptoui": _written(
        "arith.fptoui", "f32", "%a : $0 to $r", "i32", "%a = math.absf %0 : $0\n"
    ),
    "arith.cmpf": _written("arith.cmpf", "f32 f32", "olt, %0, %1 : $0", "i1"),
    "arith.cmpi": _written("arith.cmpi", "i32 i32", "slt, %0, %1 : $0", "i1"),
    "arith.select": _select,
    "arith.constant": _constant,
    "arith.scaling_extf": _written(
        "arith.scaling_extf", "f4E2M1FN f8E8M0FNU", "%0, %1 : $0, $1 to $r", "f32"
    ),
    "arith.scaling_truncf": _written(
        "arith.scaling_truncf", "f32 f8E8M0FNU", "%0, %1 : $0, $1 to $r", "f4E2M1FN"
    ),
    "math.clampf": _written("math.clampf", "f32 f32 f32", "%0 to [%1, %2] : $r", "f32"),
    "math.fma": _written("math.fma", "f32 f32 f32", "%0, %1, %2 : $r", "f32"),
    "math.fpowi": _written("math.fpowi", "f32 i32", "%0, %1 : $0, $1", "f32"),
    "math.sincos": _written("math.sincos", "f32", "%0 : $0", "f32 f32"),
    **{
        f"math.{name}": _written(f"math.{name}", "f32", "%0 : $0", "i1")
        for name in "isfinite isinf isnan isnormal".split()
    },
}

_UPSTREAM = "upstream lowers it neither to LLVM nor to libm"
NOT_RUN = dict.fromkeys(
    (
        "arith.convertf", "arith.flush_denormals", "arith.scaling_extf", "arith.scaling_truncf",
        "math.ipowi", "math.isinf", "math.isnormal",
    ),
    _UPSTREAM,
)  # fmt: skip
# Where they are steep, or are not numbers, rounding decides: a root of what is zero but for it.
JUMPS = {
    *(
        f"math.{name}"
        for name in "ceil floor round roundeven trunc copysign tan powf fpowi".split()
    ),
    *(f"math.{name}" for name in "acos acosh asin atanh atan2 log log10 log1p log2".split()),
    *(f"math.{name}" for name in "rsqrt sqrt cbrt".split()),
    *("arith.remf", "arith.divf"),
}
MOVES = {"arith.select", "arith.negf", "arith.constant"}
