"""What Model Explorer shows of a program, as it loads the extension itself."""

import json
from pathlib import Path
from typing import Any

import pytest

import shard_dialect as sd
from shard_dialect.report import main
from tests.conftest import ROOT
from tests.extras import needs

EXAMPLE = ROOT / "examples" / "mlp_1d.mlir"
pytestmark = needs("explorer")


@pytest.fixture(scope="module")
def manager() -> Any:
    from model_explorer.extension_manager import ExtensionManager

    manager = ExtensionManager(["shard_dialect.explorer"])
    manager.load_extensions()
    return manager


def graph(manager: Any, path: Path) -> dict[str, Any]:
    """The graph that the web page gets."""
    command = {
        "cmdId": "convert",
        "extensionId": "shard_dialect",
        "modelPath": str(path),
        "settings": {},
    }
    (found,) = manager.run_cmd(command)["graphs"]
    assert json.loads(json.dumps(found)) == found
    ids = [node["id"] for node in found["nodes"]]
    assert len(set(ids)) == len(ids)
    outputs = {node["id"]: len(node["outputsMetadata"]) for node in found["nodes"]}
    for node in found["nodes"]:
        for edge in node["incomingEdges"]:
            made = int(edge["sourceNodeOutputId"])
            assert made < max(1, outputs[edge["sourceNodeId"]])
    graph: dict[str, Any] = found
    return graph


def pairs(items: list[dict[str, str]]) -> dict[str, str]:
    return {each["key"]: each["value"] for each in items}


def test_it_offers_itself_for_mlir_files(manager: Any) -> None:
    ours = [each for each in manager.get_extensions_metadata() if each["id"] == "shard_dialect"]
    assert [each["fileExts"] for each in ours] == [["mlir"]]


def test_collectives_have_their_bytes_time_and_reasons(manager: Any) -> None:
    reported = sd.report(sd.parse(EXAMPLE))
    nodes = graph(manager, EXAMPLE)["nodes"]
    told = {
        key: value for node in nodes for key, value in pairs(node["attrs"]).items() if "#" in key
    }
    for number, each in enumerate(reported.communication, 1):
        assert told[f"#{number}"].startswith(f"{each.kind} along {', '.join(each.axes)}")
        assert told[f"#{number} bytes sent"] == f"{each.bytes:,}"
        assert told[f"#{number} microseconds"] == f"{each.seconds * 1e6:.3g}"
        whys = [told[f"#{number} why {place}"] for place in range(1, len(each.why) + 1)]
        assert whys == list(map(str, each.why))
    coloured = [node["label"] for node in nodes if node["style"]]
    assert coloured == ["mesh.all_gather", "mesh.reduce_scatter"]


def test_edges_show_the_sharding_of_the_value(manager: Any) -> None:
    nodes = graph(manager, EXAMPLE)["nodes"]
    relu = next(node for node in nodes if node["label"] == "arith.maximumf")
    makers = [nodes[int(edge["sourceNodeId"])] for edge in relu["incomingEdges"]]
    assert [each["label"] for each in makers] == ["linalg.contract", "mesh.local_split"]
    (output,) = makers[0]["outputsMetadata"]
    assert pairs(output["attrs"])["shape"] == "2x4x32xf32 [[], [], [0]]"


LAYERS = """
shard.grid @g(shape = 4)
#x = loc("in.mlir":1:1)
func.func @main(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>},
                %w: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
    -> tensor<8x8xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    loc("jit(f)/decoder/layers_0/dot"(#x))
  %1 = call @half(%0, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    loc("jit(f)/decoder/layers_1/jit(half)"(#x))
  %2 = call @half(%1, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
func.func private @half(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32>
    attributes {no_inline} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %r = scf.for %i = %zero to %three step %one iter_args(%a = %x) -> tensor<8x8xf32> {
    %p = stablehlo.dot_general %w, %a, contracting_dims = [1] x [0]
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    scf.yield %p : tensor<8x8xf32>
  }
  return %r : tensor<8x8xf32>
}
"""


