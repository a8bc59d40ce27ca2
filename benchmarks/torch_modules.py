"""Modules of libraries beside themselves, partitioned: which run, derive and train.

    python -m benchmarks.torch_modules [llama lstm ...] [--seconds 120] > table.md

Each module is written as its library's documents write it, with random weights and the attention
that it has by default. The mesh is 2x4: the batch is split along the first dimension, parameters
along the second. It passes if it equals the module itself in eval mode, if the gradients of the
mean of the squares of its results do, and if three steps of SGD do in training mode, with dropout
as torch draws it. A library that is not installed is left out.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import multiprocessing
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.utils import _pytree as pytree

import shard_dialect as sd
from benchmarks.torch_written_modules import WRITTEN
from shard_dialect.torch.graph.complex_parts import as_real

BATCH, TOKENS = 4, 8


@dataclass(frozen=True)
class Case:
    """A module, and what it is called with."""

    module: nn.Module
    args: Sequence[Any]
    kwargs: Mapping[str, Any] = field(default_factory=dict)


Make = Callable[[], Case]


def _x(*shape: int) -> Any:
    return torch.randn(BATCH, *shape)


def _ids(high: int = 64) -> Any:
    return torch.randint(0, high, (BATCH, TOKENS))


def _of_nn(name: str, *args: Any, inputs: Sequence[Any], **options: Any) -> Case:
    return Case(getattr(nn, name)(*args, **options), inputs)


class Functional(nn.Module):
    """A function with a linear layer in front, so that there is a gradient."""

    def __init__(self, function: Callable[..., Any], width: int = 16) -> None:
        super().__init__()
        self.first, self.function = nn.Linear(width, width), function

    def forward(self, *tensors: Any) -> Any:
        return self.function(self.first(tensors[0]), *tensors[1:])


class Spectral(nn.Module):
    """A layer of a Fourier neural operator, with complex parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 4, 4, 3, dtype=torch.complex64))
        self.around = nn.Conv2d(2, 4, 1)

    def forward(self, x: Any) -> Any:
        found = torch.fft.rfft2(x)
        out = torch.zeros(x.shape[0], 4, 8, 5, dtype=torch.complex64)
        kept = found[:, :, :4, :3]
        out[:, :, :4, :3] = torch.einsum("bixy,ioxy->boxy", kept, self.weight)
        return nn.functional.gelu(torch.fft.irfft2(out, s=(8, 8)) + self.around(x))


def _aligned(x: Any) -> Any:
    lengths = torch.full((BATCH,), TOKENS), torch.full((BATCH,), 3)
    labels = torch.tensor([[1, 2, 2], [3, 4, 5], [6, 6, 1], [2, 1, 2]])
    return nn.functional.ctc_loss(x.log_softmax(-1).transpose(0, 1), labels, *lengths)


def _sampled(x: Any) -> Any:
    return nn.functional.grid_sample(x, x[:, :2].permute(0, 2, 3, 1), align_corners=False)


def _gaussian(x: Any) -> Any:
    return nn.functional.gaussian_nll_loss(x, x.flip(0).detach(), x.square() + 0.1)


def _several_labels(x: Any) -> Any:
    labels = torch.tensor([[1, 2, -1, *[0] * 13]] * BATCH)
    return nn.functional.multilabel_margin_loss(x, labels)


def _chain(*modules: nn.Module, shape: Sequence[int]) -> Case:
    return Case(nn.Sequential(*modules), (_x(*shape),))


def _functional(name: str, *shape: int, **options: Any) -> Case:
    function = partial(getattr(nn.functional, name), **options)
    return Case(Functional(function, shape[-1]), (_x(*shape),))


def _attention(**options: Any) -> Case:
    def attend(q: Any) -> Any:
        heads = q.view(BATCH, TOKENS, 4, 4).transpose(1, 2)
        return nn.functional.scaled_dot_product_attention(heads, heads, heads, **options)

    return Case(Functional(attend), (_x(TOKENS, 16),))


