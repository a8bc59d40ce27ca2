// Meshes have axes with names, devices in an order, one device for all, or nothing.
//
// RUN: shard-opt %s --verify-roundtrip | filecheck %s
// RUN: shard-opt %s --mlir-print-op-generic | shard-opt | filecheck %s

// CHECK: sdy.mesh @named = <["x"=2, "y"=4]>
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "named"}> : () -> ()
// CHECK: sdy.mesh @strange_names = <["x"=1, "long name, with = <marks>"=4]>
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=1, "long name, with = <marks>"=4]>, sym_name = "strange_names"}> : () -> ()
// CHECK: sdy.mesh @ordered = <["x"=2, "y"=2], device_ids=[0, 2, 1, 3]>
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=2], device_ids=[0, 2, 1, 3]>, sym_name = "ordered"}> : () -> ()
// CHECK: sdy.mesh @maximal = <[], device_ids=[5]>
"sdy.mesh"() <{mesh = #sdy.mesh<[], device_ids=[5]>, sym_name = "maximal"}> : () -> ()
// CHECK: sdy.mesh @empty = <[]>
"sdy.mesh"() <{mesh = #sdy.mesh<[]>, sym_name = "empty"}> : () -> ()
// Attributes of any op, in the text that all versions of MLIR print.
// CHECK: sdy.mesh @as_attributes = <["x"=2]>
"sdy.mesh"() {mesh = #sdy.mesh<["x"=2]>, sym_name = "as_attributes"} : () -> ()

// CHECK-LABEL: func.func @on_them
// CHECK-SAME{LITERAL}: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@named, [{"x"}, {}]>}
// CHECK-SAME{LITERAL}: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@maximal, []>}
// CHECK-SAME{LITERAL}: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@empty, [{}, {?}]>}
// CHECK-SAME{LITERAL}: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<mesh<["z"=4]>, [{"z"}, {}]>}
func.func @on_them(%a: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@named, [{"x"}, {}]>},
                   %b: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@maximal, []>},
                   %c: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@empty, [{}, {?}]>},
                   %d: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<mesh<["z"=4]>, [{"z"}, {}]>}) {
  return
}
