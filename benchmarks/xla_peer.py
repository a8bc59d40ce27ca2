"""XLA's compiled HLO of a StableHLO program, on stdout: it may end the process it runs in.

    python -m benchmarks.xla_peer program.mlir shardy|gspmd

With `gspmd`, Shardy's annotations are said as GSPMD reads them (`mhlo.sharding`, custom calls
`Sharding`) and none of Shardy is left; what cannot be said so is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from jax._src.interpreters import mlir as jax_mlir
from jaxlib import _jax, xla_client
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

Axis = tuple[str, int, int]
"""Name, size of what is major to it in the axis of that name, and size."""


def compiled(text: str, partitioner: str) -> str:
    with jax_mlir.make_ir_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        meshes = {
            ir.StringAttr(op.operation.attributes["sym_name"]).value: sdy.MeshAttr(
                op.operation.attributes["mesh"]
            )
            for op in module.body.operations
            if op.operation.name == "sdy.mesh"
        }
        devices = max((_devices(mesh) for mesh in meshes.values()), default=1)
        if partitioner == "gspmd":
            _Conversion(meshes).convert(module)
        return compiled_module(module, devices, partitioner == "shardy")


def compiled_as_said(text: str, devices: int) -> str:
    """The HLO of a program with GSPMD's own annotations, partitioned by GSPMD."""
    with jax_mlir.make_ir_context(), ir.Location.unknown():
        return compiled_module(ir.Module.parse(text), devices, use_shardy=False)


def compiled_module(module: Any, devices: int, use_shardy: bool) -> str:
    client: Any = xla_client.make_cpu_client(num_devices=devices)
    found = _jax.DeviceList(tuple(client.local_devices()))
    executable = client.compile_and_load(module, found, options(devices, use_shardy))
    return "\n".join(each.to_string() for each in executable.hlo_modules())


def _devices(mesh: Any) -> int:
    return prod(sdy.MeshAxisAttr(axis).size for axis in mesh.axes)


def options(devices: int, use_shardy: bool) -> Any:
    """What XLA is told to partition a program for so many devices."""
    options = _jax.CompileOptions()
    build = options.executable_build_options
    for each in (options, build):
        each.num_replicas, each.num_partitions = 1, devices
        each.device_assignment = _jax.DeviceAssignment.create(np.arange(devices).reshape(1, -1))
    build.use_spmd_partitioning = True
    build.use_shardy_partitioner = use_shardy
    return options


