"""Functions as ops: their name, form, and the attributes of their arguments and results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from shard_dialect.errors import as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at, name_in, names_in, note_at, place_in
from shard_dialect.ir.mesh.attributes import DEVICE, FORM, PROPAGATED, drop_attributes
from shard_dialect.ir.mesh.mesh_dialect import COLLECTIVES, is_reshard, permutes_shards
from shard_dialect.ir.walk import body, operations, walk

BOUNDARY = ("arg_attrs", "res_attrs")
"""The attributes of a `func.func` that hold the attributes of its arguments and results."""
ALIAS, DONOR = "tf.aliasing_output", "jax.buffer_donor"
"""JAX's attributes of donated arguments: which result takes the memory, or that any may."""


def numbered_names(own: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """The names of each argument: by its number, then its own ones that no other has.

    >>> numbered_names([("x",), (), ("y", "x")])
    [('arg0',), ('arg1',), ('arg2', 'y')]
    """
    named = [(f"arg{number}", *dict.fromkeys(names)) for number, names in enumerate(own)]
    counts = Counter(chain.from_iterable(named))
    return [(first, *(each for each in rest if counts[each] == 1)) for first, *rest in named]


def argument_names(handle: ir.Operation) -> list[tuple[str, ...]]:
    """The names in files of each argument of a function, by `numbered_names`."""
    return numbered_names([[*names_in(each.location)] for each in body(handle).arguments])


def argument_text(handle: ir.Operation, number: int) -> str:
    """An argument of a function in a sentence: by its name, if it has one, or its number."""
    name = name_in(body(handle).arguments[number].location)
    return f"argument {name or number} of {as_symbol(name_of(handle))}"


def location_of_argument(handle: ir.Operation, argument: ir.Value) -> ir.Location:
    """Where an argument of a function is declared; the function's place where that is not known."""
    return argument.location if place_in(argument.location) else handle.location


def name_of(op: ir.Operation) -> str:
    """The name of an op that declares a symbol."""
    return str(op.attributes["sym_name"].value)


def symbols_in(op: ir.Operation) -> set[str]:
    """The symbols that an op and those in it name: in calls, and lists of custom calls, say."""
    return {
        name
        for each in (op, *walk(op))
        for key in each.attributes
        for name in _symbols(each.attributes[key])
    }


def _symbols(attribute: ir.Attribute) -> Iterator[str]:
    if isinstance(attribute, ir.FlatSymbolRefAttr):
        yield attribute.value
    elif isinstance(attribute, ir.DictAttr):
        for each in attribute:
            yield from _symbols(each.attr)
    elif isinstance(attribute, ir.ArrayAttr):
        for inner in attribute:
            yield from _symbols(inner)


def rename_symbols(module: ir.Operation, renamed: Mapping[str, str]) -> None:
    """Let the ops of a module name symbols by the names that these have now."""
    for op in walk(module):
        for key in op.attributes:
            named = op.attributes[key]
            if isinstance(named, ir.FlatSymbolRefAttr) and named.value in renamed:
                op.attributes[key] = ir.FlatSymbolRefAttr.get(renamed[named.value])


def has_programs_of_devices(module: ir.Operation) -> bool:
    """Whether a function of the module is the program of one device of several."""
    return any(DEVICE in function.attributes for function in functions_of(module))


def refuse_program_of_device(function: ir.Operation, why: str) -> None:
    """Raise an error with `why` if the function is the program of one device of several."""
    if DEVICE in function.attributes:
        what = f"{as_symbol(name_of(function))} is the program of one device"
        raise error_at(function.location, f"{what}: {why}")


def functions_of(module: ir.Operation, *forms: str) -> list[ir.Operation]:
    """The functions of the module that have a body; only those in one of the forms, if any."""
    found = operations(body(module))
    functions = [op for op in found if op.name == "func.func" and len(op.regions[0].blocks) > 0]
    return [op for op in functions if form_of(op) in forms] if forms else functions


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
    else:
        drop_attributes(function, key)


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
    """The form of a function: the one that is recorded, or else the one inferred from its ops.

    A function of which none is recorded is in the distributed form if it has `mesh` collectives,
    else in the annotated form.
    """
    recorded = recorded_form(function)
    if recorded is not None:
        return recorded
    return "annotated" if _collective_in(function) is None else "distributed"


def recorded_form(function: ir.Operation) -> str | None:
    """The form that a function's attributes name; cheap, as no op is read."""
    if PROPAGATED in function.attributes:
        return PROPAGATED
    return str(function.attributes[FORM].value) if FORM in function.attributes else None


def _collective_in(function: ir.Operation) -> ir.Operation | None:
    """The first op of a function that only the distributed form has."""
    for block in function.regions[0].blocks:  # none, if it is declared only
        for op in operations(block):
            if op.name in COLLECTIVES and (is_reshard(op) or permutes_shards(op)):
                return op
    return None


def record_forms(module: ir.Operation) -> None:
    """Record which functions are in the distributed form, before a pass folds the ops that show it.

    Raises a located `ShardError` where annotations and collectives are mixed, or a form is written
    down that the ops contradict.
    """
    for function in functions_of(module):
        recorded = recorded_form(function)
        if recorded not in (None, "propagated"):
            continue
        collective = _collective_in(function)
        if collective is None:
            continue
        if recorded is not None:
            raise error_at(
                collective.location,
                f"'{collective.name}' op is of the distributed form, and function "
                f"{as_symbol(name_of(function))} says that it is {recorded}: remove the op, "
                "or the attribute",
            )
        for op in operations(collective.block):
            if op.name in _ANNOTATIONS:
                raise error_at(
                    op.location,
                    f"'{op.name}' op is of the annotated form, and function "
                    f"{as_symbol(name_of(function))} "
                    f"has '{collective.name}', of the distributed form: use one of the two",
                    note_at(collective.location, f"the '{collective.name}' op"),
                )
        set_form(function, "distributed")


_ANNOTATIONS = (
    "mesh.annotate",
    "mesh.reshard",
    "shard.shard",
    "sdy.reshard",
    "sdy.sharding_constraint",
)


def set_form(function: ir.Operation, form: str) -> None:
    """Record the function's form: the propagated one in a word of no dialect.

    Who writes `shard` or `sdy` reads it between passes.
    """
    forget_form(function)
    if form == PROPAGATED:
        function.attributes[PROPAGATED] = ir.UnitAttr.get()
    else:
        function.attributes[FORM] = ir.StringAttr.get(form)


def forget_form(function: ir.Operation) -> None:
    """Let the form of a function be the one that its ops show."""
    drop_attributes(function, FORM, PROPAGATED)


def refuse_form(function: ir.Operation, advice: str) -> Exception:
    """The error for a function in a form that a pass does not accept."""
    return error_at(
        function.location,
        f"function {as_symbol(name_of(function))} is in the {form_of(function)} form{advice}",
    )
