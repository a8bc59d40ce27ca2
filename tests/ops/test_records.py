"""Each op has one record, whose facets each reader finds there, and loads when it reads them."""

import subprocess
import sys
from dataclasses import fields
from functools import partial
from random import Random
from types import CodeType, FunctionType

import pytest

import shard_dialect as sd
from shard_dialect.backends.python.python_module import emit_python
from shard_dialect.backends.python.writer import Target
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create, create_value
from shard_dialect.ops.factors import elementwise
from shard_dialect.ops.op_record import Later, OpRecord, loaded
from shard_dialect.ops.op_table import RECORDS, named, sharding_rule
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.testing import SAMPLES, Draws, placed, run_and_check, runnable
from tests.conftest import ROOT
from tests.ops.unary_dialect import unary_dialect

PROGRAM = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x8xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4x8xf32> {
  %0 = "OP"(%x) : (tensor<4x8xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
"""


@pytest.fixture(autouse=True)
def records(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is registered in a test ends with it."""
    for name in ("example.exp", "records.softplus", "stablehlo.dot_general"):
        monkeypatch.setitem(RECORDS, name, named(name) or OpRecord())


def test_functions_of_other_modules_are_there() -> None:
    found = {
        facet.path
        for record in RECORDS.values()
        for field in fields(record)
        if isinstance(facet := getattr(record, field.name), Later)
    }
    assert len(found) > 100
    for path in found:
        assert callable(loaded(path)), path


def _functions_of(value: object, known: set[FunctionType]) -> set[FunctionType]:
    """Those of `shard_dialect.ops` that a rule calls, by the names in their code."""
    while isinstance(value, partial):
        for each in (*value.args, *value.keywords.values()):
            _functions_of(each, known)
        value = value.func
    value = getattr(value, "__wrapped__", value)
    if not isinstance(value, FunctionType) or value in known:
        return known
    if value.__module__.startswith("shard_dialect.ops"):
        known.add(value)
        for name in _names_in(value.__code__) & value.__globals__.keys():
            _functions_of(value.__globals__[name], known)
        for cell in value.__closure__ or ():
            _functions_of(cell.cell_contents, known)
    return known


def _names_in(code: CodeType) -> set[str]:
    inside = [_names_in(each) for each in code.co_consts if isinstance(each, CodeType)]
    return set(code.co_names).union(*inside)


def test_rules_that_look_around_an_op_are_by_neighbours() -> None:
    """Else equal ops have one rule, that of the first, wherever they stand."""
    around = {"uses", "owner", "encoding"}
    found = {
        name
        for name, record in RECORDS.items()
        if any(around & _names_in(each.__code__) for each in _functions_of(record.rule, set()))
    }
    assert "stablehlo.slice" in found
    assert {name for name in found if Trait.BY_NEIGHBOURS not in RECORDS[name].traits} == set()


def test_propagation_loads_no_emission_sample_or_reference() -> None:
    program = (
        "import sys, shard_dialect.passes.propagate.propagate_shardings; "
        "print([each for each in sys.modules if each.startswith(('shard_dialect.backends.python', "
        "'shard_dialect.testing', 'shard_dialect.runtime', 'shard_dialect.backends.cpu'))])"
    )
    command = [sys.executable, "-c", program]
    printed = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, cwd=ROOT
    )
    assert printed.stdout == "[]\n"


def test_a_rule_anew_keeps_what_does_not_follow_from_it() -> None:
    before = RECORDS["stablehlo.dot_general"]
    sharding_rule("stablehlo.dot_general", python="{0} @ {1}")("([i, k], [k, j]) -> ([i, j])")
    after = RECORDS["stablehlo.dot_general"]
    assert after.partial is None
    assert after.padding is None
    assert after.python == "{0} @ {1}"
    assert (after.operations, after.traits) == (before.operations, before.traits)


def parsed(op: str, pipeline: str) -> ir.Module:
    module = sd.parse(PROGRAM.replace("OP", op), sd.make_context(allow_unregistered=True))
    sd.run_pipeline(module, pipeline)
    return module


def emitted(op: str, target: Target) -> str:
    module = parsed(op, "spmd")
    with module.context:
        return emit_python(module, target)


def test_of_an_elementwise_op_all_follows_from_its_function() -> None:
    sharding_rule("example.exp", function="exp", sample="f32")("([i, j]) -> ([i, j])")
    assert RECORDS["example.exp"].traits == Trait.ELEMENTWISE | Trait.ELEMENTARY
    assert "np.exp(x)" in emitted("example.exp", "mpi4py")
    assert "torch.exp(x)" in emitted("example.exp", "torch")
    assert "stablehlo.exponential" in str(parsed("example.exp", "spmd,lower{target=stablehlo}"))


def softplus(op: ir.Operation) -> list[ir.Value]:
    (x,) = op.operands
    made = create_value("math.exp", x.type, [x])
    return list(create("math.log1p", [x.type], [made]).results)


def test_all_facets_of_an_op_are_one_entry() -> None:
    sd.register_dialect("records", unary_dialect("records", "softplus"))
    sharding_rule(
        "records.softplus",
        operations=2,
        python="{m}.log1p({m}.exp({0}))",
        traits=Trait.ELEMENTARY,
        sample=lambda draws: draws.sample("records.softplus", [x := draws.any()], [x]),
        lowering=softplus,
    )(elementwise)
    assert "torch.log1p(torch.exp(x))" in emitted("records.softplus", "torch")
    counted = sd.report(parsed("records.softplus", "spmd")).compute
    assert (counted.flops, counted.elementary) == (2 * 2 * 8, 2 * 8)
    assert "records.softplus" in runnable()
    sample = SAMPLES["records.softplus"](Draws(Random(1)))
    assert run_and_check(placed(sample), "spmd,lower").verdict.passed
