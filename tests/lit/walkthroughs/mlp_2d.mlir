// Each form of examples/mlp_2d.mlir.
// The check lines are written by tests/update_walkthroughs.py.
//
// RUN: shard-opt %examples/mlp_2d.mlir | filecheck %s --check-prefix=ANNOTATED
// RUN: shard-opt %examples/mlp_2d.mlir --propagate | filecheck %s --check-prefix=PROPAGATED
// RUN: shard-opt %examples/mlp_2d.mlir --propagate --materialize | filecheck %s --check-prefix=DISTRIBUTED
// RUN: shard-opt %examples/mlp_2d.mlir --propagate --materialize --optimize-collectives | filecheck %s --check-prefix=OPTIMIZED
// RUN: shard-opt %examples/mlp_2d.mlir --spmd | filecheck %s --check-prefix=LOCAL
// RUN: shard-opt %examples/mlp_2d.mlir --spmd --lower | filecheck %s --check-prefix=LOWERED

// ANNOTATED{LITERAL}: #map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// ANNOTATED-NEXT{LITERAL}: #map1 = affine_map<(d0, d1, d2, d3) -> (d3, d2)>
// ANNOTATED-NEXT{LITERAL}: #map2 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// ANNOTATED-NEXT{LITERAL}: module {
// ANNOTATED-NEXT{LITERAL}:   shard.grid @grid(shape = 2x2x2)
// ANNOTATED-NEXT{LITERAL}:   func.func @main(%arg0: tensor<2x4x8xf32>, %arg1: tensor<8x32xf32>, %arg2: tensor<32x8xf32>) -> tensor<2x4x8xf32> {
// ANNOTATED-NEXT{LITERAL}:     %sharding = shard.sharding @grid split_axes = [[], [], [0, 1, 2]] : !shard.sharding
// ANNOTATED-NEXT{LITERAL}:     %sharding_0 = shard.sharding @grid split_axes = [[0], [1, 2]] : !shard.sharding
// ANNOTATED-NEXT{LITERAL}:     %sharding_1 = shard.sharding @grid split_axes = [[1, 2], [0]] : !shard.sharding
// ANNOTATED-NEXT{LITERAL}:     %sharding_annotated = shard.shard %arg0 to %sharding : tensor<2x4x8xf32>
// ANNOTATED-NEXT{LITERAL}:     %sharding_annotated_2 = shard.shard %arg1 to %sharding_0 : tensor<8x32xf32>
// ANNOTATED-NEXT{LITERAL}:     %sharding_annotated_3 = shard.shard %arg2 to %sharding_1 : tensor<32x8xf32>
// ANNOTATED-NEXT{LITERAL}:     %cst = arith.constant 0.000000e+00 : f32
// ANNOTATED-NEXT{LITERAL}:     %cst_4 = arith.constant dense<0.000000e+00> : tensor<2x4x32xf32>
// ANNOTATED-NEXT{LITERAL}:     %0 = tensor.empty() : tensor<2x4x32xf32>
// ANNOTATED-NEXT{LITERAL}:     %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
// ANNOTATED-NEXT{LITERAL}:     %2 = linalg.contract indexing_maps = [#map, #map1, #map2] ins(%sharding_annotated, %sharding_annotated_2 : tensor<2x4x8xf32>, tensor<8x32xf32>) outs(%1 : tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
// ANNOTATED-NEXT{LITERAL}:     %3 = arith.maximumf %2, %cst_4 : tensor<2x4x32xf32>
// ANNOTATED-NEXT{LITERAL}:     %4 = tensor.empty() : tensor<2x4x8xf32>
// ANNOTATED-NEXT{LITERAL}:     %5 = linalg.fill ins(%cst : f32) outs(%4 : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
// ANNOTATED-NEXT{LITERAL}:     %6 = linalg.contract indexing_maps = [#map, #map1, #map2] ins(%3, %sharding_annotated_3 : tensor<2x4x32xf32>, tensor<32x8xf32>) outs(%5 : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
// ANNOTATED-NEXT{LITERAL}:     %sharding_annotated_5 = shard.shard %6 to %sharding : tensor<2x4x8xf32>
// ANNOTATED-NEXT{LITERAL}:     return %sharding_annotated_5 : tensor<2x4x8xf32>
// ANNOTATED-NEXT{LITERAL}:   }
// ANNOTATED-NEXT{LITERAL}: }

