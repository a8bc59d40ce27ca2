"""Emit elementwise ops: one line each.

In the templates `{0}` is the first operand. Where numpy and torch differ, numpy's is first.

Unsigned integers are numpy's own. torch holds those of more than 8 bits as signed ones of the same
bits (`element_types`), which are ordered as unsigned ones once their first bit is `flipped`.
"""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.emit.element_types import element_of, is_complex, is_unsigned, unsigned_view
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
    "isnan": "{m}.isnan({0})",
    "not": "~{0}",
    "quotient": "quotient({0}, {1})",
    "rest": "rest({0}, {1})",
    "left": "{0} << {1}",
    "right": "{0} >> {1}",
    "log10": "{m}.log10({0})",
    "sinh": "{m}.sinh({0})",
    "cosh": "{m}.cosh({0})",
    "copysign": "{m}.copysign({0}, {1})",
    "trunc": "{m}.trunc({0})",
    "real": "{m}.real({0})",
    "imag": "{m}.imag({0})",
}
_DIFFERENT = {
    "sign": (
        "np.sign({0})",
        "torch.where(torch.isnan({0}), {0}, torch.sign({0}))",  # torch gives 0 for a NaN
    ),
    "direction": ("np.sign({0})", "torch.sgn({0})"),
    "rsqrt": ("1 / np.sqrt({0})", "torch.rsqrt({0})"),
    "logistic": ("1 / (1 + np.exp(-{0}))", "torch.sigmoid({0})"),
    "power": ("np.power({0}, {1})", "torch.pow({0}, {1})"),
    "atan2": ("np.arctan2({0}, {1})", "torch.atan2({0}, {1})"),
    "even": ("np.rint({0})", "torch.round({0})"),
    "clamp": ("np.minimum(np.maximum({1}, {0}), {2})", "torch.clamp({1}, {0}, {2})"),
    "complex": ("{0} + 1j * {1}", "torch.complex({0}, {1})"),
    "conj": ("np.conj({0})", "torch.conj_physical({0})"),
    **{
        name: (f"np.{numpy}({{0}})", f"torch.{name}({{0}})")
        for name, numpy in {
            "asin": "arcsin",
            "acos": "arccos",
            "atan": "arctan",
            "asinh": "arcsinh",
            "acosh": "arccosh",
            "atanh": "arctanh",
        }.items()
    },
}
_UNSIGNED = {
    "max": "unsigned_maximum({0}, {1})",
    "min": "unsigned_minimum({0}, {1})",
    "clamp": "unsigned_minimum(unsigned_maximum({1}, {0}), {2})",
    "quotient": "unsigned_quotient({0}, {1})",
    "rest": "unsigned_rest({0}, {1})",
    "right": "unsigned_right({0}, {1})",
}
"""torch's operations on unsigned integers that it holds as signed ones, where these differ."""

_FLOAT = "add sub mul div neg"
AS_UNSIGNED = {
    "arith.divui": "quotient",
    "arith.maxui": "max",
    "arith.minui": "min",
    "arith.remui": "rest",
    "arith.shrui": "right",
    "stablehlo.shift_right_logical": "right",
}
"""Ops that take integers of any type for unsigned ones."""
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
    "arith.remsi": "rest",
    "arith.divsi": "quotient",
    "arith.shli": "left",
    "arith.shrsi": "right",
    **AS_UNSIGNED,
    "arith.select": "select",
    **{
        f"math.{name}": name
        for name in "exp exp2 expm1 log log2 log1p log10 sin cos tan tanh sinh cosh asin acos atan "
        "asinh acosh atanh sqrt rsqrt floor ceil trunc fma atan2 copysign isfinite isnan".split()
    },
    **{
        f"complex.{name}": name
        for name in "add sub mul div neg exp log sqrt rsqrt sin cos tanh abs conj".split()
    },
    "complex.create": "complex",
    "complex.re": "real",
    "complex.im": "imag",
    "complex.sign": "direction",
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
    "stablehlo.shift_left": "left",
    "stablehlo.shift_right_arithmetic": "right",
    "stablehlo.complex": "complex",
    "stablehlo.real": "real",
    "stablehlo.imag": "imag",
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
    "left": "shifted",
    "right": "shifted",
    "complex": "numbers",
    "real": "real_part",
    "imag": "imaginary_part",
    "conj": "conjugated",
}
"""The names of results, where they differ from the operation's."""
_ON_INDICES = {
    "max": "max({0}, {1})",
    "min": "min({0}, {1})",
    "quotient": "int({0} / {1})",
    "rest": "{0} - int({0} / {1}) * {1}",
}
"""The operations on indices, which are Python's integers."""
_ON_ALL_INDICES = {
    "quotient": ("({0} - np.fmod({0}, {1})) // {1}", 'torch.div({0}, {1}, rounding_mode="trunc")'),
    "rest": ("np.fmod({0}, {1})", "torch.fmod({0}, {1})"),
}
"""Those on a tensor of indices and a number."""


