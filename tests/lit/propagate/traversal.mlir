// Upstream's orders, under upstream's names: each op once in each direction. `DEFAULT` is what its default
// gives, backwards and then forwards.
//
// RUN: shard-opt %s --propagate=traversal=forward --import  | filecheck %s --check-prefix=CHECK --check-prefix=FORWARD
// RUN: shard-opt %s --propagate=traversal=backward --import  | filecheck %s --check-prefix=CHECK --check-prefix=BACKWARD
// RUN: shard-opt %s --propagate=traversal=forward-backward --import  | filecheck %s --check-prefix=CHECK --check-prefix=ROUND
// RUN: shard-opt %s --propagate=traversal=backward-forward --import  | filecheck %s --check-prefix=CHECK --check-prefix=DEFAULT
// RUN: not shard-opt %s --propagate="strategy=basic traversal=forward" --import  2>&1 | filecheck %s --check-prefix=TWICE
// RUN: shard-run %s --check --entry=a_chain | filecheck %s --check-prefix=NUMBERS
// TWICE: pass 'propagate' has strategy=basic and traversal=forward: give one of the two
// NUMBERS: check passed

shard.grid @g(shape = 2x2)

// The end that is visited first wins; what it decided stays.
// CHECK-LABEL: func.func @a_chain
// FORWARD: linalg.abs {mesh.shardings = [#mesh.shard<@g, {{\[\[}}0], []]>]}
// BACKWARD: linalg.abs {mesh.shardings = [#mesh.shard<@g, {{\[\[}}], [0]]>]}
// ROUND: linalg.abs {mesh.shardings = [#mesh.shard<@g, {{\[\[}}0], []]>]}
// DEFAULT: linalg.abs {mesh.shardings = [#mesh.shard<@g, {{\[\[}}], [0]]>]}
// CHECK: linalg.negf {mesh.shardings = [#mesh.shard<@g, {{\[\[}}], [0]]>]}
func.func @a_chain(%x: tensor<4x8xf32>, %to: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %rows = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %columns = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %xs = shard.shard %x to %rows : tensor<4x8xf32>
  %0 = linalg.abs ins(%xs : tensor<4x8xf32>) outs(%to : tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = linalg.negf ins(%0 : tensor<4x8xf32>) outs(%to : tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = shard.shard %1 to %columns : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// What stands before an annotation learns of it backwards, what stands behind it forwards. What no op
// that makes it has decided lies as its first user sees it.
// CHECK-LABEL: func.func @from_the_middle
// CHECK-SAME: %arg0: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, {{\[\[}}0]]>}
// FORWARD: linalg.fill {mesh.shardings = [#mesh.shard<@g, {{\[\[}}], []]>]}
// BACKWARD: linalg.fill {mesh.shardings = [#mesh.shard<@g, {{\[\[}}0], []]>]}
// FORWARD: linalg.abs {mesh.shardings = [#mesh.shard<@g, {{\[\[}}0], []]>]}
// CHECK: linalg.negf {mesh.shardings = [#mesh.shard<@g, {{\[\[}}0], []]>]}
// CHECK: mesh.annotate
// CHECK: linalg.reduce
// CHECK: mesh.shardings = [#mesh.shard<@g, {{\[\[}}0]]>]
// FORWARD: linalg.abs {mesh.shardings = [#mesh.shard<@g, {{\[\[}}0]]>]}
// BACKWARD: linalg.abs {mesh.shardings = [#mesh.shard<@g, {{\[\[}}]]>]}
// ROUND: linalg.abs {mesh.shardings = [#mesh.shard<@g, {{\[\[}}0]]>]}
// DEFAULT: linalg.abs {mesh.shardings = [#mesh.shard<@g, {{\[\[}}0]]>]}
func.func @from_the_middle(%row: tensor<4xf32>) -> tensor<4xf32> {
  %one = arith.constant 1.0 : f32
  %empty = tensor.empty() : tensor<4x8xf32>
  %ones = linalg.fill ins(%one : f32) outs(%empty : tensor<4x8xf32>) -> tensor<4x8xf32>
  %a = linalg.abs ins(%ones : tensor<4x8xf32>) outs(%empty : tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = linalg.negf ins(%a : tensor<4x8xf32>) outs(%empty : tensor<4x8xf32>) -> tensor<4x8xf32>
  %rows = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %b to %rows : tensor<4x8xf32>
  %1 = linalg.reduce { arith.addf } ins(%0 : tensor<4x8xf32>) outs(%row : tensor<4xf32>) dimensions = [1]
  %2 = linalg.abs ins(%1 : tensor<4xf32>) outs(%row : tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// What one user of a value is told says nothing of the value itself: the users are asked for theirs.
// CHECK-LABEL: func.func @each_user_its_own
// CHECK-SAME: %arg0: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, {{\[\[}}1], []]>}
// CHECK: mesh.annotate %arg0 {as_result = false
// CHECK: linalg.matmul {mesh.shardings = [#mesh.shard<@g, {{\[\[}}0], []]>]}
func.func @each_user_its_own(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>, %to: tensor<8x8xf32>)
    -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %columns = shard.sharding @g split_axes = [[1]] : !shard.sharding
  %0 = shard.shard %x to %columns annotate_for_users : tensor<8x8xf32>
  %1 = linalg.matmul ins(%x, %w : tensor<8x8xf32>, tensor<8x8xf32>)
                     outs(%to : tensor<8x8xf32>) -> tensor<8x8xf32>
  %rows = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %2 = shard.shard %1 to %rows : tensor<8x8xf32>
  return %0, %2 : tensor<8x8xf32>, tensor<8x8xf32>
}

// %x lies by rows; the result is said to be whole, so the product sees %x whole.
// CHECK-LABEL: func.func @a_must_stays
// CHECK-SAME: %arg0: tensor<2x4xf32> {mesh.sharding = #mesh.shard<@g, {{\[\[}}0], []]>}
// CHECK-SAME: %arg1: tensor<4x2xf32> {mesh.sharding = #mesh.shard<@g, {{\[\[}}], []]>}
// CHECK: linalg.matmul {mesh.shardings = [#mesh.shard<@g, {{\[\[}}], []]>]}
func.func @a_must_stays(%x: tensor<2x4xf32>, %w: tensor<4x2xf32>, %to: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %rows = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %xs = shard.shard %x to %rows : tensor<2x4xf32>
  %0 = linalg.matmul ins(%xs, %w : tensor<2x4xf32>, tensor<4x2xf32>)
                     outs(%to : tensor<2x2xf32>) -> tensor<2x2xf32>
  %whole = shard.sharding @g split_axes = [[]] : !shard.sharding
  %1 = shard.shard %0 to %whole : tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}

// A sum that is split is of no concern to the result.
// CHECK-LABEL: func.func @a_split_sum
// CHECK-SAME: %arg1: tensor<8x4xf32> {mesh.sharding = #mesh.shard<@g, {{\[\[}}1], []]>}
// CHECK: linalg.matmul {mesh.shardings = [#mesh.shard<@g, {{\[\[}}0], []]>]}
func.func @a_split_sum(%x: tensor<4x8xf32>, %w: tensor<8x4xf32>, %to: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %both = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  %xs = shard.shard %x to %both annotate_for_users : tensor<4x8xf32>
  %0 = linalg.matmul ins(%xs, %w : tensor<4x8xf32>, tensor<8x4xf32>)
                     outs(%to : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// Musts that contradict each other: the op is left alone, and nothing goes on through it.
// CHECK-LABEL: func.func @left_alone
// CHECK-SAME: %arg1: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, {{\[\[}}]]>}
// CHECK: linalg.abs {mesh.shardings = [#mesh.shard<@g, {{\[\[}}1]]>]}
func.func @left_alone(%x: tensor<8xf32>, %to: tensor<8xf32>) -> tensor<8xf32> {
  %a = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %b = shard.sharding @g split_axes = [[1]] : !shard.sharding
  %xs = shard.shard %x to %a annotate_for_users : tensor<8xf32>
  %0 = linalg.abs ins(%xs : tensor<8xf32>) outs(%to : tensor<8xf32>) -> tensor<8xf32>
  %1 = shard.shard %0 to %b : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// A constant is one value like others, whatever its users want: the one decided last is heard where its
// maker is visited after them.
// CHECK-LABEL: func.func @one_constant
// FORWARD: arith.constant {mesh.shardings = [#mesh.shard<@g, {{\[\[}}0]]>]}
// BACKWARD: arith.constant {mesh.shardings = [#mesh.shard<@g, {{\[\[}}0]]>]}
// ROUND: arith.constant {mesh.shardings = [#mesh.shard<@g, {{\[\[}}1]]>]}
// DEFAULT: arith.constant {mesh.shardings = [#mesh.shard<@g, {{\[\[}}0]]>]}
// CHECK-NOT: arith.constant
// CHECK: linalg.add {mesh.shardings = [#mesh.shard<@g, {{\[\[}}0]]>]}
// CHECK: linalg.add {mesh.shardings = [#mesh.shard<@g, {{\[\[}}1]]>]}
func.func @one_constant(%x: tensor<8xf32>, %y: tensor<8xf32>, %to: tensor<8xf32>)
    -> (tensor<8xf32>, tensor<8xf32>) {
  %c = arith.constant dense<1.0> : tensor<8xf32>
  %a = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %b = shard.sharding @g split_axes = [[1]] : !shard.sharding
  %xs = shard.shard %x to %a : tensor<8xf32>
  %ys = shard.shard %y to %b : tensor<8xf32>
  %0 = linalg.add ins(%xs, %c : tensor<8xf32>, tensor<8xf32>) outs(%to : tensor<8xf32>) -> tensor<8xf32>
  %1 = linalg.add ins(%ys, %c : tensor<8xf32>, tensor<8xf32>) outs(%to : tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// On an op that upstream knows nothing of its pass fails; here it goes the same way, by its rule.
// CHECK-LABEL: func.func @unknown_there
// FORWARD: stablehlo.reshape {{.*}}[#mesh.shard<@g, {{\[\[}}0], []]>]
// BACKWARD: stablehlo.reshape {{.*}}[#mesh.shard<@g, {{\[\[}}0], []]>]
func.func @unknown_there(%x: tensor<8xf32>) -> tensor<2x4xf32> {
  %a = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %xs = shard.shard %x to %a : tensor<8xf32>
  %0 = stablehlo.reshape %xs : (tensor<8xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @nothing_is_said
// CHECK: linalg.abs {mesh.shardings = [#mesh.shard<@g, {{\[\[}}]]>]}
func.func @nothing_is_said(%x: tensor<8xf32>, %to: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.abs ins(%x : tensor<8xf32>) outs(%to : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
