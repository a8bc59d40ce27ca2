"""Transforms, decompositions, and bodies that are no known reductions, on two devices.

They are cut in every way that the op's rule allows, and get what is odd: NaN, infinities, no
elements, singular matrices.
"""

from collections.abc import Iterator

import numpy as np
import pytest

from shard_dialect.abi.tensor_types import Array
from shard_dialect.model import Grid
from shard_dialect.testing import Sample, Tensor, sharded_samples
from tests.emit.test_emit_python import FEW, Batch, batch

pytestmark = [
    pytest.mark.usefixtures("unoptimized"),
    pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning"),
]
__all__ = ["batch"]
Case = tuple[Sample, list[Array]]
ODD = (np.nan, np.inf, -np.inf, -0.0, 1e-40, 3e38, 65520.0, 2e-6)
COMPLEX = ("complex<f32>", "complex<f64>")
DTYPES = {"f32": "f4", "f64": "f8", "i32": "i4", COMPLEX[0]: "c8", COMPLEX[1]: "c16"}


def drawn(type_: Tensor, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    if type_.element == "i32":
        return rng.integers(-1, 4, type_.shape).astype("i4")
    x = rng.standard_normal(type_.shape)
    imaginary = 1j * rng.standard_normal(type_.shape) if type_.element in COMPLEX else 0
    return (x + imaginary).astype(DTYPES[type_.element])


def with_odd(x: Array) -> Array:
    """The same, whose second half of the batch has what is odd."""
    flat = x[len(x) // 2 :].reshape(-1)
    flat[: min(len(ODD), flat.size)] = np.array(ODD[: flat.size]).astype(x.dtype)
    x[len(x) // 2 :] = flat.reshape(x[len(x) // 2 :].shape)
    return x


def transforms() -> Iterator[Case]:
    for single, double in (("f32", COMPLEX[0]), ("f64", COMPLEX[1])):
        for kind, source, length, made in (
            ("FFT", Tensor((4, 3, 5), double), (5,), Tensor((4, 3, 5), double)),
            ("IFFT", Tensor((4, 3, 4), double), (3, 4), Tensor((4, 3, 4), double)),
            ("RFFT", Tensor((4, 3, 6), single), (3, 6), Tensor((4, 3, 4), double)),
            ("IRFFT", Tensor((4, 3, 4), double), (3, 7), Tensor((4, 3, 7), single)),
            ("IRFFT", Tensor((4, 4), double), (6,), Tensor((4, 6), single)),
            ("RFFT", Tensor((4, 1), single), (1,), Tensor((4, 1), double)),
            ("FFT", Tensor((0, 4), double), (4,), Tensor((0, 4), double)),
        ):
            said = f"fft_type = #stablehlo<fft_type {kind}>, fft_length = array<i64: "
            said += ", ".join(map(str, length)) + ">"
            x = drawn(source)
            if kind == "FFT" and x.size:
                x[-1, -1, -1] = np.nan
            yield Sample.generic("stablehlo.fft", [source], [made], said), [x]


def decompositions() -> Iterator[Case]:
    for element in ("f32", "f64", *COMPLEX):
        for shape in ((4, 3, 3), (2, 1, 1), (2, 0, 0)):
            type_ = Tensor(shape, element)
            x = drawn(type_)
            x = (x @ x.conj().swapaxes(-1, -2) + 3 * np.eye(shape[-1])).astype(x.dtype)
            x[-1:, -1:, -1:] = -1 if element == "f32" else np.nan
            for lower in ("true", "false"):
                yield (
                    Sample.generic("stablehlo.cholesky", [type_], [type_], f"lower = {lower}"),
                    [x],
                )
        for number in range(24):
            left, lower, unit = (bool(number & 1 << bit) for bit in range(3))
            turn = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")[number // 8]
            a, b = Tensor((2, 3, 3), element), Tensor((2, 3, 2) if left else (2, 2, 3), element)
            bits = {"left_side": left, "lower": lower, "unit_diagonal": unit}
            said = ", ".join(f"{name} = {str(bit).lower()}" for name, bit in bits.items())
            said += f", transpose_a = #stablehlo<transpose {turn}>"
            matrices = drawn(a) + 3 * np.eye(3, dtype=DTYPES[element])
            if number % 5 == 0 and element in ("f32", "f64"):
                matrices[1, 1, 1] = 0
            given = [matrices, drawn(b, 1)]
            yield Sample.generic("stablehlo.triangular_solve", [a, b], [b], said), given


def roundings() -> Iterator[Case]:
    for element in ("f32", "f64"):
        type_ = Tensor((4, 8), element)
        for exponent, mantissa in ((5, 10), (8, 7), (4, 3), (5, 2), (8, 23), (11, 52), (2, 40)):
            said = f"exponent_bits = {exponent} : i32, mantissa_bits = {mantissa} : i32"
            x = with_odd(drawn(type_) * 10.0 ** np.arange(-4, 4)).astype(DTYPES[element])
            yield Sample.generic("stablehlo.reduce_precision", [type_], [type_], said), [x]


def body(lines: str, arguments: str, made: str, element: str = "f32") -> str:
    t = f"tensor<{element}>"
    head = ", ".join(f"%{name}: {t}" for name in arguments)
    names = ", ".join(f"%{name}" for name in made)
    types = ", ".join([t] * len(made))
    return f"\n^bb0({head}):\n{lines.replace('$', t)}\nstablehlo.return {names} : {types}\n"


UNLIKE = body(
    "%s = stablehlo.subtract %a, %b : $\n%c = stablehlo.constant dense<0.5> : $\n"
    "%r = stablehlo.multiply %s, %c : $",
    "ab",
    "r",
)
"""The order matters."""
PAIRS = body(
    "%p = stablehlo.compare GT, %c, %a : ($, $) -> tensor<i1>\n"
    "%r = stablehlo.select %p, %c, %a : (tensor<i1>, $, $) -> $\n"
    "%s = stablehlo.subtract %b, %d : $",
    "abcd",
    "rs",
)
FIRST = body("", "ab", "a")
FIXED = body("%r = stablehlo.constant dense<2.0> : $", "ab", "r")


def bodies() -> Iterator[Case]:
    x, one, dims = Tensor((4, 3, 5)), Tensor(()), "dimensions = array<i64: 1, 2>"
    rows = Tensor((4,))
    for region in (UNLIKE, FIRST, FIXED):
        given = [drawn(x), np.float32(3)]
        yield Sample.generic("stablehlo.reduce", [x, one], [rows], dims, region), given
        empty = Tensor((4, 0, 5))
        given = [drawn(empty), np.float32(3)]
        yield Sample.generic("stablehlo.reduce", [empty, one], [rows], dims, region), given
    given = [drawn(x), drawn(x, 1), np.float32(0), np.float32(1)]
    yield Sample.generic("stablehlo.reduce", [x, x, one, one], [rows] * 2, dims, PAIRS), given
    said = "window_dimensions = array<i64: 1, 2, 3>, window_strides = array<i64: 1, 1, 2>, "
    said += "padding = dense<[[0, 0], [1, 0], [2, 1]]> : tensor<3x2xi64>"
    made = Tensor((4, 3, 3))
    for region in (UNLIKE, FIRST):
        given = [drawn(x), np.float32(3)]
        yield Sample.generic("stablehlo.reduce_window", [x, one], [made], said, region), given
    given = [drawn(x), drawn(x, 1), np.float32(0), np.float32(1)]
    operands = [x, x, one, one]
    yield Sample.generic("stablehlo.reduce_window", operands, [made] * 2, said, PAIRS), given
    said = "dimensions = array<i64: 0, 1, 2>"
    for region in (UNLIKE, FIXED):
        given = [drawn(x), drawn(x, 1)]
        yield Sample.generic("stablehlo.map", [x, x], [x], said, region), given


def scatters() -> Iterator[Case]:
    table, places, rows = Tensor((4, 6)), Tensor((5, 1), "i32"), Tensor((5, 4))
    said = (
        "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], "
        "inserted_window_dims = [1], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>"
    )
    at = np.array([[2], [5], [2], [7], [-1]], "i4")
    for region in (UNLIKE, FIRST, FIXED):
        given = [drawn(table), at, drawn(rows)]
        sample = Sample.generic("stablehlo.scatter", [table, places, rows], [table], said, region)
        yield sample, given
    given = [drawn(table), drawn(table, 1), at, drawn(rows), drawn(rows, 1)]
    operands = [table, table, places, rows, rows]
    yield Sample.generic("stablehlo.scatter", operands, [table] * 2, said, PAIRS), given
    choose = (
        "\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n%p = stablehlo.compare {}, %a, %b : "
        "(tensor<f32>, tensor<f32>) -> tensor<i1>\nstablehlo.return %p : tensor<i1>\n"
    )
    x, source, one = Tensor((4, 6)), Tensor((4, 3)), Tensor(())
    for order in ("GE", "GT", "LE"):
        for padding, strides in (((0, 1), 2), ((1, 0), 2), ((0, 0), 2)):
            said = f"window_dimensions = array<i64: 1, {2 + sum(padding)}>, window_strides = "
            said += f"array<i64: 1, {strides}>, padding = dense<[[0, 0], {list(padding)}]> : "
            said += "tensor<2x2xi64>"
            for region in (body("%r = stablehlo.add %a, %b : $", "ab", "r"), UNLIKE):
                regions = choose.format(order) + "}, {" + region
                sample = Sample.generic(
                    "stablehlo.select_and_scatter", [x, source, one], [x], said, regions
                )
                yield sample, [np.round(drawn(x)), drawn(source, 1), np.float32(0)]


FAMILIES = {
    each.__name__: each for each in (transforms, decompositions, roundings, bodies, scatters)
}


@pytest.mark.parametrize("batch", ["mpi4py", FEW], indirect=True)
@pytest.mark.parametrize("family", FAMILIES)
def test_cut_on_two_devices(family: str, batch: Batch) -> None:
    count = 0
    for number, (sample, given) in enumerate(FAMILIES[family]()):
        cuts = [each.text for each in sharded_samples(sample, Grid("g", (2,)))]
        whole = [each for each in cuts if "offsets" not in each]  # of which files have none
        for cut, text in enumerate(whole[:2]):
            batch.add(f"{number}_{cut}", text, inputs=given)
            count += 1
    assert count
    assert not batch.refused
    batch.check()
