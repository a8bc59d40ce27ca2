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
