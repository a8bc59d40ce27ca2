"""PyTorch modules, partitioned by us.

    f = sd.torch.partition(model, (x,), plan, mesh)     # on the ranks of torchrun, or in process
    y = f(x)                                            # as the module's
    module = sd.torch.lower(model, (x,), plan, mesh)    # as MLIR, to look at

    sd.torch.fully_shard(model, mesh=mesh["dp"])        # in place, as torch's of these names
    sd.torch.parallelize_module(model, mesh["tp"], styles)

`pip install 'shard-dialect[torch]'`. See docs/torch.md.
"""

from shard_dialect.torch.graph.decompositions import decompose
from shard_dialect.torch.graph.index_checks import IndexOutOfRange
from shard_dialect.torch.in_place.functions import (
    fully_shard,
    parallelize_module,
    register_fsdp_forward_method,
)
from shard_dialect.torch.in_place.modules import FSDPModule
from shard_dialect.torch.lower_module import lower
from shard_dialect.torch.partitioned import Partitioned, partition

__all__ = [
    "FSDPModule",
    "IndexOutOfRange",
    "Partitioned",
    "decompose",
    "fully_shard",
    "lower",
    "parallelize_module",
    "partition",
    "register_fsdp_forward_method",
]
