"""StableHLO's own tests of its interpreter, split at random: all devices have what they expect.

    python -m benchmarks.stablehlo_tests STABLEHLO [--only scatter] [--seed 0] [--list]

`STABLEHLO` is a checkout of https://github.com/openxla/stablehlo. Each file of its `testdata` has
one op of JAX's, its inputs and what it gives. Here the inputs are arguments, which are split at
random on a random grid of two to eight devices, and so are the results in half of the programs; the
uneven dimensions, too. The numbers that all devices together give are compared with those of the
file.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
from tabulate import tabulate

import shard_dialect as sd
from benchmarks import children
from shard_dialect.abi.tensor_types import Array
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_shared_context
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import body, operations
from shard_dialect.testing import reference_of
from shard_dialect.testing.placement import cluster, encoding
from shard_dialect.testing.random_shardings import any_grid, any_sharding

FOLDER = "stablehlo/testdata"
GRIDS = ((2,), (3,), (4,), (8,), (2, 2), (2, 4), (4, 2), (2, 2, 2))
TOLERANCES = {"float64": 1e-9, "complex128": 1e-9, "float32": 2e-4, "complex64": 2e-4}
"""Relative to each element, and a tenth of it to the largest; 5e-2 for narrower elements."""


def made_by(text: str, function: str) -> list[Array]:
    """What a function of the module without arguments gives, by XLA."""
    with make_shared_context():
        module = Source.of(text).parse()
        for name, each in _functions(module).items():
            if name == function:
                each.attributes["sym_name"] = ir.StringAttr.get("main")
                each.attributes["sym_visibility"] = ir.StringAttr.get("public")
            elif name in GIVEN:
                each.erase()
        return reference_of(str(module)).run([])


def split_at_random(text: str, seed: str) -> str:
    """The op of the test as a function of its inputs, which are split."""
    rng = Random(seed)
    grid = any_grid(rng, GRIDS)

    def drawn(types: Sequence[ir.RankedTensorType], share: float) -> ir.ArrayAttr:
        asked = (any_sharding(rng, tuple(each.shape), grid) for each in types)
        texts = [encoding(each) if rng.random() < share else "{}" for each in asked]
        return ir.ArrayAttr.get([ir.Attribute.parse(each.strip()) for each in texts])

    with make_shared_context(), ir.Location.unknown():
        module = Source.of(text).parse()
        functions = _functions(module)
        arguments, results = _give_arguments(functions["main"])
        for name in GIVEN[1:]:
            if name in functions:
                functions[name].erase()
        ir.InsertionPoint.at_block_begin(module.body).insert(ir.Operation.parse(cluster(grid)))
        functions["main"].attributes["arg_attrs"] = drawn(arguments, 0.85)
        functions["main"].attributes["res_attrs"] = drawn(results, 0.5)
        functions["main"].attributes["mesh_cluster"] = ir.FlatSymbolRefAttr.get(grid.name)
        return str(module)


GIVEN = ("main", "inputs", "expected")
"""The functions of a test: `main` compares what it makes of the inputs with what is expected."""


def _functions(module: ir.Module) -> dict[str, ir.Operation]:
    return {name_of(each): each for each in functions_of(module.operation)}


def _give_arguments(
    main: ir.Operation,
) -> tuple[list[ir.RankedTensorType], list[ir.RankedTensorType]]:
    """Let the function take its inputs, and compare nothing; the types of both its ends."""
    block = body(main)
    calls = {str(op.attributes["callee"]): op for op in operations(block) if op.name == "func.call"}
    for op in operations(block):
        if op.name == "stablehlo.custom_call" and "check." in str(
            op.attributes["call_target_name"]
        ):
            op.erase()
    for value in calls["@inputs"].results if "@inputs" in calls else ():
        value.replace_all_uses_with(block.add_argument(value.type, ir.Location.unknown()))
    for name in ("@inputs", "@expected"):
        if name in calls:
            calls[name].erase()
    results = [each.type for each in operations(block)[-1].operands]
    arguments = [each.type for each in block.arguments]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(arguments, results))
    return arguments, results


def is_close(made: Array, expected: Array) -> bool:
    """Whether the results are equal within the rounding of their elements."""
    if made.shape != expected.shape or made.dtype.kind in "iub":
        return bool(np.array_equal(made, expected))
    rounding = TOLERANCES.get(str(made.dtype), 5e-2)
    wide = np.complex128 if made.dtype.kind == "c" else np.float64
    ours, theirs = made.astype(wide), expected.astype(wide)
    largest = max(1.0, float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0)))
    with np.errstate(all="ignore"):
        return np.allclose(ours, theirs, rounding, rounding * largest / 10, equal_nan=True)


def outcome(path: Path, seed: int) -> str:
    """What becomes of a test: "right", "wrong", or why it is not run."""
    text = path.read_text()
    inputs = made_by(text, "inputs") if "@inputs" in text else []
    expected = made_by(text, "expected")
    program = split_at_random(text, f"{seed}/{path.name}")
    try:
        made = sd.compile(sd.parse(program))(*inputs)
    except sd.ShardError as error:
        return f"refused: {str(error).splitlines()[0]}"
    results = made if isinstance(made, tuple) else (made,)
    pairs = zip(map(np.asarray, results), expected, strict=True)
    return "right" if all(is_close(*pair) for pair in pairs) else f"wrong:\n{program}"


def _child(folder: Path, seed: int) -> None:
    warnings.simplefilter("ignore", sd.ShardWarning)
    children.answer(outcome(folder / name, seed) for name in children.asked())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stablehlo", type=Path, help="a checkout of StableHLO")
    parser.add_argument("--only", default="", help="only tests whose names have this text")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="name the tests that are not right")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        _child(given.stablehlo, given.seed)
        return
    folder = (given.stablehlo / FOLDER).resolve()
    names = sorted(path.name for path in folder.glob("*.mlir") if given.only in path.name)
    command = ["benchmarks.stablehlo_tests", "--child", f"--seed={given.seed}", str(folder)]
    outcomes = children.in_children(command, names, "ended: {}".format)
    found = dict(zip(names, outcomes, strict=True))
    counts = Counter(each.partition(":")[0] for each in found.values())
    print(tabulate([["tests", len(found)], *counts.most_common()], tablefmt="plain", intfmt=","))
    for name, each in found.items() if given.list else ():
        if each != "right":
            print(f"{name}: {each}")


if __name__ == "__main__":
    main()
