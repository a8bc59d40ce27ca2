// RUN: shard-opt %s --split-input-file --verify-diagnostics

func.func @no_direction(%x: tensor<4xf32>) {
  // expected-error@+1 {{'mesh.propagation_barrier' op attribute "allowed_direction" is expected but not provided}}
  %0 = "mesh.propagation_barrier"(%x) {} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @an_unknown_direction(%x: tensor<4xf32>) {
  // expected-error@+1 {{'mesh.propagation_barrier' op allows direction 'sideways'}}
  %0 = "mesh.propagation_barrier"(%x) {allowed_direction = "sideways"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @both_directions(%x: tensor<4xf32>) {
  // expected-error@+1 {{'mesh.propagation_barrier' op allows direction 'both'}}
  %0 = "mesh.propagation_barrier"(%x) {allowed_direction = "both"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @a_number(%x: tensor<4xf32>) {
  // expected-error@+1 {{'mesh.propagation_barrier' op allows direction '1'}}
  %0 = "mesh.propagation_barrier"(%x) {allowed_direction = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @not_a_tensor(%x: f32) {
  // expected-error@+1 {{'mesh.propagation_barrier' op is on a f32}}
  %0 = "mesh.propagation_barrier"(%x) {allowed_direction = "none"} : (f32) -> f32
  return
}

// -----

func.func @another_type(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected 'tensor<4xf32>' but got 'tensor<8xf32>'}}
  %0 = "mesh.propagation_barrier"(%x) {allowed_direction = "none"} : (tensor<4xf32>) -> tensor<8xf32>
  return
}
