// RUN: shard-opt %s --split-input-file --verify-diagnostics

module {
  // expected-error@+1 {{'builtin.module' op holds 'mesh.cluster' inside of another module}}
  module @inner {
    "mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
  }
}

// -----

shard.grid @g(shape = 2)
// expected-error@+1 {{'builtin.module' op holds 'mesh.annotate' inside of another module}}
module @inner {
  func.func @f(%x: tensor<4xf32>) {
    %0 = "mesh.annotate"(%x) {sharding = #mesh.shard<@g, [[0]]>} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

module {
  // expected-error@+1 {{'builtin.module' op holds 'shard.shard' inside of another module}}
  module @inner {
    shard.grid @g(shape = 2)
    func.func @f(%x: tensor<4xf32>) {
      %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
      %0 = shard.shard %x to %s : tensor<4xf32>
      return
    }
  }
}

// -----

module {
  // expected-error@+1 {{'builtin.module' op holds 'sdy.mesh' inside of another module}}
  module @inner {
    "sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "g"}> : () -> ()
  }
}
