"""A partitioned program as a function of global arrays, for JAX to trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shard_dialect.codegen.array_types import TensorType
from shard_dialect.codegen.lowered_program import Program
from shard_dialect.ir.bindings import ir
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.reachable_functions import keep_connected, keep_reached
from shard_dialect.runtime.read_local import read_local_program
from shard_dialect.runtime.xla.jax_specs import JaxSpecs
from shard_dialect.runtime.xla.local_function import call_local, jax_of_user


@dataclass(frozen=True)
class PartitionedFunction:
    """The program that each device runs, and how its arguments and results are sharded."""

    text: str
    """StableHLO whose devices are partitions."""
    entry: str
    specs: JaxSpecs
    results: Sequence[TensorType]
    """The local types of the results."""

    @classmethod
    def of(cls, module: ir.Module, mesh: Any, entry: str = "main") -> PartitionedFunction:
        """Partition a module in any form over the devices of `mesh`. The module is consumed.

        Raises `ShardError` for what cannot be partitioned, or not be given back to JAX.
        """
        with module.context, ir.Location.unknown():
            keep_connected(module.operation, entry)
            run_pipeline(module, "spmd")
            keep_reached(module.operation, entry)
            program = read_local_program(module.operation, entry)
            specs = JaxSpecs.of(program, mesh)
            return cls.of_local(program, as_partitions(module), specs)

    @classmethod
    def of_local(cls, program: Program, text: str, specs: JaxSpecs) -> PartitionedFunction:
        """The function of a program whose text is StableHLO already."""
        return cls(text, program.entry, specs, [each.local for each in program.results])

    def __call__(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """The global results for global arguments, under a trace of JAX."""
        jax = jax_of_user()

        def local(*shards: Any) -> tuple[Any, ...]:
            return tuple(call_local(self.text, self.entry, shards, self.results))

        mapped: Callable[..., Sequence[Any]] = jax.shard_map(
            local,
            mesh=self.specs.mesh,
            in_specs=tuple(self.specs.arguments),
            out_specs=tuple(self.specs.results),
            check_vma=False,
        )
        return mapped(*arguments)


def as_partitions(module: ir.Module) -> str:
    """Lower a module in the local form to StableHLO whose devices are partitions; its text."""
    run_pipeline(module, "lower{target=stablehlo devices=partitions}")
    text: str = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    return text
