// What is printed is read back as the same IR, before and after the passes.
//
// RUN: shard-opt %s --verify-roundtrip --propagate --materialize -o %t
// RUN: filecheck %s --input-file=%t
// RUN: not shard-opt %s --verify-roundtrip --propagate --materialize --load-plugin %S/Inputs/unreadable.py --make-unreadable 2>&1 | filecheck %s --check-prefix=BAD

// CHECK: #mesh.shard<@g, {{\[\[}}0]]>
// BAD: error: the module's custom form is not read back: 'func.func' op

shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4xf32>
  return %0 : tensor<4xf32>
}
