// What can be asked without a file.
//
// RUN: shard-opt --show-dialects | filecheck %s --check-prefix=DIALECTS
// RUN: shard-opt --version | filecheck %s --check-prefix=VERSION
// RUN: shard-opt --help > %t
// RUN: filecheck %s --input-file=%t --check-prefix=HELP
// RUN: shard-opt -h > %t.short
// RUN: diff %t %t.short

// DIALECTS: Available Dialects: {{acc|affine}},{{.*}},builtin,{{.*}},memref,mesh,{{.*}},shard,
// VERSION: shard-opt {{[0-9]+[.][0-9]+[.][0-9]+}}
// HELP: --verify-diagnostics
// HELP: passes of ours:
// HELP: --propagate {{ *}}Complete the annotations
// HELP: --materialize {{ *}}Make every communication explicit
// HELP-NEXT: strict {{ *}}Make an op without a sharding rule an error. (bool, default false)
// HELP: --spmd {{.*}}propagate, split-reductions, shift-slices, materialize, optimize-collectives, partition
// HELP: passes of upstream:
// HELP: --cse {{ *}}Eliminate common sub-expressions
// HELP: and every other pass that is registered in the bindings, by its name
