"""Our rules of StableHLO's ops have the factors of Shardy's, of its kinds or of stricter ones."""

from collections.abc import Sequence

import pytest

from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading import source
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import ShardingRule
from shard_dialect.model.rule_text import read_rule
from shard_dialect.ops import rule_of
from shard_dialect.ops.stablehlo import RECORDS
from tests.extras import needs
from tests.ops.stablehlo_ops import COMPILED, INTERPRETED, NOT_RUN, drawn

pytestmark = needs("jax")
CASES = {
    name: case
    for family in (INTERPRETED | COMPILED | NOT_RUN).values()
    for name, case in drawn(family).items()
}
BY_NEIGHBOURS = {
    "concatenate of slices": """
        %0 = stablehlo.slice %a [0:3, 0:6] : (tensor<4x6xf32>) -> tensor<3x6xf32>
        %1 = stablehlo.slice %b [0:1, 0:6] : (tensor<4x6xf32>) -> tensor<1x6xf32>
        %2 = stablehlo.concatenate %0, %1, dim = 0
          : (tensor<3x6xf32>, tensor<1x6xf32>) -> tensor<4x6xf32>""",
    "concatenate of a tensor and its slice": """
        %0 = stablehlo.slice %a [0:2, 0:6] : (tensor<4x6xf32>) -> tensor<2x6xf32>
        %1 = stablehlo.concatenate %0, %a, dim = 0
          : (tensor<2x6xf32>, tensor<4x6xf32>) -> tensor<6x6xf32>""",
    "concatenate of a tensor and another's slice": """
        %0 = stablehlo.slice %a [0:2, 0:6] : (tensor<4x6xf32>) -> tensor<2x6xf32>
        %1 = stablehlo.concatenate %0, %b, dim = 0
          : (tensor<2x6xf32>, tensor<4x6xf32>) -> tensor<6x6xf32>""",
    "custom_call of a generator's words": """
        %0 = stablehlo.custom_call @X64Combine(%w, %w)
          : (tensor<2xui32>, tensor<2xui32>) -> tensor<2xui64>
        %1, %2 = stablehlo.rng_bit_generator %0, algorithm = THREE_FRY
          : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)""",
    "dynamic_update_slice at constants": """
        %0 = stablehlo.constant dense<1> : tensor<i32>
        %1 = stablehlo.slice %a [0:4, 0:2] : (tensor<4x6xf32>) -> tensor<4x2xf32>
        %2 = stablehlo.dynamic_update_slice %a, %1, %0, %0
          : (tensor<4x6xf32>, tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>""",
}
"""Rules that depend on the ops around: that of the last op of the name's first word."""
TEXTS = {name: (case.name, str(case)) for name, case in CASES.items()} | {
    name: (
        name.split()[0],
        "func.func @main(%a: tensor<4x6xf32>, %b: tensor<4x6xf32>, %w: tensor<2xui32>) {"
        f"{lines}\n  return\n}}\n",
    )
    for name, lines in BY_NEIGHBOURS.items()
}

STRICTER = {
    "all_gather": {("passed", "need_replication")},
    "all_reduce": {("passed", "need_replication")},
    "all_to_all": {("passed", "need_replication")},
    "collective_broadcast": {("passed", "need_replication")},
    "collective_permute": {("passed", "need_replication")},
    "convolution": {("reduction", "need_replication"), ("permuted", "passed")},
    "cross-replica-sum": {("passed", "need_replication")},
    "custom_call": {("passed", "need_replication")},
    "dot_general": {("reduction", "need_replication")},
    "dynamic_update_slice": {("passed", "need_replication")},
    "gather": {("reduction", "need_replication")},
    "pad": {("passed", "permuted")},
    "reduce": {("reduction", "need_replication")},
    "reduce_scatter": {("passed", "need_replication")},
    "reduce_window": {("passed", "permuted")},
    "reshape": {("passed", "need_replication")},
    "rng_bit_generator": {("passed", "need_replication")},
    "scatter": {("passed", "need_replication"), ("need_replication", "passed")},
}
"""Where Shardy's kind and ours differ, by op: hers says how shardings pass, ours also what may be
computed on shards. A window of one element is `passed` to us: it needs nothing of its neighbours.
"""
WITHOUT_BLOCKED = {"dynamic_slice"}
"""Where Shardy has a factor that nothing passes along, and we have two, of one tensor each."""

DIVIDED = {"select_and_scatter"}
"""Where windows lie side by side we have a factor of the windows, and Shardy has none."""


def is_divided(name: str, mine: ShardingRule) -> bool:
    """Whether our factors are others than Shardy's; one element of a dimension is a sum to us."""
    return name in DIVIDED or (name == "slice" and bool(mine.reductions))


