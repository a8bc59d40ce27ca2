"""What the prover says of upstream's partitioner, beside what a run of its programs says.

    python -m tests.testing.upstream_table

prints the table of docs/proof.md. Upstream's `shard-partition` reshards a 12x12 tensor on a 2x2
grid from each of 11 shardings to each other one, in a process each, since some it does not survive.
"""

import argparse
import subprocess
import sys
import warnings
from collections import Counter

from tabulate import tabulate

import shard_dialect as sd
from shard_dialect.errors import ShardError, ShardWarning
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.reading.source import Source
from shard_dialect.proof.prove import prove
from shard_dialect.runtime.compiled_program import CompiledProgram
from tests.planner.test_reshard_pairs import PAIRS

ANSWERS = ("proven", "refuted", "unknown")
REFUSED = "refused, or crashes"
PROGRAM = """
shard.grid @g(shape = 2x2)
func.func @main(%x: tensor<12x12xf32>) -> tensor<12x12xf32> {{
  %from = shard.sharding @g split_axes = {source} : !shard.sharding
  %to = shard.sharding @g split_axes = {target} : !shard.sharding
  %0 = shard.shard %x to %from : tensor<12x12xf32>
  %1 = shard.shard %0 to %to annotate_for_users : tensor<12x12xf32>
  %2 = tosa.sigmoid %1 : (tensor<12x12xf32>) -> tensor<12x12xf32>
  %3 = shard.shard %2 to %to : tensor<12x12xf32>
  %4 = shard.shard %3 to %to annotate_for_users : tensor<12x12xf32>
  return %4 : tensor<12x12xf32>
}}"""


def judged(number: int) -> str:
    """What a run and the prover say of one reshard: `right proven`, for instance."""
    source, target = PAIRS[number]
    text = PROGRAM.format(source=_listed(source), target=_listed(target))
    module = sd.parse(text)
    try:
        sd.run_pipeline(module, "func.func(sharding-propagation,shard-partition)")
    except ShardError:
        return REFUSED
    with module.context, ir.Location.unknown():
        _say_where(module, source, target)
        proof = prove(sd.parse(text), module)
        verdict = CompiledProgram(
            Source.of(module.operation.get_asm(enable_debug_info=True)), "devices", "main"
        ).check(unsharded=Source.of(text))
    return f"{'right' if verdict.passed else 'wrong'} {proof.answer}"


def _listed(sharding: sd.Sharding) -> str:
    return "[" + ", ".join(str(list(axes)) for axes in sharding.split_axes) + "]"


def _say_where(module: ir.Module, source: sd.Sharding, target: sd.Sharding) -> None:
    """Upstream does not say how the arguments and results of a local function lie: it is ours."""
    function = next(op.operation for op in module.body if op.operation.name == "func.func")
    for key, name, sharding in (
        ("arg_attrs", "mesh.argument", source),
        ("res_attrs", "mesh.result", target),
    ):
        encoding = f", #mesh.shard<@g, {_listed(sharding)}>" if any(sharding.split_axes) else ""
        where = ir.Attribute.parse(f"tensor<12x12xf32{encoding}>")
        function.attributes[key] = ir.ArrayAttr.get([ir.DictAttr.get({name: where})])
    function.attributes["mesh.form"] = ir.StringAttr.get("local")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", type=int, help="print what is said of this one only")
    options = parser.parse_args()
    if options.pair is not None:
        warnings.simplefilter("ignore", ShardWarning)
        print(judged(options.pair))
        return
    counted = Counter[str]()
    for number, pair in enumerate(PAIRS):
        command = [sys.executable, "-m", "tests.testing.upstream_table", "--pair", str(number)]
        process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if process.returncode > 0:
            raise RuntimeError(process.stderr)
        said = process.stdout.strip() if process.returncode == 0 else REFUSED
        counted[said] += 1
        if said not in ("right proven", "wrong refuted", REFUSED):
            print(f"{pair[0]} to {pair[1]}: {said}")
    rows = [
        [what, *(counted[f"{what} {answer}"] for answer in ANSWERS)] for what in ("right", "wrong")
    ]
    print(tabulate(rows, ["a run says", *ANSWERS], "github"))
    print(f"{counted[REFUSED]} of {len(PAIRS)} are {REFUSED}")


if __name__ == "__main__":
    main()
