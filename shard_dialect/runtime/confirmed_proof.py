"""A refutation is confirmed by running both programs on random inputs.

The prover knows few laws but those of sums and products. A program that uses another one, such as
`exp(a) * exp(b) = exp(a + b)`, is refuted by it and gives the right numbers: that is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from shard_dialect.abi.lowered_program import choose_entry
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.reading.source import Source
from shard_dialect.proof.prove import Proof, prove
from shard_dialect.runtime.compiled_program import CompiledProgram

_FIRST_OF_LOWERING = "refuse-sharded"
"""The step of `--lower` from which on functions change their types."""
_OTHER_EACH_TIME = ("stablehlo.rng", "stablehlo.rng_bit_generator", "stablehlo.custom_call")
_MOST_DEVICES = 64
"""Programs of more are not run on threads."""


def confirmed_proof(unsharded: Source, local: ir.Module, entry: str | None = None) -> Proof:
    """The proof for a module, whose refutation a run has confirmed where it can be run.

    A difference of which the prover does not know whether it is one is what a run says it is,
    unless it depends on ops that may give other numbers each time.
    """
    proof = prove(unsharded.parse(), local, entry, explains=True)
    if proof.answer == "proven" or proof.counterexample is None:
        return proof
    if any(op.name in _OTHER_EACH_TIME for op in proof.boxes):
        return proof
    is_refuted = proof.answer == "refuted"
    if is_refuted and proof.reason:  # which no run may show
        return proof
    try:
        failure = _failure_of_a_run(unsharded, local, entry)
    except ShardError as error:
        return replace(proof, reason=f"not run: {error.message}") if is_refuted else proof
    if failure is not None:
        reason = f"a run on random inputs confirms it: {failure}"
        return replace(proof, answer="refuted", reason=reason)
    if not is_refuted:
        return proof
    reason = (
        f"{proof.counterexample}; but on random inputs the numbers agree: the programs may "
        "differ by laws of functions that the prover does not know"
    )
    return replace(proof, answer="unknown", reason=reason)


def _failure_of_a_run(unsharded: Source, local: ir.Module, entry: str | None) -> str | None:
    """What is wrong on random inputs; raises `ShardError` where it cannot be run."""
    name = choose_entry(local.operation, entry)
    text = local.operation.get_asm(enable_debug_info=True)
    program = CompiledProgram(Source.of(text), "devices", name)
    if program.program.devices > _MOST_DEVICES:
        raise ShardError(f"more than {_MOST_DEVICES} devices")
    verdict = program.check(unsharded=unsharded)
    return None if verdict.passed else str(verdict.failure)


@dataclass
class ProofOfEach:
    """Proves the module after each pass of a pipeline, until it is lowered."""

    unsharded: Source
    entry: str | None
    _text: str = ""
    """The module as it was proven last."""
    _is_lowered: bool = False

    def at(self, name: str, op: ir.Operation) -> None:
        """After the pass `name`; raises `ShardError`, which names it, if that is refuted."""
        self._is_lowered |= name == _FIRST_OF_LOWERING
        text = op.get_asm(enable_debug_info=True)
        if op.name != "builtin.module" or text == self._text or self._is_lowered:
            return
        self._text = text
        proof = confirmed_proof(self.unsharded, ir.Module.parse(text), self.entry)
        if proof.answer == "refuted":
            raise ShardError(f"{proof}: first after the pass '{name}'")