// PROPAGATED{LITERAL}: #map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// PROPAGATED-NEXT{LITERAL}: #map1 = affine_map<(d0, d1, d2, d3) -> (d3, d2)>
// PROPAGATED-NEXT{LITERAL}: #map2 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// PROPAGATED-NEXT{LITERAL}: module {
// PROPAGATED-NEXT{LITERAL}:   shard.grid @grid(shape = 2x2x2)
// PROPAGATED-NEXT{LITERAL}:   func.func @main(%arg0: tensor<2x4x8xf32>, %arg1: tensor<8x32xf32>, %arg2: tensor<32x8xf32>) -> tensor<2x4x8xf32> attributes {propagated} {
// PROPAGATED-NEXT{LITERAL}:     %sharding = shard.sharding @grid split_axes = [[], [], [0, 1, 2]] : !shard.sharding
// PROPAGATED-NEXT{LITERAL}:     %sharding_0 = shard.sharding @grid split_axes = [[0], [1, 2]] : !shard.sharding
// PROPAGATED-NEXT{LITERAL}:     %sharding_1 = shard.sharding @grid split_axes = [[1, 2], [0]] : !shard.sharding
// PROPAGATED-NEXT{LITERAL}:     %sharding_2 = shard.sharding @grid split_axes = [[], [], [1, 2]] : !shard.sharding
// PROPAGATED-NEXT{LITERAL}:     %sharding_annotated = shard.shard %arg0 to %sharding {stands_for = "argument"} : tensor<2x4x8xf32>
// PROPAGATED-NEXT{LITERAL}:     %sharding_annotated_3 = shard.shard %arg1 to %sharding_0 {stands_for = "argument"} : tensor<8x32xf32>
// PROPAGATED-NEXT{LITERAL}:     %sharding_annotated_4 = shard.shard %arg2 to %sharding_1 {stands_for = "argument"} : tensor<32x8xf32>
// PROPAGATED-NEXT{LITERAL}:     %sharding_annotated_5 = shard.shard %sharding_annotated to %sharding : tensor<2x4x8xf32>
// PROPAGATED-NEXT{LITERAL}:     %sharding_annotated_6 = shard.shard %sharding_annotated_3 to %sharding_0 : tensor<8x32xf32>
// PROPAGATED-NEXT{LITERAL}:     %sharding_annotated_7 = shard.shard %sharding_annotated_4 to %sharding_1 : tensor<32x8xf32>
// PROPAGATED-NEXT{LITERAL}:     %cst = arith.constant 0.000000e+00 : f32
// PROPAGATED-NEXT{LITERAL}:     %cst_8 = arith.constant dense<0.000000e+00> : tensor<2x4x32xf32>
// PROPAGATED-NEXT{LITERAL}:     %sharding_annotated_9 = shard.shard %cst_8 to %sharding_2 {stands_for = "op"} : tensor<2x4x32xf32>
// PROPAGATED-NEXT{LITERAL}:     %0 = tensor.empty() : tensor<2x4x32xf32>
// PROPAGATED-NEXT{LITERAL}:     %sharding_annotated_10 = shard.shard %0 to %sharding_2 {stands_for = "op"} : tensor<2x4x32xf32>
// PROPAGATED-NEXT{LITERAL}:     %1 = linalg.fill ins(%cst : f32) outs(%sharding_annotated_10 : tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
// PROPAGATED-NEXT{LITERAL}:     %sharding_annotated_11 = shard.shard %1 to %sharding_2 {stands_for = "op"} : tensor<2x4x32xf32>
// PROPAGATED-NEXT{LITERAL}:     %2 = linalg.contract indexing_maps = [#map, #map1, #map2] ins(%sharding_annotated_5, %sharding_annotated_6 : tensor<2x4x8xf32>, tensor<8x32xf32>) outs(%sharding_annotated_11 : tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
// PROPAGATED-NEXT{LITERAL}:     %sharding_annotated_12 = shard.shard %2 to %sharding_2 {stands_for = "op"} : tensor<2x4x32xf32>
// PROPAGATED-NEXT{LITERAL}:     %3 = arith.maximumf %sharding_annotated_12, %sharding_annotated_9 : tensor<2x4x32xf32>
// PROPAGATED-NEXT{LITERAL}:     %sharding_annotated_13 = shard.shard %3 to %sharding_2 {stands_for = "op"} : tensor<2x4x32xf32>
// PROPAGATED-NEXT{LITERAL}:     %4 = tensor.empty() : tensor<2x4x8xf32>
// PROPAGATED-NEXT{LITERAL}:     %sharding_annotated_14 = shard.shard %4 to %sharding {stands_for = "op"} : tensor<2x4x8xf32>
// PROPAGATED-NEXT{LITERAL}:     %5 = linalg.fill ins(%cst : f32) outs(%sharding_annotated_14 : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
// PROPAGATED-NEXT{LITERAL}:     %sharding_annotated_15 = shard.shard %5 to %sharding {stands_for = "op"} : tensor<2x4x8xf32>
// PROPAGATED-NEXT{LITERAL}:     %6 = linalg.contract indexing_maps = [#map, #map1, #map2] ins(%sharding_annotated_13, %sharding_annotated_7 : tensor<2x4x32xf32>, tensor<32x8xf32>) outs(%sharding_annotated_15 : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
// PROPAGATED-NEXT{LITERAL}:     %sharding_annotated_16 = shard.shard %6 to %sharding {stands_for = "op"} : tensor<2x4x8xf32>
// PROPAGATED-NEXT{LITERAL}:     %sharding_annotated_17 = shard.shard %sharding_annotated_16 to %sharding : tensor<2x4x8xf32>
// PROPAGATED-NEXT{LITERAL}:     %sharding_annotated_18 = shard.shard %sharding_annotated_17 to %sharding annotate_for_users {stands_for = "result"} : tensor<2x4x8xf32>
// PROPAGATED-NEXT{LITERAL}:     return %sharding_annotated_18 : tensor<2x4x8xf32>
// PROPAGATED-NEXT{LITERAL}:   }
// PROPAGATED-NEXT{LITERAL}: }

