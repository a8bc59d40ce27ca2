// A loop, or a branch, on one stage that computes on another: its blocks pass on what they yield.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-run %s --check

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [4]} : () -> ()
"mesh.sub_cluster"() {sym_name = "first", cluster = @g, offsets = [0], sizes = [2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "second", cluster = @g, offsets = [2], sizes = [2]} : () -> ()

func.func @main(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@first, [[0]]>},
                %y: tensor<8xf32> {mesh.sharding = #mesh.shard<@second, [[0]]>}) -> (tensor<8xf32>, tensor<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  // CHECK: scf.for {{.*}} iter_args(%[[R:.*]] = %arg0)
  // CHECK: %[[T:.*]] = mesh.collective_permute %[[R]] {{.*}}shard_dialect.stages = [@first, @second]
  // CHECK: %[[U:.*]] = stablehlo.sine %{{.*}}
  // CHECK: %[[W:.*]] = mesh.collective_permute %[[U]] {{.*}}shard_dialect.stages = [@second, @first]
  // CHECK: scf.yield %[[W]]
  %0 = scf.for %i = %c0 to %c3 step %c1 iter_args(%r = %x) -> (tensor<8xf32>) {
    %t = "mesh.annotate"(%r) {as_result = false, sharding = #mesh.shard<@second, [[0]]>} : (tensor<8xf32>) -> tensor<8xf32>
    %u = stablehlo.sine %t : tensor<8xf32>
    scf.yield %u : tensor<8xf32>
  }
  %yes = arith.constant true
  // CHECK: scf.if
  // CHECK: scf.yield
  // CHECK: else
  // CHECK: mesh.collective_permute %{{.*}} {{.*}}shard_dialect.stages = [@first, @second]
  // CHECK: mesh.collective_permute %{{.*}} {{.*}}shard_dialect.stages = [@second, @first]
  // CHECK: scf.yield
  %1 = scf.if %yes -> (tensor<8xf32>) {
    %t = stablehlo.sine %0 : tensor<8xf32>
    scf.yield %t : tensor<8xf32>
  } else {
    %t = "mesh.annotate"(%0) {as_result = false, sharding = #mesh.shard<@second, [[0]]>} : (tensor<8xf32>) -> tensor<8xf32>
    %u = stablehlo.add %t, %y : tensor<8xf32>
    scf.yield %u : tensor<8xf32>
  }
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
