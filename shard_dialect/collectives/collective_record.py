"""Collective records: all that passes, backends and reports need to know of a kind of step.

    CollectiveRecord(AllGather, algorithms=GATHERING,
                     perform=lambda step, grid, group, *arrays: group.all_gather(*arrays))

A facet is data, or a function of the step and of a builder that is passed in. So a collective's
file imports no backend and no MLIR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

from shard_dialect.collectives.step import LocalStep, Step
from shard_dialect.model.sharding import Shape

Round = tuple[list[tuple[int, int]], int]
"""Pairs of members of a group, sender and receiver, and the bytes of each message."""
RoundsFunction = Callable[[Any, Sequence[int], Shape, int], Iterable[Round]]
"""Of the step, the group's sizes along its axes, the operand's local shape and the itemsize."""
PerformFunction = Callable[..., None]
"""Of the step, its grid, this device's `Group`, and the arrays of the operand and the result."""
MpiFunction = Callable[[Any], None]
"""Of a `Site` (`passes.lower.mpi.native_mpi`), whose methods write MPI's calls."""
PythonFunction = Callable[[Any, Any], Any]
"""Of a `Call` (`backends.python.ops.collective_calls`), which writes that of a helper, and the
step."""
CodeFunction = Callable[[Any], Any]
"""Of a `Code`, whose methods write ops (`passes.lower.to_stablehlo.stablehlo_collectives`)."""

Algorithm = tuple[str, Callable[[int, float, float], float]]
"""A name; the seconds for n devices, the latency a, and b seconds to send the operand once."""


@dataclass(frozen=True, slots=True)
class Algorithms:
    """How the devices of a group do a collective on one level of a network, and on several."""

    on_switch: tuple[Algorithm, ...]
    on_ring: tuple[Algorithm, ...]
    growth: Callable[[int], float] = lambda n: 1
    """How much larger the operand of the next phase is, after one with n devices."""
    outside_first: bool = False
    """Whether the outermost level comes first: the slower level moves the smaller operand."""
    around: tuple[Algorithms, Algorithms] | None = None
    """The innermost level's collectives before and after the others, which have a part each."""


Kind = Literal[
    "axes",
    "dimension",
    "axis",
    "number",
    "list",
    "device",
    "sender",
    "flag",
    "reduction",
    "name",
    "split",
    "halo",
]
"""How an attribute is written. `axes` are a list of those of the grid. A `dimension` of the
tensor and an `axis` of the grid are of type index. A `device` is an index along each axis of a
group, and a `sender` one that may be any. A `split` lists axes by dimension, a `halo` two numbers.
"""

ReadFunction = Callable[[Any], Sequence[Step]]
"""Of a `MeshOp` (`ir.mesh.mesh_collectives`), which reads attributes and types."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """The op of a step: its name, and for each attribute its kind and the fields it has.

    An op of `shard` also names its grid axes, where no attribute has the field `axes`.
    """

    name: str
    attributes: Mapping[str, tuple[Kind, str]] = field(default_factory=dict)
    summary: str = ""
    """The sentence for the op's definition, of an op of `mesh`."""
    optional: tuple[str, ...] = ()
    """The attributes that an op of `mesh` may be without."""
    read: ReadFunction | None = None
    """Its steps in the distributed form, where they do not follow from the attributes alone."""

    def of_kind(self, *kinds: Kind) -> list[str]:
        """The attributes of these kinds."""
        return [name for name, (kind, _) in self.attributes.items() if kind in kinds]


@dataclass(frozen=True, slots=True)
class CollectiveRecord:
    """The record of the steps of one class: meaning, price, spellings, code for each backend."""

    step: type[LocalStep]
    """The class of the step, which defines its effect on shards and the bytes that it moves."""
    mesh: Spelling | None = None
    """Its op in the distributed form, whose types have shardings."""
    local: Spelling | None = None
    """Its op in the local form: one of `shard`, or of `mesh` where upstream has none."""
    algorithms: Algorithms | None = None
    """Its price on a device model, of a collective that all devices of a group do together."""
    rounds: RoundsFunction | None = None
    """Its price as messages: those of one round go at once. Without both, it takes no time."""
    perform: PerformFunction | None = None
    """Does it on arrays. It is along the first dimension, and shards are contiguous."""
    mpi: MpiFunction | None = None
    """Writes the calls of MPI that do the same."""
    is_one_mpi_call: bool = True
    """Whether that is one call, which MPI can start and wait for. Reductions are not for types that
    MPI does not reduce as MLIR does."""
    python: tuple[str, PythonFunction] | None = None
    """The name of its results in Python, and the text of their expression."""
    stablehlo: CodeFunction | None = None
    """Its result in StableHLO."""
    of_stablehlo: tuple[str, Callable[[Any], Any]] | None = None
    """The op of StableHLO that is this step, and the step of one, whose attributes a reader reads
    (`passes.manual.replica_group_collectives`)."""
    alone: CodeFunction | None = None
    """Its result, of a step without communication: what each device does by itself. As StableHLO,
    and as upstream's ops."""
    is_uniform_after: bool = False
    """Whether all devices of a group hold the same data afterwards."""

    def __post_init__(self) -> None:
        if self.stablehlo is None:
            object.__setattr__(self, "stablehlo", self.alone)


def log2(n: int) -> int:
    """The rounds of a binomial tree of n devices."""
    return (n - 1).bit_length()


def at_distance(distance: int, size: int) -> list[tuple[int, int]]:
    """The members of a group of `size` that are so far apart, each sender with its receiver.

    >>> at_distance(-1, 3)
    [(1, 0), (2, 1)]
    """
    return [(member, member + distance) for member in range(size) if 0 <= member + distance < size]


def across(shape: Shape, dim: int) -> int:
    """The elements of a shard that have one position along `dim`."""
    return prod(size for each, size in enumerate(shape) if each != dim)
