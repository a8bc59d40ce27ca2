"""A rewrite that is not tried, since it has failed on the same elsewhere, would have failed."""

import random

import pytest

import shard_dialect as sd
from shard_dialect.passes.optimize import failures
from shard_dialect.passes.optimize.graph import FunctionGraph, GraphOp, GraphValue
from shard_dialect.passes.optimize.move_reshard import CollectivePass

TYPE = "tensor<8x16xf32>"
SPLITS = ('[{}, {"a"}]', '[{"a"}, {}]', '[{"b"}, {"a"}]', '[{}, {"a", "b"}]', "[{}, {}]")
LAYERS = (
    ("product", "tanh", "narrow"),
    ("product", "product", "residual"),
    ("norm", "product", "residual"),
    ("turned", "residual", "tanh"),
    ("norm", "turned", "narrow", "residual"),
)


class Stack:
    """A function of layers of two kinds, with shardings of weights that are drawn."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.arguments = [f'%x: {TYPE} {{sdy.sharding = #sdy.sharding<@g, [{{"b"}}, {{?}}]>}}']
        self.values = ["%x"]
        kinds = self.random.sample(LAYERS, 2)
        splits = self.random.choices(SPLITS, k=2)
        for _ in range(16):
            for step in self.random.choice(kinds):
                getattr(self, step)(self.random.choice(splits))

    def text(self) -> str:
        body = "\n".join(self.lines)
        head = f"func.func @main({', '.join(self.arguments)}) -> {TYPE} {{"
        return (
            f'sdy.mesh @g = <["a"=2, "b"=2]>\n{head}\n{body}\nreturn {self.values[-1]} : {TYPE}\n}}'
        )

    def add(self, text: str) -> str:
        name = f"%{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def tanh(self, split: str) -> None:
        self.values.append(self.add(f"stablehlo.tanh {self.values[-1]} : {TYPE}"))

    def residual(self, split: str) -> None:
        other = self.random.choice(self.values[-4:])
        self.values.append(self.add(f"stablehlo.add {self.values[-1]}, {other} : {TYPE}"))

    def narrow(self, split: str) -> None:
        said = f"#sdy.sharding_per_value<[<@g, {split}>]>"
        text = f"stablehlo.negate {self.values[-1]} {{sdy.sharding = {said}}} : {TYPE}"
        self.values.append(self.add(text))

    def product(self, split: str) -> None:
        weight = f"%w{len(self.arguments)}"
        type_ = "tensor<16x16xf32>"
        self.arguments.append(f"{weight}: {type_} {{sdy.sharding = #sdy.sharding<@g, {split}>}}")
        text = f"stablehlo.dot_general {self.values[-1]}, {weight}, contracting_dims = [1] x [0]"
        self.values.append(self.add(f"{text} : ({TYPE}, {type_}) -> {TYPE}"))

    def norm(self, split: str) -> None:
        zero = self.add("stablehlo.constant dense<0.0> : tensor<f32>")
        text = f"stablehlo.reduce({self.values[-1]} init: {zero}) applies stablehlo.add"
        total = self.add(f"{text} across dimensions = [1] : ({TYPE}, tensor<f32>) -> tensor<8xf32>")
        text = f"stablehlo.broadcast_in_dim {total}, dims = [0] : (tensor<8xf32>) -> {TYPE}"
        self.values.append(self.add(f"stablehlo.add {self.values[-1]}, {self.add(text)} : {TYPE}"))

    def turned(self, split: str) -> None:
        text = f"stablehlo.reverse {self.values[-1]}, dims = [0] : {TYPE}"
        self.values.append(self.add(text))


def test_what_is_not_tried_would_have_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    found, hits = failures._found, list[str]()

    def checked(
        rewrite: CollectivePass, reshard: GraphOp, graph: FunctionGraph
    ) -> list[GraphValue] | None:
        looked_at = found(rewrite, reshard, graph)
        if looked_at is not None:
            graph.looked_at = dict.fromkeys(filter(None, (*reshard.results, *reshard.operands)))
            assert not rewrite.improve_at(reshard, graph), (rewrite.name, text)
            assert list(graph.looked_at) == looked_at
            hits.append(rewrite.name)
        return looked_at

    monkeypatch.setattr(failures, "_found", checked)
    for seed in range(20):
        text = Stack(seed).text()
        sd.run_pipeline(sd.parse(text), "spmd")
    assert len(hits) > 100
