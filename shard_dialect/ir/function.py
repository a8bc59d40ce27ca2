"""Functions as ops: their name, form, and the attributes of their arguments and results."""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.mesh.attributes import FORM
from shard_dialect.ir.mesh.mesh_dialect import is_reshard
from shard_dialect.ir.walk import body, operations

BOUNDARY = ("arg_attrs", "res_attrs")
"""Where a `func.func` keeps the attributes of its arguments, and of its results."""


def name_of(op: ir.Operation) -> str:
    """The name of an op that declares a symbol."""
    return str(op.attributes["sym_name"].value)


def functions_of(module: ir.Operation) -> list[ir.Operation]:
    """The functions with a body."""
    return [
        op
        for op in operations(body(module))
        if op.name == "func.func" and len(op.regions[0].blocks) > 0
    ]


def is_private(function: ir.Operation) -> bool:
    """Whether only functions of its module call it."""
    visibility = function.attributes.get("sym_visibility")
    return visibility is not None and visibility.value == "private"


def boundary(function: ir.Operation, key: str) -> list[dict[str, ir.Attribute]]:
    """The entries of `arg_attrs` or `res_attrs`, to change and give to `set_boundary`."""
    type_ = function.attributes["function_type"].value
    count = len(type_.inputs if key == "arg_attrs" else type_.results)
    if key not in function.attributes:
        return [{} for _ in range(count)]
    entries = function.attributes[key]
    return [{named.name: named.attr for named in entry} for entry in entries]


def set_boundary(function: ir.Operation, key: str, entries: list[dict[str, ir.Attribute]]) -> None:
    if any(entries):
        function.attributes[key] = ir.ArrayAttr.get([ir.DictAttr.get(entry) for entry in entries])
    elif key in function.attributes:
        del function.attributes[key]


def drop_from_boundary(function: ir.Operation, prefix: str) -> None:
    """Drop the attributes whose name begins with `prefix` from all arguments and results."""
    for key in BOUNDARY:
        kept = [
            {name: each for name, each in entry.items() if not name.startswith(prefix)}
            for entry in boundary(function, key)
        ]
        set_boundary(function, key, kept)


def returns_of(function: ir.Operation) -> list[ir.Operation]:
    """Where the function returns: in one place, or at the end of several blocks."""
    ends = [op for block in function.regions[0].blocks for op in operations(block)[-1:]]
    return [op for op in ends if op.name == "func.return"]


def update_type(function: ir.Operation) -> None:
    """Make the function's type that of its block's arguments and its return's operands."""
    inputs = [argument.type for argument in body(function).arguments]
    results = function.attributes["function_type"].value.results
    for op in returns_of(function)[:1]:
        results = [operand.type for operand in op.operands]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))


def form_of(function: ir.Operation) -> str:
    """The form that a function is in: by its `mesh.form`, else by what is in it.

    A function without `mesh.form` that holds `mesh` collectives was written in the distributed
    form; the types of any other one are annotations.
    """
    if FORM in function.attributes:
        return str(function.attributes[FORM].value)
    for block in function.regions[0].blocks:  # none, if it is declared only
        if any(is_reshard(op) for op in operations(block)):
            return "distributed"
    return "annotated"


def set_form(function: ir.Operation, form: str) -> None:
    function.attributes[FORM] = ir.StringAttr.get(form)


def refuse_form(function: ir.Operation, soft_constraint: str) -> Exception:
    """The error for a function in a form that a pass does not take."""
    return error_at(
        function.location,
        f"function @{name_of(function)} is in the {form_of(function)} form{soft_constraint}",
    )
