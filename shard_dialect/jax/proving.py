"""Whether two functions of JAX are one function: a plain one, and one that is parallel by hand.

sd.jax.prove(layer, jax.shard_map(layer_on_shards, mesh=mesh, ...), x, w1, w2)
sd.jax.prove_partition(jax.jit(layer, in_shardings=...), x, w1, w2)     of XLA's partitioner
sd.jax.jit(layer, ..., prove=True)                                      of what XLA is to compile

Nothing of the partition stands between in the last one: the prover reads the module that the
partition has written, whose devices are those of one manual computation, with the collectives of
StableHLO.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np
from jax._src.interpreters import mlir as jax_mlir
from jaxlib import _jax
from jaxlib.mlir import ir as jax_ir

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import load_dialects_of, make_context
from shard_dialect.ir.diagnostics import give
from shard_dialect.ir.reading.source import Source, generic_text
from shard_dialect.jax.jax_internals import Partition, partitioned_by
from shard_dialect.jax.partition_module import read_module
from shard_dialect.proof.prove import Proof
from shard_dialect.proof.prove import prove as prove_modules
from shard_dialect.proof.tiles import DEVICES, devices_in, groups_along
from shard_dialect.runtime.confirmed_proof import Unsharded, confirmed, confirmed_proof, told

_CLOSE = 1e-3
"""How far results may differ, relative to the largest, that are called the same numbers."""


def prove(plain: Callable[..., Any], parallel: Callable[..., Any], *arguments: Any) -> Proof:
    """Say whether `parallel(*arguments)` is `plain(*arguments)` for all values of the arguments.

    `parallel` has `jax.shard_map`s, on a mesh of the devices that there are. Arguments are arrays,
    or shapes and types as `jax.ShapeDtypeStruct`s, of which trees may be. See `sd.prove`; a
    refutation is confirmed by running both functions on random arguments. Raises `ShardError` where
    the functions have other arguments or results.
    """
    whole, own = (
        read_module(jax.jit(each, keep_unused=True).lower(*arguments).compiler_ir("stablehlo"))
        for each in (plain, parallel)
    )
    return confirmed(
        prove_modules(whole, own, explains=True), partial(_difference, plain, parallel, arguments)
    )


def prove_partition(function: Any, *arguments: Any) -> Proof:
    """Say whether what XLA's partitioner makes of a jitted function computes the function.

    Arguments are arrays, or shapes and types as `jax.ShapeDtypeStruct`s, of which trees may be. XLA
    compiles the function, and the program that it has for each device before it optimizes it is
    compared. A refutation is confirmed by running the function as XLA compiles it, on random
    arguments, beside the function that it wraps, on one device. Raises `ShardError` where XLA
    partitions nothing.
    """
    if not isinstance(function, jax.stages.Wrapped):
        raise ShardError(f"{function!r} is no jitted function: give what jax.jit returns")
    lowered = function.lower(*arguments)
    whole = read_module(lowered.compiler_ir("stablehlo"))
    own = read_module(xla_partition(lowered))
    plain = getattr(function, "__wrapped__", function)
    return confirmed(
        prove_modules(whole, own, explains=True),
        partial(_difference, plain, function, arguments),
    )


def _difference(
    plain: Callable[..., Any], parallel: Callable[..., Any], arguments: Any
) -> str | None:
    """What differs on random arguments. Raises `ShardError` where that is not known."""
    generator = np.random.default_rng(0)
    drawn = jax.tree.map(lambda each: _drawn(each, generator), arguments)
    try:
        results = [jax.tree.leaves(jax.jit(each)(*drawn)) for each in (plain, parallel)]
    except Exception as error:  # what JAX, or a function of the user's, raises
        raise ShardError(str(error)) from None
    for number, (expected, found) in enumerate(zip(*results, strict=True)):
        a, b = (np.asarray(each).astype(np.complex128) for each in (expected, found))
        far = float(np.max(np.abs(a - b), initial=0.0))
        if not far <= _CLOSE * max(float(np.max(np.abs(a), initial=0.0)), 1e-30):
            return f"result {number} is off by {far:.3g}"
    return None


def _drawn(argument: Any, generator: np.random.Generator) -> Any:
    """A random array of the argument's shape and type; integers are as they are, or small."""
    if not hasattr(argument, "dtype"):
        return argument
    if np.issubdtype(argument.dtype, np.integer) or argument.dtype == np.bool_:
        if not isinstance(argument, jax.ShapeDtypeStruct):
            return argument
        return generator.integers(0, 2, argument.shape).astype(argument.dtype)
    return generator.standard_normal(argument.shape).astype(argument.dtype)


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


_PASS = "spmd-partitioning"
_LENGTH = 2
"""The kind of a field of a protocol buffer that has its length before it."""