// DISTRIBUTED{LITERAL}: #map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// DISTRIBUTED-NEXT{LITERAL}: #map1 = affine_map<(d0, d1, d2, d3) -> (d3, d2)>
// DISTRIBUTED-NEXT{LITERAL}: #map2 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// DISTRIBUTED-NEXT{LITERAL}: module {
// DISTRIBUTED-NEXT{LITERAL}:   mesh.cluster @grid(rank = 3, dim_sizes = [2, 2, 2])
// DISTRIBUTED-NEXT{LITERAL}:   func.func @main(%arg0: tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0, 1, 2]]>>, %arg1: tensor<8x32xf32, #mesh.shard<@grid, [[0], [1, 2]]>>, %arg2: tensor<32x8xf32, #mesh.shard<@grid, [[1, 2], [0]]>>) -> tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0, 1, 2]]>> attributes {mesh.form = "distributed"} {
// DISTRIBUTED-NEXT{LITERAL}:     %cst = arith.constant 0.000000e+00 : f32
// DISTRIBUTED-NEXT{LITERAL}:     %cst_0 = arith.constant dense<0.000000e+00> : tensor<2x4x32xf32>
// DISTRIBUTED-NEXT{LITERAL}:     %0 = mesh.all_gather %arg0 {mesh_axis = [[], [], [1, 2]]} : tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0, 1, 2]]>> -> tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0]]>>
// DISTRIBUTED-NEXT{LITERAL}:     %1 = tensor.empty() : tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2], [0]]>>
// DISTRIBUTED-NEXT{LITERAL}:     %2 = linalg.fill ins(%cst : f32) outs(%1 : tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2], [0]]>>) -> tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2], [0]]>>
// DISTRIBUTED-NEXT{LITERAL}:     %3 = linalg.contract indexing_maps = [#map, #map1, #map2] ins(%0, %arg1 : tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0]]>>, tensor<8x32xf32, #mesh.shard<@grid, [[0], [1, 2]]>>) outs(%2 : tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2], [0]]>>) -> tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2], [0]]>>
// DISTRIBUTED-NEXT{LITERAL}:     %4 = mesh.all_reduce %3 {mesh_axis = [0], reduction = "sum"} : tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2], [0]]>> -> tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2]]>>
// DISTRIBUTED-NEXT{LITERAL}:     %5 = mesh.local_split %cst_0 {sharding = [[], [], [1, 2]]} : tensor<2x4x32xf32> -> tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2]]>>
// DISTRIBUTED-NEXT{LITERAL}:     %6 = arith.maximumf %4, %5 : tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2]]>>
// DISTRIBUTED-NEXT{LITERAL}:     %7 = tensor.empty() : tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0], [1, 2]]>>
// DISTRIBUTED-NEXT{LITERAL}:     %8 = linalg.fill ins(%cst : f32) outs(%7 : tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0], [1, 2]]>>) -> tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0], [1, 2]]>>
// DISTRIBUTED-NEXT{LITERAL}:     %9 = linalg.contract indexing_maps = [#map, #map1, #map2] ins(%6, %arg2 : tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2]]>>, tensor<32x8xf32, #mesh.shard<@grid, [[1, 2], [0]]>>) outs(%8 : tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0], [1, 2]]>>) -> tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0], [1, 2]]>>
// DISTRIBUTED-NEXT{LITERAL}:     %10 = mesh.reduce_scatter %9 {mesh_axis = [1, 2], reduction = "sum", tensor_axis = 2 : i64} : tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0], [1, 2]]>> -> tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0, 1, 2]]>>
// DISTRIBUTED-NEXT{LITERAL}:     return %10 : tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0, 1, 2]]>>
// DISTRIBUTED-NEXT{LITERAL}:   }
// DISTRIBUTED-NEXT{LITERAL}: }

