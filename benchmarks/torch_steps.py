"""What a step costs on four ranks of gloo, beside torch's own DTensor and FSDP2.

    python -m benchmarks.torch_steps [llama vit ...] [--steps 10] > table.md

Both train the same module by the same calls: `parallelize_module` along the second dimension of a
mesh of 2x2, `fully_shard` along the first. A step is forward and backward, without an optimizer.
All is that of the rank with the most; what follows the times is measured in other processes:

* **ms**: steps of both alternate, after one of each that is not counted; the least, and the median.
* **MB sent**: the collectives that torch runs in a step, by the cost model of `benchmarks.tally`.
* **Mflop**: of matrix products, convolutions and attention. DTensor's are those of the ops that it
  calls on shards, by torch's formulas; ours those in the local form of both programs.
* **MB held** and **at the peak**: the resident memory of the process after forward, and the most in
  the step, beyond that before it, when there are parameters and no gradients. The allocator of
  these processes gives back at once what is freed, so that all is counted which is not: tensors,
  workspaces, and buffers of collectives.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import gc
import logging
import os
import re
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing
from torch import distributed as dist
from torch import nn
from torch.distributed import fsdp
from torch.distributed.tensor import DTensor, parallel
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

import shard_dialect as sd
from benchmarks.ours import local_flops
from benchmarks.tally import Tally
from benchmarks.torch_counting import Counting

RANKS, BATCH = 4, 8


@dataclass(frozen=True)
class Trained:
    """A module, what it is called with, the parts that are gathered alone, and the plan."""

    module: nn.Module
    arguments: Mapping[str, Any]
    parts: Callable[[Any], Sequence[Any]]
    plan: Mapping[str, Any]


def _column_row(columns: str, rows: str) -> dict[str, Any]:
    plan: dict[str, Any] = {name: ColwiseParallel() for name in columns.split()}
    return plan | {name: RowwiseParallel() for name in rows.split()}


def _llama() -> Trained:
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=256,
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=4,
        use_cache=False,
    )
    attention, mlp = "layers.*.self_attn", "layers.*.mlp"
    plan = _column_row(
        f"{attention}.q_proj {attention}.k_proj {attention}.v_proj {mlp}.gate_proj {mlp}.up_proj",
        f"{attention}.o_proj {mlp}.down_proj",
    )
    ids = torch.randint(0, 256, (BATCH, 64))
    return Trained(
        transformers.LlamaModel(config), {"input_ids": ids}, lambda each: each.layers, plan
    )


def _layers(count: int) -> nn.Sequential:
    return nn.Sequential(*(Block() for _ in range(count)))


class Block(nn.Module):  # type: ignore[misc]
    """Of a vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(192), nn.LayerNorm(192)
        self.q, self.k, self.v, self.out = (nn.Linear(192, 192) for _ in range(4))
        self.up, self.down = nn.Linear(192, 768), nn.Linear(768, 192)

    def forward(self, x: Any) -> Any:
        y = self.norm(x)
        q, k, v = (
            each(y).unflatten(-1, (-1, 32)).transpose(1, 2) for each in (self.q, self.k, self.v)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


def _vit() -> Trained:
    plan = _column_row("*.q *.k *.v *.up", "*.out *.down")
    return Trained(_layers(2), {"input": torch.randn(BATCH, 64, 192)}, list, plan)


def _t5() -> Trained:
    import transformers

    config = transformers.T5Config(
        vocab_size=256, d_model=256, d_kv=32, d_ff=512, num_layers=2, num_heads=8, use_cache=False
    )
    plan = _column_row("*.block.*.layer.*.DenseReluDense.wi", "*.block.*.layer.*.DenseReluDense.wo")
    ids = torch.randint(0, 256, (BATCH, 32))
    return Trained(
        transformers.T5Model(config).eval(),
        {"input_ids": ids, "decoder_input_ids": ids},
        lambda each: [*each.encoder.block, *each.decoder.block],
        plan,
    )


class Experts(nn.Module):  # type: ignore[misc]
    """Each token by all experts, weighed by a router that leaves two of them."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(128, 4)
        self.up = nn.ModuleList(nn.Linear(128, 256) for _ in range(4))
        self.down = nn.ModuleList(nn.Linear(256, 128) for _ in range(4))

    def forward(self, x: Any) -> Any:
        weights = self.router(x).softmax(-1)
        least = weights.topk(2).values[..., -1:]
        weights = torch.where(weights >= least, weights, 0.0)
        return x + sum(
            weights[..., number : number + 1] * down(nn.functional.silu(up(x)))
            for number, (up, down) in enumerate(zip(self.up, self.down, strict=True))
        )


def _moe() -> Trained:
    module = nn.Sequential(Experts(), Experts())
    plan = _column_row("*.up.*", "*.down.*")
    return Trained(module, {"input": torch.randn(BATCH, 64, 128)}, list, plan)


class Residual(nn.Module):  # type: ignore[misc]
    """Of a ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(32, 32, 3, padding=1) for _ in range(2))
        self.norms = nn.ModuleList(nn.GroupNorm(4, 32) for _ in range(2))

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.norms[0](self.convolutions[0](x)))
        return torch.relu(x + self.norms[1](self.convolutions[1](y)))


def _resnet() -> Trained:
    module = nn.Sequential(Residual(), Residual())
    return Trained(module, {"input": torch.randn(BATCH, 32, 16, 16)}, list, {})