WITHOUT = {"batch_norm_grad", "batch_norm_training", "iota", "map", "rng"}
"""Ops that we have a rule for, and Shardy none."""


def shardys(name: str, text: str) -> ShardingRule | None:
    from jaxlib.mlir.passmanager import PassManager

    ir = source._bindings()
    context = source._context()
    with context:
        module = ir.Module.parse(text)
        passes = "builtin.module(func.func(sdy-populate-op-sharding-rules))"
        PassManager.parse(passes).run(module.operation)
        *_, op = (
            op
            for op in module.body.operations[0].regions[0].blocks[0].operations
            if op.operation.name == f"stablehlo.{name}"
        )
        if "sdy.sharding_rule" not in op.attributes:
            return None
        rule = str(op.attributes["sdy.sharding_rule"])
    rule = rule.removeprefix("#sdy.op_sharding_rule<").removesuffix(">")
    return read_rule(rule if "{" in rule else f"{rule} {{}}").rule


def ours(name: str, text: str) -> ShardingRule | None:
    with make_context():
        module = Source.of(text).parse()
        inside = operations(body(operations(module.body)[0]))
        *_, op = (op for op in inside if op.name == f"stablehlo.{name}")
        return rule_of(op)


def tensors(rule: ShardingRule) -> list[tuple[tuple[int, ...], ...]]:
    return [dims or () for dims in (*rule.operands, *rule.results)]


def relating(rule: ShardingRule) -> list[int]:
    """The factors, but for those of size 1 of one dimension: they say nothing, and we leave some
    out that Shardy has."""
    used = [factor for dims in tensors(rule) for dim in dims for factor in dim]
    return [f for f, size in enumerate(rule.sizes) if size != 1 or used.count(f) > 1]


def shape_of(rule: ShardingRule, factors: Sequence[int]) -> object:
    """All but the kinds, with `factors` numbered in their order."""
    kept = list(factors)
    return (
        [[[kept.index(f) for f in dim if f in kept] for dim in dims] for dims in tensors(rule)],
        [rule.sizes[factor] for factor in kept],
        [factor in rule.blocked for factor in kept],
    )


def passing(rule: ShardingRule) -> list[int]:
    """The factors that shardings pass along: not the blocked ones, or those of one tensor."""
    used = [factor for dims in tensors(rule) for dim in dims for factor in dim]
    return [f for f in relating(rule) if f not in rule.blocked and used.count(f) > 1]


def kinds_of(rule: ShardingRule) -> list[str]:
    def kind(factor: int) -> str:
        if factor in rule.reduction_of:
            return "reduction"
        if factor in rule.need_replication:
            return "need_replication"
        return "permuted" if factor in rule.permuted else "passed"

    return [kind(factor) for factor in relating(rule)]


def differing(mine: ShardingRule, hers: ShardingRule) -> set[tuple[str, str]]:
    pairs = zip(kinds_of(hers), kinds_of(mine), strict=True)
    return {(her, my) for her, my in pairs if her != my}


@pytest.mark.parametrize("name", TEXTS)
def test_factors_are_shardys(name: str) -> None:
    op, text = TEXTS[name]
    mine, hers = ours(op, text), shardys(op, text)
    if hers is None:
        assert mine is None or op in WITHOUT, f"{text}\n{mine}"
        return
    assert mine is not None, f"{text}\n{hers}"
    if is_divided(op, mine):
        return
    if op in WITHOUT_BLOCKED:
        assert shape_of(mine, passing(mine)) == shape_of(hers, passing(hers)), f"{mine}\n{hers}"
        return
    kept = [shape_of(rule, relating(rule)) for rule in (mine, hers)]
    assert kept[0] == kept[1], f"{text}\n{mine}\n{hers}"
    assert differing(mine, hers) <= STRICTER.get(op, set()), f"{text}\n{mine}\n{hers}"


def test_no_difference_is_listed_that_there_is_not() -> None:
    found: dict[str, set[tuple[str, str]]] = {}
    for op, text in TEXTS.values():
        mine, hers = ours(op, text), shardys(op, text)
        if op in WITHOUT_BLOCKED or mine is None or hers is None or is_divided(op, mine):
            continue
        if differing(mine, hers):
            found[op] = found.get(op, set()) | differing(mine, hers)
    assert found == STRICTER


def test_every_op_of_the_table_is_compared() -> None:
    known_to_shardy = {name for name in RECORDS if not name.startswith("chlo.")}
    compared = {f"stablehlo.{op}" for op, _ in TEXTS.values()}
    assert compared >= known_to_shardy - {"stablehlo.constant"}
