"""A mutation changes one annotation; its costs are those of the program, which stays right."""

import random

import pytest

import shard_dialect as sd
from tests.conftest import ROOT

EXAMPLES = ROOT / "examples"
NAMES = ["mlp_1d", "slow_ffn", "megatron", "mlp_stablehlo", "training_step", "convolution"]


@pytest.mark.parametrize("name", NAMES)
def test_a_mutation_costs_what_the_list_says_and_is_right(name: str) -> None:
    module = sd.parse(EXAMPLES / f"{name}.mlir")
    before = sd.report(module)
    found = sd.mutations(module)
    assert found
    for each in random.Random(name).sample(found, min(3, len(found))):
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
    [(1000, "there is no mutation 1000"), ("nobody=[[]]", "nothing of @main is called 'nobody'")],
)
def test_what_is_not_there(what: int | str, message: str) -> None:
    with pytest.raises(sd.ShardError, match=message):
        sd.mutate(sd.parse(EXAMPLES / "slow_ffn.mlir"), what)
