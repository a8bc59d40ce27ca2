"""What each of four ranks runs: torchrun --nproc-per-node=4 -m tests.torch.run_on_ranks.

Every check compares with the module itself, which each rank runs, too. Rank 0 prints the names of
those that it has done.
"""

import copy
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import distributed as dist
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.checkpoint import checkpoint

import shard_dialect as sd
from shard_dialect.errors import ShardError
from shard_dialect.runtime.executable import Memory
from shard_dialect.torch import engine
from shard_dialect.torch.in_place.call import Call
from tests.torch import in_place_on_ranks
from tests.torch.drawn_modules import draw
from tests.torch.models import BATCH, assert_close, make

R = Replicate()


def full(each: Any) -> Any:
    return each.full_tensor() if isinstance(each, DTensor) else each


def models(mesh: Any, name: str) -> None:
    model = make(name)
    f = sd.torch.partition(model.module, model.args, model.plan, mesh, kwargs=model.kwargs)
    found = f(*model.args, **model.kwargs)
    expected = model.module(*model.args, **model.kwargs)
    assert all(isinstance(each, DTensor) for each in found.values())
    whole = {key: full(each) for key, each in found.items()}
    assert_close(whole, {key: each.detach() for key, each in expected.items()})


def llama_trained(mesh: Any) -> None:
    """Three steps of SGD on DTensors, and the state that they leave."""
    model = make("llama")
    step = sd.torch.partition(
        model.module, (), model.plan, mesh, kwargs=model.kwargs, loss=lambda out: out.loss
    )
    ours = torch.optim.SGD(step.parameters(), 0.1)
    theirs = torch.optim.SGD(model.module.parameters(), 0.1)
    for _ in range(2):
        value, gradients = step(**model.kwargs)
        for name, parameter in step.named_parameters():
            parameter.grad = gradients[name]
        ours.step()
        theirs.zero_grad()
        expected = model.module(**model.kwargs).loss
        expected.backward()
        theirs.step()
        torch.testing.assert_close(full(value), expected.detach())
    assert_close(step.state_dict(), model.module.state_dict())


def trained_as_a_module(mesh: Any) -> None:
    """`loss.backward()`, with parameters that are DTensors, and dropout as torch draws it."""
    torch.manual_seed(1)
    layers = (torch.nn.Linear(16, 32), torch.nn.Dropout(0.3), torch.nn.Linear(32, 16))
    module = torch.nn.Sequential(*layers)
    plan = {"input": BATCH, "tp": {"0": ColwiseParallel(), "2": RowwiseParallel()}}
    f = sd.torch.partition(module, (torch.ones(8, 16),), plan, mesh, rng="torch")
    optimizers = [torch.optim.AdamW(each.parameters(), 0.01) for each in (f, module)]
    for step, size in enumerate((8, 8, 6)):
        x = torch.randn(size, 16, generator=torch.Generator().manual_seed(step))
        losses = []
        for each, optimizer in zip((f, module), optimizers, strict=True):
            torch.manual_seed(step)
            optimizer.zero_grad()
            loss = each(x).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(full(loss).detach())
        torch.testing.assert_close(*losses)
    assert all(isinstance(each, DTensor) for each in f.parameters())
    assert f[0].weight.placements == (R, Shard(0))
    assert_close(f.state_dict(), module.state_dict())
    own = distribute_tensor(x, mesh, BATCH).to_local()
    g = sd.torch.partition(module.eval(), (x,), plan, mesh)
    for given, each in ((own, g), (x, module)):
        each.zero_grad()
        each(given).square().mean().backward()
    gradients = {name: full(each.grad) for name, each in g.named_parameters()}
    assert_close(gradients, {name: each.grad for name, each in module.named_parameters()})
    shards = get_model_state_dict(f)
    set_model_state_dict(f, {name: each * 2 for name, each in shards.items()})
    torch.testing.assert_close(f.state_dict()["2.bias"], module.state_dict()["2.bias"] * 2)


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x: Any) -> Any:
        return self.down(torch.relu(self.up(x)))


TP = {"up": ColwiseParallel(), "down": RowwiseParallel()}


