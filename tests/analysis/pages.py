"""A browser in which tests open reports, and the programs of these reports."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import shard_dialect as sd

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="only where Chromium is installed")


def _flax(name: str) -> Any:
    from benchmarks.flax_models import flax_module

    return sd.parse(flax_module(name, training=True, scopes=True))


def _jitted(function: Any, *arguments: tuple[tuple[int, ...], tuple[str | None, ...]]) -> Any:
    """A function of arrays of these shapes and partition specs, on 2x4 devices."""
    import jax
    from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

    mesh = AbstractMesh((2, 4), ("data", "model"))
    given = [
        jax.ShapeDtypeStruct(shape, "float32", sharding=NamedSharding(mesh, PartitionSpec(*spec)))
        for shape, spec in arguments
    ]
    traced = jax.jit(function).trace(*given)
    return sd.parse(traced.lower(lowering_platforms=("cpu",)).as_text(debug_info=True))


_IMAGES = ((4, 32, 32, 16), ("data", "model"))  # rows are split, which takes halos
_WEIGHTS = ((3, 3, 16, 16), (None, None, None, "model"))


def _convolved(x: Any, w: Any, stride: int = 1) -> Any:
    import jax

    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, w, (stride,) * 2, "SAME", dimension_numbers=numbers)


def _resnet() -> Any:
    import jax

    def forward(x: Any, *weights: Any) -> Any:
        for number in range(0, len(weights), 2):
            with jax.named_scope(f"block_{number // 2}"):
                inner = jax.nn.relu(_convolved(x, weights[number]))
                x = jax.nn.relu(x + _convolved(inner, weights[number + 1]))
        return x.mean(axis=(1, 2))

    return _jitted(forward, _IMAGES, *[_WEIGHTS] * 8)


def _unet() -> Any:
    import jax
    import jax.numpy as jnp

    def forward(x: Any, *weights: Any) -> Any:
        skipped = []
        for number, w in enumerate(weights[:3]):
            with jax.named_scope(f"down_{number}"):
                skipped.append(x)
                x = jax.nn.relu(_convolved(x, w, 2))
        for number, w in enumerate(weights[3:]):
            with jax.named_scope(f"up_{number}"):
                x = jnp.repeat(jnp.repeat(x, 2, axis=1), 2, axis=2)
                x = jax.nn.relu(_convolved(x, w) + skipped.pop())
        return x

    return _jitted(forward, _IMAGES, *[_WEIGHTS] * 6)


def _pipelined() -> Any:
    module = sd.parse(Path("examples/training_step.mlir"))
    sd.run_pipeline(module, "pipeline{stages=4 microbatches=8 arguments='0,1'}")
    return module


PROGRAMS: Mapping[str, Callable[[], Any]] = {
    "gpt2": lambda: _flax("gpt2"),
    "llama": lambda: _flax("llama"),
    "resnet": _resnet,
    "unet": _unet,
    "pipelined": _pipelined,
}
