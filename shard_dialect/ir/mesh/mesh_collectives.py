"""`mesh` ops <-> the steps of a reshard plan.

AllGather(dim=1, axes=(0,))  <->  "mesh.all_gather"(%0) {mesh_axis = [[], [0]]}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from shard_dialect.collectives import LocalStep, Permute, Step
from shard_dialect.collectives.collective_record import Kind, Spelling
from shard_dialect.collectives.collective_table import DISTRIBUTED, record_of
from shard_dialect.errors import as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create_value
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.mesh.attributes import integer, ints
from shard_dialect.ir.mesh.notation import only_sharding, read_axes, read_notation, write_axes
from shard_dialect.ir.mesh.sharding_attributes import Shardings, read_sharding
from shard_dialect.ir.shard.local_collectives import KINDS
from shard_dialect.model import REDUCTIONS, Axes, Grid, Reduction, Sharding, ShardingError
from shard_dialect.planner import halo_steps


@dataclass(frozen=True, slots=True)
class Collective:
    """A `mesh` op: its steps, and the shardings in the types of its operand and result."""

    steps: tuple[Step, ...]
    source: Sharding
    target: Sharding


def read_collective(op: ir.Operation) -> Collective:
    """Read a `mesh` op; a type without encoding is replicated on the grid of the other type.

    Raises `ShardingError` where its attributes do not fit its types.
    """
    types = (op.operands[0].type, op.results[0].type)
    shardings = [_sharding_in(type_) for type_ in types]
    grid = next((sharding.grid for sharding in shardings if sharding), "")
    source, target = (
        sharding or Sharding.replicated(grid, type_.rank)
        for sharding, type_ in zip(shardings, types, strict=True)
    )
    record = DISTRIBUTED[op.name]
    read = MeshOp(op, source, target)
    assert record.mesh is not None, "it is found by its name"
    function = record.mesh.read
    steps = (read.step(record.step, record.mesh),) if function is None else function(read)
    return Collective(tuple(steps), source, target)


def _sharding_in(type_: ir.Type) -> Sharding | None:
    if not isinstance(type_, ir.RankedTensorType):
        raise ShardingError(f"takes and gives ranked tensors, found {type_}")
    return None if type_.encoding is None else read_sharding(type_.encoding, type_.rank)


def step_attributes(step: Step, source: Sharding) -> tuple[str, dict[str, ir.Attribute]]:
    """The name and the attributes of the op that is `step`, on a tensor sharded as `source`."""
    spelling = record_of(step).mesh
    assert spelling is not None, "it is a step of a reshard"
    attributes = {}
    for name, (kind, fields) in spelling.attributes.items():
        values = [getattr(step, each) for each in fields.split()]
        write = partial(_axes_of_dim, source.rank) if kind == "split" else KINDS[kind].write
        attributes[name] = write(*values)
    return spelling.name, attributes


def is_on_every_grid(step: Step, source: Sharding) -> bool:
    """Whether a step takes a replicated tensor to another grid, which needs no op."""
    return isinstance(step, Permute) and bool(step.grid) and source.is_replicated


def write_steps(
    steps: Sequence[Step], value: ir.Value, source: Sharding, shardings: Shardings
) -> ir.Value:
    """Create the ops of `steps` on `value`, sharded as `source`; returns the last result."""
    now = source
    for step in steps:
        if is_on_every_grid(step, now):
            now = step.after(now)
            continue
        name, attributes = step_attributes(step, now)
        now = step.after(now)
        value = create_value(name, shardings.typed(value.type, now), [value], attributes)
    return value


@dataclass(frozen=True, slots=True)
class MeshOp:
    """Reads the attributes of an op, between these shardings, and checks them."""

    op: ir.Operation
    source: Sharding
    target: Sharding

    def has(self, name: str) -> bool:
        """Whether there is this attribute."""
        return name in self.op.attributes

    @property
    def sizes(self) -> list[int]:
        """The shape of the operand."""
        return list(self.op.operands[0].type.shape)

    @property
    def grid(self) -> Grid:
        """The grid of the operand's sharding, as the module declares it."""
        around = self.op.parent
        while around is not None:
            # While a file is parsed, its module is in another one.
            if around.name == "builtin.module" and self.source.grid in (found := grids_of(around)):
                return found[self.source.grid]
            around = around.parent
        raise ShardingError(f"is on grid {as_symbol(self.source.grid)}, which is not declared")

    @property
    def axes(self) -> Axes:
        """The axes in `mesh_axis`."""
        return read_axes(self.op.attributes["mesh_axis"])

    @property
    def reduction(self) -> Reduction:
        """The reduction that it names."""
        name: str = str(self.op.attributes["reduction"].value)
        if name not in REDUCTIONS:
            raise ShardingError(f"reduction is '{name}': expected one of {', '.join(REDUCTIONS)}")
        return name

    def numbers(self, name: str) -> list[int]:
        """A list of numbers."""
        return ints(self.op.attributes[name])

    def dim(self, name: str) -> int:
        """A dimension of the tensor."""
        dim = integer(self.op.attributes[name])
        if not 0 <= dim < self.source.rank:
            raise ShardingError(
                f"{name} is {dim}, but the tensor has {self.source.rank} dimensions"
            )
        return dim

    def lists(self, name: str) -> tuple[Axes, ...]:
        """Axes for each dimension."""
        source, attribute = self.source, self.op.attributes[name]
        sharding = only_sharding(read_notation(source.grid, attribute, source.rank), attribute)
        if sharding != Sharding(source.grid, sharding.split_axes):
            raise ShardingError(
                f"{name} is {attribute}: expected the axes of each dimension, no more"
            )
        return sharding.split_axes

    def halo_steps(self) -> tuple[Step, ...]:
        """The steps between shardings that differ in their halos."""
        return halo_steps(self.source, self.target)

    def step(self, step: type[LocalStep], spelling: Spelling) -> Step:
        """The step whose fields are attributes."""
        read: dict[Kind, Callable[[str], Any]] = {
            "axes": lambda name: read_axes(self.op.attributes[name]),
            "name": lambda name: self.reduction,
            "number": self.dim,
        }
        listed = spelling.attributes.items()
        fields: Any = {each: read[kind](name) for name, (kind, each) in listed}
        result = step(**fields)
        assert isinstance(result, Step), "only these are in the distributed form"
        return result


def _axes_of_dim(rank: int, dim: int, axes: Axes) -> ir.ArrayAttr:
    """The list for each dimension of which only that of `dim` has axes."""
    lists = (axes if each == dim else () for each in range(rank))
    return ir.ArrayAttr.get([write_axes(each) for each in lists])
