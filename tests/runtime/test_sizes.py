"""Programs that leave sizes open, run with several: against numpy, and as one of known sizes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from shard_dialect.abi.tensor_types import Array
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.passes.specialize import propagate_shapes
from shard_dialect.runtime.communicators.world import InProcess
from shard_dialect.runtime.compile import compile_sharded
from shard_dialect.runtime.dynamic_sizes import Sizes
from shard_dialect.runtime.program_cache import Cache

NORMALIZED = """
shard.grid @g(shape = ?x2)
func.func @main(%x: tensor<?x?xf64> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>})
    -> tensor<?x?xf64> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f64
  %rows = tensor.dim %x, %c0 : tensor<?x?xf64>
  %columns = tensor.dim %x, %c1 : tensor<?x?xf64>
  %e = tensor.empty(%rows) : tensor<?xf64>
  %z = linalg.fill ins(%zero : f64) outs(%e : tensor<?xf64>) -> tensor<?xf64>
  %exp = math.exp %x : tensor<?x?xf64>
  %sum = linalg.reduce {arith.addf} ins(%exp : tensor<?x?xf64>) outs(%z : tensor<?xf64>)
           dimensions = [1]
  %wide = tensor.empty(%rows, %columns) : tensor<?x?xf64>
  %sums = linalg.broadcast ins(%sum : tensor<?xf64>) outs(%wide : tensor<?x?xf64>) dimensions = [1]
  %r = arith.divf %exp, %sums : tensor<?x?xf64>
  return %r : tensor<?x?xf64>
}
"""


def run(text: str, sizes: Sizes, *inputs: Array) -> Array:
    """What each device has of the result, if it is the same."""
    with make_context():
        executable = compile_sharded(Source.of(text), sizes=sizes)
    program = executable.program
    world = InProcess(program.devices)
    outputs = world.run(executable, [program.scatter(inputs, rank) for rank in world.ranks])
    (found,) = program.gather(outputs)
    return found


@pytest.mark.parametrize("shape", [(4, 6), (5, 3), (1, 1), (7, 2)])
@pytest.mark.parametrize("grid", ["1x2", "2x2", "3x2"])
def test_softmax_of_any_shape(shape: tuple[int, int], grid: str) -> None:
    drawn = np.random.default_rng(1).standard_normal(shape)
    found = run(NORMALIZED, Sizes("x".join(map(str, shape)), grid), drawn)
    expected = np.exp(drawn) / np.exp(drawn).sum(1, keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["x", "arg0"])
def test_shapes_of_the_inputs_and_a_grid_of_the_ranks(name: str, tmp_path: Path) -> None:
    drawn = np.random.default_rng(1).standard_normal((6, 4))
    np.savez(tmp_path / "in.npz", **{name: drawn})
    sizes = Sizes(inputs=str(tmp_path / "in.npz"), devices=6)
    with make_context():
        program = compile_sharded(Source.of(NORMALIZED), sizes=sizes).program
    assert program.devices == 6
    assert [each.global_type.shape for each in program.arguments] == [(6, 4)]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (Sizes(), "argument x of @main is a tensor<?x?xf64>: give the shapes of the arguments"),
        (Sizes("4x6"), "grid @g(?x2) of function @main has unknown sizes: give them"),
        (Sizes("4x6", devices=3), "grid @g(?x2) cannot have 3 devices, one for each rank"),
        (Sizes("4x6", "2x3"), "grid @g(?x2) cannot have the shape 2x3"),
        (Sizes("4", "2x2"), "it cannot have the shape 4"),
        (Sizes("4x6,2", "2x2"), "function @main has 1 arguments, and is to have 2 shapes"),
        (Sizes("4xsix", "2x2"), "'4xsix': expected sizes with an x between them"),
        (Sizes(f"{2**62}x8", "2x2"), "too many elements"),
        (Sizes(f"{2**63}x8", "2x2"), "too many elements"),
    ],
)
def test_sizes_that_do_not_fit(sizes: Sizes, message: str) -> None:
    with pytest.raises(ShardError) as found, make_context():
        compile_sharded(Source.of(NORMALIZED), sizes=sizes)
    assert message in found.value.message


def test_inputs_that_are_not_there(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", y=np.ones(3))
    sizes = Sizes(grid="2x2", inputs=str(tmp_path / "in.npz"))
    with make_context(), pytest.raises(ShardError, match="holds y, and no x"):
        compile_sharded(Source.of(NORMALIZED), sizes=sizes)


def test_a_function_that_has_nothing_to_do_with_it_may_call_itself() -> None:
    text = """
      func.func @again(%x: tensor<?xf64>) -> tensor<?xf64> {
        %0 = func.call @again(%x) : (tensor<?xf64>) -> tensor<?xf64>
        return %0 : tensor<?xf64>
      }"""
    ones = np.ones((4, 6))
    found = run(NORMALIZED + text, Sizes("4x6", "2x2"), ones)
    np.testing.assert_allclose(found, ones / 6)


def test_time_is_linear_where_sizes_are_computed_again_and_again() -> None:
    """Each slice is one smaller: MLIR's passes alone go over everything for each of them."""
    rounds = 150
    lines, last = [], "%x"
    for number in range(rounds):
        name = f"%m{number}"
        lines.append(f"""
          %d{number} = tensor.dim {last}, %c0 : tensor<?xf64>
          %h{number} = arith.subi %d{number}, %c1 : index
          %s{number} = tensor.extract_slice {last}[1] [%h{number}] [1]
                         : tensor<?xf64> to tensor<?xf64>
          {name} = math.absf %s{number} : tensor<?xf64>""")
        last = name
    text = f"""
      shard.grid @g(shape = 1)
      func.func @main(%x: tensor<?xf64>) -> tensor<?xf64> {{
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        {"".join(lines)}
        return {last} : tensor<?xf64>
      }}"""
    folds = 0
    with make_context():
        module = Source.of(text).parse()
        with pytest.MonkeyPatch.context() as patch:
            run_pass = propagate_shapes._run

            def counted(pipeline: str, op: ir.Operation) -> None:
                nonlocal folds
                folds += 1
                run_pass(pipeline, op)

            patch.setattr(propagate_shapes, "_run", counted)
            run_pipeline(module, "specialize{shapes=200}")
    assert folds < 6
    assert "-> tensor<50xf64>" in str(module)


