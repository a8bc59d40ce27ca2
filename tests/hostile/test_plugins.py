"""Plugins that raise, return nonsense, break the IR, or lie: named, or found; never our error.

A plugin is drawn by its seed: what kind of thing it registers, and what that does.
"""

import random
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect import plugins, testing
from shard_dialect.backends.python.python_module import emit_python
from shard_dialect.bindings import ir
from shard_dialect.ir import context
from shard_dialect.ops import op_table
from shard_dialect.passes.framework import pass_table
from tests.conftest import Program
from tests.ops.unary_dialect import unary_dialect

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
    "file": "{body}",
}
FACETS = ("rule", "partition", "partial", "padding", "lowering", "operations", "python")
FACETS += ("stablehlo", "sample")
KINDS |= dict.fromkeys(FACETS, "def it(*_):\n  {body}")
FILE = "/plugin/of/mine.py"
PARTIAL = """shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>},
                %w: tensor<8x6xf32>)
    -> (tensor<4x6xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %1 = "it.op"(%0) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %3 = stablehlo.add %1, %2 : tensor<4x6xf32>
  return %3 : tensor<4x6xf32>
}
"""
UNEVEN = """shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x5xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>})
    -> tensor<4x1xf32> {
  %0 = "it.op"(%x) : (tensor<4x5xf32>) -> tensor<4x1xf32>
  return %0 : tensor<4x1xf32>
}
"""


ROWS = "([i, j]) -> ([i, j])"


def same(op: ir.Operation) -> list[ir.Value]:
    """A lowering: the negative, or the largest of each row."""
    (x,), (result,) = op.operands, op.results
    if x.type == result.type:
        return [ir.Operation.create("stablehlo.negate", [x.type], [x]).result]
    axis = {"axis": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1)}
    return [ir.Operation.create("tosa.reduce_max", [result.type], [x], axis).result]


def facet_door(facet: str, it: Any) -> None:
    """Go to the end with an op of which `it` says something."""
    facets: dict[str, Any] = {"lowering": same, "operations": 1}
    rule, text = ROWS, PARTIAL
    if facet == "padding":
        rule, text = "([i, j]) -> ([i, *]) reduction={j: max}", UNEVEN
    if facet == "rule":
        rule = it
    else:
        facets[facet] = it
    sd.register_dialect("it", unary_dialect("it", "op"))
    try:
        sd.sharding_rule("it.op", **facets)(rule)
        if facet == "sample":
            testing.SAMPLES["it.op"](testing.Draws(random.Random(0)))
        sd.report(sd.parse(text))
        sd.compile(sd.parse(text)).check()
        sd.run_pipeline(sd.parse(text), "spmd,lower{target=stablehlo}")
        module = sd.run_pipeline(sd.parse(text), "spmd")
        with module.context:
            emit_python(module, "mpi4py")
    finally:
        op_table.RECORDS.pop("it.op", None)
        context._loaders.pop("it")


def door(kind: str, body: str) -> None:
    """Go through the door that calls a plugin of this kind."""
    names: dict[str, Any] = {"sd": sd, "ir": ir, "np": np}
    code = compile(KINDS[kind].format(body=body), FILE, "exec")
    if kind == "file":
        plugins._guarded(lambda: exec(code, names), "plugin 'it'")  # type: ignore[arg-type,return-value]
        return
    exec(code, names)
    it = names["it"]
    if kind in FACETS:
        facet_door(kind, it)
        return
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


@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_plugin_raises_names_it_and_its_line(kind: str) -> None:
    for raised in RAISED:
        with pytest.raises(sd.ShardError) as caught:
            door(kind, f"raise {raised}")
        found = caught.value
        assert "'it'" in found.message or "'it.op'" in found.message, raised
        places = [found.location, *(each.location for each in found.notes)]
        assert str(places[-1]).startswith(f"{FILE}:"), raised
        if kind in FACETS and kind != "sample":
            assert str(found.location).startswith(("<string>:", "-:")), raised


