"""Emit elementwise ops: one line each.

In the templates `{0}` is the first operand. Where numpy and torch differ, numpy's is first.
"""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.emit.writer import Writer
from shard_dialect.ir.bindings import ir

_SAME = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "xor": "{0} ^ {1}",
    "max": "{m}.maximum({0}, {1})",
    "min": "{m}.minimum({0}, {1})",
    "maxnum": "{m}.fmax({0}, {1})",
    "minnum": "{m}.fmin({0}, {1})",
    "remainder": "{m}.fmod({0}, {1})",
    "select": "{m}.where({0}, {1}, {2})",
    "fma": "{0} * {1} + {2}",
    "exp": "{m}.exp({0})",
    "exp2": "{m}.exp2({0})",
    "expm1": "{m}.expm1({0})",
    "log": "{m}.log({0})",
    "log2": "{m}.log2({0})",
    "log1p": "{m}.log1p({0})",
    "sin": "{m}.sin({0})",
    "cos": "{m}.cos({0})",
    "tan": "{m}.tan({0})",
    "tanh": "{m}.tanh({0})",
    "sqrt": "{m}.sqrt({0})",
    "abs": "{m}.abs({0})",
    "floor": "{m}.floor({0})",
    "ceil": "{m}.ceil({0})",
    "isfinite": "{m}.isfinite({0})",
    "not": "~{0}",
}
_DIFFERENT = {
    "sign": (
        "np.sign({0})",
        "torch.where(torch.isnan({0}), {0}, torch.sign({0}))",  # torch gives 0 for a NaN
    ),
    "rsqrt": ("1 / np.sqrt({0})", "torch.rsqrt({0})"),
    "logistic": ("1 / (1 + np.exp(-{0}))", "torch.sigmoid({0})"),
    "power": ("np.power({0}, {1})", "torch.pow({0}, {1})"),
    "atan2": ("np.arctan2({0}, {1})", "torch.atan2({0}, {1})"),
    "even": ("np.rint({0})", "torch.round({0})"),
    "clamp": ("np.clip({1}, {0}, {2})", "torch.clamp({1}, {0}, {2})"),
    "quotient": (
        "({0} - np.fmod({0}, {1})) // {1}",
        'torch.div({0}, {1}, rounding_mode="trunc")',
    ),
}

_FLOAT = "add sub mul div neg"
OPS: dict[str, str] = {
    **{f"arith.{name}f": name for name in _FLOAT.split()},
    **{f"arith.{name}i": name for name in ("add", "sub", "mul", "and", "or", "xor")},
    "arith.maximumf": "max",
    "arith.minimumf": "min",
    "arith.maxnumf": "maxnum",
    "arith.minnumf": "minnum",
    "arith.maxsi": "max",
    "arith.minsi": "min",
    "arith.remf": "remainder",
    "arith.remsi": "remainder",
    "arith.divsi": "quotient",
    "arith.select": "select",
    **{
        f"math.{name}": name
        for name in "exp exp2 expm1 log log2 log1p sin cos tan tanh sqrt rsqrt floor ceil fma "
        "atan2".split()
    },
    "math.absf": "abs",
    "math.absi": "abs",
    "math.powf": "power",
    "math.roundeven": "even",
    **{f"stablehlo.{name}": name for name in "and or xor not select sqrt rsqrt tanh tan".split()},
    **{f"stablehlo.{name}": name for name in "abs floor ceil sign power atan2 clamp".split()},
    "stablehlo.add": "add",
    "stablehlo.subtract": "sub",
    "stablehlo.multiply": "mul",
    "stablehlo.divide": "div",
    "stablehlo.remainder": "remainder",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
    "stablehlo.negate": "neg",
    "stablehlo.exponential": "exp",
    "stablehlo.exponential_minus_one": "expm1",
    "stablehlo.log": "log",
    "stablehlo.log_plus_one": "log1p",
    "stablehlo.logistic": "logistic",
    "stablehlo.sine": "sin",
    "stablehlo.cosine": "cos",
    "stablehlo.is_finite": "isfinite",
    "stablehlo.round_nearest_even": "even",
}
"""The operation for each op."""
_ON_BITS = ("and", "or", "xor", "not", "select")
"""The ops that are supported on i1: `+`, for one, is not their sum."""
_NAMES = {
    "add": "added",
    "sub": "difference",
    "mul": "scaled",
    "div": "ratio",
    "quotient": "ratio",
    "neg": "negated",
    "and": "both",
    "or": "either",
    "xor": "differing",
    "not": "negated",
    "max": "larger",
    "min": "smaller",
    "select": "selected",
    "abs": "magnitude",
    "even": "rounded",
}
"""The names of results, where they differ from the operation's."""
_ON_INDICES = {
    "max": "max({0}, {1})",
    "min": "min({0}, {1})",
    "quotient": "int({0} / {1})",
    "remainder": "{0} - int({0} / {1}) * {1}",
}
"""The operations on indices, which are Python's integers."""
_CASTS = (
    "arith.extf arith.truncf arith.sitofp arith.fptosi arith.extsi arith.extui arith.trunci "
    "arith.uitofp stablehlo.convert"
).split()
_FLOAT_ORDER = {1: "==", 2: ">", 3: ">=", 4: "<", 5: "<=", 13: "!="}
_INTEGER_ORDER = {0: "==", 1: "!=", 2: "<", 3: "<=", 4: ">", 5: ">="}
_DIRECTIONS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}


