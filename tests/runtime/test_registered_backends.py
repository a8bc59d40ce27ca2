"""A user's backend runs programs at every door; what it does wrong is an error that names it."""

import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.walk import walk
from shard_dialect.run import main
from shard_dialect.runtime.communicators import registered_devices
from tests.conftest import ROOT

EXAMPLE = ROOT / "examples/library/numpy_backend.py"
MLP = ROOT / "examples/mlp_stablehlo.mlir"
SINE = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4xf32> {
  %y = stablehlo.sine %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
Shards = Sequence[Sequence[np.ndarray]]


@pytest.fixture(autouse=True)
def _own_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered_devices, "_REGISTERED", {})


def registered(run: Callable[[Shards], Any]) -> None:
    @sd.register_backend("mine")
    class Mine:
        def __init__(self, module: ir.Module, entry: str) -> None:
            assert entry == "main"

        def run(self, shards: Shards) -> Any:
            return run(shards)


def test_it_runs_at_every_door(capfd: pytest.CaptureFixture[str]) -> None:
    sd.load_plugin(str(EXAMPLE))
    registered(lambda shards: [[np.sin(each)] for (each,) in shards])
    x = np.arange(4, dtype=np.float32)
    assert np.array_equal(sd.run(sd.parse(SINE), x, backend="mine"), np.sin(x))

    class Unnamed:
        def __init__(self, module: ir.Module, entry: str) -> None:
            pass

        def run(self, shards: Shards) -> list[list[np.ndarray]]:
            return [[-each] for (each,) in shards]

    assert np.array_equal(sd.run(sd.parse(SINE), x, backend=Unnamed), -x)
    program = sd.compile(sd.parse(SINE), "mine")
    assert program.check().passed
    assert program.bisect() is None
    assert main(["--load-plugin", str(EXAMPLE), "--backend=numpy", "--check", str(MLP)]) == 0
    assert "(numpy)" in capfd.readouterr().out


def test_a_wrong_backend_fails_the_check() -> None:
    computes = runpy.run_path(str(EXAMPLE))["OPERATIONS"]
    computes["stablehlo.maximum"] = lambda op, a, b: np.minimum(a, b)
    program = sd.compile(sd.parse(MLP), "numpy")
    assert not program.check().passed
    found = program.bisect()
    assert found is not None
    assert "stablehlo.maximum" in found.message


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda shards: shards[5], "raised IndexError: list index out of range"),
        (lambda shards: None, "raised TypeError: 'NoneType' object is not iterable"),
        (lambda shards: shards[:1], "returned the results of 1 devices, not 2"),
        (lambda shards: [[], []], "returned 0 results on device 0, not 1"),
        (
            lambda shards: [each * 1 for each in ([a.astype(np.float64)] for (a,) in shards)],
            "returned result0 on device 0 as float64 of shape [2]: expected float32 of shape [2]",
        ),
        (
            lambda shards: [[np.concatenate([a, a])] for (a,) in shards],
            "returned result0 on device 0 as float32 of shape [4]: expected float32 of shape [2]",
        ),
    ],
)
def test_what_it_does_wrong_names_it(run: Callable[[Shards], Any], message: str) -> None:
    registered(run)
    with pytest.raises(sd.ShardError) as raised:
        sd.run(sd.parse(SINE), np.zeros(4, np.float32), backend="mine")
    assert raised.value.message == f"backend 'mine' {message}"


def test_what_runs_later_speaks_of_places_and_makes_types(tmp_path: Path) -> None:
    """A backend's `run`, and a judge's function, are called long after the module was parsed."""
    (tmp_path / "in.mlir").write_text(SINE)

    class Refuses:
        def __init__(self, module: ir.Module, entry: str) -> None:
            self.op = next(each for each in walk(module.operation) if each.name.endswith("sine"))

        def run(self, shards: Shards) -> Any:
            raise sd.error_at(self.op.location, f"no {ir.F32Type.get()}")

    def judge(module: ir.Module, entry: str) -> Callable[..., Any]:
        return Refuses(module, entry).run

    program = sd.compile(sd.parse(tmp_path / "in.mlir"), Refuses)
    with pytest.raises(sd.ShardError, match=r"in\.mlir:4:8: error: no f32"):
        program(np.zeros(4, np.float32))
    with pytest.raises(sd.ShardError, match=r"in\.mlir:4:8: error: no f32"):
        sd.compile(sd.parse(tmp_path / "in.mlir")).check(judge=judge)


def test_names_are_those_of_one_backend() -> None:
    registered(lambda shards: shards)
    with pytest.raises(sd.ShardError, match="backend 'mine' exists already"):
        sd.register_backend("mine")
    with pytest.raises(sd.ShardError, match="backend 'xla' exists already"):
        sd.register_backend("xla")
    with pytest.raises(sd.ShardError, match=r"'my' is not known: expected devices, .*, or a plug"):
        sd.compile(sd.parse(SINE), "my")


def test_collectives_are_read() -> None:
    module = sd.parse(Path(ROOT / "examples/megatron.mlir"))
    sd.run_pipeline(module, "spmd")
    (site,) = filter(None, map(sd.read_collective, walk(module.operation)))
    assert (site.step.kind, site.groups) == ("all_reduce", ((0, 1), (2, 3)))
    assert site.bytes_moved == sd.communication(module).bytes_moved