def arguments(mesh: Any) -> None:
    """DTensors in any placements, whole tensors and this rank's shards are the same."""
    module, x = Mlp(), torch.randn(4, 16, generator=torch.Generator().manual_seed(0))
    f = sd.torch.partition(module, (x,), {"x": BATCH, "tp": TP}, mesh)
    expected = module(x).detach()
    for placements in (BATCH, [R, Shard(1)], [Shard(0), Shard(1)]):
        found = f(distribute_tensor(x, mesh, placements))
        torch.testing.assert_close(full(found), expected)
    own = distribute_tensor(x, mesh, BATCH).to_local()
    torch.testing.assert_close(full(f(own)), expected)
    result = f(x)
    assert (result.placements, result.shape) == (tuple(BATCH), expected.shape)
    torch.testing.assert_close(full(f(x[:3])), expected[:3])
    with pytest.raises(ShardError, match=r"shard of \[4, 16\] has, and earlier calls gave whole"):
        f(x[:2])
    torch.testing.assert_close(full(f(distribute_tensor(x[:2], mesh, BATCH))), expected[:2])


def indices(mesh: Any) -> None:
    """Each rank refuses what it looks up."""
    torch.manual_seed(0)
    module, i = torch.nn.Embedding(8, 4), torch.tensor([[0, 7], [1, 2]])
    f = sd.torch.partition(module, (i,), {"input": BATCH, "weight": [R, Shard(0)]}, mesh)
    torch.testing.assert_close(full(f(i)), module(i).detach())
    bad = torch.full((2, 2), 8)
    with pytest.raises(IndexError, match=r"index 8 is out of range for aten\.embedding"):
        f(bad)


def state(mesh: Any) -> None:
    """Loaded by slices to a module without data, held as shards, and gathered."""
    with torch.device("meta"):
        empty = Mlp()
    module, x = Mlp(), torch.ones(4, 16)
    f = sd.torch.partition(empty, (x,), {"x": BATCH, "tp": TP}, mesh)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_file(module.state_dict(), path)
        f.load_safetensors(path)
    torch.testing.assert_close(full(f(x)), module(x).detach())
    shards = f.state_dict(full=False)
    assert shards["up.weight"].to_local().shape == (16, 16)
    assert shards["up.weight"].placements == (R, Shard(0))
    assert_close(f.state_dict(), module.state_dict())
    f.load_state_dict({name: each * 2 for name, each in shards.items()})
    torch.testing.assert_close(f.state_dict()["down.bias"], module.down.bias.detach() * 2)


def uneven(mesh: Any) -> None:
    module, x = torch.nn.Linear(6, 7), torch.ones(5, 6)
    dist.broadcast(module.weight.data, 0)
    dist.broadcast(module.bias.data, 0)
    plan = {"input": BATCH, "weight": [Shard(0), R], "bias": [R, Shard(0)]}
    f = sd.torch.partition(module, (x,), plan, mesh)
    torch.testing.assert_close(full(f(x)), module(x).detach())
    assert_close(f.state_dict(), module.state_dict())


def split_mesh(mesh: Any) -> None:
    """What DTensors say and hold, where the compiler splits a mesh of four into two of two."""
    line = dist.init_device_mesh("cpu", (4,), mesh_dim_names=("m0",))
    for drawn, on in ((draw(seed, [(4,), (2, 2)]), seed) for seed in range(40, 46)):
        here = line if drawn.mesh == (4,) else mesh
        f = sd.torch.partition(drawn.module, (drawn.x,), drawn.plan, here)
        expected = drawn.module.state_dict()
        for name, each in f.state_dict(full=False).items():
            asked = drawn.plan.get(name, [R] * len(drawn.mesh))
            assert list(each.placements) == asked, (on, name)
            own = distribute_tensor(expected[name], here, asked).to_local()
            torch.testing.assert_close(each.to_local(), own, rtol=0, atol=0)
        assert_close(f.state_dict(), expected)
        found = f(drawn.x)
        asked = drawn.plan.get("output")
        assert asked is None or list(found.placements) == asked, on
        torch.testing.assert_close(
            full(found), drawn.module(drawn.x).detach(), rtol=1e-4, atol=1e-5
        )


