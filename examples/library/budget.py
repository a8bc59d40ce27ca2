"""A test of a plan for continuous integration: what it sends, stores and takes, beside a budget.

    python examples/library/budget.py

The budget is kept with the program; who sends more says so by changing it.
"""

import sys

import shard_dialect as sd

MODULE = """
shard.grid @g(shape = 4) {axis_names = ["model"]}
func.func @main(%x: tensor<32x64xf32>, %w2: tensor<256x64xf32>,
                %w1: tensor<64x256xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>})
    -> tensor<32x64xf32> {
  %0 = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0]
    : (tensor<32x64xf32>, tensor<64x256xf32>) -> tensor<32x256xf32>
  %1 = stablehlo.tanh %0 : tensor<32x256xf32>
  %2 = stablehlo.dot_general %1, %w2, contracting_dims = [1] x [0]
    : (tensor<32x256xf32>, tensor<256x64xf32>) -> tensor<32x64xf32>
  return %2 : tensor<32x64xf32>
}
"""
BUDGET = {"bytes sent": 13_000, "bytes of memory": 80_000, "collectives": 1}


def over_budget(report: sd.ProgramReport) -> list[str]:
    """What of a report is over the budget, and why it is sent."""
    found = {
        "bytes sent": report.bytes_moved,
        "bytes of memory": report.memory.peak,
        "collectives": len(report.communication),
    }
    over = {name: count for name, count in found.items() if count > BUDGET[name]}
    texts = [f"{name}: {count:,} of {BUDGET[name]:,}" for name, count in over.items()]
    reasons = [f"{each.kind} at {each.location}: {each.why[-1]}" for each in report.communication]
    return texts and texts + reasons


if __name__ == "__main__":
    report = sd.report(sd.parse(MODULE), prove=True)
    print(report)
    assert report.proof
    assert report.proof.answer == "proven"
    assert not report.diagnostics
    changed = sd.report(sd.mutate(sd.parse(MODULE), "w2=[[], [model]]"))
    print(*over_budget(changed), sep="\n")
    assert over_budget(changed)
    sys.exit("\n".join(over_budget(report)) or None)
