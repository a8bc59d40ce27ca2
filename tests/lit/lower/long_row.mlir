// A row of ops, each over what the last one made, gets new memory now and then: bufferization's time
// is cubic in its length.
//
// RUN: shard-opt %s --lower | filecheck %s

shard.grid @g(shape = 1)

// CHECK: memref.alloc
// CHECK-NOT: memref.alloc
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
  %0 = math.tanh %x : tensor<4xf32>
  %1 = math.tanh %0 : tensor<4xf32>
  %2 = math.tanh %1 : tensor<4xf32>
  %3 = math.tanh %2 : tensor<4xf32>
  %4 = math.tanh %3 : tensor<4xf32>
  %5 = math.tanh %4 : tensor<4xf32>
  %6 = math.tanh %5 : tensor<4xf32>
  %7 = math.tanh %6 : tensor<4xf32>
  %8 = math.tanh %7 : tensor<4xf32>
  %9 = math.tanh %8 : tensor<4xf32>
  %10 = math.tanh %9 : tensor<4xf32>
  %11 = math.tanh %10 : tensor<4xf32>
  %12 = math.tanh %11 : tensor<4xf32>
  %13 = math.tanh %12 : tensor<4xf32>
  %14 = math.tanh %13 : tensor<4xf32>
  %15 = math.tanh %14 : tensor<4xf32>
  %16 = math.tanh %15 : tensor<4xf32>
  %17 = math.tanh %16 : tensor<4xf32>
  %18 = math.tanh %17 : tensor<4xf32>
  %19 = math.tanh %18 : tensor<4xf32>
  %20 = math.tanh %19 : tensor<4xf32>
  %21 = math.tanh %20 : tensor<4xf32>
  %22 = math.tanh %21 : tensor<4xf32>
  %23 = math.tanh %22 : tensor<4xf32>
  %24 = math.tanh %23 : tensor<4xf32>
  %25 = math.tanh %24 : tensor<4xf32>
  %26 = math.tanh %25 : tensor<4xf32>
  %27 = math.tanh %26 : tensor<4xf32>
  %28 = math.tanh %27 : tensor<4xf32>
  %29 = math.tanh %28 : tensor<4xf32>
  %30 = math.tanh %29 : tensor<4xf32>
  %31 = math.tanh %30 : tensor<4xf32>
  %32 = math.tanh %31 : tensor<4xf32>
  %33 = math.tanh %32 : tensor<4xf32>
  %34 = math.tanh %33 : tensor<4xf32>
  %35 = math.tanh %34 : tensor<4xf32>
  %36 = math.tanh %35 : tensor<4xf32>
  %37 = math.tanh %36 : tensor<4xf32>
  %38 = math.tanh %37 : tensor<4xf32>
  %39 = math.tanh %38 : tensor<4xf32>
  %40 = math.tanh %39 : tensor<4xf32>
  %41 = math.tanh %40 : tensor<4xf32>
  %42 = math.tanh %41 : tensor<4xf32>
  %43 = math.tanh %42 : tensor<4xf32>
  %44 = math.tanh %43 : tensor<4xf32>
  %45 = math.tanh %44 : tensor<4xf32>
  %46 = math.tanh %45 : tensor<4xf32>
  %47 = math.tanh %46 : tensor<4xf32>
  %48 = math.tanh %47 : tensor<4xf32>
  %49 = math.tanh %48 : tensor<4xf32>
  %50 = math.tanh %49 : tensor<4xf32>
  %51 = math.tanh %50 : tensor<4xf32>
  %52 = math.tanh %51 : tensor<4xf32>
  %53 = math.tanh %52 : tensor<4xf32>
  %54 = math.tanh %53 : tensor<4xf32>
  %55 = math.tanh %54 : tensor<4xf32>
  %56 = math.tanh %55 : tensor<4xf32>
  %57 = math.tanh %56 : tensor<4xf32>
  %58 = math.tanh %57 : tensor<4xf32>
  %59 = math.tanh %58 : tensor<4xf32>
  %60 = math.tanh %59 : tensor<4xf32>
  %61 = math.tanh %60 : tensor<4xf32>
  %62 = math.tanh %61 : tensor<4xf32>
  %63 = math.tanh %62 : tensor<4xf32>
  %64 = math.tanh %63 : tensor<4xf32>
  %65 = math.tanh %64 : tensor<4xf32>
  %66 = math.tanh %65 : tensor<4xf32>
  %67 = math.tanh %66 : tensor<4xf32>
  %68 = math.tanh %67 : tensor<4xf32>
  %69 = math.tanh %68 : tensor<4xf32>
  return %69 : tensor<4xf32>
}
