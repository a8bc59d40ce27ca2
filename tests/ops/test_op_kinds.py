"""What is worked out once for ops that are alike: ops that differ in what matters are not."""

import pytest

import shard_dialect as sd
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import constant_behind
from shard_dialect.ir.context import make_context
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.numbered_function import read_function
from shard_dialect.ir.reading.source import Source
from shard_dialect.ops.op_record import OpRecord
from shard_dialect.ops.op_table import RECORDS, OpKinds
from shard_dialect.passes.framework.pipeline import run_pipeline

GRID = '"mesh.cluster"() {dim_sizes = [2], rank = 1 : i64, sym_name = "g"} : () -> ()\n'
PARTIAL = "tensor<4xf32, #mesh.shard<@g, [[], [0]]>>"
REDUCED = (
    f'  %2 = "mesh.all_reduce"(%0) {{mesh_axis = [0], reduction = "sum"}} : ({PARTIAL})'
    f" -> tensor<4xf32>\n"
    f'  %3 = "mesh.all_reduce"(%1) {{mesh_axis = [0], reduction = "sum"}} : ({PARTIAL})'
    f" -> tensor<4xf32>\n"
    "  return %2, %3 : tensor<4xf32>, tensor<4xf32>\n}\n"
)
MAIN = (
    'func.func @main() -> (tensor<4xf32>, tensor<4xf32>) attributes {mesh.form = "distributed"} {\n'
)
CONSTANTS = f"""{GRID}{MAIN}
  %0 = arith.constant dense<0.0> : {PARTIAL}
  %1 = arith.constant dense<1.0> : {PARTIAL}
{REDUCED}"""
FILLS = f"""{GRID}{MAIN}
  %c0 = arith.constant 0.0 : f32
  %c1 = arith.constant 1.0 : f32
  %e = tensor.empty() : {PARTIAL}
  %0 = linalg.fill ins(%c0 : f32) outs(%e : {PARTIAL}) -> {PARTIAL}
  %1 = linalg.fill ins(%c1 : f32) outs(%e : {PARTIAL}) -> {PARTIAL}
{REDUCED}"""
X = "tensor<1x4x5xi8, #mesh.shard<@g, [[], [], [0]]>>"
Y = "tensor<1x5x4xi8, #mesh.shard<@g, [[], [0], []]>>"
Z = "tensor<1x4x4xi32, #mesh.shard<@g, [[], [], [], [0]]>>"
PADDED = f"""{GRID}
func.func @main(%x: {X}, %y: {Y}) -> (tensor<1x4x4xi32>, tensor<1x4x4xi32>)
    attributes {{mesh.form = "distributed"}} {{
  %c0 = "tosa.const"() {{values = dense<0> : tensor<1xi8>}} : () -> tensor<1xi8>
  %c1 = "tosa.const"() {{values = dense<3> : tensor<1xi8>}} : () -> tensor<1xi8>
  %0 = tosa.matmul %x, %y, %c0, %c0 : ({X}, {Y}, tensor<1xi8>, tensor<1xi8>) -> {Z}
  %1 = tosa.matmul %x, %y, %c1, %c1 : ({X}, {Y}, tensor<1xi8>, tensor<1xi8>) -> {Z}
  %2 = "mesh.all_reduce"(%0) {{mesh_axis = [0], reduction = "sum"}} : ({Z}) -> tensor<1x4x4xi32>
  %3 = "mesh.all_reduce"(%1) {{mesh_axis = [0], reduction = "sum"}} : ({Z}) -> tensor<1x4x4xi32>
  return %2, %3 : tensor<1x4x4xi32>, tensor<1x4x4xi32>
}}
"""
TWICE = (
    GRID
    + """
func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %c = arith.constant dense<1.0> : tensor<4x8xf32>
  %0 = math.atan2 %x, %c : tensor<4x8xf32>
  %1 = math.atan2 %x, %y : tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}
"""
)


@pytest.mark.parametrize("text", [CONSTANTS, FILLS], ids=["constants", "fills"])
def test_a_partial_constant_is_no_identity_because_another_one_is(text: str) -> None:
    with make_context(), pytest.raises(ShardError, match="counted once a device"):
        run_pipeline(Source.of(text).parse(), "partition")


