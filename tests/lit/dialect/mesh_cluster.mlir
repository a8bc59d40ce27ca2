// A cluster's sizes may be given, unknown (0, -1, left out), named, and in an order of devices.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s | shard-opt | filecheck %s

// CHECK: "mesh.cluster"() {dim_sizes = [2, 4], rank = 2 : i64, sym_name = "known"}
"mesh.cluster"() {sym_name = "known", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
// CHECK: "mesh.cluster"() {dim_sizes = [2, 0, -1], rank = 3 : i64, sym_name = "two_unknown"}
"mesh.cluster"() {sym_name = "two_unknown", rank = 3 : i64, dim_sizes = [2, 0, -1]} : () -> ()
// CHECK: "mesh.cluster"() {dim_sizes = [2], rank = 3 : i64, sym_name = "first_known"}
"mesh.cluster"() {sym_name = "first_known", rank = 3 : i64, dim_sizes = [2]} : () -> ()
// CHECK: "mesh.cluster"() {rank = 2 : i64, sym_name = "unknown"}
"mesh.cluster"() {sym_name = "unknown", rank = 2 : i64} : () -> ()
// CHECK: "mesh.cluster"() {dim_sizes = [], rank = 0 : i64, sym_name = "no_axes"}
"mesh.cluster"() {sym_name = "no_axes", rank = 0 : i64, dim_sizes = []} : () -> ()
// CHECK: "mesh.cluster"() {dim_sizes = array<i64: 2, 4>, rank = 2 : i32, sym_name = "other_integers"}
"mesh.cluster"() {sym_name = "other_integers", rank = 2 : i32, dim_sizes = array<i64: 2, 4>} : () -> ()
// CHECK: "mesh.cluster"() {axis_names = ["x", "y"], dim_sizes = [2, 2], rank = 2 : i64, sym_name = "named"}
"mesh.cluster"() {sym_name = "named", rank = 2 : i64, dim_sizes = [2, 2], axis_names = ["x", "y"]} : () -> ()
// CHECK: "mesh.cluster"() {device_ids = [3, 1, 2, 0], dim_sizes = [2, 2], rank = 2 : i64, sym_name = "ordered"}
"mesh.cluster"() {sym_name = "ordered", rank = 2 : i64, dim_sizes = [2, 2], device_ids = [3, 1, 2, 0]} : () -> ()
// CHECK: "mesh.cluster"() {device_ids = [7], rank = 0 : i64, sym_name = "one_device"}
"mesh.cluster"() {sym_name = "one_device", rank = 0 : i64, device_ids = [7]} : () -> ()
