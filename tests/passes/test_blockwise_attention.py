"""Scores of attention are computed in blocks: the numbers stay, and no tensor is as large."""

import random
import re
import warnings
from math import prod
from typing import Any

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.errors import ShardError, ShardWarning
from shard_dialect.ir.bindings import ir
from shard_dialect.testing import any_program
from shard_dialect.testing.check_program import reference_of, run_and_check
from tests.extras import needs

WIDTHS = {"f32": 4, "bf16": 2, "i1": 1, "i32": 4}
PRODUCT = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x32x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
    -> tensor<4x32x8xf32> {
  %s = stablehlo.dot_general %x, %x, batching_dims = [0] x [0], contracting_dims = [2] x [2]
    : (tensor<4x32x8xf32>, tensor<4x32x8xf32>) -> tensor<4x32x32xf32>
  %e = stablehlo.exponential %s : tensor<4x32x32xf32>
  %o = stablehlo.dot_general %e, %x, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<4x32x32xf32>, tensor<4x32x8xf32>) -> tensor<4x32x8xf32>
  return %o : tensor<4x32x8xf32>
}
"""


def largest(module: ir.Module, names: str = r"stablehlo\.(dot_general|exponential)") -> int:
    """The bytes of the largest tensor that an op with such a name makes."""
    found = re.findall(rf"= {names}.*tensor<([0-9x]+)x(\w+)>$", str(module), re.MULTILINE)
    return max(prod(map(int, shape.split("x"))) * WIDTHS[kind] for *_, shape, kind in found)


def attention(draw: random.Random) -> tuple[Any, list[Any]]:
    """A function of some attention layers, or its gradient, and the types of its arguments."""
    import jax
    import jax.numpy as jnp

    batch, size, heads, width = 2, draw.choice((16, 24)), draw.choice((2, 4)), 4
    kind = draw.choice((jnp.float32, jnp.float32, jnp.bfloat16))
    order = draw.choice(("bhqk", "bqhk", "hbqk"))
    masked, stable = draw.choice(("where", "bias", None)), draw.random() < 0.7
    layers, is_scanned, again = draw.choice((1, 2)), draw.random() < 0.5, draw.random() < 0.5

    def layer(x: Any, weights: Any) -> Any:
        q, k, v = ((x @ each).reshape(batch, size, heads, width) for each in weights[:3])
        scores = jnp.einsum(f"bqhd,bkhd->{order}", q, k) / 2
        seen = jnp.tril(jnp.ones((size, size), bool))
        seen = seen[:, None] if order == "bqhk" else seen
        if masked == "where":
            scores = jnp.where(seen, scores, -1e4)
        elif masked == "bias":
            scores = scores + jnp.where(seen, 0, -1e4).astype(kind)
        if stable:
            weight = jax.nn.softmax(scores, axis=-1)
        else:
            weight = jnp.exp(scores) / jnp.exp(scores).sum(-1, keepdims=True)
        out = jnp.einsum(f"{order},bkhd->bqhd", weight, v)
        return x + out.reshape(batch, size, heads * width) @ weights[3]

    def forward(x: Any, weights: Any) -> Any:
        if is_scanned:
            body = jax.checkpoint(layer) if again else layer
            x, _ = jax.lax.scan(lambda each, w: (body(each, w), None), x, weights)
        else:
            for number in range(layers):
                x = layer(x, weights[number])
        return x

    def loss(x: Any, weights: Any) -> Any:
        return (forward(x, weights).astype(jnp.float32) ** 2).mean()

    rows = heads * width
    types = [
        jax.ShapeDtypeStruct((batch, size, rows), kind),
        jax.ShapeDtypeStruct((layers, 4, rows, rows), kind),
    ]
    return draw.choice((forward, jax.grad(loss, argnums=(0, 1)))), types


def lowered(seed: int, batch: bool = False) -> str:
    """An attention, whose batch, or whose batch or sequence, two devices split."""
    import jax
    from jax.sharding import NamedSharding
    from jax.sharding import PartitionSpec as P

    draw = random.Random(seed)
    function, types = attention(draw)
    mesh = jax.sharding.Mesh(jax.devices()[:2], ("x",))
    spec = P("x") if batch else draw.choice((P("x"), P(None, "x")))
    shardings = (NamedSharding(mesh, spec), NamedSharding(mesh, P()))
    return str(jax.jit(function, in_shardings=shardings).lower(*types).as_text())


def experts(layers: int) -> str:
    """The gradient of layers of experts, of which the two largest weights choose."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding
    from jax.sharding import PartitionSpec as P

    def layer(x: Any, router: Any, up: Any, down: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        h = centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * router[:, 0]
        weights, chosen = jax.lax.top_k(jax.nn.softmax(h @ router), 2)
        each = (jax.nn.one_hot(chosen, 4) * weights[..., None]).sum(-2)
        made = jnp.einsum("bsd,edf->ebsf", h, up)
        made = jnp.einsum("ebsf,efd->ebsd", jax.nn.relu(made), down)
        return x + jnp.einsum("ebsd,bse->bsd", made, each)

    def loss(x: Any, *weights: Any) -> Any:
        for _ in range(layers):
            x = layer(x, *weights)
        return x.sum()

    shapes = (6, 8, 12), (12, 4), (4, 12, 16), (4, 16, 12)
    types = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    mesh = jax.sharding.Mesh(jax.devices()[:2], ("x",))
    shardings = [NamedSharding(mesh, spec) for spec in (P("x"), P(), P(), P())]
    gradient = jax.jit(jax.grad(loss, argnums=(0, 1, 2, 3)), in_shardings=shardings)
    return str(gradient.lower(*types).as_text())


@needs("jax")
@pytest.mark.parametrize(("layers", "limit"), [(1, 256), (2, 256), (2, 1024), (3, 64)])
def test_it_ends_where_a_loop_would_only_be_computed_again(layers: int, limit: int) -> None:
    text = experts(layers)
    blockwise = f"spmd,blockwise-attention{{block-bytes={limit}}},lower"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        found = run_and_check(text, blockwise, reference=reference_of(text))
    assert found.verdict.passed, str(found.verdict)


@needs("jax")
@pytest.mark.parametrize("seed", range(24))
def test_attention_is_proven(seed: int) -> None:
    text = lowered(seed)
    module = sd.parse(text)
    limit = random.Random(seed).choice((256, 512))
    sd.run_pipeline(module, f"spmd,blockwise-attention{{block-bytes={limit}}}")
    assert "scf.for" in str(module)
    assert sd.prove(sd.parse(text), module).answer == "proven"


@pytest.mark.parametrize("seed", range(4))
def test_attention_runs(seed: int) -> None:
    module = sd.parse(PRODUCT)
    sd.run_pipeline(module, "spmd,blockwise-attention{block-bytes=512}")
    x = np.random.default_rng(seed).standard_normal((4, 32, 8), np.float32) / 4
    expected = np.exp(x @ x.transpose(0, 2, 1)) @ x
    sd.run_pipeline(module, "lower")
    np.testing.assert_allclose(sd.run(module, x), expected, rtol=1e-5, atol=1e-5)


@needs("jax")
@pytest.mark.parametrize("seed", range(8))
def test_no_scores_are_stored(seed: int) -> None:
    text = lowered(100 + seed, batch=True)
    whole, blockwise = sd.parse(text), sd.parse(text)
    sd.run_pipeline(whole, "spmd")
    sd.run_pipeline(blockwise, "spmd,blockwise-attention{block-bytes=1024}")
    assert largest(blockwise) <= max(1024, largest(whole) // 4)


@pytest.mark.parametrize("limit", [256, 1024, 2048])
def test_it_is_proven(limit: int) -> None:
    module = sd.parse(PRODUCT)
    sd.run_pipeline(module, f"spmd,blockwise-attention{{block-bytes={limit}}}")
    assert largest(module) <= limit
    assert sd.prove(sd.parse(PRODUCT), module).answer == "proven"


@pytest.mark.parametrize("seed", range(30))
def test_random_programs_have_their_numbers(seed: int) -> None:
    """Also where every product that is larger than its operands is computed row by row."""
    program = any_program(random.Random(seed))
    reference = reference_of(program.unsharded or program.text)
    blockwise = "spmd,blockwise-attention{block-bytes=16}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        found = run_and_check(program.text, f"{blockwise},lower", reference=reference)
    assert found.verdict.passed, f"{found.verdict}\n{program.text}"


def test_other_forms_and_limits_are_refused() -> None:
    with pytest.raises(ShardError, match="no function is in the local form: put it behind --spmd"):
        sd.run_pipeline(sd.parse(PRODUCT), "blockwise-attention")
    with pytest.raises(ShardError, match="block-bytes is 0: expected a positive number"):
        sd.run_pipeline(sd.parse(PRODUCT), "spmd,blockwise-attention{block-bytes=0}")


def test_a_function_that_calls_itself_is_refused() -> None:
    type_ = "tensor<8x8xf32>"
    text = f"""
        shard.grid @g(shape = 2)
        func.func private @f(%x: {type_}) -> {type_} attributes {{mesh.form = "local"}} {{
          %y = call @f(%x) : ({type_}) -> {type_}
          return %y : {type_}
        }}"""
    with pytest.raises(ShardError, match="function @f calls itself: without end"):
        sd.run_pipeline(sd.parse(text), "blockwise-attention{block-bytes=16}")