def beside_dtensor(mesh: Any) -> None:
    """A plan of parallelize_module by torch itself: equal numbers, and no fewer bytes."""
    model, theirs = make("llama"), make("llama").module
    plan = model.plan["tp"]
    parallelize_module(theirs, mesh["tp"], dict(plan))
    tokens = model.kwargs["input_ids"]
    f = sd.torch.partition(model.module, (tokens,), {"input_ids": [R, R], "tp": plan}, mesh)
    with CommDebugMode() as mode:
        expected = theirs(tokens).logits
    torch.testing.assert_close(full(f(tokens).logits), full(expected).detach())
    counts = {str(op).rpartition(".")[2]: count for op, count in mode.get_comm_counts().items()}
    size, vocabulary = 32, 64
    reduced = counts["all_reduce"] * tokens.numel() * size * 4  # 2 (n - 1) / n of the bytes, n is 2
    gathered = counts["all_gather_into_tensor"] * tokens.numel() * vocabulary * 4 // 2
    assert f.compiled.report.bytes_moved <= reduced + gathered, (counts, f.compiled.report)


class Turned(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8, 4, dtype=torch.complex64))

    def forward(self, x: Any, z: Any) -> Any:
        return torch.fft.ifft(torch.fft.fft(x, dim=1) @ self.weight) * z


def complex_numbers(mesh: Any) -> None:
    """As parameters, arguments, results and gradients: whole, DTensors and shards."""
    torch.manual_seed(0)
    own, x, z = Turned(), torch.randn(4, 8), torch.randn(4, 4, dtype=torch.complex64)
    plan = {
        "x": BATCH,
        "z": [Shard(0), Shard(-1)],
        "weight": [R, Shard(1)],
        "output": [Shard(0), R],
    }
    f = sd.torch.partition(own, (x, z), plan, mesh)
    expected = own(x, z)
    for given in (z, distribute_tensor(z, mesh, [Shard(0), Shard(1)])):
        found = f(x, given)
        assert found.to_local().shape == (2, 4)
        torch.testing.assert_close(full(found), expected, rtol=1e-4, atol=1e-4)
    (found.to_local().abs().sum()).backward()
    expected.abs().sum().backward()
    torch.testing.assert_close(full(f.weight.grad), own.weight.grad, rtol=1e-3, atol=1e-4)
    assert_close(f.state_dict(), own.state_dict())
    f.load_state_dict(own.state_dict())


