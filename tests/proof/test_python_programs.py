"""Programs in Python are judged as others are: none with a fault is proven."""

import re
import sys
from pathlib import Path
from random import Random

import pytest

from shard_dialect.backends.python.python_module import TARGETS
from shard_dialect.backends.python.writer import Target
from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.proof.prove import Proof
from shard_dialect.runtime.confirmed_proof import Unsharded, proof_of_emitted
from shard_dialect.testing.random_program import Program, any_program
from tests.conftest import ROOT, run_child
from tests.extras import missing, needs, skip_without
from tests.slow import seed_of
from tests.testing.python_faults import emitted, faults_in, give_the_same, proof_of

EXAMPLES = sorted((ROOT / "examples").glob("*.mlir"))
pytestmark = pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_proven(path: Path, target: Target, tmp_path: Path) -> None:
    program = Program(path.read_text(), ())
    python = emitted(program.text, target)
    assert python is not None
    assert proof_of(program, python, tmp_path).answer == "proven"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(16))
def test_no_fault_is_proven(
    seed: int, target: Target, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if target == "torch" and missing(["torch"]):
        skip_without("torch")  # a refutation is confirmed by it
    seed = 1000 * seed_of(request.config) + seed
    program = any_program(Random(seed))
    python = emitted(program.text, target)
    if python is None:
        return
    assert proof_of(program, python, tmp_path).answer != "refuted"
    for kind, wrong in Random(seed).sample(faults_in(python), k=min(2, len(faults_in(python)))):
        try:
            proof = proof_of(program, wrong, tmp_path)
        except ShardError:
            continue
        is_same = proof.answer == "proven" and give_the_same(program, python, wrong, tmp_path)
        assert proof.answer != "proven" or is_same, kind


IN_GROUPS_OF_THE_BATCH = Program(
    """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x2x6xf32> {mesh.sharding = #mesh.shard<@g, [[], [0], []]>},
                %k: tensor<6x2x3xf32> {mesh.sharding = #mesh.shard<@g, [[], [0], []]>})
    -> tensor<2x6x6xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0],
    window = {pad = [[1, 1]]} {batch_group_count = 2 : i64, feature_group_count = 1 : i64}
    : (tensor<4x2x6xf32>, tensor<6x2x3xf32>) -> tensor<2x6x6xf32>
  return %0 : tensor<2x6x6xf32>
}
""",
    (),
)


@pytest.mark.parametrize("target", TARGETS)
def test_convolutions_in_groups_of_the_batch_are_proven(target: Target, tmp_path: Path) -> None:
    python = emitted(IN_GROUPS_OF_THE_BATCH.text, target)
    assert python is not None
    assert proof_of(IN_GROUPS_OF_THE_BATCH, python, tmp_path).answer == "proven"


SUM = Program(
    """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%x: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>})
    -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.tanh %x : tensor<4x6xf32>
  %2 = stablehlo.reduce(%1 init: %0) applies stablehlo.add across dimensions = [1]
    : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
""",
    (),
)
BY_HAND = """
import argparse
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
parser = argparse.ArgumentParser()
parser.add_argument("--inputs")
parser.add_argument("--outputs")
options = parser.parse_args()
with np.load(options.inputs) as file:
    x = file["arg0"]
own = np.tanh(x[:, 3 * world.rank : 3 * world.rank + 3])
part = np.ascontiguousarray(own.sum(axis=1))
total = np.empty_like(part)
world.Allreduce(part, total, MPI.SUM)
copies = world.gather(total, root=0)
if world.rank == 0:
    result = np.zeros(4, np.float32)
    for each in copies:
        result[:] = each
    np.savez(options.outputs, result0=result)
"""
CHANGES = {
    "as it is": ("", "", "proven", ""),
    "another function": ("np.tanh", "np.sin", "refuted", "a run on random inputs confirms it"),
    "a slice of another rank": ("3 * world.rank :", "0 :", "refuted", "confirms"),
    "one rank's copy": ("copies = ", "total += world.rank == 0\ncopies = ", "refuted", "copies"),
    "zeros on another rank": (
        "copies = ",
        "total = np.zeros_like(total) if world.rank else total\ncopies = ",
        "refuted",
        "ranks have different copies",
    ),
    "another sign on another rank": (
        "copies = ",
        "total = -total if world.rank else total\ncopies = ",
        "refuted",
        "ranks have different copies",
    ),
    "no sum": ("world.Allreduce(part, total, MPI.SUM)", "total = part", "refuted", "confirms"),
    "a sum that is not written": ("world.Allreduce(part, total, MPI.SUM)", "", "refuted", ""),
    "a rank that waits": ("world.Allreduce(", "world.rank or world.Allreduce(", "refuted", "wait"),
    "a choice": ("part = ", "assert own.sum() > 0\npart = ", "unknown", "program.py:14"),
    "unknown": ("np.tanh(", "np.unwrap(", "unknown", "np.unwrap is not known"),
    "another file": ("np.load(options.inputs)", 'np.load("other.npz")', "unknown", "other.npz"),
    "a sum in place": ("part = ", "own += 1\npart = ", "refuted", "confirms"),
    "all ranks write": (
        "if world.rank == 0:",
        "copies = copies or [total]\nif True:",
        "unknown",
        "",
    ),
    "a loop that runs on": ("part = ", "while True: own += 1\npart = ", "unknown", "a loop"),
    "the end of its process": ("part = ", "__import__('os')._exit(3)\npart = ", "unknown", "ended"),
    "an error": ("part = ", "part = 1 / 0 + ", "unknown", "ZeroDivisionError"),
    "an error of numpy's alone": (
        "part = ",
        'x.copy("X")\npart = ',
        "unknown",
        "it raises ValueError",
    ),
    "no text": ("import argparse", "import argparse :", "unknown", "invalid syntax"),
}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(change, id=name, marks=[pytest.mark.slow] * ("runs on" in name))
        for name, change in CHANGES.items()
    ],
)
def test_what_is_written_by_hand(change: "tuple[str, str, str, str]", tmp_path: Path) -> None:
    before, after, answer, said = change
    assert before in BY_HAND
    proof = proof_of(SUM, BY_HAND.replace(before, after, 1) if before else BY_HAND, tmp_path)
    assert proof.answer == answer, proof
    assert said in str(proof)


