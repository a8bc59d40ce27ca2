"""What both programs do at their edges: errors and warnings as people read them."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import TextIO

from shard_dialect.errors import ShardError, ShardWarning


def guarded(program: Callable[[], int]) -> int:
    """Run `program`; a user's mistake becomes one line on stderr and exit status 1."""
    warnings.simplefilter("always", ShardWarning)
    default = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if isinstance(message, ShardWarning):
            print(message, file=sys.stderr)
        else:
            default(message, category, filename, lineno, file, line)

    warnings.showwarning = show
    try:
        return program()
    except ShardError as error:
        print(error, file=sys.stderr)
        return 1
    except MemoryError:
        print("error: there is not enough memory for the tensors of this program", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    finally:
        warnings.showwarning = default
