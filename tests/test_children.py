"""No test waits forever: each child has a bound on its time."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT

FILES = sorted(
    path for folder in ("tests", "benchmarks", "docs") for path in (ROOT / folder).rglob("*.py")
)
BOUNDED_BY_HAND = {
    "benchmarks/run.py",
    "tests/conftest.py",
    "tests/forks/__init__.py",
    "tests/forks/test_forks.py",
    "tests/ir/fuzz_reader.py",
    "tests/hostile/drawn_cases.py",
    "tests/hostile/test_endings.py",
    "tests/hostile/test_meeting.py",
    "tests/hostile/test_ranks.py",
    "tests/ops/interpreted.py",
    "tests/runtime/everywhere.py",
    "tests/runtime/test_failing_ranks.py",
    "tests/runtime/test_several_hosts.py",
    "tests/runtime/test_torch_compiler.py",
    "tests/cli/test_driver.py",
    "tests/test_foreign_modules.py",
    "tests/test_shard_maps.py",
}
"""They start children and go on, and wait for them with a bound, or have them bound themselves."""


def started(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name.startswith("subprocess.") or name == "start_child":
                yield name, node


def test_every_child_has_a_bound() -> None:
    unbounded = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in FILES
        for function, call in started(path)
        if function in ("subprocess.run", "subprocess.check_output", "subprocess.check_call")
        and "timeout" not in {each.arg for each in call.keywords}
    ]
    assert not unbounded


def test_who_waits_for_children_by_hand() -> None:
    found = {
        str(path.relative_to(ROOT))
        for path in FILES
        if any(function in ("subprocess.Popen", "start_child") for function, _ in started(path))
    }
    assert found == BOUNDED_BY_HAND


def test_every_lit_program_has_a_bound() -> None:
    text = (ROOT / "lit.cfg.py").read_text()
    programs = [line for line in text.splitlines() if 'python("' in line or "%{name}" in line]
    assert len(programs) == 6
    assert all(" python(" in each or "{bounded} " in each for each in programs)
    assert 'return f"{bounded} {' in text
