"""`sd.jax.jit` beside `jax.jit`: programs of many kinds, and the ways of calling them."""

import copy
import warnings
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shard_dialect as sd
from shard_dialect.backends.xla.xla_devices import devices
from shard_dialect.errors import ShardError
from tests.jax.programs import PROGRAMS, draw


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return Mesh(np.array(devices(8)).reshape(4, 2), ("a", "b"))


def bits(array: Any) -> Any:
    is_key = jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(array) if is_key else array)


def assert_equal(actual: Any, expected: Any) -> None:
    def compare(a: Any, b: Any) -> None:
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        narrow = a.dtype == jnp.bfloat16
        a, b = bits(a), bits(b)
        if np.issubdtype(a.dtype, np.integer):
            np.testing.assert_array_equal(a, b)
        else:
            wide = np.complex128
            a, b = a.astype(wide), b.astype(wide)
            # What is left of large terms that cancel has their rounding error, not its own.
            largest = max(1.0, float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0)))
            atol = (1e-3 if narrow else 1e-5) * largest
            np.testing.assert_allclose(a, b, rtol=2e-2 if narrow else 1e-4, atol=atol)

    jax.tree.map(compare, actual, expected)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gives_what_jax_gives(name: str, mesh: Mesh) -> None:
    program = PROGRAMS[name](mesh)
    static = {k: each for k, each in program.options.items() if k.startswith("static")}
    expected = jax.jit(program.function, **static)(*program.arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sd.ShardWarning)
        partitioned = sd.jax.jit(
            program.function, mesh=mesh, in_shardings=program.shardings, **program.options
        )
        assert_equal(partitioned(*program.arguments), expected)


def two_layers(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w["in"]) @ w["out"]


X, W = draw(8, 16), {"in": draw(16, 32), "out": draw(32, 16)}
SPECS = (P("a"), {"in": P(None, "b"), "out": P("b")})


def test_results_are_arrays_on_the_mesh(mesh: Mesh) -> None:
    y = sd.jax.jit(two_layers, mesh=mesh, in_shardings=SPECS)(X, W)
    assert isinstance(y, jax.Array)
    assert y.sharding.is_equivalent_to(NamedSharding(mesh, P("a")), 2)
    assert_equal(y, two_layers(X, W))


def test_results_are_sharded_as_asked(mesh: Mesh) -> None:
    f = sd.jax.jit(two_layers, mesh=mesh, in_shardings=SPECS, out_shardings=P(None, ("a", "b")))
    assert f(X, W).sharding.spec == P(None, ("a", "b"))


def test_the_compiled_program_has_our_collectives(mesh: Mesh) -> None:
    """The product over the split dimension is one all-reduce, and nothing is gathered."""
    f = sd.jax.jit(two_layers, mesh=mesh, in_shardings=SPECS)
    module = f.lower(X, W)
    kinds = [entry.kind for entry in sd.communication(module).entries]
    hlo = f.lower(X, W).compile().as_text()
    assert kinds == ["all_reduce"]
    assert "all-reduce(" in hlo
    assert "all-gather(" not in hlo


@pytest.mark.parametrize("out", [P(), P("b")])
def test_any_and_all_are_reduced_and_not_gathered(out: P, mesh: Mesh) -> None:
    f = sd.jax.jit(
        lambda x: (jnp.any(x > 2, 0), jnp.all(x < 2, 0)),
        mesh=mesh,
        in_shardings=P(("a", "b")),
        out_shardings=out,
    )
    x = np.random.default_rng(0).standard_normal((32, 64), np.float32)
    assert_equal(f(x), ((x > 2).any(0), (x < 2).all(0)))
    text = f.lower(x).compile().as_text()
    assert "all-reduce(" in text or "reduce-scatter(" in text  # and not gathered to be reduced


