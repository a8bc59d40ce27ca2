"""What the benchmark of communication reads from our local form, from HLO, and from the peers."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path

import pytest

import shard_dialect as sd
from benchmarks import communication, hlo, ours
from shard_dialect.ir.bindings import ir
from tests.conftest import run_child
from tests.extras import needs

needs_jax = needs("jax")
needs_torch = needs("torch")

PRODUCT = """
shard.grid @g(shape = 4)
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>) -> tensor<8x32xf32> {
  %s = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %r = shard.sharding @g split_axes = [[]] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<8x16xf32>
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = linalg.matmul ins(%xs, %w : tensor<8x16xf32>, tensor<16x32xf32>)
                     outs(%z : tensor<8x32xf32>) -> tensor<8x32xf32>
  %ys = shard.shard %y to %r : tensor<8x32xf32>
  return %ys : tensor<8x32xf32>
}
"""
CALL = """
shard.grid @g(shape = 4)
func.func private @twice(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = arith.addf %x, %x : tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %r = shard.sharding @g split_axes = [[]] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<8x16xf32>
  %y = call @twice(%xs) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %ys = shard.shard %y to %r : tensor<8x16xf32>
  return %ys : tensor<8x16xf32>
}
"""
LOOPS = """
shard.grid @g(shape = 4)
func.func @main(%x: tensor<8xf32>, %n: index) -> tensor<8xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c5 = arith.constant 5 : index
  %0 = scf.for %i = %c0 to %c5 step %c2 iter_args(%a = %x) -> tensor<8xf32> {
    %3 = shard.all_reduce %a on @g grid_axes = [0] : tensor<8xf32> -> tensor<8xf32>
    scf.yield %3 : tensor<8xf32>
  }
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i7 = stablehlo.constant dense<7> : tensor<i32>
  %1:2 = stablehlo.while(%i = %i0, %a = %0) : tensor<i32>, tensor<8xf32>
    cond {
      %4 = stablehlo.compare LT, %i, %i7, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    } do {
      %5 = shard.all_reduce %a on @g grid_axes = [0] : tensor<8xf32> -> tensor<8xf32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %6 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %6, %5 : tensor<i32>, tensor<8xf32>
    }
  %2 = scf.for %i = %c0 to %n step %c2 iter_args(%a = %1#1) -> tensor<8xf32> {
    %7 = shard.all_to_all %a on @g grid_axes = [0] split_axis = 0 concat_axis = 0
      : tensor<8xf32> -> tensor<8xf32>
    scf.yield %7 : tensor<8xf32>
  }
  return %2 : tensor<8xf32>
}
"""


def counted(text: str, tmp_path: Path) -> ours.Ours:
    path = tmp_path / "program.mlir"
    path.write_text(text)
    return ours.count(path)


def test_ours_are_counted_from_the_local_form(tmp_path: Path) -> None:
    found = counted(PRODUCT, tmp_path)
    assert found.tally is not None
    assert found.tally.count == {"all_reduce": 1}
    assert found.tally.moved == {"all_reduce": 2 * 3 * (8 * 32 * 4) // 4}
    assert found.devices == 4
    assert found.flops == found.tally.flops * 4 == 2 * 8 * 16 * 32


def test_calls_are_inlined(tmp_path: Path) -> None:
    found = counted(CALL, tmp_path)
    assert found.tally is not None
    assert found.tally.moved == {"all_gather": 3 * (2 * 16 * 4)}


def test_loop_bodies_count_as_often_as_they_run() -> None:
    module = sd.parse(LOOPS)
    tally = ours.tally_of(module)
    assert tally.count == {"all_reduce": 3 + 7, "all_to_all": 1}
    assert tally.moved == {"all_reduce": 10 * 48, "all_to_all": 24}
    assert tally.notes == ["the body of scf.for counts once: how often it runs is not known"]


def test_the_distributed_form_counts_alike() -> None:
    module = sd.parse(PRODUCT)
    sd.run_pipeline(module, "propagate,materialize,optimize-collectives")
    assert ours.tally_of(module).moved == {"all_reduce": 1536}


def test_what_is_not_partitioned_is_counted_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sd.run_pipeline

    def refusing(module: ir.Module, pipeline: str | list[str]) -> None:
        if pipeline == "partition,bundle-collectives":
            raise sd.ShardError("not today", "a/b.mlir:1:2")
        run(module, pipeline)

    monkeypatch.setattr(sd, "run_pipeline", refusing)
    found = counted(PRODUCT, tmp_path)
    assert found.tally is not None
    assert found.tally.moved == {"all_reduce": 1536}
    assert found.tally.notes == [f"{ours.DISTRIBUTED}: b.mlir:1:2: error: not today"]
    assert not found.tally.knows_flops


def test_what_is_refused_stands_in_the_table(tmp_path: Path) -> None:
    path = tmp_path / "halos.mlir"
    halos = "split_axes = [[], [0]] halo_sizes = [%n, 1] :"
    unknown = "{\n  %one = arith.constant 1 : i64\n  %n = arith.shli %one, %one : i64\n"
    text = PRODUCT.replace("split_axes = [[], [0]] :", halos).replace("{\n", unknown, 1)
    path.write_text(text)
    rows, mine = communication.rows_of(path, [])
    text = communication.table([("halos", rows, mine)])
    assert mine.tally is None
    assert mine.devices == 4
    assert "[1] halos.mlir:" in text
    assert str(tmp_path) not in text


def test_uneven_shards_count_as_the_largest(tmp_path: Path) -> None:
    """And what a reduce-scatter, or an exchange, cuts is padded to equal shards."""
    tally = counted(PRODUCT.replace("shape = 4", "shape = 3"), tmp_path).tally
    assert tally is not None
    assert tally.moved == {"all_gather": 2 * (8 * 6 * 4)}
    module = sd.parse(
        """"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [4]} : () -> ()
