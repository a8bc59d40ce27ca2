// Blocks: an argument lies as what branches bring to it.
//
// RUN: shard-opt %s --spmd | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=NUMBERS

// CHECK: cf.br ^bb1({{.*}} : index, tensor<4x4xf32>)
// CHECK: ^bb1({{.*}}: index, [[STATE:%.*]]: tensor<4x4xf32>):
// CHECK: shard.all_gather [[STATE]]
// CHECK: linalg.matmul {{.*}} -> tensor<4x4xf32>
// CHECK: return {{.*}} : tensor<4x4xf32>
// NUMBERS: check passed
"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
func.func @main(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}, %w: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [1]]>}) -> tensor<8x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  cf.br ^head(%c0, %x : index, tensor<8x8xf32>)
^head(%i: index, %a: tensor<8x8xf32>):
  %q = arith.cmpi slt, %i, %c3 : index
  cf.cond_br %q, ^body, ^exit(%a : tensor<8x8xf32>)
^body:
  %e = tensor.empty() : tensor<8x8xf32>
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %m = linalg.matmul ins(%a, %w : tensor<8x8xf32>, tensor<8x8xf32>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
  %t = math.tanh %m : tensor<8x8xf32>
  %n = arith.addi %i, %c1 : index
  cf.br ^head(%n, %t : index, tensor<8x8xf32>)
^exit(%r: tensor<8x8xf32>):
  %s = arith.addf %r, %x : tensor<8x8xf32>
  return %s : tensor<8x8xf32>
}
