"""The programs of the lit tests, partitioned: none that is right is refuted."""

import warnings
from pathlib import Path

import pytest

import shard_dialect as sd
from shard_dialect.errors import ShardError, ShardWarning
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline

LIT = Path(__file__).parents[1] / "lit"
UNKNOWN = {
    "dialect/mesh_sub_cluster": "sizes of a part of a grid",
    "export-sdy/invalid": "a function without a body",
    "flow/forall": "scf.forall",
    "manual/stages": "manual computations on a part of a grid",
    "manual/stages_free_axes": "manual computations on a part of a grid",
    "run/unknown_op": "an op without a meaning",
    "sdy/sharding_rule": "a function without a body",
    "sdy/smaller_meshes": "a manual computation on a smaller mesh",
}

NOT_COMPARED = ("only a run knows", "no program of global tensors")


@pytest.mark.slow
@pytest.mark.parametrize("folder", sorted(each.name for each in LIT.iterdir() if each.is_dir()))
def test_their_partitions_are_proven(folder: str) -> None:
    for path in sorted((LIT / folder).rglob("*.mlir")):
        name = str(path.relative_to(LIT).with_suffix(""))
        for source in _sources(path):
            proof = _proof(source)
            if proof is None or any(words in str(proof) for words in NOT_COMPARED):
                continue
            assert proof.answer != "refuted", (name, str(proof))
            assert proof.answer == "proven" or name in UNKNOWN, (name, str(proof))


def _sources(path: Path) -> "list[Source]":
    try:
        return Source.read_split_input(str(path))
    except ShardError:  # one that is to be refused
        return []


def _proof(source: Source) -> "sd.Proof | None":
    with make_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        try:
            module = source.parse()
            run_pipeline(module, "spmd,canonicalize")
            return sd.prove(source.parse(), module)
        except ShardError:
            return None
