"""The wheel and the source distribution, installed for each Python that is supported and here."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from shard_dialect import __version__
from tests.conftest import ROOT, run_child
from tests.extras import needs


def interpreter(version: str) -> str | None:
    """A Python of this version: this one, one on the path, or one of pyenv's."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))]
    return next((str(each) for each in found if each and _works(each, version)), None)


def _works(python: str | Path, version: str) -> bool:
    """Whether it is what its name says: a shim of pyenv's may lead nowhere."""
    show = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", show], capture_output=True, text=True, timeout=60)
    return (done.returncode, done.stdout.strip()) == (0, version)


PYTHONS = {
    version: python
    for version in (f"3.{minor}" for minor in range(10, 15))
    if (python := interpreter(version))
}
"""Those that are installed here."""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The source distribution, and the wheel that is built of it, by the ends of their names."""
    folder = tmp_path_factory.mktemp("packages")
    done = run_child(
        [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {"".join(each.suffixes[-1:]): each for each in folder.iterdir()}


@needs("dev")
def test_packages_hold_what_they_should(packages: dict[str, Path]) -> None:
    wheel = set(zipfile.ZipFile(packages[".whl"]).namelist())
    own = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "shard_dialect").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {each for each in wheel if ".dist-info/" not in each} == own
    assert "shard_dialect/py.typed" in wheel
    with tarfile.open(packages[".gz"]) as archive:
        names = {each.partition("/")[2] for each in archive.getnames()}
    assert own <= names
    assert {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "tests/conftest.py"} <= names


@needs("dev")
@pytest.mark.parametrize("version", PYTHONS)
def test_it_runs_where_it_is_installed(
    version: str, packages: dict[str, Path], tmp_path: Path
) -> None:
    done = run_child([PYTHONS[version], "-m", "venv", str(tmp_path / "venv")], timeout=300)
    assert done.returncode == 0, done.stderr
    programs = tmp_path / "venv" / "bin"
    program = shutil.copy(ROOT / "examples" / "mlp_2d.mlir", tmp_path)
    for package, *options in (
        (packages[".whl"],),
        (packages[".gz"], "--no-deps", "--force-reinstall"),
    ):
        install = [str(programs / "pip"), "install", "--quiet", *options, str(package)]
        done = run_child(install, timeout=500)
        assert done.returncode == 0, done.stderr
        outside = ["env", "-u", "PYTHONPATH", "-C", str(tmp_path)]
        done = run_child([*outside, str(programs / "shard-run"), program, "--check"])
        assert done.returncode == 0, done.stderr
        assert "check passed" in done.stdout
        done = run_child([*outside, str(programs / "shard-opt"), "--version"])
        assert done.stdout == f"shard-opt {__version__}\n"
        done = run_child([*outside, str(programs / "shard-report"), program, "--html", "page.html"])
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "page.html").stat().st_size > 10_000
        assert re.search(r"\btotal\b", done.stdout)
