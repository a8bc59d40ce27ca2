"""The report on a program: what its devices communicate and why, store, compute, and wait for."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Literal, get_args

from shard_dialect.abi.lowered_program import choose_entry, find_function
from shard_dialect.abi.typed_json import MisfitError, from_json, to_json
from shard_dialect.analysis.changes.annotations import Placed
from shard_dialect.analysis.changes.removals import SECONDS, Removals, Tried
from shard_dialect.analysis.changes.what_if_question import names_of
from shard_dialect.analysis.costs.allocators import arena_memory, xla_memory
from shard_dialect.analysis.costs.arithmetic import Compute, compute_of, uneven_dims
from shard_dialect.analysis.costs.local_ops import LocalProgram
from shard_dialect.analysis.costs.local_program import read_program
from shard_dialect.analysis.costs.lowered_ops import read_lowered
from shard_dialect.analysis.costs.memory import Live, Memory, memory_of
from shard_dialect.analysis.costs.schedule import Schedule, TimedOps, slowest
from shard_dialect.analysis.drawing import NamedSharding
from shard_dialect.analysis.layered_costs import OpCost, costs_of
from shard_dialect.analysis.layers import LayeredProgram
from shard_dialect.analysis.measurement import MeasuredCollective, Measurement, read_measurement
from shard_dialect.analysis.program_costs import micro
from shard_dialect.analysis.reasons.communication import (
    Collective,
    lowered_collectives,
    read_collectives,
)
from shard_dialect.analysis.reasons.explained_passes import partition_explained
from shard_dialect.analysis.report_text import (
    HEADS,
    communication_rows,
    communication_text,
    compute_text,
    measurement_text,
    memory_text,
    schedule_text,
)
from shard_dialect.errors import Diagnostic, ShardError, as_symbol, brief, check_one_of, number_of
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import form_of, refuse_form
from shard_dialect.ir.grids import grids_of, refuse_more_devices
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.model.notebook_html import print_text, table_html, text_html
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.passes.partition.one_device import give_grid, mark_local
from shard_dialect.passes.vocabularies.as_written import printed_as
from shard_dialect.proof.prove import Proof

SCHEMA = 1
"""The version of the JSON; it is raised where a field changes its meaning or goes."""
Allocator = Literal["unfused", "arena", "xla"]
"""How the memory of results is allocated; see docs/reading-a-report.md."""
DEVICE_MODEL = "h100"
"""The device model that prices communication where none is named."""


@dataclass(frozen=True)
class ProgramReport:
    """The costs of the function `entry` for each device; see docs/reading-a-report.md."""

    entry: str
    devices: int
    device_model: str
    """The name of the device model that prices it."""
    communication: tuple[Collective, ...]
    memory: Memory
    compute: Compute
    schedule: Schedule
    program: LocalProgram | None = field(repr=False, compare=False)
    """The program that each device runs; `None` in a copy, or from another process."""
    prices: DeviceModel = field(repr=False)
    """The device model itself."""
    layers: LayeredProgram = field(repr=False)
    """Its ops before it was partitioned, by layers and regions."""
    tensors: tuple[NamedSharding, ...] = field(repr=False)
    """The global tensors with their shardings; none if the module came without."""
    places: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The places of values by their names, as in `%3`, in a module that came in a later form."""
    removals: tuple[Tried, ...] = ()
    """The removals of each collective; empty if they were not asked for."""
    measurement: Measurement | None = None
    """The times of a run of the program, if its trace is given."""
    file_text: str | None = field(default=None, repr=False)
    """The text of the file, in which values have the user's names."""
    proof: Proof | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    """The warnings that making it gave."""
    """Whether each device computes the unsharded program, if that was asked for."""

    @property
    def bytes_moved(self) -> int:
        """The bytes that each device sends in all collectives."""
        return sum(each.bytes for each in self.communication)

    @property
    def communication_seconds(self) -> float:
        """The time of all collectives, one after the other."""
        return sum(each.seconds for each in self.communication)

    @cached_property
    def layer_costs(self) -> tuple[OpCost, ...]:
        """The cost of each op of `layers`."""
        assert self.program is not None, "a copy has them"
        return costs_of(self.layers, self.program, self.prices, self.communication, self.memory)

    def __getstate__(self) -> dict[str, object]:
        """All but ops of MLIR, which are of this process alone; what they cost is kept."""
        return {**self.__dict__, "layer_costs": self.layer_costs, "program": None}

    def to_json(self) -> str:
        """All of the report, for `from_json` of the same version of this package."""
        plain = copy.deepcopy(self)
        return json.dumps({"report": to_json(plain), "layer costs": to_json(plain.layer_costs)})

    @classmethod
    def from_json(cls, text: str) -> ProgramReport:
        """The report that `to_json` wrote. Raises `ShardError` for any other text."""
        try:
            data = json.loads(text)
            report = from_json(cls, data["report"])
            costs = from_json(tuple[OpCost, ...], data["layer costs"])
        except (ValueError, LookupError, TypeError, RecursionError, MisfitError) as error:
            raise ShardError(f"this is no report of this version: {brief(error)}") from None
        report.__dict__["layer_costs"] = costs
        return report

    def __str__(self) -> str:
        head = (
            f"{as_symbol(self.entry)} on {number_of(self.devices, 'device')}, times on "
            f"{self.device_model}"
        )
        parts = (
            head if self.proof is None else f"{head}\n{self.proof}",
            communication_text(self.communication, self.removals),
            memory_text(self.memory),
            compute_text(self.compute),
            schedule_text(self.schedule),
            *([measurement_text(self.measurement, self.communication)] if self.measurement else ()),
        )
        return "\n\n".join(parts) + "\n"

    _repr_pretty_ = print_text

    def _repr_html_(self) -> str:
        head = (
            f"{as_symbol(self.entry)} on {number_of(self.devices, 'device')}: each sends "
            f"{self.bytes_moved:,} bytes, stores {self.memory.peak:,} bytes at the peak, "
            f"and takes {micro(self.schedule.total)} microseconds on {self.device_model}"
        )
        rows = communication_rows(self.communication)
        return table_html(head, HEADS, rows) + text_html("why, and all else", str(self), fold=True)

    def as_json(self) -> dict[str, object]:
        """The report for `--json`, as docs/reading-a-report.md describes it."""
        removals = self.removals or (None,) * len(self.communication)
        return {
            "schema": SCHEMA,
            "entry": self.entry,
            "devices": self.devices,
            "device_model": self.device_model,
            **({"proof": self.proof.as_json()} if self.proof else {}),
            "communication": [
                each.as_json()
                | ({removal.key: removal.as_json()} if removal else {})
                | ({"measured": asdict(measured)} if measured else {})
                for each, removal, measured in zip(
                    self.communication, removals, self._measured(), strict=True
                )
            ],
            "bytes": self.bytes_moved,
            "memory": self.memory.as_json(),
            "compute": asdict(self.compute),
            "seconds": self.schedule.as_json(),
            **({"measured": self.measurement.as_json()} if self.measurement else {}),
        }

    def _measured(self) -> Sequence[MeasuredCollective | None]:
        count = len(self.communication)
        return self.measurement.collectives if self.measurement else (None,) * count


