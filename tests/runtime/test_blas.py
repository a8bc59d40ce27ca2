"""Contractions of every layout through BLAS, and those that are no product, against numpy."""

import itertools

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.backends.cpu import products
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


def test_integers_are_summed_in_loops() -> None:
    assert_contracts("mk", "kn", "mn", "i32")


def test_numpy_carries_a_blas_here() -> None:
    assert products.gemm("f32")
    assert products.gemm("f64")
    assert products.gemm("i32") is None


@pytest.mark.parametrize("said", ["", "2"])
def test_devices_do_not_compete_by_threads_of_products(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the environment says otherwise; the caller's own products are as before."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    if said:
        monkeypatch.setenv("OMP_NUM_THREADS", said)
    threads, found = products._threads, []
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
        with products.ONE_THREAD:
            program.run_shards([])
            found.append(threads("get")())
        assert threads("get")() == 2
    finally:
        threads("set")(before)
    assert found == [2 if said else 1] * 3