// OPTIMIZED{LITERAL}: #map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// OPTIMIZED-NEXT{LITERAL}: #map1 = affine_map<(d0, d1, d2, d3) -> (d3, d2)>
// OPTIMIZED-NEXT{LITERAL}: #map2 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// OPTIMIZED-NEXT{LITERAL}: module {
// OPTIMIZED-NEXT{LITERAL}:   mesh.cluster @grid(rank = 3, dim_sizes = [2, 2, 2])
// OPTIMIZED-NEXT{LITERAL}:   func.func @main(%arg0: tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0, 1, 2]]>>, %arg1: tensor<8x32xf32, #mesh.shard<@grid, [[0], [1, 2]]>>, %arg2: tensor<32x8xf32, #mesh.shard<@grid, [[1, 2], [0]]>>) -> tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0, 1, 2]]>> attributes {mesh.form = "distributed"} {
// OPTIMIZED-NEXT{LITERAL}:     %cst = arith.constant 0.000000e+00 : f32
// OPTIMIZED-NEXT{LITERAL}:     %cst_0 = arith.constant dense<0.000000e+00> : tensor<2x4x32xf32>
// OPTIMIZED-NEXT{LITERAL}:     %0 = mesh.all_gather %arg0 {mesh_axis = [[], [], [1, 2]]} : tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0, 1, 2]]>> -> tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0]]>>
// OPTIMIZED-NEXT{LITERAL}:     %1 = tensor.empty() : tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2], [0]]>>
// OPTIMIZED-NEXT{LITERAL}:     %2 = linalg.fill ins(%cst : f32) outs(%1 : tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2], [0]]>>) -> tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2], [0]]>>
// OPTIMIZED-NEXT{LITERAL}:     %3 = linalg.contract indexing_maps = [#map, #map1, #map2] ins(%0, %arg1 : tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0]]>>, tensor<8x32xf32, #mesh.shard<@grid, [[0], [1, 2]]>>) outs(%2 : tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2], [0]]>>) -> tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2], [0]]>>
// OPTIMIZED-NEXT{LITERAL}:     %4 = mesh.reduce_scatter %3 {mesh_axis = [0], reduction = "sum", tensor_axis = 2 : i64} : tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2], [0]]>> -> tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2, 0]]>>
// OPTIMIZED-NEXT{LITERAL}:     %5 = mesh.local_split %cst_0 {sharding = [[], [], [1, 2, 0]]} : tensor<2x4x32xf32> -> tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2, 0]]>>
// OPTIMIZED-NEXT{LITERAL}:     %6 = arith.maximumf %4, %5 : tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2, 0]]>>
// OPTIMIZED-NEXT{LITERAL}:     %7 = mesh.all_gather %6 {mesh_axis = [[], [], [0]]} : tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2, 0]]>> -> tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2]]>>
// OPTIMIZED-NEXT{LITERAL}:     %8 = tensor.empty() : tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0], [1, 2]]>>
// OPTIMIZED-NEXT{LITERAL}:     %9 = linalg.fill ins(%cst : f32) outs(%8 : tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0], [1, 2]]>>) -> tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0], [1, 2]]>>
// OPTIMIZED-NEXT{LITERAL}:     %10 = linalg.contract indexing_maps = [#map, #map1, #map2] ins(%7, %arg2 : tensor<2x4x32xf32, #mesh.shard<@grid, [[], [], [1, 2]]>>, tensor<32x8xf32, #mesh.shard<@grid, [[1, 2], [0]]>>) outs(%9 : tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0], [1, 2]]>>) -> tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0], [1, 2]]>>
// OPTIMIZED-NEXT{LITERAL}:     %11 = mesh.reduce_scatter %10 {mesh_axis = [1, 2], reduction = "sum", tensor_axis = 2 : i64} : tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0], [1, 2]]>> -> tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0, 1, 2]]>>
// OPTIMIZED-NEXT{LITERAL}:     return %11 : tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0, 1, 2]]>>
// OPTIMIZED-NEXT{LITERAL}:   }
// OPTIMIZED-NEXT{LITERAL}: }

