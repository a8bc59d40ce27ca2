"""Modules that torch-mlir imports, in three dialects: they run at every door, or are refused there.

The results are compared with torch's own. An emitter may refuse an op, at its place.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch_mlir import fx
from torch_mlir.compiler_utils import TorchMlirCompilerError

import shard_dialect as sd
from shard_dialect.backends.python.python_module import emit_python
from shard_dialect.bindings import ir
from shard_dialect.runtime.torch_executable import TorchExecutable
from shard_dialect.testing.emulated_distributed import TorchThreads

DIALECTS = ("stablehlo", "linalg-on-tensors", "tosa")
GRID = sd.Grid("mesh", (2, 2))


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def indices(most: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, most, shape, generator=torch.Generator().manual_seed(most))


attention = nn.functional.scaled_dot_product_attention
QKV = (draw(4, 2, 8, 16),) * 3
MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...]]] = {
    "linear": (lambda: nn.Linear(16, 8), (draw(8, 16),)),
    "wide linear": (lambda: nn.Linear(64, 32), (draw(8, 64),)),
    "mlp": (
        lambda: nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)),
        (draw(8, 16),),
    ),
    "conv1d": (lambda: nn.Conv1d(4, 8, 3), (draw(4, 4, 16),)),
    "conv2d": (lambda: nn.Conv2d(4, 8, 3, padding=1), (draw(4, 4, 8, 8),)),
    "strided conv2d": (lambda: nn.Conv2d(4, 8, 3, stride=2), (draw(4, 4, 8, 8),)),
    "depthwise conv2d": (lambda: nn.Conv2d(8, 8, 3, padding=1, groups=8), (draw(4, 8, 8, 8),)),
    "transposed conv2d": (lambda: nn.ConvTranspose2d(4, 8, 2, stride=2), (draw(4, 4, 4, 4),)),
    "batch norm": (lambda: nn.BatchNorm2d(4), (draw(4, 4, 8, 8),)),
    "layer norm": (lambda: nn.LayerNorm(16), (draw(8, 16),)),
    "group norm": (lambda: nn.GroupNorm(2, 8), (draw(4, 8, 4, 4),)),
    "rms norm": (lambda: nn.RMSNorm(16), (draw(8, 16),)),
    "max pool": (lambda: nn.MaxPool2d(2), (draw(4, 4, 8, 8),)),
    "average pool": (lambda: nn.AvgPool2d(2), (draw(4, 4, 8, 8),)),
    "adaptive pool": (lambda: nn.AdaptiveAvgPool2d(1), (draw(4, 4, 8, 8),)),
    "embedding": (lambda: nn.Embedding(32, 16), (indices(32, 8, 4),)),
    "softmax": (lambda: nn.Softmax(-1), (draw(8, 16),)),
    "log softmax": (lambda: nn.LogSoftmax(-1), (draw(8, 16),)),
    "silu": (nn.SiLU, (draw(8, 16),)),
    "hardswish": (nn.Hardswish, (draw(8, 16),)),
    "elu": (nn.ELU, (draw(8, 16),)),
    "leaky relu": (nn.LeakyReLU, (draw(8, 16),)),
    "softplus": (nn.Softplus, (draw(8, 16),)),
    "glu": (nn.GLU, (draw(8, 16),)),
    "prelu": (nn.PReLU, (draw(8, 16),)),
    "attention": (lambda: Function(nn.functional.scaled_dot_product_attention), QKV),
    "causal attention": (
        lambda: Function(
            lambda *qkv: nn.functional.scaled_dot_product_attention(*qkv, is_causal=True)
        ),
        QKV,
    ),
    "multi-head attention": (
        lambda: nn.MultiheadAttention(16, 4, batch_first=True),
        (draw(4, 8, 16),) * 3,
    ),
    "bilinear": (lambda: nn.Bilinear(8, 8, 4), (draw(8, 8), draw(8, 8))),
    "cross entropy": (lambda: Function(nn.functional.cross_entropy), (draw(8, 10), indices(10, 8))),
    "mean squares": (nn.MSELoss, (draw(8, 16), draw(8, 16))),
    "upsampling": (lambda: nn.Upsample(scale_factor=2, mode="nearest"), (draw(4, 4, 4, 4),)),
    "pixel shuffle": (lambda: nn.PixelShuffle(2), (draw(4, 8, 4, 4),)),
    "padding": (lambda: nn.ZeroPad2d(1), (draw(4, 4, 4, 4),)),
    "cumulative sum": (lambda: Function(lambda x: torch.cumsum(x, -1)), (draw(8, 16),)),
    "gather": (
        lambda: Function(lambda x, i: torch.gather(x, 1, i)),
        (draw(8, 16), indices(16, 8, 4)),
    ),
    "einsum": (
        lambda: Function(lambda a, b: torch.einsum("bij,bjk->bik", a, b)),
        (draw(4, 8, 16), draw(4, 16, 8)),
    ),
    "unfold": (lambda: nn.Unfold(2), (draw(4, 4, 4, 4),)),
    "lstm cell": (lambda: nn.LSTMCell(8, 8), (draw(8, 8), (draw(8, 8), draw(8, 8)))),
    "gru cell": (lambda: nn.GRUCell(8, 8), (draw(8, 8), draw(8, 8))),
}
NOT_IMPORTED = {("upsampling", "stablehlo"), ("upsampling", "tosa")}
"""Torch-mlir itself refuses these."""
NOT_READ = {("cumulative sum", "linalg-on-tensors")}
"""With an op of torch-mlir's own dialect `tm_tensor`, which is read by torch-mlir alone."""


