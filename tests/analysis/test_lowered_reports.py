"""The report on the lowered form says what that on the program before it said."""

from pathlib import Path

import pytest

import shard_dialect as sd
from shard_dialect.analysis.program_report import ProgramReport
from tests.conftest import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.mlir"))


def entry_of(path: Path) -> str | None:
    return "main" if "func.func @main" in path.read_text() else None


def both(path: Path, passes: str = "") -> tuple[ProgramReport, ProgramReport]:
    """The reports on the local form, in our arena, and on the lowered form."""
    module = sd.parse(path)
    sd.run_pipeline(module, f"spmd{passes}")
    local = sd.report(module, entry_of(path), allocator="arena")
    lowered = sd.parse(path)
    sd.run_pipeline(lowered, f"spmd{passes},lower")
    return local, sd.report(lowered, entry_of(path))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("passes", ["", ",overlap-collectives"])
def test_it_communicates_and_stores_the_same(path: Path, passes: str) -> None:
    local, lowered = both(path, passes)
    assert lowered.devices == local.devices
    assert lowered.memory.peak == local.memory.peak
    told = [
        [(c.kind, c.axes, c.group, c.operand, c.bytes, c.seconds, c.times) for c in each]
        for each in (local.communication, lowered.communication)
    ]
    assert sorted(told[1]) == sorted(told[0])
    for each in lowered.communication:
        assert "makes the value" in each.why[0].text or "comes" in each.why[0].text


@pytest.mark.parametrize("name", ["mlp_1d", "mlp_2d", "megatron"])
def test_its_products_compute_the_same(name: str) -> None:
    local, lowered = both(ROOT / "examples" / f"{name}.mlir")
    assert lowered.compute.flops == local.compute.flops
    assert lowered.compute.repeated_flops == local.compute.repeated_flops
    assert lowered.compute.unknown == ()
    assert lowered.schedule.total >= lowered.schedule.critical_path


LOOP = """
shard.grid @g(shape = 4)
func.func @main(%x: tensor<8x2xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>},
                %w: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
    -> tensor<8x2xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %r = scf.for %i = %zero to %three step %one iter_args(%a = %x) -> tensor<8x2xf32> {
    %p = stablehlo.dot_general %w, %a, contracting_dims = [1] x [0]
      : (tensor<8x8xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
    %q = stablehlo.tanh %p : tensor<8x2xf32>
    scf.yield %q : tensor<8x2xf32>
  }
  return %r : tensor<8x2xf32>
}
"""


def test_what_is_in_a_loop_counts_as_often_as_it_runs(tmp_path: Path) -> None:
    path = tmp_path / "loop.mlir"
    path.write_text(LOOP)
    local, lowered = both(path)
    assert [each.times for each in lowered.communication] == [3]
    assert lowered.bytes_moved == local.bytes_moved == 3 * 3 * 16
    assert lowered.compute.flops == local.compute.flops == 3 * (2 * 2 * 8 * 2 + 2 * 2)
    # What follows the loop needs what it writes.
    chain = [each.name for each in lowered.schedule.critical_ops]
    assert chain.index("scf.for") < len(chain) - 1


@pytest.mark.parametrize("options", [{"suggest": True}, {"allocator": "xla"}])
def test_what_needs_an_earlier_form_is_refused(options: dict[str, object]) -> None:
    module = sd.parse(ROOT / "examples" / "mlp_1d.mlir")
    sd.run_pipeline(module, "spmd,lower")
    with pytest.raises(sd.ShardError, match="is in the lowered form, but "):
        sd.report(module, **options)  # type: ignore[arg-type]


BLOCKS = """
shard.grid @g(shape = 2)
func.func @main(%p: tensor<i1>, %x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
    -> (tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], []]>}) {
  %c = tensor.extract %p[] : tensor<i1>
  cf.cond_br %c, ^bb1(%x : tensor<4x8xf32>), ^bb2(%x : tensor<4x8xf32>)
^bb1(%a: tensor<4x8xf32>):
  %0 = math.exp %a : tensor<4x8xf32>
  cf.br ^bb2(%0 : tensor<4x8xf32>)
^bb2(%b: tensor<4x8xf32>):
  return %b : tensor<4x8xf32>
}
"""


@pytest.mark.parametrize("passes", ["", "spmd"])
def test_values_of_later_blocks_have_no_maker(passes: str) -> None:
    module = sd.parse(BLOCKS)
    if passes:
        sd.run_pipeline(module, passes)
    report = sd.report(module)
    assert [each.kind for each in report.communication] == ["all_gather"]
    assert report.communication[0].why[0].text.startswith("the argument of a block comes")


def test_blocks_that_lowering_makes_branches_of_are_read(tmp_path: Path) -> None:
    path = tmp_path / "blocks.mlir"
    path.write_text(BLOCKS)
    local, lowered = both(path)
    assert lowered.bytes_moved == local.bytes_moved > 0


def test_several_blocks_on_buffers_are_refused() -> None:
    module = sd.parse("""
      shard.grid @g(shape = 2)
      func.func @main(%x: memref<4xf32> {mesh.argument = tensor<4xf32>},
                      %r: memref<4xf32> {mesh.result = tensor<4xf32>})
          attributes {mesh.form = "lowered"} {
        cf.br ^bb1
      ^bb1:
        memref.copy %x, %r : memref<4xf32> to memref<4xf32>
        return
      }
    """)
    with pytest.raises(sd.ShardError, match="a report on several blocks needs the local form"):
        sd.report(module)


FORALL = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
    -> (tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], []]>}) {
  %e = tensor.empty() : tensor<4x8xf32>
  %r = scf.forall (%i) in (4) shared_outs(%o = %e) -> tensor<4x8xf32> {
    %s = tensor.extract_slice %x[%i, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<1x8xf32>
    %y = math.exp %s : tensor<1x8xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %y into %o[%i, 0] [1, 8] [1, 1]
        : tensor<1x8xf32> into tensor<4x8xf32>
    }
  }
  return %r : tensor<4x8xf32>
}
"""


def test_loops_that_run_at_once_are_read(tmp_path: Path) -> None:
    path = tmp_path / "forall.mlir"
    path.write_text(FORALL)
    local, lowered = both(path)
    assert lowered.bytes_moved == local.bytes_moved > 0
    assert lowered.memory.peak == local.memory.peak
