"""A mutation changes one annotation; its costs are those of the program, which stays right."""

import random

import pytest

import shard_dialect as sd
from tests.conftest import ROOT

EXAMPLES = ROOT / "examples"
KINDS = {"annotation", "value", "loops"}
NAMES = ["mlp_1d", "slow_ffn", "megatron", "mlp_stablehlo", "training_step", "convolution"]


def drawn(name: str, found: list[sd.Mutation]) -> list[sd.Mutation]:
    """Up to two of each kind."""
    rng = random.Random(name)
    kinds = [[each for each in found if each.kind == kind] for kind in sorted(KINDS)]
    return [each for of_kind in kinds for each in rng.sample(of_kind, min(2, len(of_kind)))]


@pytest.mark.parametrize("name", NAMES)
def test_a_mutation_costs_what_the_list_says_and_is_right(name: str) -> None:
    module = sd.parse(EXAMPLES / f"{name}.mlir")
    before = sd.report(module)
    found = sd.mutations(module)
    assert {each.kind for each in found} <= KINDS
    for each in drawn(name, found):
        changed = sd.mutate(module, each.number)
        after = sd.report(changed)
        assert after.bytes_moved - before.bytes_moved == each.bytes_change
        assert after.memory.peak - before.memory.peak == each.memory_change
        assert after.schedule.total - before.schedule.total == pytest.approx(each.seconds_change)
        assert sd.compile(changed).check().passed


def test_by_name() -> None:
    module = sd.parse(EXAMPLES / "slow_ffn.mlir")
    changed = sd.mutate(module, "gate=[[], [model]]", "up=[[], [model]]", "down=[[model], []]")
    assert sd.report(changed).bytes_moved == 393_216
    assert sd.report(module).bytes_moved == 983_040


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (1000, "--mutate=1000: there is no such mutation"),
        ("nobody=[[]]", "nothing of @main is called 'nobody'"),
    ],
)
def test_what_is_not_there(what: int | str, message: str) -> None:
    with pytest.raises(sd.ShardError, match=message):
        sd.mutate(sd.parse(EXAMPLES / "slow_ffn.mlir"), what)


def test_a_value_is_resharded_elsewhere_and_a_product_computed_along_another_loop() -> None:
    module = sd.parse(EXAMPLES / "slow_ffn.mlir")
    found = sd.mutations(module)
    assert {each.kind for each in found} == KINDS
    value = next(each for each in found if each.kind == "value" and each.after == "[[], []]")
    assert 'mesh.annotate"' in sd.to_text(sd.mutate(module, value.number))
    loops = [each for each in found if each.kind == "loops" and each.bytes_change]
    assert loops
    assert all(each.alike in (1, 2) for each in loops)
    both = sd.mutate(module, value.number, loops[0].number)
    assert sd.compile(both).check().passed


def test_the_time_is_bounded() -> None:
    module = sd.parse(EXAMPLES / "slow_ffn.mlir")
    with pytest.warns(sd.ShardWarning, match="mutations were evaluated in 0.001 seconds"):
        assert sd.mutations(module, seconds=0.001) == []
