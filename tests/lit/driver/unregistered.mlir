// Ops of unknown dialects are read when that is asked for.
//
// RUN: not shard-opt %s 2>&1 | filecheck %s --check-prefix=REFUSED
// RUN: shard-opt %s --allow-unregistered-dialect | filecheck %s

// REFUSED: unregistered.mlir:{{[0-9]+}}:13: error: operation is of a dialect that is not registered: register it by sd.register_dialect in a plugin, which --load-plugin names
// CHECK: "nowhere.op"() : () -> ()

"nowhere.op"() : () -> ()
