"""A pass with options, which warns, refuses at a place in the file, and runs other passes.

    python examples/library/pass_with_options.py
    shard-opt in.mlir --load-plugin=examples/library/pass_with_options.py --at-most='bytes=100'

An option is a field, and the text below it is the option's help.
"""

from dataclasses import dataclass
from typing import Literal

import shard_dialect as sd
from shard_dialect.bindings import ir


@sd.register_pass
@dataclass(frozen=True)
class AtMost(sd.Pass):
    """Partition, and refuse a program in which a device sends too much."""

    name = "at-most"
    bytes: int = 1 << 20
    """How many bytes a device may send in one collective."""
    otherwise: Literal["fail", "warn"] = "fail"
    """What happens where it is more."""

    def rewrite(self, module: ir.Operation) -> None:
        sd.run_pipeline(module, [sd.built_in("spmd"), "canonicalize"])
        for op in ir.SymbolTable(module)["main"].regions[0].blocks[0]:
            site = sd.read_collective(op)
            if site is None or site.bytes_moved <= self.bytes:
                continue
            text = f"{site.step.kind} sends {site.bytes_moved} bytes: at most {self.bytes} may be"
            if self.otherwise == "fail":
                raise sd.error_at(op.location, text)
            sd.warn(text, op.location)


MODULE = """
shard.grid @g(shape = 4)
func.func @main(%x: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>},
                %w: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
"""

if __name__ == "__main__":
    sd.run_pipeline(sd.parse(MODULE), AtMost(bytes=1000))  # a value, or in a text:
    try:
        sd.run_pipeline(sd.parse(MODULE), "at-most{bytes=100},cse")
    except sd.ShardError as error:
        print(error)  # at <string>:7:3
    with sd.listening() as heard:
        sd.run_pipeline(sd.parse(MODULE), sd.built_in("at-most", bytes=100, otherwise="warn"))
    assert [each.severity for each in heard] == ["warning"]