def element_of(type_: ir.Type) -> ir.Type:
    """The element type of a tensor, or the type itself."""
    return type_.element_type if isinstance(type_, ir.ShapedType) else type_


def simple(w: Writer, op: ir.Operation) -> None:
    """Write an op that is in the tables."""
    operation = OPS[op.name]
    element = str(element_of(op.operands[-1].type))
    if element == "i1" and operation not in _ON_BITS:
        raise w.refuse(op, "of elements of type i1")
    if operation == "div" and element[0] == "i":
        operation = "quotient"
    if operation == "select" and not isinstance(op.operands[0].type, ir.ShapedType):
        condition, if_true, if_false = w.uses(op)
        w.define(op.results[0], f"{if_true} if {condition} else {if_false}", "selected")
        return
    if operation == "abs" and not isinstance(op.operands[0].type, ir.ShapedType):
        w.define(op.results[0], f"abs({w.use(op.operands[0])})", "magnitude")
        return
    if isinstance(op.operands[0].type, ir.IndexType) and operation in _ON_INDICES:
        are_full = [each in w.extents for each in op.operands]
        if not any(are_full):
            w.define(op.results[0], _ON_INDICES[operation].format(*w.uses(op)), "index")
            return
        if w.is_torch and operation in ("max", "min") and not all(are_full):
            raise w.refuse(op, "of one index and of many")
    text = _SAME.get(operation) or _DIFFERENT[operation][w.is_torch]
    name = _NAMES.get(operation, operation)
    operands = _operands(w, op, is_operator=text.startswith("{0} ") or not w.is_torch)
    w.define(op.results[0], text.format(*operands, m=w.module), name)


def _operands(w: Writer, op: ir.Operation, *, is_operator: bool) -> list[str]:
    """The operands as text; of two, a splat is written as its number."""
    numbers = [each in w.literals for each in op.operands]
    shapes = {str(each.type) for each in op.operands}
    is_number = len(numbers) == 2 and sum(numbers) == 1 and len(shapes) == 1
    if is_number and is_operator and "i1" not in str(element_of(op.operands[0].type)):
        return [w.literals.get(each) or w.use(each) for each in op.operands]
    return w.uses(op)


def cast(w: Writer, op: ir.Operation) -> None:
    """Write a conversion of elements."""
    x = op.operands[0]
    source, target = element_of(x.type), element_of(op.results[0].type)
    is_bit = str(source) == "i1"
    if str(target) == "i1" and str(source) != "i1" and op.name.startswith("arith."):
        raise w.refuse(op, "to elements of type i1")
    if is_bit != (op.name in ("arith.extui", "arith.uitofp")) and op.name.startswith("arith."):
        raise w.refuse(op, f"of elements of type {source}")
    if w.is_python(x.type) and x not in w.extents:
        text = w.scalar(w.use(x), target, op.location)
    else:
        text = w.cast(w.use(x), target, op.location)
    w.define(op.results[0], text, "cast")


def compare(w: Writer, op: ir.Operation) -> None:
    """Write a comparison."""
    if op.name == "stablehlo.compare":
        direction = str(op.attributes["comparison_direction"]).split()[-1].rstrip(">")
        order: str | None = _DIRECTIONS[direction]
        if "compare_type" in op.attributes and "TOTAL" in str(op.attributes["compare_type"]):
            order = None
    elif str(element_of(op.operands[0].type)) == "i1":
        order = {0: "==", 1: "!="}.get(op.attributes["predicate"].value)  # its one is -1
    else:
        table = _FLOAT_ORDER if op.name == "arith.cmpf" else _INTEGER_ORDER
        order = table.get(op.attributes["predicate"].value)
    if order is None:
        raise w.refuse(op, "unsigned, of bits, or with a meaning for what is no number")
    a, b = _operands(w, op, is_operator=True)
    w.define(op.results[0], f"{a} {order} {b}", "compared")


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
    **dict.fromkeys(OPS, simple),
    **dict.fromkeys(_CASTS, cast),
    "arith.cmpf": compare,
    "arith.cmpi": compare,
    "stablehlo.compare": compare,
    "arith.index_cast": index_cast,
}
