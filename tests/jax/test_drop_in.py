"""`sd.jax.jit` in the place of `jax.jit`: contexts, types, transformations, and the interface."""

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shard_dialect as sd
from shard_dialect.backends.xla.xla_devices import devices
from tests.jax.test_jit import assert_equal

X = np.arange(64.0, dtype=np.float32).reshape(8, 8)
JITS = [jax.jit, sd.jax.jit]


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return Mesh(np.array(devices(8)).reshape(4, 2), ("a", "b"))


@pytest.fixture
def explicit() -> Iterator[Mesh]:
    mesh = Mesh(np.array(devices(8)).reshape(4, 2), ("a", "b"), axis_types=(AxisType.Explicit,) * 2)
    with jax.set_mesh(mesh):
        yield mesh


@pytest.fixture
def compiled(monkeypatch: Any) -> list[list[str]]:
    """For each program of several devices that XLA compiles, the ops of its entry."""
    from jax._src import compiler

    jax.clear_caches()
    found: list[list[str]] = []
    original = compiler.compile_or_get_cached

    def noted(backend: Any, module: Any, *arguments: Any, **options: Any) -> Any:
        if module.operation.attributes["mhlo.num_partitions"].value > 1:
            entries = [op for op in module.body.operations if "@main(" in str(op)]
            (block,) = entries[0].regions[0].blocks
            found.append([op.operation.name for op in block.operations])
        return original(backend, module, *arguments, **options)

    monkeypatch.setattr(compiler, "compile_or_get_cached", noted)
    return found


def step(w: Any, x: Any) -> Any:
    return jnp.tanh(x @ w).sum(1)


def loss(jit: Any, mesh: Mesh) -> Callable[..., Any]:
    shardings = NamedSharding(mesh, P(None, "b")), NamedSharding(mesh, P("a"))
    return jit(step, in_shardings=shardings)


Route = Callable[[Any, Mesh], Any]
ROUTES: dict[str, Route] = {
    "called": lambda jit, mesh: loss(jit, mesh)(X, X),
    "compiled": lambda jit, mesh: loss(jit, mesh).lower(X, X).compile()(X, X),
    "gradient": lambda jit, mesh: jax.grad(lambda w: loss(jit, mesh)(w, X).mean())(X),
    "closed over": lambda jit, mesh: jax.grad(
        lambda w: jit(lambda x: step(w, x).mean(), in_shardings=NamedSharding(mesh, P("a")))(X)
    )(X),
    "vmap": lambda jit, mesh: jax.vmap(loss(jit, mesh), (0, None))(np.stack([X, X + 1]), X),
    "jvp": lambda jit, mesh: jax.jvp(lambda w: loss(jit, mesh)(w, X), [X], [X])[1],
    "linearized": lambda jit, mesh: jax.linearize(lambda w: loss(jit, mesh)(w, X), X)[1](X),
    "outer": lambda jit, mesh: jit(lambda x: loss(jit, mesh)(X, x) + 1)(X),
    "outer, no arguments": lambda jit, mesh: jit(
        lambda: jit(lambda: X * 2, out_shardings=NamedSharding(mesh, P("a")))()
    )(),
    "scan": lambda jit, mesh: jit(
        lambda x: lax.scan(lambda c, _: (loss(jit, mesh)(X, c)[:, None] + c, None), x, None, 3)[0]
    )(X),
    "all replicated": lambda jit, mesh: jit(lambda x: x * 2, in_shardings=NamedSharding(mesh, P()))(
        X
    ),
    "shard_map": lambda jit, mesh: jit(
        lambda x: jax.shard_map(
            lambda v: lax.psum(v, "a"), mesh=mesh, in_specs=P("a"), out_specs=P()
        )(x)
    )(X),
}


@pytest.mark.parametrize("name", ROUTES)
def test_xla_partitions_nothing(name: str, mesh: Mesh, compiled: list[list[str]]) -> None:
    """What XLA compiles for several devices is written for each of them."""
    expected = ROUTES[name](jax.jit, mesh)
    plain = len(compiled)
    actual = ROUTES[name](sd.jax.jit, mesh)
    assert_equal(actual, expected)
    assert actual.sharding.is_equivalent_to(expected.sharding, actual.ndim)
    ours = compiled[plain:]
    assert ["sdy.manual_computation", "func.return"] in ours
    mine = [ops for ops in ours if len(ops) > 2 and name != "linearized"]
    assert not [ops for ops in mine if not is_eager(ops)], mine


