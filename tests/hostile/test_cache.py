"""What is in the cache's folder harms nobody, and nothing there but the cache's own is touched."""

import hashlib
import json
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shard_dialect.abi.typed_json import MisfitError, from_json, to_json
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.runtime import compile as compiling
from shard_dialect.runtime import program_cache
from shard_dialect.runtime import program_cache as caching
from shard_dialect.runtime.executable import Executable
from shard_dialect.runtime.program_cache import VARIABLE, Cache
from tests.hostile.programs import TINY
from tests.runtime.test_cache import results

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="nothing to link with")
KEY = "0" * 64


def compiled(folder: Path) -> tuple[Executable, list[str]]:
    """Through a cache in the folder; and what was warned of."""
    with warnings.catch_warnings(record=True) as caught, make_context():
        warnings.simplefilter("always")
        cache = Cache(folder)
        made = compiling.compile_sharded(Source.of(TINY), None, cache)
        compiling.compile_sharded(Source.of(TINY, "other.mlir"), None, cache)
    assert results(made)
    return made, [str(each.message) for each in caught]


BOTH = ["spmd", "lower"] * 2


@pytest.fixture
def kept(tmp_path: Path, pipelines: list[str]) -> Path:
    """A folder with two entries."""
    folder = tmp_path / "kept"
    assert compiled(folder)[1] == []
    assert compiled(folder)[1] == []
    assert pipelines == BOTH
    pipelines.clear()
    return folder


def test_nothing_else_in_the_folder_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with SHARD_DIALECT_CACHE=. in a user's project: old folders, large and old files."""
    names = ["src/a.py", ".git/HEAD", "data.npz", f"{KEY}.so", f"{KEY}.program"]
    names += ["code.so", "tmpabcd1234/code.so", f"shard-{KEY[:16]}.tmp/mine.txt"]
    for each in map(tmp_path.joinpath, names):
        each.parent.mkdir(exist_ok=True)
        each.write_bytes(b"x" * 4096)
    year_ago = time.time() - 365 * 86400
    for each in tmp_path.rglob("*"):
        os.utime(each, (year_ago, year_ago))
    monkeypatch.setattr(caching, "_MOST_BYTES", 1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, ".")
    cache = Cache.of_user()
    assert cache is not None
    assert compiled(cache.folder)[1] == []
    assert all(Path(each).read_bytes() == b"x" * 4096 for each in names)
    # Its own entries are too large for the bound, and gone.
    assert not list(tmp_path.glob(f"shard-{'?' * 64}.*"))


def others_may_write(path: Path) -> str:
    path.chmod(0o777)
    return "others can write to"


def group_may_write(path: Path) -> str:
    path.chmod(0o770)
    return "others can write to"


def linked(path: Path) -> str:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))
    return "is a symbolic link"


NOT_OWN = [others_may_write, group_may_write, linked]


@pytest.mark.parametrize("spoil", NOT_OWN)
def test_a_folder_that_is_not_ones_own_is_not_used(
    kept: Path, pipelines: list[str], spoil: Callable[[Path], str]
) -> None:
    before = sorted(kept.iterdir())
    said = spoil(kept)
    (line,) = compiled(kept)[1]
    assert said in line
    assert str(kept) in line
    assert "\n" not in line
    assert pipelines == BOTH
    assert sorted(kept.iterdir()) == before


def test_a_folder_of_another_user_is_not_used(
    kept: Path, pipelines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_cache.os, "getuid", lambda: 4321)
    (line,) = compiled(kept)[1]
    assert f"'{kept}' belongs to user" in line
    assert pipelines == BOTH


@pytest.mark.parametrize("suffix", ["so", "json"])
@pytest.mark.parametrize("spoil", NOT_OWN)
def test_an_entry_that_is_not_ones_own_is_not_used(
    kept: Path, pipelines: list[str], spoil: Callable[[Path], str], suffix: str
) -> None:
    entry = next(iter(kept.glob(f"*.{suffix}")))
    said = spoil(entry)
    (line,) = compiled(kept)[1]
    assert said in line
    assert "\n" not in line
    assert len(pipelines) in (1, 2)
    assert compiled(kept)[1] == []  # it was replaced
    assert len(pipelines) in (1, 2)


