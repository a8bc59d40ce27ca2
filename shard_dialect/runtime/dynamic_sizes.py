"""The sizes for a program that leaves sizes open.

shard.grid @g(shape = ?x4)                    --grid=2x4, or the number of ranks
func.func @main(%x: tensor<?x8xf32>)          --shapes=6x8, or the shape of x in --inputs
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from math import prod

from shard_dialect.abi.lowered_program import find_function
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.function import argument_names, argument_text
from shard_dialect.ir.grids import grids_of, refuse_more_devices
from shard_dialect.ir.walk import body
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.passes.pipelines import Specialize
from shard_dialect.passes.specialize.propagate_shapes import has_open_sizes
from shard_dialect.passes.specialize.shape_rules import written
from shard_dialect.runtime.array_files import is_folder, shapes_in


@dataclass(frozen=True)
class Sizes:
    """The sizes that the user gives; empty where none are given."""

    shapes: str = ""
    grid: str = ""
    inputs: str = ""
    """A file whose arrays have the shapes that `shapes` leaves out."""
    devices: int | None = None
    """The number of ranks, if a launcher has started them."""
    scalars: str = ""
    """The values of arguments that are integers."""
    most_devices: int | None = None
    """The most devices that can run the program, if that is known before it is compiled."""

    def refuse_more(self, module: ir.Operation) -> None:
        """Raise a located `ShardError` for a program of more devices than can run it."""
        if self.most_devices is not None:
            refuse_more_devices(module, self.most_devices, "in one process there can be")

    def key(self, text: str | bytes) -> str:
        """The key for the compilation of this text, besides the text: empty if no size is open.

        It has the shapes of the inputs, not the name of their file, whose content may change.
        """
        may_be_open = isinstance(text, bytes) or "?" in text
        if not may_be_open and not (self.shapes or self.grid or self.scalars):
            return ""
        has_shapes = self.inputs and not self.shapes and not is_folder(self.inputs)
        shapes = sorted(shapes_in(self.inputs).items()) if has_shapes else ()
        return repr((self.shapes, self.grid, shapes, self.devices, self.scalars))

    def apply_to(self, module: ir.Module, entry: str) -> None:
        """Specialize the module in place, if it leaves sizes open or sizes are given.

        Raises a `ShardError` for sizes that contradict the program, or are missing.
        """
        shapes = self.shapes or self._shapes(find_function(module.operation, entry))
        grid = self._grid(module.operation)
        if shapes or grid or self.scalars or has_open_sizes(module.operation):
            run_pipeline(module, str(Specialize(entry, shapes, self.scalars, grid)))

    def _shapes(self, handle: ir.Operation) -> str:
        types = [argument.type for argument in body(handle).arguments]
        is_open = [isinstance(e, ir.RankedTensorType) and not e.has_static_shape for e in types]
        if not any(is_open):
            return ""
        if not self.inputs or is_folder(self.inputs):
            number = is_open.index(True)
            raise error_at(
                body(handle).arguments[number].location,
                f"{argument_text(handle, number)} is a {types[number]}: give the shapes of the "
                "arguments, with --shapes or by --inputs",
            )
        shapes = shapes_in(self.inputs)
        texts = [""] * len(types)
        for number, (numbered, *own) in compress(enumerate(argument_names(handle)), is_open):
            names = (*own, numbered)
            name = next((each for each in names if each in shapes), None)
            if name is None:
                raise ShardError(
                    f"'{self.inputs}' holds {', '.join(sorted(shapes)) or 'none'}, and no "
                    f"{names[0]}, whose sizes the program leaves open"
                )
            texts[number] = written(shapes[name])
        return ",".join(texts)

    def _grid(self, module: ir.Operation) -> str:
        """The shape for the grid with unknown sizes; by the number of ranks if one is unknown."""
        grids = grids_of(module).values()  # none, in an unsharded program
        open_ = [grid for grid in grids if not grid.is_static]
        if self.grid:
            if open_ or not grids:
                return self.grid if open_ else ""
            if self.grid in [written(grid.shape) for grid in grids]:
                return ""
            names = ", ".join(map(str, grids))
            raise ShardError(f"no grid can have the shape {self.grid}: there is {names}")
        if len(open_) != 1 or self.devices is None or open_[0].shape.count(None) != 1:
            return ""
        (grid,) = open_
        known = prod(size for size in grid.shape if size is not None)
        if self.devices % known:
            raise ShardError(f"grid {grid} cannot have {self.devices} devices, one for each rank")
        return written(tuple(self.devices // known if s is None else s for s in grid.shape))
