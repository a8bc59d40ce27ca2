"""torch's own samples of its ops, partitioned, beside torch: which are equal, which refused.

    pip install expecttest
    python -m benchmarks.torch_ops [softmax linalg ...] [--samples 3] [--seconds 60] > table.md

Each sample is a module that calls the op, on a mesh of 2x2 in one process, with placements of its
tensors that are drawn at random. Numbers are f32. The gradients are those of a sum that weighs all
elements of the results at random, and both parts of complex ones. An op is equal if all its samples
are, wrong if one is, and else refused.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import re
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.utils import _pytree as pytree

import shard_dialect as sd
from shard_dialect.errors import ShardError
from shard_dialect.torch.graph.complex_parts import as_real

MESH = sd.Grid("mesh", (2, 2), axes=("a", "b"))
EQUAL, WRONG, REFUSED, UNTESTED = "equal", "wrong", "refused", "not tested"
WORSE = (WRONG, REFUSED, EQUAL, UNTESTED)
"""Of the samples of an op, the first of these is told."""


WITHOUT_VALUES = ("empty_like", "new_empty", "new_empty_strided", "empty", "empty_strided")
"""Ops whose results have shapes only."""


@dataclass(frozen=True)
class Found:
    """What a check found, and of what is not equal, why."""

    status: str
    why: str = ""


class Called(nn.Module):  # type: ignore[misc]
    """A sample of an op as a function of its tensors."""

    def __init__(self, op: Any, tree: Any) -> None:
        super().__init__()
        leaves, self.structure = pytree.tree_flatten(tree)
        self.is_tensor = [isinstance(each, torch.Tensor) for each in leaves]
        self.constants = [None if isinstance(each, torch.Tensor) else each for each in leaves]
        self.op = op

    def forward(self, *tensors: Any) -> Any:
        given = iter(tensors)
        leaves = [
            next(given) if is_tensor else each
            for is_tensor, each in zip(self.is_tensor, self.constants, strict=True)
        ]
        args, kwargs = pytree.tree_unflatten(leaves, self.structure)
        return self.op(*args, **kwargs)


def samples_of(op: Any, count: int) -> Iterator[Any]:
    """Some of an op's samples, the first and the last among them."""
    torch.manual_seed(0)
    every = list(op.sample_inputs("cpu", torch.float32))
    steps = max(1, min(count, len(every)) - 1)
    for at in sorted({number * (len(every) - 1) // steps for number in range(steps + 1)}):
        each = every[at] if every else None
        if each is not None:
            yield (each.input, *each.args), each.kwargs


def placements(chosen: random.Random, shape: Sequence[int]) -> list[Any]:
    """Two mesh dimensions split one dimension of a tensor only if both do so evenly."""
    found: list[Any] = []
    for _ in MESH.shape:
        dim = chosen.choice([None, *(at for at, size in enumerate(shape) if size > 1)])
        if dim is not None and found and found[0] == Shard(dim) and shape[dim] % 4:
            dim = None
        found.append(Replicate() if dim is None else Shard(dim))
    return found


def tensors_of(tree: Any) -> list[Any]:
    return [each for each in pytree.tree_leaves(tree) if isinstance(each, torch.Tensor)]


def difference(found: Any, expected: Any, shapes_only: bool = False) -> str:
    """Empty where results are equal, but for rounding."""
    ours, theirs = pytree.tree_leaves(found), pytree.tree_leaves(expected)
    if len(ours) != len(theirs):
        return f"{len(ours)} results, and not {len(theirs)}"
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(b, torch.Tensor):
            b = b.to_dense() if b.layout != torch.strided else b
            if shapes_only:
                a, b = torch.empty_like(a).zero_(), torch.empty_like(b).zero_()
            try:
                torch.testing.assert_close(
                    a.detach(), b.detach(), rtol=2e-4, atol=2e-5, equal_nan=True
                )
            except AssertionError as error:
                return " ".join(str(error).split())[:160]
        elif b is not None and not (a == b or a != a):
            return f"{a} is not {b}"
    return ""


def check(op: Any, sample: Any, seed: str) -> tuple[Found, Found]:
    """Of the results, and of the gradients."""
    chosen = random.Random(seed)
    module = Called(op.op, sample)
    given = tensors_of(sample)
    plan = {f"tensors.{n}": placements(chosen, each.shape) for n, each in enumerate(given)}
    wants = op.supports_autograd and any(each.is_floating_point() for each in given)

    def fresh() -> list[Any]:
        return [
            each.detach().clone().requires_grad_(wants and each.is_floating_point())
            for each in given
        ]

    theirs = fresh()
    try:
        torch.manual_seed(1)
        expected = module(*theirs)
    except Exception as error:
        return Found(UNTESTED, str(error)), Found(UNTESTED)
    ours = fresh()
    try:
        f = sd.torch.partition(module, tuple(given), plan, MESH, rng="torch")
        torch.manual_seed(1)
        found = f(*ours)
    except Exception as error:
        return Found(REFUSED, cause(error)), Found(UNTESTED)
    differs = difference(found, expected, op.name in WITHOUT_VALUES)
    results = Found(WRONG, f"{plan}: {differs}") if differs else Found(EQUAL)
    weights = [torch.rand(as_real(each.detach()).shape) for each in tensors_of(expected)]
    try:
        _derive(expected, weights)
    except Exception as error:
        return results, Found(UNTESTED, str(error))
    if all(each.grad is None for each in theirs):
        return results, Found(UNTESTED)
    try:
        _derive(found, weights)
    except Exception as error:
        return results, Found(REFUSED, cause(error))
    pairs = zip(ours, theirs, strict=True)
    own = [torch.zeros_like(a) if a.grad is None else a.grad for a, b in pairs if b.requires_grad]
    differs = difference(
        own, [torch.zeros_like(b) if b.grad is None else b.grad for b in theirs if b.requires_grad]
    )
    return results, Found(WRONG, f"{plan}: {differs}") if differs else Found(EQUAL)


def _derive(result: Any, weights: Sequence[Any]) -> None:
    pairs = [
        (as_real(a) * w).sum()
        for a, w in zip(tensors_of(result), weights, strict=True)
        if a.requires_grad
    ]
    torch.stack(pairs).sum().backward()


def cause(error: Exception) -> str:
    """The first line, and of an error that is not for people its class."""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, ShardError) else f"{type(error).__name__}: {text}"


def class_of(why: str) -> str:
    """What refusals of one cause have in common."""
    why = re.sub(r"^\S*:\d+(:\d+)?: error: ", "", why.replace("error: ", "", 1))
    why = re.sub(r"^\S+\.py:\d+: ", "", why)
    op = re.match(r"(\S+) of .* cannot be written as StableHLO", why)
    if op:
        return f"{op[1]} cannot be written as StableHLO"
    return re.sub(r"\[[^\]]*\]|\d+", "*", why)[:90]


def measure(op: Any, count: int, queue: Any) -> None:
    """Each sample's findings, as they come."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    name = f"{op.name}.{op.variant_test_name}"
    try:
        for number, sample in enumerate(samples_of(op, count)):
            seed = f"{zlib.crc32(name.encode())} {number}"
            queue.put(check(op, sample, seed))
    except Exception as error:
        queue.put((Found(UNTESTED, cause(error)), Found(UNTESTED)))
    queue.put(None)


@dataclass
class Child:
    """The process that one op is measured in: it may crash or hang."""

    op: Any
    process: Any
    queue: Any
    until: float

    @classmethod
    def of(cls, op: Any, count: int, seconds: float) -> Child:
        fork = multiprocessing.get_context("fork")
        queue = fork.SimpleQueue()
        process = fork.Process(target=measure, args=(op, count, queue))
        process.start()
        return cls(op, process, queue, time.monotonic() + seconds)

    def findings(self) -> list[tuple[Found, Found]] | None:
        """Of all samples; `None` while it runs."""
        is_over = time.monotonic() > self.until
        if self.process.is_alive() and not is_over:
            return None
        found = []
        while not self.queue.empty():
            each = self.queue.get()
            if each is None:
                break
            found.append(each)
        else:
            died = not self.process.is_alive()
            why = f"crashes ({self.process.exitcode})" if died else "takes too long"
            found.append((Found(REFUSED, why), Found(UNTESTED)))
        self.process.kill()
        self.process.join()
        return found


def worst(found: Sequence[Found]) -> Found:
    """What is told of an op."""
    return min(found, key=lambda each: WORSE.index(each.status), default=Found(UNTESTED))


def findings_of(
    ops: Sequence[Any], count: int, seconds: float, workers: int
) -> Iterator[tuple[Any, Found, Found]]:
    """Of each op the worst of its samples, of the results and of the gradients."""
    waiting, running = list(reversed(ops)), list[Child]()
    while waiting or running:
        while waiting and len(running) < workers:
            running.append(Child.of(waiting.pop(), count, seconds))
        for child in list(running):
            found = child.findings()
            if found is not None:
                running.remove(child)
                results, gradients = zip(*found, strict=True) if found else ((), ())
                yield child.op, worst(results), worst(gradients)
        time.sleep(0.02)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("names", nargs="*", help="names of ops, or parts of them with a *")
    parser.add_argument("--samples", type=int, default=3, help="for each op")
    parser.add_argument("--seconds", type=float, default=60, help="for each op")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, help="a file for what was found of each op")
    options = parser.parse_args()
    os.environ.setdefault("SHARD_DIALECT_OPT_LEVEL", "0")  # programs are many and small
    from torch.testing._internal import common_methods_invocations as samples

    samples.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)  # the seed is ours
    op_db = samples.op_db
    assert sd.torch.partition, "is imported once, for all children"

    wanted = [re.compile(each.replace("*", ".*")) for each in options.names]
    ops = [
        op
        for op in op_db
        if torch.float32 in op.dtypes
        and (not wanted or any(each.fullmatch(op.name) for each in wanted))
    ]
    counts = Counter[tuple[str, str]]()
    causes = Counter[str]()
    rows = []
    print("| op | results | gradients | why |\n|---|---|---|---|")
    for op, results, gradients in findings_of(
        ops, options.samples, options.seconds, options.workers
    ):
        name = op.name + (f" ({op.variant_test_name})" if op.variant_test_name else "")
        counts["results", results.status] += 1
        counts["gradients", gradients.status] += 1
        told = next((each for each in (results, gradients) if each.status in WORSE[:2]), results)
        causes.update(class_of(each.why) for each in (results, gradients) if each.status == REFUSED)
        rows.append([name, results.status, gradients.status, told.why])
        if told.status in WORSE[:2]:
            print(f"| {' | '.join(rows[-1])} |", flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    print(f"\n{len(rows)} ops")
    for what in ("results", "gradients"):
        told = ", ".join(f"{counts[what, each]} {each}" for each in (EQUAL, REFUSED, WRONG))
        print(f"{what}: {told}, {counts[what, UNTESTED]} not tested")
    for why, count in causes.most_common(40):
        print(f"{count:4} {why}")


if __name__ == "__main__":
    main()