@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")
@pytest.mark.parametrize("kind", [each for each in KINDS if each not in ("dialect", "file")])
def test_a_plugin_s_own_error_is_told_as_it_is(kind: str) -> None:
    with pytest.raises(sd.ShardError) as caught:
        door(kind, "raise sd.ShardError('mine')")
    assert caught.value.message == "mine"


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")
@pytest.mark.parametrize("seed", range(60))
def test_nonsense_is_refused_by_name_or_does_no_harm(seed: int) -> None:
    draw = random.Random(seed)
    kind, returned = draw.choice([each for each in KINDS if each != "file"]), draw.choice(RETURNED)
    said = ""
    try:
        door(kind, f"return {returned}")
    except sd.ShardError as error:
        said = error.message
    harmless = kind in ("pass", "objective", "dialect", *FACETS)
    assert "'it'" in said or "'it.op'" in said or (harmless and not said), (kind, returned, said)


_RULE = "sd.ShardingRule((4, 6), (((0,), (1,)),), (((0,), (1,)),)"
NONSENSE: dict[str, tuple[str, ...]] = {
    "rule": (
        *(f"return {_RULE}, {more})" for more in (
            "need_replication={7}", "reductions=((5, 'sum'),)", "reductions=((0, 'nope'),)",
            "blocked=3", "permuted={-1}", "inits=(9,)", "role='x'", "windows=(3,)",
            "reductions=(0,)", "need_replication={float('nan')}",
        )),
        *(f"return sd.ShardingRule({each}, (((0,), (1,)),), (((0,), (1,)),))" for each in (
            "(10**30, 6)", "(-4, 6)", "(float('nan'), 6)", "()", "('4', '6')", "None", "(4,) * 9",
        )),
        "return sd.ShardingRule((4, 6), (((9,), (1,)),), (((0,), (1,)),))",
        "return sd.ShardingRule((4, 6), 3, 4)",
        "return sd.ShardingRule((4, 6), (((0,), (0,)),), (((0,), (1,)),))",
        "return sd.ShardingRule((4, 6), (((0, 1), ()),), (((0,), (1,)),))",
        "return sd.ShardingRule.einsum('ij->ij', [(4, 6)], [(4, 6)], {'k': 'sum'})",
        "return sd.ShardingRule.einsum('ij->ji', [(4, 6)], [(6, 4)])",
        *(f"return {each!r}" for each in (
            "([i, j, k]) -> ([i, j])", "([i", "([i, j]) -> ([i, j]) reduction={z}",
            "([i]) -> ([i, j])", "([i, j]) -> ([j, i])", "([i, i]) -> ([i, i])", "", "->",
            "([i, j], [i, j]) -> ([i, j])", "([i, j]) -> ()", "(" * 10**5, "([i, *]) -> ([i, j])",
        )),
    ),
    "lowering": (
        "return [_[0].results[0]]",
        "return list(_[0].operands)",
        "return [ir.Operation.create(_[0].name, [_[0].results[0].type], _[0].operands).result]",
        "_[0].erase(); return []",
        "return [ir.Operation.create('tensor.empty', [ir.Type.parse('tensor<9xf32>')]).result]",
        "ir.Operation.create('no.such'); return list(_[0].operands)",
        "ir.Operation.create('func.return', [], []); return list(_[0].operands)",
        "ir.Operation.create('cf.assert', [], []); return list(_[0].operands)",
        "return [sd.parse('func.func @f(%x: i32) { return }').body.operations[0]"
        ".regions[0].blocks[0].arguments[0]]",
        "_[0].results[0].replace_all_uses_with(_[0].operands[0]); return list(_[0].operands)",
    ),
    "partition": (
        "_[0].op.attributes['x'] = 3",
        "_[0].result.begin(9)",
        "_[0].operand(5)",
        "_[0].devices(77)",
        "_[0].op.results[0].set_type(ir.F32Type.get())",
        "_[0].op.attributes['x'] = ir.UnitAttr.get()",
    ),
    "operations": ("return 10**400", "return float('nan')", "return -5", "return _[0].shape(9)"),
    "partial": ("return {-1}", "return {10**9}", "return {0, 1}", "return {float('nan')}"),
    "stablehlo": (
        "return list(_[0].operands)",
        "return [_[0].results[0]]",
        "return [ir.Operation.create('stablehlo.abs', [_[0].results[0].type]).result]",
        "return [ir.Operation.create('tensor.empty', [_[0].results[0].type]).result]",
    ),
    "python": ("_[0].define(3, 4)", "_[0].values.clear()", "_[0].lines.append('(')", "return 'x'"),
    "padding": ("return [3]", "return [None] * 10**6", "return {0: 'sum'}"),
}  # fmt: skip
"""What a function of each kind may do with its arguments, `_`, besides."""


