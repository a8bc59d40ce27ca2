"""What the user said about one function: facts, from which propagation infers the rest.

Said by annotation ops, by `mesh.sharding` on arguments, by shardings in types; and by the
attributes of the propagated form, which is read again after other passes have changed it.
"""

from __future__ import annotations

from collections.abc import Iterator

from shard_dialect.errors import ShardError
from shard_dialect.ir import annotation, build
from shard_dialect.ir.attributes import SHARDING, Shardings
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.function import boundary, form_of
from shard_dialect.ir.local import LOCAL_COLLECTIVES
from shard_dialect.ir.program import Function
from shard_dialect.ir.walk import walk
from shard_dialect.model import Grid, Sharding


def read_facts(function: Function, shardings: Shardings) -> dict[int, Sharding]:
    """Value to sharding. Raises a located `ShardError` for what cannot be meant."""
    _refuse_what_is_not_annotated(function)
    reader = _Reader(function, shardings)
    reader.read_types()
    reader.read_arguments()
    reader.read_ops()
    reader.read_results()
    return reader.facts


class _Reader:
    def __init__(self, function: Function, shardings: Shardings) -> None:
        self.function = function
        self.shardings = shardings
        self.facts: dict[int, Sharding] = {}
        # Once propagated, the attributes say it all; other passes may have put an annotation on
        # another value than the user had.
        self.is_propagated = form_of(function.handle) == "propagated"

    def read_types(self) -> None:
        """A sharding in a type is an annotation here; the propagated form has plain types."""
        for number, value in enumerate(self.function.values):
            sharding = self.shardings.of_type(value.handle.type)
            if sharding is None:
                continue
            location = self.function.location_of(number)
            self._say(number, sharding, location)
            if number not in self.function.arguments and build.is_constant(
                value.handle.owner.operation
            ):
                raise error_at(
                    location, "a constant's type has a sharding: annotate its result instead"
                )
            value.handle.set_type(self.shardings.typed(value.handle.type, None))

    def read_arguments(self) -> None:
        for number, sharding in self._boundary("arg_attrs", self.function.arguments):
            self._say(number, sharding, self.function.handle.location)

    def read_ops(self) -> None:
        weak = []
        for op in self.function.ops:
            for place, sharding in self.shardings.of_results(op.handle).items():
                self._say(op.results[place], sharding, op.location)
            said = annotation.read_annotation(op.handle, self.shardings)
            if said is None:
                continue
            self._say(op.results[0], said.sharding, op.location)
            if self.is_propagated:
                weak.append((op.operands[0], said.sharding))
            elif not said.for_users:
                self._say(op.operands[0], said.sharding, op.location)
        for number, sharding in weak:
            self._say_if_open(number, sharding)
        for number in self.function.arguments:
            if number in self.facts and self.facts[number].partial:
                raise error_at(
                    self.function.handle.location,
                    f"an argument is annotated {self.facts[number]}: only a value that an op "
                    "makes can be partial",
                )

    def read_results(self) -> None:
        """What a result is to be says how its value should lie, where nothing else does."""
        for number, sharding in self._boundary("res_attrs", self.function.returned):
            self._say_if_open(number, sharding)

    def _boundary(self, key: str, values: tuple[int, ...]) -> Iterator[tuple[int, Sharding]]:
        for number, attributes in zip(values, boundary(self.function.handle, key), strict=True):
            if SHARDING in attributes:
                rank = self.function.values[number].handle.type.rank
                yield number, self.shardings.read(attributes[SHARDING], rank)

    def _say_if_open(self, value: int, sharding: Sharding) -> None:
        if value not in self.facts:
            self._say(value, sharding, self.function.location_of(value))

    def _say(self, value: int, sharding: Sharding, location: ir.Location) -> None:
        said = self.facts.setdefault(value, sharding)
        if said != sharding:
            raise error_at(
                location, f"one value is annotated {said} and {sharding}: they must agree"
            )
        shape = self.function.values[value].shape
        if shape is None:
            raise error_at(location, f"sharding {sharding} is on a tensor of unknown size")
        try:
            sharding.local_shape(shape, self.shardings.grid(sharding.grid))
        except ShardError as error:
            raise error_at(location, error.message) from None


def _refuse_what_is_not_annotated(function: Function) -> None:
    for op in function.ops:
        if op.name in LOCAL_COLLECTIVES:
            raise error_at(
                op.location, f"'{op.name}' op is of the local form: here tensors are global"
            )
        for inner in walk(op.handle):
            if inner.name in annotation.OPS:
                raise error_at(
                    inner.location, f"'{inner.name}' op is inside a region: that is not read yet"
                )


def grid_of(function: Function, facts: dict[int, Sharding], shardings: Shardings) -> Grid:
    """The one grid that the function's annotations are on, else its default, else the module's."""
    names = sorted({sharding.grid for sharding in facts.values()})
    if len(names) > 1:
        raise error_at(
            function.handle.location,
            f"function @{function.name} is annotated on grids @{names[0]} and @{names[1]}: "
            "one grid a function is supported yet",
        )
    if not names and "mesh_cluster" in function.handle.attributes:
        names = [annotation.cluster_name(function.handle)]
    if not names:
        names = list(shardings.grids)[:1]
    if not names:
        raise error_at(
            function.handle.location,
            "the module has no grid: declare one, as in `shard.grid @grid(shape = 2x4)`",
        )
    grid = shardings.grid(names[0])
    if not grid.is_static:
        raise error_at(
            function.handle.location,
            f"grid {grid} of function @{function.name} has unknown sizes: they must be given yet",
        )
    return grid
