"""What `--suggest` says of a collective, beside every change of one annotation that there is."""

from collections.abc import Iterator
from math import prod

import pytest

import shard_dialect as sd
from shard_dialect.analysis.changes.removals import Removal
from shard_dialect.analysis.reasons.communication import Collective
from tests.model.exhaustive import arrangements, subsets

AXES = {"data": 2, "model": 4}
MEGATRON = """
sdy.mesh @mesh = <["data"=2, "model"=4]>
func.func @main(
    %x: tensor<4x64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>},
    %up: tensor<256x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>},
    %down: tensor<1024x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>})
    -> (tensor<4x64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) {
  %0 = stablehlo.dot_general %x, %up, contracting_dims = [2] x [0]
    : (tensor<4x64x256xf32>, tensor<256x1024xf32>) -> tensor<4x64x1024xf32>
  %1 = stablehlo.tanh %0 : tensor<4x64x1024xf32>
  %2 = stablehlo.dot_general %1, %down, contracting_dims = [2] x [0]
    : (tensor<4x64x1024xf32>, tensor<1024x256xf32>) -> tensor<4x64x256xf32>
  %3 = stablehlo.add %x, %2 : tensor<4x64x256xf32>
  return %3 : tensor<4x64x256xf32>
}
"""
SUMS = """
sdy.mesh @mesh = <["data"=2, "model"=4]>
func.func @main(
    %x: tensor<4x64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>},
    %up: tensor<256x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>},
    %down: tensor<1024x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {"data"}]>})
    -> (tensor<4x64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) {
  %0 = stablehlo.dot_general %x, %up, contracting_dims = [2] x [0]
    : (tensor<4x64x256xf32>, tensor<256x1024xf32>) -> tensor<4x64x1024xf32>
  %1 = stablehlo.dot_general %0, %down, contracting_dims = [2] x [0]
    : (tensor<4x64x1024xf32>, tensor<1024x256xf32>) -> tensor<4x64x256xf32>
  return %1 : tensor<4x64x256xf32>
}
"""
ANNOTATED = {
    "x": "4x64x256",
    "up": "256x1024",
    "down": "1024x256",
    "result0": "4x64x256",
}


def shardings(shape: tuple[int, ...]) -> Iterator[str]:
    """Every sharding that divides a tensor evenly."""
    names = list(AXES)
    for used in subsets(range(2)):
        for split in arrangements(used, len(shape)):
            axes = [[names[axis] for axis in each] for each in split]
            counts = [prod(AXES[name] for name in each) for each in axes]
            if all(size % count == 0 for size, count in zip(shape, counts, strict=True)):
                lists = [f"[{', '.join(each)}]" for each in axes]
                yield f"[{', '.join(lists)}]"


def place(collective: Collective) -> tuple[str, tuple[str, ...], str | None]:
    return collective.kind, collective.axes, collective.location


def every_change(text: str) -> dict[str, tuple[int, list[object]]]:
    """For each change of one annotation the bytes that it adds, and what communicates then."""
    found = {}
    for name, sizes in ANNOTATED.items():
        for sharding in shardings(tuple(map(int, sizes.split("x")))):
            after = sd.what_if(sd.parse(text), f"{name}={sharding}")
            added = after.after.bytes_moved - after.before.bytes_moved
            found[f"{name}={sharding}"] = added, list(map(place, after.after.communication))
    return found


@pytest.mark.parametrize("text", [MEGATRON, SUMS], ids=["an MLP", "two sums"])
def test_a_removal_is_verified_and_none_is_said_only_where_none_does_it(text: str) -> None:
    changed = every_change(text)
    report = sd.report(sd.parse(text), suggest=True)
    counts = list(map(place, report.communication))
    said = list(zip(report.communication, report.removals, strict=True))
    assert said
    for collective, removal in said:
        key = place(collective)
        without = {
            change: added
            for change, (added, others) in changed.items()
            if others.count(key) < counts.count(key)
        }
        if removal is None:
            assert not without, collective
            continue
        assert isinstance(removal, Removal)
        change = f"{removal.what}={removal.after}".replace('"', "")
        assert without[change] == removal.bytes_change


def test_the_second_sum_of_an_mlp_goes_along_another_axis() -> None:
    """What removes it is to split the weight along the other axis, which costs more."""
    report = sd.report(sd.parse(MEGATRON), suggest=True)
    removal = report.removals[0]
    assert isinstance(removal, Removal)
    assert (removal.what, removal.after) == ("down", '[["data"], []]')
    assert removal.bytes_change == 98_304