def test_sizes_for_a_program_that_has_them() -> None:
    text = NORMALIZED.replace("= ?x2", "= 2x2")
    drawn = np.ones((4, 4))
    assert run(text, Sizes("4x4", "2x2"), drawn).shape == (4, 4)
    with pytest.raises(ShardError, match="no grid can have the shape 4x2"):
        run(text, Sizes("4x4", "4x2"), drawn)


def test_a_cluster_may_leave_sizes_open() -> None:
    text = NORMALIZED.replace(
        "shard.grid @g(shape = ?x2)",
        '"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [-1, 2]} : () -> ()',
    )
    assert run(text, Sizes("4x4", "2x2"), np.ones((4, 4))).shape == (4, 4)


POSITIONS = """
shard.grid @g(shape = 2x3x2)
func.func @main() -> (tensor<7xindex>) attributes {mesh.form = "local"} {
  %n:2 = shard.grid_shape @g axes = [1, 0] : index, index
  %i:3 = shard.process_multi_index on @g : index, index, index
  %along:2 = shard.neighbors_linear_indices on @g[%i#0, %i#1, %i#2] split_axes = [1]
               : index, index
  %both:2 = shard.neighbors_linear_indices on @g[%i#0, %i#1, %i#2] split_axes = [2, 1]
              : index, index
  %r = tensor.from_elements %n#0, %n#1, %i#1, %along#0, %along#1, %both#0, %both#1 : tensor<7xindex>
  return %r : tensor<7xindex>
}
"""


