"""The programs of the RFC and its slides, in their own spelling, run as they are.

They are the feed-forward layer after each of the RFC's passes. What the documents leave out between
dots is filled in; the form of the last one, which is for one device, is named.
"""

from pathlib import Path

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.ir.context import make_context
from shard_dialect.ir.pretty_ops import pretty
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.communicators.world import InProcess
from shard_dialect.runtime.executable import Executable
from tests.conftest import ROOT, Program

PROGRAMS = sorted((ROOT / "tests" / "rfc").glob("*.mlir"))
LOCAL = "mlp_1d_partitioned"
GLOBAL = [path for path in PROGRAMS if path.stem != LOCAL]


@pytest.mark.parametrize("path", GLOBAL, ids=lambda path: path.stem)
def test_devices_compute_the_unsharded_program(path: Path, run: Program) -> None:
    done = run(path, "--check")
    assert done.returncode == 0, done.stderr
    assert "check passed" in done.stdout


def test_the_program_of_one_device_computes_its_shards() -> None:
    with make_context():
        module = Source.read(str(ROOT / "tests" / "rfc" / f"{LOCAL}.mlir")).parse()
        run_pipeline(module, "spmd,lower")
        executable = Executable(module, "mlp_1d_weight_stationary")
    draw = np.random.default_rng(0)
    x, w1, w2 = (
        draw.integers(-4, 4, shape).astype(np.float32) for shape in ((2, 4, 8), (8, 32), (32, 8))
    )
    shards = [
        [x[..., 4 * rank :][..., :4], w1[:, 16 * rank :][:, :16], w2[16 * rank :][:16]]
        for rank in range(2)
    ]
    given = [[np.ascontiguousarray(each) for each in arrays] for arrays in shards]
    expected = np.maximum(x @ w1, 0) @ w2
    for rank, (result,) in enumerate(InProcess(2).run(executable, given)):
        np.testing.assert_array_equal(result, expected[..., 4 * rank :][..., :4])


def test_the_program_of_one_device_is_proven() -> None:
    """What its shards are shards of is said in its text, as the dots of the document leave it."""
    folder = ROOT / "tests" / "rfc"
    text = (folder / f"{LOCAL}.mlir").read_text()
    for before, local, whole, axes in (
        ("%arg0: ", "2x4x4", "2x4x8", "[[], [], [0]]"),
        ("%arg1: ", "8x16", "8x32", "[[], [0]]"),
        ("%arg2: ", "16x8", "32x8", "[[0], []]"),
        ("-> ", "2x4x4", "2x4x8", "[[], [], [0]]"),
    ):
        kind = "argument" if "arg" in before else "result"
        shard = f"tensor<{whole}xf32, #mesh.shard<@mesh0, {axes}>>"
        made = f"tensor<{local}xf32> {{mesh.{kind} = {shard}}}"
        made = made if kind == "argument" else f"({made})"
        text = text.replace(f"{before}tensor<{local}xf32>", f"{before}{made}", 1)
    with make_context():
        whole_program = Source.read(str(folder / "mlp_1d.mlir")).parse()
        assert sd.prove(whole_program, Source.of(text).parse()).answer == "proven"
        wrong = text.replace("maximum", "minimum")
        assert sd.prove(whole_program, Source.of(wrong).parse()).answer == "refuted"


@pytest.mark.parametrize("path", GLOBAL, ids=lambda path: path.stem)
def test_devices_are_proven_to(path: Path, opt: Program) -> None:
    done = opt(path, "--spmd", "--prove")
    assert "note: proven: every device" in done.stderr


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_they_are_printed_in_this_spelling(path: Path) -> None:
    with make_context():
        module = Source.read(str(path)).parse()
        text = pretty(str(module))
        assert "mesh.cluster @mesh0(rank = " in text
        assert "#mesh.shard<@" not in text  # the function names the grid
        assert str(Source.of(text).parse()) == str(module)
