"""The collectives: a record for each kind of step on shards; no MLIR and no backend in here."""

from shard_dialect.collectives.all_gather import AllGather
from shard_dialect.collectives.all_reduce import AllReduce
from shard_dialect.collectives.all_slice import AllSlice
from shard_dialect.collectives.all_to_all import AllToAll
from shard_dialect.collectives.exchange import Exchange
from shard_dialect.collectives.halos import CropHalo, UpdateHalo
from shard_dialect.collectives.mask import Mask
from shard_dialect.collectives.messages import Receive, Send
from shard_dialect.collectives.permute import Permute, Shift
from shard_dialect.collectives.reduce_scatter import ReduceScatter
from shard_dialect.collectives.rooted import Broadcast, Gather, Reduce, Scatter
from shard_dialect.collectives.step import (
    NOBODY,
    Index,
    LocalStep,
    ReshardError,
    Step,
    flat_index,
)

__all__ = [
    "NOBODY",
    "AllGather",
    "AllReduce",
    "AllSlice",
    "AllToAll",
    "Broadcast",
    "CropHalo",
    "Exchange",
    "Gather",
    "Index",
    "LocalStep",
    "Mask",
    "Permute",
    "Receive",
    "Reduce",
    "ReduceScatter",
    "ReshardError",
    "Scatter",
    "Send",
    "Shift",
    "Step",
    "UpdateHalo",
    "flat_index",
]
