"""Checks of `tests.torch.run_on_ranks`: modules changed in place, beside torch's own functions.

Each rank trains one module by ours and one by torch's, on its own part of the batch.
"""

import copy
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed import fsdp
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, parallel
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
)
from torch.nn import functional

import shard_dialect as sd
from shard_dialect.errors import ShardError

R = Replicate()


def full(each: Any) -> Any:
    return each.full_tensor() if isinstance(each, DTensor) else each


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: Any) -> Any:
        return x + self.down(functional.gelu(self.up(self.norm(x))))


class Net(nn.Module):  # type: ignore[misc]
    """Logits of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(24, 16)
        self.blocks = nn.ModuleList([Block() for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 24, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.table(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def reset_parameters(self) -> None:
        """As the user of a module without data has to."""
        for each in self.parameters():
            own = torch.arange(each.numel(), dtype=each.dtype).view(each.shape).sin() / 4
            with torch.no_grad():
                mesh = getattr(each, "device_mesh", None)
                each.copy_(own if mesh is None else distribute_tensor(own, mesh, each.placements))


def split_blocks(module: Any, fully_shard: Any, **options: Any) -> None:
    """As FSDP2's users do."""
    for block in module.blocks:
        fully_shard(block, **options)
    fully_shard(module, **options)


BLOCK: Mapping[str, Any] = {"up": ColwiseParallel(), "down": RowwiseParallel()}


def compare(
    mesh: Any,
    change: Callable[[Any, Any], None],
    parts: int,
    loss: Callable[[Any, Any], Any] | None = None,
    exact: bool = True,
    before: Callable[[Any, int], None] = lambda module, step: None,
) -> list[Any]:
    """Train by both; equal losses, gradients and states. `parts` is of the batch, by the rank.

    Before each step, `before` gets the module and the number of the step.
    """
    torch.manual_seed(0)
    own = Net()
    loss = loss or (lambda out, to: functional.cross_entropy(out.flatten(0, 1), to.flatten()))
    models, optimizers = [], []
    for library in (sd.torch, _TORCHS):
        module = copy.deepcopy(own)
        change(module, library)
        models.append(module)
        optimizers.append(torch.optim.AdamW(module.parameters(), 0.01, foreach=False))
    rank = mesh.get_rank() * parts // mesh.size()
    for step in range(3):
        tokens = torch.randint(0, 24, (8, 6), generator=torch.Generator().manual_seed(step))
        given = tokens.chunk(parts)[rank]
        found = []
        for module, optimizer in zip(models, optimizers, strict=True):
            optimizer.zero_grad()
            before(module, step)
            value = loss(module(given), given.roll(1, 1))
            value.backward()
            found.append(full(value).detach())
            optimizer.step()
        tolerance = {} if exact else {"rtol": 2e-2, "atol": 2e-2}
        torch.testing.assert_close(*found, **tolerance)
    for (name, a), (other, b) in zip(*(each.named_parameters() for each in models), strict=True):
        assert name == other
        tolerance = {"rtol": 1e-3, "atol": 1e-5} if exact else {"rtol": 5e-2, "atol": 2e-2}
        torch.testing.assert_close(full(a.grad), full(b.grad), **tolerance)
        if exact:
            torch.testing.assert_close(full(a), full(b), rtol=1e-3, atol=1e-4)
    return models


_TORCHS = SimpleNamespace(
    fully_shard=fsdp.fully_shard, parallelize_module=parallel.parallelize_module
)


def fsdp_of_blocks(mesh: Any) -> None:
    """FSDP2 on all ranks, on a mesh that nobody gives; what its modules can do."""

    def change(module: Any, library: Any) -> None:
        split_blocks(module, library.fully_shard)

    ours, theirs = compare(mesh, change, parts=4)
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert (a.placements, a.device_mesh) == (b.placements, b.device_mesh), name
        assert a.to_local().shape == b.to_local().shape, name
    assert isinstance(ours, sd.torch.FSDPModule)
    assert isinstance(ours.blocks[0], sd.torch.FSDPModule)
    ours.unshard(async_op=True).wait()
    ours.set_modules_to_forward_prefetch(list(ours.blocks))
    ours.set_requires_gradient_sync(False)
    with pytest.raises(ShardError, match="no FSDPModule"):
        ours.set_modules_to_backward_prefetch([ours.norm])
    with pytest.raises(ShardError, match="set_all_reduce_hook is not supported: change gradients"):
        ours.set_all_reduce_hook(print)
    with pytest.raises(ShardError, match="called for this Net before"):
        sd.torch.fully_shard(ours)
    with pytest.raises(ShardError, match="the ranks call Net with other shapes"):
        ours(torch.zeros(2 + (mesh.get_rank() == 3), 6, dtype=torch.int64))


def hybrid_sharding(mesh: Any) -> None:
    """Replicated along the first dimension; and from the second step on another divisor."""

    def change(module: Any, library: Any) -> None:
        split_blocks(module, library.fully_shard, mesh=mesh)

    def divide(module: Any, step: int) -> None:
        for each in (module, *module.blocks) if step else ():
            each.set_gradient_divide_factor(2.0)  # gloo has no sum for torch's other factors

    ours, theirs = compare(mesh, change, parts=4, before=divide)
    assert [each.placements for each in ours.parameters()] == [
        each.placements for each in theirs.parameters()
    ]


