"""A refutation is confirmed by running both programs on random inputs.

The prover knows few laws but those of sums and products. A program that uses another one, such as
`exp(a) * exp(b) = exp(a + b)`, is refuted by it and gives the right numbers: that is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from shard_dialect.abi.lowered_program import choose_entry, find_function
from shard_dialect.errors import Diagnostic, ShardError, as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.diagnostics import error_at, silent, with_file_names
from shard_dialect.ir.function import form_of, functions_of, name_of
from shard_dialect.ir.mesh.attributes import DEVICE
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import walk
from shard_dialect.ops.op_table import has_own_lowering
from shard_dialect.passes.lower.expansions import expand_registered_ops
from shard_dialect.proof.family import elements
from shard_dialect.proof.fitting import check_unsharded
from shard_dialect.proof.machine import Raised, Torn
from shard_dialect.proof.prove import Proof, prove
from shard_dialect.proof.reading import Program, read_program
from shard_dialect.proof.written.session import Session
from shard_dialect.runtime.checking.check import Expected
from shard_dialect.runtime.compile import compile_reference, local_program, parsed
from shard_dialect.runtime.compiled_program import CompiledProgram
from shard_dialect.runtime.dynamic_sizes import Sizes
from shard_dialect.runtime.random_inputs import random_inputs

_FIRST_OF_LOWERING = "refuse-sharded"
"""The step of `--lower` from which on functions change their types."""
_OTHER_EACH_TIME = ("stablehlo.rng", "stablehlo.rng_bit_generator", "stablehlo.custom_call")
_MOST_DEVICES = 64
"""Programs of more are not run on threads."""
_MOST_ELEMENTS = 1 << 22
"""Texts of programs whose ops have more are not evaluated."""


@dataclass(frozen=True)
class Unsharded:
    """The program that devices are to compute: as the prover reads it, and to be run."""

    program: Program
    source: Source
    expanded: Program | None = None
    """The program with users' ops as what their lowerings make of them, if it has such ops."""

    @classmethod
    def of(cls, module: ir.Module, entry: str | None, source: Source | None = None) -> Unsharded:
        """Of a module, which may be changed from then on; `source` is what it was parsed from.

        Raises a located `ShardError` if it no longer is the unsharded program.
        """
        program = read_program(module)
        check_unsharded(program.entry(entry))
        expanded = _expanded(module)
        return cls(
            program,
            source or Source.of(module.operation.get_asm(enable_debug_info=True)),
            read_program(expanded) if expanded else None,
        )

    @classmethod
    def read(cls, path: str, entry: str | None) -> Unsharded:
        """Of another file than the one whose places are shown: its ops are at places in itself.

        Raises a located `ShardError` if the file has no such function, or in another form.
        """
        source = Source.read(path)
        with source.file_locations(), at_start_of(source):
            return cls.of(at_own_places(source.parse()), entry, source)


@contextmanager
def at_start_of(source: Source) -> Iterator[None]:
    """Have errors raised in the `with` block that have no place be at the start of a file."""
    try:
        yield
    except ShardError as error:
        raise error.at(f"{source.name}:1:1") from None


def at_own_places(module: ir.Module) -> ir.Module:
    """A copy whose locations name the file that is shown now, and no other one later."""
    text = module.operation.get_asm(enable_debug_info=True)
    return ir.Module.parse(with_file_names(text))


def confirmed_proof(unsharded: Unsharded, local: ir.Module, entry: str | None = None) -> Proof:
    """The proof for a module, whose refutation a run has confirmed where it can be run.

    Raises a located `ShardError` where the programs do not fit.
    """
    _refuse_program_of_one(local)

    def failure() -> str | None:
        name = choose_entry(local.operation, entry)
        text = local.operation.get_asm(enable_debug_info=True)
        program = CompiledProgram(Source.of(text), "devices", name)
        if program.program.devices > _MOST_DEVICES:
            raise ShardError(f"more than {_MOST_DEVICES} devices")
        verdict = program.check(unsharded=unsharded.source)
        return None if verdict.passed else verdict.failure

    proof = prove(unsharded.program, local, entry, explains=True)
    if proof.answer == "unknown" and unsharded.expanded and _form(local, entry) == "local":
        own = _expanded(local)
        proof = prove(unsharded.expanded, own, entry, explains=True) if own else proof
    return confirmed(proof, failure)


def confirmed_proof_of_python(unsharded: Unsharded, path: str, entry: str | None = None) -> Proof:
    """The proof for a program in Python, which `--emit-python` may have written.

    Only what the user names is loaded, in a process of its own. Raises a located `ShardError` where
    it is no program of these arguments and results.
    """
    whole = unsharded.program
    function = whole.entry(entry)
    names = tuple(sorted(whole.names()))
    session = Session(str(Path(path).resolve()), len(whole.grid.devices), names)

    def failure() -> str | None:
        with make_context():
            reference = compile_reference(unsharded.source, function.name)
            inputs = random_inputs(reference.arguments, 0)
            expected = Expected.of(reference, inputs)
        dtypes = [str(each.dtype) for each in inputs]
        given = [each.astype(np.float32) if each.dtype.kind == "V" else each for each in inputs]
        try:
            _, found = session.ask({"kind": "numbers", "dtypes": dtypes}, given)
        except Torn as error:
            return error.message
        triples = zip(found, expected.results, expected.allowed, strict=True)
        for number, (result, wanted, allowed) in enumerate(triples):
            a, b = (each.astype(np.complex128) for each in (result, wanted))
            with np.errstate(all="ignore"):
                same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= allowed)
            if not np.all(same):
                at = [int(each) for each in np.argwhere(~same)[0]]
                return (
                    f"result{number} at {at} is {result[tuple(at)]}, expected {wanted[tuple(at)]}"
                )
        return None

    try:
        proof = prove(whole, session.program(function), function.name)
        return _checked(proof, failure) if proof.answer == "proven" else confirmed(proof, failure)
    finally:
        session.end()


