"""The training step of a perceptron with any number of layers, as text: forward, backward, SGD."""


def training_step(layers: int, batch: int, width: int, grid: str) -> str:
    """`@main` takes the batch, its targets and the weights; it returns the loss and new weights."""
    x, w = f"tensor<{batch}x{width}xf32>", f"tensor<{width}x{width}xf32>"
    weights = ", ".join(f"%w{layer}: {w}" for layer in range(layers))
    lines = [
        f"shard.grid @grid(shape = {grid})",
        f"func.func @main(%x: {x}, %y: {x}, {weights}) -> (tensor<f32>{f', {w}' * layers}) {{",
        "  %zero = stablehlo.constant dense<0.0> : tensor<f32>",
        f"  %one = stablehlo.constant dense<1.0> : {x}",
        f"  %scale = stablehlo.constant dense<{2.0 / (batch * width)}> : {x}",
        f"  %rate = stablehlo.constant dense<0.1> : {w}",
    ]
    for layer in range(layers):
        before = f"%h{layer - 1}" if layer else "%x"
        lines += [
            f"  %z{layer} = stablehlo.dot_general {before}, %w{layer}, "
            f"contracting_dims = [1] x [0] : ({x}, {w}) -> {x}",
            f"  %h{layer} = stablehlo.tanh %z{layer} : {x}",
        ]
    lines += [
        f"  %e = stablehlo.subtract %h{layers - 1}, %y : {x}",
        f"  %s = stablehlo.multiply %e, %e : {x}",
        "  %loss = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = "
        f"[0, 1] : ({x}, tensor<f32>) -> tensor<f32>",
        f"  %g{layers} = stablehlo.multiply %e, %scale : {x}",
    ]
    for layer in reversed(range(layers)):
        before = f"%h{layer - 1}" if layer else "%x"
        lines += [
            f"  %q{layer} = stablehlo.multiply %h{layer}, %h{layer} : {x}",
            f"  %r{layer} = stablehlo.subtract %one, %q{layer} : {x}",
            f"  %d{layer} = stablehlo.multiply %g{layer + 1}, %r{layer} : {x}",
            f"  %u{layer} = stablehlo.dot_general {before}, %d{layer}, "
            f"contracting_dims = [0] x [0] : ({x}, {x}) -> {w}",
        ]
        if layer:
            lines.append(
                f"  %g{layer} = stablehlo.dot_general %d{layer}, %w{layer}, "
                f"contracting_dims = [1] x [1] : ({x}, {w}) -> {x}"
            )
        lines += [
            f"  %v{layer} = stablehlo.multiply %u{layer}, %rate : {w}",
            f"  %n{layer} = stablehlo.subtract %w{layer}, %v{layer} : {w}",
        ]
    new = ", ".join(f"%n{layer}" for layer in range(layers))
    return "\n".join([*lines, f"  return %loss, {new} : tensor<f32>{f', {w}' * layers}", "}\n"])
