"""Functions as ops: their name, form, and the attributes of their arguments and results."""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.mesh.attributes import FORM
from shard_dialect.ir.mesh.mesh_dialect import is_reshard, permutes_shards
from shard_dialect.ir.walk import body, operations

BOUNDARY = ("arg_attrs", "res_attrs")
"""The attributes of a `func.func` that hold the attributes of its arguments and results."""


def name_of(op: ir.Operation) -> str:
    """The name of an op that declares a symbol."""
    return str(op.attributes["sym_name"].value)


def functions_of(module: ir.Operation) -> list[ir.Operation]:
    """The functions of the module that have a body."""
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
    """A copy of the entries of `arg_attrs` or `res_attrs`, one for each argument or result."""
    type_ = function.attributes["function_type"].value
    count = len(type_.inputs if key == "arg_attrs" else type_.results)
    if key not in function.attributes:
        return [{} for _ in range(count)]
    entries = function.attributes[key]
    return [{named.name: named.attr for named in entry} for entry in entries]


def set_boundary(function: ir.Operation, key: str, entries: list[dict[str, ir.Attribute]]) -> None:
    """Set `arg_attrs` or `res_attrs`; remove it if all entries are empty."""
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
    """The function's `func.return` ops: one, or several at the ends of blocks."""
    ends = [op for block in function.regions[0].blocks for op in operations(block)[-1:]]
    return [op for op in ends if op.name == "func.return"]


def update_type(function: ir.Operation) -> None:
    """Set the function's type from the arguments of its block and the operands of its return."""
    inputs = [argument.type for argument in body(function).arguments]
    results = function.attributes["function_type"].value.results
    for op in returns_of(function)[:1]:
        results = [operand.type for operand in op.operands]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))


def form_of(function: ir.Operation) -> str:
    """The form of a function: its `mesh.form`, or else what its ops show.

    A function without `mesh.form` is in the distributed form if it has `mesh` collectives, else in
    the annotated form.
    """
    if FORM in function.attributes:
        return str(function.attributes[FORM].value)
    for block in function.regions[0].blocks:  # none, if it is declared only
        if any(is_reshard(op) or permutes_shards(op) for op in operations(block)):
            return "distributed"
    return "annotated"


def set_form(function: ir.Operation, form: str) -> None:
    """Set the function's `mesh.form`."""
    function.attributes[FORM] = ir.StringAttr.get(form)


def refuse_form(function: ir.Operation, advice: str) -> Exception:
    """The error for a function in a form that a pass does not accept."""
    return error_at(
        function.location,
        f"function @{name_of(function)} is in the {form_of(function)} form{advice}",
    )
