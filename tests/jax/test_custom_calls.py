"""Calls whose body nobody but jaxlib knows, each operand split each way, beside one device."""

from collections.abc import Callable
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shard_dialect as sd
from shard_dialect.backends.xla.xla_devices import devices
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import walk
from shard_dialect.ops import rule_of

linalg = lax.linalg
SVD = linalg.SvdAlgorithm
SQUARE, TALL, LINES = (8, 8), (8, 4), (8,)

Call = tuple[Callable[..., Any], list[tuple[int, ...]]]
CALLS: dict[str, Call] = {
    "cholesky": (lambda a: linalg.cholesky(a), [SQUARE]),
    "eig": (lambda a: linalg.eig(a), [SQUARE]),
    "eigvals": (lambda a: jnp.linalg.eigvals(a), [SQUARE]),
    "eigh": (lambda a: linalg.eigh(a), [SQUARE]),
    "hessenberg": (lambda a: linalg.hessenberg(a), [SQUARE]),
    "inv": (jnp.linalg.inv, [SQUARE]),
    "lu": (lambda a: linalg.lu(a), [TALL]),
    "qr": (lambda a: linalg.qr(a, full_matrices=False), [TALL]),
    "pivoted qr": (lambda a: linalg.qr(a, pivoting=True, full_matrices=False), [TALL]),
    "householder product": (lambda a, t: linalg.householder_product(a, t), [TALL, (4,)]),
    "schur": (lambda a: linalg.schur(a), [SQUARE]),
    "solve": (jnp.linalg.solve, [SQUARE, TALL]),
    "svd": (lambda a: linalg.svd(a, full_matrices=False), [TALL]),
    "svd by qr": (lambda a: linalg.svd(a, full_matrices=False, algorithm=SVD.QR), [TALL]),
    "triangular left": (
        lambda a, b: linalg.triangular_solve(a, b, left_side=True),
        [SQUARE, TALL],
    ),
    "triangular right": (
        lambda a, b: linalg.triangular_solve(a, b, lower=True, transpose_a=True),
        [SQUARE, (4, 8)],
    ),
    "tridiagonal": (lambda a: linalg.tridiagonal(a), [SQUARE]),
    "tridiagonal solve": (
        lambda a, b, c, d: linalg.tridiagonal_solve(a, b + 9, c, d),
        [LINES, LINES, LINES, TALL],
    ),
}


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return Mesh(np.array(devices(8)).reshape(4, 2), ("a", "b"))


def drawn_array(random: Random, shape: tuple[int, ...]) -> Any:
    """Far from singular; square matrices are symmetric, so that no order is a matter of rounding"""
    numbers = np.random.default_rng(random.randrange(1 << 30))
    x = numbers.standard_normal(shape).astype(np.float32)
    if len(shape) > 1 and shape[-1] == shape[-2]:
        x = x + x.swapaxes(-1, -2) + np.diag(4.0 + 3 * np.arange(shape[-1], dtype=np.float32))
    return x


def drawn_spec(random: Random, rank: int) -> P:
    """At least one dimension is split, by one axis or two."""
    axes = random.choice([["a"], ["b"], ["a", "b"], [("a", "b")], [("b", "a")]])
    dims = [*axes, *[None] * rank][: max(rank, 1)]
    random.shuffle(dims)
    return P(*dims[:rank])


@pytest.mark.parametrize("batch", [(), (8,), (2, 4)], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_split_operands(name: str, batch: tuple[int, ...], mesh: Mesh) -> None:
    """Even splits, and uneven ones: the last of a batch, or of the lines, is cut off inside."""
    random = Random(f"{name} {batch}")
    call, shapes = CALLS[name]
    for cut in (False, bool(batch)):

        def function(*arguments: Any, cut: bool = cut) -> Any:
            return call(*[each[:-1] if cut else each for each in arguments])

        arguments = [drawn_array(random, (*batch, *shape)) for shape in shapes]
        specs = [drawn_spec(random, each.ndim) for each in arguments]
        shardings = tuple(
            NamedSharding(mesh, spec) if fits(spec, each.shape, mesh) else NamedSharding(mesh, P())
            for spec, each in zip(specs, arguments, strict=True)
        )
        expected = jax.jit(function)(*arguments)
        actual = sd.jax.jit(function, in_shardings=shardings, out_shardings=named(mesh))(*arguments)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), actual, expected
        )


def named(mesh: Mesh) -> NamedSharding:
    """Whole results, since JAX has no uneven ones."""
    return NamedSharding(mesh, P())


def fits(spec: P, shape: tuple[int, ...], mesh: Mesh) -> bool:
    """Whether JAX takes the spec."""
    try:
        NamedSharding(mesh, spec).shard_shape(shape)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("spec", [P("a"), P(None, "a"), P("b", "a")], ids=str)
@pytest.mark.parametrize("find", [lax.approx_max_k, lax.approx_min_k, lax.top_k])
def test_the_largest_elements(find: Any, spec: P, mesh: Mesh) -> None:
    """The comparison is a function that only the call's attribute names."""
    x = np.random.default_rng(0).permutation(4 * 64).reshape(4, 64).astype(np.float32)
    more = {} if find is lax.top_k else {"recall_target": 1.0}
    actual = sd.jax.jit(lambda x: find(x, 4, **more), in_shardings=NamedSharding(mesh, spec))(x)
    for a, b in zip(actual, find(x, 4, **more), strict=True):
        np.testing.assert_array_equal(a, b)


def rule(attributes: str, types: str) -> str:
    text = f"""func.func @main(%x: tensor<8x6xf32>, %y: tensor<8x6xf32>) {{
        %r:2 = stablehlo.custom_call @of_ours(%x, %y) {{ {attributes} }} : {types}
        return
    }}"""
    with make_context():
        module = Source.of(text).parse()
        (op,) = [op for op in walk(module.operation) if op.name == "stablehlo.custom_call"]
        return str(rule_of(op))


TYPES = "(tensor<8x6xf32>, tensor<8x6xf32>) -> (tensor<8x6xf32>, tensor<8x6xf32>)"
ALIAS = (
    "output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [1], "
    "operand_index = 0, operand_tuple_indices = []>]"
)


@pytest.mark.parametrize(
    ("written", "attributes", "whole"),
    [
        ("([i, j], [i, j])->([i, j], [i, j])", "", ""),
        ("([i, j], [i, k])->([i, j], [i, k])", "", "{b, c}"),
        ("([i, j], [i, k])->([i, l], [i, m])", "", "{b, c, d, e}"),
        ("([i, j], [i, j])->([i, j], [i, k])", "", "{b, c}"),
        ("([i, j], [i, j])->([i, k], [i, k]) reduction={j: sum}", "", "{c}"),
        ("([i, j], [i, j])->([i, j], [i, j])", "backend_config = {rows = 6 : i32}", "{b}"),
        ("([i, j], [i, j])->([i, j], [i, j])", 'backend_config = "8 lines"', "{a}"),
        ("([i, j], [k, j])->([i, j], [k, j])", ALIAS, "{a, c}"),
    ],
)
def test_what_a_written_rule_does_not_free_is_whole(
    written: str, attributes: str, whole: str
) -> None:
    config = ", ".join(filter(None, (f'mesh.sharding_rule = "{written}"', attributes)))
    if "backend_config = {" in attributes:
        config += ", api_version = 4 : i32"
    found = rule(config, TYPES)
    assert (f"whole={whole}" in found) if whole else ("whole" not in found), found
