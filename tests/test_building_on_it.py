"""What authors of compilers call: passes in passes, judges, objectives, device models, readers."""

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.bindings import PassManager, ir
from shard_dialect.errors import ShardError
from shard_dialect.ir.walk import walk
from shard_dialect.ops import op_table
from shard_dialect.passes.framework import pass_table
from tests.conftest import ROOT

TEXT = """shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %s = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %c = shard.shard %x to %s : tensor<4x8xf32>
  %0 = stablehlo.dot_general %c, %w, contracting_dims = [1] x [0]
    : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "in.mlir").write_text(TEXT)
    return tmp_path / "in.mlir"


@pytest.fixture(autouse=True)
def runs() -> Iterator[None]:
    """Passes that run others."""

    @sd.register_pass
    @dataclass(frozen=True)
    class Runs(sd.Pass):
        """Run others on the module."""

        name = "runs"
        what: str = "spmd"

        def rewrite(self, module: ir.Operation) -> None:
            sd.run_pipeline(module, self.what)

    @sd.register_pass
    @dataclass(frozen=True)
    class RunsOnFunctions(Runs):
        """Run others on each function."""

        name = "runs-on-functions"
        anchor = "func.func"

    yield
    for name in ("runs", "runs-on-functions"):
        pass_table._registered.pop(name, None)


def test_a_pass_runs_others(path: Path) -> None:
    inside = sd.run_pipeline(sd.parse(path), "runs,canonicalize")
    alone = sd.run_pipeline(sd.parse(path), "spmd,canonicalize")
    assert sd.to_text(inside) == sd.to_text(alone)


def test_a_pass_on_a_function_runs_others_on_it() -> None:
    module = sd.parse(
        "func.func @f(%x: i32) -> i32 { %0 = arith.addi %x, %x : i32 return %x : i32 }"
    )
    sd.run_pipeline(module, "runs-on-functions{what=canonicalize}")
    assert "addi" not in sd.to_text(module)
    with pytest.raises(sd.ShardError, match=r"runs on 'builtin.module', but stands in 'func.func"):
        sd.run_pipeline(module, "runs-on-functions{what=partition}")


@pytest.mark.parametrize("pipeline", ["runs{what=partition}", "runs{what=runs}"])
def test_what_a_pass_runs_fails_at_its_place(path: Path, pipeline: str) -> None:
    module = sd.parse(path)
    if pipeline == "runs{what=runs}":
        sd.run_pipeline(module, pipeline)
        assert sd.form(module) == "local"
        return
    with pytest.raises(sd.ShardError, match="in the annotated form") as caught:
        sd.run_pipeline(module, pipeline)
    assert caught.value.location == f"{path}:2:1"


def test_a_pass_that_runs_itself_ends_in_an_error() -> None:
    @sd.register_pass
    class Endless(sd.Pass):
        """Run itself."""

        name = "endless"

        def rewrite(self, module: ir.Operation) -> None:
            sd.run_pipeline(module, "endless")

    try:
        with pytest.raises(sd.ShardError, match="pass 'endless' raised RecursionError"):
            sd.run_pipeline(sd.parse(TEXT), "endless")
    finally:
        pass_table._registered.pop("endless")


def test_our_passes_in_a_manager_of_the_bindings(path: Path) -> None:
    module = sd.parse(path)
    with module.context:
        manager = PassManager.parse("builtin.module(cse)")
        manager.add(lambda op, _: sd.run_pipeline(op, "spmd"), name="spmd")
        manager.run(module.operation)
    assert sd.form(module) == "local"


NORMS = """
shard.grid @g(shape = 2x2)
func.func @main(%x: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>})
    -> tensor<8x16xf32> {
  %0 = "norms.row_sums"(%x) : (tensor<8x16xf32>) -> tensor<8x1xf32>
  %1 = "norms.scale"(%x, %0) : (tensor<8x16xf32>, tensor<8x1xf32>) -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}
