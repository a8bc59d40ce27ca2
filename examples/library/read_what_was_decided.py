"""What the compiler has decided, as values: shardings, collectives and the boundary. No parsing.

    python examples/library/read_what_was_decided.py

The readers work in the module that a pass is given, too.
"""

import json
from collections import Counter

import shard_dialect as sd
from shard_dialect.bindings import ir

MODULE = """
shard.grid @g(shape = 2x2) {axis_names = ["data", "model"]}
func.func @main(%x: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>},
                %w: tensor<16x4xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
"""


def shardings(module: ir.Module) -> dict[str, sd.Sharding | None]:
    """The sharding of each value that an op of `main` computes."""
    block = ir.SymbolTable(module.operation)["main"].regions[0].blocks[0]
    return {op.operation.name: sd.sharding_of(value) for op in block for value in op.results}


if __name__ == "__main__":
    module = sd.parse(MODULE)
    forms = [sd.form(module)]
    for step in ("propagate", "materialize", "spmd"):
        sd.run_pipeline(module, step)
        forms.append(sd.form(module))
        if forms[-1] != "local":
            print(forms[-1], {name: str(each) for name, each in shardings(module).items()})
    assert forms == ["annotated", "propagated", "distributed", "local"]

    program = sd.read_program(module)
    for each in (*program.arguments, *program.results):
        print(f"{each.global_type} as {each.sharding}: {each.local} on a device")
    sent = Counter[str]()
    for site in program.calls:
        print(site.step.kind, site.groups, site.operand, site.bytes_moved)
        sent[site.step.kind] += site.bytes_moved * site.times
    print(json.dumps(sent))
    assert [str(each.local) for each in program.arguments] == ["4x8xf32", "8x4xf32"]
    assert sum(sent.values()) == sd.report(module).bytes_moved
