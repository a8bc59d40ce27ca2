// What goes around a loop lies in one way, inside and outside; what it needs of a value from outside
// is gathered before it, once.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-opt %s --spmd | filecheck %s --check-prefix=LOCAL
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

// CHECK: scf.for
// CHECK: linalg.matmul {mesh.shardings = [#mesh.shard<@g, [{{\[}}0], []]>]}
// CHECK: } {mesh.block_shardings = [{{\[}}unit, #mesh.shard<@g, [{{\[}}0], []]>]], mesh.shardings = [#mesh.shard<@g, [{{\[}}0], []]>]}

// LOCAL: [[WHOLE:%.*]] = shard.all_gather %arg1
// LOCAL: scf.for {{.*}} iter_args([[STATE:%.*]] = %arg0) -> (tensor<4x8xf32>)
// LOCAL-NOT: shard.
// LOCAL: linalg.matmul ins([[STATE]], [[WHOLE]] : tensor<4x8xf32>, tensor<8x8xf32>)
// LOCAL: scf.yield {{.*}} : tensor<4x8xf32>

// NUMBERS: all_gather
// NUMBERS: check passed
"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @main(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>},
                %w: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}) -> tensor<8x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %zero = arith.constant 0.0 : f32
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x) -> (tensor<8x8xf32>) {
    %e = tensor.empty() : tensor<8x8xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
    %m = linalg.matmul ins(%a, %w : tensor<8x8xf32>, tensor<8x8xf32>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
    %t = math.tanh %m : tensor<8x8xf32>
    scf.yield %t : tensor<8x8xf32>
  }
  return %r : tensor<8x8xf32>
}
