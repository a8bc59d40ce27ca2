"""Shardy's pretty text where jaxlib, which reads it, is not there."""

import subprocess
import sys

from tests.conftest import ROOT

_WITHOUT = """
import runpy, sys
sys.modules["jaxlib"] = None  # what makes an import fail
runpy.run_module("shard_dialect.opt", run_name="__main__", alter_sys=True)
"""


def without_jaxlib(text: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _WITHOUT, "-"]
    return subprocess.run(command, input=text, cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_pretty_text_without_jaxlib_says_what_to_install() -> None:
    done = without_jaxlib('sdy.mesh @m = <["x"=2]>\n')
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: jaxlib, which reads Shardy's pretty text,")
    assert "pip install" in done.stderr
    assert done.stderr.count("\n") == 1


def test_generic_text_needs_no_jaxlib() -> None:
    done = without_jaxlib('"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "m"}> : () -> ()\n')
    assert done.returncode == 0, done.stderr
    assert '#sdy.mesh<["x"=2]>' in done.stdout


def test_a_word_in_a_comment_is_no_pretty_text() -> None:
    done = without_jaxlib("// sdy.mesh @m\nfunc.func private @f()\n")
    assert done.returncode == 0, done.stderr
