"""Devices of JAX that run a program together: `run --backend=xla`.

The collectives of a program are counted as we wrote it, and as XLA compiled it: XLA may merge
collectives, and drop those that it finds to be of no use.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shard_dialect.abi.tensor_types import SUB_BYTE_DTYPES, Array, TensorType
from shard_dialect.analysis.trace_events import Event
from shard_dialect.backends.xla.jax_functions import (
    JaxSpecs,
    PartitionedFunction,
    as_partitions,
    call_local,
    find_lapack,
    jax_of_user,
)
from shard_dialect.errors import ShardError, first_line_of
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.walk import walk
from shard_dialect.passes.lower.conversions import calls_lapack
from shard_dialect.runtime.communicators.world import InProcess, Runnable, Shards
from shard_dialect.runtime.local_programs import read_local_program
from shard_dialect.runtime.profiling.kernel_traces import traced_by_jax

_KINDS = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-permute",
    "reduce-scatter",
)
_IN_HLO = re.compile(rf" ({'|'.join(_KINDS)})(?:-start)?\(")


@dataclass(frozen=True)
class CompiledCollectives:
    """How many of each kind there are; a loop's are counted once."""

    written: Mapping[str, int]
    compiled: Mapping[str, int]
    platform: str
    """The platform of the devices: "cpu", "gpu", "tpu"."""

    @classmethod
    def of(cls, module: ir.Operation, entry: str, hlo: str, platform: str) -> CompiledCollectives:
        """Count those of `entry` in a module of StableHLO, and those in XLA's text."""
        return cls(_written(module, entry), Counter(_IN_HLO.findall(hlo)), platform)

    def as_json(self) -> dict[str, object]:
        """Both counts, for `--json`."""
        counts = {"written": dict(self.written), "compiled": dict(self.compiled)}
        return {"platform": self.platform, **counts}

    def __str__(self) -> str:
        if self.written == self.compiled:
            return f"XLA ({self.platform}) runs these collectives: {_listed(self.compiled)}"
        return (
            f"XLA ({self.platform}) runs {_listed(self.compiled)}, where the program has "
            f"{_listed(self.written)}"
        )


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "none"


def _written(module: ir.Operation, entry: str) -> Counter[str]:
    functions = {name_of(op): op for op in functions_of(module)}
    found: Counter[str] = Counter()
    for op in walk(functions[entry]):
        kind = op.name.removeprefix("stablehlo.").replace("_", "-")
        if op.name == "func.call":
            found += _written(module, op.attributes["callee"].value)
        elif kind in _KINDS:
            found[kind] += 1
    return found


_AXIS = "devices"
_FORCED = "xla_force_host_platform_device_count"
_EXACT = {"xla_allow_excess_precision": False}
"""Round to 16 bits where the program does."""