@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param(kind, body, id=f"{kind}: {body[:60]}")
        for kind, bodies in NONSENSE.items()
        for body in bodies
    ],
)
def test_what_a_function_does_to_its_op_is_refused_by_name_or_does_no_harm(
    kind: str, body: str
) -> None:
    said = None
    with at_most(30):
        try:
            door(kind, body)
        except sd.ShardError as error:
            said = error
    if said is not None:
        assert "'it.op'" in said.message, said.message
        assert said.location, said.message


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Let what takes longer fail."""

    def late(*_: object) -> None:
        raise KeyboardInterrupt("this never ends")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_what_never_returns_can_be_interrupted(kind: str) -> None:
    """No guard swallows Ctrl-C: Python's own traceback then shows the line."""
    with pytest.raises(KeyboardInterrupt) as caught, at_most(300.0):
        door(kind, "import signal; signal.raise_signal(signal.SIGALRM)")
    assert any(str(each.path) == FILE for each in caught.traceback)


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
    assert re.search(r"in pass 'it' \(.*mine.py:7\)|in it$", done.stderr, re.M), done.stderr
    assert "Traceback" not in done.stderr


PRODUCT = """
import shard_dialect as sd
sd.sharding_rule("it.op")("([i, k], [k, j]) -> ([i, j]) reduction={k: sum}")
"""


def test_a_product_of_a_users_is_split(opt: Program, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PRODUCT)
    (tmp_path / "in.mlir").write_text("""shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>},
                %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %0 = "it.op"(%x, %w) : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}""")
    flags = [f"--load-plugin={tmp_path}/mine.py", "--spmd", "--allow-unregistered-dialect"]
    done = opt(tmp_path / "in.mlir", *flags)
    assert done.returncode == 0, done.stderr
    assert "shard.all_reduce" in done.stdout


FUNCTION = """
import ctypes
import shard_dialect as sd
sd.register_dialect("it", {dialect!r})
def it(*_):
 {body}
sd.sharding_rule("it.op", {facet}=it)("([i, j]) -> ([i, j])")
"""


@pytest.fixture
def with_function(tmp_path: Path) -> Callable[[str, str], list[str]]:
    """The arguments of a program, with a plugin of which one function does this."""

    def made(facet: str, body: str) -> list[str]:
        text = FUNCTION.format(dialect=unary_dialect("it", "op"), facet=facet, body=body)
        (tmp_path / "mine.py").write_text(text)
        (tmp_path / "in.mlir").write_text(PARTIAL)
        return [str(tmp_path / "in.mlir"), f"--load-plugin={tmp_path}/mine.py"]

    return made


def test_a_function_that_crashes_is_named(
    with_function: Callable[[str, str], list[str]], opt: Program
) -> None:
    done = opt(*with_function("partition", "ctypes.string_at(0)"), "--spmd")
    assert done.returncode == 1
    assert re.fullmatch(
        r"error: the program crashed \(SIGSEGV\) in the partition of 'it.op' \(.*mine.py:5\), "
        r"at .*in.mlir:7:8\n",
        done.stderr,
    )