def test_a_library_is_not_loaded_where_others_can_write(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.chmod(0o777)
    monkeypatch.setattr(caching, "SharedLibrary", None)
    assert len(compiled(kept)[1]) == 1


def wrapped(known: object) -> bytes:
    """An entry that is whole, whatever it says."""
    digest = hashlib.sha256(json.dumps(known).encode()).hexdigest()
    return json.dumps({"digest": digest, "known": known}).encode()


def known_in(path: Path) -> dict[str, object]:
    return json.loads(path.read_bytes())["known"]


CONTENTS: dict[str, Callable[[dict], bytes]] = {
    "nothing": lambda known: b"",
    "garbage": lambda known: b"\x00\xff garbage",
    "a pickle": lambda known: b"\x80\x04cposix\nsystem\n.",
    "no digest": lambda known: json.dumps({"known": known}).encode(),
    "cut": lambda known: wrapped(known)[:-20],
    "changed": lambda known: wrapped(known).replace(b'"arena": ', b'"arena": 1'),
    "a list": lambda known: b"[]",
    "a number": lambda known: b"1" * 10_000,
    "deep": lambda known: b"[" * 100_000,
    "huge": lambda known: b" " * ((1 << 26) + 1),
    "no known": lambda known: wrapped(None),
    "no code": lambda known: wrapped({**known, "code": None}),
    "a field more": lambda known: wrapped({**known, "more": 1}),
    "another class": lambda known: wrapped({**known, "is": "Popen"}),
    "calls of nothing": lambda known: wrapped({**known, "calls": ["nothing"]}),
    "functions of nobody": lambda known: wrapped(
        {**known, "code": {**known["code"], "names": ["system"]}}
    ),
    "an entry of nobody": lambda known: wrapped(
        {
            **known,
            "code": {**known["code"], "program": {**known["code"]["program"], "entry": "nope"}},
        }
    ),
    "another library": lambda known: wrapped({**known, "library": "0" * 64}),
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_whatever_is_in_an_entry_it_is_compiled(
    kept: Path, pipelines: list[str], content: Callable[[dict], bytes]
) -> None:
    for entry in kept.glob("*.json"):
        entry.write_bytes(content(known_in(entry)))
    assert compiled(kept)[1] == []
    assert pipelines == BOTH
    assert compiled(kept)[1] == []
    assert pipelines == BOTH


@pytest.mark.parametrize("suffix", ["so", "json"])
@pytest.mark.parametrize("kind", ["folder", "pipe", "empty", "unreadable"])
def test_whatever_an_entry_is_it_is_compiled(
    kept: Path, pipelines: list[str], suffix: str, kind: str
) -> None:
    for entry in kept.glob(f"*.{suffix}"):
        entry.unlink()
        if kind == "folder":
            (entry / "inside").mkdir(parents=True)
        elif kind == "pipe":
            os.mkfifo(entry, 0o600)
        else:
            entry.touch(0o600 if kind == "empty" else 0)
    assert compiled(kept)[1] == []
    assert pipelines == BOTH


def test_what_is_read_is_what_was_written(kept: Path) -> None:
    for path in kept.glob("*.json"):
        known = caching._Known.read(path.read_bytes())
        assert known.write() == path.read_bytes()
        assert known == caching._Known.read(known.write())


def mutations(data: object) -> Iterator[object]:
    """The value with one thing in it exchanged for something of another type, or gone."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield {name: each for name, each in data.items() if name != key}
            for each in mutations(value):
                yield {**data, key: each}
    elif isinstance(data, list):
        for number, value in enumerate(data):
            for each in mutations(value):
                yield [*data[:number], each, *data[number + 1 :]]
    yield {"is": "nothing"}
    yield 1.5


def test_whatever_does_not_fit_is_refused(kept: Path) -> None:
    """But what leaves mappings shorter, which cannot be seen."""
    known = known_in(next(iter(kept.glob("*.json"))))
    fit = 0
    for each in mutations(known):
        try:
            value = from_json(caching._Known, each)
        except MisfitError:
            continue
        fit += 1
        assert to_json(value) == each
    assert fit < 10
