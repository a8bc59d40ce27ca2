"""Contractions of every layout through BLAS, and those that are no product, against numpy."""

import itertools

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.backends.cpu import blas
from shard_dialect.backends.cpu.convolutions import call_blas
from shard_dialect.backends.cpu.kernels import Kernels
from shard_dialect.runtime.communicators.world import InProcess
from tests.runtime.alone import run_on

SIZES = {"b": 2, "c": 3, "m": 4, "n": 5, "k": 6, "l": 2, "p": 3}


def tensor(loops: str, element: str) -> str:
    return f"tensor<{''.join(f'{SIZES[loop]}x' for loop in loops)}{element}>"


def module(a: str, b: str, c: str, element: str) -> str:
    loops = ", ".join(sorted({*a, *b, *c}))
    maps = ", ".join(f"affine_map<({loops}) -> ({', '.join(each)})>" for each in (a, b, c))
    ta, tb, tc = (tensor(each, element) for each in (a, b, c))
    return f"""
func.func @main(%a: {ta}, %b: {tb}, %c: {tc}) -> {tc} {{
  %0 = linalg.contract indexing_maps = [{maps}] ins(%a, %b : {ta}, {tb}) outs(%c : {tc}) -> {tc}
  return %0 : {tc}
}}
"""


def assert_contracts(a: str, b: str, c: str, element: str = "f32") -> None:
    (x, y, z), (result,) = run_on(module(a, b, c, element))
    expected = z + np.einsum(f"{a},{b}->{c}", x, y)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


PRODUCTS = [
    (a, b, c)
    for a, b, c in itertools.product(
        map("".join, itertools.permutations("mk")),
        map("".join, itertools.permutations("kn")),
        map("".join, itertools.permutations("mn")),
    )
]


@pytest.mark.parametrize(("a", "b", "c"), PRODUCTS)
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_every_layout_of_a_product(a: str, b: str, c: str, element: str) -> None:
    assert_contracts(a, b, c, element)


@pytest.mark.parametrize(
    ("a", "b", "c"),
    [
        ("bmk", "kn", "bmn"),  # two dimensions of rows
        ("bmk", "bkn", "bmn"),  # a batch
        ("mbk", "nkb", "nbm"),  # a batch in the middle, everything turned
        ("bcmk", "bckn", "bcmn"),  # two batch dimensions
        ("mkl", "lkn", "mn"),  # two summed dimensions, in different orders
        ("k", "kn", "n"),  # a vector
        ("mk", "k", "m"),
        ("k", "k", ""),
        ("mk", "kn", "nm"),
    ],
)
def test_products_of_other_ranks(a: str, b: str, c: str) -> None:
    assert_contracts(a, b, c)


def part(name: str, loops: str, kind: str) -> tuple[str, str, tuple[slice, ...]]:
    """A larger tensor's type, an op that takes a part of it, and the part in numpy.

    `kind` is `rows`, of a stack of matrices at a place that only the running program knows, or
    `columns`, of longer rows.
    """
    sizes = [SIZES[loop] for loop in loops]
    inner = "x".join(map(str, sizes))
    if kind == "rows":
        whole = f"tensor<3x{inner}xf32>"
        offsets = ["%at", *"0" * len(sizes)]
        ones, kept = ["1", *map(str, sizes)], (1, ...)
    else:
        whole = f"tensor<{'x'.join(map(str, [*sizes[:-1], sizes[-1] + 3]))}xf32>"
        offsets = [*"0" * (len(sizes) - 1), "2"]
        ones, kept = [*map(str, sizes)], (..., slice(2, 2 + sizes[-1]))
    strides = ", ".join("1" for _ in offsets)
    op = (
        f"tensor.extract_slice %{name}[{', '.join(offsets)}] [{', '.join(ones)}] [{strides}] : "
        f"{whole} to tensor<{inner}xf32>"
    )
    return whole, op, kept


