"""The benchmark on XLA's tests: programs are found in C++, and annotations become Shardy's."""

import pytest

from tests.extras import needs

CPP = """
TEST_P(SpmdPartitioningTest, Doubled) {
  absl::string_view hlo_string = R"(
HloModule module

ENTRY entry {
  %x = f32[8,4] parameter(0)
  %copy = f32[8,4] copy(%x), sharding={devices=[2,2]<=[2,2]T(1,0)}
  ROOT %sum = f32[8,4] add(%copy, %copy), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
})";
  TF_ASSERT_OK_AND_ASSIGN(auto module,
                          PartitionComputation(hlo_string, /*num_devices=*/4));
}

TEST_P(SpmdPartitioningTest, WithoutText) { Run(); }
"""


@needs("jax")
def test_programs_are_found() -> None:
    from benchmarks.xla_tests import tests_of

    found, others = tests_of(CPP)
    assert [(test.name, test.devices) for test in found] == [("Doubled", 4)]
    assert others == ["WithoutText"]


@needs("jax")
def test_annotations_are_shardys() -> None:
    from benchmarks.gspmd_annotations import to_shardy

    text = """
    func.func @main(%x: tensor<8x4xf32>) -> (tensor<8x4xf32> {mhlo.sharding = "{replicated}"}) {
      %0 = mhlo.copy %x {mhlo.sharding = "{devices=[2,2]<=[2,2]T(1,0)}"} : tensor<8x4xf32>
      %1 = stablehlo.add %0, %0 {mhlo.sharding =
          "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"} : tensor<8x4xf32>
      %2 = stablehlo.abs %1 {mhlo.sharding = "{devices=[4,1]0,3,1,2}"} : tensor<8x4xf32>
      %3 = stablehlo.abs %2 {mhlo.sharding = "{maximal device=2}"} : tensor<8x4xf32>
      return %3 : tensor<8x4xf32>
    }"""
    written = to_shardy(text, 4)
    assert 'sdy.mesh<["a0"=2, "a1"=2]>, sym_name = "m0"' in written
    assert 'sdy.mesh<["a0"=4], device_ids=[0, 3, 1, 2]>, sym_name = "m1"' in written
    # The argument is only copied, to this sharding.
    assert 'arg_attrs = [{sdy.sharding = #sdy.sharding<@m0, [{"a1"}, {"a0"}]>}]' in written
    assert 'sharding = #sdy.sharding<@m0, [{"a1"}, {"a0"}]>' in written
    assert 'per_value<[<@m0, [{"a0"}, {}]>]>' in written
    assert 'per_value<[<@m1, [{"a0"}, {}]>]>' in written
    assert "per_value<[<@maximal2, []>]>" in written
    assert "res_attrs = [{sdy.sharding = #sdy.sharding<@m0, [{}, {}]>}]" in written


@needs("jax")
@pytest.mark.parametrize("sharding", ["{manual}", "{devices=[2,2]<=[4] last_tile_dims={manual}}"])
def test_manual_shardings_are_refused(sharding: str) -> None:
    from benchmarks.gspmd_annotations import to_shardy

    text = f'''
    func.func @main(%x: tensor<8xf32> {{mhlo.sharding = "{sharding}"}}) -> tensor<8xf32> {{
      return %x : tensor<8xf32>
    }}'''
    with pytest.raises(ValueError, match="manual"):
        to_shardy(text, 4)
