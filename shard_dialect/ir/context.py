"""Contexts in which `shard` and `mesh` are parsed, and dialects that users register."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from shard_dialect.errors import FAILURES, ShardError, brief, raised_in
from shard_dialect.ir.bindings import PassManager, ir, irdl, submodule
from shard_dialect.ir.diagnostics import NOT_REGISTERED, error_at
from shard_dialect.ir.mesh import mesh_dialect
from shard_dialect.ir.mesh.check_mesh_ops import mesh_checks
from shard_dialect.ir.walk import walk
from shard_dialect.processes.code_of_users import in_code_of_user

Loader = Callable[[], None]
_loaders: dict[str, Loader] = {}
_has_code_of_users = False


def expect_code_of_users() -> None:
    """Have later contexts load all dialects: a user's pass or lowering may make any op."""
    global _has_code_of_users
    _has_code_of_users = True


def register_dialect(name: str, definition: str | Loader) -> None:
    """Register the dialect `name` for `opt`, `run` and new contexts.

    `definition` is the text of an IRDL module, or a function that loads the dialect into the
    current context. A later definition of the same name replaces an earlier one.
    """
    expect_code_of_users()
    _loaders[name] = definition if callable(definition) else lambda: _load_irdl(definition)


def is_of_users(name: str) -> bool:
    """Whether a user registered the dialect `name`."""
    return name in _loaders


def has_dialects_of_users() -> bool:
    """Whether a user registered any dialect."""
    return bool(_loaders)


def _load_irdl(text: str) -> None:
    irdl.load_dialects(ir.Module.parse(text))


def load_registered(keeps_loaded: bool = False) -> None:
    """Load the registered dialects into the current context. Raises `ShardError`.

    One that is loaded already is an error, or kept.
    """
    context = ir.Context.current
    if _has_code_of_users:  # a loader may extend a dialect, and abort where that is missing
        context.load_all_available_dialects()
        load_stablehlo(context)
    for name, load in _loaders.items():
        if keeps_loaded and context.is_dialect_loaded(name):
            continue
        if context.is_dialect_loaded(name):
            raise ShardError(f"there is a dialect '{name}' already: yours needs another name")
        try:
            with in_code_of_user(f"what loads dialect '{name}'", load):
                load()
        except FAILURES as error:
            is_of_mlir = isinstance(error, ShardError | ir.MLIRError | ValueError) and str(error)
            reason = " ".join(str(error).split()) if is_of_mlir else brief(error)
            raise ShardError(
                f"cannot load dialect '{name}': {reason}", None, raised_in(error)
            ) from None


BASE = [
    "builtin",
    "irdl",
    "func",
    "shard",
    "arith",
    "tensor",
    "linalg",
    "bufferization",
    "memref",
]
"""Upstream's dialects whose ops are built in Python; the parser loads the others."""


def make_context(allow_unregistered: bool = False) -> ir.Context:
    """A new context with upstream's dialects and our `mesh`.

    It is single-threaded: with verifiers in Python, MLIR's worker threads would wait for the
    interpreter's lock, which the thread that started them holds.
    """
    context = ir.Context(load_on_create_dialects=BASE)
    context.allow_unregistered_dialects = allow_unregistered
    load_ours(context)
    return context


def make_shared_context(allow_unregistered: bool = False) -> ir.Context:
    """A new context in which others may build modules and load dialects of their own.

    Unlike `make_context` it has all dialects loaded, not only known: the bindings of a dialect may
    abort where one that it extends is not loaded.
    """
    context = make_context(allow_unregistered)
    context.load_all_available_dialects()
    load_stablehlo(context)
    return context


def load_ours(context: ir.Context, is_foreign: bool = False) -> None:
    """Load `mesh` and the users' dialects, after `BASE`. The context is single-threaded then.

    A foreign one may have the users' already.
    """
    context.enable_multithreading(False)
    with context:
        _read_complex_constants()
        mesh_dialect.load(mesh_checks())
        load_registered(is_foreign)


@cache
def _read_complex_constants() -> None:
    """Let the bindings read constants of complex numbers, for which they have no class."""

    def read(dense: ir.Attribute) -> ir.Attribute:
        element = dense.type.element_type
        if isinstance(element, ir.ComplexType):
            return ir.DenseElementsAttr(dense)
        is_float = isinstance(element, ir.FloatType)
        return (ir.DenseFPElementsAttr if is_float else ir.DenseIntElementsAttr)(dense)

    one_of_them = ir.Attribute.parse("dense<0> : tensor<1xindex>")
    ir.register_type_caster(one_of_them.typeid, replace=True)(read)


_AVAILABLE = re.compile(r"(?:Available|Registered) dialects: ([^;]*?)(?:\(\* corresponding|;)")


def available_dialects() -> list[str]:
    """The names of all dialects that a file may use: upstream's, ours, and the users'.

    No function of the bindings lists them; MLIR's error about an unknown dialect does.
    """
    with make_context():
        try:
            ir.Module.parse("unknown.unknown")
        except ir.MLIRError as error:
            match = _AVAILABLE.search(str(error))
    return sorted(re.findall(r"\w+", match[1])) if match else []


_SHARDY = "sdy"
STABLEHLO = ("stablehlo", "chlo")
_USES_CHLO = "builtin.module(func.func(convert-torch-to-stablehlo))"


def load_dialects_of(text: str | bytes, context: ir.Context) -> None:
    """Load the dialects of a file that the bindings do not load by themselves.

    These are StableHLO's. Shardy's ops are read as unregistered ones.
    """

    def mentions(name: str) -> bool:
        return f"{name}.".encode() in text if isinstance(text, bytes) else f"{name}." in text

    if any(map(mentions, STABLEHLO)):
        load_stablehlo(context)
    if mentions(_SHARDY):
        context.allow_unregistered_dialects = True


def load_stablehlo(context: ir.Context) -> None:
    """Load StableHLO and CHLO, if the bindings have them.

    The bindings register no CHLO: it is loaded with what it is made from in a pass of torch-mlir's.
    """
    if all(map(context.is_dialect_loaded, STABLEHLO)):
        return
    with suppress(ImportError):
        submodule("_mlir_libs._stablehlo").register_dialect(context, load=True)
        submodule("_mlir_libs._torchMlir")  # it registers the pass
        with context:
            PassManager.parse(_USES_CHLO).run(ir.Module.parse("").operation)


def refuse_unregistered(module: ir.Operation) -> None:
    """Raise a located `ShardError` for an op of an unknown dialect other than Shardy's."""
    for op in walk(module):
        name = op.name
        if not name.startswith(f"{_SHARDY}.") and not op.context.is_registered_operation(name):
            raise error_at(
                op.location,
                f"'{name}' op {NOT_REGISTERED}",
            )
