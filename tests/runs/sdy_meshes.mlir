// Meshes of the same devices, one with the devices in an order of its own, and one of one device.
"sdy.mesh"() <{mesh = #sdy.mesh<["a"=2, "b"=2]>, sym_name = "square"}> : () -> ()
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=2], device_ids=[0, 1, 3, 2]>, sym_name = "ring"}> : () -> ()
"sdy.mesh"() <{mesh = #sdy.mesh<["z"=4]>, sym_name = "line"}> : () -> ()
"sdy.mesh"() <{mesh = #sdy.mesh<[], device_ids=[2]>, sym_name = "one"}> : () -> ()
func.func @several(%x: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@square, [{"a"}, {"b"}]>})
    -> (tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@line, [{}, {"z"}]>}) {
  %0 = stablehlo.exponential %x : tensor<4x8xf32>
  %1 = "sdy.sharding_constraint"(%0) <{sharding = #sdy.sharding<@ring, [{"x"}, {"y"}]>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = stablehlo.tanh %1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
func.func @main(%x: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@square, [{"a"}, {"b"}]>}) -> tensor<4x8xf32> {
  %0 = stablehlo.exponential %x : tensor<4x8xf32>
  %1 = "sdy.sharding_constraint"(%0) <{sharding = #sdy.sharding<@one, []>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = stablehlo.tanh %1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
