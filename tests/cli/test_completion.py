"""What a shell is told when it asks how a line may go on."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, run_child

SWITCH = re.compile(r'eval "\$\(register-python-argcomplete [\w -]+\)"')


def completed(line: str, tmp_path: Path) -> list[str]:
    """The ways on, without what the line has before its last word break."""
    program = line.partition(" ")[0].replace("shard-", "shard_dialect.")
    environment = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "answer"),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    assigned = [f"{name}={value}" for name, value in environment.items()]
    main = f"from {program} import main; main()"
    done = run_child(["env", *assigned, sys.executable, "-c", main])
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return [each.rstrip() for each in (tmp_path / "answer").read_text().splitlines()]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("shard-opt --stop-a", ["--stop-after"]),
        ("shard-opt --canonicalize-", []),
        ("shard-opt examples/mlp_1d.mlir --materi", ["--materialize"]),
        ("shard-opt --expand-top-k=", []),
        ("shard-opt --spmd=objective=t", ["--spmd=objective=time"]),
        ("shard-opt --spmd=objective=time,dev", ["--spmd=objective=time,device-model="]),
        (
            "shard-opt --materialize=strict=",
            ["--materialize=strict=true", "--materialize=strict=false"],
        ),
        ("shard-opt --emit-python ", ["mpi4py", "torch"]),
        ("shard-opt --skip propagate,materi", ["propagate,materialize"]),
        ("shard-opt --pass-pipeline 'builtin.module(materi", ["builtin.module(materialize"]),
        ("shard-opt --help=rematerialize", ["--help=rematerialize"]),
        ("shard-opt examples/mlp_1d_", ["examples/mlp_1d_mesh.mlir"]),
        ("shard-run --prof", ["--profile"]),
        ("shard-run --backend=mpi", ["--backend=mpi", "--backend=mpi4py"]),
        ("shard-run --inputs=examples/mlp_1d_", ["--inputs=examples/mlp_1d_mesh.mlir"]),
        ("shard-run --seed ", []),
        ("shard-report --allocator ", ["unfused", "arena", "xla"]),
        ("shard-report --device-model tpu-v5", ["tpu-v5e", "tpu-v5p"]),
        ("shard-report --explorer-data exam", ["examples/"]),
        ("shard-prove examples/mlp_1d.mlir examples/mlp_1d_", ["examples/mlp_1d_mesh.mlir"]),
        ("shard-prove --ent", ["--entry"]),
    ],
)
def test_a_line_goes_on(line: str, expected: list[str], tmp_path: Path) -> None:
    assert completed(line, tmp_path) == expected


def test_the_line_of_the_readme_switches_it_on(tmp_path: Path) -> None:
    match = SWITCH.search((ROOT / "README.md").read_text())
    assert match is not None
    ask = (
        f"{match[0]}\n"
        'COMP_LINE="shard-run --prof" COMP_POINT=16 COMP_TYPE=9\n'
        "$(complete -p shard-run | sed 's/.* -F \\([^ ]*\\) .*/\\1/') shard-run\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = run_child(["env", f"PATH={path}", "bash", "-ec", ask])
    assert (done.returncode, done.stdout.split()) == (0, ["--profile"]), done.stderr


def test_without_argcomplete_the_extra_is_named() -> None:
    main = (
        "import sys; sys.modules['argcomplete'] = None\nfrom shard_dialect import opt; opt.main()"
    )
    done = run_child(["env", "_ARGCOMPLETE=1", sys.executable, "-c", main])
    assert done.returncode == 1
    assert done.stderr == (
        "error: argcomplete is not installed: run `pip install 'shard-dialect[completion]'`\n"
    )


def test_no_other_start_imports_it() -> None:
    main = (
        "import sys; from shard_dialect import opt\n"
        "assert opt.main(['examples/mlp_1d.mlir', '--cse', '-o', '/dev/null']) == 0\n"
        "assert 'argcomplete' not in sys.modules\n"
        "assert 'shard_dialect.cli.completion' not in sys.modules"
    )
    done = run_child([sys.executable, "-c", main])
    assert done.returncode == 0, done.stderr