def xla_partition(lowered: Any) -> Any:
    """The module of each device, in StableHLO as JAX's bindings have it; XLA is run.

    Its boundary is in shardings of HLO: `mhlo.sharding`, and `mhlo.spmd_output_sharding` of the
    module. Raises `ShardError` where XLA partitions nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "xla_dump_to": folder,
            "xla_dump_hlo_pass_re": _PASS,
            "xla_dump_hlo_as_proto": True,
            "xla_dump_hlo_as_text": True,
        }
        lowered.compile(compiler_options=options)
        dumped = sorted(Path(folder).glob(f"*after_{_PASS}*.pb"))
        if not dumped:
            raise ShardError("XLA has partitioned nothing: the function is on one device")
        text = _jax.mlir.hlo_to_stablehlo(_module_of(dumped[-1].read_bytes()))
        groups = _groups_in(dumped[-1].with_suffix("").with_suffix(".txt").read_text())
    with jax_mlir.make_ir_context() as context:
        context.allow_unregistered_dialects = True
        module = jax_ir.Module.parse(text)
        for op in module.body.operations:
            _complete(op, groups)
        return module


_SPELLING = {"mhlo.erf": "chlo.erf", "mhlo.topk": "chlo.top_k"}
"""Ops that StableHLO does not have."""


def _complete(op: Any, groups: Mapping[int, Sequence[Sequence[int]]]) -> None:
    """Write what the conversion from HLO leaves out.

    A `copy` is no op of StableHLO: its operand stands for it. Calls give tuples, for which their
    elements stand. Groups along axes of a mesh lose the order of the mesh's devices; they become
    lists.
    """
    for region in op.regions:
        for block in region.blocks:
            for inner in [each.operation for each in block.operations]:
                _complete(inner, groups)
                if inner.name == "mhlo.copy":
                    _replace(inner, inner.operands)
                elif inner.name in _SPELLING:
                    _replace(inner, _made(inner, _SPELLING[inner.name], inner.results))
                elif inner.name == "stablehlo.custom_call":
                    _split_tuple(inner)
                elif "replica_groups" in inner.attributes:
                    _list_groups(inner, groups)


def _split_tuple(op: Any) -> None:
    uses = [use.owner for use in op.results[0].uses]
    if any(use.name != "stablehlo.get_tuple_element" for use in uses) or not uses:
        return
    tuple_ = jax_ir.TupleType(op.results[0].type)
    types = [tuple_.get_type(number) for number in range(tuple_.num_types)]
    made = _made(op, op.name, types)
    for use in uses:
        _replace(use, [made[use.attributes["index"].value]])
    op.erase()


def _made(op: Any, name: str, results: Sequence[Any]) -> Any:
    """The results of an op of this name, before `op` and with its operands and attributes."""
    types = [getattr(each, "type", each) for each in results]
    attributes = {named: op.attributes[named] for named in op.attributes}
    attributes.pop("largest", None)  # which top_k are
    with jax_ir.InsertionPoint(op), op.location:
        made = jax_ir.Operation.create(
            name, results=types, operands=list(op.operands), attributes=attributes
        )
    return made.results


def _replace(op: Any, values: Sequence[Any]) -> None:
    for result, value in zip(op.results, values, strict=True):
        result.replace_all_uses_with(value)
    op.erase()


def _list_groups(op: Any, groups: Mapping[int, Sequence[Sequence[int]]]) -> None:
    channel = _CHANNEL.search(str(op.attributes.get("channel_handle", "")))
    found = groups.get(int(channel[1])) if channel is not None else None
    if found is not None:
        listed: Any = np.array(found, np.int64)
        op.attributes["replica_groups"] = jax_ir.DenseElementsAttr.get(listed)


_CHANNEL = re.compile(r"handle = (\d+)")
_GROUPS = re.compile(
    r"channel_id=(?P<channel>\d+), replica_groups=mesh\[(?P<mesh>[^\]]*)\]"
    rf"(?:, device_ids=\({DEVICES}\))? \{{(?P<axes>[^}}]*)\}}"
)
_SIZE = re.compile(r"'([^']*)'=(\d+)")
_AXIS = re.compile(r"'([^']*)'(?::\((\d+)\)(\d+))?")


def _groups_in(hlo: str) -> dict[int, list[list[int]]]:
    """For each channel the groups that a text of HLO has along axes of a mesh."""
    return {int(each["channel"]): _groups(each) for each in _GROUPS.finditer(hlo)}


def _groups(found: re.Match[str]) -> list[list[int]]:
    sizes = {name: int(size) for name, size in _SIZE.findall(found["mesh"])}
    is_ordered = found["list"] or found["shape"]
    devices = devices_in(found).tolist() if is_ordered else range(prod(sizes.values()))
    parts = [
        (list(sizes).index(name), int(before or 1), int(size or sizes[name]))
        for name, before, size in _AXIS.findall(found["axes"])
    ]
    return groups_along(devices, list(sizes.values()), parts)


def _module_of(proto: bytes) -> bytes:
    """The `HloModuleProto` of an `HloProto`: its first field."""
    return next(content for number, content in _fields(proto) if number == 1)


def _fields(proto: bytes) -> Iterator[tuple[int, bytes]]:
    """The numbers and contents of a protocol buffer's fields, which are all messages here."""
    rest = memoryview(proto)
    while rest:
        tag, rest = _number(rest)
        length, rest = _number(rest)
        if tag & 7 != _LENGTH:
            raise ShardError("XLA has dumped a module of a form that is not known")
        yield tag >> 3, bytes(rest[:length])
        rest = rest[length:]


def _number(given: memoryview) -> tuple[int, memoryview]:
    """An integer in groups of seven bits, the lowest first, and what is after it."""
    number = 0
    for at, byte in enumerate(given):
        number |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            return number, given[at + 1 :]
    raise ShardError("XLA has dumped a module that ends too early")
