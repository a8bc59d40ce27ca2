"""A plugin of all kinds: what it registers works in each program once it is installed.

pip install examples/library/plugin
shard-opt doubled.mlir --count-doubles --spmd
shard-run doubled.mlir --backend=doubler --check --reference-by=doubler
shard-report doubled.mlir --device-model=abacus
shard-opt doubled.mlir --auto=objective=peace,plans=10
"""

from collections.abc import Callable
from typing import Any

import shard_dialect as sd
from shard_dialect.bindings import ir

sd.register_dialect(
    "doubling",
    "irdl.dialect @doubling { irdl.operation @double {"
    "%a = irdl.any %b = irdl.any irdl.operands(x: %a) irdl.results(y: %b) } }",
)


def lower_double(op: ir.Operation) -> list[ir.Value]:
    return [ir.Operation.create("arith.addf", [op.operands[0].type], [*op.operands] * 2).result]


sd.sharding_rule("doubling.double", lowering=lower_double, operations=1)("([i, j]) -> ([i, j])")


@sd.register_pass
class CountDoubles(sd.Pass):
    """Say how many elements are doubled."""

    name = "count-doubles"
    anchor = "func.func"

    def rewrite(self, function: ir.Operation) -> None:
        doubles = [op for op in function.regions[0].blocks[0] if "double" in op.operation.name]
        sd.warn(f"{len(doubles)} doubled", function.location)


def doubled(module: ir.Module, entry: str) -> Callable[[list[Any]], list[Any]]:
    """What a function of doubles computes, for whole arrays as for shards."""
    *doubles, _ = ir.SymbolTable(module.operation)[entry].regions[0].blocks[0]
    return lambda arrays: [each * 2 ** len(doubles) for each in arrays]


@sd.register_backend("doubler")
class Doubler:
    def __init__(self, module: ir.Module, entry: str) -> None:
        self.program = doubled(module, entry)

    def run(self, shards: list[list[Any]]) -> list[list[Any]]:
        return [self.program(each) for each in shards]


sd.register_judge("doubler")(doubled)
wire = sd.NetworkLevel("wire", devices=None, bytes_per_second=4.0, latency=1.0)
sd.register_device_model("abacus", sd.DeviceModel("abacus", {"f32": 2.0}, 10**6, 8.0, [wire]))
sd.register_objective("peace")(lambda costs: costs.bytes)