def test_a_function_that_never_returns_is_named_when_the_program_is_ended(
    with_function: Callable[[str, str], list[str]], run: Program, opt: Program
) -> None:
    done = run(*with_function("lowering", "import time; time.sleep(1000)"), "--timeout=20")
    assert done.returncode == 1
    assert re.fullmatch(
        r"error: not done after 20 s\nnote: it was in the lowering of 'it.op' \(.*mine.py:5\), "
        r"at .*in.mlir:7:8\n",
        done.stderr,
    )
    wait = "import os, time; os.kill(os.getppid(), 2); time.sleep(1000)"
    done = opt(*with_function("partition", wait), "--spmd")
    assert re.fullmatch(
        r"error: interrupted in the partition of 'it.op' \(.*mine.py:5\), at .*in.mlir:7:8\n",
        done.stderr,
    )


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


def lying(text: str = PARTIAL, backend: Any = "devices", rule: str = ROWS, **facets: Any) -> bool:
    """Whether a program passes its check whose op is registered with these, maybe false, facets."""
    sd.register_dialect("it", unary_dialect("it", "op"))
    try:
        sd.sharding_rule("it.op", **({"lowering": same} | facets))(rule)  # type: ignore[arg-type]
        return sd.compile(sd.parse(text), backend).check(judge="self").passed
    finally:
        op_table.RECORDS.pop("it.op")
        context._loaders.pop("it")


def scaled(op: ir.Operation) -> list[ir.Value]:
    """A lowering: all plus a number of the op's."""
    (x,) = op.operands
    number = ir.FloatAttr.get(ir.F32Type.get(), float(op.attributes["n"].value))
    value = {"value": ir.DenseElementsAttr.get_splat(x.type, number)}
    made = ir.Operation.create("stablehlo.constant", [x.type], [], value).result
    return [ir.Operation.create("stablehlo.add", [x.type], [x, made]).result]


def exponential(op: ir.Operation) -> list[ir.Value]:
    """A lowering that is not linear."""
    return [ir.Operation.create("stablehlo.exponential", [op.operands[0].type], op.operands).result]


def product(op: ir.Operation) -> list[ir.Value]:
    """A lowering: of zeros in the padding the product is zero."""
    axis = {"axis": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1)}
    types = [op.results[0].type]
    return [ir.Operation.create("tosa.reduce_product", types, op.operands, axis).result]


def changed(partitioned: sd.PartitionedOp) -> None:
    partitioned.op.attributes["n"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 9)


REDUCES = "([i, j]) -> ([i, *]) reduction={j: max}"
NUMBERED = PARTIAL.replace('"it.op"(%0) :', '"it.op"(%0) {n = 3} :')
LIES: dict[str, Callable[[], bool]] = {
    "what may be partial": lambda: lying(
        lowering=exponential, partial=lambda query: frozenset(query.numbers)
    ),
    "an attribute of a shard": lambda: lying(NUMBERED, lowering=scaled, partition=changed),
    "padding that may hold anything": lambda: lying(
        UNEVEN, rule=REDUCES.replace("max", "product"), lowering=product, padding="anything"
    ),
    "the reduction": lambda: lying(UNEVEN.replace("x5", "x4"), rule=REDUCES.replace("max", "min")),
    "the op of StableHLO": lambda: lying(backend="xla", stablehlo="abs"),
}


def test_what_is_said_of_these_ops_may_be_true() -> None:
    assert lying()
    assert lying(NUMBERED, lowering=scaled)
    assert lying(UNEVEN, rule=REDUCES, padding="identity")
    assert lying(UNEVEN.replace("x5", "x4"), rule=REDUCES)


@pytest.mark.parametrize("what", LIES)
def test_what_is_untrue_of_an_op_is_found(what: str) -> None:
    assert not LIES[what]()


@pytest.mark.parametrize("lie", [lying_pass, lying_backend, lying_judge, lying_rule])
def test_a_lie_is_found(lie: Callable[[], bool]) -> None:
    assert not lie()
