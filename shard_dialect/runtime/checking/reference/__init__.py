"""Who says what the unsharded program gives: XLA, upstream's passes, or our own code.

A judge that shares code with what it judges passes its faults. `compile_reference` takes the most
independent one that can run the program, unless it is told which.
"""

from shard_dialect.runtime.checking.reference.choose_judge import JUDGES, Judge, judged_by
from shard_dialect.runtime.checking.reference.judge import CannotJudge, Reference

__all__ = ["JUDGES", "CannotJudge", "Judge", "Reference", "judged_by"]
