"""What XLA makes of a jitted function for each device, before it optimizes it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jax._src.interpreters import mlir as jax_mlir
from jaxlib import _jax
from jaxlib.mlir import ir as jax_ir

from shard_dialect.errors import ShardError

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
        }
        lowered.compile(compiler_options=options)
        dumped = sorted(Path(folder).glob(f"*after_{_PASS}*.pb"))
        if not dumped:
            raise ShardError("XLA has partitioned nothing: the function is on one device")
        text = _jax.mlir.hlo_to_stablehlo(_module_of(dumped[-1].read_bytes()))
    with jax_mlir.make_ir_context():
        return jax_ir.Module.parse(text)


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
