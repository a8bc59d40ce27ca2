"""The functions that elementwise ops apply to each element, by a name that all dialects share.

    "exp"    math.exp, complex.exp, linalg.exp, stablehlo.exponential, tosa.exp

An op's record names its function. Its numpy, torch and StableHLO, and its cost, follow from this
table. In the templates `{0}` is the first operand, and `{m}` is `np` or `torch`. `Trait`s are the
properties by which passes ask for a kind of op instead of its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, auto


class Trait(Flag):
    """Properties of ops, and of the functions that elementwise ops apply to each element."""

    ELEMENTWISE = auto()
    """Each element of the results is computed from one element of each operand."""
    ELEMENTARY = auto()
    """An elementary function: implementations differ in its last place."""
    STEEP = auto()
    """On floats rounding may decide the result, as that of `floor`."""
    EXACT = auto()
    """Returns elements of its operands, or integers: nothing is rounded further."""
    _OF_MOVES = auto()
    MOVES = EXACT | _OF_MOVES
    """Returns elements of its operands, or their opposites."""
    UNSIGNED = auto()
    """Takes integers of any type for unsigned ones."""
    SUMS = auto()
    """Adds up elements, by itself or in its region."""
    VARIES = auto()
    """The result depends on the implementation in another way than by a sum or a function."""
    CONVERTS = auto()
    """Changes the element type, and computes nothing."""
    _OF_CONSTANT = auto()
    CONSTANT = MOVES | _OF_CONSTANT
    """Has no operand that is read: its result is known before the program runs."""
    _OF_REPEATS = auto()
    REPEATS = MOVES | _OF_REPEATS
    """Puts its first operand several times beside itself."""
    _OF_RESHAPES = auto()
    RESHAPES = MOVES | _OF_RESHAPES
    """Keeps all elements in order, so that nothing is moved in memory."""
    _OF_SLICES = auto()
    SLICES = MOVES | _OF_SLICES
    """Reads a part of its first operand, as large as its result."""
    _OF_UPDATES = auto()
    UPDATES = MOVES | _OF_UPDATES
    """Writes a part of an operand, in place."""
    BY_NEIGHBOURS = auto()
    """The rule depends on the ops around: those that make the operands (an init, say), its users,
    or the region that it stands in."""


NO_TRAIT = Trait(0)


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A function of scalars."""

    python: str = ""
    """The template of an expression; numpy's where torch has another one. Empty: there is none."""
    stablehlo: str = ""
    """StableHLO's op; CHLO's with its dialect, as `chlo.erf`."""
    traits: Trait = NO_TRAIT
    torch: str = ""
    result: str = ""
    """The name of a result in Python, where it is not the function's."""
    operations: int = 1

    def python_of(self, is_torch: bool) -> str:
        """The template for torch, or for numpy; empty if there is none."""
        return (is_torch and self.torch) or self.python


_STEEP, _EXACT = Trait.STEEP, Trait.EXACT
_SMOOTH = Trait.ELEMENTARY
_ROUGH = Trait.ELEMENTARY | Trait.STEEP

