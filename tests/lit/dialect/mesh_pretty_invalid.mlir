// An error in the RFC's spelling has the file's own line and column.
//
// RUN: shard-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{'mesh.cluster' op: expected a list, as [2, 3]; it is written as mesh.cluster @name(rank = ..., dim_sizes = ...)}}
mesh.cluster @g(rank = 2, dim_sizes = 2x3)

// -----

// expected-error@+1 {{'mesh.cluster' op: expected a name, as @m}}
mesh.cluster(rank = 2, dim_sizes = [2, 3])

// -----

// expected-error@+1 {{unknown op 'mesh.clusters': docs/dialect.md lists the ops of 'mesh'}}
mesh.clusters @g(rank = 2, dim_sizes = [2, 3])

// -----

// expected-error@+1 {{'mesh.sub_cluster' op: expected (cluster = ...); it is written as mesh.sub_cluster @name(cluster = ..., offsets = ..., sizes = ...)}}
mesh.sub_cluster @g of @h

// -----

mesh.cluster @g(rank = 1, dim_sizes = [2])
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh_cluster = @g} {
  %0 = math.exp %x : tensor<4xf32> %1 = math.exp %0 : tensor<4xf32>
  // expected-error@+1 {{'mesh.annotate' op: expected '}' that closes '{'}}
  %2 = mesh.annotate %1 {sharding = [[0]} : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

mesh.cluster @g(rank = 1, dim_sizes = [2])
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'mesh.annotate' op: expected an operand, as %0}}
  %2 = mesh.annotate {sharding = [[0]]} : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

mesh.cluster @g(rank = 1, dim_sizes = [2])
func.func @main(%x: tensor<4xf32, #mesh.shard<[[0]]>>) -> tensor<4xf32> attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'mesh.all_gather' op: expected -> and the type of the result; it is written as mesh.all_gather %0 {...} : type -> type}}
  %2 = mesh.all_gather %x {mesh_axis = [[0]]} : tensor<4xf32, #mesh.shard<[[0]]>>
  return %2 : tensor<4xf32>
}

// -----

mesh.cluster @g(rank = 1, dim_sizes = [2])
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'mesh.annotate' op: expected a type}}
  %2 = mesh.annotate %x {sharding = [[0]]} : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// What is not closed is closed by the function's bracket.
mesh.cluster @g(rank = 1, dim_sizes = [2])
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh_cluster = @g} {
  // expected-error@+1 {{'mesh.annotate' op: expected '}' that closes '{'; it is written as mesh.annotate %0 {...} : type -> type}}
  %0 = mesh.annotate %x {sharding = [[0]], required = true : tensor<4xf32> -> tensor<4xf32>
  %1 = mesh.annotate %0 {sharding = [[0]]} : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// The outer brackets are missing, and not only around lists of axes.
mesh.cluster @g(rank = 1, dim_sizes = [2])
func.func @main(%x: tensor<4x4xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{#mesh.shard holds several lists: write them as one, #mesh.shard<[[...], [...]]>}}
  %2 = mesh.annotate %x {#mesh.shard<[], [0], {open = [0]}>} : tensor<4x4xf32>
  return
}

// -----

// What looks like an op in a comment, "mesh.cluster @g", or in a string is none; nor is an attribute's name.
func.func @mesh.cluster(%x: tensor<4xf32>) attributes {mesh.form = "local", mesh.cluster = "mesh.cluster @g"} {
  func.call @mesh.cluster(%x) : (tensor<4xf32>) -> ()
  // expected-error@+1 {{'mesh.size' op: expected : index; it is written as mesh.size {axis = 0 : index} : index}}
  %0:2 = mesh.size on @g : index, index
  return
}

// -----

// What MLIR and our verifier find has the file's columns, too.
mesh.cluster @g(rank = 1, dim_sizes = [2]) mesh.cluster @h(rank = 1, dim_sizes = [2])
func.func @main(%x: tensor<4x4xf32>) attributes {mesh_cluster = @g} {
  // expected-error@+1 {{use of undeclared SSA value name}}
  %0 = mesh.annotate %x {#mesh.shard<[[0]]>} : tensor<4x4xf32> %1 = mesh.annotate %y {#mesh.shard<[[1]]>} : tensor<4x4xf32>
  return
}
