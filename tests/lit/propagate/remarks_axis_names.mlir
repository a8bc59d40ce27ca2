// A remark on a conflict has the names of the axes.
//
// RUN: shard-opt %s --propagate --remarks 2>&1 | filecheck %s

sdy.mesh @mesh = <["data"=2, "model"=4]>

// CHECK{LITERAL}: remark: 'stablehlo.add' op has dimension 0 of operand 0 split along ["data"] and dimension 0 of operand 1 split along ["model"]: neither wins
func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
                %y: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>})
    -> tensor<8x16xf32> {
  %0 = stablehlo.add %x, %y : tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
