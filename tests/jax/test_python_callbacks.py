"""Calls back to Python: once, with global values, as by `jax.jit` with shardings."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shard_dialect as sd
from shard_dialect.backends.xla.xla_devices import devices

X = np.arange(16.0, dtype=np.float32).reshape(8, 2)


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return Mesh(np.array(devices(8)).reshape(4, 2), ("a", "b"))


def output(capsys: Any, function: Callable[..., Any], *arguments: Any) -> list[str]:
    jax.block_until_ready(function(*arguments))
    jax.effects_barrier()
    return sorted(capsys.readouterr().out.splitlines())


def test_a_sharded_value_is_printed_whole(mesh: Mesh, capsys: Any) -> None:
    def shouts(x: Any) -> Any:
        jax.debug.print("{} {}", x.sum(), x[:, 0])
        return jax.lax.fori_loop(0, 2, lambda i, x: (jax.debug.print("trip {}", i), x + i)[1], x)

    jitted = sd.jax.jit(shouts, in_shardings=NamedSharding(mesh, P("a")))
    expected = ["120.0 [ 0.  2.  4.  6.  8. 10. 12. 14.]", "trip 0", "trip 1"]
    assert output(capsys, jitted, X) == expected


def test_in_a_manual_computation_each_device_prints(mesh: Mesh, capsys: Any) -> None:
    def local(x: Any) -> Any:
        jax.debug.print("{}", x.sum())
        return x

    def mapped(x: Any) -> Any:
        return jax.shard_map(local, mesh=mesh, in_specs=P("a"), out_specs=P("a"))(x)

    found = output(capsys, sd.jax.jit(mapped), X)
    assert found == output(capsys, jax.jit(mapped), X)
    assert len(found) == 8


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_, np.complex64, jnp.bfloat16])
def test_results_come_from_one_call(mesh: Mesh, dtype: Any) -> None:
    calls = []

    def draws(x: Any) -> Any:
        calls.append(x.shape)
        return (x + len(calls)).astype(dtype)  # another number at each call

    def asks(x: Any) -> Any:
        result = jax.ShapeDtypeStruct(x.shape, dtype)
        return io_callback(draws, result, x), jax.pure_callback(draws, result, x + 1)

    found = sd.jax.jit(asks, in_shardings=NamedSharding(mesh, P("a", "b")))(X)
    jax.block_until_ready(found)
    assert calls == [X.shape, X.shape]
    both = [
        {str((X + first).astype(dtype)), str((X + 1 + second).astype(dtype))}
        for first, second in ((1, 2), (2, 1))
    ]
    assert {str(np.asarray(each)) for each in found} in both


def test_ordered_effects_are_refused_by_jax(mesh: Mesh) -> None:
    def shouts(x: Any) -> Any:
        jax.debug.print("{}", x.sum(), ordered=True)
        return x

    with pytest.raises(ValueError, match="ordered effects are not supported for more than 1 dev"):
        sd.jax.jit(shouts, in_shardings=NamedSharding(mesh, P("a")))(X)


Seen = list[float]


def in_order(seen: Seen) -> Callable[[Any], Any]:
    """A function whose effects are ordered: on one level, in a loop, in a branch, in a function."""

    def told(x: Any) -> np.floating[Any]:
        seen.append(float(np.sum(x)))
        return np.float32(2 * seen[-1])

    def tell(x: Any) -> Any:
        return io_callback(told, jax.ShapeDtypeStruct((), np.float32), x, ordered=True)

    def function(x: Any) -> Any:
        first = tell(x)
        x = jax.lax.fori_loop(0, 3, lambda i, x: (tell(x + i), x * 1.5)[1], x)
        x = jax.lax.cond(x.sum() > 0, lambda x: x + tell(x), lambda x: -x, x)
        return x + jax.jit(tell)(x[:, :1]) + first

    return function


@pytest.mark.parametrize("spec", [P("a", "b"), P(), P(None, "b")])
def test_ordered_effects(mesh: Mesh, spec: P) -> None:
    def run(jit: Any) -> tuple[Any, Seen]:
        seen: Seen = []
        function = jit(in_order(seen), in_shardings=NamedSharding(mesh, spec))
        results = [function(X), function(X + 1)]  # in the order of the calls, too
        jax.block_until_ready(results)
        jax.effects_barrier()
        return results, seen

    (ours, seen), (theirs, expected) = run(sd.jax.jit), run(jax.jit)
    np.testing.assert_allclose(ours, theirs)
    assert seen == expected
    assert len(seen) == 12


def test_ordered_effects_beside_arguments_without_elements(mesh: Mesh) -> None:
    def run(jit: Any) -> list[int]:
        seen: list[int] = []

        def function(x: Any) -> Any:
            io_callback(lambda x: seen.append(x.size), None, x, ordered=True)
            return x

        jax.block_until_ready(jit(function, in_shardings=NamedSharding(mesh, P()))(X[:0]))
        jax.effects_barrier()
        return seen

    assert run(sd.jax.jit) == run(jax.jit) == [0]


def test_the_device_of_a_callback(mesh: Mesh) -> None:
    last = jax.sharding.SingleDeviceSharding(devices(8)[-1])

    def tells(x: Any) -> Any:
        io_callback(lambda x: None, None, x, ordered=True, sharding=last)
        return x

    compiled = sd.jax.jit(tells, in_shardings=NamedSharding(mesh, P("a"))).lower(X).compile()
    assert "u32[] constant(7)" in compiled.as_text()


def test_the_order_of_each_device_in_shard_map(mesh: Mesh) -> None:
    def run(jit: Any) -> list[Seen]:
        seen: dict[int, Seen] = {}

        def note(device: Any, x: Any) -> None:
            seen.setdefault(int(device), []).append(float(np.sum(x)))

        def local(x: Any) -> Any:
            device = jax.lax.axis_index("a") * 2 + jax.lax.axis_index("b")
            io_callback(note, None, device, x, ordered=True)
            io_callback(note, None, device, -x, ordered=True)
            return x

        mapped = jax.shard_map(local, mesh=mesh, in_specs=P("a"), out_specs=P("a"), check_vma=False)
        jax.block_until_ready(jit(mapped)(X))
        jax.effects_barrier()
        return [seen[device] for device in range(8)]

    assert run(sd.jax.jit) == run(jax.jit)


def test_a_partitioned_call_is_of_each_shard(mesh: Mesh) -> None:
    def function(jit: Any) -> set[str]:
        seen: set[str] = set()

        def note(x: Any) -> None:
            seen.add(str(x))

        def calls(x: Any) -> Any:
            jax.debug.callback(note, x, partitioned=True)
            return x

        jax.block_until_ready(jit(calls, in_shardings=NamedSharding(mesh, P("a", "b")))(X))
        jax.effects_barrier()
        return seen

    assert function(sd.jax.jit) == function(jax.jit)