_WIDTHS: Mapping[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_IMAGE: Mapping[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 16,
    "patch_size": 4,
}


def _of_transformers(
    config: str, model: str, inputs: Sequence[str] = ("input_ids",), **options: Any
) -> Case:
    import transformers

    made = getattr(transformers, config)(**options)
    known: dict[str, Callable[[], Any]] = {
        "input_ids": _ids,
        "decoder_input_ids": _ids,
        "pixel_values": lambda: _x(3, options.get("image_size", 32), options.get("image_size", 32)),
        "input_features": lambda: _x(80, 16),
        "input_values": lambda: _x(1000),
        "attention_mask": lambda: torch.tensor([[1] * 6 + [0] * 2] * BATCH),
    }
    kwargs = {name: known[name]() for name in inputs}
    if "use_cache" in dir(made) or hasattr(made, "use_cache"):
        kwargs["use_cache"] = False
    return Case(getattr(transformers, model)(made), (), kwargs)


def _text(family: str, model: str = "ForCausalLM", config: str = "", **options: Any) -> Make:
    return lambda: _of_transformers(
        f"{config or family}Config", f"{family}{model}", **{**_WIDTHS, **options}
    )


def _image(family: str, model: str = "ForImageClassification", **options: Any) -> Make:
    common = {} if family == "Swin" else _IMAGE
    return lambda: _of_transformers(
        f"{family}Config", f"{family}{model}", ("pixel_values",), **{**common, **options}
    )


def _masked(family: str, model: str = "Model", **options: Any) -> Make:
    return lambda: _of_transformers(
        f"{family}Config",
        f"{family}{model}",
        ("input_ids", "attention_mask"),
        **{**_WIDTHS, **options},
    )


def _of_timm(name: str, size: int = 32, **options: Any) -> Make:
    def make() -> Case:
        timm = importlib.import_module("timm")
        return Case(timm.create_model(name, num_classes=4, **options), (_x(3, size, size),))

    return make


def _of_torchvision(name: str, size: int = 64, **options: Any) -> Make:
    def make() -> Case:
        models = importlib.import_module("torchvision.models")
        found = getattr(models, name)(num_classes=4, **options)
        return Case(found, (_x(3, size, size),))

    return make


def _of_diffusers(name: str, inputs: Callable[[], Any], **options: Any) -> Make:
    def make() -> Case:
        diffusers = importlib.import_module("diffusers")
        found = inputs()
        return Case(getattr(diffusers, name)(**options), (), found)

    return make


def _of_geometric(name: str, **options: Any) -> Make:
    def make() -> Case:
        convolutions = importlib.import_module("torch_geometric.nn")
        edges = torch.tensor([[0, 1, 1, 2, 3, 5, 6], [1, 0, 2, 1, 4, 4, 7]])
        return Case(getattr(convolutions, name)(16, 8, **options), (torch.randn(8, 16), edges))

    return make


def _written(make: Callable[[], tuple[nn.Module, Sequence[Any]]]) -> Make:
    return lambda: Case(*make())


def _of_graphs(name: str, *args: Any, more: Callable[[], Any] = tuple, **options: Any) -> Make:
    """A network, or a pooling, called with nodes and edges, and with `more`."""

    def make() -> Case:
        found = getattr(importlib.import_module("torch_geometric.nn"), name)(*args, **options)
        edges = torch.tensor([[0, 1, 1, 2, 3, 5, 6, 4], [1, 0, 2, 1, 4, 4, 7, 6]])
        return Case(found, (torch.randn(8, 16), edges, *more()))

    return make


def _unet_inputs() -> Any:
    return {"sample": _x(4, 16, 16), "timestep": torch.tensor([1, 5, 7, 9])}


def _denoised(*shape: int, width: int = 16, **more: Any) -> Callable[[], Any]:
    """What a transformer of diffusers takes: of this shape, with a text of this width."""
    return lambda: {
        "hidden_states": _x(*shape),
        "encoder_hidden_states": _x(6, width),
        "timestep": torch.tensor([1, 5, 7, 9]),
        **more,
    }


NN: Mapping[str, Make] = {
    "nn.MultiheadAttention": lambda: _of_nn(
        "MultiheadAttention", 16, 4, batch_first=True, inputs=[_x(TOKENS, 16)] * 3
    ),
    "nn.TransformerEncoderLayer": lambda: _of_nn(
        "TransformerEncoderLayer", 16, 4, 32, batch_first=True, inputs=[_x(TOKENS, 16)]
    ),
    "nn.TransformerDecoderLayer": lambda: _of_nn(
        "TransformerDecoderLayer", 16, 4, 32, batch_first=True, inputs=[_x(TOKENS, 16)] * 2
    ),
    "nn.Transformer": lambda: _of_nn(
        "Transformer", 16, 4, 1, 1, 32, batch_first=True, inputs=[_x(TOKENS, 16)] * 2
    ),
    "sdpa causal": lambda: _attention(is_causal=True),
    "sdpa mask": lambda: _attention(attn_mask=torch.ones(8, 8).tril().bool()),
    "nn.LSTM": lambda: _of_nn("LSTM", 16, 8, 2, batch_first=True, inputs=[_x(TOKENS, 16)]),
    "nn.GRU bidirectional": lambda: _of_nn(
        "GRU", 16, 8, batch_first=True, bidirectional=True, inputs=[_x(TOKENS, 16)]
    ),
    "nn.RNN": lambda: _of_nn("RNN", 16, 8, batch_first=True, inputs=[_x(TOKENS, 16)]),
    "nn.EmbeddingBag": lambda: _of_nn("EmbeddingBag", 64, 16, inputs=[_ids()]),
    "nn.Conv1d depthwise": lambda: _of_nn(
        "Conv1d", 8, 8, 4, padding=3, groups=8, inputs=[_x(8, 8)]
    ),
    "nn.Conv2d grouped": lambda: _of_nn(
        "Conv2d", 8, 16, 3, padding=1, groups=4, inputs=[_x(8, 8, 8)]
    ),
    "nn.Conv3d": lambda: _of_nn("Conv3d", 4, 8, 3, padding=1, inputs=[_x(4, 6, 6, 6)]),
    "nn.ConvTranspose2d": lambda: _of_nn("ConvTranspose2d", 8, 4, 2, 2, inputs=[_x(8, 8, 8)]),
    "interpolate nearest": lambda: Case(
        nn.Sequential(nn.Conv2d(4, 4, 3), nn.Upsample(scale_factor=2)), (_x(4, 8, 8),)
    ),
    "interpolate bilinear": lambda: Case(
        nn.Sequential(nn.Conv2d(4, 4, 3), nn.Upsample(scale_factor=2, mode="bilinear")),
        (_x(4, 8, 8),),
    ),
    "nn.BatchNorm2d, pools": lambda: Case(
        nn.Sequential(
            nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(2)
        ),
        (_x(4, 10, 10),),
    ),
    "nn.GroupNorm": lambda: Case(
        nn.Sequential(nn.Conv2d(4, 8, 3), nn.GroupNorm(2, 8)), (_x(4, 8, 8),)
    ),
    "nn.InstanceNorm2d": lambda: _of_nn("InstanceNorm2d", 4, affine=True, inputs=[_x(4, 8, 8)]),
    "nn.Bilinear": lambda: _of_nn("Bilinear", 8, 8, 4, inputs=[_x(8), _x(8)]),
    "nn.PixelShuffle": lambda: Case(
        nn.Sequential(nn.Conv2d(4, 8, 3), nn.PixelShuffle(2)), (_x(4, 8, 8),)
    ),
    "nn.Unfold": lambda: Case(nn.Sequential(nn.Conv2d(4, 4, 3), nn.Unfold(2)), (_x(4, 8, 8),)),
    "nn.Fold": lambda: Case(nn.Sequential(nn.Linear(9, 9), nn.Fold((4, 4), (2, 2))), (_x(8, 9),)),
    "nn.PReLU, GLU": lambda: Case(nn.Sequential(nn.Linear(8, 8), nn.PReLU(), nn.GLU()), (_x(8),)),
    "cumprod": lambda: Case(Functional(lambda x: x.cumprod(-1)), (_x(16),)),
    "diagonal": lambda: Case(Functional(lambda x: x.diagonal(0, 1, 2)), (_x(16, 16),)),
    "unfold": lambda: Case(Functional(lambda x: x.unfold(1, 4, 2)), (_x(16),)),
    "fft": lambda: Case(Functional(lambda x: torch.fft.rfft(x).real), (_x(16),)),
    "rotary by complex": lambda: Case(
        Functional(
            lambda x: torch.view_as_real(
                torch.view_as_complex(x.view(BATCH, 8, 2))
                * torch.polar(torch.ones(8), torch.arange(8.0))
            )
        ),
        (_x(16),),
    ),
    "layer of an FNO": lambda: Case(Spectral(), (_x(2, 8, 8),)),
    "stft": lambda: Case(
        Functional(
            lambda x: torch.stft(x, 8, 4, window=torch.hann_window(8), return_complex=True).abs()
        ),
        (_x(16),),
    ),
    "ctc_loss": lambda: Case(Functional(_aligned), (_x(TOKENS, 16),)),
    "gaussian_nll_loss": lambda: Case(Functional(_gaussian), (_x(16),)),
    "cdist": lambda: Case(Functional(lambda x: torch.cdist(x, x.flip(1))), (_x(TOKENS, 16),)),
    "grid_sample": lambda: Case(Functional(_sampled, 8), (_x(3, 8, 8),)),
    "nn.AdaptiveLogSoftmaxWithLoss": lambda: _of_nn(
        "AdaptiveLogSoftmaxWithLoss", 16, 32, [8, 16], inputs=[_x(16), torch.arange(BATCH) * 8]
    ),
    "sort, gather": lambda: Case(
        Functional(lambda x: x.gather(1, x.argsort(1)) * x.topk(4).values.sum(1, True)), (_x(16),)
    ),
    "nn.Conv1d dilated": lambda: _of_nn(
        "Conv1d", 8, 8, 3, dilation=2, padding="same", inputs=[_x(8, 10)]
    ),
    "nn.LPPool2d": lambda: _chain(nn.Conv2d(4, 4, 3), nn.LPPool2d(2, 2), shape=(4, 8, 8)),
    "nn.LocalResponseNorm": lambda: _chain(
        nn.Conv2d(4, 8, 3), nn.LocalResponseNorm(3), nn.Hardswish(), shape=(4, 8, 8)
    ),
    "nn.ReflectionPad2d": lambda: _chain(
        nn.ReflectionPad2d(2), nn.Conv2d(4, 4, 3), nn.CircularPad2d(1), shape=(4, 8, 8)
    ),
    "nn.AlphaDropout": lambda: _chain(
        nn.Linear(16, 16), nn.SELU(), nn.AlphaDropout(0.2), shape=(8, 16)
    ),
    "nn.LSTM projected": lambda: _of_nn(
        "LSTM", 16, 8, 2, batch_first=True, proj_size=4, dropout=0.2, inputs=[_x(TOKENS, 16)]
    ),
    "multilabel_margin_loss": lambda: Case(Functional(_several_labels), (_x(16),)),
    **{
        f"parametrizations.{name}": lambda name=name: Case(
            getattr(nn.utils.parametrizations, name)(nn.Linear(8, 8)), (_x(8),)
        )
        for name in ("weight_norm", "spectral_norm", "orthogonal")
    },
}
TRANSFORMERS: Mapping[str, Make] = {
    "Llama": _text("Llama", num_key_value_heads=2),
    "Mistral": _text("Mistral", num_key_value_heads=2),
    "Qwen2": _text("Qwen2", num_key_value_heads=2),
    "Qwen3": _text("Qwen3", num_key_value_heads=2, head_dim=8),
    "Gemma2": _text("Gemma2", num_key_value_heads=2, head_dim=8),
    "GPT2": _text("GPT2", "LMHeadModel"),
    "GPTNeoX": _text("GPTNeoX"),
    "OPT": _text("OPT", ffn_dim=64, word_embed_proj_dim=32),
    "Phi": _text("Phi"),
    "Bloom": _text("Bloom", n_layer=2, n_head=4),
    "Mixtral": _text("Mixtral", num_key_value_heads=2, num_local_experts=4),
    "Mamba": _text("Mamba"),
    "DeepseekV3": _text(
        "DeepseekV3",
        q_lora_rank=16,
        kv_lora_rank=8,
        qk_rope_head_dim=4,
        qk_nope_head_dim=4,
        v_head_dim=8,
        n_routed_experts=4,
        n_group=2,
        topk_group=1,
        num_experts_per_tok=2,
        first_k_dense_replace=1,
        moe_intermediate_size=16,
    ),
    "Llama4": lambda: _of_transformers(
        "Llama4TextConfig",
        "Llama4ForCausalLM",
        **_WIDTHS,
        num_key_value_heads=2,
        head_dim=8,
        num_local_experts=2,
        intermediate_size_mlp=64,
    ),
    **{name: _text(name) for name in ("Falcon", "StableLm", "Cohere", "Olmo2", "Granite", "Phi3")},
    "GPTJ": _text("GPTJ", n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=64),
    "Starcoder2": _text("Starcoder2", num_key_value_heads=2),
    "Olmoe": _text("Olmoe", num_experts=4, num_experts_per_tok=2),
    "Mamba2": _text("Mamba2", num_heads=8, head_dim=8, state_size=8, n_groups=1, chunk_size=4),
    "Gemma3": _text("Gemma3", config="Gemma3Text", num_key_value_heads=2, head_dim=8),
    "GptOss": _text(
        "GptOss", num_key_value_heads=2, head_dim=8, num_local_experts=4, num_experts_per_tok=2
    ),
    "FalconMamba": _text("FalconMamba", state_size=4, time_step_rank=4),
    "FNet": _text("FNet", "Model"),
    "Bert": _masked("Bert"),
    "DistilBert": _masked("DistilBert", dim=32, hidden_dim=64, n_layers=2, n_heads=4),
    "DebertaV2": _masked("DebertaV2"),
    "Roberta": _masked("Roberta"),
    "Albert": _masked("Albert", embedding_size=16),
    "ModernBert": _masked("ModernBert", cls_token_id=1, sep_token_id=2),
    "RoFormer": _masked("RoFormer", embedding_size=32),
    "Electra": _masked("Electra", embedding_size=32),
    "T5": lambda: _of_transformers(
        "T5Config",
        "T5ForConditionalGeneration",
        ("input_ids", "decoder_input_ids"),
        vocab_size=64,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
    ),
    "Bart": lambda: _of_transformers(
        "BartConfig",
        "BartForConditionalGeneration",
        ("input_ids",),
        vocab_size=64,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=64,
    ),
    "Whisper": lambda: _of_transformers(
        "WhisperConfig",
        "WhisperForConditionalGeneration",
        ("input_features", "decoder_input_ids"),
        vocab_size=64,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=8,
        max_target_positions=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    ),
    **{name: _image(name) for name in ("ViT", "DeiT", "Beit", "Dinov2")},
    "Swin": _image(
        "Swin",
        image_size=16,
        embed_dim=16,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=2,
        patch_size=2,
    ),
    "ConvNext": _image(
        "ConvNext", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, image_size=32
    ),
    "ResNet": _image("ResNet", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1]),
    "Segformer": _image(
        "Segformer",
        "ForSemanticSegmentation",
        image_size=64,
        depths=[1, 1],
        hidden_sizes=[8, 16],
        num_encoder_blocks=2,
        num_attention_heads=[1, 2],
        sr_ratios=[2, 1],
        patch_sizes=[7, 3],
        strides=[4, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=16,
    ),
    "Wav2Vec2": lambda: _of_transformers(
        "Wav2Vec2Config",
        "Wav2Vec2Model",
        ("input_values",),
        **{
            **_WIDTHS,
            "conv_dim": (8, 8),
            "conv_stride": (5, 2),
            "conv_kernel": (10, 3),
            "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 16,
            "num_conv_pos_embedding_groups": 4,
        },
    ),
}
TIMM: Mapping[str, Make] = {
    "timm resnet18": _of_timm("resnet18"),
    "timm vit_tiny": _of_timm("vit_tiny_patch16_224", img_size=32, depth=2),
    "timm efficientnet_b0": _of_timm("efficientnet_b0"),
    "timm mobilenetv3_small": _of_timm("mobilenetv3_small_050"),
    "timm convnext_atto": _of_timm("convnext_atto"),
    "timm mixer": _of_timm("mixer_s32_224", 64, img_size=64),
    "timm swin_tiny": _of_timm(
        "swin_tiny_patch4_window7_224", 56, img_size=56, depths=(2, 2), num_heads=(3, 6)
    ),
    "timm beit": _of_timm("beit_base_patch16_224", img_size=32, depth=2, embed_dim=32, num_heads=4),
    "timm xcit": _of_timm("xcit_nano_12_p16_224", img_size=32, depth=2, embed_dim=32),
    "timm pit": _of_timm("pit_ti_224", 64, img_size=64, depth=(1, 1, 1), base_dims=(16, 16, 16)),
}
TORCHVISION: Mapping[str, Make] = {
    "torchvision resnet18": _of_torchvision("resnet18"),
    "torchvision mobilenet_v2": _of_torchvision("mobilenet_v2", 32),
    "torchvision densenet121": _of_torchvision("densenet121", 32),
    "torchvision shufflenet": _of_torchvision("shufflenet_v2_x0_5", 32),
    "torchvision squeezenet": _of_torchvision("squeezenet1_1"),
    "torchvision convnext_tiny": _of_torchvision("convnext_tiny", 32),
    "torchvision regnet_y_400mf": _of_torchvision("regnet_y_400mf", 32),
}
DIFFUSERS: Mapping[str, Make] = {
    "diffusers UNet2D": _of_diffusers(
        "UNet2DModel",
        _unet_inputs,
        sample_size=16,
        in_channels=4,
        out_channels=4,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    ),
    "diffusers UNet2DCondition": _of_diffusers(
        "UNet2DConditionModel",
        lambda: {**_unet_inputs(), "encoder_hidden_states": _x(8, 16)},
        sample_size=16,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=16,
        attention_head_dim=4,
    ),
    "diffusers AutoencoderKL": _of_diffusers(
        "AutoencoderKL",
        lambda: {"sample": _x(3, 16, 16)},
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
    ),
    "diffusers DiT": _of_diffusers(
        "DiTTransformer2DModel",
        lambda: {
            "hidden_states": _x(4, 8, 8),
            "timestep": torch.tensor([1, 5, 7, 9]),
            "class_labels": torch.tensor([0, 1, 2, 3]),
        },
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=4,
        num_layers=1,
        sample_size=8,
        num_embeds_ada_norm=10,
        norm_num_groups=4,
    ),
    "diffusers SD3": _of_diffusers(
        "SD3Transformer2DModel",
        _denoised(4, 8, 8, width=32, pooled_projections=torch.ones(BATCH, 64)),
        sample_size=8,
        patch_size=1,
        in_channels=4,
        num_layers=2,
        attention_head_dim=8,
        num_attention_heads=4,
        caption_projection_dim=32,
        joint_attention_dim=32,
        pooled_projection_dim=64,
        out_channels=4,
    ),
    "diffusers Flux": _of_diffusers(
        "FluxTransformer2DModel",
        _denoised(
            16,
            4,
            width=32,
            pooled_projections=torch.ones(BATCH, 32),
            img_ids=torch.ones(16, 3),
            txt_ids=torch.zeros(6, 3),
        ),
        patch_size=1,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=[4, 4, 8],
    ),
    "diffusers Wan": _of_diffusers(
        "WanTransformer3DModel",
        _denoised(4, 2, 8, 8),
        num_attention_heads=2,
        attention_head_dim=12,
        in_channels=4,
        out_channels=4,
        text_dim=16,
        ffn_dim=32,
        num_layers=2,
        rope_max_seq_len=32,
    ),
    "diffusers ControlNet": _of_diffusers(
        "ControlNetModel",
        lambda: {
            **_unet_inputs(),
            "encoder_hidden_states": _x(6, 16),
            "controlnet_cond": _x(3, 32, 32),
        },
        block_out_channels=(4, 8),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        cross_attention_dim=16,
        conditioning_embedding_out_channels=(16, 32),
        norm_num_groups=1,
        attention_head_dim=4,
    ),
}
GEOMETRIC: Mapping[str, Make] = {
    "torch_geometric GCNConv": _of_geometric("GCNConv", add_self_loops=False),
    "torch_geometric SAGEConv": _of_geometric("SAGEConv"),
    "torch_geometric GCNConv, loops": _of_geometric("GCNConv"),
    "torch_geometric GATv2Conv": _of_geometric("GATv2Conv", heads=2, add_self_loops=False),
    "torch_geometric TransformerConv": _of_geometric("TransformerConv", heads=2),
    "torch_geometric GATConv": _of_geometric("GATConv", add_self_loops=False),
    "torch_geometric ChebConv": _of_geometric("ChebConv", K=3),
    "torch_geometric ARMAConv": _of_geometric("ARMAConv", num_stacks=2, num_layers=2),
    **{
        f"torch_geometric {name}": _of_geometric(name)
        for name in ("GraphConv", "TAGConv", "ResGatedGraphConv", "GENConv")
    },
    **{
        f"torch_geometric {name}": _of_graphs(name, 16, 8, 2, 4, dropout=0.2)
        for name in ("GCN", "GraphSAGE", "GIN", "GAT", "EdgeCNN")
    },
    **{
        f"torch_geometric {name}": _of_graphs(
            name, 16, more=lambda: (None, torch.arange(2).repeat_interleave(4))
        )
        for name in ("TopKPooling", "SAGPooling")
    },
}
LIBRARIES: Mapping[str, Mapping[str, Make]] = {
    "torch": {**NN, **{name: _written(make) for name, make in WRITTEN.items()}},
    "transformers": TRANSFORMERS,
    "timm": TIMM,
    "torchvision": TORCHVISION,
    "diffusers": DIFFUSERS,
    "torch_geometric": GEOMETRIC,
}
MESH = sd.Grid("mesh", (2, 4), axes=("dp", "tp"))


def loss_of(result: Any) -> Any:
    """The mean of the squares of all floats in a result."""
    values = [
        each
        for each in pytree.tree_leaves(result)
        if isinstance(each, torch.Tensor) and (each.is_floating_point() or each.is_complex())
    ]
    return torch.stack([each.abs().square().mean() for each in values]).sum()


def _plan(case: Case) -> dict[str, Any]:
    """The batch along dp, the parameters along tp."""
    from shard_dialect.torch.graph.tensor_trees import arguments_of

    named = arguments_of(case.module, case.args, case.kwargs, None, ())
    whole = {
        name: [Shard(0), Replicate()]
        for name, each in named.tensors.items()
        if each.dim() and each.shape[0] == BATCH
    }
    has_parameters = any(each.dim() for each in case.module.parameters())
    return whole | ({"tp": {"**": fully_shard}} if has_parameters else {})


def _differs(found: Any, expected: Any) -> str:
    """The largest difference beside the largest element, where it is more than rounding."""
    pairs = zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True)
    for a, b in pairs:
        if isinstance(b, torch.Tensor):
            a, b = (as_real(each.detach()).double() for each in (a, b))
            scale = float(b.abs().max()) if b.numel() else 0.0
            worst = float((a - b).abs().max()) if b.numel() else 0.0
            if not worst <= 2e-4 * max(scale, 1e-2):
                return f"differs by {worst:.1e} of {scale:.1e}"
    return ""


