"""`math.clampf` gives the lower bound where the bounds cross, and `stablehlo.clamp` the upper one.

So on every backend, as upstream's expansion of the first and as XLA for the second.
"""

import numpy as np
import pytest

import shard_dialect as sd
from tests.extras import needs

BACKENDS = ["devices", pytest.param("xla", marks=needs("jax"))]
OPS = {
    "math.clampf %x to [%low, %high] :": lambda x, low, high: np.maximum(np.minimum(x, high), low),
    "stablehlo.clamp %low, %x, %high :": lambda x, low, high: np.minimum(np.maximum(x, low), high),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("seed", range(3))
def test_crossing_bounds(op: str, backend: str, seed: int) -> None:
    draws = np.random.default_rng(seed)
    inputs = draws.normal(size=(3, 64)).astype(np.float32)
    inputs[:, ::7] = draws.choice([np.nan, np.inf, -np.inf], size=inputs[:, ::7].shape)
    with sd.make_context():
        module = sd.parse(f"""
            shard.grid @g(shape = 2)
            func.func @main(%x: tensor<64xf32>, %low: tensor<64xf32>, %high: tensor<64xf32>)
                -> tensor<64xf32> {{
              %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
              %0 = {op} tensor<64xf32>
              %1 = shard.shard %0 to %s : tensor<64xf32>
              return %1 : tensor<64xf32>
            }}""")
        result = sd.run(module, *inputs, backend=backend)
    np.testing.assert_array_equal(result, OPS[op](*inputs))
