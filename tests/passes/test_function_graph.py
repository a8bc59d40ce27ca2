"""The graph that rewrites of collectives change: read, changed and written back."""

from itertools import pairwise
from pathlib import Path

import pytest

from shard_dialect.collectives import AllGather
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.reading.source import Source
from shard_dialect.model import Sharding
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.passes.materialize import choose_op_sharding
from shard_dialect.passes.materialize.type_consistency import read_distributed
from shard_dialect.passes.optimize.graph import FunctionGraph, InsertionPoint, write_graph

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.mlir"))
GATHER = """
"mesh.cluster"() {dim_sizes = [2], rank = 1 : i64, sym_name = "g"} : () -> ()
func.func @main(%x: tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4xf32>
    attributes {mesh.form = "distributed"} {
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0]]}
    : (tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4xf32>
  %1 = math.exp %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""
LAYER = """
  %w{n} = stablehlo.dot_general %x{n}, %a, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %x{m} = stablehlo.tanh %w{n} : tensor<8x16xf32>
"""


def graph_of(module: ir.Module) -> FunctionGraph:
    """The graph of the first function of a module."""
    shardings = Shardings.of(module.operation)
    return FunctionGraph(read_distributed(functions_of(module.operation)[0], shardings), shardings)


def layers(count: int) -> str:
    """Products with one matrix, one after the other, of which each needs a reshard."""
    text = "".join(LAYER.format(n=n, m=n + 1) for n in range(count))
    return f"""
"mesh.cluster"() {{dim_sizes = [4], rank = 1 : i64, sym_name = "g"}} : () -> ()
func.func @main(%x0: tensor<8x16xf32> {{mesh.sharding = #mesh.shard<@g, [[], [0]]>}},
    %a: tensor<16x16xf32> {{mesh.sharding = #mesh.shard<@g, [[], [0]]>}}) -> tensor<8x16xf32> {{
{text}  return %x{count} : tensor<8x16xf32>
}}
"""


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_unchanged_graph_leaves_the_text(path: Path) -> None:
    with make_context():
        module = Source.of(path.read_text()).parse()
        run_pipeline(module, "propagate,materialize")
        before = str(module)
        shardings = Shardings.of(module.operation)
        for handle in functions_of(module.operation):
            assert form_of(handle) == "distributed"
            write_graph(FunctionGraph(read_distributed(handle, shardings), shardings))
        assert str(module) == before


def test_many_ops_are_created_at_one_place_in_their_order() -> None:
    """There is room for them, as positions are numbered anew."""
    with make_context():
        module = Source.of(GATHER).parse()
        graph = graph_of(module)
        gather, exponential, _ = graph.ops()
        source = Sharding("g", ((0,),))
        value = gather.operands[0]
        assert value is not None
        first = graph.create_steps(
            [AllGather(0, (0,))], value, source, InsertionPoint.at(exponential)
        )
        for _ in range(50):
            graph.create_steps([AllGather(0, (0,))], value, source, InsertionPoint.after(gather))
        graph.replace_in(exponential, gather.results[0], first)
        (block,) = graph.blocks
        assert all(a.position < b.position for a, b in pairwise(block.ops))
        assert [block.index(op) for op in block.ops] == list(range(len(block.ops)))
        assert block.ops[-3].results == [first]
        graph.drop_unused()
        write_graph(graph)
        assert module.operation.verify()
        assert str(module).count("mesh.all_gather") == 1


def test_a_number_that_only_a_region_uses_stays() -> None:
    text = """
"mesh.cluster"() {dim_sizes = [2], rank = 1 : i64, sym_name = "g"} : () -> ()
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "distributed"} {
  %c = arith.constant 2.0 : f32
  %unused = arith.constant 3.0 : f32
  %0 = linalg.map ins(%x : tensor<4xf32>) outs(%x : tensor<4xf32>) (%a: f32, %b: f32) {
    %1 = arith.mulf %a, %c : f32
    linalg.yield %1 : f32
  }
  return %0 : tensor<4xf32>
}
"""
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, "optimize-collectives")
        assert "2.000000e+00" in str(module)
        assert "3.000000e+00" not in str(module)


def test_a_collective_in_a_region_that_is_not_read_stays() -> None:
    text = GATHER.replace(
        "%1 = math.exp %0 : tensor<4xf32>",
        """%1 = tensor.generate {
  ^bb0(%i: index):
    %2 = "mesh.local_split"(%0) {sharding = [[0]]}
      : (tensor<4xf32>) -> tensor<4xf32, #mesh.shard<@g, [[0]]>>
    %3 = tensor.extract %0[%i] : tensor<4xf32>
    tensor.yield %3 : f32
  } : tensor<4xf32>""",
    )
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, "optimize-collectives")
        assert "mesh.local_split" in str(module)


def test_what_was_tried_in_vain_is_tried_again_once_what_it_looked_at_has_changed() -> None:
    with make_context():
        graph = graph_of(Source.of(GATHER).parse())
        gather, exponential, _ = graph.ops()
        value = gather.results[0]
        before = graph.now()
        assert value.changed_at < before
        graph.users(value)
        assert value in graph.looked_at
        graph.retype(value, Sharding("g", ((0,),)))
        assert before < value.changed_at
        source = gather.operands[0]
        assert source is not None
        before = graph.now()
        graph.set_operand(exponential, 0, source)  # so the gather is replaced
        assert before < value.changed_at
        assert before < source.changed_at


def test_layers_that_are_alike_are_chosen_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def choices(count: int) -> int:
        found = []
        cheapest = choose_op_sharding._cheapest
        with monkeypatch.context() as patch, make_context():
            patch.setattr(
                choose_op_sharding, "_cheapest", lambda each: found.append(each) or cheapest(each)
            )
            run_pipeline(Source.of(layers(count)).parse(), "propagate,materialize")
        return len(found)

    assert choices(12) == choices(6) > 0
