"""Ops that StableHLO does not have, which call torch's own code: beside torch, with gradients."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributed.tensor import Replicate, Shard

import shard_dialect as sd
from shard_dialect.errors import ShardError
from tests.torch.test_ops import MESH, Called

pytestmark = pytest.mark.usefixtures("unoptimized")
BATCH = [Shard(0), Replicate()]


def matrices(*shape: int) -> Any:
    torch.manual_seed(0)
    return torch.randn(*shape) + 3 * torch.eye(shape[-1])


def both(x: Any) -> Any:
    return torch.complex(x, x.mT)


OF_A_BATCH: Mapping[str, Callable[[Any], Any]] = {
    "decompositions": lambda x: (*torch.linalg.qr(x), torch.linalg.svdvals(x), x.slogdet()[1]),
    "of symmetric ones": lambda x: (torch.linalg.eigvalsh(x + x.mT), (x @ x.mT).cholesky()),
    "solutions": lambda x: (torch.linalg.solve(x, x[..., :2]), torch.linalg.pinv(x)),
    "least squares": lambda x: torch.linalg.lstsq(x[:, :, :2], x)[:1],
    "of complex numbers": lambda x: (
        torch.view_as_real(torch.linalg.inv(both(x))),
        torch.linalg.eigvals(x).abs().sum(-1),
    ),
    "elementwise": lambda x: (torch.special.i1e(x), torch.special.ndtri(x.sigmoid())),
}


def assert_equal(f: Any, function: Callable[[Any], Any], x: Any) -> None:
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    found, expected = f(ours), function(theirs)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for each in (found, expected):
        torch.stack([part.square().sum() for part in each]).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", OF_A_BATCH)
def test_each_device_computes_its_part_of_a_batch(name: str) -> None:
    x = matrices(4, 3, 3)
    f = sd.torch.partition(Called(OF_A_BATCH[name]), (x,), {"x": BATCH}, MESH)
    assert not f.compiled.program.calls
    assert_equal(f, OF_A_BATCH[name], x)


@pytest.mark.parametrize("shape", [(4, 3, 3), (3, 3)])
def test_determinants_of_matrices_by_columns(shape: tuple[int, ...]) -> None:
    """torch solves with the matrix or with its transpose, as it lies in memory."""

    def determinants(x: Any) -> Any:
        of_squares = (x @ x.mT).mT
        return torch.det(x.mT), torch.linalg.slogdet(x.mT)[1], of_squares.logdet(), x.det()

    x = matrices(*shape)
    for each in (x, x.mT.contiguous().mT):
        f = sd.torch.partition(Called(determinants), (each,), {}, MESH)
        assert_equal(f, determinants, each)


@pytest.mark.parametrize("shape", [(3, 4, 4), (4, 4)])
def test_matrices_that_do_not_divide_are_whole(shape: tuple[int, ...]) -> None:
    """Of what padding holds, torch would raise."""
    x = matrices(*shape)
    f = sd.torch.partition(Called(lambda x: (x.inverse(),)), (x,), {"x": BATCH}, MESH)
    assert_equal(f, lambda x: (x.inverse(),), x)


def test_residuals_are_those_of_matrices_of_full_rank() -> None:
    def solved(x: Any) -> Any:
        return tuple(torch.linalg.lstsq(x[:, :, :2], x, driver="gelsd"))

    x = matrices(4, 3, 3)
    f = sd.torch.partition(Called(solved), (x,), {"x": BATCH}, MESH)
    for each in (x, torch.ones(4, 3, 3)):
        torch.testing.assert_close(f(each), solved(each), rtol=1e-4, atol=1e-5)


def test_a_singular_matrix_raises_as_in_torch() -> None:
    x = matrices(4, 3, 3)
    f = sd.torch.partition(Called(torch.linalg.inv), (x,), {"x": BATCH}, MESH)
    singular = torch.cat((x[:3], torch.zeros(1, 3, 3)))
    with pytest.raises(torch.linalg.LinAlgError, match="is singular"):
        f(singular)
    torch.testing.assert_close(f(x), torch.linalg.inv(x))


def test_the_text_and_what_is_saved_run_elsewhere(tmp_path: Path) -> None:
    x = matrices(4, 3, 3)
    module = Called(torch.linalg.inv)
    f = sd.torch.partition(module, (x,), {"x": BATCH}, MESH)
    f.compiled.save(tmp_path / "saved")
    torch.testing.assert_close(sd.load(tmp_path / "saved")(x), torch.linalg.inv(x))
    text = tmp_path / "in.mlir"
    text.write_text(sd.to_text(sd.torch.lower(module, (x,), {"x": BATCH}, MESH)))
    run = [sys.executable, "-m", "shard_dialect.run", str(text)]
    by_cpu = subprocess.run(run, capture_output=True, text=True, check=False, timeout=300)
    assert by_cpu.returncode == 0, by_cpu.stderr
    by_xla = subprocess.run(
        [*run, "--backend=xla"], capture_output=True, text=True, check=False, timeout=300
    )
    assert by_xla.returncode == 1
    assert "XLA refuses the program" in by_xla.stderr


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ({"op": "aten.from_file.default", "args": ["FILE", True, 8]}, "no function of tensors"),
        ({"op": "aten.add_.Tensor", "args": [{"tensor": 0, "of": "float32"}, 1]}, "no function of"),
        ({"op": "os.system.default", "args": ["touch FILE"]}, "no call of torch"),
        ({"op": "aten.sin.default", "args": [{"tensor": 3, "of": "float32"}]}, "out of range"),
        ({"op": "aten.sin.default", "args": [{"tensor": 0, "of": "Tensor"}]}, "view"),
        ({"op": "aten.sum.default", "args": [{"tensor": 0, "of": "float32"}]}, "expected float32"),
        ({"op": "aten.sin.default"}, "no call of torch"),
    ],
)
def test_a_file_calls_nothing_but_functions_of_tensors(
    what: dict[str, Any], error: str, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    text = json.dumps({"kwargs": {}, **what}).replace("FILE", str(made)).replace('"', "\\22")
    module = sd.parse(f"""
        func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {{
          %0 = stablehlo.custom_call @shard_dialect.torch(%x) {{backend_config = "{text}"}}
            : (tensor<4xf32>) -> tensor<4xf32>
          return %0 : tensor<4xf32>
        }}""")
    with pytest.raises(ShardError, match=error):
        sd.run(module, np.ones(4, np.float32))
    assert not made.exists()


@pytest.mark.parametrize(
    "function",
    [
        lambda: torch.hamming_window(8, False, 0.5, 0.4),
        lambda: torch.signal.windows.kaiser(8),
        lambda: torch.fft.rfftfreq(14),
        lambda: torch.i0(torch.arange(8.0)),
        lambda: torch.i0(torch.tensor(2.0)),
    ],
)
def test_what_is_made_of_no_arguments_is_a_constant(function: Any) -> None:
    x = torch.randn(4, 8)
    f = sd.torch.partition(Called(lambda x: x * function()), (x,), {"x": BATCH}, MESH)
    torch.testing.assert_close(f(x), x * function())