@pytest.mark.parametrize("kinds", list(itertools.product(["rows", "columns"], repeat=3)))
@pytest.mark.parametrize(
    ("a", "b", "c"), [*PRODUCTS, ("bmk", "kn", "bmn"), ("bmk", "bkn", "bmn"), ("k", "kn", "n")]
)
def test_parts_of_buffers(a: str, b: str, c: str, kinds: tuple[str, str, str]) -> None:
    """The weights of one layer of many, or the queries of a tensor with keys and values."""
    loops = ", ".join(sorted({*a, *b, *c}))
    maps = ", ".join(f"affine_map<({loops}) -> ({', '.join(each)})>" for each in (a, b, c))
    parts = [
        part(name, each, kind) for name, each, kind in zip("abc", (a, b, c), kinds, strict=True)
    ]
    types = [tensor(each, "f32") for each in (a, b, c)]
    lines = [f"  %{name}p = {op}" for name, (_, op, _) in zip("abc", parts, strict=True)]
    arguments = ", ".join(
        f"%{name}: {whole}" for name, (whole, _, _) in zip("abc", parts, strict=True)
    )
    text = (
        f"func.func @main({arguments}, %i: tensor<1xi32>) -> {types[2]} {{\n"
        "  %zero = arith.constant 0 : index\n  %n = tensor.extract %i[%zero] : tensor<1xi32>\n"
        "  %at0 = arith.index_cast %n : i32 to index\n  %one = arith.constant 1 : index\n"
        "  %at1 = arith.minsi %at0, %one : index\n  %at = arith.maxsi %at1, %one : index\n"
        + "\n".join(lines)
        + f"\n  %0 = linalg.contract indexing_maps = [{maps}] "
        f"ins(%ap, %bp : {types[0]}, {types[1]}) outs(%cp : {types[2]}) -> {types[2]}\n"
        f"  return %0 : {types[2]}\n}}\n"
    )
    given, (result,) = run_on(text)
    x, y, z = (value[kept] for value, (_, _, kept) in zip(given, parts, strict=False))
    expected = z + np.einsum(f"{a},{b}->{c}", x, y)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_layers_of_a_loop_are_multiplied_by_blas() -> None:
    """Weights of one layer after the other, and the third of their columns that makes queries."""
    text = """
func.func @main(%x: tensor<4x8xf32>, %w: tensor<3x8x24xf32>) -> tensor<4x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c8 = stablehlo.constant dense<8> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c3 = stablehlo.constant dense<3> : tensor<i32>
  %0:2 = stablehlo.while(%i = %c0, %h = %x) : tensor<i32>, tensor<4x8xf32> cond {
    %p = stablehlo.compare LT, %i, %c3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %l = stablehlo.dynamic_slice %w, %i, %c0, %c8, sizes = [1, 8, 8] : (tensor<3x8x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
    %m = stablehlo.reshape %l : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    %y = stablehlo.dot_general %h, %m, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %j = stablehlo.add %i, %c1 : tensor<i32>
    stablehlo.return %j, %y : tensor<i32>, tensor<4x8xf32>
  }
  return %0#1 : tensor<4x8xf32>
}
"""  # noqa: E501
    module = sd.parse(text)
    sd.run_pipeline(module, "spmd,lower")
    with module.context:
        assert call_blas(module.operation, Kernels(module.operation))
    (x, w), (result,) = run_on(text)
    expected = x
    for layer in w:
        expected = expected @ layer[:, 8:16]
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


IMAGE, KERNEL = "tensor<2x9x9x8xf32>", "tensor<3x3x8x8xf32>"


def test_convolutions_with_the_kernels_of_a_loop() -> None:
    """Images and kernels that are parts of larger tensors, against one by one."""

    def convolution(image: str, kernel: str) -> str:
        return (
            f"stablehlo.convolution({image}, {kernel}) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->"
            "[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} "
            "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} "
            f": ({IMAGE}, {KERNEL}) -> {IMAGE}"
        )

    text = f"""
func.func @main(%x: tensor<2x9x9x12xf32>, %w: tensor<3x3x3x8x8xf32>) -> {IMAGE} {{
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c3 = stablehlo.constant dense<3> : tensor<i32>
  %part = stablehlo.slice %x [0:2, 0:9, 0:9, 2:10] : (tensor<2x9x9x12xf32>) -> {IMAGE}
  %z = stablehlo.constant dense<0.0> : {IMAGE}
  %0:2 = stablehlo.while(%i = %c0, %sum = %z) : tensor<i32>, {IMAGE} cond {{
    %p = stablehlo.compare LT, %i, %c3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %l = stablehlo.dynamic_slice %w, %i, %c0, %c0, %c0, %c0, sizes = [1, 3, 3, 8, 8]
        : (tensor<3x3x3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3x3x8x8xf32>
    %k = stablehlo.reshape %l : (tensor<1x3x3x8x8xf32>) -> {KERNEL}
    %y = {convolution("%part", "%k")}
    %t = stablehlo.add %sum, %y : {IMAGE}
    %j = stablehlo.add %i, %c1 : tensor<i32>
    stablehlo.return %j, %t : tensor<i32>, {IMAGE}
  }}
  return %0#1 : {IMAGE}
}}
"""  # noqa: E501
    one = f"""
func.func @main(%x: {IMAGE}, %w: {KERNEL}) -> {IMAGE} {{
  %y = {convolution("%x", "%w")}
  return %y : {IMAGE}
}}
"""
    (x, w), (result,) = run_on(text)
    image = np.ascontiguousarray(x[..., 2:10])
    each = [run_on(one, [image, np.ascontiguousarray(kernel)])[1][0] for kernel in w]
    np.testing.assert_allclose(result, sum(each), rtol=1e-4, atol=1e-4)


def test_integers_are_summed_in_loops() -> None:
    assert_contracts("mk", "kn", "mn", "i32")


def test_numpy_carries_a_blas_here() -> None:
    assert blas.gemm("f32")
    assert blas.gemm("f64")
    assert blas.gemm("i32") is None


@pytest.mark.parametrize("said", ["", "2"])
def test_devices_do_not_compete_by_threads_of_products(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the environment says otherwise; the caller's own products are as before."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    if said:
        monkeypatch.setenv("OMP_NUM_THREADS", said)
    threads, found = blas._threads, []
    before = threads("get")()
    monkeypatch.setattr(InProcess, "run", lambda *_: found.append(threads("get")()))
    text = """
shard.grid @mesh(shape = 2)
func.func @main(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@mesh, [[0]]>}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
"""
    program = sd.compile(sd.parse(text))
    threads("set")(2)
    try:
        program.run_shards([])
        with blas.ONE_THREAD:
            program.run_shards([])
            found.append(threads("get")())
        assert threads("get")() == 2
    finally:
        threads("set")(before)
    assert found == [2 if said else 1] * 3
