"""StableHLO's own interpreter, on one device and on several.

Which part of a tensor a device has is written down here once more; no code is shared with the
passes and the runtimes. The interpreter ends its process on what it does not know, so it runs in
one of its own:

    python -m tests.stablehlo_interpreter FOLDER COUNT

There `0.mlir` is the first program and `0.in.npz` what it is given; what it gives is written to
`0.out.npz`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shard_dialect.ir.bindings import ir, submodule
from shard_dialect.ir.context import make_context
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.walk import walk
from tests.conftest import run_child
from tests.stablehlo_conversion import Conversion, places

Array = NDArray[Any]


def shard(whole: Array, split: Sequence[Sequence[int]], shape: Sequence[int], rank: int) -> Array:
    """What device `rank` has of a tensor, padded with zeros where devices do not divide it."""
    for dim, axes in enumerate(split):
        count = prod(shape[axis] for axis in axes)
        size = -(-whole.shape[dim] // count)
        room = [
            (0, count * size - length if at == dim else 0) for at, length in enumerate(whole.shape)
        ]
        start = places(shape, axes)[rank] * size if axes else 0
        whole = np.pad(whole, room).take(range(start, start + size), dim)
    return whole


class Converted:
    """A module in the local form whose `main` each device runs, as text for the interpreter."""

    def __init__(self, module: ir.Module) -> None:
        root = module.operation
        grids = {
            op.attributes["sym_name"].value: tuple(op.attributes["shape"])
            for op in walk(root)
            if op.name == "shard.grid"
        }
        (self.grid,) = grids.values()
        self.devices = prod(self.grid)
        self._read_boundary(root)
        for op in walk(root):
            if op.name == "func.func":
                _make_plain(op)
        Conversion(self.grid).run(root)
        self.text = self._with_devices(root)

    def _read_boundary(self, root: ir.Operation) -> None:
        shardings = Shardings.of(root)
        main = next(op for op in walk(root) if op.name == "func.func" and _name(op) == "main")
        type_ = main.attributes["function_type"].value

        def read(key: str, name: str, count: int) -> list[tuple[ir.Type, list[list[Any]]]]:
            entries = main.attributes[key] if count else []
            types = [entry[name].value for entry in entries]
            found = [(each, shardings.of_type(each)) for each in types]
            return [(each, [list(axes) for axes in s.split_axes] if s else []) for each, s in found]

        self.arguments = read("arg_attrs", "mesh.argument", len(type_.inputs))
        self.results = read("res_attrs", "mesh.result", len(type_.results))

    def scatter(self, inputs: Sequence[Array]) -> list[Array]:
        """The shards of all devices, those of the first one first."""
        return [
            shard(array, split, self.grid, rank)
            for rank in range(self.devices)
            for array, (_, split) in zip(inputs, self.arguments, strict=True)
        ]

    def _with_devices(self, root: ir.Operation) -> str:
        (main,) = (op for op in walk(root) if op.name == "func.func" and _name(op) == "main")
        type_ = main.attributes["function_type"].value
        inputs, results = (list(map(str, each)) for each in (type_.inputs, type_.results))
        main.attributes["sym_name"] = ir.StringAttr.get("device")
        count = self.devices
        names = [f"%arg{number}" for number in range(count * len(inputs))]
        given = ", ".join(map("{}: {}".format, names, inputs * count))
        made = [f"%made#{number}" for number in range(count * len(results))]
        programs = ", ".join(["@device"] * count)
        text = root.get_asm(print_generic_op_form=True)
        body, _, end = text.rpartition("}) : () -> ()")
        return (
            f"{body}func.func @main({given}) -> ({', '.join(results * count)}) {{\n"
            f'%made:{len(made)} = "interpreter.run_parallel"({", ".join(names)}) '
            f"{{programs = [[{programs}]]}} : ({', '.join(inputs * count)}) -> "
            f"({', '.join(results * count)})\n"
            f"return {', '.join(made)} : {', '.join(results * count)}\n}}\n}}) : () -> (){end}"
        )


def _name(op: ir.Operation) -> str:
    return str(op.attributes["sym_name"].value)


def _make_plain(function: ir.Operation) -> None:
    for key in ("arg_attrs", "res_attrs", "mesh.form"):
        if key in function.attributes:
            del function.attributes[key]


_TRIES = 3
"""The interpreter's threads, one a device, end by a signal now and then."""


def interpret(programs: Sequence[tuple[str, Sequence[Array]]], folder: Path) -> list[list[Array]]:
    """What `main` of each program gives, by StableHLO's interpreter."""
    for number, (text, inputs) in enumerate(programs):
        (folder / f"{number}.mlir").write_text(text)
        np.savez(folder / f"{number}.in.npz", *inputs)
    for _ in range(_TRIES):
        done = run_child([sys.executable, "-m", __name__, str(folder), str(len(programs))])
        if done.returncode >= 0:
            break
    if done.returncode:
        raise AssertionError(f"exit status {done.returncode}: {done.stderr}\n{programs[-1][0]}")
    return [_arrays(folder / f"{number}.out.npz") for number in range(len(programs))]


def _arrays(path: Path) -> list[Array]:
    with np.load(path) as arrays:
        return list(arrays.values())


def _interpret_all(folder: Path, count: int) -> None:
    interpreter = submodule("_mlir_libs._stablehlo")
    with make_context() as context:
        interpreter.register_dialect(context)
        interpreter.register_interpreter_dialect(context)
        for number in range(count):
            module = ir.Module.parse((folder / f"{number}.mlir").read_text())
            inputs = map(ir.DenseElementsAttr.get, _arrays(folder / f"{number}.in.npz"))
            outputs = interpreter.eval_module(module, list(inputs))
            arrays = [np.array(ir.DenseFPElementsAttr(each)) for each in outputs]
            np.savez(folder / f"{number}.out.npz", *arrays)


if __name__ == "__main__":
    _interpret_all(Path(sys.argv[1]), int(sys.argv[2]))
