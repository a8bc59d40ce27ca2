"""An objective of your own: what a search for shardings is to minimize.

    python examples/library/objective.py
    shard-opt in.mlir --load-plugin=examples/library/objective.py --auto=grid=8,objective=money

Less is better. The search itself looks for little time; the objective compares what it finds.
"""

import shard_dialect as sd

HOUR, GIBIBYTE = 3600.0, 1 << 30


@sd.register_objective("money")
def money(costs: sd.Costs) -> float:
    """What a step costs: a device by the second, dearer the more memory it has to have."""
    return costs.seconds / HOUR * (2 + costs.peak / GIBIBYTE) + costs.bytes * 1e-15


MODULE = """
func.func @main(%x: tensor<256x512xf32>, %w: tensor<512x512xf32>, %v: tensor<512x256xf32>)
    -> tensor<256x256xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<256x512xf32>, tensor<512x512xf32>) -> tensor<256x512xf32>
  %1 = stablehlo.dot_general %0, %v, contracting_dims = [1] x [0]
    : (tensor<256x512xf32>, tensor<512x256xf32>) -> tensor<256x256xf32>
  return %1 : tensor<256x256xf32>
}
"""

if __name__ == "__main__":
    found = {
        name: sd.auto(sd.parse(MODULE), devices=4, objective=objective, plans=60)
        for name, objective in (("time", "time"), ("memory", "memory"), ("money", money))
    }
    for name, result in found.items():
        print(f"{name}: {money(result.costs):.3g}\n  {result}")
    assert all(money(found["money"].costs) <= money(each.costs) for each in found.values())
    assert all(not each.diagnostics for each in found.values())
