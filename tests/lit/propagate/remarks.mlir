// Conflicts are told where asked: the op, both sides and where they come from, and which side wins.
//
// RUN: shard-opt %s --propagate --remarks --verify-diagnostics | filecheck %s
// RUN: shard-opt %s --propagate 2>&1 | filecheck %s --check-prefix=SILENT
// SILENT-NOT: remark

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()

// Two factors of one tensor want the same axis.
// expected-note@+3 {{dimension 0 along [0]: annotated}}
// expected-note@+3 {{dimension 1 along [0]: annotated}}
// CHECK-LABEL: func.func @one_axis
func.func @one_axis(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>},
                    %y: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}) -> tensor<8x8xf32> {
  // expected-remark@+2 {{'stablehlo.add' op has dimension 0 of operand 0 split along [0] and dimension 1 of operand 1 split along [0]: dimension 0 of operand 0 split along [0] wins: of two that are as large the first goes first}}
  // CHECK: stablehlo.add {{.*}}[{{\[}}0], []]
  %0 = stablehlo.add %x, %y : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// Two tensors split one factor in two ways: then nothing passes along it.
// expected-note@+3 {{dimension 0 along [0]: annotated}}
// expected-note@+3 {{dimension 0 along [1]: annotated}}
// CHECK-LABEL: func.func @two_ways
func.func @two_ways(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>},
                    %y: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[1], []]>}) -> tensor<8x8xf32> {
  // expected-remark@+2 {{dimension 0 of operand 0 split along [0] and dimension 0 of operand 1 split along [1]: neither wins}}
  // CHECK: stablehlo.add {{.*}}[{{\[}}], []]
  %0 = stablehlo.add %x, %y : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// The larger tensor goes first, wherever it stands: moving the smaller one is cheaper.
// expected-note@+3 {{dimension 0 along [0]: annotated}}
// expected-note@+3 {{dimension 1 along [0]: annotated}}
// CHECK-LABEL: func.func @the_larger
func.func @the_larger(%x: tensor<8x4xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>},
                      %y: tensor<4x64xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}) -> tensor<8x64xf32> {
  // expected-remark@+2 {{dimension 1 of operand 1 split along [0] wins: its tensor is the larger one, 256 elements to 32}}
  // CHECK: stablehlo.dot_general {{.*}}[{{\[}}], [0]]
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x64xf32>) -> tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}

// CHECK-LABEL: func.func @in_peace
func.func @in_peace(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>},
                    %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.add %x, %y : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