def is_eager(ops: list[str]) -> bool:
    """Whether it is one op of JAX's own, on arrays that are sharded, outside of any jit."""
    return len(ops) <= 4


def both(function: Callable[[Any], Any]) -> None:
    """The results and their shardings are those of `jax.jit`."""
    theirs, ours = (function(jit) for jit in JITS)
    assert_equal(ours, theirs)
    jax.tree.map(lambda a, b: check(a.sharding, b.sharding, a.ndim), ours, theirs)


def check(ours: Any, theirs: Any, rank: int) -> None:
    assert ours.is_equivalent_to(theirs, rank), (ours, theirs)
    assert getattr(ours, "mesh", None) == getattr(theirs, "mesh", None)


def test_under_set_mesh(mesh: Mesh) -> None:
    constrained = partial(lax.with_sharding_constraint, shardings=P("a"))
    x = jax.device_put(X, NamedSharding(mesh, P("a")))
    with jax.set_mesh(mesh):
        both(lambda jit: jit(lambda x: constrained(x * 2))(X))
        both(lambda jit: jit(lambda x: x * 2, in_shardings=P("a"))(X))
        both(lambda jit: jit(lambda x, n: constrained(x) * n, static_argnums=1)(x, 3))
        both(lambda jit: jit(lambda x: constrained(x) * 2)(x=x))
        both(lambda jit: jit(lambda x: x * 2)(jax.device_put(X, NamedSharding(mesh, P()))))


def test_meshes_of_the_arguments(mesh: Mesh) -> None:
    x = jax.device_put(X, NamedSharding(mesh, P("b")))
    both(lambda jit: jit(lambda x, n: x * n, static_argnums=1)(x, 3))
    both(lambda jit: jit(lambda x, *, n: x * n, static_argnames="n")(x=x, n=3))
    both(lambda jit: jit(lambda x: {"y": x.T, "z": x.sum()})(x))
    both(lambda jit: jit(lambda x: x @ x)(jax.device_put(X, NamedSharding(mesh, P()))))


def test_axes_of_one_device() -> None:
    mesh = Mesh(np.array(devices(8)).reshape(1, 8, 1), ("a", "b", "c"))
    given = NamedSharding(mesh, P(("a", "b"), "c"))
    both(lambda jit: jit(lambda x: x @ x.T, in_shardings=given)(X))


def test_explicit_axes(explicit: Mesh) -> None:
    x = jax.device_put(X, NamedSharding(explicit, P("a", "b")))
    types = []

    def noted(x: Any) -> Any:
        types.append(str(jax.typeof(x)))
        return x * 2

    both(lambda jit: jit(noted)(x))
    assert types == ["float32[8@a,8@b]"]  # both share one trace
    both(lambda jit: jit(lambda x: x.reshape(8, 4, 2))(x))
    both(lambda jit: jit(lambda x: jnp.einsum("ij,kj->ik", x, x, out_sharding=P("a", None)))(x))
    both(lambda jit: jit(lambda x: jnp.zeros(x.shape, out_sharding=jax.typeof(x).sharding))(x))
    both(lambda jit: jit(lambda x: jax.reshard(x, P("b", "a")))(x))
    for jit in JITS:
        with pytest.raises(Exception, match="Contracting dimensions are sharded"):
            jit(lambda x: x @ x.T)(x)


@pytest.mark.parametrize("op", ["set", "add", "max", "min", "mul"])
def test_updates_of_a_batch_under_explicit_axes(op: str, explicit: Mesh) -> None:
    """JAX constrains even the scalars of the reduction."""
    sizes = ((8, 10, 4), P("a", None, "b")), ((8,), P("a")), ((8, 4), P("a", "b"))
    rng = np.random.default_rng(0)
    x, i, u = (
        jax.device_put(rng.integers(0, 10, shape).astype(dtype), NamedSharding(explicit, spec))
        for (shape, spec), dtype in zip(sizes, (np.float32, np.int32, np.float32), strict=True)
    )
    both(lambda jit: jit(jax.vmap(lambda x, i, u: getattr(x.at[i], op)(u)))(x, i, u))


