// `--bisect` checks; where that fails it names the first op whose value on the devices is another.
//
// RUN: not shard-run %s --bisect --entry product 2>&1 >%t.out | filecheck %s --check-prefix=PRODUCT
// RUN: filecheck %s --check-prefix=OUT --input-file=%t.out
// RUN: not shard-run %s --check --entry product 2>&1 | filecheck %s --check-prefix=ALONE
// RUN: not shard-run %s --bisect --entry product --json 2>%t.err | filecheck %s --check-prefix=JSON
// RUN: not shard-run %s --bisect --entry second 2>&1 | filecheck %s --check-prefix=SECOND
// RUN: not shard-run %s --bisect --entry loop 2>&1 | filecheck %s --check-prefix=LOOP
// RUN: not shard-run %s --bisect --entry caller 2>&1 | filecheck %s --check-prefix=CALLER
// RUN: not shard-run %s --bisect --entry blocks 2>&1 | filecheck %s --check-prefix=BLOCKS
// RUN: shard-run %s --bisect --entry right 2>&1 | filecheck %s --check-prefix=RIGHT
// RUN: shard-opt %s --propagate --materialize -o %t.mlir
// RUN: not shard-run %t.mlir --bisect --entry product 2>&1 | filecheck %s --check-prefix=DISTRIBUTED

shard.grid @g(shape = 2)

// A rule that says what is not so: the parts of a sum are not its largest.
//
// OUT: {{^}}check failed{{$}}
// PRODUCT: bisect.mlir:{{[0-9]+}}:8: error: the result of 'stablehlo.dot_general' op on device 0 at {{.*}} is {{.*}}, expected {{.*}}: the difference
// PRODUCT-NEXT: note: result0 on device 0
// ALONE: {{^}}error: result0 on device 0 {{.*}} (the unsharded program was run by {{.*}})
// ALONE-NEXT: note: --bisect names the first op whose value on the devices is another; --prove judges
// JSON: "check": {"passed": false, {{.*}}"origin": "the result of 'stablehlo.dot_general' op {{.*}}", "location": "{{.*}}bisect.mlir:{{[0-9]+}}:8"}
// DISTRIBUTED: error: the result of 'stablehlo.dot_general' op
func.func @product(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>},
                   %w: tensor<8x4xf32>)
    -> (tensor<4x4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) {
  %0 = math.tanh %x : tensor<4x8xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]
      {mesh.sharding_rule = "([a, c], [c, b]) -> ([a, b]) reduction={c: max}"}
    : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %2 = math.exp %1 : tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

func.func private @pair(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {no_inline} {
  %0 = math.tanh %x : tensor<8xf32>
  %c = stablehlo.constant dense<1.0> : tensor<f32>
  %1 = stablehlo.pad %x, %c, low = [1], high = [-1], interior = [0]
      {mesh.sharding_rule = "([a], []) -> ([a])"} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// SECOND: bisect.mlir:{{[0-9]+}}:10: error: result 1 of 'func.call' op
func.func @second(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<8xf32> {
  %0:2 = call @pair(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  %1 = arith.addf %0#0, %0#1 : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// CALLER: bisect.mlir:{{[0-9]+}}:8: error: the result of 'func.call' op
func.func @caller(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>},
                  %w: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %0 = call @product(%x, %w) : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %1 = math.absf %0 : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// LOOP: bisect.mlir:{{[0-9]+}}:8: error: the result of 'scf.for' op
func.func @loop(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<8xf32> {
  %0 = math.absf %x : tensor<8xf32>
  %from = arith.constant 0 : index
  %to = arith.constant 3 : index
  %step = arith.constant 1 : index
  %c = stablehlo.constant dense<1.0> : tensor<f32>
  %1 = scf.for %i = %from to %to step %step iter_args(%each = %0) -> tensor<8xf32> {
    %2 = stablehlo.pad %each, %c, low = [1], high = [-1], interior = [0]
        {mesh.sharding_rule = "([a], []) -> ([a])"} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    scf.yield %2 : tensor<8xf32>
  }
  return %1 : tensor<8xf32>
}

// What is in a block behind the first one is not looked at; what comes before is.
//
// BLOCKS: bisect.mlir:{{[0-9]+}}:8: error: the result of 'stablehlo.pad' op
func.func @blocks(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %c: tensor<i1>)
    -> tensor<8xf32> {
  %0 = stablehlo.negate %x : tensor<8xf32>
  %flag = tensor.extract %c[] : tensor<i1>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %1 = stablehlo.pad %0, %one, low = [1], high = [-1], interior = [0]
      {mesh.sharding_rule = "([a], []) -> ([a])"} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  cf.cond_br %flag, ^then, ^else
^then:
  %2 = math.exp %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
^else:
  return %1 : tensor<8xf32>
}

// RIGHT: check passed
func.func @right(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<8xf32> {
  %0 = math.exp %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
