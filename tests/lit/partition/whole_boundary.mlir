// Whole arguments, of which each device takes its shards, and whole results, which are gathered.
//
// RUN: shard-opt %s --partition | filecheck %s --check-prefix=PIECES
// RUN: shard-opt %s --partition='arguments=whole results=pieces' | filecheck %s --check-prefix=ARGUMENTS
// RUN: shard-opt %s --partition=results=whole | filecheck %s --check-prefix=RESULTS
// RUN: shard-opt %s --pass-pipeline='builtin.module(partition{arguments=whole results=whole})' -o %t.mlir
// RUN: filecheck %s --check-prefix=BOTH --input-file=%t.mlir
// RUN: shard-run %t.mlir --check --reference=%s | filecheck %s --check-prefix=RESULT
// RUN: shard-run %t.mlir --check --reference=%s --entry=partial | filecheck %s --check-prefix=RESULT
// RUN: shard-run %t.mlir --check --reference=%s --entry=unused | filecheck %s --check-prefix=RESULT
// RUN: shard-run %t.mlir --check --reference=%s --entry=caller | filecheck %s --check-prefix=RESULT
// RUN: shard-run %t.mlir --check --reference=%s --entry=callee | filecheck %s --check-prefix=RESULT
// RUN: shard-run %t.mlir --check --reference=%s --entry=uneven | filecheck %s --check-prefix=RESULT
// RUN: shard-run %t.mlir --check --reference=%s --entry=blocks | filecheck %s --check-prefix=RESULT
// RUN: not shard-opt %s --partition=arguments=half 2>&1 | filecheck %s --check-prefix=WRONG

// RESULT: check passed
// WRONG: error: option 'arguments' of pass 'partition' must be one of pieces, whole, found 'half'

shard.grid @g(shape = 2x2)

// PIECES-LABEL: func.func @main(
// PIECES-SAME: %arg0: tensor<4x4xf32>
// PIECES-NOT: all_slice
// PIECES: return %{{.*}} : tensor<4x4xf32>

// ARGUMENTS-LABEL: func.func @main(
// ARGUMENTS-SAME: %arg0: tensor<8x8xf32> {mesh.argument = tensor<8x8xf32>}) -> (tensor<4x4xf32> {mesh.result = tensor<8x8xf32, #mesh.shard<@g
// ARGUMENTS-NEXT: %[[ROWS:.*]] = shard.all_slice %arg0 on @g grid_axes = [0] slice_axis = 0 : tensor<8x8xf32> -> tensor<4x8xf32>
// ARGUMENTS-NEXT: %[[PIECE:.*]] = shard.all_slice %[[ROWS]] on @g grid_axes = [1] slice_axis = 1 : tensor<4x8xf32> -> tensor<4x4xf32>
// ARGUMENTS-NEXT: %[[E:.*]] = math.exp %[[PIECE]]
// ARGUMENTS-NEXT: return %[[E]]

// RESULTS-LABEL: func.func @main(
// RESULTS-SAME: %arg0: tensor<4x4xf32>
// RESULTS: %[[E:.*]] = math.exp %arg0
// RESULTS-NEXT: %[[ROWS:.*]] = shard.all_gather %[[E]] on @g
// RESULTS-NEXT: %[[ALL:.*]] = shard.all_gather %[[ROWS]] on @g {{.*}} -> tensor<8x8xf32>
// RESULTS-NEXT: return %[[ALL]] : tensor<8x8xf32>

// BOTH-LABEL: func.func @main(
// BOTH-SAME: %arg0: tensor<8x8xf32> {mesh.argument = tensor<8x8xf32>}) -> (tensor<8x8xf32> {mesh.result = tensor<8x8xf32>})
func.func @main(%x: tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>)
    -> tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>> attributes {mesh.form = "distributed"} {
  %0 = math.exp %x : tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
  return %0 : tensor<8x8xf32, #mesh.shard<@g, [[0], [1]]>>
}

