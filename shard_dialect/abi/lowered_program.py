"""Read a program in the lowered form: its boundary, and its collectives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from shard_dialect.abi.tensor_types import Array, TensorType, dtype_of, identity
from shard_dialect.collectives import LocalStep
from shard_dialect.errors import ShardError, as_symbol, choose_function
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at, located, location_text, names_in
from shard_dialect.ir.function import boundary, functions_of, is_private, name_of, numbered_names
from shard_dialect.ir.grids import sub_clusters_of
from shard_dialect.ir.mesh.attributes import (
    ARGUMENT,
    COLLECTIVE,
    DEVICE,
    HANDLE,
    LIBRARY_CALL,
    LOCAL_TYPES,
    PHASE,
    RANK,
    RESULT,
    STAGE,
    integer,
    symbol,
)
from shard_dialect.ir.mesh.notation import read_axes
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.reading.constants import Runs, runs_in
from shard_dialect.ir.shard.local_collectives import read_local
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import Axes, Grid, Sharding, SubCluster
from shard_dialect.passes.lower.mpi.mpi_code import BIND


@dataclass(frozen=True)
class Site:
    """A collective of the program: the step, its grid, and the local types."""

    step: LocalStep
    grid: Grid
    source: TensorType
    target: TensorType
    operand: str
    """The operand's type in the local form, as `2x4xf32`; the code may have packed it otherwise."""
    result: str
    """The same of the result."""
    phase: str = ""
    """"start" or "done" for one half of a split collective."""
    times: int = 1
    """How often one run of the program performs it; a loop of unknown length counts once."""
    times_known: bool = True
    """Whether the lengths of all loops around it are known."""
    place: str = field(default="", compare=False)
    """Where it is in the file, the first of those that are equal."""

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The ranks of the devices that communicate with each other, in the order of the axes."""
        return self.grid.groups(self.step.axes)

    @property
    def bytes_moved(self) -> int:
        """The bytes that one device sends each time."""
        size = self.grid.axes_size(self.step.axes)
        return self.step.bytes_moved(size, self.source.shape, self.source.dtype.itemsize)

    def run(self, runs: Runs) -> Site:
        """The same as often as an op runs it."""
        known = self.times_known and runs.open_loop is None
        return replace(self, times=self.times * runs.times, times_known=known)


@dataclass(frozen=True)
class Boundary:
    """One argument or result: its local type, its global type, and its sharding."""

    local: TensorType
    global_type: TensorType
    sharding: Sharding | None
    """`None` if it is unsharded."""
    stage: SubCluster | None = None
    """The stage whose devices alone have it, if it has a stage."""
    names: tuple[str, ...] = ()
    """Those of an argument in the file and the framework, the most telling one last."""

    def named_at(self, argument: ir.Value) -> Boundary:
        """The same with the names that the location of this argument has."""
        return replace(self, names=tuple(names_in(argument.location)))

    def is_on(self, rank: int, grids: Mapping[str, Grid]) -> bool:
        """Whether device `rank` has a shard of it."""
        return self.stage is None or self.stage.holds(rank, grids[self.stage.of])

    def shard(self, rank: int, grids: Mapping[str, Grid]) -> tuple[slice, ...]:
        """The slice of the global tensor that is device `rank`'s: no halos, no padding."""
        if self.sharding is None:
            return (slice(None),) * len(self.global_type.shape)
        return self.sharding.shard(rank, self.global_type.shape, grids[self.sharding.grid])

    def held(self, rank: int, grids: Mapping[str, Grid]) -> tuple[tuple[slice, int], ...]:
        """The slice of the global tensor that device `rank` holds, halos included.

        For each dimension, with the local index at which it begins.
        """
        if self.sharding is None:
            return tuple((slice(0, size), 0) for size in self.global_type.shape)
        return self.sharding.held(rank, self.global_type.shape, grids[self.sharding.grid])

    def own(self, local: Array, rank: int, grids: Mapping[str, Grid]) -> Array:
        """The part of a local array that is device `rank`'s shard, without halos and padding."""
        shard = self.shard(rank, grids)
        sizes = [
            len(range(*each.indices(size)))
            for each, size in zip(shard, self.global_type.shape, strict=True)
        ]
        if self.sharding is None or not self.sharding.halos:
            return local[tuple(map(slice, sizes))]
        lows = [self.sharding.halo(dim)[0] for dim in range(len(sizes))]
        return local[tuple(slice(low, low + n) for low, n in zip(lows, sizes, strict=True))]

    def shard_of(self, global_array: Array, rank: int, grids: Mapping[str, Grid]) -> Array:
        """The shard of the global tensor on device `rank`, padded to the local shape.

        Only zeros for a device that has no shard.
        """
        if not self.is_on(rank, grids):
            return np.zeros(self.local.shape, self.local.dtype)
        held = self.held(rank, grids)
        array = global_array[tuple(each for each, _ in held)]
        return self.padded(array, [at for _, at in held])

    def padded(self, held: Array, places: Sequence[int] = ()) -> Array:
        """A device's part of the tensor, padded to the local shape.

        It begins at the local indices `places`, 0 if there are none. The padding is zeros, or the
        fill of halos outside of the tensor. An array of a file may not be aligned.
        """
        if held.shape == self.local.shape:
            return np.require(held, requirements=("C", "A"))
        fill = self.sharding.fill if self.sharding is not None else "sum"
        padded = np.full(self.local.shape, identity(fill, self.local.dtype), self.local.dtype)
        begins = places or [0] * held.ndim
        padded[tuple(slice(at, at + n) for at, n in zip(begins, held.shape, strict=True))] = held
        return padded

    def put(self, local: Array, global_array: Array, rank: int, grids: Mapping[str, Grid]) -> None:
        """Write device `rank`'s shard into the global tensor, without its padding."""
        if not self.is_on(rank, grids):
            return
        global_array[self.shard(rank, grids)] = self.own(local, rank, grids)


