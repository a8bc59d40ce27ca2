// Mutations of annotations: a list with what each costs, one of them by its number, or any other by name.
//
// RUN: shard-opt %s --list-mutations | filecheck %s --check-prefix=LIST
// RUN: shard-opt %s --mutate=0 | filecheck %s --check-prefix=FIRST
// RUN: shard-opt %s --mutate='down=[[], []]' --mutate='up=[[], [model]]' | filecheck %s --check-prefix=NAMED
// RUN: shard-opt %s --entry=other --list-mutations | filecheck %s --check-prefix=OTHER
// RUN: not shard-opt %s --mutate=99 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not shard-opt %s --mutate='up=[[], [nothing]]' 2>&1 | filecheck %s --check-prefix=AXIS

sdy.mesh @mesh = <["data"=2, "model"=4]>

// LIST: "number": 0,
// LIST-NEXT: "kind": "annotation",
// LIST-NEXT: "what": "x",
// LIST-NEXT: "before": "{{\[\[}}\"data\"], []]",
// LIST-NEXT: "after": "{{\[\[}}], []]",
// LIST-NEXT: "alike": 1,
// LIST-NEXT: "bytes_change": 64,
// LIST: "kind": "value",
// LIST-NEXT: "what": "'stablehlo.dot_general' op at {{.*}}mutations.mlir:32:8",
// LIST: "kind": "loops",
// FIRST: @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}
// NAMED: @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}
// NAMED-SAME: %arg1: tensor<4x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}
// NAMED-SAME: %arg2: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}
// UNKNOWN: error: --mutate=99: there is no such mutation: --list-mutations lists them
// AXIS: error: --mutate=up={{.*}}: grid @mesh has no axis "nothing"; its axes: "data", "model"
func.func @main(
    %x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
    %up: tensor<4x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>},
    %down: tensor<16x4xf32>) -> tensor<8x4xf32> {
  %u = stablehlo.dot_general %x, %up, contracting_dims = [1] x [0]
      : (tensor<8x4xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
  %y = stablehlo.dot_general %u, %down, contracting_dims = [1] x [0]
      : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// OTHER-NOT: "what": "x"
// OTHER: "what": "z"
func.func @other(%z: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>}) -> tensor<8xf32> {
  return %z : tensor<8xf32>
}
