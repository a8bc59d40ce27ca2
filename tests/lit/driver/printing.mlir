// How the module is printed.
//
// RUN: shard-opt %s | filecheck %s --check-prefix=PLAIN
// RUN: shard-opt %s --mlir-print-op-generic | filecheck %s --check-prefix=GENERIC
// RUN: shard-opt %s --mlir-print-debuginfo | filecheck %s --check-prefix=DEBUG
// RUN: shard-opt %s --mlir-print-local-scope | filecheck %s --check-prefix=LOCAL
// RUN: shard-opt %s --mlir-elide-elementsattrs-if-larger=2 | filecheck %s --check-prefix=ELIDED
// RUN: shard-opt %s --emit-bytecode -o %t.bc
// RUN: shard-opt %t.bc | filecheck %s --check-prefix=PLAIN
// RUN: shard-opt %s -o=%t.file
// RUN: filecheck %s --input-file=%t.file --check-prefix=PLAIN

// PLAIN: #map = affine_map<(d0) -> (d0 + 1)>
// PLAIN: arith.constant dense<[1, 2, 3]>
// GENERIC: "arith.constant"() <{value = dense<[1, 2, 3]>
// DEBUG: affine.apply #map(%arg0) loc(#[[APPLY:loc[0-9]*]])
// DEBUG: #[[APPLY]] = loc("{{.*}}printing.mlir":{{[0-9]+}}:8)
// LOCAL-NOT: #map
// LOCAL: affine.apply affine_map<(d0) -> (d0 + 1)>(%arg0)
// ELIDED: arith.constant dense_resource<__elided__>

func.func @main(%i: index) -> (index, tensor<3xi32>) {
  %0 = affine.apply affine_map<(d0) -> (d0 + 1)>(%i)
  %1 = arith.constant dense<[1, 2, 3]> : tensor<3xi32>
  return %0, %1 : index, tensor<3xi32>
}
