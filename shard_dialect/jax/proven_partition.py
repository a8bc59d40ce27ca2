"""`sd.jax.jit(..., prove=True)`: what XLA is to compile is proven to be what JAX has lowered.

Nothing of the partition stands between: the prover reads the module that the partition has written,
whose devices are those of one manual computation, with the collectives of StableHLO.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import load_dialects_of, make_context
from shard_dialect.ir.diagnostics import give
from shard_dialect.ir.reading.source import Source, generic_text
from shard_dialect.jax.jax_internals import Partition, partitioned_by
from shard_dialect.jax.partition_module import read_module
from shard_dialect.proof.prove import Proof
from shard_dialect.runtime.confirmed_proof import Unsharded, confirmed_proof, told

_ENTRY = "main"


class Proven:
    """A partition that is refused where it makes another program."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._proofs: WeakKeyDictionary[Any, Proof] = WeakKeyDictionary()

    def __call__(self, module: Any) -> Any:
        """Partition; warns of what is unknown. Raises `ShardError` for what is refuted."""
        made = self._partition(module)
        if module not in self._proofs:
            self._proofs[module] = _proof(module, made)
        what = told(self._proofs[module])
        if what.severity == "warning":
            give(what)
        return made

    def proof(self, module: Any) -> Proof:
        """The proof for a module of JAX's."""
        if module not in self._proofs:
            self._proofs[module] = _proof(module, self._partition(module))
        return self._proofs[module]


def proven_by(partition: Proven, jitted: Any) -> Any:
    """As `partitioned_by`; the function also has `proof`, for arguments of the same shapes."""
    found = partitioned_by(partition, jitted)
    found.proof = _ProofOf(partition, found.lower)
    return found


class _ProofOf:
    """The method `proof` of a function."""

    def __init__(self, partition: Proven, lower: Callable[..., Any]) -> None:
        self._partition, self._lower = partition, lower

    def __call__(self, *arguments: Any, **keywords: Any) -> Proof:
        """Whether what the devices do for arguments of these shapes is the function."""
        lowered = self._lower(*arguments, **keywords)
        return self._partition.proof(lowered.compiler_ir("stablehlo"))


def _proof(module: Any, made: Any) -> Proof:
    whole = read_module(module)
    with whole.context:
        unsharded = Unsharded.of(whole, _ENTRY)
    own = _read_made(made)
    with own.context:
        return confirmed_proof(unsharded, own, _ENTRY)


def _read_made(made: Any) -> ir.Module:
    """What a partition has made. It is not verified: rules of calls are of whole tensors."""
    with made.context:
        text = Source.of(generic_text(made.operation.clone())).text
    with make_context() as context:
        load_dialects_of(text, context)
        return ir.Module.parse(text)
