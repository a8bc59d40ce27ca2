"""What plans say, in the module that `sd.torch.lower` makes."""

from functools import partial
from typing import Any

import pytest
import torch
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

import shard_dialect as sd
from shard_dialect.errors import ShardError

MESH = sd.Grid("mesh", (2, 4), ("dp", "tp"))
X = torch.zeros(4, 8)
R = Replicate()


class Layers(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
        self.table = torch.nn.Embedding(8, 8)

    def forward(self, x: Any, i: Any) -> Any:
        return {"y": self.down(torch.relu(self.up(x))) + self.table(i)}


def lowered(plan: Any, mesh: Any = MESH, **options: Any) -> str:
    arguments = (X, torch.zeros(4, dtype=torch.int64))
    module = sd.torch.lower(Layers(), arguments, plan, mesh, **options)
    return sd.to_text(module, locations=True)


def arguments(text: str) -> dict[str, str]:
    """The sharding of each argument of `main`, by name."""
    line = next(each for each in text.splitlines() if "func.func @main" in each)
    found = {}
    for each in line.split("%arg")[1:]:
        sharding = each.partition("#mesh.shard<@mesh, ")[2].partition(">}")[0]
        found[each.partition('loc("')[2].partition('"')[0]] = sharding
    return found


def marks(text: str) -> list[str]:
    return [
        line.partition("#mesh.shard<@mesh, ")[2].partition(">}")[0]
        for line in text.splitlines()
        if '"mesh.annotate"' in line
    ]


def test_placements_by_names_with_wildcards() -> None:
    found = arguments(
        lowered({"*.weight": [Shard(0), Shard(-1)], "up.bias": [R, Shard(0)], "x": [Shard(0), R]})
    )
    assert found == {
        "up.weight": "[[0], [1]]",
        "up.bias": "[[1]]",
        "down.weight": "[[0], [1]]",
        "down.bias": "[[]]",
        "table.weight": "[[0], [1]]",
        "x": "[[0], []]",
        "i": "",
    }


def test_the_first_rule_holds() -> None:
    found = arguments(lowered({"up.weight": [R, R], "**.weight": [Shard(0), R]}))
    assert (found["up.weight"], found["down.weight"]) == ("[[], []]", "[[0], []]")


def test_styles_place_parameters_and_what_is_inside() -> None:
    text = lowered({"tp": {"up": ColwiseParallel(), "down": RowwiseParallel()}})
    found = arguments(text)
    assert [found[f"{each}.weight"] for each in ("up", "down")] == ["[[1], []]", "[[], [1]]"]
    assert [found[f"{each}.bias"] for each in ("up", "down")] == ["[[1]]", "[[]]"]
    whole = "[[], [], {open = [0, 1], replicated = [1]}]"
    assert marks(text) == [whole, *["[[], [1], {open = [0, 1]}]"] * 2, whole]


def test_styles_of_embeddings() -> None:
    columns = arguments(lowered({"tp": {"table": ColwiseParallel()}}))
    rows = arguments(lowered({"tp": {"table": RowwiseParallel()}}))
    assert (columns["table.weight"], rows["table.weight"]) == ("[[], [1]]", "[[1], []]")


def test_styles_of_inputs_and_outputs() -> None:
    before = PrepareModuleInput(input_layouts=Shard(0), desired_input_layouts=Shard(1))
    after = PrepareModuleOutput(output_layouts=R, desired_output_layouts=Shard(1))
    text = lowered({"tp": {"up": before, "down": after, "table": SequenceParallel(sequence_dim=0)}})
    assert arguments(text)["x"] == "[[1], [], {open = [0, 1]}]"
    columns, rows = "[[], [1], {open = [0, 1]}]", "[[1], [], {open = [0, 1]}]"
    assert marks(text) == [columns, columns, "[[1], {open = [0]}]", rows]


def test_a_plan_of_parallelize_module_is_a_plan_for_a_mesh_of_one_dimension() -> None:
    mesh = sd.Grid("mesh", (4,))
    found = arguments(lowered({"up": ColwiseParallel(), "down": RowwiseParallel()}, mesh))
    assert (found["up.weight"], found["down.weight"]) == ("[[0], []]", "[[], [0]]")


def test_fully_shard_splits_parameters_later_than_the_rest() -> None:
    found = arguments(lowered({"tp": {"up": ColwiseParallel()}, "dp": fully_shard}))
    assert found["up.weight"] == "[[1, 0], [], {priority = [1, unit]}]", "as FSDP2 holds it"
    assert found["down.weight"] == "[[0], [], {priority = [1, unit]}]"
    columns = partial(fully_shard, shard_placement_fn=lambda p: Shard(p.dim() - 1))
    found = arguments(lowered({"dp": {"down": columns}}))
    assert (found["down.weight"], found["up.weight"]) == (
        "[[], [0], {priority = [unit, 1]}]",
        "[[], []]",
    )


def test_outputs_of_modules_and_of_the_whole() -> None:
    text = lowered({"down": [Shard(0), Partial()], "output.y": [Shard(0), Shard(1)]})
    assert marks(text) == ["[[0], [], [1]]"]
    result = next(each for each in text.splitlines() if "func.func @main" in each)
    assert result.rpartition("->")[2].count("#mesh.shard<@mesh, [[0], [1]]>") == 1


def test_a_partial_output_is_summed_where_it_is_used() -> None:
    module = sd.torch.lower(
        Layers(),
        (X, torch.zeros(4, dtype=torch.int64)),
        {"tp": {"up": ColwiseParallel(), "down": RowwiseParallel(output_layouts=Partial())}},
        MESH,
    )
    assert "all_gather" not in [each.kind for each in sd.communication(module).entries][:1]


def test_gradients_have_the_placements_of_their_parameters() -> None:
    text = lowered({"up.weight": [R, Shard(0)]}, loss=lambda found: found["y"].sum())
    result = next(each for each in text.splitlines() if "func.func @main" in each)
    assert result.rpartition("->")[2].count("#mesh.shard<@mesh, [[1], []]>") == 1


class Other(ParallelStyle):  # type: ignore[misc]
    def _apply(self, module: Any, device_mesh: Any) -> Any:
        return module


@pytest.mark.parametrize(
    ("plan", "error"),
    [
        ({"up.wieght": [R, R]}, r'"up.wieght" in the plan matches no .*; near: "up.weight"'),
        ({"tp": {"upp": ColwiseParallel()}}, r'"upp" in the plan matches no module; near: "up"'),
        ({"tp": {"none": fully_shard}}, r'"none" in the plan matches no parameter'),
        ({"output.z": [R, R]}, r'"output.z" in the plan matches no result; near: "output.y"'),
        ({"pp": {"up": ColwiseParallel()}}, r'"pp" is no dimension of the mesh; .*: dp, tp'),
        ({"up.bias": [Shard(1), R]}, r"^up.bias: error: Shard\(dim=1\) of a tensor of 1 dim"),
        ({"x": [R, Partial()]}, r"^x: error: Partial\(sum\) is for outputs of modules inside"),
        ({"up": [Shard(2), R]}, r"^up \(output\): error: Shard\(dim=2\) of a tensor of 2"),
        ({"x": [Shard(0), Shard(0)]}, r"^x: error: dimension 0 of size 4 cannot be split evenly"),
        ({"x": [R]}, r'"x" has 1 placements: expected 2, one for each dimension'),
        ({"x": Shard(0)}, r'"x" has Shard\(dim=0\), and the mesh 2 dimensions: give a list'),
        ({"x": "dp"}, r"has 'dp', and the mesh 2 dimensions"),
        ({"tp": {"x": 3}}, r'"x" has 3: expected placements, a style'),
        ({"tp": {"": ColwiseParallel()}}, r"ColwiseParallel is for nn.Linear and nn.Embedding"),
        ({"tp": {"up": Other()}}, r'^up: error: the style Other of "up" is none of ColwisePar'),
        ([], r"a plan is a dict from names"),
    ],
)
def test_plans_that_do_not_fit(plan: Any, error: str) -> None:
    with pytest.raises(ShardError, match=error):
        lowered(plan)


def test_a_mesh_is_a_mesh() -> None:
    with pytest.raises(ShardError, match="DeviceMesh or an"):
        lowered({}, mesh=(2, 4))
    with pytest.raises(ShardError, match="must be known"):
        lowered({}, mesh=sd.Grid("mesh", (2, None)))  # type: ignore[arg-type]
