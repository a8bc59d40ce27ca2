// What can be asked without a file.
//
// RUN: shard-opt --show-dialects | filecheck %s --check-prefix=DIALECTS
// RUN: shard-opt --version | filecheck %s --check-prefix=VERSION
// RUN: shard-opt --help > %t
// RUN: filecheck %s --input-file=%t --check-prefix=FIRST
// RUN: shard-opt --help=passes > %t.passes
// RUN: filecheck %s --input-file=%t.passes --check-prefix=HELP
// RUN: shard-opt --list-passes | diff - %t.passes
// RUN: shard-opt --help=options | filecheck %s --check-prefix=OPTIONS
// RUN: shard-opt --help=materialize | filecheck %s --check-prefix=PASS
// RUN: shard-opt --help=auto | filecheck %s --check-prefix=AUTO
// RUN: shard-opt --help=cse | filecheck %s --check-prefix=CSE
// RUN: not shard-opt --help=propagat 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: shard-opt -h > %t.short
// RUN: diff %t %t.short

// DIALECTS: Available Dialects: {{acc|affine}},{{.*}},builtin,{{.*}},memref,mesh,{{.*}},shard,
// VERSION: shard-opt {{[0-9]+[.][0-9]+[.][0-9]+}}
// FIRST: usage: shard-opt [FILE.mlir]
// FIRST: --propagate {{ *}}give every tensor a sharding
// FIRST: --auto
// FIRST: --help=options: all options
// OPTIONS: --verify-diagnostics
// OPTIONS: --mlir-print-local-scope
// PASS: --materialize {{ *}}Make every communication explicit
// PASS-NEXT: objective
// PASS: its passes
// PASS-NOT: --spmd
// CSE: --cse {{ *}}upstream's: Eliminate common sub-expressions
// UNKNOWN: error: no pass that has help is called 'propagat': did you mean '--help=propagate'?
// HELP: passes of ours:
// HELP: --propagate {{ *}}Complete the annotations
// HELP: --materialize {{ *}}Make every communication explicit
// HELP: strict {{ *}}Make an op without a sharding rule an error. (bool, default false)
// HELP: --spmd
// HELP: its passes {{.*}}propagate, sum-apart, split-reductions, shift-slices, materialize, rewrite-collectives, partition, bundle-collectives
// HELP: passes of upstream:
// HELP: --cse {{ *}}Eliminate common sub-expressions
// HELP: and every other pass that is registered in the bindings, by its name
// AUTO: {{^}}--auto[=OPTIONS] {{.*}}shardings for what is not annotated