_MOST_DEVICES = 1 << 20
"""The most devices of a grid: the links of collectives are found group by group."""


def report_on(
    module: ir.Module,
    entry: str | None = None,
    *,
    suggest: bool = False,
    suggest_seconds: float = SECONDS,
    device_model: str | DeviceModel = DEVICE_MODEL,
    allocator: Allocator = "unfused",
    measured: str | None = None,
    file_text: str | None = None,
) -> ProgramReport:
    """The report on a module in any form, which is brought to the local form in place.

    With `suggest`, the passes are run for each change of an annotation that might remove a
    collective, for up to `suggest_seconds`. `allocator` tells how results are stored: each by
    itself, in the arena of our own code, to the byte, or fused as XLA does. `measured` is the file
    of a trace that `run --profile` has written. In `file_text` arguments have the user's names.
    Raises a located `ShardError` for what cannot be partitioned.
    """
    check_one_of("the allocator", allocator, get_args(Allocator))
    prices = DeviceModel.read(device_model)
    name = choose_entry(module.operation, entry)
    if form_of(find_function(module.operation, name)) == "lowered":
        if suggest or allocator == "xla":
            asked = (
                "--suggest changes annotations" if suggest else "--allocator=xla models StableHLO"
            )
            raise refuse_form(
                find_function(module.operation, name), f", but {asked}: report on an earlier form"
            )
        return _on_lowered(module, name, prices, measured)
    text = module.operation.get_asm(enable_debug_info=True)
    give_grid(module.operation)
    refuse_more_devices(module.operation, _MOST_DEVICES, "a report counts the messages of")
    mark_local(module.operation)
    explained = partition_explained(module, name, file_text, printed_as(text))
    program = read_program(module.operation, name)
    read = list(read_collectives(module.operation, name, explained.reasons, prices))
    collectives = tuple(each for each, _ in read)
    removals: tuple[Tried, ...] = ()
    if suggest:
        grids = grids_of(module.operation)
        finder = Removals(text, name, collectives, grids, prices, file_text, suggest_seconds)
        removals = finder.all(read)
    own, schedule = slowest(program, prices)
    timed = TimedOps(own, prices)
    return ProgramReport(
        name,
        program.devices,
        prices.name,
        collectives,
        _named(_memory(module, text, program, allocator), explained.arguments),
        _with_uneven(
            compute_of(own, lambda op: timed(op).bound),
            explained.tensors,
        ),
        schedule,
        program,
        prices,
        explained.layers,
        explained.tensors or tuple(_boundary(program)),
        explained.places,
        removals,
        None if measured is None else read_measurement(measured, collectives),
        file_text,
    )


