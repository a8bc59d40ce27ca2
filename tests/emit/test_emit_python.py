"""Emitted programs, run by their launchers, give what the unsharded programs give."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from shard_dialect.abi.tensor_types import Array
from shard_dialect.backends.python.python_module import TARGETS, emit_python
from shard_dialect.backends.python.writer import Target
from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.checking.check import Expected
from shard_dialect.runtime.random_inputs import random_inputs
from shard_dialect.testing.check_program import reference_of
from tests.conftest import ROOT, run_child
from tests.extras import skip_without
from tests.programs.annotated import random_program
from tests.programs.flow import random_flow_program
from tests.programs.linalg import random_linalg
from tests.programs.stablehlo import random_stablehlo
from tests.runtime.launching import Launch, launches

pytestmark = pytest.mark.usefixtures("unoptimized")

Check = Callable[[Sequence[Array]], None]
"""Raises if the results of a program are not what they should be."""
BACKENDS = {"mpi4py": "mpi", "torch": "torch"}
EXAMPLES = sorted((ROOT / "examples").glob("*.mlir"))


def launch_of(target: str) -> Launch:
    found = [each for each in launches() if each.backend == BACKENDS[target]]
    if not found:
        skip_without(BACKENDS[target])
    return found[0]


def emit(text: str, target: Target, pipeline: str = "spmd") -> tuple[str, int]:
    """The Python program, and how many devices it is for."""
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, pipeline)
        ranks = max(each.size for each in grids_of(module.operation).values())
        return emit_python(module, target), ranks


class Batch:
    """Programs that are run by one launch for each number of devices, `most` at most."""

    def __init__(self, target: Target, folder: Path, most: int = 1 << 10) -> None:
        self.target = target
        self.most = most
        self.folder = folder
        self.refused: Counter[str] = Counter()
        self._by_ranks: dict[int, list[Path]] = {}
        self._checks: dict[Path, Check] = {}

    def add(
        self,
        name: str,
        text: str,
        pipeline: str = "spmd",
        inputs: Sequence[Array] = (),
        *,
        is_exact: bool = False,
    ) -> None:
        """A program to be run; one that is refused is counted, and must say where and why.

        It gives what the unsharded one does, with zeros of the same sign if it `is_exact`.
        """
        folder = self.folder / name
        folder.mkdir()
        try:
            program, ranks = emit(text, self.target, pipeline)
        except ShardError as error:
            place = error.location or "nowhere"
            self.refused[re.sub(r"'.*?'|\d+", "", f"{place} {error.message}")] += 1
            return
        reference = reference_of(text, "self")
        given = inputs or random_inputs(reference.arguments, 3)
        expected = Expected.of(reference, given)

        def check(found: Sequence[Array]) -> None:
            compare(folder.name, found, expected)
            pairs = zip(found, expected.results, strict=True)
            assert not is_exact or all(is_same(*pair) for pair in pairs), f"{name}\n{found}"

        self._put(folder, program, ranks, given, check)

    def expect(
        self, name: str, text: str, inputs: Sequence[Array], results: Mapping[str, Array]
    ) -> None:
        """A program in the local form, and what each of its results is."""
        folder = self.folder / name
        folder.mkdir()

        def check(found: Sequence[Array]) -> None:
            pairs = zip(found, results.items(), strict=True)
            wrong = [
                what
                for each, (what, result) in pairs
                if not np.array_equal(each.view(result.dtype), result)
            ]
            assert not wrong, f"{name}: {wrong}"

        self._put(folder, *emit(text, self.target, "canonicalize"), inputs, check)

    def _put(
        self, folder: Path, program: str, ranks: int, inputs: Sequence[Array], check: Check
    ) -> None:
        (folder / "program.py").write_text(program)
        np.savez(folder / "in.npz", **{f"arg{i}": each for i, each in enumerate(inputs)})
        self._checks[folder] = check
        self._by_ranks.setdefault(ranks, []).append(folder)

    def __len__(self) -> int:
        return len(self._checks)

    def check(self) -> None:
        assert_linted([folder / "program.py" for folder in self._checks])
        run = {ranks: found for ranks, found in self._by_ranks.items() if ranks <= self.most}
        assert run
        for ranks, folders in run.items():
            command = launch_of(self.target).forks(
                ranks, "-m", "tests.emit.run_all", self.target, *map(str, folders)
            )
            done = run_child(command)
            assert done.returncode == 0, done.stderr
        for folder in chain.from_iterable(run.values()):
            with np.load(folder / "out.npz") as outputs:
                self._checks[folder]([outputs[f"result{i}"] for i in range(len(outputs))])


def compare(name: str, outputs: Sequence[Array], expected: Expected) -> None:
    triples = zip(outputs, expected.results, expected.allowed, strict=True)
    for i, (found, result, allowed) in enumerate(triples):
        raw = found.view(result.dtype) if found.dtype.kind == "V" else found  # bf16, in files
        assert (raw.shape, raw.dtype) == (result.shape, result.dtype)
        wide = np.complex128 if result.dtype.kind == "c" else np.float64
        a, b = raw.astype(wide), result.astype(wide)
        with np.errstate(invalid="ignore"):  # infinities are equal, and have no difference
            is_equal = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= allowed)
        assert np.all(is_equal), f"{name}: result{i}\n{found}\n{result}"


def is_same(a: Array, b: Array) -> bool:
    """Whether elements are equal, and of the same sign if they are zero."""
    if a.dtype.kind != "f":
        return np.array_equal(a.view(b.dtype), b)
    is_nan = np.isnan(a) & np.isnan(b)
    return bool(np.all(is_nan | ((a == b) & (np.signbit(a) == np.signbit(b)))))


def assert_linted(programs: Sequence[Path]) -> None:
    """Where ruff is installed: it says nothing, as of names that are not used."""
    ruff = Path(sys.executable).with_name("ruff")
    if ruff.exists() and programs:
        lint = [str(ruff), "check", "--isolated", "--line-length=100"]
        done = run_child(
            [*lint, "--select=E,F,I,W", "--ignore=E501,E712,F841", *map(str, programs)]
        )
        assert done.returncode == 0, done.stdout + done.stderr


FEW = "torch on few ranks"
"""Each takes seconds to start."""


@pytest.fixture(params=TARGETS)
def batch(request: pytest.FixtureRequest, tmp_path: Path) -> Batch:
    target, *few = request.param.split(" on few")
    launch_of(target)
    return Batch(target, tmp_path, 4) if few else Batch(target, tmp_path)


@pytest.mark.parametrize(
    "batch", ["mpi4py", FEW, pytest.param("torch", marks=pytest.mark.exhaustive)], indirect=True
)
def test_examples(batch: Batch) -> None:
    for source in EXAMPLES:
        batch.add(source.stem, source.read_text())
    assert len(batch) == len(EXAMPLES), batch.refused
    batch.check()


@pytest.mark.parametrize(
    "batch", [pytest.param("torch", marks=pytest.mark.exhaustive), "mpi4py"], indirect=True
)
def test_examples_whose_collectives_are_started_early(batch: Batch) -> None:
    for source in EXAMPLES[:4]:
        batch.add(source.stem, source.read_text(), "spmd,overlap-collectives")
    assert len(batch) == 4, batch.refused
    batch.check()


GENERATORS: dict[str, tuple[Callable[[int], str], int]] = {
    "linalg": (lambda seed: random_linalg(seed, runs=True), 12),
    "mixed": (random_program, 16),
    "flow": (random_flow_program, 16),
    "stablehlo": (random_stablehlo, 16),
}


@pytest.mark.parametrize(
    ("kind", "batch"),
    [
        pytest.param(
            kind,
            target,
            marks=[]
            if (kind, target) == ("stablehlo", FEW) or target == "mpi4py"
            else [pytest.mark.exhaustive],
        )
        for target in (*TARGETS, FEW)
        for kind in GENERATORS
    ],
    indirect=["batch"],
)
def test_random_programs(kind: str, batch: Batch) -> None:
    draw, count = GENERATORS[kind]
    for seed in range(count):
        batch.add(str(seed), draw(seed))
    assert not batch.refused
    batch.check()