MODULES = {"llama": _llama, "vit": _vit, "t5": _t5, "moe": _moe, "resnet": _resnet}


@dataclass(frozen=True)
class Step:
    """A step of this rank."""

    module: Any
    forward: Callable[[], Any]
    """Gives the loss."""

    def __call__(self) -> None:
        self.module.zero_grad()
        self.forward().backward()


def _step(trained: Trained, library: Any, styles: Any, mesh: Any) -> Step:
    """By torch's functions or ours."""
    module, own = copy.deepcopy(trained.module), mesh["dp"].get_local_rank()
    if trained.plan:
        styles.parallelize_module(module, mesh["tp"], copy.deepcopy(dict(trained.plan)))
    for each in trained.parts(module):
        library.fully_shard(each, mesh=mesh["dp"])
    library.fully_shard(module, mesh=mesh["dp"])
    arguments = {name: each.chunk(2)[own] for name, each in trained.arguments.items()}
    values = list(arguments.values()) if [*arguments] == ["input"] else []
    keywords = {} if values else arguments

    def forward() -> Any:
        found = module(*values, **keywords)
        found = found if isinstance(found, torch.Tensor) else found[0]
        loss = found.to_local() if isinstance(found, DTensor) else found
        return loss.square().mean()

    return Step(module, forward)


def _gradients(step: Step) -> list[Any]:
    step()
    return [
        each.grad.full_tensor()
        for _, each in sorted(step.module.named_parameters())
        if each.grad is not None
    ]


def _timed(step: Step) -> float:
    dist.barrier()
    before = time.perf_counter()
    step()
    return 1e3 * _most(time.perf_counter() - before)


def _most(value: float) -> float:
    """Of all ranks."""
    found = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return float(found)


def _counted(step: Step) -> Tally:
    with Counting() as counting:
        step()
    engine = getattr(step.module, "_engine", None)
    if engine is not None:
        program = engine._latest
        for each in (program, program.backward):
            counting.tally.flops += local_flops(each.compiled)
    return counting.tally


_LIBC = ctypes.CDLL(None)
_GIVES_BACK = "glibc.malloc.mmap_threshold=16384:glibc.malloc.trim_threshold=0"
"""From which size on memory is mapped and unmapped from a process's start on, and is given back."""


def _resident(name: str) -> float:
    """In MB."""
    gc.collect()
    _LIBC.malloc_trim(0)
    (found,) = re.findall(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found) * 1024 / 1e6


def _memory(step: Step) -> tuple[float, float]:
    """Held after forward, and at the peak."""
    step.module.zero_grad()
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    loss = step.forward()
    held = _resident("VmRSS") - before
    loss.backward()
    return _most(held), _most(_resident("VmHWM") - before)


def _times(both: Sequence[Step], steps: int) -> list[str]:
    times = [list(map(_timed, both)) for _ in range(steps)]
    least, middle = (
        [each(column) for column in zip(*times, strict=True)] for each in (min, statistics.median)
    )
    return [f"{a:.0f}, {b:.0f}" for a, b in zip(least, middle, strict=True)]


def _costs(both: Sequence[Step]) -> list[str]:
    tallies = [_counted(each) for each in both]
    with ThreadPoolExecutor(1) as thread:  # whose heap has no holes that imports have left
        memory = [[thread.submit(_memory, each).result() for each in both] for _ in range(5)]
    values = [each.bytes_moved / 1e6 for each in tallies]
    values += [each.flops / 1e6 for each in tallies]
    for at in range(2):
        values += [min(each[at] for each in column) for column in zip(*memory, strict=True)]
    return [f"{_most(each):.2f}" for each in values]


def _rank(rank: int, port: int, names: Sequence[str], steps: int, found: Any) -> None:
    """Without steps, the costs; they are not in one process with times, which they change."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    warnings.simplefilter("ignore")
    logging.disable()
    torch.set_num_threads(1)  # as torchrun does: ranks share the cores
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    for name in names:
        torch.manual_seed(0)
        trained = MODULES[name]()
        both = [
            _step(trained, sd.torch, sd.torch, mesh),
            _step(trained, fsdp, parallel, mesh),
        ]
        for a, b in zip(*map(_gradients, both), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)
        cells = _times(both, steps) if steps else _costs(both)
        if not rank:
            found.put(cells)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("names", nargs="*", help=", ".join(MODULES))
    parser.add_argument("--steps", type=int, default=10, help="of each; 0 takes no times")
    parser.add_argument("--port", type=int, default=29511)
    given = parser.parse_args()
    os.environ["NUMPY_MADVISE_HUGEPAGE"] = "0"  # whose pages of 2 MB are more than the tensors
    names = given.names or [*MODULES]
    rows = [f"| {name} |" for name in names]
    for steps in (given.steps, 0) if given.steps else (0,):
        if not steps:
            os.environ["GLIBC_TUNABLES"] = _GIVES_BACK
        found = torch.multiprocessing.get_context("spawn").SimpleQueue()
        torch.multiprocessing.spawn(_rank, (given.port, names, steps, found), nprocs=RANKS)
        rows = [f"{row} {' | '.join(found.get())} |" for row in rows]
    columns = (["ms"] if given.steps else []) + ["MB sent", "Mflop", "MB held", "MB at the peak"]
    print(f"| | {' | '.join(f'{each}: ours | DTensor' for each in columns)} |")
    print("|---" * (1 + 2 * len(columns)) + "|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
