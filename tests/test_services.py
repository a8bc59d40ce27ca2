"""What a service does: many threads, forks, asyncio; and results that go to other processes."""

import asyncio
import copy
import multiprocessing
import pickle
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.ops import op_table
from tests.conftest import ROOT, run_child
from tests.ops.unary_dialect import unary_dialect

TEXT = (ROOT / "examples" / "megatron.mlir").read_text()
SHAPES = ((8, 16), (16, 64), (64, 16))
INPUTS = [np.arange(np.prod(s), dtype=np.float32).reshape(s) / 1000 for s in SHAPES]
COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda each: pickle.loads(pickle.dumps(each)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
RESULTS: dict[str, Callable[[], Any]] = {
    "report": lambda: sd.report(sd.parse(TEXT), suggest=True, prove=True),
    "communication": lambda: sd.communication(sd.parse(TEXT)),
    "comparison": lambda: sd.what_if(sd.parse(TEXT), "w1=[[], [0]]"),
    "proof": lambda: sd.prove(sd.parse(TEXT), sd.run_pipeline(sd.parse(TEXT), "spmd")),
    "mutations": lambda: sd.mutations(sd.parse(TEXT)),
    "verdict": lambda: sd.compile(sd.parse(TEXT)).check(),
    "drawing": lambda: sd.show(sd.parse(TEXT), "w1"),
    "plan": lambda: sd.plan_reshard([[0], []], [[], [0]], (8, 8), sd.Grid("g", (2,))),
    "model": lambda: sd.DeviceModel("m", {"f32": 1e12}, 1, 1.0),
}


@pytest.mark.parametrize("what", RESULTS)
def test_results_are_pickled_and_copied(what: str) -> None:
    result = RESULTS[what]()
    for how in COPIES.values():
        again = how(result)
        assert again == result
        assert str(again) == str(result)


@pytest.mark.parametrize("name", ["megatron", "training_step", "pipeline_mlp", "convolution"])
def test_a_report_goes_to_json_and_back(name: str) -> None:
    report = sd.report(sd.parse(ROOT / "examples" / f"{name}.mlir"), suggest=True)
    again = sd.ProgramReport.from_json(report.to_json())
    assert again == report
    assert str(again) == str(report)
    assert again.as_json() == report.as_json()
    assert sd.report_html(again) == sd.report_html(report)
    assert sd.ProgramReport.from_json(again.to_json()) == report
    for each in report.tensors:
        assert sd.explain(again, each.name) == sd.explain(report, each.name)


@pytest.mark.parametrize("text", ["", "3", "{}", "[]", '{"report": 3, "layer costs": []}', "null"])
def test_what_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(sd.ShardError, match="this is no report of this version"):
        sd.ProgramReport.from_json(text)


def test_errors_keep_their_place_where_they_are_sent() -> None:
    error = sd.ShardError("no", "a.mlir:1:2", [sd.Diagnostic("note", "here", "b.py:3:1")])
    again = COPIES["pickle"](error)
    assert (str(again), again.location) == (str(error), "a.mlir:1:2")


def test_threads_hear_their_own_warnings_and_filters_stay() -> None:
    sd.register_dialect("heard", unary_dialect("heard", "op"))
    sd.sharding_rule("heard.op", lowering=lambda op: [op.operands[0]])(lambda _: None)
    op = '%1 = "heard.op"(%0) : (tensor<4xf32>) -> tensor<4xf32>'

    def text(count: int) -> str:
        lines = [op.replace("%1", f"%{n + 1}").replace("%0", f"%{n}") for n in range(count)]
        return f"""shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32> {{mesh.sharding = #mesh.shard<@g, [[0]]>}}) -> tensor<4xf32> {{
  %0 = stablehlo.sine %x : tensor<4xf32>
  {chr(10).join(lines)}
  return %{count} : tensor<4xf32>
}}"""

    def heard(count: int) -> tuple[int, int]:
        with sd.listening() as given:
            found = len(sd.report(sd.parse(text(count))).diagnostics)
        return found, len(given)

    async def in_tasks() -> list[tuple[int, int]]:
        return await asyncio.gather(*(asyncio.to_thread(heard, n) for n in counts))

    counts = [n % 4 for n in range(12)]
    before = list(warnings.filters)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with ThreadPoolExecutor(4) as pool:
                assert [*pool.map(heard, counts)] == [(n, n) for n in counts]
            assert asyncio.run(in_tasks()) == [(n, n) for n in counts]
    finally:
        op_table.RECORDS.pop("heard.op")
    assert list(warnings.filters) == before


def test_a_program_is_called_on_many_threads() -> None:
    program = sd.compile(sd.parse(TEXT))
    expected = program(*INPUTS)
    with ThreadPoolExecutor(8) as pool:
        for result in pool.map(lambda _: program(*INPUTS), range(32)):
            assert np.array_equal(result, expected)


def _in_child(folder: Path) -> bool:
    """Call what was compiled before the fork, and compile anew."""
    return bool(
        np.array_equal(_program(*INPUTS), _expected)
        and np.array_equal(sd.compile(sd.parse(TEXT))(*INPUTS), _expected)
        and np.array_equal(sd.load(folder)(*INPUTS), _expected)
    )


def compile_and_fork(folder: Path) -> None:
    global _program, _expected
    _program = sd.compile(sd.parse(TEXT))
    _expected = _program(*INPUTS)
    _program.save(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside other threads
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(_in_child, [folder] * 4) == [True] * 4


def test_a_process_that_has_compiled_forks(tmp_path: Path) -> None:
    """In a process without JAX, which other tests may have loaded here and which cannot fork."""
    code = f"from pathlib import Path; compile_and_fork(Path({str(tmp_path / 'saved')!r}))"
    done = run_child([sys.executable, "-c", f"from tests.test_services import *; {code}"])
    assert done.returncode == 0, done.stderr
