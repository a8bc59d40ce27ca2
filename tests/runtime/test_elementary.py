"""Elementary functions of compiled programs, against wider ones of numpy and Python."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from shard_dialect.abi.tensor_types import Array
from tests.runtime.alone import run_on

COUNT = 4096
FUNCTIONS: dict[str, Callable[[NDArray[np.longdouble]], NDArray[np.longdouble]]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf, otypes=[np.longdouble]),
}


def computed(name: str, x: Array, element: str) -> Array:
    type_ = f"tensor<{len(x)}x{element}>"
    text = f"""
    func.func @main(%x: {type_}) -> {type_} {{
      %y = math.{name} %x : {type_}
      return %y : {type_}
    }}"""
    _, (y,) = run_on(text, [x])
    return y


def samples(dtype: type[np.floating]) -> NDArray[np.floating]:
    """Of every size, and the ends of every range."""
    generator = np.random.default_rng(3)
    info = np.finfo(dtype)
    powers = generator.uniform(info.minexp - info.nmant, info.maxexp, COUNT)
    near = generator.uniform(-1000 if dtype is np.float64 else -110, 100, COUNT)
    small = generator.uniform(-4, 4, 4 * COUNT)
    with np.errstate(over="ignore", under="ignore"):
        wide = np.exp2(powers) * generator.choice([-1, 1], COUNT)
        ends = [
            0.0,
            -0.0,
            np.inf,
            -np.inf,
            np.nan,
            info.tiny,
            info.smallest_subnormal,
            info.max,
            -1,
        ]
        return np.concatenate([wide, near, small, ends]).astype(dtype)


@pytest.mark.parametrize(("name", "least"), [("tanh", 9.02), ("erf", 3.92)])
def test_what_rounds_to_one_is_one(name: str, least: float) -> None:
    """Else a gradient, such as 1 - tanh(x)², would be some units of 1 where it is 0."""
    x = np.concatenate([np.linspace(least, 30, 1001), [1e30]]).astype(np.float32)
    np.testing.assert_array_equal(computed(name, x, "f32"), np.ones_like(x))
    np.testing.assert_array_equal(computed(name, -x, "f32"), -np.ones_like(x))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_is_within_a_few_units_in_the_last_place(name: str, element: str) -> None:
    dtype = {"f32": np.float32, "f64": np.float64}[element]
    x = samples(dtype)
    found = computed(name, x, element)
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](x.astype(np.longdouble))
        rounded = exact.astype(dtype)
        units = np.abs(found - exact) / np.spacing(np.abs(rounded))
    usual = np.isfinite(rounded)
    np.testing.assert_array_equal(found[~usual], rounded[~usual])
    worst = int(np.argmax(np.where(usual, units, 0)))
    assert units[worst] <= 5, f"{name}({x[worst]!r}) is {found[worst]!r}, not {rounded[worst]!r}"
    np.testing.assert_array_equal(np.signbit(found[x == 0]), np.signbit(rounded[x == 0]))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_narrow_floats_are_rounded_once(name: str, element: str) -> None:
    import ml_dtypes

    dtype = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}[element]
    with np.errstate(over="ignore"):
        x = samples(np.float32).astype(dtype)
    found = computed(name, x, element).astype(np.float64)
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](x.astype(np.longdouble)).astype(np.float32).astype(dtype)
        step = np.abs(exact.astype(np.float64)) * float(ml_dtypes.finfo(dtype).eps)
    wanted = exact.astype(np.float64)
    both = np.isfinite(wanted)
    np.testing.assert_array_equal(found[~both], wanted[~both])
    least = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    errors = np.abs(found[both] - wanted[both])
    assert np.all(errors <= np.maximum(step[both], least))


OF_LIBM: dict[str, Callable[[Array], Array]] = {
    "acosh": np.arccosh, "asinh": np.arcsinh, "atanh": np.arctanh, "ceil": np.ceil,
    "cosh": np.cosh, "exp2": np.exp2, "roundeven": np.rint, "sinh": np.sinh, "tan": np.tan,
}  # fmt: skip


@pytest.mark.parametrize("name", OF_LIBM)
def test_what_is_left_to_libm(name: str) -> None:
    x = np.array([-2.5, 0.5, -0.0, 1e-5, -1e-30, 8388609, np.inf, np.nan], np.float32)
    found = computed(name, x, "f32")
    with np.errstate(invalid="ignore", over="ignore"):
        expected = OF_LIBM[name](x)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=0)
    zero = x == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


def test_powers_of_negative_numbers() -> None:
    a = np.array([-2.5, -2.0, -2.0, 0.5, -0.0, -8.0], np.float32)
    b = np.array([3, -2, 0, -1, 2, 1 / 3], np.float32)
    text = """
    func.func @main(%a: tensor<6xf32>, %b: tensor<6xf32>) -> tensor<6xf32> {
      %y = math.powf %a, %b : tensor<6xf32>
      return %y : tensor<6xf32>
    }"""
    _, (found,) = run_on(text, [a, b])
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(found, np.power(a, b), rtol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("low", [0.02, 0.1, 0.3, 0.6, 1.2, 2.4])
def test_errors_are_as_often_up_as_down(name: str, low: float) -> None:
    """Else they add up in a long chain, and a check of it fails that is right."""
    x = np.random.default_rng(4).uniform(low, 2 * low, 1 << 14).astype(np.float32)
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](x.astype(np.longdouble))
        units = (computed(name, x, "f32") - exact) / np.spacing(np.abs(exact).astype(np.float32))
    assert abs(float(np.mean(units))) < 0.2