class Decides(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.first(x) if (x > 1).any() else self.first(x).tanh()


def decisions(mesh: Any) -> None:
    """By the elements of all ranks, given as whole tensors and as shards."""
    torch.manual_seed(0)
    own, first = Decides(), 2 * (dist.get_rank() // 2)
    for cut in (lambda x: x, lambda x: x[first : first + 2]):
        f = sd.torch.partition(own, (torch.zeros(4, 4),), {"x": BATCH}, mesh)
        for row in range(4):
            x = torch.zeros(4, 4)
            x[row, 0] = 2.0 * (row % 2)
            torch.testing.assert_close(full(f(cut(x))), own(x))


class Chooses(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        h = self.first(x)
        out = torch.zeros_like(h)
        for part in (h.sum(1) > 0).unique():
            rows = torch.where((h.sum(1) > 0) == part)[0]
            out.index_add_(0, rows, h[rows].cumsum(0))
        return out, h[h > 0]


def sizes(mesh: Any) -> None:
    """By the elements of all ranks: results, and three steps."""
    torch.manual_seed(0)
    own, first = Chooses(), 2 * (dist.get_rank() // 2)
    for cut in (lambda x: x, lambda x: x[first : first + 2]):
        plan = {"x": BATCH, "first.weight": [R, Shard(0)]}
        f = sd.torch.partition(own, (torch.zeros(4, 4),), plan, mesh)
        pairs = [(f, cut), (copy.deepcopy(own), lambda x: x)]
        optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each, _ in pairs]
        for seed in range(3):
            x = torch.randn(4, 4, generator=torch.Generator().manual_seed(seed))
            found = []
            for (each, given), optimizer in zip(pairs, optimizers, strict=True):
                optimizer.zero_grad()
                dense, chosen = map(full, each(given(x)))
                (dense.square().mean() + chosen.square().sum()).backward()
                optimizer.step()
                found.append((dense, chosen, *each.state_dict().values()))
            for pair in zip(*found, strict=True):
                torch.testing.assert_close(*pair)


def saved_memory(mesh: Any) -> None:
    """The backward program computes where tensors were saved, unless somebody still needs them."""
    torch.manual_seed(3)
    layers = (torch.nn.Linear(16, 16), torch.nn.LayerNorm(16), torch.nn.GELU())
    own = torch.nn.Sequential(*(copy.deepcopy(each) for _ in range(3) for each in layers))
    x = torch.randn(8, 16)
    f = sd.torch.partition(own, (x,), {"input": BATCH, "*.weight": [R, Shard(0)]}, mesh)
    found, at = [], Memory.at
    Memory.at = lambda *args: found.append(at(*args)) or found[-1]

    def once(module: Any) -> None:
        module(x).square().mean().backward()

    def twice(module: Any) -> None:
        y = module(x)
        y.mean().backward(retain_graph=True)
        once(module)
        y.square().mean().backward()

    def together(module: Any) -> None:
        (module(x).mean() + 2 * module(2 * x).square().mean()).backward()

    def in_another_order(module: Any) -> None:
        first, second = module(x), module(3 * x)
        first.mean().backward()
        dropped = module(4 * x)
        second.square().mean().backward()
        del dropped

    def elsewhere(module: Any) -> None:
        with torch.autograd.graph.save_on_cpu():
            once(module)

    def again(module: Any) -> None:
        checkpoint(module, x, use_reentrant=False).square().mean().backward()

    for step in (once, once, twice, together, in_another_order, elsewhere, again, once):
        for each in (f, own):
            each.zero_grad()
            step(each)
        expected = {name: each.grad for name, each in own.named_parameters()}
        assert_close({name: full(each.grad) for name, each in f.named_parameters()}, expected)
    assert any(each is not None for each in found), "runs have found all where they take it"
    Memory.at = at


def left_around(mesh: Any) -> None:
    """What hooks leave in a dict, and second derivatives, on shards."""
    torch.manual_seed(0)
    own = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    plan = {"input": [Shard(0), R], "0.weight": [R, Shard(0)]}
    f = sd.torch.partition(copy.deepcopy(own), (torch.randn(8, 4),), plan, mesh)
    left: list[dict[str, Any]] = []
    for each in (f, own):
        kept: dict[str, Any] = {"all": []}

        def forward(module: Any, args: Any, out: Any, kept: Any = kept) -> None:
            kept["array"], kept["out"] = out.detach().numpy(), out
            kept["all"].append(args[0])

        def backward(module: Any, inputs: Any, outputs: Any, kept: Any = kept) -> None:
            kept["gradient"] = outputs[0]

        each[0].register_forward_hook(forward)
        each[1].register_full_backward_hook(backward)
        left.append(kept)
    for seed in range(2):
        torch.manual_seed(seed)
        x, found = torch.randn(8, 4, requires_grad=True), []
        for each in (f, own):
            each.zero_grad()
            (gradient,) = torch.autograd.grad(each(x).sum(), x, create_graph=True)
            full(gradient).norm(dim=1).sub(1).square().mean().backward()
            each(x).sum().backward()
            found.append([full(one.grad) for one in each.parameters()])
        torch.testing.assert_close(*found)
        ours, theirs = (torch.utils._pytree.tree_map(full, each) for each in left)
        torch.testing.assert_close(ours, theirs)


def by_torch(mesh: Any) -> None:
    """What torch computes, on the rank's device: results, gradients, state, uneven shards."""
    for name in ("llama", "resnet"):
        model = make(name)
        f = sd.torch.partition(
            model.module, model.args, model.plan, mesh, kwargs=model.kwargs, compiler="torch"
        )
        assert f.compiled.is_of_torch
        found = {key: full(each) for key, each in f(*model.args, **model.kwargs).items()}
        expected = model.module(*model.args, **model.kwargs)
        assert_close(
            {key: each.detach() for key, each in found.items()},
            {key: each.detach() for key, each in expected.items()},
        )
        for each in (found, expected):
            next(iter(each.values())).square().mean().backward()
        gradients = dict(model.module.named_parameters())
        for key, each in f.named_parameters():
            if gradients[key].grad is not None:
                torch.testing.assert_close(
                    full(each.grad), gradients[key].grad, rtol=1e-3, atol=1e-5
                )
    tokens = torch.randint(0, 9, (5, 3))  # which two devices do not divide
    embedding = torch.nn.Embedding(9, 7)
    f = sd.torch.partition(
        embedding, (tokens,), {"weight": [Shard(0), Shard(1)]}, mesh, compiler="torch"
    )
    torch.testing.assert_close(full(f(tokens)), embedding(tokens))
    with pytest.raises(ShardError, match="index"):
        f(tokens + 9)


@contextmanager
def nothing_on_the_host() -> Iterator[None]:
    """Within a `with` block it is an error to read a tensor on the host.

    One that is made without a device is on meta, and so has no elements.
    """

    def refuse(name: str) -> Any:
        def called(*args: Any, **kwargs: Any) -> Any:
            raise AssertionError(f"Tensor.{name} on the way of a step")

        return called

    with pytest.MonkeyPatch.context() as patched, torch.device("meta"):
        for name in ("numpy", "cpu", "item", "tolist", "__bool__", "__int__", "__float__"):
            patched.setattr(torch.Tensor, name, refuse(name))
        patched.setattr(Call, "_agreement", lambda *_: lambda: None)  # which waits for CPUs alone
        yield


class Normed(Mlp):
    """With a constant, dropout and a buffer that a call writes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(16)
        self.table = [float(each) for each in range(16)]

    def forward(self, x: Any) -> Any:
        x = self.norm(x) + torch.tensor(self.table, device=x.device)
        return torch.nn.functional.dropout(super().forward(x), 0.25, self.training)


def where_tensors_are(mesh: Any) -> None:
    """On each door: a step by torch takes nothing to the host, once it is compiled."""
    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
    doors = [
        sd.torch.partition(Normed(), (x,), {"x": BATCH, "tp": TP}, mesh, compiler="torch"),
        sd.torch.parallelize_module(Normed(), mesh["tp"], TP, compiler="torch"),
        sd.torch.fully_shard(Normed(), mesh=mesh["dp"], compiler="torch"),
    ]
    for f in doors:
        f(x).sum().backward()
        assert f.compiled.is_of_torch
        with nothing_on_the_host():
            f(x).sum().backward()
    f = doors[-1]
    with pytest.raises(ShardError, match='compiler="torch", and another one "cpu"'):
        sd.torch.parallelize_module(f, mesh["tp"], TP, compiler="cpu")
    with pytest.raises(ShardError, match="compiler 'cuda' is none of cpu, torch"):
        sd.torch.partition(Mlp(), (x,), {}, mesh, compiler="cuda")


def by_torch_is_what_others_are(mesh: Any) -> None:
    """What the checks of other compilers' programs say, of torch's."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "compiler_for", lambda *_: "torch")
        for name in ("trained_as_a_module", "arguments", "uneven", "complex_numbers", "decisions"):
            CHECKS[name](mesh)
        for name in ("fsdp_of_blocks", "tensor_parallel_and_fsdp", "mixed_precision"):
            CHECKS[name](mesh)


CHECKS: dict[str, Callable[[Any], None]] = {
    **{name: lambda mesh, name=name: models(mesh, name) for name in ("llama", "gpt2", "bert")},
    "vit": lambda mesh: models(mesh, "vit"),
    "resnet": lambda mesh: models(mesh, "resnet"),
    "llama_trained": llama_trained,
    "trained_as_a_module": trained_as_a_module,
    "arguments": arguments,
    "indices": indices,
    "state": state,
    "uneven": uneven,
    "split_mesh": split_mesh,
    "beside_dtensor": beside_dtensor,
    "complex_numbers": complex_numbers,
    "decisions": decisions,
    "sizes": sizes,
    "saved_memory": saved_memory,
    "left_around": left_around,
    "by_torch": by_torch,
    "where_tensors_are": where_tensors_are,
    "by_torch_is_what_others_are": by_torch_is_what_others_are,
    **in_place_on_ranks.CHECKS,
}


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    only = os.environ.get("CHECKS", " ".join(CHECKS)).split()
    for name in only:
        CHECKS[name](mesh)
        if dist.get_rank() == 0:
            print("done", name, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