// LOCAL{LITERAL}: #map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// LOCAL-NEXT{LITERAL}: #map1 = affine_map<(d0, d1, d2, d3) -> (d3, d2)>
// LOCAL-NEXT{LITERAL}: #map2 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// LOCAL-NEXT{LITERAL}: module {
// LOCAL-NEXT{LITERAL}:   shard.grid @grid(shape = 2x2x2)
// LOCAL-NEXT{LITERAL}:   func.func @main(%arg0: tensor<2x4x1xf32> {mesh.argument = tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0, 1, 2]]>>}, %arg1: tensor<4x8xf32> {mesh.argument = tensor<8x32xf32, #mesh.shard<@grid, [[0], [1, 2]]>>}, %arg2: tensor<8x4xf32> {mesh.argument = tensor<32x8xf32, #mesh.shard<@grid, [[1, 2], [0]]>>}) -> (tensor<2x4x1xf32> {mesh.result = tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0, 1, 2]]>>}) attributes {mesh.form = "local"} {
// LOCAL-NEXT{LITERAL}:     %cst = arith.constant 0.000000e+00 : f32
// LOCAL-NEXT{LITERAL}:     %all_gather = shard.all_gather %arg0 on @grid grid_axes = [1, 2] gather_axis = 2 : tensor<2x4x1xf32> -> tensor<2x4x4xf32>
// LOCAL-NEXT{LITERAL}:     %0 = tensor.empty() : tensor<2x4x8xf32>
// LOCAL-NEXT{LITERAL}:     %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
// LOCAL-NEXT{LITERAL}:     %2 = linalg.contract indexing_maps = [#map, #map1, #map2] ins(%all_gather, %arg1 : tensor<2x4x4xf32>, tensor<4x8xf32>) outs(%1 : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
// LOCAL-NEXT{LITERAL}:     %reduce_scatter = shard.reduce_scatter %2 on @grid grid_axes = [0] scatter_dim = 2 : tensor<2x4x8xf32> -> tensor<2x4x4xf32>
// LOCAL-NEXT{LITERAL}:     %cst_0 = arith.constant dense<0.000000e+00> : tensor<2x4x4xf32>
// LOCAL-NEXT{LITERAL}:     %3 = arith.maximumf %reduce_scatter, %cst_0 : tensor<2x4x4xf32>
// LOCAL-NEXT{LITERAL}:     %all_gather_1 = shard.all_gather %3 on @grid grid_axes = [0] gather_axis = 2 : tensor<2x4x4xf32> -> tensor<2x4x8xf32>
// LOCAL-NEXT{LITERAL}:     %4 = tensor.empty() : tensor<2x4x4xf32>
// LOCAL-NEXT{LITERAL}:     %5 = linalg.fill ins(%cst : f32) outs(%4 : tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
// LOCAL-NEXT{LITERAL}:     %6 = linalg.contract indexing_maps = [#map, #map1, #map2] ins(%all_gather_1, %arg2 : tensor<2x4x8xf32>, tensor<8x4xf32>) outs(%5 : tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
// LOCAL-NEXT{LITERAL}:     %reduce_scatter_2 = shard.reduce_scatter %6 on @grid grid_axes = [1, 2] scatter_dim = 2 : tensor<2x4x4xf32> -> tensor<2x4x1xf32>
// LOCAL-NEXT{LITERAL}:     return %reduce_scatter_2 : tensor<2x4x1xf32>
// LOCAL-NEXT{LITERAL}:   }
// LOCAL-NEXT{LITERAL}: }

