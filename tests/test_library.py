"""The package as a library: compile, run, check; scatter and gather; modules made in Python."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shard_dialect as sd
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from tests.extras import needs

EXAMPLE = Path("examples/mlp_stablehlo.mlir")
PRODUCT = """
shard.grid @g(shape = 4) {axis_names = ["model"]}
func.func @main(%x: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>},
                %w: tensor<16x6xf32>) -> (tensor<8x6xf32>, tensor<6x8xf32>) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x6xf32>) -> tensor<8x6xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<8x6xf32>) -> tensor<6x8xf32>
  return %0, %1 : tensor<8x6xf32>, tensor<6x8xf32>
}
"""
X = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((16, 6)).astype(np.float32)


def test_run_takes_and_returns_global_arrays() -> None:
    y, z = sd.run(sd.parse(PRODUCT), X, W)
    np.testing.assert_allclose(y, X @ W, rtol=1e-4)
    np.testing.assert_array_equal(z, y.T)


def test_a_compiled_program_reports_and_shows_itself() -> None:
    program = sd.compile(sd.parse(PRODUCT))
    assert [each.kind for each in program.report.entries] == ["all_reduce"]
    assert "mesh.all_reduce" in program.text("distributed")
    assert "shard.all_reduce" in program.text("local")
    assert "replica_groups" in program.text("stablehlo")
    assert program.check().passed
    assert program.check(X, W).passed
    assert program.bisect() is None


@needs("jax")
def test_xla_computes_the_same() -> None:
    ours = sd.run(sd.parse(EXAMPLE), *_inputs_of(EXAMPLE))
    np.testing.assert_allclose(
        sd.run(sd.parse(EXAMPLE), *_inputs_of(EXAMPLE), backend="xla"), ours, rtol=1e-4, atol=1e-5
    )


def _inputs_of(path: Path) -> list[Any]:
    arguments = sd.compile(sd.parse(path)).program.arguments
    generator = np.random.default_rng(0)
    return [
        generator.standard_normal(e.global_type.shape).astype(e.global_type.dtype)
        for e in arguments
    ]


@needs("jax")
def test_jax_arrays_come_back_as_such() -> None:
    import jax

    y, _ = sd.run(sd.parse(PRODUCT), jax.numpy.asarray(X), jax.numpy.asarray(W))
    assert isinstance(y, jax.Array)


@needs("jax")
def test_jax_arrays_stay_on_the_devices_of_xla() -> None:
    import jax

    program = sd.compile(sd.parse(PRODUCT), backend="xla")
    y, z = program(jax.numpy.asarray(X), jax.numpy.asarray(W))
    assert len(y.sharding.device_set) == 4
    np.testing.assert_allclose(y, X @ W, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(z, y.T)
    with pytest.raises(ShardError, match="argument 1 is an array of float16"):
        program(jax.numpy.asarray(X), jax.numpy.asarray(W, "float16"))


@needs("torch")
def test_torch_tensors_come_back_as_such() -> None:
    import torch

    y, _ = sd.run(sd.parse(PRODUCT), torch.from_numpy(X), torch.from_numpy(W))
    assert isinstance(y, torch.Tensor)
    torch.testing.assert_close(y, torch.from_numpy(X) @ torch.from_numpy(W), rtol=1e-4, atol=1e-5)
    narrow = PRODUCT.replace("f32", "bf16")
    y, _ = sd.run(sd.parse(narrow), *(torch.from_numpy(each).bfloat16() for each in (X, W)))
    assert y.dtype == torch.bfloat16


def test_numbers_get_the_program_s_type() -> None:
    y, _ = sd.run(sd.parse(PRODUCT), X.tolist(), W)
    np.testing.assert_allclose(y, X @ W, rtol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X,), "@main takes 2 arguments, and was given 1"),
        ((X, W.T), r"argument 1 is an array of float32 of shape \[6, 16\]: expected float32 of"),
        ((X, W.astype(int)), r"argument 1 is an array of int64"),
    ],
)
def test_other_arguments_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ShardError, match=message):
        sd.run(sd.parse(PRODUCT), *arguments)


@settings(deadline=None)
@given(st.data())
def test_gather_undoes_scatter(data: st.DataObject) -> None:
    """Over random shapes, which need not divide, axes and halos."""
    shape = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    grid = sd.Grid("g", data.draw(st.sampled_from([(4,), (2, 3), (2, 2, 2)])))
    free = list(range(grid.rank))
    split: list[tuple[int, ...]] = []
    for _ in shape:
        split.append(tuple(data.draw(st.lists(st.sampled_from(free), unique=True))) if free else ())
        free = [axis for axis in free if axis not in split[-1]]
    halo = st.tuples(st.integers(0, 2), st.integers(0, 2))
    halos = tuple(data.draw(halo) if axes else () for axes in split)
    sharding = sd.Sharding("g", tuple(split), halos=halos)
    whole = np.arange(np.prod(shape)).reshape(shape)
    shards = sd.scatter(whole, sharding, grid)
    np.testing.assert_array_equal(sd.gather(shards, sharding, grid), whole)


def test_shards_at_offsets_and_with_halos() -> None:
    grid = sd.Grid("g", (3,), axes=("x",))
    offsets = sd.Sharding("g", ((0,),), offsets=((0, 1, 4, 5),))
    shards = sd.scatter(np.arange(5), offsets, grid)
    assert [each.tolist() for each in shards] == [[0], [1, 2, 3], [4]]
    np.testing.assert_array_equal(sd.gather(shards, offsets, grid), np.arange(5))
    halos = sd.Sharding("g", ((0,),), halos=((1, 2),))
    assert [each.tolist() for each in sd.scatter(np.arange(1, 7), halos, grid)] == [
        [0, 1, 2, 3, 4],
        [2, 3, 4, 5, 6],
        [4, 5, 6, 0, 0],
    ]


def test_what_cannot_be_scattered_or_gathered_is_refused() -> None:
    grid = sd.Grid("g", (2,), axes=("x",))
    with pytest.raises(ShardError, match='has no axis "y"; its axes: "x"'):
        sd.scatter(X, [["y"]], grid)
    with pytest.raises(ShardError, match="partial"):
        sd.scatter(X, sd.Sharding("g", ((), ()), partial=(0,)), grid)
    with pytest.raises(ShardError, match="3 shards for the 2 devices"):
        sd.gather([X, X, X], [["x"]], grid)
    with pytest.raises(ShardError, match=r"the shard of device 0 has shape \[2, 1\]"):
        sd.gather([np.zeros((2, 1)), np.zeros((3, 1))], [["x"]], grid)
    for other in (np.zeros((2, 1)), np.zeros(2, np.int32)):
        with pytest.raises(ShardError, match=r"the shard of device 1 is an array of \w+ of \d dim"):
            sd.gather([np.zeros(2), other], [["x"]], grid)
    with pytest.raises(ShardError, match=r"a masked array .* take its \.filled"):
        sd.scatter(np.ma.masked_array(X, mask=X > 3), [["x"]], grid)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_, np.complex64, "bfloat16", "int4"])
@pytest.mark.parametrize("split", [[[], []], [["x"], []], [[], ["y"]], [["y"], []]])
def test_replicas_that_disagree_are_refused(split: Any, dtype: Any) -> None:
    grid = sd.Grid("g", (2, 2), axes=("x", "y"))
    whole = np.arange(12).reshape(4, 3).astype(np.dtype(getattr(ml_dtypes, str(dtype), dtype)))
    shards = sd.scatter(whole, split, grid)
    np.testing.assert_array_equal(sd.gather(shards, split, grid), whole)
    place = shards[3].ndim * (0,)
    shards[3][place] = ~shards[3][place] if dtype is np.bool_ else shards[3][place] + 1
    with pytest.raises(ShardError, match=r"devices \d and 3 have the same shard, but .* at \[0, 0"):
        sd.gather(shards, split, grid)
    if dtype is np.float32:
        for each in shards:
            each[:] = np.nan
        assert np.isnan(sd.gather(shards, split, grid)).all()


def test_options_of_no_use_are_refused() -> None:
    module = sd.parse(PRODUCT)
    with pytest.raises(ShardError, match="it is for suggest=True"):
        sd.report(module, suggest_seconds=3)
    with pytest.raises(ShardError, match="plans is given together with seconds"):
        sd.auto(module, plans=3, seconds=60)
    with pytest.raises(ShardError, match=r"sd\.parse takes a text or a pathlib\.Path"):
        sd.parse(PRODUCT.encode())  # type: ignore[arg-type]


def test_a_module_that_is_made_in_python() -> None:
    grid = sd.Grid("g", (2, 2), axes=("data", "model"))
    with sd.make_context(), ir.Location.unknown():
        module = ir.Module.parse(
            "func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {"
            "  return %x : tensor<4x4xf32> }"
        )
        function = module.body.operations[0].operation
        block = function.regions[0].blocks[0]
        end = list(block.operations)[-1].operation
        with ir.InsertionPoint(end):
            x = sd.annotate(block.arguments[0], grid, [["data"], ["model"]])
            y = ir.Operation.create("math.exp", [x.type], [x]).result
            end.operands[0] = sd.annotate(y, grid, [[], ["model", "data"]], open_dims=[0])
        assert module.operation.verify()
    program = sd.compile(module)
    assert [each.kind for each in program.report.entries] != []
    x = np.arange(16, dtype=np.float32).reshape(4, 4) / 16
    np.testing.assert_allclose(program(x), np.exp(x), rtol=1e-6)
    with module.context, pytest.raises(ShardError, match="another grid @g"):
        sd.annotate(block.arguments[0], sd.Grid("g", (4,)), [[0]])
    number = ir.Operation.parse("%0 = arith.constant 1 : i32", context=module.context)
    with module.context, pytest.raises(ShardError, match="for a ranked tensor, not for a i32"):
        sd.annotate(number.results[0], grid, [])