def test_pjit_takes_its_mesh_from_the_context(mesh: Mesh) -> None:
    with pytest.warns(DeprecationWarning, match="deprecated"), mesh:
        y = sd.jax.pjit(lambda x: x * 2, in_shardings=P("a"), out_shardings=P("b"))(X)
    check(y.sharding, NamedSharding(mesh, P("b")), 2)


def test_the_interface_is_that_of_jax(mesh: Mesh) -> None:
    def scaled(x: Any, factor: int = 2) -> Any:
        """Scale."""
        return x * factor

    f = sd.jax.jit(scaled, static_argnames="factor", in_shardings=NamedSharding(mesh, P("a")))
    assert isinstance(f, jax.stages.Wrapped)
    assert (f.__name__, f.__doc__, f.__wrapped__) == ("scaled", "Scale.", scaled)
    assert inspect.signature(f) == inspect.signature(scaled)
    assert f.eval_shape(X).shape == X.shape
    assert str(f.trace(X).jaxpr) == str(jax.jit(scaled).trace(X).jaxpr)
    lowered = f.lower(X)
    assert isinstance(lowered, jax.stages.Lowered)
    assert "sdy.sharding" in lowered.as_text()
    assert lowered.out_info.shape == X.shape
    executable = lowered.compile()
    assert "all-gather" not in executable.as_text()
    assert executable.memory_analysis().argument_size_in_bytes == X.nbytes // 4
    assert executable.cost_analysis() is not None
    f.clear_cache()
    assert_equal(f(X), X * 2)
    exported = jax.export.export(f)(X)
    assert exported.nr_devices == 8


def test_methods_and_decorators() -> None:
    class Layer:
        @sd.jax.jit
        def plain(self: Any, x: Any) -> Any:
            return x + 1

        @partial(sd.jax.jit, static_argnums=0)
        def with_static(self, x: Any) -> Any:
            return x + 2

        @sd.jax.jit(static_argnums=0)
        def with_options(self, x: Any) -> Any:
            return x + 3

    layer = Layer()
    assert_equal(layer.with_static(X), X + 2)
    assert_equal(layer.with_options(X), X + 3)


def test_a_trace_is_shared_and_cached(mesh: Mesh) -> None:
    traces = []

    def traced(x: Any) -> Any:
        traces.append(x)
        return x + 1

    f = sd.jax.jit(traced, in_shardings=NamedSharding(mesh, P("a")))
    for _ in range(3):
        f(X)
    assert len(traces) == 1


def test_what_jax_has_lowered_is_taken_as_a_module(mesh: Mesh) -> None:
    lowered = loss(sd.jax.jit, mesh).lower(X, X)
    assert [each.kind for each in sd.communication(lowered).entries] == ["all_reduce"]
    assert sd.report(lowered).devices == 8
    assert "mesh.form" in sd.to_text(sd.run_pipeline(lowered, "spmd"))
    text = sd.to_text(sd.jax.lower(step, X, X, mesh=mesh, in_shardings=(P(None, "b"), P("a"))))
    assert text == sd.to_text(lowered)


def test_donated_arguments_by_name(mesh: Mesh) -> None:
    x = jax.device_put(X, NamedSharding(mesh, P("a")))
    f = sd.jax.jit(lambda *, x: x + 1, donate_argnames="x")
    assert_equal(f(x=x), X + 1)
    assert x.is_deleted()


@pytest.mark.parametrize("spec", [P("a"), P(None, "b"), P("b", "a")], ids=str)
def test_custom_partitioning_is_by_the_users_function(spec: P, mesh: Mesh) -> None:
    """It is asked for the shardings that were propagated, and gets those that it asks for."""
    from jax.experimental.custom_partitioning import custom_partitioning

    @custom_partitioning
    def total(x: Any, scale: Any) -> Any:
        return jnp.cumsum(x, axis=1) * scale, x.sum(0)

    def partition(mesh: Any, arguments: Any, results: Any) -> Any:
        split = arguments[0].sharding.spec[0]
        asked.append(arguments[0].sharding.spec)
        rows = NamedSharding(mesh, P(split, None))
        whole = NamedSharding(mesh, P(None))

        def of_shard(x: Any, scale: Any) -> Any:
            summed = x.sum(0)
            return jnp.cumsum(x, axis=1) * scale, lax.psum(summed, split) if split else summed

        return mesh, of_shard, (rows, whole), (rows, NamedSharding(mesh, P()))

    asked: list[Any] = []
    total.def_partition(partition, sharding_rule="i j, -> i j, j")
    given = NamedSharding(mesh, spec), NamedSharding(mesh, P())
    actual = sd.jax.jit(lambda x, s: total(x * 2, s), in_shardings=given)(X, 3.0)
    assert asked == [P(*spec, *[None] * (2 - len(spec)))]
    assert_equal(actual, (np.cumsum(2 * X, 1) * 3, 2 * X.sum(0)))


