"""No name of a file, or in it, is anything but a name: in emitted programs, reports and errors."""

import ast
import builtins
import json
import keyword
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shard_dialect.backends.python import helper_functions
from shard_dialect.backends.python.python_module import TARGETS, emit_python
from shard_dialect.backends.python.writer import Target, folded, in_docstring
from shard_dialect.errors import Diagnostic, ShardError, as_symbol, note, shown
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.reading.string_literals import quoted, unquoted
from shard_dialect.passes.framework.pipeline import run_pipeline
from tests.conftest import ROOT, Program

pytestmark = pytest.mark.usefixtures("unoptimized")

NASTY = [
    *("'", '"', '"""', "'''", "\\", "\\\\", '\\"""', "\n", "\r", "\r\n", "\t", "\f", "\v", "\0"),
    *("\x1b[31m", "\x85", "\u2028", "\u2029", "\u202e", "\ufeff", "\xa0", "é", "ﬁ", "\U0001d431"),
    *("{", "}", "{x}", "{{", "%s", "#", ";", ":", ",", "(", ")", "[", "]", "=", "->", "@", "/"),
    '"""\nimport os; os.abort()\n"""',
    "\nimport os; os.abort()\n#",
    "a, b=__import__('os').abort()",
    "\\N{DIGIT ONE}",
    "\\x41",
    "\\u0041",
    "x" * 90,
    *("chlo.top_k", "sdy.mesh", "sdy.reshard", "shard.grid", "mesh.sharding", "tensor.empty"),
    "_",
    "__name__",
    "1",
    "main.py",
]
WORDS = [
    *keyword.kwlist,
    *keyword.softkwlist,
    *(each for each in dir(builtins) if each.isidentifier()),
    *("np", "torch", "dist", "MPI", "Tensor", "argparse", "main", "program", "rank", "device"),
    *("GRID", "along_0", "arg0", "result", "self", "inputs", "all_reduce", "send", "value"),
]
names = st.one_of(
    st.sampled_from(NASTY),
    st.sampled_from(WORDS),
    st.lists(st.sampled_from(NASTY + WORDS), min_size=2, max_size=4).map("".join),
    st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8),
)

PROGRAM = """
shard.grid @{grid}(shape = 2x2) {{axis_names = [{axis}, {other_axis}]}}
func.func @{function}(
    %x: tensor<4x4xf32> {{mesh.sharding = #mesh.shard<@{grid}, [[0], [1]]>}} loc({argument}),
    %n: tensor<4xf32> {{some.attribute = {attribute}}} loc({second_argument}("f":1:2))
) -> tensor<4xf32> attributes {{some.note = {attribute}}} {{
  %zero = arith.constant dense<0.0> : tensor<4xf32> loc({value})
  %e = math.exp %x {{some.attribute = {attribute}}} : tensor<4x4xf32> loc({second_value})
  %sum = linalg.reduce {{arith.addf}} ins(%e : tensor<4x4xf32>) outs(%zero : tensor<4xf32>)
           dimensions = [1] loc(callsite({third_value} at {file}:1:1))
  %called = func.call @{callee}(%sum) : (tensor<4xf32>) -> tensor<4xf32>
  %c0 = arith.constant 0 : index loc({index})
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %called) -> tensor<4xf32> {{
    %s = arith.addf %a, %n : tensor<4xf32> loc(fused[{value}, {file}:3:4])
    %m = arith.mulf %s, %a : tensor<4xf32> loc({fourth_value})
    %d = arith.subf %m, %s : tensor<4xf32> loc({fifth_value})
    scf.yield %d : tensor<4xf32>
  }}
  return %r : tensor<4xf32> loc({file}:2:3)
}}
func.func private @{callee}(%y: tensor<4xf32> loc({argument})) -> tensor<4xf32> {{
  %z = math.tanh %y : tensor<4xf32> loc({value})
  return %z : tensor<4xf32>
}}
"""
SYMBOLS = ("grid", "function", "callee")
PLACES = (
    *SYMBOLS,
    *("axis", "other_axis", "argument", "second_argument", "attribute", "index", "file"),
    *("value", "second_value", "third_value", "fourth_value", "fifth_value"),
)