def test_equal_collectives_are_one_in_what_xla_compiles(mesh: Mesh) -> None:
    """Both reversals, of the value and of its tangent, exchange the same shards."""

    def function(x: jax.Array) -> jax.Array:
        return jax.jvp(lambda v: jnp.sin(jnp.flip(v, 0)), (x,), (x,))[1]

    spec = P("a", None)
    jitted = sd.jax.jit(function, mesh=mesh, in_shardings=spec, out_shardings=spec)
    text = jitted.lower(jax.ShapeDtypeStruct((64, 64), np.float32)).compile().as_text()
    assert text.count(" collective-permute(") == 1


def test_arguments_that_are_sharded_already(mesh: Mesh) -> None:
    w_named = {name: NamedSharding(mesh, spec) for name, spec in SPECS[1].items()}
    named = NamedSharding(mesh, SPECS[0]), w_named
    x, w = jax.device_put((X, W), named)
    f = sd.jax.jit(two_layers)
    y = f(x, w)
    assert y.sharding.is_equivalent_to(NamedSharding(mesh, P("a")), 2)
    assert_equal(y, two_layers(X, W))


def test_under_other_traces_it_is_the_function(mesh: Mesh) -> None:
    f = sd.jax.jit(two_layers, mesh=mesh, in_shardings=SPECS)
    expected = jax.grad(lambda x: two_layers(x, W).sum())(X)
    assert_equal(jax.grad(lambda x: f(x, W).sum())(X), expected)
    outer = sd.jax.jit(jax.grad(lambda x: f(x, W).sum()), mesh=mesh, in_shardings=(P("a"),))
    assert_equal(outer(X), expected)
    many = np.stack([X, 2 * X])
    plain = sd.jax.jit(two_layers)
    assert_equal(jax.vmap(lambda x: plain(x, W))(many), jax.vmap(lambda x: two_layers(x, W))(many))


def test_donated_arguments_reach_the_report(mesh: Mesh) -> None:
    def step(w: jax.Array, x: jax.Array) -> jax.Array:
        return w - 0.1 * (x.T @ (x @ w))

    given = {"mesh": mesh, "in_shardings": (P(None, "b"), P("a", None))}
    arguments = np.zeros((64, 64), np.float32), np.zeros((16, 64), np.float32)
    kept = sd.report(sd.jax.lower(step, *arguments, **given), allocator="xla").memory
    module = sd.jax.lower(step, *arguments, donate_argnums=(0,), **given)
    donated = sd.report(module, allocator="xla").memory
    assert (kept.donated, donated.donated) == (0, donated.results)
    assert donated.peak < kept.peak
    compiled = sd.jax.jit(step, donate_argnums=0, **given).lower(*arguments).compile()
    sizes = compiled.memory_analysis()
    assert sizes.alias_size_in_bytes == donated.donated


def test_donated_arguments_are_gone(mesh: Mesh) -> None:
    x = jax.device_put(X, NamedSharding(mesh, P("a", "b")))
    f = sd.jax.jit(lambda x: x + 1, mesh=mesh, in_shardings=P("a", "b"), donate_argnums=0)
    assert_equal(f(x), X + 1)
    assert x.is_deleted()


def test_keyword_arguments(mesh: Mesh) -> None:
    def f(x: Any, *, scale: Any, power: int) -> Any:
        y = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("a")))
        return scale * y**power

    partitioned = sd.jax.jit(f, mesh=mesh, static_argnames="power")
    assert_equal(partitioned(X, scale=2.0, power=3), 2 * X**3)


def test_a_mesh_of_explicit_axes() -> None:
    mesh = jax.make_mesh((4, 2), ("a", "b"), devices=devices(8))
    with jax.set_mesh(mesh):
        x = jax.device_put(X, NamedSharding(mesh, P("a")))
        f = sd.jax.jit(lambda x: jnp.sin(x) * 2, in_shardings=P("a"), mesh=mesh)
        assert_equal(f(x), np.sin(X) * 2)


def test_without_a_mesh_it_is_jax_jit() -> None:
    assert_equal(sd.jax.jit(two_layers)(X, W), two_layers(X, W))


def test_a_partition_spec_needs_a_mesh() -> None:
    """The error is JAX's."""
    for jit in (jax.jit, sd.jax.jit):
        with pytest.raises(RuntimeError, match="requires a non-empty mesh"):
            jit(two_layers, in_shardings=SPECS)(X, W)