@dataclass(frozen=True)
class Handle:
    """A number that native code needs before it runs (`passes.lower.mpi.mpi_code`)."""

    kind: str
    name: str = ""
    """The name of MPI's type or operation."""
    group: tuple[Grid, Axes] | None = None
    """The group whose communicator it is."""


@dataclass(frozen=True)
class LibraryCall:
    """A call of a library, on tensors of these types (`ops.library_calls`)."""

    target: str
    text: str
    operands: Sequence[TensorType]
    results: Sequence[TensorType]


@dataclass(frozen=True)
class Program:
    """The function `entry`: its boundary, and the collectives that it calls, in order."""

    entry: str
    grids: Mapping[str, Grid]
    arguments: Sequence[Boundary]
    results: Sequence[Boundary]
    sites: Mapping[str, Site]
    """The collectives by the name of their runtime function."""
    ranks: Mapping[str, Grid]
    """The runtime functions that return a device's rank, with their grid."""
    handles: Sequence[Handle]
    """The numbers that native code needs; none if the runtime executes the collectives."""
    calls: Sequence[Site]
    device: int | None = None
    """The rank of the one device whose program it is; `None` if it is for all."""
    library_calls: Mapping[str, LibraryCall] = field(default_factory=dict)
    """The runtime functions that call libraries."""

    @classmethod
    def read(cls, module: ir.Operation, entry: str) -> Program:
        """Read a module in the lowered form. Raises `ShardError` for what cannot be run."""
        shardings = Shardings.of(module)
        function = find_function(module, entry)
        sites = _sites(module, shardings)
        declared = [op for op in operations(body(module)) if RANK in op.attributes]
        ranks = {name_of(op): shardings.grid(symbol(op.attributes[RANK])) for op in declared}
        library_calls = {
            name_of(op): _library_call(op)
            for op in operations(body(module))
            if LIBRARY_CALL in op.attributes
        }
        functions = {name_of(op): op for op in functions_of(module)}
        silent = {*_RUNTIME, *ranks, *library_calls}

        def sites_of(op: ir.Operation) -> Sequence[Site] | None:
            callee = op.attributes["callee"].value if op.name == "func.call" else ""
            if callee in sites:
                return [sites[callee]]
            return None if callee and callee not in silent else ()

        return cls(
            entry,
            shardings.grids,
            _boundary(module, function, ARGUMENT, shardings),
            _boundary(module, function, RESULT, shardings),
            sites,
            ranks,
            _handles(module, shardings),
            calls_in(functions, entry, sites_of),
            integer(function.attributes[DEVICE]) if DEVICE in function.attributes else None,
            library_calls,
        )

    @property
    def devices(self) -> int:
        """The number of devices of the program: of the largest grid if none is used, 1 without."""
        boundary = (*self.arguments, *self.results)
        named = {each.sharding.grid for each in boundary if each.sharding}
        named |= {each.stage.of for each in boundary if each.stage}
        used = {site.grid for site in self.calls} | {self.grids[name] for name in named}
        used |= set(self.ranks.values())
        sizes = sorted({grid.size for grid in used or self.grids.values() if grid.is_static})
        if used and len(sizes) > 1:
            raise ShardError(f"the program is for grids of {sizes[0]} and of {sizes[1]} devices")
        return sizes[-1] if sizes else 1

    def argument_names(self) -> list[tuple[str, ...]]:
        """The names of each argument in files: `arg0`, then its own ones that no other has."""
        return numbered_names([each.names for each in self.arguments])

    def scatter(self, inputs: Sequence[Array], rank: int) -> list[Array]:
        """Device `rank`'s shards of the global `inputs`, padded where the sharding is uneven."""
        return [
            each.shard_of(array, rank, self.grids)
            for array, each in zip(inputs, self.arguments, strict=True)
        ]

    def gather(self, shards: Sequence[Sequence[Array]]) -> list[Array]:
        """The global results from all devices' shards, by rank."""
        return self.join(shards, self.results)

    def join(
        self, shards: Sequence[Sequence[Array]], boundaries: Sequence[Boundary]
    ) -> list[Array]:
        """The global arguments or results from all devices' shards, by rank."""
        joined = []
        for number, each in enumerate(boundaries):
            global_array = np.empty(each.global_type.shape, each.global_type.dtype)
            for rank, of_device in enumerate(shards):
                each.put(of_device[number], global_array, rank, self.grids)
            joined.append(global_array)
        return joined


