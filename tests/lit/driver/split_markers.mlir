// Modules of one file are separated by the line that the flags give, in the input and in the output.
//
// RUN: shard-opt %s --split-input-file | filecheck %s --check-prefix=DEFAULT
// RUN: shard-opt %s --split-input-file='// ====' --output-split-marker='// ++++' | filecheck %s
// RUN: shard-opt %s --split-input-file --output-split-marker='// ++++' | filecheck %s --check-prefix=OUTPUT

// DEFAULT: @a
// DEFAULT: @b
// DEFAULT: {{^}}// -----{{$}}
// DEFAULT: @c
// OUTPUT: @b
// OUTPUT: {{^}}// ++++{{$}}
// OUTPUT: @c
// CHECK-NOT: // -----
// CHECK: @a
// CHECK: {{^}}// ++++{{$}}
// CHECK: @b
// CHECK: @c
func.func private @a()
// ====
func.func private @b()
// -----
func.func private @c()
