"""What `--suggest` says of a collective, beside every change of one annotation that there is."""

from collections.abc import Iterator
from math import prod

import pytest

import shard_dialect as sd
from shard_dialect.analysis.changes.removals import NoneBetter, Removal
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


Change = tuple[int, float, int]
"""The bytes, seconds and bytes of memory that a change adds."""


def every_change(text: str) -> dict[str, tuple[Change, list[object]]]:
    """For each change of one annotation what it adds, and what communicates then."""
    found = {}
    for name, sizes in ANNOTATED.items():
        for sharding in shardings(tuple(map(int, sizes.split("x")))):
            asked = sd.what_if(sd.parse(text), f"{name}={sharding}")
            before, after = asked.before, asked.after
            added = (
                after.bytes_moved - before.bytes_moved,
                after.schedule.total - before.schedule.total,
                after.memory.peak - before.memory.peak,
            )
            found[f"{name}={sharding}"] = added, list(map(place, after.communication))
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
        better = [added for added in without.values() if added[1] < -1e-12]
        if isinstance(removal, NoneBetter):
            assert not better, collective
            continue
        assert isinstance(removal, Removal)
        change = f"{removal.what}={removal.after}".replace('"', "")
        said_change = removal.bytes_change, removal.seconds_change, removal.memory_change
        assert without[change] == pytest.approx(said_change)
        assert removal.seconds_change <= 0


def test_what_takes_longer_is_no_suggestion() -> None:
    """What removes the second sum of an MLP is to split its weight along the other axis."""
    report = sd.report(sd.parse(MEGATRON), suggest=True)
    removal = report.removals[0]
    assert isinstance(removal, NoneBetter)
    assert removal.seconds_change > 0
    assert "makes the program faster: +" in str(report)


INNER = """
shard.grid @g(shape = 2)
func.func @main(%a: tensor<64x128xf32>) -> tensor<64x64xf32> {
  %0 = call @layer(%a) : (tensor<64x128xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
func.func private @layer(%x: tensor<64x128xf32>) -> tensor<64x64xf32> {
  %rows = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %columns = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %w = stablehlo.constant dense<1.0> : tensor<128x64xf32>
  %s = shard.shard %x to %columns : tensor<64x128xf32>
  %0 = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0]
    : (tensor<64x128xf32>, tensor<128x64xf32>) -> tensor<64x64xf32>
  %r = shard.shard %0 to %rows : tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}
"""


def test_a_value_of_an_inner_function_has_its_name() -> None:
    report = sd.report(sd.parse(INNER), suggest=True)
    (removal,) = report.removals
    assert isinstance(removal, Removal)
    assert removal.what == "x of @layer"
