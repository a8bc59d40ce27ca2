// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @not_a_name() {
  // expected-error@+1 {{'scf.execute_region' op attribute 'mesh.named_computation' must be a string, found 1 : i64}}
  scf.execute_region no_inline {
    scf.yield
  } {mesh.named_computation = 1 : i64}
  return
}

// -----

func.func @another_op(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{'math.tanh' op has mesh.named_computation, which only 'scf.execute_region' may have}}
  %0 = math.tanh %x {mesh.named_computation = "f"} : tensor<8x8xf32>
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @more_shardings_than_results(%x: tensor<4xf32>) {
  // expected-error@+1 {{'scf.execute_region' op has 2 mesh.shardings for 1 results}}
  %0 = scf.execute_region -> tensor<4xf32> no_inline {
    scf.yield %x : tensor<4xf32>
  } {mesh.named_computation = "f", mesh.shardings = [unit, #mesh.shard<@g, [[0]]>]}
  return
}