@pytest.fixture
def layers(tmp_path: Path) -> Path:
    path = tmp_path / "layers.mlir"
    path.write_text(LAYERS)
    return path


def test_layers_are_scopes_calls_and_regions(manager: Any, layers: Path) -> None:
    nodes = graph(manager, layers)["nodes"]
    products = [node["namespace"] for node in nodes if node["label"] == "stablehlo.dot_general"]
    assert products[0] == "decoder/layers_0"
    assert products[1].startswith("decoder/layers_1/@half/scf.for ")
    assert products[2].startswith("@half/scf.for ")
    inside = [node for node in nodes if "scf.for" in node["namespace"]]
    assert [node["label"] for node in inside if not node["incomingEdges"]] == []


def test_each_call_has_its_own_costs_and_layers_their_sums(manager: Any, layers: Path) -> None:
    reported = sd.report(sd.parse(layers))
    found = graph(manager, layers)
    assert len(reported.communication) > 2
    told = [pairs(node["attrs"]) for node in found["nodes"]]
    for number in range(1, len(reported.communication) + 1):
        assert sum(f"#{number}" in each for each in told) == 1
    sums = found["groupNodeAttributes"]
    assert sums[""]["bytes sent"] == f"{reported.bytes_moved:,}"
    flops = int(sums["decoder"]["floating-point operations"].replace(",", ""))
    assert flops == 4 * 2 * 8 * 8 * 8 // 4  # of the product, and of three in the first loop


@pytest.mark.parametrize("passes", ["propagate", "propagate,materialize", "spmd"])
def test_later_forms_are_shown_too(manager: Any, tmp_path: Path, passes: str) -> None:
    module = sd.parse(EXAMPLE)
    sd.run_pipeline(module, passes)
    path = tmp_path / "later.mlir"
    path.write_text(sd.to_text(module))
    shown = {node["label"] for node in graph(manager, path)["nodes"] if node["style"]}
    assert {each.split(".")[1] for each in shown} == {"all_gather", "reduce_scatter"}


def test_buffers_have_no_graph(manager: Any, tmp_path: Path) -> None:
    module = sd.parse(EXAMPLE)
    sd.run_pipeline(module, "spmd,lower")
    path = tmp_path / "lowered.mlir"
    path.write_text(sd.to_text(module))
    with pytest.raises(sd.ShardError, match="in the lowered form, on buffers"):
        graph(manager, path)


def test_what_cannot_be_read_is_said_with_its_place(manager: Any, tmp_path: Path) -> None:
    path = tmp_path / "broken.mlir"
    path.write_text("func.func @main(")
    with pytest.raises(sd.ShardError, match=r"broken\.mlir:1:\d+: error: "):
        graph(manager, path)


def test_node_data_is_of_the_graphs_nodes(manager: Any, layers: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    assert main([str(layers), f"--explorer-data={folder}", "-o", str(tmp_path / "r")]) == 0
    ids = {node["id"] for node in graph(manager, layers)["nodes"]}
    reported = sd.report(sd.parse(layers))
    sums, most = {}, {}
    for path in folder.iterdir():
        (data,) = json.loads(path.read_text()).values()
        values = {key: each["value"] for key, each in data["results"].items()}
        assert values
        assert set(values) <= ids
        sums[data["name"]], most[data["name"]] = sum(values.values()), max(values.values())
    assert sums["bytes sent"] == reported.bytes_moved
    assert sums["microseconds"] == pytest.approx(reported.schedule.total * 1e6)
    assert most["live bytes"] == reported.memory.peak


def test_the_arena_has_no_live_bytes_of_ops(
    layers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [f"--explorer-data={tmp_path / 'data'}", "--allocator=arena"]
    assert main([str(layers), *flags]) == 1
    said = capsys.readouterr().err
    assert "error: --explorer-data is given together with --allocator=arena" in said