@pytest.mark.parametrize("other", [3, "a", sd.Grid("g", (4, 2), axes=("a", "b"))])
def test_what_is_no_mesh_is_refused(other: Any, mesh: Mesh) -> None:
    for each in (other, mesh.abstract_mesh):
        with pytest.raises(ShardError, match=r"mesh is .*: give a jax\.sharding\.Mesh"):
            sd.jax.jit(two_layers, mesh=each)
    with pytest.raises(ShardError, match="is no jitted function"):
        sd.jax.prove_partition(two_layers, X, W)


def test_what_is_no_function_is_refused_as_by_jax(mesh: Mesh) -> None:
    def generated(x: Any) -> Any:
        yield x

    for each, message in ((3, "Expected a callable"), (generated, "generator function")):
        for jit in (jax.jit, partial(sd.jax.jit, mesh=mesh)):
            with pytest.raises(TypeError, match=message):
                jit(each)(X)


def test_what_jax_has_exported_is_read(mesh: Mesh, tmp_path: Any) -> None:
    named = NamedSharding(mesh, P("a"))
    exported = jax.export.export(jax.jit(jnp.cos, in_shardings=named))(X)
    (tmp_path / "f").write_bytes(exported.serialize())
    module = sd.jax.load(tmp_path / "f")
    sd.run_pipeline(module, "spmd")
    assert "tensor<2x16xf32>" in sd.to_text(module)
    (tmp_path / "g").write_bytes(b"nothing")
    with pytest.raises(ShardError, match=r"holds no function that jax\.export has serialized"):
        sd.jax.load(tmp_path / "g")
    with pytest.raises(ShardError, match="cannot read"):
        sd.jax.load(tmp_path / "none")


def test_no_line_of_ours_is_a_place_of_the_user_s(mesh: Mesh) -> None:
    module = sd.jax.lower(lambda x: jnp.exp(x).sum(), X, mesh=mesh, in_shardings=P("a", "b"))
    text = sd.to_text(module, locations=True)
    assert __file__ in text
    assert "shard_dialect/jax/" not in text


def constrained(x: Any, factor: float = 2.0) -> Any:
    return jax.lax.with_sharding_constraint(x * factor, P("a"))


def test_bare_specs_in_the_function_mean_the_mesh_of_jit(mesh: Mesh) -> None:
    """As with `jax.set_mesh`, also where the function is transformed."""
    x = jnp.ones((8, 4))
    f = sd.jax.jit(constrained, mesh=mesh, static_argnames="factor")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(x, factor=3.0).sharding == NamedSharding(mesh, P("a"))
        assert jax.grad(lambda x: f(x).sum())(x).sharding == NamedSharding(mesh, P("a"))
        assert jax.vmap(f)(jnp.ones((3, 8, 4))).sharding == NamedSharding(mesh, P(None, "a"))
    searched = sd.jax.jit(constrained, mesh=mesh, in_shardings=sd.AutoOptions(plans=3))
    assert_equal(searched(x), 2 * x)


def test_a_mesh_in_context_comes_before_that_of_jit(mesh: Mesh) -> None:
    other = Mesh(mesh.devices.reshape(2, 4), ("a", "b"))
    with jax.set_mesh(other):
        assert sd.jax.jit(constrained, mesh=mesh)(jnp.ones((8, 4))).sharding.mesh == other


def test_one_trace_is_kept_of_a_function_on_a_mesh(mesh: Mesh) -> None:
    traces = []

    def counted(x: Any) -> Any:
        traces.append(x)
        return constrained(x)

    for _ in range(3):
        sd.jax.jit(counted, mesh=mesh)(jnp.ones((8, 4)))
    assert len(traces) == 1


def _decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def decorated(*arguments: Any) -> Any:
        return -function(*arguments)

    return decorated


