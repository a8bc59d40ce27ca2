"""XLA's partition of jitted functions, proven."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shard_dialect as sd
from shard_dialect.errors import ShardError
from shard_dialect.jax.proving import xla_partition


def mesh() -> Mesh:
    devices = np.array(jax.devices()[:4]).reshape(2, 2)
    return Mesh(devices, ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def floats(*shape: int) -> Any:
    return jax.eval_shape(lambda: jnp.zeros(shape))


def sharded(*axes: Any) -> NamedSharding:
    spec: Any = P(*axes)  # type: ignore[no-untyped-call]
    return NamedSharding(mesh(), spec)


def layer(x: Any, w1: Any, w2: Any) -> Any:
    return jax.nn.gelu(x @ w1) @ w2


def gradients(x: Any, w1: Any, w2: Any) -> Any:
    return jax.grad(lambda *w: jnp.mean(layer(x, *w) ** 2), (0, 1))(w1, w2)


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
    causal = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(causal, -1), v)


def convolved(x: Any, k: Any) -> Any:
    return jax.lax.conv_general_dilated(x, k, (1, 1), "SAME")


def along_rows(x: Any) -> Any:
    return jnp.roll(x, 1, 0), jnp.cumsum(x, 0), x[1:7], jnp.pad(x, ((2, 1), (0, 0)))


def looked_up(table: Any, at: Any) -> Any:
    return table[at]


LAYER = (sharded("data"), sharded(None, "model"), sharded("model"))
WEIGHTS = (floats(8, 16), floats(16, 32), floats(32, 16))
IMAGE = (floats(2, 3, 8, 8), floats(4, 3, 3, 3))
AT = jax.eval_shape(lambda: jnp.zeros((4, 6), int))
CASES: "dict[str, tuple[Callable[..., Any], Any, Any]]" = {
    "layer": (layer, LAYER, WEIGHTS),
    "gradients": (gradients, LAYER, WEIGHTS),
    "heads": (attention, (sharded("data", None, "model"),) * 3, (floats(2, 8, 4, 16),) * 3),
    "positions": (attention, (sharded(None, "data"),) * 3, (floats(2, 8, 4, 16),) * 3),
    "halos": (convolved, (sharded(None, None, "data"), sharded()), IMAGE),
    "rows": (along_rows, (sharded(("model", "data")),), (floats(8, 4),)),
    "lookups": (looked_up, (sharded("model"), sharded("data")), (floats(16, 8), AT)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_it_is_proven(case: str) -> None:
    function, shardings, arguments = CASES[case]
    proof = sd.jax.prove_partition(jax.jit(function, in_shardings=shardings), *arguments)
    assert proof.answer == "proven", proof


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[[0, 1], [2, 3]]", "[[0, 2], [1, 3]]"),
        ("stablehlo.add %arg3, %arg4", "stablehlo.maximum %arg3, %arg4"),
        ("[2,1,2]<=[4]", "[2,1,2]<=[2,2]T(1,0)"),
    ],
    ids=["other groups", "another reduction", "other tiles"],
)
def test_a_fault_is_refuted(old: str, new: str) -> None:
    jitted = jax.jit(layer, in_shardings=LAYER, out_shardings=sharded("data"))
    lowered = jitted.lower(*WEIGHTS)
    text = str(xla_partition(lowered))
    assert old in text
    whole = sd.parse(str(lowered.compiler_ir("stablehlo")))
    assert sd.prove(whole, sd.parse(text)).answer == "proven"
    assert sd.prove(whole, sd.parse(text.replace(old, new))).answer == "refuted"


def test_what_is_not_partitioned_is_said() -> None:
    with pytest.raises(ShardError, match="XLA has partitioned nothing"):
        sd.jax.prove_partition(jax.jit(layer), *WEIGHTS)
