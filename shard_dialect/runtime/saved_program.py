"""Compiled programs in folders of a user's: `CompiledProgram.save`, and `sd.load`.

    program.json        what it was compiled from and for, and by which version of this package
    code-8a5f....so     the machine code, for processors such as the one that compiled it
    code-8a5f....json   its boundary and collectives, as an entry of the cache has them

Only machine code that nobody but the user can have written is loaded.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

from shard_dialect.errors import ShardError, cannot
from shard_dialect.ir.reading.source import Source
from shard_dialect.runtime.executable import Executable
from shard_dialect.runtime.program_cache import (
    UNFIT,
    NotOwnError,
    load_entry,
    opened,
    processor,
    store_entry,
)

_MANIFEST = "program.json"
_CODE = re.compile("code-[0-9a-f]{16}")
"""A process takes libraries of one path for one library, so each has a name of its own."""
_MOST = 1 << 30


@dataclass(frozen=True)
class SavedProgram:
    """A compiled program with what it was compiled from."""

    text: str
    """The source."""
    name: str
    """The source's file, for locations."""
    entry: str
    is_native: bool
    """Whether its collectives are calls of MPI, for the backend "mpi" alone."""
    executable: Executable

    def write(self, folder: Path) -> None:
        """Write to a new folder, or an empty one. Raises `ShardError`."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise ShardError(f"'{folder}' is not empty: save to a new folder")
            with opened(folder) as own:
                code = f"code-{token_hex(8)}"
                if not store_entry(own, code, self.executable, []):
                    raise ShardError(
                        f"cannot save to '{folder}': it takes the linker of a C compiler, or the "
                        "file that the program was loaded from"
                    )
                data = {
                    "made for": _kind_of_machine(),
                    "code": code,
                    "source": {"name": self.name, "text": self.text},
                    "entry": self.entry,
                    "native": self.is_native,
                }
                own.write(_MANIFEST, json.dumps(data).encode())
        except OSError as error:
            raise cannot("write", str(folder), error) from None
        except NotOwnError as error:
            raise ShardError(f"cannot save to '{folder}': {error}") from None

    @classmethod
    def read(cls, folder: Path) -> SavedProgram:
        """Load a program. Raises `ShardError` where it was made for another kind of machine."""
        try:
            with opened(folder) as own:
                data = json.loads(own.read(_MANIFEST, _MOST))
                _check_kind(folder, data["made for"])
                if not _CODE.fullmatch(data["code"]):
                    raise ValueError(f"'{data['code']}' is no name of code")
                executable, _ = load_entry(own, data["code"])
                source = data["source"]
                return cls(
                    source["text"], source["name"], data["entry"], data["native"], executable
                )
        except FileNotFoundError:
            raise ShardError(
                f"cannot load '{folder}': it is no folder that a compiled program was saved to"
            ) from None
        except NotOwnError as error:
            raise ShardError(f"cannot load '{folder}': {error}") from None
        except UNFIT as error:
            raise ShardError(f"cannot load '{folder}': it was damaged ({error})") from None

    @property
    def source(self) -> Source:
        """The source, to check and to bisect."""
        return Source.of(self.text, self.name)


def _check_kind(folder: Path, made_for: Mapping[str, str]) -> None:
    here = _kind_of_machine()
    for what, value in here.items():
        if made_for.get(what) != value:
            raise ShardError(
                f"cannot load '{folder}': it was compiled for another {what}: compile it here "
                "by sd.compile"
            )


@cache
def _kind_of_machine() -> dict[str, str]:
    """All that must be the same for the code to run: digests, by what they are of."""
    package = Path(__file__).parents[1]
    contents = sha256()
    for path in sorted(package.rglob("*.py")):
        contents.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes() + b"\0")
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": sha256(processor().encode()).hexdigest(),
        "version of shard_dialect": contents.hexdigest(),
    }
