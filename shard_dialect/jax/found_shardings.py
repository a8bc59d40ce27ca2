"""`sd.jax.jit(f, mesh=mesh, in_shardings=sd.AUTO)`: a search chooses the shardings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import update_wrapper
from typing import Any

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.jax.lower_function import LoweredFunction, lower_function
from shard_dialect.runtime.xla.local_function import jax_of_user
from shard_dialect.search.auto import AutoResult, auto
from shard_dialect.search.auto_options import AutoOptions


@dataclass(frozen=True, slots=True)
class _Known:
    """What was found for arguments of certain shapes, and the function that runs so."""

    result: AutoResult
    shardings: tuple[Any, Any]
    jitted: Any


class FoundShardings:
    """A function whose shardings a search finds, once for arguments of the same shapes.

    `jit` makes the function of the shardings that were found.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        mesh: Any,
        options: AutoOptions,
        jit: Callable[[Any, Any, LoweredFunction], Any],
    ) -> None:
        if mesh is None:
            raise ShardError("sd.AUTO finds shardings on a mesh: give jit one, by mesh=")
        names = tuple(map(str, mesh.axis_names))
        self._function, self._mesh, self._jit = function, mesh, jit
        self._options = replace(
            options, grid=tuple(mesh.devices.shape), devices=None, axis_names=names
        )
        self._known: dict[Any, _Known] = {}
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        """The results, as arrays on the mesh's devices."""
        return self._of(arguments).jitted(*arguments)

    def lower(self, *arguments: Any) -> ir.Module:
        """Return the function as a module with the annotations that were found."""
        return self._of(arguments).result.module

    def found(self, *arguments: Any) -> AutoResult:
        """Return what the search has found for arguments of these shapes."""
        return self._of(arguments).result

    def shardings(self, *arguments: Any) -> tuple[Any, Any]:
        """Return what `jax.jit` takes as `in_shardings` and `out_shardings`.

        A `NamedSharding` for each argument and result, `None` where the search leaves it open.
        """
        return self._of(arguments).shardings

    def _of(self, arguments: tuple[Any, ...]) -> _Known:
        jax = jax_of_user()
        leaves, tree = jax.tree.flatten(arguments)
        key = tree, tuple((jax.numpy.shape(each), jax.numpy.result_type(each)) for each in leaves)
        if key not in self._known:
            unsharded = jax.jit(self._function, keep_unused=True)
            lowered = lower_function(unsharded, arguments, {})
            with lowered.module.context:
                result = auto(lowered.module, self._options, "main")
            annotated = LoweredFunction(result.module, lowered.results)
            of_arguments, of_results = self._shardings(result, lowered, tree)
            jitted = self._jit(of_arguments, of_results, annotated)
            self._known[key] = _Known(result, (of_arguments, of_results), jitted)
        return self._known[key]

    def _shardings(
        self, result: AutoResult, lowered: LoweredFunction, tree: Any
    ) -> tuple[Any, Any]:
        """The pytrees of the shardings of arguments and results."""
        jax = jax_of_user()
        splits: Mapping[int, Any] = result.found.plan.by_tensor
        results = jax.tree.structure(lowered.results)

        def named(number: int) -> Any:
            dims = splits.get(number)
            if dims is None:
                return None
            names = [tuple(self._mesh.axis_names[axis] for axis in axes) or None for axes in dims]
            return jax.sharding.NamedSharding(self._mesh, jax.sharding.PartitionSpec(*names))

        of_arguments = [named(number) for number in range(tree.num_leaves)]
        of_results = [named(tree.num_leaves + number) for number in range(results.num_leaves)]
        return jax.tree.unflatten(tree, of_arguments), jax.tree.unflatten(results, of_results)
