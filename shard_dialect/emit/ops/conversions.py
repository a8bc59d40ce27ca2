"""Emit conversions of elements, and comparisons."""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.emit.element_types import (
    element_of,
    is_complex,
    is_flipped,
    is_unsigned,
    unsigned_view,
)
from shard_dialect.emit.ops.elementwise import as_unsigned, operands_of
from shard_dialect.emit.writer import Writer
from shard_dialect.ir.bindings import ir

_CASTS = (
    "arith.extf arith.truncf arith.sitofp arith.fptosi arith.extsi arith.extui arith.trunci "
    "arith.uitofp arith.fptoui stablehlo.convert"
).split()
_FLOAT_ORDER = {1: "==", 2: ">", 3: ">=", 4: "<", 5: "<=", 13: "!="}
_INTEGER_ORDER = {0: "==", 1: "!=", 2: "<", 3: "<=", 4: ">", 5: ">="}
_INTEGER_ORDER |= {6: "<", 7: "<=", 8: ">", 9: ">="}
_LAST_SIGNED = 5
"""The last predicate of signed integers; those of unsigned ones follow."""
_DIRECTIONS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}


def cast(w: Writer, op: ir.Operation) -> None:
    """Write a conversion of elements."""
    x = op.operands[0]
    source, target = element_of(x.type), element_of(op.results[0].type)
    is_bit = str(source) == "i1"
    is_of_arith = op.name.startswith("arith.")
    if is_of_arith and is_bit and op.name not in ("arith.extui", "arith.uitofp"):
        raise w.refuse(op, f"of elements of type {source}")
    if is_of_arith and str(target) == "i1" and not isinstance(source, ir.IntegerType):
        raise w.refuse(op, "to elements of type i1")
    text = w.use(x)
    if w.is_python(x.type) and x not in w.extents:
        text = w.scalar(text, target, op.location)
    elif op.name == "arith.trunci" and str(target) == "i1":
        text = f"{text} & 1 != 0"
    else:
        is_unsigned_op = op.name in ("arith.extui", "arith.uitofp") and not is_bit
        text = converted(w, text, source, target, op, is_unsigned_op=is_unsigned_op)
        if op.name == "arith.fptoui" and not w.is_torch:
            text = f"{w.kept('unsigned', text)}.view({w.dtype(target, op.location)})"
    w.define(op.results[0], text, "cast")


def converted(
    w: Writer, x: str, source: ir.Type, target: ir.Type, op: ir.Operation, *, is_unsigned_op: bool
) -> str:
    """The elements `x` of type `source` as those of type `target`."""
    if is_complex(source) and not is_complex(target):
        return w.cast(f"{x}.real", target, op.location)
    from_unsigned = is_unsigned_op or is_flipped(source)
    to_unsigned = op.name == "arith.fptoui" or is_flipped(target)
    if not w.is_torch:
        x = as_unsigned(w, x, source) if is_unsigned_op else x
        if op.name == "arith.fptoui":
            return f"{x}.astype({unsigned_view(target)})"
        return w.cast(x, target, op.location)
    dtype = w.dtype(target, op.location)
    if from_unsigned and str(target) != "i1":
        return f"from_unsigned({x}, {dtype})"
    if to_unsigned and isinstance(source, ir.FloatType):
        return f"to_unsigned({x}, {dtype})"
    return w.cast(x, target, op.location)


def compare(w: Writer, op: ir.Operation) -> None:
    """Write a comparison."""
    element = element_of(op.operands[0].type)
    as_if_unsigned = is_unsigned(element)
    if op.name == "stablehlo.compare":
        direction = str(op.attributes["comparison_direction"]).split()[-1].rstrip(">")
        order: str | None = _DIRECTIONS[direction]
        kind = str(op.attributes["compare_type"]) if "compare_type" in op.attributes else ""
        if "TOTAL" in kind:
            order = None
        as_if_unsigned |= "UNSIGNED" in kind and str(element) != "i1"
    elif str(element) == "i1":
        order = {0: "==", 1: "!="}.get(op.attributes["predicate"].value)  # its one is -1
    else:
        table = _FLOAT_ORDER if op.name == "arith.cmpf" else _INTEGER_ORDER
        predicate = op.attributes["predicate"].value
        as_if_unsigned |= op.name == "arith.cmpi" and predicate > _LAST_SIGNED
        order = table.get(predicate)
    if order is None:
        raise w.refuse(op, "of bits, or with a meaning for what is no number")
    is_signless = not is_unsigned(element)
    a, b = operands_of(w, op, is_operator=True)
    if as_if_unsigned and order not in ("==", "!=") and not isinstance(element, ir.IndexType):
        if w.is_torch and str(element) != "ui8":
            a, b = (f"flipped({each})" for each in w.uses(op))
        elif is_signless:
            a, b = (as_unsigned(w, each, element) for each in w.uses(op))
    w.define(op.results[0], f"{a} {order} {b}", "compared")


def equal(w: Writer, op: ir.Operation) -> None:
    """Write whether complex numbers are equal, or are not."""
    a, b = w.uses(op)
    w.define(op.results[0], f"{a} {'==' if op.name == 'complex.eq' else '!='} {b}", "compared")


def index_cast(w: Writer, op: ir.Operation) -> None:
    """Write a conversion between indices and integers."""
    (x,) = w.uses(op)
    if isinstance(op.results[0].type, ir.IndexType):
        w.define(op.results[0], f"int({x})", "index")
    elif isinstance(op.results[0].type, ir.ShapedType):
        w.define(op.results[0], w.cast(x, element_of(op.results[0].type), op.location), "cast")
    else:
        w.define(op.results[0], w.scalar(x, op.results[0].type, op.location), "number")


TABLE: dict[str, Callable[[Writer, ir.Operation], None]] = {
    **dict.fromkeys(_CASTS, cast),
    "arith.cmpf": compare,
    "arith.cmpi": compare,
    "arith.index_cast": index_cast,
    "complex.eq": equal,
    "complex.neq": equal,
    "stablehlo.compare": compare,
}
