"""`sd.jax.jit`: like `jax.jit`, with our partition in the place of XLA's.

The function is lowered by JAX, partitioned by us, and traced again as the program of each device
under `jax.shard_map`. JAX then compiles it, caches it, and calls it like any other function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import update_wrapper
from typing import Any, overload

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.walk import operations
from shard_dialect.jax.found_shardings import FoundShardings
from shard_dialect.jax.lower_function import LoweredFunction, lower_function
from shard_dialect.runtime.xla.local_function import jax_of_user
from shard_dialect.runtime.xla.partitioned_function import PartitionedFunction
from shard_dialect.search.auto_options import AutoOptions


@overload
def jit(
    function: Callable[..., Any],
    *,
    mesh: Any = None,
    in_shardings: AutoOptions,
    donate_argnums: int | Sequence[int] = (),
) -> FoundShardings: ...
@overload
def jit(
    function: Callable[..., Any],
    *,
    mesh: Any = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
) -> Jitted: ...
def jit(
    function: Callable[..., Any],
    *,
    mesh: Any = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
) -> Jitted | FoundShardings:
    """Return a function that runs on all devices of a mesh, called as that of `jax.jit`.

    `mesh` is a `jax.sharding.Mesh`; it may be left out where a sharding, an argument, or
    `jax.set_mesh` names one. `in_shardings` and `out_shardings` are, for each argument and result,
    or for a part of their pytree, a `NamedSharding`, a `PartitionSpec` on `mesh`, or `None` where
    propagation decides. With `in_shardings=sd.AUTO`, or other `sd.AutoOptions`, a search finds
    them. The other options are those of `jax.jit`.
    """
    donated = {"donate_argnums": donate_argnums}
    if isinstance(in_shardings, AutoOptions):
        if out_shardings is not None or static_argnums != () or static_argnames != ():
            raise ShardError("in_shardings=sd.AUTO goes with no out_shardings and static arguments")
        return FoundShardings(
            function,
            mesh,
            in_shardings,
            lambda of_arguments, of_results, lowered: Jitted(
                function, mesh, of_arguments, of_results, {**_DYNAMIC, **donated}, lowered
            ),
        )
    return Jitted(
        function,
        mesh,
        _named(in_shardings, mesh),
        _named(out_shardings, mesh),
        {"static_argnums": static_argnums, "static_argnames": static_argnames, **donated},
    )


_DYNAMIC = {"static_argnums": (), "static_argnames": ()}
"""The options of a function without static arguments."""


def lower(function: Callable[..., Any], *arguments: Any, **options: Any) -> ir.Module:
    """Return a JAX function as a module in the annotated form, for arguments of these shapes.

    The options are those of `jit`. Arguments may be `jax.ShapeDtypeStruct`s.
    """
    return jit(function, **options).lower(*arguments)


def _named(shardings: Any, mesh: Any) -> Any:
    """The pytree with `NamedSharding`s for `PartitionSpec`s."""
    jax = jax_of_user()

    def named(each: Any) -> Any:
        if not isinstance(each, jax.sharding.PartitionSpec):
            return each
        if mesh is None:
            raise ShardError(f"{each} names axes of no mesh: give jit one, by mesh=")
        return jax.sharding.NamedSharding(mesh, each)

    return jax.tree.map(named, shardings, is_leaf=_is_leaf)


def _is_leaf(each: Any) -> bool:
    return each is None or isinstance(each, jax_of_user().sharding.PartitionSpec)


class Jitted:
    """A function that `sd.jax.jit` has returned."""

    def __init__(
        self,
        function: Callable[..., Any],
        mesh: Any,
        in_shardings: Any,
        out_shardings: Any,
        options: Mapping[str, Any],
        lowered: LoweredFunction | None = None,
    ) -> None:
        """`lowered` is the function with more annotations, for arguments of certain shapes."""
        jax = jax_of_user()
        self._function, self._mesh, self._annotated = function, mesh, lowered
        self._shardings = in_shardings, out_shardings
        given = {"in_shardings": in_shardings, "out_shardings": out_shardings}
        self._given = {name: each for name, each in given.items() if each is not None}
        self._options = dict(options)
        self._donated = self._options.pop("donate_argnums")
        self._committed: dict[Any, Jitted] = {}
        self._unpartitioned = jax.jit(function, **self._given, **self._options)
        self._partitioned = jax.jit(
            self._partition, donate_argnums=self._donated, **self._given, **self._options
        )
        update_wrapper(self, function)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """The results, as arrays on the mesh's devices.

        Under another trace of JAX (`jax.grad`, `jax.vmap`, an outer `jit`), it is the function with
        its shardings as constraints. Raises `ShardError` for what cannot be partitioned.
        """
        jax = jax_of_user()
        leaves = jax.tree.leaves((arguments, keywords))
        if any(isinstance(each, jax.core.Tracer) for each in leaves):
            return self._unpartitioned(*arguments, **keywords)
        if "in_shardings" not in self._given and not keywords:
            return self._as_committed(arguments)(*arguments)
        return self._partitioned(*arguments, **keywords)

    def _as_committed(self, arguments: Sequence[Any]) -> Any:
        """The partition for arguments that are sharded already, as they are; made once for each."""
        jax = jax_of_user()
        shardings = jax.tree.map(_sharding_of, tuple(arguments))
        leaves, tree = jax.tree.flatten(shardings, is_leaf=_is_leaf)
        static = self._options["static_argnums"], self._options["static_argnames"]
        if static != ((), ()) or not any(leaves):
            return self._partitioned
        key = (tree, *leaves)
        if key not in self._committed:
            options = {**self._options, "donate_argnums": self._donated}
            mesh = self._mesh or next(each.mesh for each in leaves if each)
            self._committed[key] = Jitted(
                self._function, mesh, shardings, self._given.get("out_shardings"), options
            )
        return self._committed[key]

    def lower(self, *arguments: Any, **keywords: Any) -> ir.Module:
        """Return the function as a module in the annotated form, for arguments of these shapes.

        Donated arguments are marked, as JAX marks them: a report counts their memory once.
        """
        return self._lowered(arguments, keywords, self._donated).module

    def compiled(self, *arguments: Any, **keywords: Any) -> Any:
        """Return JAX's compiled function, with XLA's text of it, its memory and its cost."""
        return self._partitioned.lower(*arguments, **keywords).compile()

    def _lowered(
        self,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        donated: int | Sequence[int] = (),
    ) -> LoweredFunction:
        jax = jax_of_user()
        options = {**self._given, **self._options, "donate_argnums": donated}
        jitted = jax.jit(self._function, keep_unused=True, **options)
        return lower_function(jitted, arguments, keywords)

    def _partition(self, *arguments: Any, **keywords: Any) -> Any:
        """Traced by JAX once for arguments of the same shapes: partition, and call the result."""
        jax = jax_of_user()
        tracers = jax.tree.leaves((arguments, keywords))
        tracers = [each for each in tracers if isinstance(each, jax.core.Tracer)]
        shapes, named = jax.tree.map(_shape_of, (arguments, keywords))
        lowered = self._annotated or self._lowered(shapes, named)
        if not _has_mesh(lowered.module):
            return self._function(*arguments, **keywords)
        partitioned = PartitionedFunction.of(lowered.module, self._mesh_to_run_on())
        results = partitioned([_bits_of(each) for each in tracers])
        types, tree = jax.tree.flatten(lowered.results)
        return jax.tree.unflatten(tree, list(map(_of_bits, results, types)))

    def _mesh_to_run_on(self) -> Any:
        """The mesh with the devices to run on."""
        jax = jax_of_user()
        if self._mesh is not None:
            return self._mesh
        for each in jax.tree.leaves(self._shardings):
            if isinstance(each, jax.sharding.NamedSharding):
                return each.mesh
        mesh = jax.sharding.get_mesh()
        if mesh.empty:
            raise ShardError("the function names no mesh with devices: give jit one, by mesh=")
        return mesh


def _sharding_of(each: Any) -> Any:
    """How an array is sharded over a mesh; `None` for any other value."""
    jax = jax_of_user()
    sharding = getattr(each, "sharding", None)
    return sharding if isinstance(sharding, jax.sharding.NamedSharding) else None


def _shape_of(each: Any) -> Any:
    """The shape and type of a traced argument; a static one itself."""
    jax = jax_of_user()
    if not isinstance(each, jax.core.Tracer):
        return each
    return jax.ShapeDtypeStruct(each.shape, each.dtype, weak_type=each.aval.weak_type)


def _is_key(each: Any) -> bool:
    jax = jax_of_user()
    return bool(jax.dtypes.issubdtype(each.dtype, jax.dtypes.prng_key))


def _bits_of(each: Any) -> Any:
    """The integers of an array of random keys; other arrays themselves."""
    jax = jax_of_user()
    return jax.random.key_data(each) if _is_key(each) else each


def _of_bits(result: Any, type_: Any) -> Any:
    jax = jax_of_user()
    if not _is_key(type_):
        return result
    return jax.random.wrap_key_data(result, impl=_KEYS[str(type_.dtype)])


_KEYS = {"key<fry>": "threefry2x32", "key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}
"""JAX's types of random keys, with the names by which `jax.random` knows how they are drawn."""


def _has_mesh(module: ir.Module) -> bool:
    return any(op.name in ("sdy.mesh", "shard.grid") for op in operations(module.body))
