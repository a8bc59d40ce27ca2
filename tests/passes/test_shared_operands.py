"""What products that are alike read in common is gathered once, where each alone would not be."""

import pytest

import shard_dialect as sd

INNER, ROWS, COLUMNS = 512, 24, 40
EACH = ROWS * INNER * 4 // 2 + ROWS * COLUMNS * 4 // 4
"""The bytes to gather the rows of one product, and to give its result's columns for rows."""
COMMON = INNER * COLUMNS * 4 // 2
"""The bytes to gather the columns that all products read."""


def products(count: int) -> str:
    """Products of rows by the same columns, on two devices, each with its result's rows split."""
    x, w, y = (
        f"tensor<{'x'.join(map(str, shape))}xf32>"
        for shape in ((ROWS, INNER), (INNER, COLUMNS), (ROWS, COLUMNS))
    )
    rows, columns = (
        f"{{mesh.sharding = #mesh.shard<@g, [{each}]>}}" for each in ("[0], []", "[], [0]")
    )
    arguments = "".join(f", %x{n}: {x} {rows}" for n in range(count))
    ops = "".join(
        f"%y{n} = stablehlo.dot_general %x{n}, %w, contracting_dims = [1] x [0]"
        f" : ({x}, {w}) -> {y}\n"
        for n in range(count)
    )
    return (
        f"shard.grid @g(shape = 2)\n"
        f"func.func @main(%w: {w} {columns}{arguments})"
        f" -> ({', '.join([f'{y} {rows}'] * count)}) {{\n{ops}"
        f"return {', '.join(f'%y{n}' for n in range(count))} : {', '.join([y] * count)}\n}}"
    )


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_the_fewest_bytes_move(count: int) -> None:
    compiled = sd.compile(sd.parse(products(count)))
    assert compiled.report.bytes_moved == min(count * EACH, COMMON)
    assert compiled.check().passed


def test_a_transpose_of_what_is_gathered_is_not_gathered_again() -> None:
    """The gradient of weights reads the transpose of what the product before read."""
    x, w, g = "tensor<256x64xf32>", "tensor<64x1024xf32>", "tensor<256x1024xf32>"
    rows, columns = (
        f"{{mesh.sharding = #mesh.shard<@g, {split}>}}" for split in ("[[0], []]", "[[], [0]]")
    )
    text = f"""
    shard.grid @g(shape = 4)
    func.func @main(%x: {x} {rows}, %w: {w} {columns}, %g: {g} {columns})
        -> ({g} {columns}, {w} {columns}) {{
      %s = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({x}, {w}) -> {g}
      %t = stablehlo.transpose %x, dims = [1, 0] : ({x}) -> tensor<64x256xf32>
      %r = stablehlo.dot_general %t, %g, contracting_dims = [1] x [0]
        : (tensor<64x256xf32>, {g}) -> {w}
      return %s, %r : {g}, {w}
    }}"""
    module = sd.run_pipeline(sd.parse(text), "spmd")
    assert sd.communication(module).bytes_moved == 3 * 64 * 64 * 4


def test_products_of_a_tensor_with_its_transpose_come_to_an_end() -> None:
    """A step of Newton and Schulz, as the optimizer Muon takes it."""
    w, split = "tensor<64x64xf32>", "{mesh.sharding = #mesh.shard<@g, [[0], [1]]>}"
    lines = [
        f"%t = stablehlo.transpose %w, dims = [1, 0] : ({w}) -> {w}",
        f"%a = stablehlo.dot_general %w, %t, contracting_dims = [1] x [0] : ({w}, {w}) -> {w}",
        f"%b = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : ({w}, {w}) -> {w}",
        f"%c = stablehlo.add %a, %b : {w}",
        f"%d = stablehlo.dot_general %c, %w, contracting_dims = [1] x [0] : ({w}, {w}) -> {w}",
        f"%r = stablehlo.add %w, %d : {w}",
    ]
    text = "\n".join(
        [
            "shard.grid @g(shape = 2x4)",
            f"func.func @main(%w: {w} {split}) -> ({w} {split}) {{",
            *lines,
            f"return %r : {w}",
            "}",
        ]
    )
    assert sd.compile(sd.parse(text)).check().passed
