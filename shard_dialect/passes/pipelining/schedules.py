"""Schedules of pipelines: in which order each stage works on which microbatch.

    gpipe, 3 stages, 4 microbatches          1f1b: a stage goes back as soon as it can
    stage 0  0 1 2 3 . . . . 0 1 2 3         stage 0  0 1 2 . . 0 3 1 . 2 . 3
    stage 1  . 0 1 2 3 . . 0 1 2 3 .         stage 1  . 0 1 . 0 2 1 3 2 . 3 .
    stage 2  . . 0 1 2 3 0 1 2 3 . .         stage 2  . . 0 0 1 1 2 2 3 3 . .

With `1f1b` a stage keeps what the backward pass needs of as many microbatches as there are stages
from it on, and with `gpipe` of all. Sources: Huang et al., GPipe (arXiv 1811.06965); Narayanan et
al., PipeDream (arXiv 1806.03377), there called 1F1B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["gpipe", "1f1b"]


@dataclass(frozen=True, slots=True)
class Task:
    """The work of one stage on one microbatch, in the forward or the backward pass."""

    stage: int
    microbatch: int
    is_forward: bool


def schedule(
    kind: Kind, stages: int, microbatches: int, *, backward: bool = True
) -> list[list[Task]]:
    """The tasks of each step of time, by stage; each stage does at most one task in a step.

    A task is done after the tasks before it in its stage's order, and after the one of the stage
    before it (after it, in the backward pass) on the same microbatch.

    >>> [[each.stage for each in step] for step in schedule("gpipe", 2, 2, backward=False)]
    [[0], [0, 1], [1]]
    """
    left = [_tasks_of(kind, stage, stages, microbatches, backward) for stage in range(stages)]
    done: set[Task] = set()
    steps = []
    while any(left):
        step = [tasks[0] for tasks in left if tasks and _needs(tasks[0], stages) <= done]
        for task in step:
            left[task.stage].pop(0)
        done.update(step)
        steps.append(step)
    return steps


def _tasks_of(kind: Kind, stage: int, stages: int, microbatches: int, backward: bool) -> list[Task]:
    """The tasks of one stage in order."""
    forward = [Task(stage, number, True) for number in range(microbatches)]
    if not backward:
        return forward
    back = [Task(stage, number, False) for number in range(microbatches)]
    if kind == "gpipe":
        return forward + back
    ahead = min(stages - stage, microbatches)
    tasks = forward[:ahead]
    for number in range(microbatches):
        tasks += [back[number], *forward[ahead + number : ahead + number + 1]]
    return tasks


def _needs(task: Task, stages: int) -> set[Task]:
    """The tasks of other stages that a task waits for."""
    before = task.stage + (-1 if task.is_forward else 1)
    is_there = 0 <= before < stages
    return {Task(before, task.microbatch, task.is_forward)} if is_there else set()


def drawn(steps: list[list[Task]], stages: int) -> str:
    """A line for each stage, with the microbatch of each step; backward passes are in brackets.

    >>> print(drawn(schedule("1f1b", 2, 2), 2))
    stage 0    0   1      [0]     [1]
    stage 1        0  [0]  1  [1]
    """
    lines = []
    for stage in range(stages):
        cells = []
        for step in steps:
            task = next((each for each in step if each.stage == stage), None)
            number = "" if task is None else str(task.microbatch)
            shown = number if task is None or task.is_forward else f"[{number}]"
            cells.append(f" {shown} " if task is not None and task.is_forward else shown)
        lines.append(f"stage {stage}  " + "".join(f"{cell:>4}" for cell in cells))
    return "\n".join(line.rstrip() for line in lines)