class XlaExecutable:
    """Compile the function `entry` of a module in the local form. The module is consumed."""

    def __init__(self, module: ir.Module, entry: str) -> None:
        self.program = read_local_program(module.operation, entry)
        needs_lapack = calls_lapack(module.operation)
        self.text = as_partitions(module)
        self.devices = devices(self.program.devices)
        if needs_lapack:
            find_lapack()
        jax = jax_of_user()
        mesh = jax.sharding.Mesh(np.array(self.devices), (_AXIS,))
        self._sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(_AXIS))
        self._compiled = self._compile(jax)
        hlo, platform = self._compiled.as_text(), self.devices[0].platform
        self.collectives = CompiledCollectives.of(module.operation, entry, hlo, platform)

    def _compile(self, jax: Any) -> Any:
        """Compile a function of arrays that stack all devices' shards along a new dimension."""
        results = [each.local for each in self.program.results]

        def local(*stacked: Any) -> tuple[Any, ...]:
            arguments = [
                each.reshape(each.shape[1:]).astype(own.local.dtype)
                for each, own in zip(stacked, self.program.arguments, strict=True)
            ]
            found = call_local(self.text, self.program.entry, arguments, results)
            return tuple(each.reshape((1, *each.shape)).astype(_held(each.dtype)) for each in found)

        mesh, spec = self._sharding.mesh, self._sharding.spec
        mapped = jax.shard_map(local, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        shapes = [self._stacked(jax, each.local) for each in self.program.arguments]
        with jax.enable_x64(True):
            try:
                lowered = jax.jit(mapped).lower(*shapes)
                return lowered.compile(compiler_options=_EXACT)
            except jax.errors.JaxRuntimeError as error:
                raise ShardError(f"XLA refuses the program: {first_line_of(error)}") from None

    @property
    def hlo(self) -> str:
        """XLA's text of the program that it compiled."""
        return str(self._compiled.as_text())

    def memory(self) -> int:
        """The bytes of a device for arguments, results and temporaries, as XLA counts them."""
        sizes = self._compiled.memory_analysis()
        parts = (
            sizes.argument_size_in_bytes,
            sizes.output_size_in_bytes,
            sizes.temp_size_in_bytes,
            -sizes.alias_size_in_bytes,
        )
        return sum(map(int, parts))

    @cached_property
    def on_global_arrays(self) -> Any:
        """A function of global arrays of JAX, which stay on the devices, to global arrays.

        Raises `ShardError` for shards of unequal sizes, which JAX does not have.
        """
        jax = jax_of_user()
        specs = JaxSpecs.of(self.program, self._sharding.mesh)
        function = PartitionedFunction.of_local(self.program, self.text, specs)
        named = [jax.sharding.NamedSharding(specs.mesh, each) for each in specs.arguments]
        return jax.jit(
            lambda *arguments: tuple(function(arguments)),
            in_shardings=tuple(named),
            compiler_options=_EXACT,
        )

    def _stacked(self, jax: Any, type_: TensorType) -> Any:
        shape = (len(self.devices), *type_.shape)
        return jax.ShapeDtypeStruct(shape, _held(type_.dtype), sharding=self._sharding)

    def run(self, shards: Sequence[Shards]) -> list[list[Array]]:
        """Run all devices on their shards; return their shards of the results."""
        jax = jax_of_user()
        with jax.enable_x64(True):
            arguments = [
                self._array(jax, [of_device[number] for of_device in shards], each.local)
                for number, each in enumerate(self.program.arguments)
            ]
            try:
                results = self._compiled(*arguments)
                return self._shards(results)
            except jax.errors.JaxRuntimeError as error:
                raise ShardError(f"XLA ends with: {first_line_of(error)}") from None

    def _array(self, jax: Any, shards: Shards, type_: TensorType) -> Any:
        placed = [
            jax.device_put(
                np.asarray(shard).reshape(1, *type_.shape).astype(_held(type_.dtype)), device
            )
            for shard, device in zip(shards, self.devices, strict=True)
        ]
        shape = (len(self.devices), *type_.shape)
        return jax.make_array_from_single_device_arrays(shape, self._sharding, placed)

    def _shards(self, results: Sequence[Any]) -> list[list[Array]]:
        """Each device's shards of the results, by rank."""
        held = [{shard.device: shard.data for shard in each.addressable_shards} for each in results]
        return [
            [
                np.asarray(each[device])[0].astype(own.local.dtype)
                for each, own in zip(held, self.program.results, strict=True)
            ]
            for device in self.devices
        ]


def _held(dtype: Any) -> np.dtype[Any]:
    """The type by which elements go in and out: one byte for those of less, which XLA packs."""
    return np.dtype(np.int8) if dtype in SUB_BYTE_DTYPES else np.dtype(dtype)


class XlaDevices(InProcess):
    """Devices of JAX, all driven by this process."""

    name = "xla"

    @classmethod
    def compile_local(cls, module: ir.Module, entry: str) -> XlaExecutable:
        """As `World.compile_local`, by XLA."""
        return XlaExecutable(module, entry)

    def run(self, executable: Runnable, inputs: Sequence[Shards]) -> list[list[Array]]:
        """As `World.run`."""
        assert isinstance(executable, XlaExecutable), "compiled for this world"
        return executable.run(inputs)

    def profile(
        self, executable: Runnable, inputs: Sequence[Shards]
    ) -> tuple[list[list[Array]], list[Event]]:
        """As `World.profile`, by JAX's profiler."""
        assert isinstance(executable, XlaExecutable), "compiled for this world"
        return traced_by_jax(jax_of_user(), executable.hlo, lambda: executable.run(inputs))


def devices(count: int) -> list[Any]:
    """The first `count` devices of JAX; as many of the CPU's where there are too few others.

    Raises `ShardError` if there are too few of both.
    """
    jax = jax_of_user()
    if _FORCED not in os.environ.get("XLA_FLAGS", ""):
        with suppress(RuntimeError):  # the CPU's devices have been asked for already
            jax.config.update("jax_num_cpu_devices", count)
    default: list[Any] = jax.devices()
    found = default if len(default) >= count else jax.devices("cpu")
    if len(found) < count:
        raise ShardError(
            f"the grid has {count} devices, and jax has {len(found)}: set "
            f"XLA_FLAGS=--{_FORCED}={count} before jax is imported"
        )
    return found[:count]
