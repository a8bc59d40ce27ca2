"""Plugins that raise, return nonsense, break the IR, or lie: named, or found; never our error.

A plugin is drawn by its seed: what kind of thing it registers, and what that does.
"""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.bindings import ir
from shard_dialect.ir import context
from shard_dialect.ops import op_table
from shard_dialect.passes.framework import pass_table
from tests.conftest import Program

TEXT = """shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>},
                %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %1 = stablehlo.tanh %0 : tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}
"""
RAISED = (
    "ValueError('no')",
    "KeyError('k')",
    "RecursionError()",
    "StopIteration()",
    "GeneratorExit()",
    "MemoryError()",
    "UnicodeDecodeError('utf-8', b'', 0, 1, 'x')",
    "AssertionError()",
    "SystemExit(3)",
    "OSError(2, 'x')",
    "type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})()",
    "ir.MLIRError('x', [])",
)
RETURNED = (
    *("None", "3", "'text'", "[]", "[None]", "object()", "b''", "{}", "len", "float('nan')"),
    *("True", "[[1]]", "iter([])", "iter(int, 1)", "range(10**9)", "-5", "10**400", "sd", "type"),
    *("np.zeros(3)", "[[np.zeros((2, 6), 'O')]] * 2", "[iter(int, 1)] * 2", "float('inf')"),
    "type('Odd', (), {'__repr__': lambda self: 1 / 0})()",
)
BROKEN = {
    "ir.Module.parse('func.func @f( {')": "raised MLIRError: Unable to parse",
    "block.operations[1].results[0].set_type(ir.F32Type.get())": "left invalid IR",
    "block.operations[2].operation.erase()": "left invalid IR: block with no terminator",
    "block.operations[0].operation.move_after(block.operations[1].operation)": "does not dominate",
    "ir.Operation.create('no.such', ip=ir.InsertionPoint(block.operations[2]))": "no.such",
}
KINDS = {
    "pass": "class it(sd.Pass):\n 'It.'\n name = 'it'\n def rewrite(self, module):\n  {body}",
    "backend": "class it:\n def __init__(self, module, entry):\n  {body}",
    "backend's run": (
        "class it:\n def __init__(self, module, entry): pass\n def run(self, shards):\n  {body}"
    ),
    "judge": "def it(module, entry):\n  {body}",
    "judge's run": "def it(module, entry):\n def it(arrays):\n  {body}\n return it",
    "objective": "def it(costs):\n  {body}",
    "dialect": "def it():\n  {body}",
}
FILE = "/plugin/of/mine.py"


def door(kind: str, body: str) -> None:
    """Go through the door that calls a plugin of this kind."""
    names: dict[str, Any] = {"sd": sd, "ir": ir, "np": np}
    exec(compile(KINDS[kind].format(body=body), FILE, "exec"), names)
    it = names["it"]
    if kind == "dialect":
        sd.register_dialect("it", it)
        try:
            sd.parse(TEXT)
        finally:
            context._loaders.pop("it")
        return
    module = sd.parse(TEXT)
    if kind == "pass":
        sd.register_pass(it)
        try:
            sd.run_pipeline(module, [it(), "spmd"])
        finally:
            pass_table._registered.pop("it")
    elif kind == "objective":
        sd.auto(module, objective=it, plans=2)
    else:
        program = sd.compile(module, it if kind.startswith("backend") else "devices")
        program.check(judge=it if kind.startswith("judge") else "self")


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_plugin_raises_names_it_and_its_line(kind: str) -> None:
    for raised in RAISED:
        with pytest.raises(sd.ShardError) as caught:
            door(kind, f"raise {raised}")
        found = caught.value
        assert "'it'" in found.message, raised
        assert [each.location for each in found.notes][-1].startswith(f"{FILE}:"), raised  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", [each for each in KINDS if each != "dialect"])
def test_a_plugin_s_own_error_is_told_as_it_is(kind: str) -> None:
    with pytest.raises(sd.ShardError) as caught:
        door(kind, "raise sd.ShardError('mine')")
    assert caught.value.message == "mine"


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("seed", range(60))
def test_nonsense_is_refused_by_name_or_does_no_harm(seed: int) -> None:
    draw = random.Random(seed)
    kind, returned = draw.choice(list(KINDS)), draw.choice(RETURNED)
    said = ""
    try:
        door(kind, f"return {returned}")
    except sd.ShardError as error:
        said = error.message
    harmless = kind in ("pass", "objective", "dialect")
    assert "'it'" in said or (harmless and not said), (kind, returned, said)


