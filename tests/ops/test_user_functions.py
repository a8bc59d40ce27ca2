"""Functions of users that raise or return nonsense: the error names the op, and the function."""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.backends.python.python_module import emit_python
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.model import ShardingRule
from shard_dialect.ops import op_table
from shard_dialect.ops.partial_values import moves
from tests.ops.unary_dialect import unary_dialect

PROGRAM = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4x6xf32>
  %1 = "plugged.op"(%0) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}
"""
OP = ":6:8"


def broken(*_: object) -> Any:
    return {}["missing"]


NONSENSE = (3, "nonsense", [], [None], (), object(), b"", {1: 2}, len, [3.5], 1.5, True, {99})
FACETS = ("rule", "partition", "partial", "padding", "lowering", "loops", "operations", "python")
FACETS += ("stablehlo", "shapes")


def doors() -> Iterator[Callable[[ir.Module], object]]:
    """What reads facets: passes, a report, emitters."""

    def passes(pipeline: str) -> Callable[[ir.Module], object]:
        return lambda module: sd.run_pipeline(module, pipeline)

    yield passes("spmd,lower")
    yield passes("spmd,lower{target=stablehlo}")
    yield passes("spmd,convert-to-stablehlo")
    yield sd.report
    for target in ("mpi4py", "torch"):

        def emits(module: ir.Module, target: Any = target) -> None:
            sd.run_pipeline(module, "spmd")
            with module.context:
                emit_python(module, target)

        yield emits


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    sd.register_dialect("plugged", unary_dialect("plugged", "op"))
    yield
    op_table.RECORDS.pop("plugged.op", None)


def register(**facets: Any) -> None:
    op_table.RECORDS.pop("plugged.op", None)
    rule = facets.pop("rule", "([i, j]) -> ([i, j])")
    given = {"partial": moves, "lowering": lambda op: [op.operands[0]]} | facets
    sd.sharding_rule("plugged.op", **given)(rule)


@pytest.mark.parametrize("facet", FACETS)
def test_what_a_facet_raises_is_reported_at_the_op(facet: str) -> None:
    register(**{facet: broken})
    found = []
    for door in doors():
        try:
            door(sd.parse(PROGRAM))
        except ShardError as error:
            found.append(error)
    assert found or facet in ("partition", "partial", "padding", "shapes")
    for error in found:
        if "raised" in error.message:
            assert error.message == f"the {facet} of 'plugged.op' raised KeyError: 'missing'"
            assert str(error.location).endswith(OP)
            place = f"{__file__}:{broken.__code__.co_firstlineno + 1}:1"
            assert str(error.notes[0]) == f"{place}: note: raised here"


@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")
@pytest.mark.parametrize("seed", range(60))
def test_nonsense_is_refused_or_harmless(seed: int) -> None:
    """Each door ends with a `ShardError`, or as if nothing were wrong: no other exception."""
    draw = Random(seed)
    facet, result = draw.choice(FACETS), draw.choice(NONSENSE)
    with suppress(ShardError):
        register(**{facet: result if draw.random() < 0.3 else lambda *_: result})
    for door in doors():
        with suppress(ShardError):
            door(sd.parse(PROGRAM))


@pytest.mark.parametrize(
    ("facets", "said"),
    [
        ({"rule": lambda _: 3}, "the rule of 'plugged.op' returned a value of type 'int'"),
        ({"rule": "([i, j, k]) -> ([i, j])"}, "is for tensors of other ranks than those here"),
        (
            {"rule": lambda _: ShardingRule((4,), (((0,),),), ((),))},
            "has 1 dimensions for operand 0",
        ),
        ({"lowering": lambda op: [*op.operands] * 2}, "returned 2 values, but the op has 1 result"),
        ({"lowering": lambda _: None}, "expected a list of values, one for each result"),
    ],
)
def test_what_does_not_fit_says_what_was_expected(facets: dict[str, Any], said: str) -> None:
    register(**facets)
    with pytest.raises(ShardError) as caught:
        sd.run_pipeline(sd.parse(PROGRAM), "spmd,lower")
    assert said in caught.value.message
    assert str(caught.value.location).endswith(OP)


UNEVEN = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x5xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>})
    -> tensor<4x1xf32> {
  %0 = "plugged.op"(%x) : (tensor<4x5xf32>) -> tensor<4x1xf32>
  return %0 : tensor<4x1xf32>
}
"""