@needs("torch")
def test_a_difference_of_bf16_is_confirmed(tmp_path: Path) -> None:
    program = Program(SUM.text.replace("xf32", "xbf16").replace("<f32", "<bf16"), ())
    python = emitted(program.text, "torch")
    assert python is not None
    proof = proof_of(program, python.replace("torch.tanh", "torch.sin"), tmp_path)
    assert "a run on random inputs confirms it" in str(proof)


def test_the_command_says_it(tmp_path: Path) -> None:
    whole, program = tmp_path / "in.mlir", tmp_path / "program.py"
    whole.write_text(SUM.text)
    for text, status in ((BY_HAND, 0), (BY_HAND.replace("SUM", "MAX"), 1)):
        program.write_text(text)
        done = run_child([sys.executable, "-m", "shard_dialect.prove", str(whole), str(program)])
        assert done.returncode == status, done.stderr


OTHER_COPIES = {
    "of which a sum is the right one": ("-2 * total", "-total"),
    "of which a difference is": ("3 * total", "7 * total / 3"),
    "one of them zero": ("-total / 2", "0 * total"),
    "no number": ("total", "total * np.float32(np.nan)"),
    "above a half": ("total", "np.where(total > 0.5, total, 0)"),
    "above ten": ("np.where(total > 10, total, 0)", "np.where(total > 20, total, 0)"),
}