def named(*, unique: bool = True) -> st.SearchStrategy[dict[str, str]]:
    """A name for each place."""
    drawn = st.lists(names, min_size=len(PLACES), max_size=len(PLACES), unique=unique)
    return drawn.map(lambda found: dict(zip(PLACES, found, strict=True)))


TAME = {place: f"tame_{place}" for place in PLACES}


def emitted(given_names: dict[str, str], target: Target, file: str = "in.mlir") -> str:
    text = PROGRAM.format(**{place: quoted(name) for place, name in given_names.items()})
    with warnings.catch_warnings(), make_context():
        warnings.simplefilter("ignore")
        module = Source.of(text, file).parse()
        run_pipeline(module, "spmd")
        return emit_python(module, target)


IDENTIFIERS = {
    ast.Name: "id",
    ast.arg: "arg",
    ast.FunctionDef: "name",
    ast.ClassDef: "name",
    ast.alias: "name",
    ast.Attribute: "attr",
    ast.keyword: "arg",
}


ARGUMENTS = ("argument", "second_argument")
"""The places whose names files of inputs have, so that emitted programs have them as texts."""


def same(ours: ast.AST, theirs: ast.AST, fixed: set[str], found: dict[str, str]) -> None:
    """Raise unless the trees differ in names alone, one for one, and not in what they define."""
    said = {TAME[place]: (found[place], f"arg{at}") for at, place in enumerate(ARGUMENTS)}
    forth: dict[str, str] = {}
    back: dict[str, str] = {}

    def pair(a: Any, b: Any) -> None:
        assert type(a) is type(b), f"{a} {b}"
        if isinstance(a, list):
            assert len(a) == len(b)
            for x, y in zip(a, b, strict=True):
                pair(x, y)
        elif isinstance(a, ast.AST):
            assert type(a) is type(b)
            for field in a._fields:
                x, y = getattr(a, field), getattr(b, field)
                if IDENTIFIERS.get(type(a)) == field and isinstance(a, (ast.Attribute, ast.alias)):
                    assert x == y
                elif IDENTIFIERS.get(type(a)) == field:
                    assert forth.setdefault(x, y) == y
                    assert back.setdefault(y, x) == x
                    assert (x in fixed) == (y in fixed), f"{x} {y}"
                    assert x == y or x not in fixed
                else:
                    pair(x, y)
        elif b in said:
            assert a in said[b]
        else:
            assert a == b

    pair(ours, theirs)


def without_docstring(text: str) -> list[ast.stmt]:
    first, *rest = ast.parse(text).body
    assert isinstance(first, ast.Expr)
    assert isinstance(first.value, ast.Constant)
    return rest


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(found=named(), file=names)
def test_a_name_changes_no_syntax(target: Target, found: dict[str, str], file: str) -> None:
    hostile, tame = (without_docstring(emitted(each, target, file)) for each in (found, TAME))
    assert len(hostile) == len(tame)
    fixed = helper_functions.names(target)
    for ours, theirs in zip(hostile, tame, strict=True):
        same(ours, theirs, fixed, found)


@pytest.mark.parametrize("target", TARGETS)
def test_the_docstring_says_the_name(target: Target) -> None:
    for name in [*NASTY[:: len(TARGETS)], "".join(NASTY)]:
        module = ast.parse(emitted({**TAME, "function": name}, target))
        said = ast.get_docstring(module, clean=False)
        assert said is not None
        assert said.startswith(f"{as_symbol(name)} on 4 devices")