def annotated(text: str) -> ir.Module:
    """The module with its first argument split along its first dimension."""
    module = sd.parse(text)
    block = ir.SymbolTable(module.operation)["main"].regions[0].blocks[0]
    with module.context:
        sd.annotate(block.arguments[0], GRID, [[0]])
    return module


def local(text: str) -> ir.Module:
    return sd.run_pipeline(sd.parse(text), "spmd")


def emitted(text: str, arrays: Sequence[Any]) -> Any:
    """The results of the Python that is written for torch, on threads."""
    module = local(text)
    with module.context:
        executable = TorchExecutable(module, "main")
    program, world = executable.program, TorchThreads(executable.program.devices)
    shards = [program.scatter(arrays, rank) for rank in world.ranks]
    return tuple(program.gather(world.run(executable, shards)))


def written(text: str, _: Sequence[Any]) -> None:
    module = local(text)
    with module.context:
        compile(emit_python(module, "mpi4py"), "program.py", "exec")


def exported(words: str) -> Callable[[str, Sequence[Any]], Any]:
    """The results of what is exported after propagation, and read again."""

    def run(text: str, arrays: Sequence[Any]) -> Any:
        module = sd.run_pipeline(sd.parse(text), f"propagate,export-{words}")
        return sd.run(sd.parse(sd.to_text(module)), *arrays)

    return run


DOORS: dict[str, Callable[[str, Sequence[Any]], Any]] = {
    "threads": lambda text, arrays: sd.run(sd.parse(text), *arrays),
    "xla": lambda text, arrays: sd.run(sd.parse(text), *arrays, backend="xla"),
    "python for torch": emitted,
    "python for mpi4py": written,
    "sdy": exported("sdy"),
    "shard": exported("shard"),
    "mesh": exported("mesh"),
}
MAY_REFUSE = {"xla", "python for torch", "python for mpi4py"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", MODULES)
def test_a_module_of_torch_mlir(name: str, dialect: str) -> None:
    make, arguments = MODULES[name]
    torch.manual_seed(0)
    module = make().eval()
    with torch.no_grad():
        leaves = torch.utils._pytree.tree_leaves(module(*arguments))
    expected = [each.numpy() for each in leaves if isinstance(each, torch.Tensor)]
    arrays = [each.numpy() for each in torch.utils._pytree.tree_leaves(arguments)]
    if (name, dialect) in NOT_IMPORTED:
        with pytest.raises(TorchMlirCompilerError):
            fx.export_and_import(module, *arguments, output_type=dialect)
        return
    imported = fx.export_and_import(module, *arguments, output_type=dialect).operation.get_asm()
    if (name, dialect) in NOT_READ:
        with pytest.raises(sd.ShardError, match="Dialect `tm_tensor' not found") as caught:
            annotated(imported)
        assert caught.value.location
        return
    text = sd.to_text(annotated(imported))
    for door, run in DOORS.items():
        found, refused = None, None
        try:
            found = run(text, arrays)
        except sd.ShardError as error:
            refused = error
        assert refused is None or (door in MAY_REFUSE and refused.location), f"{door}: {refused}"
        results = found if isinstance(found, tuple) else (found,)
        for result, right in zip(results if found is not None else (), expected, strict=False):
            np.testing.assert_allclose(result, right, rtol=2e-4, atol=2e-5, err_msg=door)
    program = sd.compile(sd.parse(text))
    assert program.check(*arrays).passed