def simple(w: Writer, op: ir.Operation) -> None:
    """Write an op that is in the tables."""
    element = element_of(op.operands[-1].type)
    operation = _operation(op, element)
    if str(element) == "i1" and operation not in _ON_BITS:
        raise w.refuse(op, "of elements of type i1")
    if operation == "select" and not isinstance(op.operands[0].type, ir.ShapedType):
        condition, if_true, if_false = w.uses(op)
        w.define(op.results[0], f"{if_true} if {condition} else {if_false}", "selected")
        return
    if isinstance(op.operands[0].type, ir.IndexType) and operation in _ON_INDICES:
        are_full = [each in w.extents for each in op.operands]
        if not any(are_full):
            w.define(op.results[0], _ON_INDICES[operation].format(*w.uses(op)), "index")
            return
        if w.is_torch and operation in ("max", "min") and not all(are_full):
            raise w.refuse(op, "of one index and of many")
    name = _NAMES.get(operation, operation)
    w.define(op.results[0], _text(w, op, operation, element), name)


def _operation(op: ir.Operation, element: ir.Type) -> str:
    """The operation on elements of a type."""
    operation = OPS[op.name]
    if is_complex(element):
        return {"sign": "direction"}.get(operation, operation)
    if isinstance(element, ir.FloatType):
        return operation
    return {"div": "quotient", "remainder": "rest"}.get(operation, operation)


def _text(w: Writer, op: ir.Operation, operation: str, element: ir.Type) -> str:
    """The operation on the operands."""
    if isinstance(element, ir.IndexType) and operation in _ON_ALL_INDICES:
        return _ON_ALL_INDICES[operation][w.is_torch].format(*w.uses(op))
    takes_unsigned = op.name in AS_UNSIGNED or is_unsigned(element)
    if str(element) == "ui8" and w.is_torch and operation in ("quotient", "rest"):
        as_wide = [f"{each}.to(torch.int32)" for each in w.uses(op)]
        return w.cast(w.kept("wide", _SAME[operation].format(*as_wide)), element, op.location)
    if takes_unsigned and w.is_torch and str(element) != "ui8" and operation in _UNSIGNED:
        return _UNSIGNED[operation].format(*w.uses(op))
    if takes_unsigned and not is_unsigned(element) and not isinstance(element, ir.IndexType):
        viewed = [as_unsigned(w, each, element) for each in w.uses(op)]
        text = (_SAME.get(operation) or _DIFFERENT[operation][0]).format(*viewed, m=w.module)
        return f"{w.kept('unsigned', text)}.view({w.dtype(element, op.location)})"
    if op.name == "stablehlo.shift_right_arithmetic" and is_unsigned(element):
        raise w.refuse(op, "of unsigned integers")
    text = _SAME.get(operation) or _DIFFERENT[operation][w.is_torch]
    operands = operands_of(w, op, is_operator=text.startswith("{0} ") or not w.is_torch)
    if not w.is_torch and operation == "complex":  # numpy's 1j is wide, or narrow
        wide = w.kept("wide", text.format(*operands))
        return w.cast(wide, element_of(op.results[0].type), op.location)
    return text.format(*operands, m=w.module)


def as_unsigned(w: Writer, x: str, element: ir.Type) -> str:
    """Numpy's signless integers as unsigned ones."""
    return f"{x}.view({unsigned_view(element)})"


def operands_of(w: Writer, op: ir.Operation, *, is_operator: bool) -> list[str]:
    """The operands as text; of two, a splat is written as its number."""
    numbers = [each in w.literals for each in op.operands]
    shapes = {str(each.type) for each in op.operands}
    is_number = len(numbers) == 2 and sum(numbers) == 1 and len(shapes) == 1
    element = element_of(op.operands[0].type)
    if is_number and is_operator and str(element) != "i1" and w.has_literals(element):
        return [w.literals.get(each) or w.use(each) for each in op.operands]
    return w.uses(op)


TABLE: dict[str, Callable[[Writer, ir.Operation], None]] = dict.fromkeys(OPS, simple)
