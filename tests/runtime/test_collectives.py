"""Every collective, element type and target of docs/collectives.md."""

import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from shard_dialect.runtime.communicators import thread_devices
from shard_dialect.runtime.communicators.world import InProcess
from tests.conftest import ROOT, at_level, run_child
from tests.extras import launched
from tests.runtime.collective_cases import (
    DTYPES,
    GRID,
    JOIN,
    cases,
    compile_all,
    differences,
    refusals,
)
from tests.runtime.launching import Launch
from tests.runtime.test_elements import results_of
from tests.slow import seed_of

PAGE = ROOT / "docs" / "collectives.md"


@pytest.fixture(scope="module")
def elements(request: pytest.FixtureRequest) -> list[str]:
    """The element types of this run: a sixth of them, drawn by its seed."""
    drawn = random.Random(seed_of(request.config)).sample(sorted(DTYPES), len(DTYPES) // 6)
    return list(DTYPES) if request.config.option.all else drawn


@pytest.fixture(scope="module")
def kept(elements: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """All that the launched programs compile; who runs other tests beside these has it too.

    Unoptimized: what is tested moves data, and LLVM takes most of the time.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "collectives"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with at_level(0):
        for native in (True, False):
            compile_all({*elements, *NOT_TOGETHER}, folder, native=native)
        yield folder


@pytest.mark.parametrize("launch", launched("devices", "mpi", "mpi4py", "torch"))
def test_every_collective_is_right_on_element_types(
    launch: Launch, elements: list[str], kept: Path
) -> None:
    cases = ("-m", "tests.runtime.collective_cases", f"--kept={kept}", "--elements", *elements)
    done = run_child(launch.forked(GRID.size, *cases), 600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip() == f"{len(elements)} element types: every collective is right"


NOT_TOGETHER = ("f32", "bf16", "i1", "complex<f32>")


@pytest.mark.parametrize("element", NOT_TOGETHER)
def test_what_is_not_copied_is_right_too(
    element: str, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices in one process read large parts where they are."""
    monkeypatch.setattr(thread_devices, "_TOGETHER", 0)
    found = differences(InProcess(GRID.size), element, kept, native=False)
    assert not found, "\n".join(found)


def test_a_part_is_not_changed_while_others_read_it() -> None:
    """A large one, by a device that goes on at once."""
    count = 1 << 16
    text = f"""
    shard.grid @g(shape = 4)
    !t = tensor<{count}xf32>
    func.func @main(%x: !t {{mesh.argument = tensor<{4 * count}xf32, #mesh.shard<@g, [[0]]>>}})
        -> (!t {{mesh.result = tensor<{4 * count}xf32, #mesh.shard<@g, [[0]]>>}})
        attributes {{mesh.form = "local"}} {{
      %half = arith.constant dense<0.5> : !t
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c20 = arith.constant 20 : index
      %r = scf.for %i = %c0 to %c20 step %c1 iter_args(%y = %x) -> (!t) {{
        %s = shard.all_reduce %y on @g grid_axes = [0] : !t -> !t
        %h = arith.mulf %s, %half : !t
        %n = arith.subf %h, %y : !t
        scf.yield %n : !t
      }}
      return %r : !t
    }}"""
    (x,), (found,) = results_of(text)
    now = x.reshape(4, count)
    for _ in range(20):
        total = now[0] + now[1] + now[2] + now[3]
        now = total * np.float32(0.5) - now
    np.testing.assert_array_equal(found.reshape(4, count), now)


def test_the_table_says_what_is_refused_and_why() -> None:
    text = PAGE.read_text().partition("## Element types")[2]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    head, _, *rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    assert head[1:] == list(DTYPES)
    names: dict[str, list[str]] = {}
    for case in cases():
        kind, _, reduction = case.name.partition(" ")
        names.setdefault(reduction or kind, []).append(case.name)
    named = [(name.strip(" `"), row[1:]) for row in rows for name in row[0].split(",")]
    assert sorted(name for name, _ in named) == sorted(names)
    assert set(JOIN) < set(names)
    reasons = dict(re.findall(r"^(\d)\. `(.*)`$", text, re.MULTILINE))
    for what, row in named:
        for element, cell in zip(head[1:], row, strict=True):
            for name in names[what]:
                message = refusals(element).get(name, "yes")
                reason = reasons.get(cell, cell).replace("KIND", name.partition(" ")[0])
                reason = reason.replace("TYPE", element).replace("REDUCTION", what)
                assert reason == message, (name, element)
