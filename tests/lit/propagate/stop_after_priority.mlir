// Annotations of priorities after the given one stay on their values, and pass on nothing.
//
// RUN: shard-opt %s --propagate=stop-after-priority=0 | filecheck %s --check-prefix=ZERO
// RUN: shard-opt %s --propagate=stop-after-priority=1 | filecheck %s --check-prefix=ONE
// RUN: shard-opt %s --propagate='stop-after-priority=2 strategy=user-priority' | filecheck %s --check-prefix=TWO
// RUN: shard-opt %s --propagate | filecheck %s --check-prefix=TWO
// RUN: shard-opt %s --propagate=stop-after-priority=0 --spmd -o %t.mlir
// RUN: shard-run %t.mlir --reference %s --check | filecheck %s --check-prefix=NUMBERS

"mesh.cluster"() {sym_name = "g", rank = 3 : i64, dim_sizes = [2, 2, 2]} : () -> ()

// ZERO-LABEL: func.func @main
// ZERO-SAME{LITERAL}: %arg1: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>}
// ZERO-SAME{LITERAL}: %arg2: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [1, 2]]>}
// ZERO: addf{{.*}}[{{\[0\]}}, []]
// ZERO: mulf{{.*}}[{{\[0\]}}, []]
// ONE: addf{{.*}}[{{\[0\]}}, [1]]
// ONE: mulf{{.*}}[{{\[0\]}}, [1]]
// TWO: addf{{.*}}[{{\[0\]}}, [1, 2]]
// NUMBERS: check passed
func.func @main(
    %x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {open = [1]}]>},
    %y: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [1], {open = [0], priority = [unit, 1]}]>},
    %z: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [1, 2], {priority = [unit, 2]}]>}) -> tensor<8x8xf32> {
  %0 = arith.addf %x, %y : tensor<8x8xf32>
  %1 = arith.mulf %0, %z : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