@pytest.mark.parametrize("copies", OTHER_COPIES.values(), ids=OTHER_COPIES)
def test_ranks_whose_copies_differ_are_not_proven(
    copies: "tuple[str, str]", tmp_path: Path
) -> None:
    one, other = copies
    change = f"total = ({other}) if world.rank else ({one})\ncopies = "
    proof = proof_of(SUM, BY_HAND.replace("copies = ", change), tmp_path)
    assert proof.answer != "proven"


VIEWS = {
    "asarray of a transpose": "np.asarray(x.T)",
    "asarray of what is none of its own": "np.asarray(x.T, np.float32)[1:]",
    "no copy": "x.astype(np.float32, copy=False)",
    "the real part": "x.real",
    "the real part by a function": "np.real(x)",
    "a view": "np.moveaxis(x, 0, 1)",
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_what_is_written_through_a_view_shows(view: str, tmp_path: Path) -> None:
    written = BY_HAND.replace("own = ", f"other = {view}\nother[...] = 0\nown = ")
    assert proof_of(SUM, written, tmp_path).answer == "refuted"


def test_what_is_written_to_a_copy_does_not_show(tmp_path: Path) -> None:
    for made in ("np.array(x)", "x.astype(np.float32)", "np.asarray(x.T, order='C')", "np.conj(x)"):
        written = BY_HAND.replace("own = ", f"other = {made}\nother[...] = 0\nown = ")
        assert proof_of(SUM, written, tmp_path).answer == "proven", made


IN_SUM = "world.Allreduce(part, total, MPI.SUM)"
OTHER_BUFFERS = [
    "world.Allreduce(part.astype(np.float64), total)",
    "world.Allreduce(part.astype(np.int32), total)",
    "world.Allreduce(part if world.rank else part[:1], total)",
    "world.Allreduce(total, total)",
    "both = np.zeros(8, np.float32)\n"
    "world.Allgather(np.zeros(6, np.float32) if world.rank else part[:2], both)",
    "one = np.empty(4, np.float16)\n"
    "world.Sendrecv(part, 1 - world.rank, 0, one, 1 - world.rank)\ntotal = part + one",
]


@pytest.mark.parametrize("call", OTHER_BUFFERS)
def test_buffers_that_do_not_fit_are_not_proven(call: str, tmp_path: Path) -> None:
    assert proof_of(SUM, BY_HAND.replace(IN_SUM, call), tmp_path).answer != "proven"


TALK = """
import argparse
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
parser = argparse.ArgumentParser()
parser.add_argument("--inputs")
parser.add_argument("--outputs")
options = parser.parse_args()
with np.load(options.inputs) as file:
    x = file["arg0"]
other = 1 - world.rank
part = np.tanh(x[:, 3 * world.rank : 3 * world.rank + 3]).sum(axis=1)
come = np.empty_like(part)
TALK
total = part + come
copies = world.gather(total, root=0)
if world.rank == 0:
    result = np.zeros(4, np.float32)
    for each in copies:
        result[:] = each
    np.savez(options.outputs, result0=result)
"""
BOTH = "first = world.Irecv(come, other, 1); second = world.Irecv(again, other, 1)\n"
TALKS = {
    "a receive is asked for first": (
        "request = world.Irecv(come, other)\nworld.Send(part, other)\nrequest.Wait()",
        "proven",
        "",
    ),
    "one after the other": (
        "if world.rank:\n  world.Send([part, MPI.FLOAT], 0)\n  world.Recv(come, 0)\n"
        "else:\n  world.Recv(come, 1)\n  world.Send(part, 1)",
        "proven",
        "",
    ),
    "both send first": ("world.Send(part, other)\nworld.Recv(come, other)", "unknown", "kept"),
    "both receive first": ("world.Recv(come, other)\nworld.Send(part, other)", "refuted", "wait"),
    "objects": (
        "world.isend(part, other, 3)\ncome = world.irecv(source=other, tag=3).wait()",
        "proven",
        "",
    ),
    "objects of all": ("come = world.allreduce(part) - part", "proven", ""),
    "in place": ("come[:] = part\nworld.Allreduce(MPI.IN_PLACE, come)\ncome -= part", "proven", ""),
    "it is not waited for": (
        "request = world.Irecv(come, other)\nworld.Send(part, other)",
        "refuted",
        "",
    ),
    "it is read too early": (
        "request = world.Irecv(come, other)\nworld.Send(part, other)\nearly = come + 0\n"
        "request.Wait()\ncome = early",
        "refuted",
        "",
    ),
    "what has come is written by its sender before it waits": (
        "request = world.Isend(part, other)\nworld.Recv(come, other)\nworld.Barrier()\n"
        "part += 1\nrequest.Wait()\npart -= 1",
        "unknown",
        "written to before it is received",
    ),
    "it is written too early": (
        "request = world.Irecv(come, other)\ncome += 1\nworld.Send(part, other)\nrequest.Wait()",
        "unknown",
        "written to before its message has come",
    ),
    "what is on its way is written": (
        "request = world.Irecv(come, other)\nsent = world.Isend(part, other)\npart += 1\n"
        "world.Barrier()\nrequest.Wait()\nsent.Wait()",
        "unknown",
        "written to before it is received",
    ),
    "what has arrived is written": (
        "request = world.Irecv(come, other)\nsent = world.Isend(part, other)\n"
        "sent.Wait()\npart += 1\nworld.Barrier()\nrequest.Wait()\npart -= 1",
        "proven",
        "",
    ),
    "they come in the order that they were asked for in": (
        f"again = np.empty_like(part)\n{BOTH}"
        "world.Send(part, other, 1)\nworld.Send(part * 2, other, 1)\nsecond.Wait()\nfirst.Wait()",
        "proven",
        "",
    ),
    "another order": (
        f"again = np.empty_like(part)\n{BOTH}"
        "world.Send(part * 2, other, 1)\nworld.Send(part, other, 1)\nsecond.Wait()\nfirst.Wait()",
        "refuted",
        "confirms",
    ),
    "whether it has come": (
        "request = world.Irecv(come, other)\nworld.Send(part, other)\nif request.Test(): pass",
        "unknown",
        "whether a message has come",
    ),
}


@pytest.mark.parametrize("case", TALKS.values(), ids=TALKS)
def test_messages_from_one_to_one(case: "tuple[str, str, str]", tmp_path: Path) -> None:
    talk, answer, said = case
    proof = proof_of(SUM, TALK.replace("TALK", talk), tmp_path)
    assert proof.answer == answer, proof
    assert said in str(proof)


IN_TORCH = """
import argparse
import numpy as np
import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--inputs")
parser.add_argument("--outputs")
options = parser.parse_args()
with np.load(options.inputs) as file:
    x = torch.from_numpy(file["arg0"])
rank = dist.get_rank()
part = torch.tanh(x[:, 3 * rank : 3 * rank + 3]).sum(1).contiguous()
come = torch.empty_like(part)
work = dist.irecv(come, 1 - rank)
dist.send(part, 1 - rank)
work.wait()
copies = [None] * 2 if rank == 0 else None
dist.gather_object((part + come).numpy(), copies)
if rank == 0:
    result = np.zeros(4, np.float32)
    for each in copies:
        result[:] = each
    np.savez(options.outputs, result0=result)
"""


PART = "part = torch"
SHARED = [
    "flat = x.reshape(-1)\none = flat[3]\nflat[3] = 0\nflat[3] = one",
    "other = x.to(torch.float32)\nother[0] = 0",
    "other = torch.real(x)\nother[0] = 0",
    "for row in x: row[0] = 0",
]


@needs("torch")
@pytest.mark.parametrize("shared", SHARED)
def test_what_is_written_through_a_view_of_torch_shows(shared: str, tmp_path: Path) -> None:
    text = IN_TORCH.replace(PART, f"{shared}\n{PART}")
    assert proof_of(SUM, text, tmp_path).answer == "refuted"


@needs("torch")
def test_what_another_library_does_than_the_prover_knows_is_unknown(tmp_path: Path) -> None:
    """The sum of a number of no dimensions and an array has the array's type."""
    wide = "wide = torch.zeros(3).to(torch.int8) + torch.tensor(200)"
    text = IN_TORCH.replace(PART, f"{wide}\n{PART}")
    own = text.replace("(part + come)", "((part + come) * wide[0].to(torch.float32) / 200)")
    assert "a run on random inputs does" in str(proof_of(SUM, own, tmp_path))


@needs("torch")
def test_what_torch_copies_is_a_copy(tmp_path: Path) -> None:
    text = IN_TORCH.replace(PART, f"other = torch.flip(x, (0,))\nother[...] = 0\n{PART}")
    assert proof_of(SUM, text, tmp_path).answer == "proven"


@needs("torch")
def test_a_rank_is_the_one_that_its_variables_say(tmp_path: Path) -> None:
    own = IN_TORCH.replace("rank = dist.get_rank()", "import os\nrank = int(os.environ['RANK'])")
    assert proof_of(SUM, own, tmp_path).answer == "proven"
    other = BY_HAND.replace("own = ", "import os\nos.environ.get('RANK', 0)\nown = ")
    assert "the variable RANK of the environment" in str(proof_of(SUM, other, tmp_path))


@pytest.mark.parametrize(("before", "answer"), [("", "proven"), ("work.wait()\n", "refuted")])
def test_messages_of_torch(before: str, answer: str, tmp_path: Path) -> None:
    if missing(["torch"]):
        skip_without("torch")
    text = IN_TORCH.replace(before, "") if before else IN_TORCH
    proof = proof_of(SUM, text, tmp_path)
    assert proof.answer == answer, proof


ANY = """
if world.rank:
    world.Send(part, 0)
    total = np.empty_like(part)
else:
    total = part.copy()
    for _ in range(world.size - 1):
        world.Recv(come, MPI.ANY_SOURCE)
        total += come
world.Bcast(total)
come = total - part
"""


def test_what_comes_from_any_rank_is_chosen_of_all(tmp_path: Path) -> None:
    """Of two ranks there is one that sends."""
    assert proof_of(SUM, TALK.replace("TALK", ANY), tmp_path).answer == "proven"


@pytest.mark.parametrize(
    ("before", "after", "answer", "said"),
    [
        ("", "", "proven", ""),
        ("MPI.SUM", "MPI.MAX", "refuted", "a run on random inputs confirms it"),
        ("np.tanh(", "np.unwrap(", "unknown", "proven, and not the text .* at layer.py:"),
    ],
)
def test_the_text_that_is_emitted_is_judged(
    before: str, after: str, answer: str, said: str
) -> None:
    text = emitted(SUM.text)
    assert text is not None
    assert before in text
    with make_context():
        whole = Unsharded.of(Source.of(SUM.text).parse(), None)
        proof = proof_of_emitted(whole, text.replace(before, after), "layer.py", Proof("proven", 2))
    assert proof.answer == answer
    assert re.search(said, str(proof)), proof


def test_of_a_large_text_the_module_is_judged() -> None:
    text = SUM.text.replace("4x", "40000x").replace("<4x", "<40000x")
    text = text.replace("tensor<4xf32>", "tensor<40000xf32>").replace("x6x", "x600x")
    with make_context():
        whole = Unsharded.of(Source.of(text).parse(), None)
        proof = proof_of_emitted(whole, "no Python", "layer.py", Proof("proven", 2))
    assert "too large" in str(proof)


def test_collectives_of_torch_that_are_not_waited_for_are_not_proven(tmp_path: Path) -> None:
    if missing(["torch"]):
        skip_without("torch")
    python = emitted(SUM.text, "torch")
    assert python is not None
    assert proof_of(SUM, python, tmp_path).answer == "proven"
    assert python.count(".wait()") == 1
    wrong = re.sub(r"^( *).*\.wait\(\)$", r"\1pass", python, flags=re.MULTILINE)
    assert proof_of(SUM, wrong, tmp_path).answer != "proven"
