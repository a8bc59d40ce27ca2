"""Small models of transformers with random weights, and plans for a mesh of dimensions dp and tp.

Ranks run some of them, too: python -m tests.torch.run_on_ranks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
)

R = Replicate()
BATCH = [Shard(0), R]
EAGER: Any = {"attn_implementation": "eager", "use_cache": False}


@dataclass(frozen=True)
class Model:
    module: Any
    args: Sequence[Any]
    plan: Mapping[str, Any]
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def ids(*shape: int) -> Any:
    return torch.randint(0, 64, shape)


LLAMA: Mapping[str, Any] = {
    "model.embed_tokens": RowwiseParallel(input_layouts=R),
    "model.layers.*.self_attn.[qkv]_proj": ColwiseParallel(),
    "model.layers.*.self_attn.o_proj": RowwiseParallel(),
    "model.layers.*.mlp.gate_proj": ColwiseParallel(),
    "model.layers.*.mlp.up_proj": ColwiseParallel(),
    "model.layers.*.mlp.down_proj": RowwiseParallel(),
    "lm_head": ColwiseParallel(output_layouts=R),
}


def llama() -> Model:
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=8,
        num_key_value_heads=4,
        **EAGER,
    )
    tokens = ids(4, 8)
    plan = {"input_ids": BATCH, "labels": BATCH, "tp": LLAMA}
    module = transformers.LlamaForCausalLM(config)
    return Model(module, (), plan, {"input_ids": tokens, "labels": tokens})


def llama_by_sequence() -> Model:
    """Norms on shards of the sequence."""
    model = llama()
    rowwise = RowwiseParallel(output_layouts=Shard(1))
    embedding = RowwiseParallel(input_layouts=R, output_layouts=Shard(1))
    gather = {"desired_input_layouts": R, "input_layouts": Shard(1)}
    names = {"input_kwarg_layouts": {"hidden_states": Shard(1)}}
    attention = PrepareModuleInput(**names, desired_input_kwarg_layouts={"hidden_states": R})
    tp = {
        **LLAMA,
        "model.embed_tokens": embedding,
        "model.layers.*.input_layernorm": SequenceParallel(),
        "model.layers.*.post_attention_layernorm": SequenceParallel(),
        "model.layers.*.self_attn": attention,
        "model.layers.*.self_attn.o_proj": rowwise,
        "model.layers.*.mlp": PrepareModuleInput(**gather),
        "model.layers.*.mlp.down_proj": rowwise,
        "model.norm": SequenceParallel(),
    }
    return Model(model.module, model.args, {"input_ids": BATCH, "tp": tp}, model.kwargs)


def gpt2() -> Model:
    """Weights of [inputs, outputs], and an embedding that is the head, too."""
    config = transformers.GPT2Config(
        vocab_size=64,
        n_positions=16,
        n_embd=32,
        n_layer=1,
        n_head=4,
        bos_token_id=0,
        eos_token_id=0,
        **EAGER,
    )
    plan = {
        "input_ids": BATCH,
        "transformer.h.*.attn.c_attn.weight": [R, Shard(1)],
        "transformer.h.*.attn.c_attn.bias": [R, Shard(0)],
        "transformer.h.*.*.c_proj.weight": [R, Shard(0)],
        "transformer.h.*.mlp.c_fc.weight": [R, Shard(1)],
        "transformer.h.*.mlp.c_fc.bias": [R, Shard(-1)],
        "lm_head.weight": [R, Shard(0)],
        "output.logits": BATCH,
    }
    return Model(transformers.GPT2LMHeadModel(config), (ids(4, 8),), plan)


def bert() -> Model:
    config = transformers.BertConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        max_position_embeddings=16,
        attn_implementation="eager",
    )
    layer = "encoder.layer.*"
    columns = [f"{layer}.attention.self.{each}" for each in ("query", "key", "value")]
    tp = {
        **dict.fromkeys([*columns, f"{layer}.intermediate.dense"], ColwiseParallel()),
        f"{layer}.attention.output.dense": RowwiseParallel(),
        f"{layer}.output.dense": RowwiseParallel(),
    }
    mask = torch.ones(4, 8, dtype=torch.int64)
    mask[1, 5:] = 0
    plan = {"input_ids": BATCH, "attention_mask": BATCH, "tp": tp}
    return Model(transformers.BertModel(config), (ids(4, 8), mask), plan)


def vit() -> Model:
    config = transformers.ViTConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        image_size=16,
        patch_size=4,
        attn_implementation="eager",
    )
    plan = {"pixel_values": BATCH, "dp": fully_shard}
    return Model(transformers.ViTModel(config), (torch.randn(4, 3, 16, 16),), plan)


def resnet() -> Model:
    """Rows of the image split, with halos."""
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=4
    )
    module = transformers.ResNetForImageClassification(config)
    plan = {"pixel_values": [Shard(0), Shard(2)]}
    return Model(module, (torch.randn(4, 3, 16, 16),), plan)


MODELS: Mapping[str, Callable[[], Model]] = {
    each.__name__: each for each in (llama, llama_by_sequence, gpt2, bert, vit, resnet)
}


def make(name: str) -> Model:
    """The same at every call, without dropout."""
    torch.manual_seed(0)
    model = MODELS[name]()
    model.module.eval()
    return model


def assert_close(actual: Any, expected: Any) -> None:
    """Results of models, tensor by tensor."""
    assert actual.keys() == expected.keys()
    for name, each in expected.items():
        torch.testing.assert_close(actual[name], each, rtol=1e-4, atol=1e-5)
