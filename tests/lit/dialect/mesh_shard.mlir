// What a sharding says is printed as it is read: split, partial by each kind, sub-axes, halos, offsets.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
"mesh.cluster"() {sym_name = "unknown", rank = 2 : i64} : () -> ()

// CHECK-LABEL: func.func private @split
// CHECK-SAME{LITERAL}: #mesh.shard<@g, [[], []]>
// CHECK-SAME{LITERAL}: #mesh.shard<@g, [[0], []]>
// CHECK-SAME{LITERAL}: #mesh.shard<@g, [[1, 0], []]>
// CHECK-SAME{LITERAL}: #mesh.shard<@unknown, [[0], [1]]>
func.func private @split(tensor<4x8xf32, #mesh.shard<@g, []>>, tensor<4x8xf32, #mesh.shard<@g, [[0]]>>,
                         tensor<4x8xf32, #mesh.shard<@g, [[1, 0], []]>>,
                         tensor<4x8xf32, #mesh.shard<@unknown, [[0], [1]]>>)

// CHECK-LABEL: func.func private @partial
// CHECK-SAME{LITERAL}: #mesh.shard<@g, [[], [0]]>
// CHECK-SAME{LITERAL}: #mesh.shard<@g, [[], {sum = [0]}]>
// CHECK-SAME{LITERAL}: #mesh.shard<@g, [[1], {max = [0]}]>
// CHECK-SAME{LITERAL}: #mesh.shard<@g, [[], {min = [0, 1]}]>
// CHECK-SAME{LITERAL}: #mesh.shard<@g, [{product = [1]}]>
func.func private @partial(tensor<4xf32, #mesh.shard<@g, [[], [0]]>>, tensor<4xf32, #mesh.shard<@g, [[], {sum = [0]}]>>,
                           tensor<4xf32, #mesh.shard<@g, [[1], {max = [0]}]>>,
                           tensor<4xf32, #mesh.shard<@g, [[], {min = [0, 1]}]>>,
                           tensor<f32, #mesh.shard<@g, [{product = [1]}]>>)

// CHECK-LABEL: func.func private @parts_of_axes
// CHECK-SAME{LITERAL}: #mesh.shard<@g, [["1:(1)2"], ["1:(2)4"]]>
// CHECK-SAME{LITERAL}: #mesh.shard<@g, [["1:(4)2", 0, "1:(1)2"], [], ["1:(2)2"]]>
// CHECK-SAME{LITERAL}: #mesh.shard<@unknown, [["0:(1)2"], []]>
func.func private @parts_of_axes(tensor<4x8xf32, #mesh.shard<@g, [["1:(1)2"], ["1:(2)4"]]>>,
                                 tensor<8x8xf32, #mesh.shard<@g, [["1:(4)2", 0, "1:(1)2"], [], ["1:(2)2"]]>>,
                                 tensor<4x8xf32, #mesh.shard<@unknown, [["0:(1)2"], []]>>)

// CHECK-LABEL: func.func private @annotations
// CHECK-SAME{LITERAL}: mesh.sharding = #mesh.shard<@g, [[0], [], {open = [0, 1]}]>
// CHECK-SAME{LITERAL}: mesh.sharding = #mesh.shard<@g, [[0], [], {open = [1], priority = [1, 0]}]>
// CHECK-SAME{LITERAL}: mesh.sharding = #mesh.shard<@g, [[0], [], {priority = [2, unit]}]>
// CHECK-SAME{LITERAL}: mesh.sharding = #mesh.shard<@g, [[0], [], {open = [1], replicated = ["1:(1)4"]}]>
// CHECK-SAME{LITERAL}: mesh.sharding = #mesh.shard<@g, [[0], [], {halo = [[1, 2], []]}]>
// CHECK-SAME{LITERAL}: mesh.sharding = #mesh.shard<@g, [[0], [], {offsets = [[0, 1, 4], []]}]>
func.func private @annotations(
    tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {open = [0, 1]}]>},
    tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {open = [1], priority = [1, 0]}]>},
    tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {priority = [2, unit]}]>},
    tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {open = [1], replicated = ["1:(1)4"]}]>},
    tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {halo = [[1, 2], []]}]>},
    tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {offsets = [[0, 1, 4], []]}]>})
