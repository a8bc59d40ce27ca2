"""Emit elementwise ops: one line each.

The functions that the ops apply are those of `ops.scalar_functions`; a record may have a template
of its own, in which `{0}` is the first operand, and `{m}` the library.

Unsigned integers are numpy's own. torch holds those of more than 8 bits as signed ones of the same
bits (`element_types`), which are ordered as unsigned ones once their first bit is `flipped`.
"""

from __future__ import annotations

from shard_dialect.backends.python.element_types import (
    element_of,
    is_complex,
    is_unsigned,
    unsigned_view,
)
from shard_dialect.backends.python.writer import Writer
from shard_dialect.errors import brief
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.walk import operations
from shard_dialect.ops.op_table import record_of, traits_of
from shard_dialect.ops.scalar_functions import FUNCTIONS, Trait

_UNSIGNED = {
    "max": "unsigned_maximum({0}, {1})",
    "min": "unsigned_minimum({0}, {1})",
    "clamp": "unsigned_minimum(unsigned_maximum({1}, {0}), {2})",
    "quotient": "unsigned_quotient({0}, {1})",
    "rest": "unsigned_rest({0}, {1})",
    "right": "unsigned_right({0}, {1})",
}
"""torch's operations on unsigned integers that it holds as signed ones, where these differ."""

_ON_BITS = ("and", "or", "xor", "not", "select")
"""The ops that are supported on i1: `+`, for one, is not their sum."""
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
    """Write an op that applies a function to each element."""
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
    name = FUNCTIONS[operation].result or operation
    w.define(op.results[0], _text(w, op, operation, element), name)


def function_of(op: ir.Operation) -> str:
    """The name of the function that the op applies to each element; empty for other ops."""
    record = record_of(op)
    return record.function if record else ""


def takes_unsigned(op: ir.Operation) -> bool:
    """Whether the op takes integers of any type for unsigned ones."""
    return Trait.UNSIGNED in traits_of(op.name)


def _operation(op: ir.Operation, element: ir.Type) -> str:
    """The operation on elements of a type."""
    operation = function_of(op)
    if is_complex(element):
        return {"sign": "direction"}.get(operation, operation)
    if isinstance(element, ir.FloatType):
        return operation
    return {"div": "quotient", "remainder": "rest"}.get(operation, operation)


def _text(w: Writer, op: ir.Operation, operation: str, element: ir.Type) -> str:
    """The operation on the operands."""
    if isinstance(element, ir.IndexType) and operation in _ON_ALL_INDICES:
        return _ON_ALL_INDICES[operation][w.is_torch].format(*w.uses(op))
    is_of_unsigned = takes_unsigned(op) or is_unsigned(element)
    if str(element) == "ui8" and w.is_torch and operation in ("quotient", "rest"):
        as_wide = [f"{each}.to(torch.int32)" for each in w.uses(op)]
        wide = w.kept("wide", FUNCTIONS[operation].python.format(*as_wide))
        return w.cast(wide, element, op.location)
    if is_of_unsigned and w.is_torch and str(element) != "ui8" and operation in _UNSIGNED:
        return _UNSIGNED[operation].format(*w.uses(op))
    if is_of_unsigned and not is_unsigned(element) and not isinstance(element, ir.IndexType):
        viewed = [as_unsigned(w, each, element) for each in w.uses(op)]
        text = FUNCTIONS[operation].python.format(*viewed, m=w.module)
        return f"{w.kept('unsigned', text)}.view({w.dtype(element, op.location)})"
    if op.name == "stablehlo.shift_right_arithmetic" and is_unsigned(element):
        raise w.refuse(op, "of unsigned integers")
    function = FUNCTIONS[operation]
    text = function.python_of(w.is_torch)
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


def function(w: Writer, op: ir.Operation, block: ir.Block, preferred: str) -> str:
    """Write the body of an op as a function of tensors, and return its name.

    Raises for a body that does more than to compute each element from one of each argument.
    """
    *inside, last = operations(block)
    for each in inside:
        if Trait.ELEMENTWISE not in traits_of(each.name):
            raise w.refuse(op, f"its body has an '{each.name}' op")
    known = {*block.arguments, *(result for each in inside for result in each.results), *w.literals}
    if any(value not in known for each in (*inside, last) for value in each.operands):
        raise w.refuse(op, "its body reads a tensor around it")
    name = w.names.new(preferred)
    w.called.add(name)
    with w.beside():
        arguments = [
            w.name(each, letter) for each, letter in zip(block.arguments, _LETTERS, strict=False)
        ]
        w.line(f"def {name}({', '.join(arguments)}):")
        with w.indented():
            for each in inside:
                write(w, each)
            w.line(f"return {', '.join(w.uses(last))}")
    return name


_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WITH_MORE = ("linalg.", "tosa.")
"""Their elementwise ops have more operands: destinations, zero points. They are lowered before."""


def has_template(op: ir.Operation, is_torch: bool) -> bool:
    """Whether the function that the op applies to each element has one of the target."""
    function = FUNCTIONS.get(function_of(op))
    if function is None or op.name.startswith(_WITH_MORE):
        return False
    return bool(function.python_of(is_torch))


def write(w: Writer, op: ir.Operation) -> None:
    """Write an op; raises for an op that has no Python."""
    record = record_of(op)
    python = record.python if record else None
    if callable(python):
        python(w, op)
    elif python is not None:
        template = python if isinstance(python, str) else python[w.is_torch]
        shape = tuple(getattr(op.results[0].type, "shape", ()))
        try:
            text = template.format(*w.uses(op), m=w.module, shape=shape)
        except (IndexError, KeyError, ValueError) as error:
            message = f"template '{template}' of '{op.name}' op: {brief(error)}"
            raise error_at(op.location, message) from None
        w.define(op.results[0], text)
    elif has_template(op, w.is_torch):
        simple(w, op)
    else:
        raise w.refuse(op)
