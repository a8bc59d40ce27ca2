"""Decompose the composite ops of linalg, which upstream cannot lower to loops directly.

    linalg.softmax      a maximum, exponentials, their sum, a quotient
    linalg.pack         tensor.pad, tensor.expand_shape, linalg.transpose

Upstream has these decompositions as transforms only, so a schedule in the transform dialect applies
them.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir, submodule
from shard_dialect.ir.walk import operations, walk

_PACK_RESULTS = ("tensor.pad", "tensor.expand_shape", "linalg.transpose")
_UNPACK_RESULTS = (
    "tensor.empty",
    "linalg.transpose",
    "tensor.collapse_shape",
    "tensor.extract_slice",
    "linalg.copy",
)
_TRANSFORMS = {
    "linalg.softmax": ("decompose_interface", ()),
    "linalg.pack": ("lower_pack", _PACK_RESULTS),
    "linalg.unpack": ("lower_unpack", _UNPACK_RESULTS),
    "linalg.winograd_filter_transform": ("decompose_winograd_op", ()),
    "linalg.winograd_input_transform": ("decompose_winograd_op", ()),
    "linalg.winograd_output_transform": ("decompose_winograd_op", ()),
}
"""The transform for each op, and the ops that it returns handles of, if several."""


def decompose_linalg(module: ir.Operation) -> None:
    """Replace the ops of the table by their decompositions."""
    names = sorted({op.name for op in walk(module)} & set(_TRANSFORMS))
    if not names:
        return
    schedule = ir.Module.parse(_schedule(names))
    sequence = operations(schedule.body)[0]
    submodule("dialects.transform.interpreter").apply_named_sequence(module, sequence, schedule)


def _schedule(names: list[str]) -> str:
    return f"""
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%module: !transform.any_op) {{
    {"".join(map(_step, names))}
    transform.yield
  }}
}}"""


def _step(name: str) -> str:
    transform, result_ops = _TRANSFORMS[name]
    types = ", ".join(f'!transform.op<"{each}">' for each in result_ops) or "!transform.any_op"
    of, handle = f'!transform.op<"{name}">', f"%{name.replace('.', '_')}"
    return f"""
    {handle} = transform.structured.match ops{{["{name}"]}} in %module
      : (!transform.any_op) -> {of}
    transform.foreach {handle} : {of} {{
    ^bb0(%each: {of}):
      %made:{len(result_ops) or 1} = transform.structured.{transform} %each : ({of}) -> ({types})
    }}"""
