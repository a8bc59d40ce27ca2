"""Each `arith` and `math` op, cut at random, against the unsharded op."""

import pytest

from shard_dialect.ir.context import make_context
from shard_dialect.ops.dialects.arith_math import RECORDS
from tests.ops.placed import (
    Case,
    at_random,
    case,
    check_every_split,
    check_means_the_same,
    rule_text,
)

pytestmark = pytest.mark.usefixtures("unoptimized")

FLOATS = {
    "arith": (
        "addf divf maximumf maxnumf minimumf minnumf mulf remf subf",
        "negf",
    ),
    "math": (
        "atan2 copysign powf",
        "absf acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 floor "
        "log log10 log1p log2 round roundeven rsqrt sin sinh sqrt tan tanh trunc",
    ),
}
INTEGERS = {
    "arith": ("addi andi maxsi maxui minsi minui muli ori subi xori", ""),
    "math": ("", "absi ctlz ctpop cttz"),
}
BY_THREE = "ceildivsi ceildivui divsi divui floordivsi remsi remui shli shrsi shrui"
CASTS = {
    "bitcast": "f32 i32",
    "extf": "f32 f64",
    "extsi": "i32 i64",
    "extui": "i32 i64",
    "fptosi": "f32 i32",
    "index_cast": "i32 index",
    "index_castui": "i32 index",
    "sitofp": "i32 f32",
    "truncf": "f32 f16",
    "trunci": "i32 i8",
    "uitofp": "i32 f64",
}
NOT_LOWERED = {
    "arith": "convertf flush_denormals scaling_extf scaling_truncf",
    "math": "ipowi isinf isnormal",
}
THREES = "%c = arith.constant dense<3> : $0\n"


def named(element: str, families: dict[str, tuple[str, str]]) -> dict[str, Case]:
    """Ops on two tensors, and on one."""
    one = f"4x8x{element}"
    found = {}
    for dialect, names in families.items():
        for count, listed in zip((2, 1), names, strict=True):
            for name in listed.split():
                operands = ", ".join(["%0", "%1"][:count])
                body = f"%r = {dialect}.{name} {operands} : $r"
                found[name] = case(f"{dialect}.{name}", " ".join([one] * count), body, one)
    return found


def pointwise(op: str, arguments: str, text: str, results: str) -> Case:
    several = "%r:2" if " " in results else "%r"
    *before, last = text.split("\n")
    return case(op, arguments, "\n".join([*before, f"{several} = {op} {last}"]), results)


F, I, B = "4x8xf32", "4x8xi32", "4x8xi1"
CASES = {
    **named("f32", FLOATS),
    **named("i32", INTEGERS),
    **{name: pointwise(f"arith.{name}", I, THREES + "%0, %c : $r", I) for name in BY_THREE.split()},
    **{
        name: pointwise(
            f"arith.{name}", f"4x8x{types.split()[0]}", "%0 : $0 to $r", f"4x8x{types.split()[1]}"
        )
        for name, types in CASTS.items()
    },
    "addui_extended": pointwise("arith.addui_extended", f"{I} {I}", "%0, %1 : $r, $s", f"{I} {B}"),
    "subui_extended": pointwise("arith.subui_extended", f"{I} {I}", "%0, %1 : $r, $s", f"{I} {B}"),
    "mulsi_extended": pointwise("arith.mulsi_extended", f"{I} {I}", "%0, %1 : $r", f"{I} {I}"),
    "mului_extended": pointwise("arith.mului_extended", f"{I} {I}", "%0, %1 : $r", f"{I} {I}"),
    "fptoui": case("arith.fptoui", F, "%a = math.absf %0 : $0\n%r = arith.fptoui %a : $0 to $r", I),
    "cmpf": pointwise("arith.cmpf", f"{F} {F}", "olt, %0, %1 : $0", B),
    "cmpi": pointwise("arith.cmpi", f"{I} {I}", "slt, %0, %1 : $0", B),
    "select": pointwise("arith.select", f"{B} {F} {F}", "%0, %1, %2 : $0, $r", F),
    "select by a scalar": case(
        "arith.select",
        f"i1 {F} {F}",
        "%p = tensor.extract %0[] : $0\n%r = arith.select %p, %1, %2 : $r",
        F,
    ),
    "constant": case(
        "arith.addf",
        "2x4xf32",
        "%c = arith.constant dense<[[1., 2., 3., 4.], [5., 6., 7., 8.]]> : $0\n"
        "%r = arith.addf %0, %c : $r",
        "2x4xf32",
    ),
    "constant that repeats": case(
        "arith.addf", F, "%c = arith.constant dense<2.0> : $0\n%r = arith.addf %0, %c : $r", F
    ),
    "clampf": pointwise("math.clampf", f"{F} {F} {F}", "%0 to [%1, %2] : $r", F),
    "fma": pointwise("math.fma", f"{F} {F} {F}", "%0, %1, %2 : $r", F),
    "fpowi": pointwise("math.fpowi", f"{F} {I}", "%0, %1 : $0, $1", F),
    "sincos": pointwise("math.sincos", F, "%0 : $0", f"{F} {F}"),
    **{name: pointwise(f"math.{name}", F, "%0 : $0", B) for name in ("isfinite", "isnan")},
}


@pytest.mark.parametrize("name", CASES)
def test_placed_at_random_it_means_the_same(name: str) -> None:
    check_means_the_same(at_random(CASES[name], 0))


@pytest.mark.parametrize("name", ["addf", "select", "select by a scalar", "constant", "sincos"])
def test_every_split_is_reached(name: str) -> None:
    assert check_every_split(CASES[name]) == 10


@pytest.mark.parametrize("name", CASES)
def test_each_dimension_is_a_factor(name: str) -> None:
    assert "-> ([a, b]" in rule_text(CASES[name])


def test_every_op_of_the_tables_is_tried() -> None:
    rest = {f"{name}.{op}" for name, listed in NOT_LOWERED.items() for op in listed.split()}
    assert set(RECORDS) - {each.op for each in CASES.values()} == rest | {"arith.constant"}
    with make_context() as context:
        assert all(context.dialects[name] for name in ("arith", "math"))  # loads them
        assert not [name for name in RECORDS if not context.is_registered_operation(name)]