// LOWERED{LITERAL}: #map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// LOWERED-NEXT{LITERAL}: #map1 = affine_map<(d0, d1, d2, d3) -> (d3, d2)>
// LOWERED-NEXT{LITERAL}: #map2 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// LOWERED-NEXT{LITERAL}: #map3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// LOWERED-NEXT{LITERAL}: module {
// LOWERED-NEXT{LITERAL}:   memref.global "private" constant @__constant_2x4x4xf32 : memref<2x4x4xf32> = dense<0.000000e+00> {alignment = 64 : i64}
// LOWERED-NEXT{LITERAL}:   shard.grid @grid(shape = 2x2x2)
// LOWERED-NEXT{LITERAL}:   func.func private @mesh_all_gather_0(memref<2x4x1xf32>, memref<8x4x1xf32>) attributes {llvm.emit_c_interface, mesh.collective = {gather_axis = 0 : index, grid = @grid, grid_axes = array<i16: 1, 2>, mesh.local_types = [tensor<2x4x1xf32>, tensor<2x4x4xf32>], name = "shard.all_gather"}}
// LOWERED-NEXT{LITERAL}:   func.func private @mesh_reduce_scatter_0(memref<4x4x4xf32>, memref<2x4x4xf32>) attributes {llvm.emit_c_interface, mesh.collective = {grid = @grid, grid_axes = array<i16: 0>, mesh.local_types = [tensor<2x4x8xf32>, tensor<2x4x4xf32>], name = "shard.reduce_scatter", reduction = #shard<partial sum>, scatter_dim = 0 : index}}
// LOWERED-NEXT{LITERAL}:   func.func private @mesh_all_gather_1(memref<2x4x4xf32>, memref<4x4x4xf32>) attributes {llvm.emit_c_interface, mesh.collective = {gather_axis = 0 : index, grid = @grid, grid_axes = array<i16: 0>, mesh.local_types = [tensor<2x4x4xf32>, tensor<2x4x8xf32>], name = "shard.all_gather"}}
// LOWERED-NEXT{LITERAL}:   func.func private @mesh_reduce_scatter_1(memref<8x4x1xf32>, memref<2x4x1xf32>) attributes {llvm.emit_c_interface, mesh.collective = {grid = @grid, grid_axes = array<i16: 1, 2>, mesh.local_types = [tensor<2x4x4xf32>, tensor<2x4x1xf32>], name = "shard.reduce_scatter", reduction = #shard<partial sum>, scatter_dim = 0 : index}}
// LOWERED-NEXT{LITERAL}:   func.func @main(%arg0: memref<2x4x1xf32> {mesh.argument = tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0, 1, 2]]>>}, %arg1: memref<4x8xf32> {mesh.argument = tensor<8x32xf32, #mesh.shard<@grid, [[0], [1, 2]]>>}, %arg2: memref<8x4xf32> {mesh.argument = tensor<32x8xf32, #mesh.shard<@grid, [[1, 2], [0]]>>}, %arg3: memref<2x4x1xf32> {mesh.result = tensor<2x4x8xf32, #mesh.shard<@grid, [[], [], [0, 1, 2]]>>}) attributes {mesh.form = "lowered"} {
// LOWERED-NEXT{LITERAL}:     %cst = arith.constant 0.000000e+00 : f32
// LOWERED-NEXT{LITERAL}:     %0 = memref.get_global @__constant_2x4x4xf32 : memref<2x4x4xf32>
// LOWERED-NEXT{LITERAL}:     %alloc = memref.alloc() : memref<8x4x1xf32>
// LOWERED-NEXT{LITERAL}:     call @mesh_all_gather_0(%arg0, %alloc) : (memref<2x4x1xf32>, memref<8x4x1xf32>) -> ()
// LOWERED-NEXT{LITERAL}:     %expand_shape = memref.expand_shape %alloc [[0, 1], [2], [3]] output_shape [4, 2, 4, 1] : memref<8x4x1xf32> into memref<4x2x4x1xf32>
// LOWERED-NEXT{LITERAL}:     %alloc_0 = memref.alloc() {alignment = 64 : i64} : memref<2x4x4x1xf32>
// LOWERED-NEXT{LITERAL}:     linalg.transpose ins(%expand_shape : memref<4x2x4x1xf32>) outs(%alloc_0 : memref<2x4x4x1xf32>) permutation = [1, 2, 0, 3] 
// LOWERED-NEXT{LITERAL}:     %collapse_shape = memref.collapse_shape %alloc_0 [[0], [1], [2, 3]] : memref<2x4x4x1xf32> into memref<2x4x4xf32>
// LOWERED-NEXT{LITERAL}:     %alloc_1 = memref.alloc() {alignment = 64 : i64} : memref<2x4x8xf32>
// LOWERED-NEXT{LITERAL}:     linalg.fill ins(%cst : f32) outs(%alloc_1 : memref<2x4x8xf32>)
// LOWERED-NEXT{LITERAL}:     linalg.contract indexing_maps = [#map, #map1, #map2] ins(%collapse_shape, %arg1 : memref<2x4x4xf32>, memref<4x8xf32>) outs(%alloc_1 : memref<2x4x8xf32>)
// LOWERED-NEXT{LITERAL}:     %expand_shape_2 = memref.expand_shape %alloc_1 [[0], [1], [2, 3]] output_shape [2, 4, 2, 4] : memref<2x4x8xf32> into memref<2x4x2x4xf32>
// LOWERED-NEXT{LITERAL}:     %alloc_3 = memref.alloc() {alignment = 64 : i64} : memref<2x2x4x4xf32>
// LOWERED-NEXT{LITERAL}:     linalg.transpose ins(%expand_shape_2 : memref<2x4x2x4xf32>) outs(%alloc_3 : memref<2x2x4x4xf32>) permutation = [2, 0, 1, 3] 
// LOWERED-NEXT{LITERAL}:     %collapse_shape_4 = memref.collapse_shape %alloc_3 [[0, 1], [2], [3]] : memref<2x2x4x4xf32> into memref<4x4x4xf32>
// LOWERED-NEXT{LITERAL}:     %alloc_5 = memref.alloc() : memref<2x4x4xf32>
// LOWERED-NEXT{LITERAL}:     call @mesh_reduce_scatter_0(%collapse_shape_4, %alloc_5) : (memref<4x4x4xf32>, memref<2x4x4xf32>) -> ()
// LOWERED-NEXT{LITERAL}:     linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%alloc_5, %0 : memref<2x4x4xf32>, memref<2x4x4xf32>) outs(%alloc_5 : memref<2x4x4xf32>) {
// LOWERED-NEXT{LITERAL}:     ^bb0(%in: f32, %in_14: f32, %out: f32):
// LOWERED-NEXT{LITERAL}:       %1 = arith.maximumf %in, %in_14 : f32
// LOWERED-NEXT{LITERAL}:       linalg.yield %1 : f32
// LOWERED-NEXT{LITERAL}:     }
// LOWERED-NEXT{LITERAL}:     %alloc_6 = memref.alloc() : memref<4x4x4xf32>
// LOWERED-NEXT{LITERAL}:     call @mesh_all_gather_1(%alloc_5, %alloc_6) : (memref<2x4x4xf32>, memref<4x4x4xf32>) -> ()
// LOWERED-NEXT{LITERAL}:     %expand_shape_7 = memref.expand_shape %alloc_6 [[0, 1], [2], [3]] output_shape [2, 2, 4, 4] : memref<4x4x4xf32> into memref<2x2x4x4xf32>
// LOWERED-NEXT{LITERAL}:     %alloc_8 = memref.alloc() {alignment = 64 : i64} : memref<2x4x2x4xf32>
// LOWERED-NEXT{LITERAL}:     linalg.transpose ins(%expand_shape_7 : memref<2x2x4x4xf32>) outs(%alloc_8 : memref<2x4x2x4xf32>) permutation = [1, 2, 0, 3] 
// LOWERED-NEXT{LITERAL}:     %collapse_shape_9 = memref.collapse_shape %alloc_8 [[0], [1], [2, 3]] : memref<2x4x2x4xf32> into memref<2x4x8xf32>
// LOWERED-NEXT{LITERAL}:     %alloc_10 = memref.alloc() {alignment = 64 : i64} : memref<2x4x4xf32>
// LOWERED-NEXT{LITERAL}:     linalg.fill ins(%cst : f32) outs(%alloc_10 : memref<2x4x4xf32>)
// LOWERED-NEXT{LITERAL}:     linalg.contract indexing_maps = [#map, #map1, #map2] ins(%collapse_shape_9, %arg2 : memref<2x4x8xf32>, memref<8x4xf32>) outs(%alloc_10 : memref<2x4x4xf32>)
// LOWERED-NEXT{LITERAL}:     %expand_shape_11 = memref.expand_shape %alloc_10 [[0], [1], [2, 3]] output_shape [2, 4, 4, 1] : memref<2x4x4xf32> into memref<2x4x4x1xf32>
// LOWERED-NEXT{LITERAL}:     %alloc_12 = memref.alloc() {alignment = 64 : i64} : memref<4x2x4x1xf32>
// LOWERED-NEXT{LITERAL}:     linalg.transpose ins(%expand_shape_11 : memref<2x4x4x1xf32>) outs(%alloc_12 : memref<4x2x4x1xf32>) permutation = [2, 0, 1, 3] 
// LOWERED-NEXT{LITERAL}:     %collapse_shape_13 = memref.collapse_shape %alloc_12 [[0, 1], [2], [3]] : memref<4x2x4x1xf32> into memref<8x4x1xf32>
// LOWERED-NEXT{LITERAL}:     call @mesh_reduce_scatter_1(%collapse_shape_13, %arg3) : (memref<8x4x1xf32>, memref<2x4x1xf32>) -> ()
// LOWERED-NEXT{LITERAL}:     memref.dealloc %alloc : memref<8x4x1xf32>
// LOWERED-NEXT{LITERAL}:     memref.dealloc %alloc_0 : memref<2x4x4x1xf32>
// LOWERED-NEXT{LITERAL}:     memref.dealloc %alloc_1 : memref<2x4x8xf32>
// LOWERED-NEXT{LITERAL}:     memref.dealloc %alloc_3 : memref<2x2x4x4xf32>
// LOWERED-NEXT{LITERAL}:     memref.dealloc %alloc_5 : memref<2x4x4xf32>
// LOWERED-NEXT{LITERAL}:     memref.dealloc %alloc_6 : memref<4x4x4xf32>
// LOWERED-NEXT{LITERAL}:     memref.dealloc %alloc_8 : memref<2x4x2x4xf32>
// LOWERED-NEXT{LITERAL}:     memref.dealloc %alloc_10 : memref<2x4x4xf32>
// LOWERED-NEXT{LITERAL}:     memref.dealloc %alloc_12 : memref<4x2x4x1xf32>
// LOWERED-NEXT{LITERAL}:     return
// LOWERED-NEXT{LITERAL}:   }
// LOWERED-NEXT{LITERAL}: }