def _partitioned(case: Case, **options: Any) -> Any:
    plan = _plan(case)
    args = dict(kwargs=case.kwargs, rng="torch", **options)
    return sd.torch.partition(case.module, case.args, plan, MESH, **args)


def _called(module: Any, case: Case, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    args, kwargs = copy.deepcopy((case.args, case.kwargs))
    return module(*args, **kwargs)


def forward(case: Case) -> str:
    """Empty if the partitioned module equals the module."""
    f = _partitioned(case)
    found, expected = (_called(each, case) for each in (f, case.module))
    return _differs(found, expected)


def gradients(case: Case) -> str:
    """Empty if the gradients equal the module's."""
    f = _partitioned(case, loss=loss_of)
    _, found = _called(f, case)
    loss_of(_called(case.module, case)).backward()
    own = {
        name: torch.zeros_like(each) if each.grad is None else each.grad
        for name, each in case.module.named_parameters()
        if each.requires_grad
    }
    return _differs([found[name] for name in own], list(own.values()))


def training(case: Case) -> str:
    """Empty if the losses of three steps and the state after them equal the module's."""
    case.module.train()
    found = []
    for module in (_partitioned(case), case.module):
        optimizer = torch.optim.SGD(module.parameters(), 1e-3, momentum=0.9)
        losses = []
        for step in range(3):
            optimizer.zero_grad()
            loss = loss_of(_called(module, case, step))
            loss.backward()
            optimizer.step()
            losses.append(loss)
        state = module.state_dict()
        found.append([*losses, *(state[name] for name in sorted(state))])
    return _differs(*found)


def _measure(make: Make, what: Callable[[Case], str], queue: Any) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    try:
        case = make()
        case.module.eval()
        queue.put(what(case))
    except Exception as error:
        lines = str(error).strip().splitlines()
        queue.put(f"{type(error).__name__}: {lines[0][:200] if lines else ''}")


def measured(make: Make, what: Callable[[Case], str], seconds: float) -> str:
    """As `what`, in a process of its own, which may crash or hang."""
    fork = multiprocessing.get_context("fork")
    queue = fork.Queue()
    process = fork.Process(target=_measure, args=(make, what, queue))
    process.start()
    until = time.monotonic() + seconds
    while process.is_alive() and time.monotonic() < until and queue.empty():
        time.sleep(0.05)
    if not queue.empty():
        found: str = queue.get()
        process.join()
        return found
    died = not process.is_alive()
    process.kill()
    process.join()
    return f"crashes ({process.exitcode})" if died else f"takes more than {seconds:.0f} s"


_LIBRARIES: list[Any] = []
"""torch forgets the ops of a library that is freed."""


def _declare_torchvision() -> None:
    """A build of torchvision for CUDA does not load its own ops: its models need none of them."""
    try:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms", "_deform_conv2d_backward", "deform_conv2d", "roi_align"):
            library.define(f"{name}(Tensor x) -> Tensor")
        _LIBRARIES.append(library)
        importlib.import_module("torchvision")
    except (ImportError, RuntimeError):
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("names", nargs="*", help="parts of the modules' names; all without")
    parser.add_argument("--seconds", type=float, default=120, help="for each module and check")
    options = parser.parse_args()
    _declare_torchvision()
    rows = []
    checks = (forward, gradients, training)
    print("| module | forward | gradients | training |\n|---|---|---|---|")
    for library, modules in LIBRARIES.items():
        try:
            importlib.import_module(library)
        except (ImportError, RuntimeError) as error:
            print(f"| {library} | cannot be imported: {str(error).splitlines()[0]} | | |")
            continue
        for name, make in modules.items():
            if options.names and not any(part.lower() in name.lower() for part in options.names):
                continue
            found = [measured(make, each, options.seconds) for each in checks]
            rows.append(found)
            print(f"| {name} | {' | '.join(each or 'yes' for each in found)} |", flush=True)
    ran, derived, trained = (sum(not each[column] for each in rows) for column in range(3))
    print(f"\n{len(rows)} modules: {ran} run forward, {derived} give gradients, {trained} train")


if __name__ == "__main__":
    main()
