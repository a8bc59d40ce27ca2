"""Whether XLA's partition of a program with GSPMD's annotations has the program's own numbers.

Both run on up to 16 CPU devices.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=16")

import jax
import numpy as np
from jax._src.interpreters import mlir as jax_mlir
from jaxlib import _jax, xla_client
from jaxlib.mlir import ir

from benchmarks.xla_peer import options

Array = np.ndarray[Any, Any]
_ANNOTATION = re.compile(r'mhlo\.sharding = "[^"]*"(, )?')
_FEW = 5
"""Operands are integers from 0 to this, whose sums are exact in floats, and which are indices."""


def is_right(text: str, devices: int) -> bool:
    """Run the program on `devices` devices as XLA partitions it, and on one without annotations."""
    found = jax.devices("cpu")[:devices]
    partitioned = _compiled(text, found)
    whole = _compiled(_ANNOTATION.sub("", text), found[:1])
    shapes = _jax.mlir.mlir_module_to_xla_computation(text).program_shape().parameter_shapes()
    rng = np.random.default_rng(0)
    operands = [
        rng.integers(0, _FEW, shape.dimensions()).astype(shape.numpy_dtype()) for shape in shapes
    ]
    held = [
        [shard for shard, _ in _shards(each, sharding, devices)]
        for each, sharding in zip(operands, partitioned.get_parameter_shardings(), strict=True)
    ]
    results = _run(partitioned, held, found)
    expected = _run(whole, [[each] for each in operands], found[:1])
    return all(
        np.allclose(got[real], shard[real])
        for (result,), parts, sharding in zip(
            expected, results, partitioned.get_output_shardings(), strict=True
        )
        for got, (shard, real) in zip(parts, _shards(result, sharding, devices), strict=True)
    )


def _compiled(text: str, devices: Sequence[Any]) -> Any:
    with jax_mlir.make_ir_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        found = _jax.DeviceList(tuple(devices))
        given = options(len(devices), use_shardy=False)
        return devices[0].client.compile_and_load(module, found, given)


def _run(
    executable: Any, operands: Sequence[Sequence[Array]], devices: Sequence[Any]
) -> list[list[Array]]:
    """The parts of each result by device, from those of each operand."""
    mesh = jax.sharding.Mesh(np.array(devices), ("devices",))
    given = []
    for parts in operands:
        # JAX is told of one tensor that has the parts behind each other; XLA gets these.
        shape = parts[0].shape
        if shape:
            shape = (len(devices) * shape[0], *shape[1:])
        spec = jax.sharding.PartitionSpec(*(["devices"] if shape else []))
        held = [jax.device_put(each, device) for each, device in zip(parts, devices, strict=True)]
        sharding = jax.sharding.NamedSharding(mesh, spec)
        given.append(jax.make_array_from_single_device_arrays(shape, sharding, held))
    results = executable.execute_sharded(given).disassemble_into_single_device_arrays()
    return [[np.asarray(part) for part in parts] for parts in results]


def _shards(whole: Array, proto: Any, devices: int) -> list[tuple[Array, Array]]:
    """Each device's shard, padded as XLA pads it, and which of its elements are not padding."""
    sharding = xla_client.HloSharding.from_proto(proto)
    if sharding.is_replicated() or not whole.ndim:
        return [(whole, np.ones(whole.shape, bool))] * devices
    tiles = sharding.tile_assignment_dimensions()[: whole.ndim]
    owners = np.reshape(sharding.tile_assignment_devices(), (*tiles, -1))
    found: dict[int, tuple[Array, Array]] = {}
    sizes = [-(-size // count) for size, count in zip(whole.shape, tiles, strict=True)]
    ends = [(0, size * count - n) for size, count, n in zip(sizes, tiles, whole.shape, strict=True)]
    padded, real = np.pad(whole, ends), np.pad(np.ones(whole.shape, bool), ends)
    for tile in np.ndindex(*tiles):
        place = tuple(slice(n * size, (n + 1) * size) for n, size in zip(tile, sizes, strict=True))
        found |= dict.fromkeys(owners[tile], (padded[place], real[place]))
    return [found[device] for device in range(devices)]
