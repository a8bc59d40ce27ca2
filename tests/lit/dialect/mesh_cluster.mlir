// A cluster's sizes may be given, unknown (0, -1, left out), named, and in an order of devices.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s | shard-opt | filecheck %s

// CHECK: mesh.cluster @known(rank = 2, dim_sizes = [2, 4])
"mesh.cluster"() {sym_name = "known", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
// CHECK: mesh.cluster @two_unknown(rank = 3, dim_sizes = [2, 0, -1])
"mesh.cluster"() {sym_name = "two_unknown", rank = 3 : i64, dim_sizes = [2, 0, -1]} : () -> ()
// CHECK: mesh.cluster @first_known(rank = 3, dim_sizes = [2])
"mesh.cluster"() {sym_name = "first_known", rank = 3 : i64, dim_sizes = [2]} : () -> ()
// CHECK: mesh.cluster @unknown(rank = 2)
"mesh.cluster"() {sym_name = "unknown", rank = 2 : i64} : () -> ()
// CHECK: mesh.cluster @no_axes(rank = 0, dim_sizes = [])
"mesh.cluster"() {sym_name = "no_axes", rank = 0 : i64, dim_sizes = []} : () -> ()
// CHECK: mesh.cluster @other_integers(rank = 2 : i32, dim_sizes = array<i64: 2, 4>)
"mesh.cluster"() {sym_name = "other_integers", rank = 2 : i32, dim_sizes = array<i64: 2, 4>} : () -> ()
// CHECK: mesh.cluster @named(rank = 2, dim_sizes = [2, 2]) {axis_names = ["x", "y"]}
"mesh.cluster"() {sym_name = "named", rank = 2 : i64, dim_sizes = [2, 2], axis_names = ["x", "y"]} : () -> ()
// CHECK: mesh.cluster @ordered(rank = 2, dim_sizes = [2, 2]) {device_ids = [3, 1, 2, 0]}
"mesh.cluster"() {sym_name = "ordered", rank = 2 : i64, dim_sizes = [2, 2], device_ids = [3, 1, 2, 0]} : () -> ()
// CHECK: mesh.cluster @one_device(rank = 0) {device_ids = [7]}
"mesh.cluster"() {sym_name = "one_device", rank = 0 : i64, device_ids = [7]} : () -> ()