"""


@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        ("([i, j]) -> ([i, *]) reduction={j}", "proven"),
        ("([i, j]) -> ([i, *])", "proven"),
        ("([i, j]) -> ([i, *]) reduction={j: max}", "refuted"),
    ],
)
def test_what_users_ops_compute_is_proven_by_their_lowerings(rule: str, answer: str) -> None:
    sd.load_plugin(str(ROOT / "examples" / "library" / "two_ops.py"))
    record = op_table.RECORDS["norms.row_sums"]
    try:
        sd.sharding_rule("norms.row_sums")(rule)
        local = sd.run_pipeline(sd.parse(NORMS), "spmd")
        before = sd.to_text(local)
        assert sd.prove(sd.parse(NORMS), local).answer == answer
        assert sd.to_text(local) == before
    finally:
        op_table.RECORDS["norms.row_sums"] = record


def test_an_op_stands_for_its_module(path: Path) -> None:
    module = sd.parse(path)
    assert sd.report(module.operation).bytes_moved == 96
    assert f'loc("{path}":2:17)' in sd.to_text(module.operation, locations=True)


def test_built_in_passes_are_values() -> None:
    steps = [sd.built_in("propagate"), sd.built_in("materialize", strict=True), "cse"]
    assert sd.form(sd.run_pipeline(sd.parse(TEXT), steps)) == "distributed"
    assert sd.form(sd.run_pipeline(sd.parse(TEXT), sd.built_in("spmd"))) == "local"
    for call, expected in (
        (lambda: sd.built_in("materialise"), "unknown pass 'materialise': did you mean"),
        (lambda: sd.built_in("materialize", strict=3), "'strict' of pass 'materialize' must be"),
        (lambda: sd.built_in("spmd", bogus=3), "pass 'spmd' has no option 'bogus'"),
    ):
        with pytest.raises(sd.ShardError, match=expected):
            call()


def test_readers_say_what_the_ir_says() -> None:
    def values(module: ir.Module) -> list[str]:
        block = module.body.operations[1].regions[0].blocks[0]
        found = [*block.arguments, *(value for op in block for value in op.results)]
        return [str(sd.sharding_of(each)) for each in found]

    module = sd.parse(TEXT)
    expected = {
        "import": ("annotated", ["None", "None", "[[], [0]]", "None"]),
        "propagate": ("propagated", ["[[], [0]]", "[[0], []]", "[[], [0]]", "[[], []]"]),
        "materialize": ("distributed", ["[[], [0]]", "[[0], []]", "[[], [], [0]]", "None"]),
    }
    for pipeline, (form, shardings) in expected.items():
        sd.run_pipeline(module, pipeline)
        assert (sd.form(module), values(module)) == (form, shardings)
    with pytest.raises(sd.ShardError, match="is in the distributed form: its boundary is read"):
        sd.read_program(module)
    sd.run_pipeline(module, "spmd")
    program = sd.read_program(module)
    assert [str(each.local) for each in program.arguments] == ["4x4xf32", "4x6xf32"]
    assert [(site.step.kind, site.groups) for site in program.calls] == [("all_reduce", ((0, 1),))]


def test_sharding_of_arguments_of_blocks() -> None:
    module = sd.parse("""
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4xf32> {
  %from = arith.constant 0 : index
  %one = arith.constant 1 : index
  %y = scf.for %i = %from to %one step %one iter_args(%z = %x) -> tensor<4xf32> {
    %0 = math.tanh %z : tensor<4xf32>
    scf.yield %0 : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}
""")
    sd.run_pipeline(module, "propagate")
    loop = module.body.operations[1].regions[0].blocks[0].operations[2]
    inner = loop.regions[0].blocks[0].arguments
    assert [str(sd.sharding_of(each)) for each in inner] == ["None", "[[0]]"]


def test_results_carry_their_warnings() -> None:
    text = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x6xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4x6xf32> {
  %0 = "warns.op"(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
"""
    sd.register_dialect(
        "warns",
        "irdl.dialect @warns { irdl.operation @op {"
        "%a = irdl.any %b = irdl.any irdl.operands(x: %a) irdl.results(y: %b) } }",
    )
    sd.sharding_rule("warns.op", lowering=lambda op: [op.operands[0]])(lambda _: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with sd.listening() as heard:
            program = sd.compile(sd.parse(text))
        report = sd.report(sd.parse(text))
        found = sd.auto(sd.parse(text), plans=2)
    assert [each.severity for each in program.diagnostics] == ["warning"]
    assert tuple(heard) == program.diagnostics
    assert report.diagnostics
    assert report.diagnostics[0].location == "<string>:4:8"
    assert isinstance(found.diagnostics, tuple)
    assert program.check().diagnostics == ()
    proof = sd.prove(sd.parse(text), sd.run_pipeline(sd.parse(text), "import"))
    assert proof.diagnostics == ()


def _judge(result: Any) -> Callable[..., Any]:
    return lambda module, entry: lambda arrays: result(arrays)


def _cannot(module: ir.Module, entry: str) -> Any:
    raise sd.CannotJudge("it is Sunday")


def _broken(*_: object) -> Any:
    return {}["missing"]


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        (_cannot, "cannot run the unsharded program with judge '_cannot': it is Sunday"),
        (_broken, "judge '_broken' raised KeyError: 'missing'"),
        (lambda *_: _broken, "judge '<lambda>' raised KeyError: 'missing'"),
        (lambda *_: 3, "returned a int for @main: expected a function from its arguments"),
        (_judge(lambda _: []), "returned nothing for @main: expected float32[4, 6]"),
        (_judge(lambda _: 3), "raised TypeError: 'int' object is not iterable"),
        (_judge(lambda arrays: arrays), "returned float32[4, 8], float32[8, 6] for @main"),
        (_judge(lambda arrays: [arrays[0].astype("f8") @ arrays[1]]), "float64[4, 6] for"),
        ("nobody", "the judge 'nobody' is none of xla, upstream, self"),
    ],
)
def test_a_judge_that_does_not_judge_is_named(judge: Any, message: str) -> None:
    with pytest.raises(sd.ShardError, match=re.escape(message)):
        sd.compile(sd.parse(TEXT)).check(judge=judge)


