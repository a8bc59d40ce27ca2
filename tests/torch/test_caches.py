"""Models of transformers with the cache that they have by default, and their own `generate`."""

from typing import Any

import pytest
import torch
import transformers

import shard_dialect as sd
from tests.torch.models import BATCH

pytestmark = pytest.mark.usefixtures("unoptimized")

MESH = sd.Grid("mesh", (2, 2), ("dp", "tp"))
IDS = torch.randint(3, 64, (4, 8), generator=torch.Generator().manual_seed(0))
NEXT = IDS[:, :1]


def llama() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
    )
    return transformers.LlamaForCausalLM(config).eval()


def test_a_cache_comes_out_and_goes_in() -> None:
    own = llama()
    plan = {"input_ids": BATCH}
    f = sd.torch.partition(own, (), plan, MESH, kwargs={"input_ids": IDS})
    assert "output.past_key_values.layers.0.keys" in f.plan()
    first, expected = f(input_ids=IDS), own(input_ids=IDS)
    for each, cache in ((f, first), (own, expected)):
        cache.next = each(input_ids=NEXT, past_key_values=cache.past_key_values)
    torch.testing.assert_close(first.next.logits, expected.next.logits)
    assert first.next.past_key_values.get_seq_length() == 9


def test_it_generates_what_the_model_does() -> None:
    own = llama()
    f = sd.torch.partition(own, (), {"input_ids": BATCH}, MESH, kwargs={"input_ids": IDS})
    options = {"max_new_tokens": 3, "do_sample": False}
    assert torch.equal(f.generate(IDS, **options), own.generate(IDS, **options))


def test_the_caches_of_an_encoder_and_a_decoder() -> None:
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4
    )
    own = transformers.T5ForConditionalGeneration(config).eval()
    given = {"input_ids": IDS, "decoder_input_ids": NEXT}
    f = sd.torch.partition(own, (), {"input_ids": BATCH}, MESH, kwargs=given)
    found, expected = f(**given), own(**given)
    torch.testing.assert_close(found.logits, expected.logits, rtol=1e-4, atol=1e-5)
    more = {"decoder_input_ids": NEXT}
    logits = [
        each(
            **more,
            encoder_outputs=(expected.encoder_last_hidden_state.detach(),),
            past_key_values=result.past_key_values,
        ).logits
        for each, result in ((f, found), (own, expected))
    ]
    torch.testing.assert_close(*logits, rtol=1e-4, atol=1e-5)


class Window(transformers.cache_utils.DynamicLayer):
    """Keeps tensors beside keys and values: its size, and the last inputs of each convolution."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.states: dict[int, torch.Tensor] = {}

    def widened(self, x: torch.Tensor) -> torch.Tensor:
        self.limit = torch.tensor(float(self.size))
        before = self.states.get(0, torch.zeros_like(x[:, :0]))
        joined = torch.cat([before, x], 1)
        self.states[0] = joined[:, -self.size :]
        return joined.sum(1) / self.limit


class Totals(transformers.DynamicCache):
    """Keeps tensors beside its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [Window(3)]
        self.totals: list[torch.Tensor] = []


class Windowed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(8, 16)

    def forward(self, x: torch.Tensor, cache: Any = None) -> Any:
        cache = Totals() if cache is None else cache
        found = cache.layers[0].widened(self.up(x))
        cache.totals = [sum(cache.totals, found)]
        return found, cache


def test_all_tensors_of_a_cache_come_out_and_go_in() -> None:
    own, x = Windowed(), torch.randn(4, 5, 8)
    f = sd.torch.partition(own, (x,), {"x": BATCH}, MESH)
    assert "output.1.layers.0.states.0" in f.plan()
    calls = [own, f]
    pairs = [each(x) for each in calls]
    for _ in range(2):
        pairs = [each(x[:, :2], cache) for each, (_, cache) in zip(calls, pairs, strict=True)]
        (expected, cache), (found, other) = pairs
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(other.layers[0].states, cache.layers[0].states)
        torch.testing.assert_close(other.totals, cache.totals)