@pytest.mark.parametrize("spec", [P("a"), P(("a", "b")), P("b")])
def test_results_that_do_not_divide(spec: P, mesh: Mesh) -> None:
    """They have the nearest sharding that JAX has arrays for; where one was asked, its error."""
    given = NamedSharding(mesh, spec)

    def cut(x: Any) -> Any:
        return lax.with_sharding_constraint(x[:6] * 2, given)

    actual = sd.jax.jit(cut, in_shardings=given)(X)
    assert_equal(actual, X[:6] * 2)
    for jit in JITS:
        with pytest.raises(ValueError, match="array axis 0 is partitioned"):
            jit(lambda x: x[:7], in_shardings=given, out_shardings=given)(X)


@pytest.mark.parametrize("summands", [P("a"), P("b"), P(("a", "b"))], ids=str)
def test_unreduced_values(summands: P, explicit: Mesh) -> None:
    """The sums of results and arguments are those of JAX, and so are their types."""
    axes = set(summands[0]) if isinstance(summands[0], tuple) else {summands[0]}
    x = jax.device_put(X, NamedSharding(explicit, P(None, *summands)))
    y = jax.device_put(X, NamedSharding(explicit, P(*summands)))
    unreduced = P(None, None, unreduced=axes)

    def product(x: Any, y: Any) -> Any:
        return jnp.einsum("ij,jk->ik", x, y, out_sharding=unreduced)

    found = [jit(product)(x, y) for jit in JITS]
    doubled = [jit(lambda p: p + p)(each) for jit, each in zip(JITS, found, strict=True)]
    for theirs, ours in (found, doubled):
        assert ours.sharding == theirs.sharding
        a, b = (
            np.stack([shard.data for shard in each.addressable_shards]) for each in (ours, theirs)
        )
        np.testing.assert_allclose(a.sum(0), b.sum(0), rtol=1e-4)
    reduced = sd.jax.jit(lambda p: jax.reshard(p, P()))(doubled[1])
    assert_equal(reduced, 2 * X @ X)


@pytest.mark.parametrize("spec", [P("a"), P(None, ("b", "a")), P("b", "a"), P()], ids=str)
def test_inspection_tells_our_shardings(spec: P, mesh: Mesh) -> None:
    found: list[Any] = []

    def inspected(x: Any) -> Any:
        jax.debug.inspect_array_sharding(x * 2, callback=found.append)
        return x

    given = NamedSharding(mesh, spec)
    assert_equal(sd.jax.jit(inspected, in_shardings=given)(X), X)
    assert [each.is_equivalent_to(given, 2) for each in found] == [True]


@pytest.mark.parametrize("init", [0.0, 1.0, 100.0])
@pytest.mark.parametrize("join", [lax.add, lax.mul, lax.max, lax.min])
@pytest.mark.parametrize("padding", [(0, 0), (2, 2), (3, 0)])
def test_windows_that_start_from_something(
    mesh: Mesh, init: float, join: Any, padding: tuple[int, int]
) -> None:
    """XLA counts the init once in each window, and StableHLO once more for each padded element."""

    def function(x: Any) -> Any:
        rows = lax.reduce_window(x, np.float32(init), join, (3, 1), (1, 1), (padding, (0, 0)))
        spread = {"base_dilation": (2, 1), "window_dilation": (1, 1)}
        return rows, lax.reduce_window(
            x, np.float32(init), join, (3, 1), (1, 1), (padding, (0, 0)), **spread
        )

    specs = {"in_shardings": NamedSharding(mesh, P("a", "b"))}
    for ours, theirs in zip(sd.jax.jit(function, **specs)(X), jax.jit(function)(X), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