def test_a_judge_says_what_is_right() -> None:
    program = sd.compile(sd.parse(TEXT))
    assert program.check(judge=_judge(lambda arrays: [arrays[0] @ arrays[1]])).passed
    assert not program.check(judge=_judge(lambda arrays: [arrays[0] @ arrays[1] + 1])).passed

    def spoils(arrays: list[np.ndarray]) -> list[np.ndarray]:
        result = arrays[0] @ arrays[1]
        for each in arrays:
            each[...] = 0
        return [result]

    assert program.check(judge=_judge(spoils)).passed


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        (lambda _: None, "objective '<lambda>' returned None for 96 bytes sent"),
        (lambda _: float("nan"), "objective '<lambda>' returned nan for"),
        (_broken, "objective '_broken' raised KeyError: 'missing'"),
        ("speed", "objective=speed is none: expected one of time, bytes, memory"),
        (3, "objective=3 is none"),
    ],
)
def test_an_objective_that_is_none_is_named(objective: Any, message: str) -> None:
    with pytest.raises(sd.ShardError, match=re.escape(message)):
        sd.auto(sd.parse(TEXT), objective=objective, plans=3)


def test_a_device_model_is_an_object() -> None:
    level = sd.NetworkLevel("wire", None, 1e9, 1e-6)
    model = sd.DeviceModel("mine", {"f32": 1e12}, 10**9, np.float64(1e11), [level])
    assert sd.DeviceModel.parse(model.to_toml()) == model
    assert sd.report(sd.parse(TEXT), device_model=model).device_model == "mine"
    assert sd.what_if(sd.parse(TEXT), "w=[[], [0]]", device_model=model).after.bytes_moved >= 0
    assert sd.mutations(sd.parse(TEXT), device_model=model)
    for call, expected in (
        (lambda: sd.DeviceModel("m", {}, 1, 1.0), "[flops] must be a rate for at least one"),
        (lambda: sd.DeviceModel("m", {"f32": "x"}, 1, 1.0), "'f32' of [flops] must be a positive"),
        (lambda: sd.DeviceModel("m", {"f32": 1}, 1, 1.0, [level, level]), "only the last may"),
        (lambda: sd.report(sd.parse(TEXT), device_model=3), "is a int: give its name, or a"),  # type: ignore[arg-type]
        (lambda: sd.register_device_model("m", "h100"), "is a str: give a DeviceModel"),  # type: ignore[arg-type]
        (lambda: sd.register_device_model("h100", model), "there is a device model 'h100' already"),
    ):
        with pytest.raises(sd.ShardError, match=re.escape(expected)):
            call()


