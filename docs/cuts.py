"""The page that says how each op with a rule is cut, read off samples of it (docs/cuts.md)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.ops import rule_of
from shard_dialect.ops.uneven_shards import may_be_uneven
from shard_dialect.testing import SAMPLES, Draws, placed
from shard_dialect.testing.placement import named

KINDS = ("passed", "reduced", "windows", "whole")
DRAWN = 12
"""Samples of each op."""

REASONS: dict[str, dict[str, str]] = {
    "merged": {
        "passed": "stablehlo.reshape tensor.collapse_shape tensor.expand_shape tosa.reshape "
        "tosa.tile tensor.reshape tosa.depthwise_conv2d",
        "reduced": "linalg.conv* linalg.depthwise* linalg.pooling*",
    },
    "divides": {"passed": "linalg.div_unsigned"},
    "zero": {"reduced": "linalg.quantized* linalg.*_q"},
    "place": {
        "whole": "linalg.conv* linalg.depthwise* linalg.pack linalg.pooling* linalg.unpack "
        "stablehlo.convolution stablehlo.reduce_window tosa.avg_pool2d tosa.conv2d tosa.conv3d "
        "tosa.depthwise_conv2d tosa.max_pool2d"
    },
    "all": {
        "whole": "linalg.softmax stablehlo.batch_norm_* stablehlo.cholesky stablehlo.fft "
        "stablehlo.sort stablehlo.triangular_solve tosa.argmax tosa.fft2d tosa.rfft2d"
    },
    "random": {"whole": "linalg.fill_rng_2d stablehlo.rng stablehlo.rng_bit_generator"},
    "elsewhere": {
        "whole": "stablehlo.reverse stablehlo.select_and_scatter tosa.avg_pool2d_adaptive "
        "tosa.max_pool2d_adaptive tosa.resize tosa.reverse tosa.transpose_conv2d"
    },
    "indices": {
        "whole": "stablehlo.dynamic_slice stablehlo.dynamic_update_slice stablehlo.gather "
        "stablehlo.scatter tensor.extract_slice tensor.insert tensor.insert_slice tensor.reshape "
        "tosa.gather tosa.row_gather tosa.scatter"
    },
    "join": {
        "whole": "linalg.generic linalg.reduce stablehlo.reduce tosa.reduce_max tosa.reduce_min"
    },
    "padding": {"whole": "stablehlo.pad tensor.pad tosa.pad"},
    "bits": {"whole": "stablehlo.bitcast_convert"},
    "devices": {
        "whole": "stablehlo.all_gather stablehlo.all_reduce stablehlo.all_to_all "
        "stablehlo.collective_* stablehlo.cross-replica-sum stablehlo.reduce_scatter"
    },
    "calls": {"whole": "stablehlo.custom_call"},
    "single": {
        "none": "bufferization.to_* ml_program.* tensor.dim tensor.extract tensor.from_elements "
        "tensor.gather tensor.rank tensor.scatter tosa.dim tosa.variable_*"
    },
}
"""For each reason, an anchor of docs/limits.md, where it holds: of which loops of which ops."""


@dataclass
class Cuts:
    """Of one op: how many loops of each kind its samples have, and how many may be uneven."""

    loops: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    uneven: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))

    @property
    def is_split(self) -> bool:
        return any(self.loops.values())

    def cell(self, kind: str) -> str:
        count, uneven = self.loops[kind], self.uneven[kind]
        if not count:
            return ""
        if kind == "whole":
            return "whole"
        return "yes" if uneven == count else "even" if not uneven else "some evenly"


@cache
def cuts_of(op: str) -> Cuts:
    found = Cuts()
    with make_context():
        for number in range(DRAWN):
            sample = SAMPLES[op](Draws(random.Random(f"{op}/{number}")))
            _count(found, op, Source.of(placed(sample)).parse())
    return found


def _count(found: Cuts, op: str, module: ir.Module) -> None:
    made = named(module.operation, op)
    rule = rule_of(made)
    if rule is None:
        return
    windows = {window.factor for window in rule.windows}
    uneven = may_be_uneven(made, rule)
    for factor, size in enumerate(rule.sizes):
        if size > 1:
            is_reduced = factor in rule.reduction_of
            kind = "windows" if factor in windows else "reduced" if is_reduced else "passed"
            kind = "whole" if factor in rule.unsplit else kind
            found.loops[kind] += 1
            found.uneven[kind] += factor in uneven


def reasons_of(op: str, kind: str) -> list[str]:
    """Why not all loops of this kind are split among whatever devices."""
    return [
        reason
        for reason, ops in REASONS.items()
        if any(fnmatch(op, pattern) for pattern in ops.get(kind, "").split())
    ]


def needs_reason(op: str, kind: str) -> bool:
    if kind == "none":
        return not cuts_of(op).is_split
    return cuts_of(op).cell(kind) not in ("", "yes")


def cuts_page(notice: str) -> str:
    """A line for all ops that are cut alike."""
    rows: dict[str, list[str]] = {}
    for op in sorted(SAMPLES):
        rows.setdefault("; ".join(_cells(op)), []).append(op)
    lines = [notice, "", "# How ops are cut", "", _HEAD.strip(), ""]
    rows.pop("passed yes")
    for cells, ops in sorted(rows.items(), key=lambda row: -len(row[1])):
        lines.append(f"* **{cells}**: {' '.join(f'`{op}`' for op in ops)}")
    return "\n".join(lines) + "\n"


def _cells(op: str) -> Iterator[str]:
    if not cuts_of(op).is_split:
        yield _linked("not split", op, "none")
        return
    for kind in KINDS:
        if cuts_of(op).loops[kind]:
            cell = _linked(cuts_of(op).cell(kind), op, kind)
            yield cell if kind == "whole" else f"{kind} {cell}"


def _linked(cell: str, op: str, kind: str) -> str:
    links = [f"[{each}](limits.md#{each})" for each in reasons_of(op, kind)]
    return f"{cell} ({', '.join(links)})" if needs_reason(op, kind) else cell


_HEAD = """
How far each op that has a sharding rule may be split, among any number of devices. A loop of an op
(a factor of its rule) is

* *passed*: it is in the result; on shards the op is the same op;
* *reduced*: devices make parts of the result, sums or maxima, which are joined;
* in *windows*: a device reads around its shard, in halos or messages;
* *whole*: the operands are gathered along it.

`yes` is for shards of equal and of unequal sizes, `even` for equal ones only, `some evenly` depends
on the loop; a link has the reason. All other ops, as elementwise ones, are *passed yes*. The tests
cut the samples of `shard_dialect.testing` in these ways and run them ([testing](testing.md)).
"""
