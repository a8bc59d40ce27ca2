"""PyTorch modules, partitioned by us.

    f = sd.torch.partition(model, (x,), plan, mesh)     # on the ranks of torchrun, or in process
    y = f(x)                                            # as the module's
    module = sd.torch.lower(model, (x,), plan, mesh)    # as MLIR, to look at

`pip install 'shard-dialect[torch]'`. See docs/torch.md.
"""

from shard_dialect.torch.lower_module import lower
from shard_dialect.torch.partitioned import Partitioned, partition

__all__ = ["Partitioned", "lower", "partition"]
