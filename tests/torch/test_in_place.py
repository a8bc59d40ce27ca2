"""`fully_shard` and `parallelize_module` in one process; on ranks: `in_place_on_ranks`."""

import copy
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed import fsdp
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel
from torch.distributed.tensor.placement_types import _StridedShard

import shard_dialect as sd
from shard_dialect.errors import ShardError
from shard_dialect.torch import FSDPModule, fully_shard, parallelize_module
from tests.torch.in_place_on_ranks import BLOCK, Net, split_blocks
from tests.torch.models import BATCH, R, assert_close

pytestmark = pytest.mark.usefixtures("unoptimized")

MESH = sd.Grid("mesh", (2, 2), ("dp", "tp"))
TOKENS = torch.randint(0, 24, (8, 6), generator=torch.Generator().manual_seed(0))


def make() -> Any:
    torch.manual_seed(0)
    return Net()


def changed(module: Any) -> Any:
    for block in module.blocks:
        parallelize_module(block, MESH["tp"], dict(BLOCK))
    split_blocks(module, fully_shard, mesh=MESH["dp"])
    return module


def test_it_trains_as_the_module_does() -> None:
    own, module = make(), changed(make())
    assert isinstance(module, Net)
    assert isinstance(module, FSDPModule)
    parameters = dict(module.named_parameters())
    optimizers = [torch.optim.AdamW(each.parameters(), 0.01) for each in (module, own)]
    for size in (8, 8, 3):
        found = []
        for each, optimizer in zip((module, own), optimizers, strict=True):
            optimizer.zero_grad()
            loss = each(TOKENS[:size]).square().mean()
            loss.backward()
            optimizer.step()
            found.append(loss.detach())
        torch.testing.assert_close(*found)
    assert_close(module.state_dict(), own.state_dict())
    assert all(parameters[name] is each for name, each in module.named_parameters())
    plan = module.plan()
    assert plan["blocks.0.up.weight"] == [_StridedShard(0, split_factor=2), Shard(0)]
    assert plan["blocks.0.down.weight"] == [Shard(0), Shard(1)]
    assert plan["tokens"] == plan["output"] == BATCH


def test_a_submodule_that_was_changed_runs_alone() -> None:
    own, module = make(), make()
    for block in module.blocks:
        fully_shard(block, mesh=MESH["dp"])
    assert not isinstance(module, FSDPModule)
    loss = module(TOKENS).square().mean()
    loss.backward()
    own(TOKENS).square().mean().backward()
    pairs = zip(module.parameters(), own.parameters(), strict=True)
    for a, b in pairs:
        torch.testing.assert_close(a.grad, b.grad)


