"""`sd.jax.jit`: `jax.jit`, with our partition in the place of XLA's.

It returns the function of `jax.jit`, with options by which the function is partitioned before XLA
compiles it (`jax_internals`).

`sd.jax.jit(f, mesh=mesh, in_shardings=sd.AUTO)`: a search chooses the shardings.

`sd.jax.load` reads a file of `jax.export` as a module in the annotated form.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any

from shard_dialect.backends.xla.jax_functions import jax_of_user
from shard_dialect.errors import ShardError, cannot, first_line_of
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.function import BOUNDARY, functions_of
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import walk
from shard_dialect.jax.jax_internals import Partition, on_mesh, partitioned_by, pjit_of_jax
from shard_dialect.jax.partition_module import partition_module, partition_read, read_module
from shard_dialect.jax.proving import Proven, proven_by
from shard_dialect.proof.prove import Proof
from shard_dialect.search.auto import AutoOptions, AutoResult, auto

_REFUSED = {"out_shardings", "static_argnums", "static_argnames"}


@dataclass(frozen=True, slots=True)
class _Known:
    """The shardings found for arguments of certain shapes, and the function that uses them."""

    result: AutoResult
    shardings: tuple[Any, Any]
    jitted: Any


class FoundShardings:
    """A function whose shardings a search finds, once for arguments of the same shapes."""

    def __init__(
        self,
        function: Callable[..., Any],
        mesh: Any,
        prove: bool,
        in_shardings: AutoOptions,
        **options: Any,
    ) -> None:
        if mesh is None:
            raise ShardError("sd.AUTO finds shardings on a mesh: give jit one, by mesh=")
        if refused := sorted(_REFUSED & options.keys()):
            raise ShardError(f"in_shardings=sd.AUTO goes with no {' and '.join(refused)}")
        in_shardings = in_shardings.without_pipelines()
        if in_shardings.grid is not None or in_shardings.devices is not None:
            raise ShardError("mesh= says which devices there are: give sd.AutoOptions no others")
        names = tuple(map(str, mesh.axis_names))
        self._function, self._mesh, self._jit_options = on_mesh(function, mesh), mesh, options
        self._is_proven = prove
        self._options = replace(
            in_shardings, grid=tuple(mesh.devices.shape), devices=None, axis_names=names
        )
        self._known: dict[Any, _Known] = {}
        update_wrapper(self, function, updated=())

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """The results. Arrays that lie elsewhere, as those of a step before, are moved first."""
        if keywords:
            raise ShardError(
                f"in_shardings=sd.AUTO goes with no keyword arguments ({', '.join(keywords)}): "
                "give them by position"
            )
        known = self._of(arguments)
        return known.jitted(*jax_of_user().tree.map(_placed, arguments, known.shardings[0]))

    def __copy__(self) -> FoundShardings:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> FoundShardings:
        """The function itself, as of other functions."""
        return self

    def lower(self, *arguments: Any) -> ir.Module:
        """Return the function as a module with the annotations that were found."""
        return self._of(arguments).result.module

    def found(self, *arguments: Any) -> AutoResult:
        """Return the shardings that the search has found for arguments of these shapes."""
        return self._of(arguments).result

    def proof(self, *arguments: Any) -> Proof:
        """As the method of what `jit` returns. Raises `ShardError` if `prove` was not given."""
        if not self._is_proven:
            raise ShardError("the function has no proof: give jit prove=True")
        found: Proof = self._of(arguments).jitted.proof(*arguments)
        return found

    def shardings(self, *arguments: Any) -> tuple[Any, Any]:
        """Return the `in_shardings` and `out_shardings` for `jax.jit`.

        A `NamedSharding` for each argument and result, `None` where the search leaves it open.
        """
        return self._of(arguments).shardings

    def _of(self, arguments: tuple[Any, ...]) -> _Known:
        jax = jax_of_user()
        leaves, tree = jax.tree.flatten(arguments)
        types = tuple(map(jax.typeof, leaves))
        key = tree, types
        if key not in self._known:
            shapes = [
                jax.ShapeDtypeStruct(each.shape, each.dtype, weak_type=each.weak_type)
                for each in types
            ]
            jitted = jax.jit(self._function, keep_unused=True)
            lowered = jitted.lower(*jax.tree.unflatten(tree, shapes))
            module = read_module(lowered.compiler_ir("stablehlo"))
            body = _body(module)
            with module.context:
                result = auto(module, self._options, "main")
            shardings = self._shardings(result, jax.tree.structure(lowered.out_info), tree)
            self._known[key] = _Known(
                result, shardings, self._jitted(body, result.module, *shardings)
            )
        return self._known[key]

    def _jitted(self, body: str, annotated: ir.Module, of_arguments: Any, of_results: Any) -> Any:
        """The function by the annotated module, in which shardings inside were found, too.

        What JAX makes of the function, its gradient or what it is under other settings, is another
        module, of which those at the boundary alone are known.
        """
        shardings = {"in_shardings": of_arguments, "out_shardings": of_results}
        text = annotated.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)

        def partition(module: Any) -> Any:
            if _body(read_module(module)) != body:
                return partition_module(module)
            with make_context():
                return partition_read(Source.of(text).parse(), module)

        options = {**self._jit_options, **shardings, "keep_unused": True}
        jitted = jax_of_user().jit(self._function, **options)
        return _partitioned(jitted, Proven(partition) if self._is_proven else partition)

    def _shardings(self, result: AutoResult, results: Any, tree: Any) -> tuple[Any, Any]:
        """The pytrees of the shardings of arguments and results."""
        jax = jax_of_user()
        splits: Mapping[int, Any] = result.found.plan.by_tensor

        def named(number: int) -> Any:
            dims = splits.get(number)
            if dims is None:
                return None
            names = [tuple(self._mesh.axis_names[axis] for axis in axes) or None for axes in dims]
            return jax.sharding.NamedSharding(self._mesh, jax.sharding.PartitionSpec(*names))

        of_arguments = [named(number) for number in range(tree.num_leaves)]
        of_results = [named(tree.num_leaves + number) for number in range(results.num_leaves)]
        return jax.tree.unflatten(tree, of_arguments), jax.tree.unflatten(results, of_results)


def _placed(argument: Any, sharding: Any) -> Any:
    """An argument, moved if it is an array that JAX would refuse for its sharding."""
    jax = jax_of_user()
    if sharding is None or not isinstance(argument, jax.Array):
        return argument
    if isinstance(argument, jax.core.Tracer) or not argument.committed:
        return argument
    is_there = argument.sharding.is_equivalent_to(sharding, argument.ndim)
    return argument if is_there else jax.device_put(argument, sharding)


def _body(module: ir.Module) -> str:
    """What the functions of a module compute, without meshes and the shardings of boundaries."""
    copy = module.operation.clone()
    functions = functions_of(copy)
    for function in functions:
        for key in BOUNDARY:
            if key in function.attributes:
                del function.attributes[key]
    return "".join(each.get_asm(print_generic_op_form=True) for each in functions)


_PROVEN = Proven(partition_module)
_SHARDINGS = ("in_shardings", "out_shardings")


def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    mesh: Any = None,
    prove: bool = False,
    **options: Any,
) -> Any:
    """Return what `jax.jit` does: the options are its options.

    `mesh` is a `jax.sharding.Mesh`, for `PartitionSpec`s in `in_shardings` and `out_shardings`, and
    in the function where no mesh is in context; it may be left out where `jax.set_mesh` names one.
    With `in_shardings=sd.AUTO`, or other `sd.AutoOptions`, a search finds the shardings on `mesh`.
    With `prove` a partition that is proven wrong is a `ShardError` where it would be compiled, one
    of which that is unknown a `ShardWarning`, and the function has `proof(*arguments)`.
    """
    if function is None:
        return partial(jit, mesh=mesh, prove=prove, **options)
    if mesh is not None and not isinstance(mesh, jax_of_user().sharding.Mesh):
        raise ShardError(f"mesh is {mesh!r}: give a jax.sharding.Mesh, which has devices")
    found = options.get("in_shardings")
    if isinstance(found, AutoOptions):
        return FoundShardings(function, mesh, prove, **options)
    given = {
        name: _named(each, mesh) if name in _SHARDINGS else each for name, each in options.items()
    }
    jitted = jax_of_user().jit(on_mesh(function, mesh), **given)
    return _partitioned(jitted, _PROVEN if prove else partition_module)


def pjit(function: Callable[..., Any], *arguments: Any, prove: bool = False, **options: Any) -> Any:
    """As `jit`, for `jax.experimental.pjit.pjit`, which takes its mesh from `with mesh:`."""
    jitted = pjit_of_jax()(function, *arguments, **options)
    return _partitioned(jitted, _PROVEN if prove else partition_module)


def _partitioned(jitted: Any, partition: Partition) -> Any:
    if isinstance(partition, Proven):
        return proven_by(partition, jitted)
    return partitioned_by(partition, jitted)


def lower(function: Callable[..., Any], *arguments: Any, **options: Any) -> ir.Module:
    """Return a JAX function as a module in the annotated form, for arguments of these shapes.

    The options are those of `jit`. Arguments may be `jax.ShapeDtypeStruct`s.
    """
    lowered = jit(function, **{"keep_unused": True, **options}).lower(*arguments)
    is_module = isinstance(lowered, ir.Module)
    return lowered if is_module else read_module(lowered.compiler_ir("stablehlo"))


def _named(shardings: Any, mesh: Any) -> Any:
    """The pytree with `NamedSharding`s for `PartitionSpec`s, if there is a mesh."""
    jax = jax_of_user()
    if mesh is None:
        return shardings

    def named(each: Any) -> Any:
        if not isinstance(each, jax.sharding.PartitionSpec):
            return each
        return jax.sharding.NamedSharding(mesh, each)

    return jax.tree.map(named, shardings, is_leaf=lambda each: each is None)


def load(path: str | Path) -> ir.Module:
    """Read what `jax.export` has serialized. Raises `ShardError` if the file holds no function."""
    export = importlib.import_module(f"{jax_of_user().__name__}.export")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise cannot("read", str(path), error) from None
    try:
        exported = export.deserialize(bytearray(data))
        text = exported.mlir_module()
    except Exception as error:  # any that reading bytes which mean something else can end with
        raise ShardError(
            f"'{path}' holds no function that jax.export has serialized: {first_line_of(error)}"
        ) from None
    with make_context():
        module = Source.of(text, str(path)).parse()
    if any(map(_calls_back, walk(module.operation))):
        raise ShardError(f"the function in '{path}' calls back to Python, which is not there")
    return module


def _calls_back(op: ir.Operation) -> bool:
    return (
        op.name == "stablehlo.custom_call" and "python" in op.attributes["call_target_name"].value
    )
