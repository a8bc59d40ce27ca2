"""`opt` as a program: files, streams, flags; and the package as a library."""

import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from shard_dialect.cli.flags import _parser, parse_arguments
from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.model import ShardingRule
from shard_dialect.ops import Query, op_table
from shard_dialect.passes.framework.pass_table import PASSES, pass_class
from shard_dialect.passes.framework.pipeline import make_pass, run_pipeline
from shard_dialect.passes.materialize.insert_collectives import InsertCollectives
from shard_dialect.passes.pipelines import PIPELINES
from shard_dialect.run import _parser as run_parser
from tests.conftest import ROOT, Program

EXAMPLE = "examples/mlp_1d.mlir"


def test_standard_input_and_a_file_are_read_alike(opt: Program) -> None:
    with (ROOT / EXAMPLE).open() as text:
        piped = subprocess.run(
            [sys.executable, "-m", "shard_dialect.opt", "--spmd"],
            stdin=text,
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=60,
        )
    assert piped.returncode == 0
    assert piped.stdout == opt(EXAMPLE, "--spmd").stdout


def test_an_error_on_standard_input_is_placed_there() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "shard_dialect.opt"],
        input="func.func @f() {\n  nonsense\n}\n",
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("<stdin>:2:3: error: ")


def test_output_goes_to_the_file_named(opt: Program, tmp_path: Path) -> None:
    target = tmp_path / "out.mlir"
    done = opt(EXAMPLE, "--spmd", "-o", target)
    assert (done.returncode, done.stdout) == (0, "")
    assert target.read_text() == opt(EXAMPLE, "--spmd").stdout


def test_spmd_is_the_four_passes(opt: Program) -> None:
    apart = opt(EXAMPLE, "--propagate", "--materialize", "--optimize-collectives", "--partition")
    assert apart.stdout == opt(EXAMPLE, "--spmd").stdout


def test_generic_output_is_read_back(opt: Program, tmp_path: Path) -> None:
    target = tmp_path / "generic.mlir"
    opt(EXAMPLE, "--propagate", "--mlir-print-op-generic", "-o", target)
    assert '"linalg.contract"' in target.read_text()
    assert opt(target, "--spmd").stdout == opt(EXAMPLE, "--spmd").stdout


def test_help_lists_every_pass(opt: Program) -> None:
    text = opt("--help=passes").stdout
    assert all(f"--{name}" in text for name in (*PASSES, *PIPELINES))


def test_help_of_a_pass_shows_its_example(opt: Program) -> None:
    text = opt("--help=sum-in-place").stdout
    assert "%3 = stablehlo.dynamic_update_slice %sum, %2, %i" in text
    assert "    " not in opt("--help=fold-collectives").stdout.partition(":")[2]


def test_help_is_one_screen_of_flags_that_are_there(opt: Program) -> None:
    text = opt("--help").stdout
    lines = text.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    known = opt("--help=options").stdout + opt("--help=passes").stdout
    flags = set(re.findall(r"(?<=  |\w )--?[a-z][\w-]*", text))
    assert {"--spmd", "--export-sdy", "-o", "--emit-python"} <= flags
    assert all(re.search(rf"(?<!\S){flag}(?![\w-])", known) for flag in flags), flags
    assert opt("-h").stdout == text


def test_a_value_that_may_be_left_out_is_not_the_file_that_follows() -> None:
    flags = [
        flag
        for action in _parser("")._actions
        for flag in action.option_strings
        if action.nargs == "?" and action.dest != "help"
    ]
    assert {"--prove", "--auto", "--verify-diagnostics", "--split-input-file"} <= {*flags}
    for flag in flags:
        options, _ = parse_arguments([flag, "in.mlir"], "")
        assert options.input == "in.mlir", flag
    assert parse_arguments(["--prove=other.mlir"], "")[0].prove == "other.mlir"
    with pytest.raises(ShardError, match=r"a value of --auto stands behind '='"):
        parse_arguments(["in.mlir", "--auto", "seconds=3"], "")


def test_a_value_that_is_refused_is_said_briefly_and_without_our_names() -> None:
    for flag in ("--seed", "--timeout"):
        with pytest.raises(ShardError) as caught:
            run_parser().parse_args([f"{flag}={'9' * 5000}x"])
        assert len(caught.value.message) < 200
        assert "_" not in caught.value.message.partition("'")[0]
    with pytest.raises(ShardError, match=r"argument --seed: '9{60}\.\.\.' is no value of it"):
        run_parser().parse_args([f"--seed={'9' * 5000}"])


def test_a_pass_and_its_class_or_function_agree() -> None:
    for name in PASSES:
        found = pass_class(name)
        assert found.name == name
        words = re.sub("(?<!^)(?=[A-Z])", "-", found.__name__).replace("_", "-").lower()
        assert words == name
        assert found.summary().endswith("."), name


def test_options_of_a_pass_are_its_fields() -> None:
    assert make_pass("insert-collectives", "strict=true") == InsertCollectives(strict=True)
    assert make_pass("insert-collectives", "strict") == InsertCollectives(strict=True)


def test_a_rule_of_ones_own_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x8xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4x8xf32> {
  %0 = builtin.unrealized_conversion_cast %x
    : tensor<4x8xf32, #mesh.shard<@g, [[0]]>> to tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
"""
    with make_context():
        module = Source.of(text).parse()
        with pytest.warns(match="'builtin.unrealized_conversion_cast' op has no sharding rule"):
            run_pipeline(module, "propagate,materialize")
        assert "mesh.all_gather" in str(module)
        monkeypatch.setattr(op_table, "RECORDS", dict(op_table.RECORDS))

        @op_table.sharding_rule("builtin.unrealized_conversion_cast")
        def cast(query: Query) -> ShardingRule:
            return ShardingRule.einsum("ij->ij", query.operands, query.results)

        module = Source.of(text).parse()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run_pipeline(module, "propagate,materialize")
        assert "mesh.all_gather" not in str(module)


def test_help_of_a_pass_of_a_plugin_that_is_named_after_it(opt: Program, tmp_path: Path) -> None:
    plugin = tmp_path / "later.py"
    plugin.write_text(
        "import shard_dialect as sd\n"
        "@sd.register_pass\n"
        "class Later(sd.Pass):\n"
        '    """Do nothing, later."""\n'
        '    name = "do-nothing-later"\n'
        "    def rewrite(self, module):\n"
        "        pass\n"
    )
    for flags in (["--load-plugin", plugin], [f"--load-plugin={plugin}"]):
        done = opt("--help=do-nothing-later", *flags)
        assert "Do nothing, later." in done.stdout, done.stderr
