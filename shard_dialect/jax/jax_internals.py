"""The one place that uses names of JAX that are not public: where a lowered function is compiled.

    jax.jit(f).trace(x).lower()     JAX's: types, shardings, errors, caches, transformations
              .compile()            a function of ours is partitioned first, here

A function of ours is marked by the type of its compiler options. JAX hands them on unread through
`grad`, `vmap` and `scan`, and compares them in its caches, so that the gradient of a function of
ours is one of ours, and `jax.jit(f)` and `sd.jax.jit(f)` share a trace but no executable. Under an
outer `jit` it is the outermost that is compiled, as its own options say.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial, wraps
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from shard_dialect.backends.xla.jax_functions import jax_of_user
from shard_dialect.errors import ShardError

Partition = Callable[[Any], Any]
"""A module of JAX's to the module that XLA compiles instead."""
_PARAMETERS = {"hlo", "device_list", "compiler_options_kvs", "shape_poly_state"}


class _Options(tuple[tuple[str, Any], ...]):
    """Compiler options, of a function that `partition` partitions. Without any they are false."""

    partition: Partition

    def __new__(cls, options: tuple[tuple[str, Any], ...], partition: Partition) -> _Options:
        made = super().__new__(cls, options)
        made.partition = partition
        return made

    def __getnewargs__(self) -> tuple[tuple[tuple[str, Any], ...], Partition]:
        return tuple(self), self.partition

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, _Options) and self.partition is other.partition
        return same and super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((tuple(self), id(self.partition)))

    def __add__(self, other: Any) -> _Options:
        return _Options((*self, *other), self.partition)


def partitioned_by(partition: Partition, jitted: Any) -> Any:
    """A function of `jax.jit` or `pjit`, with our partition in the place of XLA's."""
    _intercept()
    from jax._src.pjit import _cpp_pjit

    options = _Options(jitted._jit_info.compiler_options_kvs, partition)
    return _cpp_pjit(jitted._fun, jitted._jit_info._replace(compiler_options_kvs=options))


def on_mesh(function: Callable[..., Any], mesh: Any) -> Callable[..., Any]:
    """The function, in whose trace `mesh` is the one that `PartitionSpec`s are about.

    As within `with mesh:`, unless the caller has a mesh in context. Of explicit axes the types of
    arrays tell already. It is made once for a function, so that JAX's caches know it again.
    """
    jax = jax_of_user()
    is_function = callable(function) and not inspect.isgeneratorfunction(function)  # or an error
    if mesh is None or not is_function or set(mesh.axis_types) != {jax.sharding.AxisType.Auto}:
        return function
    made: dict[Any, Callable[..., Any]] = {}
    if isinstance(function, FunctionType):
        # What `functools.wraps` makes of a function, as `jax.grad` does, has its attributes, too.
        owner, made = vars(function).get(_ON_MESH, (None, made))
        if owner is not function:
            made = {}
            vars(function)[_ON_MESH] = function, made
    if mesh not in made:

        @wraps(function)
        def traced(*arguments: Any, **keywords: Any) -> Any:
            return _traced_on(mesh, function, *arguments, **keywords)

        made[mesh] = traced
    return made[mesh]


_ON_MESH = "_shard_dialect_on_mesh"


def _traced_on(mesh: Any, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    from jax._src.mesh import get_abstract_mesh, thread_resources

    if not (get_abstract_mesh().empty and thread_resources.env.physical_mesh.empty):
        return function(*arguments, **keywords)
    with warnings.catch_warnings():
        # JAX has no other way to name a mesh with its devices inside of a trace.
        warnings.simplefilter("ignore", DeprecationWarning)
        mesh.__enter__()
    try:
        return function(*arguments, **keywords)
    finally:
        mesh.__exit__(None, None, None)


def pjit_of_jax() -> Any:
    """`jax.experimental.pjit.pjit`."""
    jax_of_user()
    from jax.experimental.pjit import pjit

    return pjit


@cache
def _intercept() -> None:
    """Partition functions of ours before they are compiled. Other functions see no difference.

    Nor is a line of this package the place of an op: that is where the user has called us.

    Raises `ShardError` if this version of JAX compiles in another way.
    """
    jax = jax_of_user()
    try:
        from jax._src import source_info_util
        from jax._src.interpreters import mlir, pxla
        from jax._src.mesh import get_abstract_mesh, thread_resources
        from jax._src.pjit import PjitInfo, _cpp_pjit

        compiled: Any = pxla.UnloadedMeshExecutable
        original = compiled.from_hlo
        assert set(inspect.signature(original).parameters) >= _PARAMETERS
        assert "compiler_options_kvs" in PjitInfo._fields
        assert callable(_cpp_pjit)
        assert callable(get_abstract_mesh)
        assert thread_resources.env.physical_mesh is not None
        assert callable(mlir.refine_polymorphic_shapes)
        source_info_util.register_exclusion(os.path.dirname(__file__) + os.sep)
    except (ImportError, AttributeError, AssertionError) as error:
        raise ShardError(
            f"sd.jax.jit does not know how jax {jax.__version__} compiles ({error}): use jax 0.10.2"
        ) from None
    partitioned: WeakKeyDictionary[Any, dict[Partition, Any]] = WeakKeyDictionary()

    @wraps(original)
    def from_hlo(name: str, hlo: Any, *arguments: Any, **options: Any) -> Any:
        own, devices = options["compiler_options_kvs"], options["device_list"]
        if isinstance(own, _Options) and devices is not None and len(devices) > 1:
            state = options["shape_poly_state"]
            if state is not None and state.uses_dim_vars:
                hlo = mlir.refine_polymorphic_shapes(hlo)
            known = partitioned.setdefault(hlo, {})
            if own.partition not in known:
                known[own.partition] = own.partition(hlo)
            hlo = known[own.partition]
        return original(name, hlo, *arguments, **options)

    compiled.from_hlo = staticmethod(from_hlo)


@dataclass(frozen=True)
class UserPartition:
    """The definition of a call of `custom_partitioning`: `partition`, and its mesh."""

    mesh: Any
    in_tree: Any
    out_tree: Any
    function: Callable[..., Any]

    @classmethod
    def of(cls, key: str) -> UserPartition | None:
        """By the key in the call's configuration. `None` where JAX tells no mesh with axes."""
        from jax._src.custom_partitioning import _sharding_callbacks

        info = _sharding_callbacks[key.encode()]
        if info.mesh.empty:
            return None
        return cls(
            info.mesh, info.in_tree, info.out_tree, partial(info.partition, *info.static_args)
        )