func.func @main(%x: tensor<8x7xf32, #mesh.shard<@g, [[0]]>>)
    attributes {mesh.form = "distributed"} {
  %0 = "mesh.all_to_all"(%x) {mesh_axis = [0], split_axis = 1 : i64, concat_axis = 0 : i64}
    : (tensor<8x7xf32, #mesh.shard<@g, [[0]]>>) -> tensor<8x7xf32, #mesh.shard<@g, [[], [0]]>>
  return
}"""
    )
    assert ours.tally_of(module).moved == {"all_to_all": 3 * (2 * 2 * 4)}


def test_warnings_stand_below_the_table(tmp_path: Path) -> None:
    casts = """%d = tensor.cast %y : tensor<8x32xf32> to tensor<?x32xf32>
  %ys = tensor.cast %d : tensor<?x32xf32> to tensor<8x32xf32>"""
    text = PRODUCT.replace("%ys = shard.shard %y to %r : tensor<8x32xf32>", casts)
    tally = counted(text, tmp_path).tally
    assert tally is not None
    [note] = tally.notes
    assert note.startswith("program.mlir:12:8: warning: 'tensor.cast' op has no sharding rule")
    assert note.endswith(", and 1 more")


def test_table_has_a_column_for_each_kind(tmp_path: Path) -> None:
    path = tmp_path / "a_mlp_1d.generic.mlir"
    path.write_text(PRODUCT)
    rows, mine = communication.rows_of(path, [])
    lines = communication.table([("a_mlp_1d", rows, mine)]).splitlines()
    assert lines[0].split("  ")[0] == "program"
    assert lines[2].split() == ["a_mlp_1d", "by", "hand", "786,432"]
    assert lines[3].split() == ["ours", "[1]", "1:", "1,536", "1,536", "0.00", "1.00"]
    assert lines[4].startswith("[1] fewer bytes than the plan by hand")


def test_programs_are_found_once(tmp_path: Path) -> None:
    for name in ("b.mlir", "a.mlir", "a.generic.mlir"):
        (tmp_path / name).write_text("")
    assert [path.name for path in communication.found_in(tmp_path)] == ["a.generic.mlir", "b.mlir"]


HLO = """\
HloModule jit_f, is_scheduled=true, num_partitions=8

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}

%fused (p0: f32[16,4], p1: u32[]) -> f32[4,4] {
  %p0 = f32[16,4]{1,0} parameter(0)
  %p1 = u32[] parameter(1)
  %zero = u32[] constant(0)
  ROOT %slice = f32[4,4]{1,0} dynamic-slice(%p0, %p1, %zero), dynamic_slice_sizes={4,4}
}

%body (b: (s32[], f32[16,4])) -> (s32[], f32[16,4]) {
  %b = (s32[], f32[16,4]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%b), index=0
  %v = f32[16,4]{1,0} get-tuple-element(%b), index=1
  %permuted = f32[16,4]{1,0} collective-permute(%v), source_target_pairs={{0,1},{1,0}}
  ROOT %next = (s32[], /*index=1*/f32[16,4]{1,0}) tuple(%i, %permuted)
}

%condition (c: (s32[], f32[16,4])) -> pred[] {
  %c = (s32[], f32[16,4]{1,0}) parameter(0)
  ROOT %less = pred[] constant(true)
}

ENTRY %main (a: bf16[16,8], w: f32[8,4]) -> (f32[4,4], f32[16,4]) {
  %a = bf16[16,8]{1,0} parameter(0)
  %w = f32[8,4]{1,0} parameter(1)
  %started = (bf16[16,8]{1,0}, bf16[32,8]{1,0}) all-gather-start(%a), replica_groups={{0,1},{2,3}}
  %gathered = bf16[32,8]{1,0} all-gather-done(%started)
  %dot = f32[16,4]{1,0} dot(%a, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %kept = f32[16,4]{1,0} all-reduce(%dot), replica_groups={}, to_apply=%add
  %sliced = f32[16,4]{1,0} all-reduce(%dot), replica_groups=[2,4]<=[8], to_apply=%add
  %id = u32[] partition-id()
  %shard = f32[4,4]{1,0} fusion(%sliced, %id), kind=kLoop, calls=%fused
  %parts = (f32[8]{0}, f32[8]{0}) all-to-all(%half, %half), replica_groups=mesh['x'=4,'y'=2] {'y'}
  %half = f32[8]{0} constant({...})
  %zero = s32[] constant(0)
  %init = (s32[], f32[16,4]{1,0}) tuple(%zero, %kept)
  %loop = (s32[], f32[16,4]{1,0}) while(%init), condition=%condition, body=%body, TRIPS
  %out = f32[16,4]{1,0} get-tuple-element(%loop), index=1
  ROOT %made = (f32[4,4]{1,0}, f32[16,4]{1,0}) tuple(%shard, %out)
}
""".replace("TRIPS", 'backend_config={"known_trip_count":{"n":"5"}}')


def test_hlo_is_counted() -> None:
    tally = hlo.tally_of(HLO)
    assert tally.count == {
        "all_gather": 1,
        "all_reduce": 1,
        "reduce_scatter": 1,
        "all_to_all": 1,
        "collective_permute": 5,
    }
    assert tally.moved == {
        "all_gather": 16 * 8 * 2,
        "all_reduce": 2 * 7 * (16 * 4 * 4) // 8,
        "reduce_scatter": 3 * (16 * 4 * 4) // 4,
        "all_to_all": (2 * 8 * 4) // 2,
        "collective_permute": 5 * (16 * 4 * 4),
    }
    assert tally.flops == 2 * 16 * 4 * 8
    assert tally.notes == [
        "1 all_reduce and slice counted as reduce_scatter: 192 bytes more as compiled"
    ]


def test_an_all_reduce_that_is_also_returned_stays_one() -> None:
    tally = hlo.tally_of(HLO.replace("tuple(%shard, %out)", "tuple(%shard, %sliced)"))
    assert tally.count["all_reduce"] == 2
    assert not tally.notes


def test_a_loop_of_unknown_length_counts_once() -> None:
    tally = hlo.tally_of(HLO.replace("known_trip_count", "unknown"))
    assert tally.count["collective_permute"] == 1
    assert "the body of a loop counts once: how often it runs is not known" in tally.notes


def test_groups_have_a_size() -> None:
    assert doctest.testmod(hlo).failed == 0
    with pytest.raises(ValueError, match=r"cannot read replica_groups=\?"):
        hlo.group_size("replica_groups=?", 8)


def test_convolutions_of_hlo_count() -> None:
    text = """\
ENTRY %main (x: f32[2,10,10,3], k: f32[3,3,3,8]) -> f32[2,8,8,8] {
  %x = f32[2,10,10,3]{3,2,1,0} parameter(0)
  %k = f32[3,3,3,8]{3,2,1,0} parameter(1)
  ROOT %y = f32[2,8,8,8]{3,2,1,0} convolution(%x, %k), window={size=3x3}, dim_labels=b01f_01io->b01f
}
"""
    assert hlo.tally_of(text).flops == 2 * (2 * 8 * 8 * 8) * (3 * 3 * 3)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (
            "%0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], "
            "contracting_dims = [2] x [1] : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) "
            "-> tensor<2x3x5xf32>",
            2 * 2 * 3 * 4 * 5,
        ),
        ("%0 = stablehlo.tanh %a : tensor<2x3x4xf32>", 0),
    ],
)
def test_products_have_flops(op: str, expected: int) -> None:
    module = sd.parse(
        f"func.func @main(%a: tensor<2x3x4xf32>, %b: tensor<2x4x5xf32>) {{\n{op}\nreturn }}"
    )
    assert ours.tally_of(module).flops == expected


SDY = """
"builtin.module"() <{sym_name = "m"}> ({
  "sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "mesh"}> : () -> ()
  "func.func"() <{arg_attrs = [{sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>},
                               {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}],
                  function_type = (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>,
                  res_attrs = [{sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}],
                  sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>):
    %0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<
      lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}>
      : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %1 = "sdy.sharding_constraint"(%0) <{sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}>
      : (tensor<8x32xf32>) -> tensor<8x32xf32>
    "func.return"(%1) : (tensor<8x32xf32>) -> ()
  }) : () -> ()
}) : () -> ()
"""


@needs_jax
@pytest.mark.parametrize("partitioner", ["shardy", "gspmd"])
def test_xla_is_compiled_and_read(partitioner: str, tmp_path: Path) -> None:
    path = tmp_path / "program.mlir"
    path.write_text(SDY)
    row = communication.xla(path, partitioner)
    assert row.tally is not None, row.reason
    # Its rows are split along x, so that four of them are reduced, then gathered.
    assert row.tally.moved == {"all_reduce": 2 * 3 * 512 // 4, "all_gather": 512}
    assert row.tally.flops * 8 == 2 * 8 * 16 * 32


@needs_jax
def test_what_a_peer_cannot_compile_has_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "program.mlir"
    path.write_text(PRODUCT)
    row = communication.xla(path, "shardy")
    assert row.tally is None
    assert row.reason


@needs_torch
def test_dtensor_is_counted() -> None:
    row = communication.dtensor("c_megatron_fwd")
    assert row.tally is not None, row.reason
    assert row.tally.moved == {"all_reduce": 393_216}
    assert row.tally.flops == 52_428_800
    assert row.tally.knows_flops


@needs_torch
def test_what_dtensor_refuses_has_its_reason() -> None:
    row = communication.dtensor("j1_split_merge")
    assert row.tally is None
    assert "view" in row.reason


def test_command_needs_no_peers(tmp_path: Path) -> None:
    path = tmp_path / "program.mlir"
    path.write_text(PRODUCT)
    command = [sys.executable, "-m", "benchmarks.communication", str(path), "--peers", "none"]
    done = run_child(command)
    assert done.returncode == 0, done.stderr
    assert "1: 1,536" in done.stdout


def test_without_programs_it_says_how_to_name_some(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.communication", "--programs", str(tmp_path)]
    done = run_child(command)
    assert done.returncode == 2
    assert f"there are no programs in {tmp_path}" in done.stderr
