"""Ranks of torch.distributed that compute with torch: `run --backend=torch --compiler=torch`."""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.codegen.array_types import Array
from shard_dialect.ir.bindings import ir
from shard_dialect.runtime.communicators.torch_world import TorchWorld
from shard_dialect.runtime.communicators.world import Runnable, Shards
from shard_dialect.runtime.emitted.torch_executable import TorchExecutable, TorchFunction
from shard_dialect.runtime.profiling.recorder import Event


class TorchRanks(TorchWorld):
    """The processes that `torchrun` started. Tensors are on the rank's GPU where it has one."""

    def __init__(self, *, compiles: bool = False) -> None:
        super().__init__()
        self._compiles = compiles

    def compile_local(self, module: ir.Module, entry: str) -> Runnable:
        """As `World.compile_local`."""
        return TorchExecutable(module, entry)

    def run(self, executable: Runnable, inputs: Sequence[Shards]) -> list[list[Array]]:
        """As `World.run`, for the one device here."""
        assert isinstance(executable, TorchExecutable), "compiled for this world"
        return [TorchFunction(executable, compiles=self._compiles)(inputs[0])]

    def profile(
        self, executable: Runnable, inputs: Sequence[Shards]
    ) -> tuple[list[list[Array]], list[Event]]:
        """As `World.profile`, by torch's profiler."""
        assert isinstance(executable, TorchExecutable), "compiled for this world"
        function = TorchFunction(executable, compiles=self._compiles)
        function(inputs[0])  # which compiles
        outputs, events = function.profile(inputs[0], self.rank)
        return [outputs], events
