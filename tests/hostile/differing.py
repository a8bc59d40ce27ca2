"""`shard_dialect.run` of which rank 1 was started in another way: as TEST_DIFFERS, in Python, says.

There `argv` is what it is given, and `patch(module, name, value)` changes its code.
"""

import importlib
import os
import sys

from shard_dialect.run import main


def patch(module: str, name: str, value: object) -> None:
    setattr(importlib.import_module(module), name, value)


if __name__ == "__main__":
    rank = next(os.environ[each] for each in ("RANK", "PMI_RANK") if each in os.environ)
    if rank == "1":
        exec(os.environ["TEST_DIFFERS"], {"argv": sys.argv, "patch": patch})
    sys.exit(main())
