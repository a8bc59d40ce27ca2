"""Manual computations as JAX writes them: `shard_map` with some axes of its mesh manual.

    python -m tests.shard_maps FOLDER

writes the text of each program and, from eight virtual devices, its inputs and JAX's results.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import numpy as np

from tests.shard_maps import one_axis, several_axes  # noqa: F401 (they fill the table)
from tests.shard_maps.case import CASES


def write(folder: Path) -> None:
    for name, (program, shapes) in CASES.items():
        random = np.random.default_rng(len(name))
        inputs = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
        jitted = jax.jit(program)
        (folder / f"{name}.mlir").write_text(jitted.lower(*inputs).as_text())
        results = [np.asarray(each) for each in jax.tree.leaves(jitted(*inputs))]
        given = {f"arg{number}": each for number, each in enumerate(inputs)}
        np.savez(
            folder / f"{name}.npz",
            **given,
            **{f"result{number}": each for number, each in enumerate(results)},
        )


if __name__ == "__main__":
    write(Path(sys.argv[1]))
