"""Partition a lowered JAX function, and call the result under a trace of JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shard_dialect.codegen.array_types import TensorType
from shard_dialect.ir.bindings import ir
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.reachable_functions import keep_connected, keep_reached
from shard_dialect.runtime.xla.jax_specs import JaxSpecs
from shard_dialect.runtime.xla.local_function import call_local, jax_of_user
from shard_dialect.runtime.xla.read_local import read_local_program

_ENTRY = "main"


@dataclass(frozen=True)
class PartitionedFunction:
    """The program that each device runs, and how its arguments and results are sharded."""

    text: str
    """StableHLO whose devices are partitions."""
    specs: JaxSpecs
    results: Sequence[TensorType]
    """The local types of the results."""

    @classmethod
    def of(cls, module: ir.Module, mesh: Any) -> PartitionedFunction:
        """Partition a module over the devices of `mesh`. The module is consumed.

        Raises `ShardError` for what cannot be partitioned, or not be given back to JAX.
        """
        with module.context, ir.Location.unknown():
            keep_connected(module.operation, _ENTRY)
            run_pipeline(module, "spmd")
            keep_reached(module.operation, _ENTRY)
            program = read_local_program(module.operation, _ENTRY)
            specs = JaxSpecs.of(program, mesh)
            run_pipeline(module, "lower{target=stablehlo devices=partitions}")
            text = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
        return cls(text, specs, [each.local for each in program.results])

    def __call__(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """The global results for global arguments, under a trace of JAX."""
        jax = jax_of_user()

        def local(*shards: Any) -> tuple[Any, ...]:
            return tuple(call_local(self.text, _ENTRY, shards, self.results))

        mapped: Callable[..., Sequence[Any]] = jax.shard_map(
            local,
            mesh=self.specs.mesh,
            in_specs=tuple(self.specs.arguments),
            out_specs=tuple(self.specs.results),
            check_vma=False,
        )
        return mapped(*arguments)