def largest(op: ir.Operation) -> list[ir.Value]:
    axis = {"axis": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1)}
    return [ir.Operation.create("tosa.reduce_max", [op.results[0].type], op.operands, axis).result]


@pytest.mark.parametrize(
    ("padding", "expected"),
    [({}, "all_to_all all_gather"), ({"padding": "identity"}, "all_reduce")],
)
def test_uneven_shards_stay_where_their_padding_is_the_identity(
    padding: dict[str, Any], expected: str
) -> None:
    rule = "([i, j]) -> ([i, *]) reduction={j: max}"
    register(rule=rule, lowering=largest, partial=None, **padding)
    program = sd.compile(sd.parse(UNEVEN))
    kinds = [each.kind for each in sd.report(sd.parse(UNEVEN)).communication]
    assert kinds == expected.split()
    x = np.array([[-5.0, -4, -3, -2, -1]] * 4, np.float32)  # zeros would be larger
    assert (program(x) == -1).all()


def test_a_facet_that_is_no_function_is_refused_when_it_is_given() -> None:
    with pytest.raises(ShardError) as caught:
        register(lowering=3)
    assert caught.value.message == "the lowering of 'plugged.op' is 3: expected a function"


def test_unknown_facets_are_refused() -> None:
    with pytest.raises(ShardError, match=r"unknown facets of plugged\.op: color"):
        register(color=3)


def test_a_template_that_is_broken_is_refused_at_the_op() -> None:
    register(python="{7} + {0}")
    module = sd.run_pipeline(sd.parse(PROGRAM), "spmd")
    with module.context, pytest.raises(ShardError, match=r"template .* IndexError") as caught:
        emit_python(module, "mpi4py")
    assert str(caught.value.location).endswith(OP)


@pytest.mark.parametrize("name", ["abs", "stablehlo.abs"])
def test_an_op_of_stablehlo_by_its_name(name: str) -> None:
    register(stablehlo=name)
    module = sd.run_pipeline(sd.parse(PROGRAM), "spmd,lower{target=stablehlo}")
    assert "stablehlo.abs" in sd.to_text(module)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absolute", "the stablehlo of 'plugged.op' is 'stablehlo.absolute': there is no such op"),
        ("add", "the stablehlo of 'plugged.op', 'stablehlo.add': 'stablehlo.add' op expected 2"),
    ],
)
def test_a_name_that_does_not_fit_is_refused_at_the_op(name: str, said: str) -> None:
    register(stablehlo=name)
    with pytest.raises(ShardError, match=said) as caught:
        sd.run_pipeline(sd.parse(PROGRAM), "spmd,lower{target=stablehlo}")
    assert str(caught.value.location).endswith(OP)


def test_operations_may_be_a_number() -> None:
    register(operations=lambda _: 7)
    assert sd.report(sd.parse(PROGRAM)).compute.flops == 7


def test_a_pass_that_raises_is_named(tmp_path: Path) -> None:
    plugin = tmp_path / "broken_pass.py"
    plugin.write_text(
        "import shard_dialect as sd\n"
        "@sd.register_pass\n"
        "class Broken(sd.Pass):\n"
        '    """It breaks."""\n'
        f'    name = "broken-{os.getpid()}"\n'
        "    def rewrite(self, module):\n"
        "        return 1 // 0\n"
    )
    sd.load_plugin(str(plugin))
    with warnings.catch_warnings(), pytest.raises(ShardError) as caught:
        sd.run_pipeline(sd.parse(PROGRAM), f"broken-{os.getpid()}")
    assert caught.value.message.startswith(f"pass 'broken-{os.getpid()}' raised ZeroDivisionError")
    assert str(caught.value.notes[0]) == f"{plugin}:7:1: note: raised here"
