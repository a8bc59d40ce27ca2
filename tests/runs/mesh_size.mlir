mesh.cluster @g(rank = 2, dim_sizes = [2, 3])
func.func @main(%x: tensor<6xf32>) -> (tensor<6xf32>, tensor<3xindex>)
    attributes {mesh_cluster = @g} {
  %0 = mesh.annotate %x {sharding = [[0, 1]]} : tensor<6xf32>
  %one = mesh.size {axis = 1 : index} : index
  %some = mesh.size {mesh_axis = [0, 1]} : index
  %all = mesh.size : index
  %n = tensor.from_elements %one, %some, %all : tensor<3xindex>
  %1 = math.exp %0 : tensor<6xf32>
  return %1, %n : tensor<6xf32>, tensor<3xindex>
}
