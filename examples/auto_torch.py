"""A feed-forward module of PyTorch on eight devices, with no sharding written by hand.

    pip install 'shard-dialect[torch,search]'
    python examples/auto_torch.py

A search finds the shardings, for devices whose memory does not hold all weights. The plan that it
has found is printed as a plan of DTensor placements, which `sd.torch.partition` takes as well.
"""

import torch

import shard_dialect as sd


class FeedForward(torch.nn.Module):
    """A gated feed-forward layer with a residual."""

    def __init__(self, width, hidden):
        super().__init__()
        self.gate = torch.nn.Linear(width, hidden, bias=False)
        self.up = torch.nn.Linear(width, hidden, bias=False)
        self.down = torch.nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        """Return the layer's output for rows of `width` numbers."""
        return x + self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))


def main():
    """Find shardings on a grid of two by four devices, and compare with one device."""
    torch.manual_seed(0)
    module, x = FeedForward(64, 256), torch.randn(128, 64)
    grid = sd.Grid("mesh", (2, 4), axes=("data", "model"))
    limit = sd.AutoOptions(objective="bytes", memory_limit=150_000, seconds=10)
    sharded = sd.torch.partition(module, (x,), limit, grid)
    for name, placements in sharded.plan().items():
        print(f"{name}: {placements}")
    torch.testing.assert_close(sharded(x), module(x), rtol=1e-3, atol=1e-4)
    by_hand = sd.torch.partition(module, (x,), sharded.plan(), grid)
    torch.testing.assert_close(by_hand(x), module(x), rtol=1e-3, atol=1e-4)
    print("equal to the unsharded layer")


if __name__ == "__main__":
    main()