def test_padding_may_not_be_read_because_another_op_may_read_it() -> None:
    with make_context(), pytest.raises(ShardError, match="their shards must be equal"):
        run_pipeline(Source.of(PADDED).parse(), "partition")


def test_a_users_rule_is_asked_for_each_op(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(query: sd.Query) -> sd.ShardingRule | None:
        if constant_behind(query.op.operands[1]) is None:
            return None
        return sd.ShardingRule.einsum("ij,ij->ij", query.operands, query.results)

    def rules() -> list[bool]:
        function = read_function(functions_of(module.operation)[0])
        kinds = OpKinds()
        ops = [op for op in function.ops if op.name == "math.atan2"]
        return [kinds.kind_in(function.values, op).rule is not None for op in ops]

    with make_context():
        module: ir.Module = Source.of(TWICE).parse()
        assert rules() == [True, True]
        monkeypatch.setitem(RECORDS, "math.atan2", OpRecord(rule))
        assert rules() == [True, False]


def test_a_reshape_by_an_argument_is_not_one_by_a_constant() -> None:
    text = (
        GRID
        + """
func.func @main(%x: tensor<4x6xf32>, %s: tensor<2xi64>) -> (tensor<24x1xf32>, tensor<24x1xf32>) {
  %c = arith.constant dense<[24, 1]> : tensor<2xi64>
  %0 = tensor.reshape %x(%c) : (tensor<4x6xf32>, tensor<2xi64>) -> tensor<24x1xf32>
  %1 = tensor.reshape %x(%s) : (tensor<4x6xf32>, tensor<2xi64>) -> tensor<24x1xf32>
  return %0, %1 : tensor<24x1xf32>, tensor<24x1xf32>
}
"""
    )
    with make_context():
        module = Source.of(text).parse()
        function = read_function(functions_of(module.operation)[0])
        kinds = OpKinds()
        ops = [op for op in function.ops if op.name == "tensor.reshape"]
        assert len({kinds.kind_in(function.values, op) for op in ops}) == 2


def test_loops_without_a_rule_are_refused_though_all_is_sharded() -> None:
    x = "tensor<4x6xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}"
    text = f"""{GRID}
func.func @main(%x: {x}) -> ({x}) attributes {{propagated, mesh_cluster = @g}} {{
  %1 = "stablehlo.custom_call"(%x) {{call_target_name = "foo", sharding = [[0], []],
    mesh.shardings = [#mesh.shard<@g, [[0], []]>]}} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}}
"""
    with make_context(), pytest.raises(ShardError, match="annotation for its loops"):
        run_pipeline(Source.of(text).parse(), "materialize")


def test_loops_are_alike_by_what_is_in_the_regions_inside() -> None:
    def loop(reducer: str, init: str) -> str:
        return f"""
  %{init}_{reducer}:2 = stablehlo.while(%a = %x, %i = %c) : tensor<4x6xf32>, tensor<i32>
   cond {{
    %p = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %r = stablehlo.reduce(%a init: %{init}) applies stablehlo.{reducer} across dimensions = [1]
      : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
    %b = stablehlo.broadcast_in_dim %r, dims = [0] : (tensor<4xf32>) -> tensor<4x6xf32>
    stablehlo.return %b, %i : tensor<4x6xf32>, tensor<i32>
  }}"""

    loops = "".join(map(loop, ("add", "add", "maximum"), ("y", "z", "z")))
    text = f"""
func.func @main(%x: tensor<4x6xf32>, %c: tensor<i32>, %y: tensor<f32>, %z: tensor<f32>) {{
{loops}
  return
}}
"""
    with make_context():
        module = Source.of(text).parse()
        function = read_function(functions_of(module.operation)[0])
        kinds, whiles = OpKinds(), [op for op in function.ops if op.name == "stablehlo.while"]
        first, again, other = (kinds.kind_in(function.values, op) for op in whiles)
        assert first is again
        assert first is not other