@pytest.mark.parametrize("devices", [range(12), [7, 2, 9, 4, 11, 0, 5, 10, 3, 8, 1, 6]])
def test_where_a_device_is(devices: Sequence[int]) -> None:
    ids = f" {{device_ids = {list(devices)}}}"
    text = POSITIONS.replace("2x3x2)", "2x3x2)" + ids)
    with make_context():
        executable = compile_sharded(Source.of(text))
    world = InProcess(12)
    outputs = world.run(executable, [()] * 12)
    ranks = np.array(devices).reshape(2, 3, 2)
    for (x, y, z), rank in np.ndenumerate(ranks):

        def rank_at(row: list[int], place: int) -> int:
            return row[place] if 0 <= place < len(row) else -1

        along, both = ranks[x, :, z].tolist(), ranks[x].T.reshape(-1).tolist()
        place = z * 3 + y
        expected = [3, 2, y, rank_at(along, y - 1), rank_at(along, y + 1)]
        expected += [rank_at(both, place - 1), rank_at(both, place + 1)]
        assert outputs[rank][0].tolist() == expected


def test_what_is_kept_is_of_the_shapes_in_the_inputs_not_of_their_file(tmp_path: Path) -> None:
    sizes = Sizes(inputs=str(tmp_path / "in.npz"), devices=2)
    cache, found = Cache(tmp_path), []
    for shape in ((6, 4), (4, 2)):
        np.savez(sizes.inputs, arg0=np.ones(shape))
        with make_context():
            program = compile_sharded(Source.of(NORMALIZED), cache=cache, sizes=sizes).program
        found += [each.global_type.shape for each in program.arguments]
    assert found == [(6, 4), (4, 2)]
    closed = "func.func @main(%x: tensor<2xf32>)"
    assert sizes.key(closed) == Sizes(inputs="nowhere.npz").key(closed)


FROM_A_SCALAR = """
shard.grid @g(shape = 2)
func.func @main(%n: i64, %x: tensor<8xf64>) -> tensor<8xf64> {
  %one = arith.constant 1 : i64
  %at = arith.addi %n, %one : i64
  %s = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, %at, 8]
  %0 = shard.shard %x to %s : tensor<8xf64>
  %r = math.exp %0 : tensor<8xf64>
  return %r : tensor<8xf64>
}
"""


@pytest.mark.parametrize("at", range(8))
def test_a_scalar_decides_where_shards_begin(at: int) -> None:
    drawn = np.random.default_rng(1).standard_normal(8)
    found = run(FROM_A_SCALAR, Sizes(scalars=str(at)), drawn)
    np.testing.assert_allclose(found, np.exp(drawn), rtol=1e-12)


@pytest.mark.parametrize(
    ("scalars", "message"),
    [
        ("", "give arguments values by --specialize \\(run: --scalars\\)"),
        ("8", "expected to grow from 0"),
        ("x", "argument n of @main is a i64: it cannot have the value x"),
        (",8", "argument x of @main is a tensor<8xf64>: it cannot have the value 8"),
    ],
)
def test_scalars_that_do_not_fit(scalars: str, message: str) -> None:
    with pytest.raises(ShardError, match=message):
        run(FROM_A_SCALAR, Sizes(scalars=scalars), np.ones(8))


def test_the_cache_tells_scalars_apart(tmp_path: Path) -> None:
    with make_context():
        source, cache = Source.of(FROM_A_SCALAR), Cache(tmp_path)
        sizes = (Sizes(scalars="1"), Sizes(scalars="5"))
        local = [
            compile_sharded(source, cache=cache, sizes=each).program.arguments[0].sharding
            for each in sizes
        ]
    assert [str(each) for each in local] == [
        "[[0], {offsets = [[0, 2, 8]]}]",
        "[[0], {offsets = [[0, 6, 8]]}]",
    ]


def test_a_size_that_is_added_to_itself_again_and_again() -> None:
    """Each value is looked at once, though there are 2^2000 ways to the first."""
    sums = "\n".join(f"  %n{at + 1} = arith.subi %n{at}, %n{at} : i64" for at in range(2000))
    text = FROM_A_SCALAR.replace(
        "  %at = arith.addi %n, %one : i64",
        f"  %n0 = arith.addi %n, %one : i64\n{sums}\n  %at = arith.addi %n2000, %n0 : i64",
    )
    drawn = np.random.default_rng(1).standard_normal(8)
    np.testing.assert_allclose(run(text, Sizes(scalars="2"), drawn), np.exp(drawn), rtol=1e-12)
