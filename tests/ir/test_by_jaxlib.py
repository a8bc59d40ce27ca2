"""What jaxlib reads for us, and what is said where it is not there."""

import subprocess
import sys

import pytest

from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source, to_generic
from tests.conftest import ROOT
from tests.extras import needs

with_jaxlib = needs("jax")

_WITHOUT = """
import runpy, sys
sys.modules["jaxlib"] = None  # what makes an import fail
runpy.run_module("shard_dialect.opt", run_name="__main__", alter_sys=True)
"""


def without_jaxlib(text: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _WITHOUT, "-"]
    return subprocess.run(command, input=text, cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_pretty_text_without_jaxlib_says_what_to_install() -> None:
    done = without_jaxlib("sdy.return\n")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: jaxlib, which reads text of Shardy,")
    assert "pip install" in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_jax_writes_most_needs_no_jaxlib() -> None:
    done = without_jaxlib(
        'sdy.mesh @m = <["x"=2]> {jax.said = {axes = [1]}} // of two\n'
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        '  %0 = sdy.sharding_constraint %x <@m, [{"x"}]> : tensor<4xf32>\n'
        "  return %0 : tensor<4xf32>\n}\n"
    )
    assert done.returncode == 0, done.stderr
    assert 'sdy.mesh @m = <["x"=2]> {jax.said = {axes = [1]}}' in done.stdout
    assert 'sdy.sharding_constraint %arg0 <@m, [{"x"}]> : tensor<4xf32>' in done.stdout


@with_jaxlib
@pytest.mark.parametrize(
    "text",
    [
        'sdy.mesh @m = <["x"=2]> {}\n',
        'sdy.mesh @"m" = <["x"=2]> // <\n',
        'sdy.mesh @m = <["x"=2]>\n'
        "func.func @f(%x: tensor<8xf32, affine_map<(d0) -> (d0)>>) {\n"
        '  %0 = sdy.sharding_constraint %x <@m, [{"x"}]>'
        " : tensor<8xf32, affine_map<(d0) -> (d0)>>\n  return\n}\n",
        'sdy.mesh @m = <["x"=2]>\nfunc.func @f(%x: tensor<8xf32> {sdy.sharding =\n'
        '    #sdy.sharding<@m, [{"x"}]>}) {\n'
        '  %0 = sdy.sharding_constraint %x\n    <@m, [{"x"}]> {a = "}"} : tensor<8xf32>\n'
        "  return\n}\n",
    ],
    ids=["empty", "quoted", "encoding", "lines"],
)
def test_what_is_rewritten_is_what_jaxlib_reads(text: str) -> None:
    with make_context():
        ours = str(Source.of(text).parse())
        generic = to_generic(text, "-", 0)
        assert ours == str(Source.of(generic).parse())


def test_generic_text_needs_no_jaxlib() -> None:
    done = without_jaxlib('"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "m"}> : () -> ()\n')
    assert done.returncode == 0, done.stderr
    assert 'sdy.mesh @m = <["x"=2]>' in done.stdout


def test_a_word_in_a_comment_is_no_pretty_text() -> None:
    done = without_jaxlib("// sdy.mesh @m\nfunc.func private @f()\n")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["chlo.0", "chlo.top_k", "sdy.mesh", "sdy.reshard"])
def test_a_name_like_an_op_is_none(name: str) -> None:
    text = f"""
    shard.grid @"{name}"(shape = 2)
    func.func @"{name}_f"(%x: tensor<4xf32> {{some.name = "{name}"}} loc("{name}"("f":1:2)))
        -> tensor<4xf32> attributes {{some.name = "{name}"}} {{
      return %x : tensor<4xf32>
    }}"""
    with make_context():
        assert "shard.grid" in str(Source.of(text).parse())