def choose_entry(module: ir.Operation, name: str | None) -> str:
    """The function to run: `name`, else `main`, else the only public one."""
    functions = functions_of(module)
    public = [name_of(op) for op in functions if _is_public(op)]
    try:
        return choose_function(name, public, [name_of(op) for op in functions])
    except ShardError as error:
        raise error if name is not None else error_at(module.location, error.message) from None


def _is_public(op: ir.Operation) -> bool:
    """Whether a function is public: by its visibility, except `mesh_mpi_bind`."""
    return name_of(op) != BIND and not is_private(op)


def find_function(module: ir.Operation, name: str) -> ir.Operation:
    """The function of this name; raise `ShardError` if there is none."""
    functions = {name_of(op): op for op in functions_of(module)}
    return functions[choose_function(name, (), [*functions])]


def _boundary(
    module: ir.Operation, handle: ir.Operation, key: str, shardings: Shardings
) -> list[Boundary]:
    """The arguments or results; in the lowered form results are the last arguments."""
    boundaries = []
    types = handle.attributes["function_type"].value
    sub_clusters = sub_clusters_of(module)
    if types.results:
        raise error_at(
            handle.location,
            f"cannot run a function that returns {types.results[0]}: only tensors of known size",
        )
    arguments = body(handle).arguments
    for argument, type_, attributes in zip(
        arguments, types.inputs, boundary(handle, "arg_attrs"), strict=True
    ):
        is_result = RESULT in attributes
        if is_result != (key == RESULT):
            continue
        each = read_boundary(handle, type_, attributes, key, shardings, sub_clusters)
        boundaries.append(each.named_at(argument))
    return boundaries


def read_boundary(
    handle: ir.Operation,
    type_: ir.Type,
    attributes: Mapping[str, ir.Attribute],
    key: str,
    shardings: Shardings,
    sub_clusters: Mapping[str, SubCluster],
    *,
    may_be_partial: bool = False,
) -> Boundary:
    """One argument or result of the function `handle`, given its local type and attributes.

    `key` names the attribute that has the global type. Raises `ShardError` for what cannot be run.
    """
    is_known = isinstance(type_, (ir.MemRefType, ir.RankedTensorType)) and type_.has_static_shape
    if not is_known:
        is_scalar = isinstance(type_, ir.IntegerType | ir.IndexType)
        hint = "; --scalars gives arguments values" if is_scalar and key == ARGUMENT else ""
        raise error_at(
            handle.location, f"cannot run a function on {type_}: only tensors of known size{hint}"
        )
    _check_size(handle, type_)
    local = tensor_type(type_)
    global_type, sharding = local, None
    if key in attributes:
        type_attribute = attributes[key].value
        _check_size(handle, type_attribute)
        global_type = tensor_type(type_attribute)
        local = TensorType(local.shape, global_type.dtype)  # buffers' types are signless
        sharding = shardings.of_type(type_attribute)
        if sharding is not None and sharding.partial and not may_be_partial:
            raise error_at(
                handle.location,
                f"cannot run a function whose argument or result is partial: {sharding}",
            )
    stage = sub_clusters[symbol(attributes[STAGE])] if STAGE in attributes else None
    return Boundary(local, global_type, sharding, stage)