FIELDS = {
    "flops": ({"f32": 1e12}, sd.DeviceModel),
    "memory_bytes": (10**9, sd.DeviceModel),
    "memory_bytes_per_second": (1e11, sd.DeviceModel),
    "network": ([sd.NetworkLevel("w", None, 1e9, 1e-6)], sd.DeviceModel),
    "sources": ((), sd.DeviceModel),
    "cache_bytes": (0, sd.DeviceModel),
    "efficiency": (sd.Efficiency(), sd.DeviceModel),
    "devices": (2, sd.NetworkLevel),
    "bytes_per_second": (1e9, sd.NetworkLevel),
    "latency": (1e-6, sd.NetworkLevel),
    "products": (1.0, sd.Efficiency),
}
NUMBERS = (float("nan"), float("inf"), -1, 10**400, True, "3", None, object(), sd, len)
NUMBERS += ([3], [None], iter(int, 1), {3: 1.0}, {"f32": -1.0}, {"f32": float("nan")}, b"")


def made(field: str, value: object) -> sd.DeviceModel:
    """A device model in which one field is another."""
    given: dict[type, dict[str, Any]] = {cls: {} for _, cls in FIELDS.values()}
    for name, (usual, cls) in FIELDS.items():
        given[cls][name] = value if name == field else usual
    of_model = given[sd.DeviceModel]
    if FIELDS[field][1] is sd.NetworkLevel:
        of_model["network"] = [sd.NetworkLevel("w", **given[sd.NetworkLevel])]
    if FIELDS[field][1] is sd.Efficiency:
        of_model["efficiency"] = sd.Efficiency(**given[sd.Efficiency])
    return sd.DeviceModel("it", **of_model)


@pytest.mark.parametrize("field", FIELDS)
def test_a_device_model_of_nonsense_is_refused(field: str) -> None:
    for value in NUMBERS:
        if field != "devices" or value not in (None, 10**400):
            with pytest.raises(sd.ShardError, match="must be"):
                made(field, value)


def test_a_device_model_is_no_subclass() -> None:
    class Lies(sd.DeviceModel):
        def flops_per_second(self, element: str) -> float:
            raise ValueError

    model = Lies("it", {"f32": 1.0}, 1, 1.0)
    with pytest.raises(sd.ShardError, match="is a Lies: give its name, or a DeviceModel itself"):
        sd.report(sd.parse(TEXT), device_model=model)
    with pytest.raises(sd.ShardError, match="is a Lies: give a DeviceModel itself"):
        sd.register_device_model("lies", model)


def test_plans_of_reshards() -> None:
    grid = sd.Grid("g", (2, 4), axes=("data", "model"))
    plan = sd.plan_reshard([["data"], []], [[], ["data"]], (8, 8), grid)
    assert (str(plan), plan.bytes_moved, plan.seconds) == (
        "all_to_all dim 0 to 1 axes [0]",
        64,
        None,
    )
    for source, expected in (
        ([["x"], []], 'has no axis "x"'),
        (sd.Sharding("g", ((0,),)), "is not of a tensor of rank 2"),
        (sd.Sharding("h", ((), ())), "grid @h"),
    ):
        with pytest.raises(sd.ShardError, match=expected):
            sd.plan_reshard(source, [[], []], (8, 8), grid)


def test_a_collective_of_the_distributed_form_is_not_taken_for_another_op() -> None:
    module = sd.parse(TEXT)
    sd.run_pipeline(module, "propagate,materialize")
    found = [op for op in walk(module.operation) if op.name == "mesh.all_reduce"]
    assert found
    with pytest.raises(ShardError, match=r"'mesh\.all_reduce' op is of the distributed form"):
        sd.read_collective(found[0])