def proof_of_emitted(
    unsharded: Unsharded, text: str, name: str, of_module: Proof, entry: str | None = None
) -> Proof:
    """The proof for the text in Python that was emitted of a module, to be written as `name`.

    A text has the sizes that it has: of a large one the proof is that of the module, and says so.
    """
    whole, devices = unsharded.program, len(unsharded.program.grid.devices)
    if elements([(whole, 1)]) > _MOST_ELEMENTS or devices > _MOST_DEVICES:
        said = "the module that the text was written of, since the text is too large"
        return replace(of_module, assumptions=(*of_module.assumptions, said))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        path.write_text(text, encoding="utf-8")
        proof = confirmed_proof_of_python(unsharded, str(path), entry)
    reason = proof.reason.replace(str(path), name)
    if proof.answer == "unknown" and of_module.answer == "proven":
        reason = f"the module is proven, and not the text that was written of it: {reason}"
    return replace(proof, reason=reason)


def _form(module: ir.Module, entry: str | None) -> str:
    return form_of(find_function(module.operation, choose_entry(module.operation, entry)))


def _expanded(module: ir.Module) -> ir.Module | None:
    """A copy in which users' ops are what their lowerings make of them; `None` without such ops."""
    if not any(has_own_lowering(op.name) for op in walk(module.operation)):
        return None
    copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=True))
    try:
        expand_registered_ops(copy.operation, "lowering")
    except ShardError:  # a lowering that refuses the op says nothing of what it computes
        return None
    return copy


def _refuse_program_of_one(module: ir.Module) -> None:
    for function in functions_of(module.operation):
        if DEVICE in function.attributes:
            raise error_at(
                function.location,
                f"{as_symbol(name_of(function))} is the program of device "
                f"{function.attributes[DEVICE].value} alone: nothing is proven of it; prove the "
                "program of all devices, before --pick-device",
            )


def proof_of_compiled(source: Source, unsharded: Source, entry: str, sizes: Sizes) -> Proof:
    """The proof for the local program that is compiled of a source, for these sizes."""
    with silent():  # what they warn of was shown when the program was compiled
        with unsharded.file_locations():
            whole, _ = parsed(unsharded, entry, sizes)
            read = Unsharded.of(at_own_places(whole), entry)
        with source.file_locations():
            local, name = local_program(source, entry, sizes)
            return confirmed_proof(read, local, name)


def confirmed(proof: Proof, run: Callable[[], str | None]) -> Proof:
    """A proof, of which a refutation says what a run on random inputs shows.

    `run` returns what it has found to differ, and raises `ShardError` where it is not possible. A
    refutation that no run shows is unknown. A difference of which the prover does not know whether
    it is one is what a run says, unless it depends on ops that may give other numbers each time.
    """
    if proof.answer == "proven" or proof.counterexample is None or proof.is_of_smaller:
        return proof
    is_refuted = proof.answer == "refuted"
    if is_refuted and proof.reason:  # which no run may show
        return proof
    if any(op.name in _OTHER_EACH_TIME for op in proof.boxes):
        return proof
    try:
        failure = run()
    except ShardError as error:
        return replace(proof, reason=f"not run: {error.message}") if is_refuted else proof
    if failure is not None:
        reason = f"a run on random inputs confirms it: {failure}"
        return replace(proof, answer="refuted", reason=reason)
    if not is_refuted:
        return proof
    reason = (
        f"{proof.counterexample}; but on random inputs the numbers agree: the programs may differ "
        "by laws of functions that the prover does not know"
    )
    return replace(proof, answer="unknown", reason=reason)


def _checked(proof: Proof, run: Callable[[], str | None]) -> Proof:
    """A proof of a file, unless a run differs: a library may do other things than the prover's."""
    if any(op.name in _OTHER_EACH_TIME for op in proof.boxes):
        return proof
    try:
        failure = run()
    except Raised as error:
        is_missing = ModuleNotFoundError.__name__ in error.message
        failure = None if is_missing else error.message
    except ShardError:
        return proof
    if failure is None:
        return proof
    reason = f"the prover sees no difference, and a run on random inputs does: {failure}"
    return replace(proof, answer="unknown", reason=reason)


def told(proof: Proof) -> Diagnostic:
    """What a program says of a proof beside its output. Raises `ShardError` for a refutation."""
    if proof.answer == "refuted":
        raise ShardError(str(proof))
    return Diagnostic("warning" if proof.answer == "unknown" else "note", str(proof))


@dataclass
class ProofOfEach:
    """Proves the module after each pass of a pipeline, until it is lowered."""

    entry: str | None
    unsharded: Unsharded | None = None
    """The program before the passes."""
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
        assert self.unsharded is not None, "the program is read before passes run"
        proof = confirmed_proof(self.unsharded, ir.Module.parse(text), self.entry)
        if proof.answer == "refuted":
            raise ShardError(f"{proof}: first after the pass '{name}'")
