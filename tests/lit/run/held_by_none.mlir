// A check fails where a part of a result is on no device, though what there is of it is right.
//
// RUN: not shard-run %s --check --reference %S/Inputs/held_by_none_reference.mlir 2>&1 | filecheck %s

// CHECK: error: result0 at {{\[}}2] is on no device

shard.grid @g(shape = 2)
mesh.sub_cluster @first(cluster = @g, offsets = [0], sizes = [1])
func.func @main(%x: tensor<2xf32> {mesh.argument = tensor<4xf32, #mesh.shard<@g, [[0]]>>})
    -> (tensor<2xf32> {mesh.result = tensor<4xf32, #mesh.shard<@g, [[0]]>>, shard_dialect.stage = @first}) attributes {mesh.form = "local"} {
  %0 = math.tanh %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