// What gathered a part of the shards takes a larger slice, and what gathered all takes the whole.
//
// ARGUMENTS-LABEL: func.func @gathered(
// ARGUMENTS-NEXT: %[[ROWS:.*]] = shard.all_slice %arg0 on @g grid_axes = [1] slice_axis = 0 : tensor<8xf32> -> tensor<4xf32>
// ARGUMENTS-NEXT: math.exp %[[ROWS]]
// ARGUMENTS-NEXT: math.tanh %arg0 : tensor<8xf32>
// ARGUMENTS-NOT: all_gather
// ARGUMENTS: return
func.func @gathered(%x: tensor<8xf32, #mesh.shard<@g, [[1, 0]]>>)
    -> (tensor<8xf32, #mesh.shard<@g, [[1]]>>, tensor<8xf32>) attributes {mesh.form = "distributed"} {
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0]]}
    : (tensor<8xf32, #mesh.shard<@g, [[1, 0]]>>) -> tensor<8xf32, #mesh.shard<@g, [[1]]>>
  %1 = math.exp %0 : tensor<8xf32, #mesh.shard<@g, [[1]]>>
  %2 = "mesh.all_gather"(%x) {mesh_axis = [[1, 0]]}
    : (tensor<8xf32, #mesh.shard<@g, [[1, 0]]>>) -> tensor<8xf32>
  %3 = math.tanh %2 : tensor<8xf32>
  return %1, %3 : tensor<8xf32, #mesh.shard<@g, [[1]]>>, tensor<8xf32>
}

// BOTH-LABEL: func.func @partial(
// BOTH: %[[SUM:.*]] = stablehlo.reduce
// BOTH: %[[ALL:.*]] = shard.all_reduce %[[SUM]] on @g grid_axes = [0] : tensor<8xf32> -> tensor<8xf32>
// BOTH: return %[[ALL]]
func.func @partial(%x: tensor<4x8xf32, #mesh.shard<@g, [[0]]>>)
    -> tensor<8xf32, #mesh.shard<@g, [[], [0]]>> attributes {mesh.form = "distributed"} {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<4x8xf32, #mesh.shard<@g, [[0]]>>, tensor<f32>) -> tensor<8xf32, #mesh.shard<@g, [[], [0]]>>
  return %0 : tensor<8xf32, #mesh.shard<@g, [[], [0]]>>
}

// BOTH-LABEL: func.func @unused(
// BOTH-SAME: %arg0: tensor<8xf32>
// BOTH-NEXT: return %arg1
func.func @unused(%x: tensor<8xf32, #mesh.shard<@g, [[0]]>>, %y: tensor<8xf32>) -> tensor<8xf32>
    attributes {mesh.form = "distributed"} {
  return %y : tensor<8xf32>
}

// Who calls has shards, and the callee takes them.
//
// BOTH-LABEL: func.func @callee(
// BOTH-SAME: %arg0: tensor<4xf32> {mesh.argument = tensor<8xf32, #mesh.shard<@g, {{.*}}>>}) -> (tensor<4xf32>
func.func @callee(%x: tensor<8xf32, #mesh.shard<@g, [[0]]>>)
    -> tensor<8xf32, #mesh.shard<@g, [[0]]>> attributes {mesh.form = "distributed"} {
  %0 = arith.addf %x, %x : tensor<8xf32, #mesh.shard<@g, [[0]]>>
  return %0 : tensor<8xf32, #mesh.shard<@g, [[0]]>>
}

// BOTH-LABEL: func.func @caller(
// BOTH: %[[PIECE:.*]] = shard.all_slice %arg0
// BOTH: %[[MADE:.*]] = call @callee(%[[PIECE]]) : (tensor<4xf32>) -> tensor<4xf32>
// BOTH: shard.all_gather %[[MADE]]
func.func @caller(%x: tensor<8xf32, #mesh.shard<@g, [[0]]>>)
    -> tensor<8xf32, #mesh.shard<@g, [[0]]>> attributes {mesh.form = "distributed"} {
  %0 = call @callee(%x) : (tensor<8xf32, #mesh.shard<@g, [[0]]>>)
    -> tensor<8xf32, #mesh.shard<@g, [[0]]>>
  return %0 : tensor<8xf32, #mesh.shard<@g, [[0]]>>
}

// What does not divide is padded before it is cut, and what is gathered loses the padding.
//
// BOTH-LABEL: func.func @uneven(
// BOTH: shard.all_slice {{.*}} : tensor<6xf32> -> tensor<3xf32>
// BOTH: shard.all_gather {{.*}} : tensor<3xf32> -> tensor<6xf32>
// BOTH: tensor.extract_slice {{.*}} : tensor<6xf32> to tensor<5xf32>
func.func @uneven(%x: tensor<5xf32, #mesh.shard<@g, [[0]]>>)
    -> tensor<5xf32, #mesh.shard<@g, [[0]]>> attributes {mesh.form = "distributed"} {
  %0 = math.exp %x : tensor<5xf32, #mesh.shard<@g, [[0]]>>
  return %0 : tensor<5xf32, #mesh.shard<@g, [[0]]>>
}

// The op before which shards are taken may be one that is no longer there.
//
// BOTH-LABEL: func.func @the_first_op_goes(
// BOTH-NEXT: %[[PIECE:.*]] = shard.all_slice %arg1
// BOTH-NEXT: math.exp %[[PIECE]]
func.func @the_first_op_goes(%x: tensor<8xf32, #mesh.shard<@g, [[0]]>>, %y: tensor<8xf32, #mesh.shard<@g, [[0]]>>)
    -> (tensor<8xf32>, tensor<8xf32, #mesh.shard<@g, [[0]]>>) attributes {mesh.form = "distributed"} {
  %0 = "mesh.all_gather"(%x) {mesh_axis = [[0]]} : (tensor<8xf32, #mesh.shard<@g, [[0]]>>) -> tensor<8xf32>
  %1 = math.exp %y : tensor<8xf32, #mesh.shard<@g, [[0]]>>
  return %0, %1 : tensor<8xf32>, tensor<8xf32, #mesh.shard<@g, [[0]]>>
}

// BOTH-LABEL: func.func @blocks(
// BOTH-COUNT-2: shard.all_gather
func.func @blocks(%x: tensor<8xf32, #mesh.shard<@g, [[0]]>>, %c: tensor<i1>)
    -> tensor<8xf32, #mesh.shard<@g, [[0]]>> attributes {mesh.form = "distributed"} {
  %flag = tensor.extract %c[] : tensor<i1>
  cf.cond_br %flag, ^then, ^else
^then:
  %0 = math.exp %x : tensor<8xf32, #mesh.shard<@g, [[0]]>>
  return %0 : tensor<8xf32, #mesh.shard<@g, [[0]]>>
^else:
  return %x : tensor<8xf32, #mesh.shard<@g, [[0]]>>
}
