// A collective on a buffer reads a copy of it, and fills a new buffer; an update of halos is in place.
//
// RUN: shard-opt %s --lower | filecheck %s

shard.grid @g(shape = 4)

// CHECK-LABEL: func.func @of_a_part
func.func @of_a_part(%m: memref<4x2xf32>) attributes {mesh.form = "local"} {
  // CHECK: %[[PART:.*]] = memref.subview %arg0[0, 1] [4, 1] [1, 1]
  %s = memref.subview %m[0, 1] [4, 1] [1, 1] : memref<4x2xf32> to memref<4x1xf32, strided<[2, 1], offset: 1>>
  // CHECK: %[[COPY:.*]] = memref.alloc() {{.*}}: memref<4x1xf32>
  // CHECK: linalg.copy ins(%[[PART]] : {{.*}}) outs(%[[COPY]] : memref<4x1xf32>)
  // CHECK: call @mesh_update_halo_0(%[[COPY]], %[[FILLED:.*]]) : (memref<4x1xf32>, memref<4x1xf32>) -> ()
  // CHECK: linalg.copy ins(%[[FILLED]] : memref<4x1xf32>) outs(%[[PART]]
  %r = shard.update_halo %s on @g split_axes = [[0]] halo_sizes = [1, 1] : memref<4x1xf32, strided<[2, 1], offset: 1>>
  return
}
