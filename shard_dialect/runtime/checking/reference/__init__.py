"""The judges that run the unsharded program: XLA, upstream's passes, or our own code.

A judge that shares code with the checked program also shares its faults. `compile_reference` takes
the most independent judge that can run the program, unless one is given.
"""

from shard_dialect.runtime.checking.reference.choose_judge import (
    JUDGES,
    Judge,
    check_judge,
    judged_by,
    register_judge,
)
from shard_dialect.runtime.checking.reference.judge import CannotJudge, Reference

__all__ = [
    "JUDGES",
    "CannotJudge",
    "Judge",
    "Reference",
    "check_judge",
    "judged_by",
    "register_judge",
]
