"""Twenty modules on eight threads, each in a context of its own: compiled, run and reported on.

    python examples/library/many_threads.py

Contexts of MLIR are for one thread at a time; the package holds nothing across them.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import shard_dialect as sd

MODULE = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<{rows}x8xf32> {{mesh.sharding = #mesh.shard<@g, [[], [0]]>}},
                %w: tensor<8x4xf32>) -> tensor<{rows}x4xf32> {{
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<{rows}x8xf32>, tensor<8x4xf32>) -> tensor<{rows}x4xf32>
  return %0 : tensor<{rows}x4xf32>
}}
"""


def work(rows: int) -> tuple[int, tuple[sd.Diagnostic, ...]]:
    """What a module of so many rows communicates, and what was said about it, on this thread."""
    module = sd.parse(MODULE.format(rows=rows))
    program = sd.compile(module)
    x, w = np.ones((rows, 8), np.float32), np.ones((8, 4), np.float32)
    np.testing.assert_array_equal(program(x, w), x @ w)
    report = sd.report(module)
    return report.bytes_moved, program.diagnostics + report.diagnostics


if __name__ == "__main__":
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(1, 21)))
    print(found)
    assert found == [(2 * rows * 4 * 4 // 2, ()) for rows in range(1, 21)]
