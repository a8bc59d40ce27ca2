"""The file that a run writes: this run's, whole, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shard_dialect.errors import ShardError, cannot


@dataclass(frozen=True, slots=True)
class Outputs:
    """`path` is what the user named, if anything; `reads` are the files that the run reads."""

    path: str | None
    reads: Sequence[str | None] = ()

    def begin(self) -> None:
        """Remove what an earlier run has written: it must not be taken for this one's."""
        if self.path is None:
            return
        path = Path(self.path)
        try:
            if not path.is_file():
                return
            for other in filter(None, self.reads):
                if Path(other).exists() and path.samefile(other):
                    raise ShardError(f"'{self.path}' would be read and written over")
            path.unlink()
        except OSError as error:
            raise cannot("write", self.path, error) from None

    def abandon(self) -> None:
        """Remove what has been written in part."""
        if self.path is not None:
            partial_of(self.path).unlink(missing_ok=True)


def partial_of(path: str) -> Path:
    """Where a file is written before it is whole."""
    target = Path(path)
    return target.with_name(target.name + ".partial")
