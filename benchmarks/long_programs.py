"""What CPU time compiling long programs costs, from text to machine code, and how it grows.

    python benchmarks/long_programs.py [--ops 200 400 800] [--kinds chain insert ...]

Each kind is a program of so many ops on tensors of 64x64, its argument split on two devices. `x2`
is how many times as long twice as many ops take: 2 where time grows as the program does.
"""

import argparse
import time
from collections.abc import Callable, Iterator

from tabulate import tabulate

from shard_dialect.ir.bindings import without_op_classes
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.runtime.compile import compile_sharded

T = "tensor<64x64xf32>"


def chain(number: int) -> Iterator[str]:
    """Each op works on what the last one made."""
    yield f"%x{number + 1} = arith.addf %x{number}, %w : {T}"


def stablehlo(number: int) -> Iterator[str]:
    yield f"%x{number + 1} = stablehlo.add %x{number}, %w : {T}"


def accumulate(number: int) -> Iterator[str]:
    """Products that are added to what there is."""
    yield f"%x{number + 1} = linalg.matmul ins(%x0, %w : {T}, {T}) outs(%x{number} : {T}) -> {T}"


def insert(number: int) -> Iterator[str]:
    """Rows that are written over those of one tensor."""
    row = "tensor<1x64xf32>"
    yield f"%r{number} = tensor.extract_slice %w[{number % 64}, 0] [1, 64] [1, 1] : {T} to {row}"
    yield (
        f"%x{number + 1} = tensor.insert_slice %r{number} into "
        f"%x{number}[{number % 64}, 0] [1, 64] [1, 1] : {row} into {T}"
    )


def reduce(number: int) -> Iterator[str]:
    """Sums of rows, which all elements of a row are made smaller by."""
    yield f"%z{number} = stablehlo.constant dense<0.0> : tensor<f32>"
    yield (
        f"%s{number} = stablehlo.reduce(%x{number} init: %z{number}) applies stablehlo.add "
        f"across dimensions = [1] : ({T}, tensor<f32>) -> tensor<64xf32>"
    )
    wide = f"stablehlo.broadcast_in_dim %s{number}, dims = [0]"
    yield f"%b{number} = {wide} : (tensor<64xf32>) -> {T}"
    yield f"%x{number + 1} = stablehlo.subtract %x{number}, %b{number} : {T}"


def products(number: int) -> Iterator[str]:
    """Products with one matrix, and what lies between them."""
    yield f"%y{number} = stablehlo.tanh %x{number} : {T}"
    yield (
        f"%x{number + 1} = stablehlo.dot_general %y{number}, %w, contracting_dims = [1] x [0] "
        f": ({T}, {T}) -> {T}"
    )


KINDS: dict[str, Callable[[int], Iterator[str]]] = {
    each.__name__: each for each in (chain, stablehlo, accumulate, insert, reduce, products)
}


def program(kind: str, ops: int) -> str:
    lines, steps = [], 0
    while len(lines) < ops:
        lines += KINDS[kind](steps)
        steps += 1
    inside = "\n  ".join([*lines, f"return %x{steps} : {T}"])
    return (
        "shard.grid @g(shape = 2)\n"
        f"func.func @main(%x0: {T} {{mesh.sharding = #mesh.shard<@g, [[0]]>}}, %w: {T}) -> {T} {{\n"
        f"  {inside}\n}}\n"
    )


def seconds(text: str) -> float:
    with make_context():
        source = Source.of(text)
        begin = time.process_time()
        compile_sharded(source)
        return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--ops", type=int, nargs="+", default=[200, 400, 800])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options = parser.parse_args()
    without_op_classes()
    seconds(program("chain", 8))  # what is imported once
    rows = []
    for kind in options.kinds:
        times = [seconds(program(kind, ops)) for ops in options.ops]
        growth = (times[-1] / times[0]) ** (1 / max(1, len(times) - 1)) if len(times) > 1 else 1.0
        rows.append([kind, *(f"{each:.1f} s" for each in times), f"{growth:.1f}"])
    print(tabulate(rows, ["kind", *(f"{each} ops" for each in options.ops), "x2"], "github"))


if __name__ == "__main__":
    main()
