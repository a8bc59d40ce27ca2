// RUN: shard-opt %s --split-input-file --propagate --verify-diagnostics

// Six of eight devices in rows of three: no grid of all has such rows.
// expected-note@+1 {{@devices(8) is a grid that the compiler has made: the devices of @m(2x4)}}
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"}> : () -> ()
// expected-note@+1 {{@first_6(6) is a part of @devices that the compiler has made: the devices of @small(2x3)}}
"sdy.mesh"() <{mesh = #sdy.mesh<["s"=2, "t"=3]>, sym_name = "small"}> : () -> ()
func.func @crossing(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y"}]>}) -> tensor<8x8xf32> {
  // expected-error@+1 {{this manual computation is along axes ["s"] of @small(2x3), which become ["0:(1)2"] of @first_6(6): declare grids whose sizes along axes divide each other, from the last axis on}}
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@small, [{"s"}, {}]>]>,
      manual_axes = #sdy<manual_axes{"s"}>,
      out_shardings = #sdy.sharding_per_value<[<@small, [{"s"}, {}]>]>}> ({
  ^bb0(%a: tensor<4x8xf32>):
    "sdy.return"(%a) : (tensor<4x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// A collective inside names axes of the grid, which another one would not have.
"mesh.cluster"() {sym_name = "m", rank = 1 : i64, dim_sizes = [4]} : () -> ()
// expected-note@+1 {{@first_2(2) is a part of @m that the compiler has made: the devices of @small(2)}}
"mesh.cluster"() {sym_name = "small", rank = 1 : i64, dim_sizes = [2]} : () -> ()
func.func @named_axes(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@m, [[0]]>}) -> tensor<8xf32> {
  // expected-error@+2 {{this manual computation is along axes [0] of @small(2), which becomes @first_2(2), and an op in it names axes: declare @small as a part, by 'mesh.sub_cluster'}}
  %r =
      scf.execute_region -> tensor<8xf32> no_inline {
    %a = "mesh.to_local"(%x) {manual_axes = [0], sharding = #mesh.shard<@small, [[0]]>} : (tensor<8xf32>) -> tensor<4xf32>
    %i = "mesh.idx"() {axis = 0 : index, cluster = @small} : () -> index
    %j = arith.index_cast %i : index to i64
    %f = arith.sitofp %j : i64 to f32
    %s = tensor.splat %f : tensor<4xf32>
    %b = arith.addf %a, %s : tensor<4xf32>
    %y = "mesh.to_global"(%b) {manual_axes = [0], sharding = #mesh.shard<@small, [[0]]>} : (tensor<4xf32>) -> tensor<8xf32>
    scf.yield %y : tensor<8xf32>
  } {mesh.manual_axes = [0]}
  return %r : tensor<8xf32>
}

// -----

"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "m"}> : () -> ()
// expected-note@+1 {{@first_2(1x2) is a part of @m that the compiler has made: the devices of @small(2)}}
"sdy.mesh"() <{mesh = #sdy.mesh<["s"=2]>, sym_name = "small"}> : () -> ()
func.func @constrained_inside(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y"}]>}) -> tensor<8x8xf32> {
  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>,
      manual_axes = #sdy<manual_axes{"x"}>,
      out_shardings = #sdy.sharding_per_value<[<@m, [{"x"}, {}]>]>}> ({
  ^bb0(%a: tensor<4x8xf32>):
    // expected-error@+1 {{op is in a manual computation, and passes a tensor of it on to other devices}}
    %1 = "sdy.sharding_constraint"(%a) <{sharding = #sdy.sharding<@small, [{"s"}, {}]>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    "sdy.return"(%1) : (tensor<4x8xf32>) -> ()
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