FUNCTIONS: dict[str, ScalarFunction] = {
    "add": ScalarFunction("{0} + {1}", "add", Trait.SUMS, result="added"),
    "sub": ScalarFunction("{0} - {1}", "subtract", result="difference"),
    "mul": ScalarFunction("{0} * {1}", "multiply", result="scaled"),
    "div": ScalarFunction("{0} / {1}", "divide", _STEEP, result="ratio"),
    "quotient": ScalarFunction("quotient({0}, {1})", "divide", result="ratio"),
    "ceil_quotient": ScalarFunction(),
    "floor_quotient": ScalarFunction(),
    "remainder": ScalarFunction("{m}.fmod({0}, {1})", "remainder", _STEEP),
    "rest": ScalarFunction("rest({0}, {1})", "remainder"),
    "fma": ScalarFunction("{0} * {1} + {2}"),
    "neg": ScalarFunction("-{0}", "negate", Trait.MOVES, result="negated"),
    "and": ScalarFunction("{0} & {1}", "and", result="both"),
    "or": ScalarFunction("{0} | {1}", "or", result="either"),
    "xor": ScalarFunction("{0} ^ {1}", "xor", result="differing"),
    "not": ScalarFunction("~{0}", "not", result="negated"),
    "left": ScalarFunction("{0} << {1}", "shift_left", result="shifted"),
    "right": ScalarFunction("{0} >> {1}", "shift_right_arithmetic", result="shifted"),
    "clz": ScalarFunction("leading_zeros({0})", "count_leading_zeros", result="zeros"),
    "ctz": ScalarFunction("count_of_ones(~{0} & ({0} - 1))", result="zeros"),
    "popcnt": ScalarFunction("count_of_ones({0})", "popcnt", result="ones"),
    "max": ScalarFunction("{m}.maximum({0}, {1})", "maximum", _EXACT, result="larger"),
    "min": ScalarFunction("{m}.minimum({0}, {1})", "minimum", _EXACT, result="smaller"),
    "maxnum": ScalarFunction("{m}.fmax({0}, {1})", "", _EXACT),
    "minnum": ScalarFunction("{m}.fmin({0}, {1})", "", _EXACT),
    "clamp": ScalarFunction(
        "np.minimum(np.maximum({1}, {0}), {2})", "clamp", _EXACT, torch="torch.clamp({1}, {0}, {2})"
    ),
    "select": ScalarFunction("{m}.where({0}, {1}, {2})", "select", Trait.MOVES, result="selected"),
    "compare": ScalarFunction(traits=_EXACT),
    "isfinite": ScalarFunction("{m}.isfinite({0})", "is_finite"),
    "isinf": ScalarFunction("{m}.isinf({0})"),
    "is_neg_inf": ScalarFunction("{m}.isneginf({0})", traits=_EXACT),
    "is_pos_inf": ScalarFunction("{m}.isposinf({0})", traits=_EXACT),
    "isnan": ScalarFunction("{m}.isnan({0})"),
    "isnormal": ScalarFunction(),
    "abs": ScalarFunction("{m}.abs({0})", "abs", _EXACT, result="magnitude"),
    "sign": ScalarFunction(
        "np.sign({0})",
        "sign",
        _EXACT | _STEEP,
        torch="torch.where(torch.isnan({0}), {0}, torch.sign({0}))",  # torch gives 0 for a NaN
    ),
    "direction": ScalarFunction("np.sign({0})", torch="torch.sgn({0})"),
    "copysign": ScalarFunction("{m}.copysign({0}, {1})", "", _EXACT | _STEEP),
    "floor": ScalarFunction("{m}.floor({0})", "floor", _EXACT | _STEEP),
    "ceil": ScalarFunction("{m}.ceil({0})", "ceil", _EXACT | _STEEP),
    "trunc": ScalarFunction("{m}.trunc({0})", "", _EXACT | _STEEP),
    "round": ScalarFunction(
        "{m}.copysign({m}.floor({m}.abs({0})) + ({m}.abs({0} - {m}.trunc({0})) >= 0.5), {0})",
        "round_nearest_afz",
        _EXACT | _STEEP,
        result="rounded",
    ),
    "even": ScalarFunction(
        "np.rint({0})",
        "round_nearest_even",
        _EXACT | _STEEP,
        torch="torch.round({0})",
        result="rounded",
    ),
    "reciprocal": ScalarFunction(traits=_STEEP | Trait.VARIES),
    "power": ScalarFunction("np.power({0}, {1})", "power", _ROUGH, torch="torch.pow({0}, {1})"),
    "integer_power": ScalarFunction("", "power"),
    "atan2": ScalarFunction("np.arctan2({0}, {1})", "atan2", _ROUGH, torch="torch.atan2({0}, {1})"),
    "rsqrt": ScalarFunction("1 / np.sqrt({0})", "rsqrt", _ROUGH, torch="torch.rsqrt({0})"),
    "logistic": ScalarFunction(
        "1 / (1 + np.exp(-{0}))", "logistic", _SMOOTH, torch="torch.sigmoid({0})"
    ),
    "sincos": ScalarFunction(traits=_SMOOTH),
    **{
        name: ScalarFunction(f"{{m}}.{name}({{0}})", stablehlo, traits)
        for traits, stablehlo_names in {
            _SMOOTH: {
                "exp": "exponential",
                "exp2": "",
                "expm1": "exponential_minus_one",
                "sin": "sine",
                "cos": "cosine",
                "tanh": "tanh",
                "sinh": "chlo.sinh",
                "cosh": "chlo.cosh",
            },
            _ROUGH: {
                "log": "log",
                "log2": "",
                "log10": "",
                "log1p": "log_plus_one",
                "tan": "tan",
                "sqrt": "sqrt",
            },
        }.items()
        for name, stablehlo in stablehlo_names.items()
    },
    **{
        name: ScalarFunction(
            f"np.{numpy}({{0}})", f"chlo.{name}", traits, torch=f"torch.{name}({{0}})"
        )
        for name, numpy, traits in (
            ("asin", "arcsin", _ROUGH),
            ("acos", "arccos", _ROUGH),
            ("atan", "arctan", _SMOOTH),
            ("asinh", "arcsinh", _SMOOTH),
            ("acosh", "arccosh", _ROUGH),
            ("atanh", "arctanh", _ROUGH),
        )
    },
    "cbrt": ScalarFunction(
        "np.cbrt({0})",
        "cbrt",
        _ROUGH,
        torch="torch.copysign(torch.abs({0}) ** (1 / 3), {0})",
    ),
    **{
        name: ScalarFunction(
            f"{name}({{0}})", f"chlo.{name}", _SMOOTH, torch=f"torch.{name}({{0}})"
        )
        for name in ("erf", "erfc")
    },
    **{  # functions without a template: the operations are those of StableHLO's decompositions
        name: ScalarFunction("", f"chlo.{name}", _ROUGH, operations=operations)
        for name, operations in {
            "bessel_i1e": 88,
            "digamma": 76,
            "erf_inv": 39,
            "lgamma": 57,
            "polygamma": 280,
            "zeta": 133,
        }.items()
    },
    "next_after": ScalarFunction("", "chlo.next_after", _EXACT | _STEEP, operations=24),
    "square": ScalarFunction("{m}.square({0})", "chlo.square"),
    "identity": ScalarFunction(traits=Trait.MOVES, operations=0),
    "convert": ScalarFunction(traits=Trait.CONVERTS, operations=0),
    "narrowed": ScalarFunction(traits=_STEEP, operations=0),
    "bitcast": ScalarFunction(traits=Trait.CONVERTS | _EXACT, operations=0),
    "complex": ScalarFunction(
        "{0} + 1j * {1}", "complex", torch="torch.complex({0}, {1})", result="numbers", operations=0
    ),
    "real": ScalarFunction("{m}.real({0})", "real", result="real_part", operations=0),
    "imag": ScalarFunction("{m}.imag({0})", "imag", result="imaginary_part", operations=0),
    "conj": ScalarFunction("np.conj({0})", torch="torch.conj_physical({0})", result="conjugated"),
    "constant": ScalarFunction(traits=Trait.CONSTANT, operations=0),
    "other": ScalarFunction(),
}