def tensor_parallel_and_fsdp(mesh: Any) -> None:
    """Both, on a mesh of two dimensions; the state and that of the optimizer, as DCP has them."""

    def change(module: Any, library: Any) -> None:
        outside = {
            "table": RowwiseParallel(input_layouts=R),
            "head": ColwiseParallel(output_layouts=R),
        }
        library.parallelize_module(module, mesh["tp"], outside)
        for block in module.blocks:
            library.parallelize_module(block, mesh["tp"], dict(BLOCK))
        split_blocks(module, library.fully_shard, mesh=mesh["dp"])

    ours, theirs = compare(mesh, change, parts=2)
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        on_both = [*b.placements, R][:2]  # torch leaves out a dimension without a style
        assert list(a.placements) == on_both, name
        torch.testing.assert_close(a.to_local(), b.to_local(), rtol=1e-3, atol=1e-4)
    options = StateDictOptions(full_state_dict=True)
    found, expected = (get_model_state_dict(each, options=options) for each in (ours, theirs))
    for name, each in expected.items():
        torch.testing.assert_close(found[name], each, rtol=1e-3, atol=1e-4)
    optimizer = torch.optim.AdamW(ours.parameters(), 0.01)
    ours(torch.zeros(2, 6, dtype=torch.int64)).sum().backward()
    optimizer.step()
    kept = get_model_state_dict(ours), get_optimizer_state_dict(ours, optimizer)
    saved = {name: full(each).clone() for name, each in kept[0].items()}
    optimizer.step()
    shards = {name: distribute_like(each, kept[0][name]) for name, each in saved.items()}
    set_model_state_dict(ours, shards)
    set_optimizer_state_dict(ours, optimizer, kept[1])
    for name, each in ours.state_dict().items():
        torch.testing.assert_close(full(each), saved[name])


def distribute_like(whole: Any, other: Any) -> Any:
    return distribute_tensor(whole, other.device_mesh, other.placements)


def sequence_parallel(mesh: Any) -> None:
    """The plan of TP's tutorial for a Llama, with norms by sequence and a loss on shards."""

    def change(module: Any, library: Any) -> None:
        plan = {
            "table": RowwiseParallel(input_layouts=R, output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "head": ColwiseParallel(
                input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False
            ),
        }
        library.parallelize_module(module, mesh["tp"], plan)
        for block in module.blocks:
            inner = {
                "norm": SequenceParallel(),
                "up": ColwiseParallel(input_layouts=Shard(1)),
                "down": RowwiseParallel(output_layouts=Shard(1)),
            }
            library.parallelize_module(block, mesh["tp"], inner)
        split_blocks(module, library.fully_shard, mesh=mesh["dp"])

    def loss(logits: Any, to: Any) -> Any:
        assert isinstance(logits, DTensor)
        assert list(logits.placements) == [Shard(2)]
        with loss_parallel():
            found = functional.cross_entropy(logits.flatten(0, 1), to.flatten())
            found.backward()
        return found.detach().requires_grad_()

    compare(mesh, change, parts=2, loss=loss)


def inputs_by_sequence(mesh: Any) -> None:
    """A style says that each rank has a part of the whole module's argument."""
    line = torch.distributed.init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
    torch.manual_seed(1)
    own, found = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)), []
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(0)).chunk(4)[line.get_rank()]
    for library in (sd.torch, _TORCHS):
        module = copy.deepcopy(own)
        plan = {
            "0": ColwiseParallel(input_layouts=Shard(0)),
            "2": RowwiseParallel(output_layouts=Shard(0)),
        }
        module = library.parallelize_module(module, line, plan)
        given = x.clone().requires_grad_()
        y = module(given)
        y.sum().backward()
        y = y.to_local() if isinstance(y, DTensor) else y
        found.append([y.detach(), given.grad, *(full(each.grad) for each in module.parameters())])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)


def without_data(mesh: Any) -> None:
    """Made on the meta device, given memory, set; or loaded by `assign`."""
    found = []
    for library in (sd.torch, _TORCHS):
        with torch.device("meta"):
            module = Net()
        split_blocks(module, library.fully_shard)
        assert all(each.is_meta for each in module.parameters())
        if library is sd.torch:
            with pytest.raises(ShardError, match=r"have no data: .*to_empty"):
                module(torch.zeros(2, 6, dtype=torch.int64))
        module.to_empty(device="cpu")
        module.reset_parameters()
        tokens = torch.arange(12).view(2, 6)
        found.append(full(module(tokens)).detach())
        state = {
            name: nn.Parameter(distribute_like(full(each) * 2, each))
            for name, each in module.state_dict().items()
        }
        module.load_state_dict(state, assign=True)
        found.append(full(module(tokens)).detach())
    torch.testing.assert_close(found[0], found[2])
    torch.testing.assert_close(found[1], found[3])


def mixed_precision(mesh: Any) -> None:
    """Parameters of f32, that are computed with as bf16; the logits are f32 again."""
    types = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}
    inside = fsdp.MixedPrecisionPolicy(**types)
    whole = fsdp.MixedPrecisionPolicy(**types, output_dtype=torch.float32)

    def change(module: Any, library: Any) -> None:
        for block in module.blocks:
            library.fully_shard(block, mp_policy=inside)
        library.fully_shard(module, mp_policy=whole)

    ours, _ = compare(mesh, change, parts=4, exact=False)
    assert {each.dtype for each in ours.parameters()} == {torch.float32}
    assert ours(torch.zeros(2, 6, dtype=torch.int64)).dtype == torch.float32
    assert "bf16" in ours.compiled.text("annotated")


CHECKS: Mapping[str, Callable[[Any], None]] = {
    each.__name__: each
    for each in (
        fsdp_of_blocks,
        hybrid_sharding,
        tensor_parallel_and_fsdp,
        sequence_parallel,
        inputs_by_sequence,
        without_data,
        mixed_precision,
    )
}