@pytest.mark.parametrize("compiled", [torch.compile, nn.Module.compile])
def test_torch_compile_around_leaves_the_call_alone(compiled: Any) -> None:
    own, module = make(), changed(make())
    called = compiled(module, backend="eager")
    called = module if called is None else called
    for size in (8, 4):
        for each in (called, own):
            each(TOKENS[:size]).square().mean().backward()
    for a, b in zip(module.parameters(), own.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_buffers_dropout_and_the_modes() -> None:
    own = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
    module = fully_shard(copy.deepcopy(own), mesh=sd.Grid("mesh", (4,)))
    x = torch.randn(8, 8)
    assert not module(x).equal(module(x))
    own(x)
    own(x)
    own.eval(), module.eval()
    torch.testing.assert_close(module(x), own(x))
    assert_close(module.state_dict(), own.state_dict())


def test_a_module_without_data() -> None:
    with torch.device("meta"):
        module = changed(Net())
    with pytest.raises(ShardError, match=r"its tensors \(.*\) have no data: .*to_empty"):
        module(TOKENS)
    module.to_empty(device="cpu")
    module.load_state_dict(make().state_dict())
    torch.testing.assert_close(module(TOKENS), make()(TOKENS))


def test_mixed_precision_is_of_the_innermost_module() -> None:
    module, policy = make(), fsdp.MixedPrecisionPolicy(torch.bfloat16, output_dtype=torch.float32)
    fully_shard(module.head, mesh=MESH["dp"], mp_policy=policy)
    fully_shard(module, mesh=MESH["dp"])
    found = module(TOKENS)
    found.square().mean().backward()
    own = make()
    expected = own.head.bfloat16()(
        own.norm(own.blocks[1](own.blocks[0](own.table(TOKENS)))).bfloat16()
    )
    torch.testing.assert_close(found, expected.float(), rtol=1e-2, atol=1e-2)
    assert (found.dtype, module.head.weight.grad.dtype) == (torch.float32, torch.float32)
    lines = module.compiled.text("annotated").splitlines()
    products = [line for line in lines if "stablehlo.dot_general" in line]
    assert ["bf16" in line for line in products] == [False] * 4 + [True]


def test_a_plan_of_partition_has_the_same_policy() -> None:
    policy = fsdp.MixedPrecisionPolicy(torch.bfloat16)
    plan = {"dp": {"head": partial(fsdp.fully_shard, mp_policy=policy)}}
    f = sd.torch.partition(make(), (TOKENS,), plan, MESH)
    assert f(TOKENS).dtype == torch.bfloat16
    assert f.head.weight.dtype == torch.float32


def test_what_is_left_alone() -> None:
    module = make()
    ignored = set(module.head.parameters())
    fully_shard(
        module,
        mesh=MESH["dp"],
        ignored_params=ignored,
        shard_placement_fn=lambda each: Shard(each.dim() - 1),
    )
    module(TOKENS)
    plan = module.plan()
    assert plan["table.weight"] == [Shard(1), R]
    assert plan["head.weight"] == [R, R]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda m: fully_shard(m), r"there is no mesh of all ranks: give mesh=sd\.Grid"),
        (lambda m: fully_shard(m, mesh=(2, 2)), r"DeviceMesh or an sd\.Grid, not \(2, 2\)"),
        (lambda m: fully_shard(m, mesh=MESH["ddp"]), r'"ddp" is no axis of grid .*: dp, tp'),
        (
            lambda m: fully_shard(m, mesh=MESH["dp"], offload_policy=fsdp.CPUOffloadPolicy()),
            r"CPUOffloadPolicy is not supported: .* keep it on the CPU",
        ),
        (
            lambda m: parallelize_module(m, MESH, {"head": ColwiseParallel()}),
            r'one dimension of a mesh, not dp, tp: give mesh\["tp"\]',
        ),
        (
            lambda m: parallelize_module(m, MESH["tp"], {"hed": ColwiseParallel()}),
            r'"hed" in the plan matches no module; near: "head"',
        ),
        (
            lambda m: parallelize_module(m, MESH["tp"], {"norm": RowwiseParallel()}),
            r"^norm: error: RowwiseParallel is for nn\.Linear and nn\.Embedding, not for LayerNorm",
        ),
        (lambda m: parallelize_module(m, MESH["tp"], None), r"the style NoneType .* is none of"),
        (
            lambda m: parallelize_module(
                fully_shard(m, mesh=sd.Grid("g", (4,))), MESH["tp"], {"norm": SequenceParallel()}
            ),
            r"is on @g\(4\): expected the whole mesh @mesh\(2x2\)",
        ),
        (
            lambda m: fully_shard(sd.torch.partition(m, (TOKENS,), {}, MESH), mesh=MESH["dp"]),
            r"is one that sd\.torch\.partition has returned",
        ),
        (
            lambda m: fully_shard(
                parallelize_module(m.head, MESH["tp"], ColwiseParallel()), mesh=MESH["tp"]
            ),
            r"ColwiseParallel and fully_shard are about one Linear along tp: expected one of them",
        ),
        (
            lambda m: parallelize_module(
                parallelize_module(m, MESH["tp"], {"head": ColwiseParallel()}),
                MESH["tp"],
                {"head": RowwiseParallel()},
            ),
            r"ColwiseParallel and RowwiseParallel are about one Linear along tp",
        ),
        (lambda m: fully_shard(m, mesh=MESH).compiled, "compiled at its first call, and was not"),
        (
            lambda m: fully_shard(m, mesh=MESH).set_custom_all_gather(None),
            "set_custom_all_gather is not supported: the program's collectives",
        ),
        (
            lambda m: sd.torch.register_fsdp_forward_method(fully_shard(m, mesh=MESH), "generate"),
            "generate is no forward: a program is made of calls of the module",
        ),
    ],
)
def test_what_is_refused(call: Any, error: str) -> None:
    with pytest.raises(ShardError, match=error):
        call(make())


def test_every_method_of_torchs_class_is_there() -> None:
    named = [each for each in vars(fsdp.FSDPModule) if not each.startswith("_")]
    assert [each for each in named if not callable(getattr(FSDPModule, each, None))] == []