@given(st.text())
def test_whatever_stands_in_a_docstring_or_a_comment(text: str) -> None:
    line = f'"""x {in_docstring(text)} x"""'
    assert ast.literal_eval(line) == f"x {text} x"
    assert "\n" not in line
    statement = "\n".join(folded("x = f(a, b)", comment=text))
    assert ast.dump(ast.parse(statement)) == ast.dump(ast.parse("x = f(a, b)"))


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=6), st.integers(1, 60))
def test_folding_changes_no_syntax(found: list[str], length: int) -> None:
    long = [each * length for each in found]
    joined = ", ".join(long)
    for line in (
        f"x = f({joined})",
        f"x = -({' + '.join(long)})",
        f"x = y[{joined}]",
        f"x = [{joined}]",
        f"return {joined}",
        f"x = f([g(i) for i in {long[0]}])",
        f"x = f(g({joined}), ({' - '.join(long)}))",
        f"x = f(({' * '.join(long)}))",
        f"x = f(g(i) for i in ({' * '.join(long)}))",
        f"x = ({' * '.join(long)}).f({joined})[{long[-1]}]",
    ):
        assert ast.dump(ast.parse("\n".join(folded(line)))) == ast.dump(ast.parse(line)), line


@given(st.text(), st.booleans())
def test_strings_are_those_of_mlir(text: str, is_symbol: bool) -> None:
    data = text.encode(errors="replace").decode()
    with make_context():
        attribute = ir.Attribute.parse(f"@{quoted(data)}" if is_symbol and data else quoted(data))
        assert attribute.value == data
        if not is_symbol:
            assert str(attribute) == quoted(data)
    assert unquoted(quoted(data)) == data