@pytest.mark.parametrize(("body", "message"), BROKEN.items())
def test_a_pass_that_breaks_the_ir_is_named(body: str, message: str) -> None:
    find = "block = ir.SymbolTable(module)['main'].regions[0].blocks[0]"
    with pytest.raises(sd.ShardError, match=re.escape(message)) as caught:
        door("pass", f"{find}; {body}")
    assert caught.value.message.startswith("pass 'it' ")


CRASHES = {
    "an op that is used is erased": "block.operations[0].operation.erase()",
    "an op of another context": (
        "c = ir.Context(); c.allow_unregistered_dialects = True; "
        "o = ir.Operation.create('a.b', loc=ir.Location.unknown(c)); "
        "ir.InsertionPoint(block.operations[2]).insert(o)"
    ),
}


@pytest.mark.parametrize("body", CRASHES.values(), ids=CRASHES)
def test_a_pass_in_which_mlir_crashes_is_named(body: str, opt: Program, tmp_path: Path) -> None:
    find = "block = ir.SymbolTable(module)['main'].regions[0].blocks[0]"
    head = "import shard_dialect as sd\nfrom shard_dialect.bindings import ir\n@sd.register_pass\n"
    (tmp_path / "mine.py").write_text(head + KINDS["pass"].format(body=f"{find}; {body}"))
    (tmp_path / "in.mlir").write_text(TEXT)
    done = opt(tmp_path / "in.mlir", f"--load-plugin={tmp_path}/mine.py", "--it", "--spmd")
    assert done.returncode == 1
    assert "in it" in done.stderr
    assert "Traceback" not in done.stderr


def _swaps(module: ir.Operation) -> None:
    """A subtraction for an addition."""
    for op in list(ir.SymbolTable(module)["main"].regions[0].blocks[0]):
        if op.operation.name == "stablehlo.tanh":
            with ir.InsertionPoint(op):
                x = op.operation.operands[0]
                new = ir.Operation.create("stablehlo.negate", [x.type], [x], loc=op.location)
            op.operation.results[0].replace_all_uses_with(new.result)
            op.operation.erase()


def lying_pass() -> bool:
    """Whether it is proven that the pass does what it says."""
    module = sd.run_pipeline(sd.parse(TEXT), "spmd")
    with module.context:
        _swaps(module.operation)
    return sd.prove(sd.parse(TEXT), module).answer != "refuted"


def lying_backend() -> bool:
    """It computes what is right on one device only."""

    class Lies:
        def __init__(self, module: ir.Module, entry: str) -> None: ...

        def run(self, shards: list[list[Any]]) -> list[list[Any]]:
            right = [[np.tanh(x @ w)] for x, w in shards]
            right[1][0][0, 0] += 1
            return right

    return sd.compile(sd.parse(TEXT), Lies).check().passed


def lying_judge() -> bool:
    """Two judges differ."""
    return sd.compile(sd.parse(TEXT)).check(judge=lambda *_: lambda a: [a[0] @ a[1]]).passed


def lying_rule() -> bool:
    """It calls a sum along a dimension elementwise, so nothing is added up."""
    name = "liar.sum"
    sd.register_dialect(
        "liar",
        "irdl.dialect @liar { irdl.operation @sum {"
        "%a = irdl.any %b = irdl.any irdl.operands(x: %a) irdl.results(y: %b) } }",
    )

    def lower(op: ir.Operation) -> list[ir.Value]:
        """Each element minus the sum of its row."""
        (x,) = op.operands
        i32 = ir.IntegerType.get_signless(32)
        rows = ir.RankedTensorType.get([x.type.shape[0], 1], x.type.element_type)
        axis = {"axis": ir.IntegerAttr.get(i32, 1)}
        total = ir.Operation.create("tosa.reduce_sum", [rows], [x], axis).result
        return [ir.Operation.create("tosa.sub", [x.type], [x, total]).result]

    sd.sharding_rule(name, lowering=lower)("([i, j]) -> ([i, j])")
    text = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>})
    -> tensor<4x8xf32> {
  %0 = "liar.sum"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
"""
    try:
        return sd.compile(sd.parse(text)).check().passed
    finally:
        op_table.RECORDS.pop(name)
        context._loaders.pop("liar")


@pytest.mark.parametrize("lie", [lying_pass, lying_backend, lying_judge, lying_rule])
def test_a_lie_is_found(lie: Callable[[], bool]) -> None:
    assert not lie()