def _on_lowered(
    module: ir.Module, name: str, prices: DeviceModel, measured: str | None
) -> ProgramReport:
    """The report on the lowered form, whose memory is that of our own code."""
    program, types = read_lowered(module.operation, name)
    collectives = tuple(lowered_collectives(program, types, prices))
    own, schedule = slowest(program, prices)
    timed = TimedOps(own, prices)
    return ProgramReport(
        name,
        program.devices,
        prices.name,
        collectives,
        arena_memory(module, program),
        compute_of(own, lambda op: timed(op).bound),
        schedule,
        program,
        prices,
        LayeredProgram(()),
        tuple(_boundary(program)),
        measurement=None if measured is None else read_measurement(measured, collectives),
    )


def _with_uneven(compute: Compute, tensors: Sequence[NamedSharding]) -> Compute:
    """Also with tensors inside of the program: of those that are uneven alike, the first."""
    found = list(compute.uneven)
    known = {(each.local_size, each.sizes) for each in found}
    for tensor in tensors:
        place, shape = tensor.location, tensor.shape
        for each in uneven_dims(tensor.name, place, shape, tensor.sharding, tensor.grid):
            if (each.local_size, each.sizes) not in known:
                known.add((each.local_size, each.sizes))
                found.append(each)
    return replace(compute, uneven=tuple(found))


def _boundary(program: LocalProgram) -> Iterator[NamedSharding]:
    """The arguments and results of a program that came in the local form."""
    entry = program.entry
    for kind, infos in (("arg", entry.arguments), ("result", entry.results)):
        for number, each in enumerate(infos):
            if each.sharding is not None and each.global_shape is not None:
                names = (f"%{kind}{number}", f"{kind}{number}")
                grid = program.grids[each.sharding.grid]
                yield NamedSharding(names, each.global_shape, each.sharding, grid, each.location)


def _named(memory: Memory, arguments: Mapping[int, Placed]) -> Memory:
    """The same with the names and places that arguments have in the file."""

    def named(live: Live) -> Live:
        number = re.fullmatch(r"(?:%arg|argument )(\d+)", live.name)
        placed = arguments.get(int(number[1])) if number and live.kind == "argument" else None
        if placed is None:
            return live
        name = names_of(placed)[-1]
        name = live.name if name == f"arg{placed.site.number}" else name
        return replace(live, name=name, location=placed.location or live.location)

    return replace(memory, live_at_peak=tuple(map(named, memory.live_at_peak)))


def _memory(module: ir.Module, text: str, program: LocalProgram, allocator: Allocator) -> Memory:
    if allocator == "unfused":
        return memory_of(program)
    if allocator == "arena":
        return arena_memory(ir.Module.parse(text, module.context), program)
    partitioned = module.operation.get_asm(enable_debug_info=True)
    copy = ir.Module.parse(partitioned, module.context)
    run_pipeline(copy, "lower{target=stablehlo}")
    with copy.context, ir.Location.unknown():
        return xla_memory(read_program(copy.operation, program.entry.name))