@pytest.mark.parametrize("made", [_decorated, jax.grad, jax.value_and_grad, jax.vmap, jax.hessian])
def test_what_is_made_of_a_function_is_another_function(
    made: Callable[[Any], Any], mesh: Mesh
) -> None:
    """`functools.wraps`, as JAX uses it, also copies what was noted on the function."""

    def cubes(x: Any) -> Any:
        return (x**3).sum()

    options: dict[str, Any] = {"mesh": mesh, "in_shardings": P("a")}
    assert_equal(sd.jax.jit(cubes, **options)(X), cubes(X))
    assert_equal(sd.jax.jit(made(cubes), **options)(X), made(cubes)(X))


def test_a_function_around_one_whose_shardings_are_found(mesh: Mesh) -> None:
    searched = sd.jax.jit(jnp.tanh, mesh=mesh, in_shardings=sd.AutoOptions(plans=3))
    around = sd.jax.jit(
        wraps(searched)(lambda x: jnp.cos(x)), mesh=mesh, in_shardings=sd.AutoOptions(plans=3)
    )
    assert_equal(around(X), jnp.cos(X))


def test_what_jit_gives_can_be_copied(mesh: Mesh) -> None:
    x = jnp.ones((8, 4))
    jitted = sd.jax.jit(jnp.matmul, mesh=mesh, in_shardings=(P("a"), P()))
    w = jnp.ones((4, 4))
    searched = sd.jax.jit(constrained, mesh=mesh, in_shardings=sd.AutoOptions(plans=3))
    assert_equal(copy.deepcopy(jitted)(x, w), jitted(x, w))
    assert_equal(copy.deepcopy(searched)(x), searched(x))


@pytest.mark.parametrize("name", ["float32", "complex64", "bfloat16", "bool", "uint8", "int32"])
def test_a_function_of_nothing_but_empty_arrays(name: str, mesh: Mesh) -> None:
    empty = np.zeros((8, 0), jnp.dtype(name)), np.zeros((0, 4), jnp.dtype(name))
    rows = NamedSharding(mesh, P(("a", "b")))
    result = sd.jax.jit(lambda a, b: a @ b + 1, in_shardings=(rows, NamedSharding(mesh, P())))(
        *empty
    )
    np.testing.assert_array_equal(result, np.ones((8, 4), np.float32))
    assert result.sharding.is_equivalent_to(rows, 2)


def test_a_fourier_transform_of_what_has_another_layout(mesh: Mesh) -> None:
    """XLA:CPU makes the result of a convolution in a layout for which it has no transform."""
    rng = np.random.default_rng(0)
    image = rng.normal(size=(4, 8, 16, 8)).astype(np.float32)
    kernel = rng.normal(size=(8, 4, 1, 1)).astype(np.float32)

    def transformed(x: Any, w: Any) -> Any:
        made = jax.lax.conv_general_dilated(x, w, [1, 1], "VALID", feature_group_count=2)
        return jnp.fft.rfft(jax.lax.cummax(made**2, axis=0), axis=3).real

    split = [NamedSharding(mesh, spec) for spec in (P(None, "b", None, "a"), P("a"))]
    found = sd.jax.jit(transformed, in_shardings=split)(image, kernel)
    np.testing.assert_allclose(found, transformed(image, kernel), rtol=1e-4, atol=1e-3)


NARROW = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e3m4", "float4_e2m1fn"]


@pytest.mark.parametrize("name", NARROW)
def test_floats_of_few_bits(name: str, mesh: Mesh) -> None:
    """Those with which networks are trained, and quantized."""

    def scaled(x: Any, w: Any) -> Any:
        y = x.astype(jnp.float32) @ w.astype(jnp.float32)
        return (y / 16).astype(x.dtype), x[::-1], x + x, w.T

    x, w = (jnp.asarray(np.arange(64).reshape(8, 8) % 3).astype(name) for _ in range(2))
    given = NamedSharding(mesh, P("a")), NamedSharding(mesh, P(None, "b"))
    actual = sd.jax.jit(scaled, in_shardings=given)(x, w)
    for a, b in zip(actual, scaled(x, w), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a.astype(np.float32), b.astype(np.float32))
