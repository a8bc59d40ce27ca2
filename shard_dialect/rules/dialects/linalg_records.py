"""The records of `linalg`'s ops: rules, bodies on shards, and partial values."""

from __future__ import annotations

from shard_dialect.rules.dialects.linalg_bodies import padding, partition_body
from shard_dialect.rules.dialects.linalg_rules import pack, softmax, structured, unpack, winograd
from shard_dialect.rules.op_record import OpRecord, alike
from shard_dialect.rules.partial_values import (
    PartialFunction,
    adds,
    divides,
    moves,
    multiplies,
    negates,
    scales,
    takes_maximum,
    takes_minimum,
)

STRUCTURED = OpRecord(structured, padding=padding)
"""The record of all ops with indexing maps that have no record of their own."""


def _linear(partial: PartialFunction) -> OpRecord:
    return OpRecord(structured, padding=padding, partial=partial)


RECORDS: dict[str, OpRecord] = {
    **alike(
        "linalg",
        ("generic", "map", "reduce"),
        OpRecord(structured, partition=partition_body, padding=padding),
    ),
    **alike("linalg", ("add", "sub"), _linear(adds)),
    **alike("linalg", ("broadcast", "copy", "transpose"), _linear(moves)),
    **alike("linalg", ("batch_matmul", "dot", "matmul", "matvec", "vecmat"), _linear(scales)),
    "linalg.div": _linear(divides),
    "linalg.max": _linear(takes_maximum),
    "linalg.min": _linear(takes_minimum),
    "linalg.mul": _linear(multiplies),
    "linalg.negf": _linear(negates),
    "linalg.pack": OpRecord(pack),
    "linalg.softmax": OpRecord(softmax),
    "linalg.unpack": OpRecord(unpack),
    "linalg.winograd_filter_transform": OpRecord(winograd("f11c,11cf->11cf")),
    "linalg.winograd_input_transform": OpRecord(winograd("n11c,1111nc->1111nc")),
    "linalg.winograd_output_transform": OpRecord(winograd("1111nf,n11f->n11f")),
}
