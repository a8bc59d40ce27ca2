// A result that is annotated on another stage than it is made on is passed on there.
//
// RUN: shard-opt %s --propagate | filecheck %s
// RUN: shard-run %s --check | filecheck %s --check-prefix=RAN

// CHECK: func.func @main({{.*}}shard_dialect.stage = @first}) -> ({{.*}}shard_dialect.stage = @second})
// CHECK: %[[R:.*]] = mesh.collective_permute %{{.*}} {{.*}}shard_dialect.stages = [@first, @second]
// CHECK: return %[[R]]
// RAN: collective_permute
// RAN: check passed
"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "first", cluster = @g, offsets = [0, 0], sizes = [1, 2]} : () -> ()
"mesh.sub_cluster"() {sym_name = "second", cluster = @g, offsets = [1, 0], sizes = [1, 2]} : () -> ()
func.func @main(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@first, [[1]]>})
    -> (tensor<8xf32> {mesh.sharding = #mesh.shard<@second, [[1]]>}) {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