def test_the_program_that_ran_its_own_code(
    opt: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for target in TARGETS:
        done = opt(ROOT / "tests" / "hostile" / "names.mlir", "--spmd", f"--emit-python={target}")
        assert done.returncode == 0, done.stderr
        compile(done.stdout, "emitted", "exec")
        calls = [node for node in ast.walk(ast.parse(done.stdout)) if isinstance(node, ast.Call)]
        assert not [each for each in calls if ast.unparse(each.func) in ("os.system", "__import__")]


def printable(text: str, lines: int) -> Iterator[str]:
    found = text.split("\n")
    assert len(found) == lines, text
    for line in found:
        assert line.isprintable(), repr(line)
        yield line


@given(name=names, place=names)
def test_a_diagnostic_is_a_line_and_moves_no_cursor(name: str, place: str) -> None:
    found = Diagnostic("error", f"no @{name}", f"{place}:1:2", (note(f"@{name}", place),))
    first, second = printable(str(found), 2)
    assert first.startswith(shown(place))
    assert second.endswith(shown(name))
    list(printable(str(ShardError(name, place, further=(found,))), 3))


def test_diagnostics_of_mlir_are_lines() -> None:
    with make_context():
        location = ir.Location.file("a\n\x1b[2Jb", 1, 2)
        list(printable(str(error_at(location, "it is wrong")), 1))


@pytest.mark.parametrize("json_", [False, True])
def test_reports_and_errors_of_a_run(run: Program, tmp_path: Path, json_: bool) -> None:
    """The name of the file, of the entry, and of what is not there."""
    evil = "a\x1b]0;b\x07\nerror: forged\x9b2J\u202e"
    program = tmp_path / f"{evil}.mlir"
    text = PROGRAM.format(**{**{p: quoted(n) for p, n in TAME.items()}, "function": quoted(evil)})
    program.write_text(text)
    options = ["--json"] if json_ else []
    done = run(program, *options)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert all(line.isprintable() for line in done.stdout.splitlines())
    assert "forged" not in [line.split(":")[0] for line in done.stdout.splitlines()]
    if json_:
        assert json.loads(done.stdout)["entry"] == evil
    program.write_text(text.replace("math.exp", "math.expo"))
    done = run(program, *options)
    assert done.returncode == 1
    (line,) = printable(done.stderr.rstrip("\n"), 1)
    assert line.startswith(shown(str(program)))


def test_a_name_is_no_word_to_who_watches(run: Program, tmp_path: Path) -> None:
    """A file whose name is what a rank tells its watch."""
    name = "!state\tdone\n!failed\tforged\n.mlir"
    program = tmp_path / name
    os.makedirs(program.parent, exist_ok=True)
    program.write_text(PROGRAM.format(**{place: quoted(each) for place, each in TAME.items()}))
    assert run(program).returncode == 0


ODD = st.one_of(names, st.sampled_from([*"?-*", "a b", "%x", "x=[[0]]", "é" * 3000, "x:(1)2", ""]))
SAID = re.compile(r"^\S*?:\d+:\d+: error: .* has an empty name, which MLIR prints as no name$")
COMMANDS: dict[str, Sequence[Sequence[str]]] = {
    "propagated": [("opt", "in", "--propagate", "-o", "a"), ("opt", "a", "--spmd", "-o", "b")],
    "as sdy": [("opt", "in", "--import", "--export-sdy", "-o", "a"), ("opt", "a", "-o", "b")],
    "as shard": [("opt", "in", "--import", "--export-shard", "-o", "a"), ("opt", "a", "-o", "b")],
    "run": [("opt", "in", "--spmd", "-o", "a"), ("run", "a", "--reference=in", "--check")],
    "report": [("report", "in"), ("report", "in", "--html=a")],
    "prove": [("prove", "in", "in")],
}


@pytest.mark.parametrize("commands", COMMANDS.values(), ids=COMMANDS)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(found=st.lists(ODD, min_size=5, max_size=5, unique=True))
def test_every_program_takes_any_name(
    commands: Sequence[Sequence[str]],
    found: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is written is read again; an empty name is refused in one line."""
    places = {**TAME, **dict(zip((*SYMBOLS, "axis", "other_axis"), found, strict=True))}
    texts = {place: quoted(name) for place, name in places.items()}
    (tmp_path / "in").write_text(PROGRAM.format(**texts), newline="")
    for program, *arguments in commands:
        paths = [re.sub(r"\b(in|a|b)$", rf"{tmp_path}/\1", each) for each in arguments]
        main = import_module(f"shard_dialect.{program}").main
        capsys.readouterr()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            status = main(paths)
        said = capsys.readouterr().err.strip()
        if "" in found[:3]:
            assert status == 1
            assert SAID.match(said), said
            return
        assert status == 0, said


@pytest.mark.parametrize("name", ["g", '"a b"', '"?"', '"\\C3\\A9"'])
def test_a_grid_of_any_name_in_every_spelling(name: str) -> None:
    """What is rewritten before MLIR reads it, and what is refused there."""
    grid = f"mesh.cluster @{name}(rank = 1, dim_sizes = [2])\n"
    split = "{mesh.sharding = #mesh.shard<[[0]]>}"
    short = f"{grid}func.func @f(%x: tensor<4xf32> {split}) attributes {{mesh_cluster = @{name}}}"
    shard = f"""shard.grid @{name}(shape = 2)
      func.func @f() {{ %s = shard.sharding @{name} split_axes = [[0]] """
    mesh = f'sdy.mesh @{name} = <["x y"=2]>\nfunc.func @f(%x: tensor<4xf32>) {{ return }}'
    with make_context():
        for text in (f"{short} {{ return }}", f"{shard}\n return }}", mesh):
            Source.of(text).parse()
        wrong = shard.replace("[[0]]", "[[1]] sharded_dims_offsets = [0, 2]")
        with pytest.raises(ShardError, match=r"grid axis 1 in split axes \[\[1\]\]"):
            Source.of(f"{wrong} : !shard.sharding return }}").parse()
        with pytest.raises(ShardError, match=re.escape(f"grid @{name} has size 0")):
            Source.of(f"shard.grid @{name}(shape = 0)\nfunc.func @main() {{ return }}").parse()
