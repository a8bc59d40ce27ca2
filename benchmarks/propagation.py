"""What completing shardings costs, beside Shardy and upstream MLIR, in one process.

    python -m benchmarks.propagation [--runs 3] [--layers 1 6 24 96] [--chain 100 1000 10000]

Decoders are lowered by JAX (StableHLO), each layer's weights annotated; ours is the pass
`propagate`, Shardy's `sdy-propagation-pipeline` (jaxlib). Chains are `linalg.matmul`s, the first
one's operand annotated; upstream's pass is `sharding-propagation` (torch_mlir). Modules are parsed
before the clock starts, each side by its own MLIR; the minimum of the runs counts.

Memory is the most that Python holds at once for ours (`tracemalloc`, in a run of its own), over the
parsed module.
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable

from jax._src.interpreters import mlir as jax_mlir
from jaxlib.mlir import ir as jaxlib_ir
from jaxlib.mlir import passmanager as jaxlib_passes
from tabulate import tabulate

from benchmarks.decoders import decoder
from shard_dialect.ir.bindings import PassManager, ir, without_op_classes
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline


def chain(layers: int) -> str:
    type_ = "tensor<128x128xf32>"
    lines = [
        "shard.grid @g(shape = 4)",
        f"func.func @main(%x: {type_}, %w: {type_}) -> {type_} {{",
        "%s = shard.sharding @g split_axes = [[0]] : !shard.sharding",
        f"%v0 = shard.shard %x to %s annotate_for_users : {type_}",
        "%z = arith.constant 0.0 : f32",
    ]
    for number in range(layers):
        lines += [
            f"%e{number} = tensor.empty() : {type_}",
            f"%f{number} = linalg.fill ins(%z : f32) outs(%e{number} : {type_}) -> {type_}",
            f"%v{number + 1} = linalg.matmul ins(%v{number}, %w : {type_}, {type_}) "
            f"outs(%f{number} : {type_}) -> {type_}",
        ]
    return "\n".join([*lines, f"return %v{layers} : {type_}", "}"])


def ours(text: str) -> tuple[float, int]:
    """Seconds, and the number of ops."""
    with make_context():
        module = Source.of(text).parse()
        count = count_ops(module.operation, ir)
        start = time.process_time()
        run_pipeline(module, "propagate")
        return time.process_time() - start, count


def memory(text: str) -> int:
    """The most bytes that Python holds while ours runs."""
    with make_context():
        module = Source.of(text).parse()
        tracemalloc.start()
        run_pipeline(module, "propagate")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak


def shardy(text: str) -> float:
    with jax_mlir.make_ir_context() as context:
        context.enable_multithreading(False)
        module = jaxlib_ir.Module.parse(text)
        passes = jaxlib_passes.PassManager.parse("builtin.module(sdy-propagation-pipeline)")
        start = time.process_time()
        passes.run(module.operation)
        return time.process_time() - start


def upstream(text: str) -> float:
    with make_context():
        module = Source.of(text).parse()
        passes = PassManager.parse("builtin.module(func.func(sharding-propagation))")
        start = time.process_time()
        passes.run(module.operation)
        return time.process_time() - start


def count_ops(module: "ir.Operation", bindings: object) -> int:
    count = 0

    def found(_: object) -> object:
        nonlocal count
        count += 1
        return ir.WalkResult.ADVANCE

    module.walk(found)
    return count


def row(name: str, text: str, peer: Callable[[str], float], runs: int) -> list[str]:
    pairs = [(ours(text), peer(text)) for _ in range(runs)]
    seconds = min(mine for (mine, _), _ in pairs)
    theirs = min(other for _, other in pairs)
    count = pairs[0][0][1]
    return [
        name,
        str(count),
        f"{seconds:.3f}",
        f"{theirs:.3f}",
        f"{seconds / count * 1e6:.0f}",
        f"{theirs / count * 1e6:.0f}",
        f"{seconds / theirs:.2f}",
        f"{memory(text) / count:.0f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--layers", type=int, nargs="*", default=[1, 6, 24, 96])
    parser.add_argument("--chain", type=int, nargs="*", default=[100, 1000, 10000])
    options = parser.parse_args()
    without_op_classes()
    head = ["program", "ops", "ours s", "peer s", "ours us/op", "peer us/op", "ratio", "bytes/op"]
    rows = [row(f"decoder {n}, Shardy", decoder(n), shardy, options.runs) for n in options.layers]
    rows += [row(f"chain {n}, upstream", chain(n), upstream, options.runs) for n in options.chain]
    print(tabulate(rows, head, disable_numparse=True))


if __name__ == "__main__":
    main()
