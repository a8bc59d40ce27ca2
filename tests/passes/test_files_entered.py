"""Few files have to do with one program: a pass that it needs nothing of is not entered."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "megatron.mlir"
PROGRAM = """
import sys
from pathlib import Path

import shard_dialect
from shard_dialect import opt
from shard_dialect.passes.framework.pipeline import Pipeline

ROOT = str(Path(shard_dialect.__file__).parent)
FUNCTION = 0x3  # the flags of a function's code, which those of a class's body lack
entered = set()
importing = 0


def note(frame, event, argument):
    global importing
    code = frame.f_code
    if code.co_name == "_load_unlocked":
        importing += {"call": 1, "return": -1}.get(event, 0)
    elif event == "call" and not importing and code.co_filename.startswith(ROOT):
        if code.co_flags & FUNCTION == FUNCTION:
            entered.add(code.co_filename)


def noted(self, *arguments, **options):
    sys.setprofile(note)
    try:
        return run(self, *arguments, **options)
    finally:
        sys.setprofile(None)


run, Pipeline.run = Pipeline.run, noted
opt.main(sys.argv[1:])
print(*sorted(entered), sep="\\n", file=sys.stderr)
"""


def test_a_program_of_five_ops_enters_fewer_than_eighty_files() -> None:
    command = [sys.executable, "-c", PROGRAM, str(EXAMPLE), "--spmd", "--lower"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    entered = done.stderr.split()
    assert len(entered) < 80, entered
    assert any(each.endswith("lower_collectives.py") for each in entered)