_MOST_DIMENSIONS = getattr(np, "MAXDIMS", 64)


def _check_size(handle: ir.Operation, type_: ir.ShapedType) -> None:
    """Raise if a tensor of the function's boundary is too large for an array."""
    if len(type_.shape) > _MOST_DIMENSIONS:
        raise error_at(
            handle.location,
            f"cannot run a function on a tensor of {len(type_.shape)} dimensions: there are arrays "
            f"of up to {_MOST_DIMENSIONS}",
        )
    with located(handle):
        size = prod(type_.shape) * dtype_of(type_.element_type).itemsize
    if size >= 1 << 63:
        shape = "x".join(map(str, type_.shape))
        raise error_at(
            handle.location,
            f"cannot run a function on a tensor of shape {shape}: it takes {size} bytes",
        )


def _as_text(type_: ir.TypeAttr) -> str:
    """`tensor<2x4xf32>` as 2x4xf32."""
    return str(type_.value).removeprefix("tensor<").removesuffix(">")


def tensor_type(type_: ir.ShapedType) -> TensorType:
    """A type of static shape, as arrays have it."""
    return TensorType(tuple(type_.shape), dtype_of(type_.element_type))


def _sites(module: ir.Operation, shardings: Shardings) -> dict[str, Site]:
    """The declared collectives by the name of their runtime function."""
    sites = {}
    for op in operations(body(module)):
        if COLLECTIVE not in op.attributes:
            continue
        what = op.attributes[COLLECTIVE]
        read = read_local(what["name"].value, what)
        if read is None:
            raise error_at(op.location, f"{what['name']} cannot be run yet")
        source, target = map(tensor_type, op.attributes["function_type"].value.inputs[:2])
        phase = what[PHASE].value if PHASE in what else ""
        types = map(_as_text, what[LOCAL_TYPES]) if LOCAL_TYPES in what else (source, target)
        operand, result = map(str, types)
        grid = shardings.grid(read[0])
        place = location_text(op.location) or ""
        site = Site(read[1], grid, source, target, operand, result, phase, place=place)
        sites[name_of(op)] = site
    return sites


def _library_call(op: ir.Operation) -> LibraryCall:
    what = op.attributes[LIBRARY_CALL]
    types = [tensor_type(each) for each in op.attributes["function_type"].value.inputs]
    count = integer(what["operands"])
    return LibraryCall(what["target"].value, what["text"].value, types[:count], types[count:])


def _handles(module: ir.Operation, shardings: Shardings) -> list[Handle]:
    functions = [op for op in functions_of(module) if name_of(op) == BIND]
    arguments = [attributes for op in functions for attributes in boundary(op, "arg_attrs")]
    return [_handle(each[HANDLE], shardings) for each in arguments if HANDLE in each]


def _handle(what: ir.DictAttr, shardings: Shardings) -> Handle:
    name = what["name"].value if "name" in what else ""
    if "grid" not in what:
        return Handle(what["kind"].value, name)
    group = shardings.grid(symbol(what["grid"])), read_axes(what["mesh_axis"])
    return Handle(what["kind"].value, name, group)


_RUNTIME = ("dealloc_helper",)
"""Functions that upstream's passes create, which contain no collectives."""


def calls_in(
    functions: Mapping[str, ir.Operation],
    entry: str,
    sites_of: Callable[[ir.Operation], Sequence[Site] | None],
    known: dict[str, list[Site] | None] | None = None,
) -> list[Site]:
    """The collectives that `entry` runs, in the order of the text, also through callees.

    `sites_of` gives those of an op, and `None` for a call of one of the functions. `known` caches
    the functions read so far; `None` marks those that call this one.
    """
    known = {} if known is None else known
    calls: list[Site] = []
    known[entry] = None
    for runs in list(runs_in(functions[entry])):  # `sites_of` may replace ops
        with located(runs.op):
            sites = sites_of(runs.op)
            if sites is None:
                callee = runs.op.attributes["callee"].value
                if callee not in functions:
                    raise ShardError(f"cannot run {as_symbol(callee)}: it is only declared")
                if callee not in known:
                    calls_in(functions, callee, sites_of, known)
                sites = known[callee]
            if sites is None:
                raise ShardError(f"cannot run {as_symbol(callee)}, which calls itself")
            calls += [site.run(runs) for site in sites]
    known[entry] = calls
    return calls