class _Conversion:
    """Shardy's annotations of a module to GSPMD's."""

    def __init__(self, meshes: dict[str, Any]) -> None:
        self.meshes = meshes

    def convert(self, module: Any) -> None:
        for op in _inside(module.operation):
            if op.name == "func.func":
                self._boundary(op, "arg_attrs")
                self._boundary(op, "res_attrs")
            elif op.name == "sdy.sharding_constraint":
                self._constraint(op)
            elif op.name == "sdy.mesh":
                op.erase()
            elif op.name.startswith("sdy."):
                raise ValueError(f"GSPMD has no word for {op.name}")
            elif "sdy.sharding" in op.attributes:
                self._results(op)

    def _boundary(self, function: Any, key: str) -> None:
        if key not in function.attributes:
            return
        given: Any = ir.ArrayAttr(function.attributes[key])
        entries: list[ir.Attribute] = []
        for entry in given:
            pairs: Any = ir.DictAttr(entry)
            named = {each.name: each.attr for each in pairs}
            self._renamed(named)
            entries.append(ir.DictAttr.get(named))
        function.attributes[key] = ir.ArrayAttr.get(entries)

    def _renamed(self, named: dict[str, Any]) -> None:
        said = named.pop("sdy.sharding", None)
        given = sdy.TensorShardingAttr(said) if said else None
        if given and not _says_nothing(given):
            named["mhlo.sharding"] = ir.StringAttr.get(self.text(given))

    def _results(self, op: Any) -> None:
        shardings = sdy.TensorShardingPerValueAttr(op.attributes["sdy.sharding"]).shardings
        texts = [self.text(sdy.TensorShardingAttr(each)) for each in shardings]
        del op.attributes["sdy.sharding"]
        text = texts[0] if len(texts) == 1 else f"{{{', '.join(texts)}}}"
        op.attributes["mhlo.sharding"] = ir.StringAttr.get(text)

    def _constraint(self, op: Any) -> None:
        given = sdy.TensorShardingAttr(op.attributes["sharding"])
        dims = [n for n, dim in enumerate(_dims(given)) if not dim.is_closed]
        unspecified = f"unspecified_dims=[{','.join(map(str, dims))}]" if dims else ""
        attributes: dict[str, ir.Attribute] = {
            "call_target_name": ir.StringAttr.get("Sharding"),
            "backend_config": ir.StringAttr.get(unspecified),
            "mhlo.sharding": ir.StringAttr.get(self.text(given)),
        }
        with ir.InsertionPoint(op):
            made = ir.Operation.create(
                "stablehlo.custom_call", [op.results[0].type], list(op.operands), attributes
            )
        op.results[0].replace_all_uses_with(made.results[0])
        op.erase()

    def text(self, given: Any) -> str:
        """The same sharding as GSPMD says it: tiles, and the device of each.

        [{"y"}, {}] on <["x"=2, "y"=4]>  ->  {devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
        """
        mesh = self.meshes[ir.FlatSymbolRefAttr(given.mesh_or_ref).value]
        if mesh.device_ids:
            raise ValueError("devices in an order of their own are not said to GSPMD here")
        if given.unreduced_axes:
            raise ValueError("GSPMD has no word for unreduced axes")
        names = {axis.name: axis.size for axis in map(sdy.MeshAxisAttr, mesh.axes)}
        dims = [[_axis(ref, names) for ref in dim.axes] for dim in _dims(given)]
        used = [axis for dim in dims for axis in dim]
        if not used:
            return "{replicated}"
        shards = [shard for name, size in names.items() for shard in _shards(name, size, used)]
        rest = [shard for shard in shards if shard not in used]
        order = [shards.index(shard) for shard in (*used, *rest)]
        devices = _list(size for _, _, size in shards)
        if order == sorted(order):
            devices = _list([prod(size for _, _, size in shards)])
        else:
            devices += f"T({_list(order)[1:-1]})"
        tiles = [prod(size for _, _, size in dim) for dim in dims]
        replicated = prod(size for _, _, size in rest)
        if replicated == 1:
            return f"{{devices={_list(tiles)}<={devices}}}"
        return f"{{devices={_list([*tiles, replicated])}<={devices} last_tile_dim_replicate}}"


def _list(numbers: Iterable[int]) -> str:
    return f"[{','.join(map(str, numbers))}]"


def _says_nothing(given: Any) -> bool:
    return all(not dim.is_closed and not list(dim.axes) for dim in _dims(given))


def _dims(given: Any) -> list[Any]:
    return [sdy.DimensionShardingAttr(dim) for dim in given.dimension_shardings]


def _axis(said: Any, sizes: dict[str, int]) -> Axis:
    ref = sdy.AxisRefAttr(said)
    if ref.sub_axis_info is None:
        return ref.name, 1, sizes[ref.name]
    part = sdy.SubAxisInfoAttr(ref.sub_axis_info)
    return ref.name, part.pre_size, part.size


def _shards(name: str, size: int, used: Iterable[Axis]) -> list[Axis]:
    """An axis as the sub-axes that are used, and those between them."""
    cuts = {1, size}
    for other, pre, part in used:
        if other == name:
            cuts |= {pre, pre * part}
    ends = sorted(cuts)
    if len(ends) == 1:
        return [(name, 1, 1)]
    return [(name, low, high // low) for low, high in pairwise(ends)]


def _inside(op: Any) -> list[Any]:
    found = []
    for region in op.regions:
        for block in region:
            for each in block:
                found += [each.operation, *_inside(each.operation)]
    return found


if __name__ == "__main__":
    print(compiled(Path(sys.argv[1]).read_text(), sys.argv[2]))
