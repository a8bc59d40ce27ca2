// Shards of a dimension that devices do not divide are as large as the first, padded at their end.
//
// RUN: shard-opt %s --spmd | filecheck %s
// RUN: shard-opt %s --spmd | shard-opt - --canonicalize --cse --lower -o %t

shard.grid @g(shape = 4)

// What is cut is padded before, what is put together loses the padding.
// CHECK-LABEL: func.func @moved
// CHECK-SAME: (%[[X:.*]]: tensor<2x6xf32> {mesh.argument = tensor<5x6xf32, #mesh.shard<@g, {{\[\[}}0], []]>>})
// CHECK-SAME: -> (tensor<5x2xf32> {mesh.result = tensor<5x6xf32, #mesh.shard<@g, {{\[\[}}], [0]]>>})
// CHECK: %[[ROOM:.*]] = linalg.fill {{.*}} -> tensor<2x8xf32>
// CHECK: %[[PADDED:.*]] = tensor.insert_slice %[[X]] into %[[ROOM]][0, 0] [2, 6] [1, 1]
// CHECK: %[[ALL:.*]] = shard.all_to_all %[[PADDED]] {{.*}} : tensor<2x8xf32> -> tensor<8x2xf32>
// CHECK: tensor.extract_slice %[[ALL]][0, 0] [5, 2] [1, 1]
func.func @moved(%x: tensor<5x6xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
    -> (tensor<5x6xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}) {
  return %x : tensor<5x6xf32>
}

// A sum finds zeros in the padding; what is not summed up is left as it is.
// CHECK-LABEL: func.func @summed
// CHECK: %[[ABS:.*]] = math.absf %{{.*}} : tensor<2x6xf32>
// CHECK: shard.all_slice %{{.*}} : tensor<4xi64> -> tensor<1xi64>
// CHECK: linalg.generic {{.*}} ins(%[[ABS]] :
// CHECK: linalg.index 0
// CHECK: arith.select
// CHECK: stablehlo.reduce
// CHECK: shard.all_reduce
func.func @summed(%x: tensor<5x6xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>})
    -> (tensor<6xf32> {mesh.sharding = #mesh.shard<@g, [[]]>}, tensor<5xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = math.absf %x : tensor<5x6xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<5x6xf32>, tensor<f32>) -> tensor<6xf32>
  %2 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<5x6xf32>, tensor<f32>) -> tensor<5xf32>
  return %1, %2 : tensor<6xf32>, tensor<5xf32>
}

// Bodies leave alone what they have summed up, and divide by nothing that is none of theirs.
// CHECK-LABEL: func.func @bodies
// CHECK: linalg.reduce
// CHECK: %[[IN:.*]] = arith.cmpi slt
// CHECK: %[[BY:.*]] = arith.select %[[IN]], %{{.*}}, %c1
// CHECK: %[[EACH:.*]] = arith.divsi %{{.*}}, %[[BY]] : i32
// CHECK: %[[SUM:.*]] = arith.addi %[[EACH]], %[[START:.*]] : i32
// CHECK: %[[HELD:.*]] = arith.cmpi slt
// CHECK: arith.select %[[HELD]], %[[SUM]], %[[START]]
func.func @bodies(%x: tensor<5xi32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<i32> {
  %zero = arith.constant dense<0> : tensor<i32>
  %hundred = arith.constant 100 : i32
  %0 = linalg.reduce ins(%x : tensor<5xi32>) outs(%zero : tensor<i32>) dimensions = [0]
    (%a: i32, %s: i32) {
      %1 = arith.divsi %hundred, %a : i32
      %2 = arith.addi %1, %s : i32
      linalg.yield %2 : i32
    }
  return %0 : tensor<i32>
}

// CHECK-LABEL: func.func @divided
// CHECK: arith.select %{{.*}}, %{{.*}}, %c1{{.*}} : i32
// CHECK: arith.divsi %{{.*}}, %{{.*}} : tensor<2xi32>
func.func @divided(%x: tensor<5xi32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<5xi32> {
  %0 = arith.divsi %x, %x : tensor<5xi32>
  return %0 : tensor<5xi32>
}
