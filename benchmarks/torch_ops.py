"""Samples of ops and modules that torch and torch-mlir test, partitioned, beside torch.

    pip install expecttest
    python -m benchmarks.torch_ops [softmax linalg ...] > table.md    torch's samples of its ops
    python -m benchmarks.torch_ops --dtype bool                       of other element types
    python -m benchmarks.torch_ops --modules                          of the modules of torch.nn
    python -m benchmarks.torch_ops --torch-mlir CHECKOUT              torch-mlir's end-to-end tests

Each sample is a module, on a mesh of 2x2 in one process, with placements of its tensors and
parameters that are drawn at random. The gradients are those of a sum that weighs all elements of
the results at random, and both parts of complex ones. An op is equal if all its samples are, wrong
if one is, and else refused.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import multiprocessing
import os
import random
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
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
    """A call of a function or a module, as a function of the tensors among its arguments."""

    def __init__(self, called: Callable[..., Any], tree: Any) -> None:
        super().__init__()
        leaves, self.structure = pytree.tree_flatten(tree)
        self.is_tensor = [isinstance(each, torch.Tensor) for each in leaves]
        self.constants = [None if isinstance(each, torch.Tensor) else each for each in leaves]
        self.called = called

    def forward(self, *tensors: Any) -> Any:
        given = iter(tensors)
        leaves = [
            next(given) if is_tensor else each
            for is_tensor, each in zip(self.is_tensor, self.constants, strict=True)
        ]
        args, kwargs = pytree.tree_unflatten(leaves, self.structure)
        return self.called(*args, **kwargs)


@dataclass(frozen=True)
class Sample:
    """What is called, made anew by `made`, and with what positional and named arguments."""

    made: Callable[[], Callable[..., Any]]
    tree: tuple[tuple[Any, ...], dict[str, Any]]

    def module(self) -> Called:
        torch.manual_seed(0)
        return Called(self.made(), self.tree)


@dataclass(frozen=True)
class Case:
    """A name, and samples, of which there are at most so many."""

    name: str
    samples: Callable[[int], Iterator[Sample]]
    derives: bool = True
    shapes_only: bool = False


def some_of(every: Sequence[Any], count: int) -> Iterator[Any]:
    """At most so many, the first and the last among them."""
    steps = max(1, min(count, len(every)) - 1)
    for at in sorted({number * (len(every) - 1) // steps for number in range(steps + 1)}):
        if every:
            yield every[at]


def ops(dtype: torch.dtype) -> Iterator[Case]:
    """torch's samples of its ops."""
    from torch.testing._internal import common_methods_invocations as samples

    samples.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)  # the seed is ours

    def samples_of(op: Any, count: int) -> Iterator[Sample]:
        torch.manual_seed(0)
        for each in some_of(list(op.sample_inputs("cpu", dtype)), count):
            yield Sample(lambda: op.op, ((each.input, *each.args), each.kwargs))

    for op in samples.op_db:
        if dtype in op.dtypes:
            name = op.name + (f" ({op.variant_test_name})" if op.variant_test_name else "")
            yield Case(
                name,
                partial(samples_of, op),
                op.supports_autograd and (dtype.is_floating_point or dtype.is_complex),
                op.name in WITHOUT_VALUES,
            )


def modules() -> Iterator[Case]:
    """torch's samples of the modules of `torch.nn`, in training and not."""
    from torch.testing._internal.common_modules import module_db

    def samples_of(info: Any, training: bool, count: int) -> Iterator[Sample]:
        def made(given: Any) -> Any:
            return info.module_cls(*given.args, **given.kwargs).train(training)

        torch.manual_seed(0)
        every = info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=False, training=training
        )
        for each in some_of([each for each in every if each.forward_input], count):
            given = each.forward_input
            yield Sample(partial(made, each.constructor_input), (given.args, given.kwargs))

    for info in module_db:
        for training in (False, True):
            name = f"{info.name} {'in training' if training else 'not in training'}"
            yield Case(name, partial(samples_of, info, training))


def end_to_end_tests(checkout: Path) -> Iterator[Case]:
    """torch-mlir's end-to-end tests: calls of `forward` of a module."""
    folder = checkout / "projects/pt1/python"
    sys.path.insert(0, str(folder))
    sys.modules["multiprocess"] = multiprocessing  # which the tests' runner starts others with
    if importlib.util.find_spec("torchvision") is None:  # one of a file of 80 uses it
        sys.modules["torchvision"] = ModuleType("torchvision")
    names = sorted(each.stem for each in (folder / "torch_mlir_e2e_test/test_suite").glob("*.py"))
    for name in names:
        if name not in ("__init__", "timeout", "custom_op_example"):  # which want other builds
            with suppress(ModuleNotFoundError):
                importlib.import_module(f"torch_mlir_e2e_test.test_suite.{name}")
    framework = importlib.import_module("torch_mlir_e2e_test.framework")
    registry = importlib.import_module("torch_mlir_e2e_test.registry")

    def samples_of(test: Any, count: int) -> Iterator[Sample]:
        calls: list[Any] = []
        record = SimpleNamespace(forward=lambda *args, **kwargs: calls.append((args, kwargs)))
        test.program_invoker(record, framework.TestUtils())
        for call in some_of(calls, count):
            yield Sample(test.program_factory, call)

    for test in registry.GLOBAL_TEST_REGISTRY:
        yield Case(test.unique_name, partial(samples_of, test))


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
            narrow = b.dtype in (torch.bfloat16, torch.float16)
            close = {"rtol": 2e-2, "atol": 1e-2} if narrow else {"rtol": 2e-4, "atol": 2e-5}
            try:
                torch.testing.assert_close(a.detach(), b.detach(), **close, equal_nan=True)
            except AssertionError as error:
                return " ".join(str(error).split())[:160]
        elif b is not None and not (a == b or a != a):
            return f"{a} is not {b}"
    return ""


def check(case: Case, sample: Sample, seed: str) -> tuple[Found, Found]:
    """Of the results, and of the gradients."""
    chosen = random.Random(seed)
    module, theirs_module = sample.module(), sample.module()
    given = tensors_of(sample.tree)
    plan = {f"tensors.{n}": placements(chosen, each.shape) for n, each in enumerate(given)}
    plan |= {name: placements(chosen, each.shape) for name, each in module.named_parameters()}

    def fresh(derives: bool) -> list[Any]:
        return [
            each.detach().clone().requires_grad_(derives and each.is_floating_point())
            for each in given
        ]

    for wants in (case.derives, False):  # some are not for tensors that are derived for
        theirs, failed = fresh(wants), ""
        try:
            torch.manual_seed(1)
            expected = theirs_module(*theirs)
            break
        except Exception as error:
            failed = str(error)
    if failed:
        return Found(UNTESTED, failed), Found(UNTESTED)
    ours = fresh(wants)
    try:
        f = sd.torch.partition(module, tuple(given), plan, MESH, rng="torch")
        torch.manual_seed(1)
        found = f(*ours)
    except Exception as error:
        return Found(REFUSED, cause(error)), Found(UNTESTED)
    differs = difference((found, ours), (expected, theirs), case.shapes_only)
    results = Found(WRONG, f"{plan}: {differs}") if differs else Found(EQUAL)
    weights = [torch.rand(as_real(each.detach()).shape) for each in tensors_of(expected)]
    try:
        _derive(expected, weights)
    except Exception as error:
        return results, Found(UNTESTED, str(error))
    pairs = [
        (a, b)
        for a, b in zip(
            (*ours, *f.parameters()), (*theirs, *theirs_module.parameters()), strict=True
        )
        if b.is_leaf and b.requires_grad
    ]
    if all(b.grad is None for _, b in pairs):
        return results, Found(UNTESTED)
    try:
        _derive(found, weights)
    except Exception as error:
        return results, Found(REFUSED, cause(error))
    own, wanted = ([_gradient(each) for each in side] for side in zip(*pairs, strict=True))
    differs = difference(own, wanted)
    return results, Found(WRONG, f"{plan}: {differs}") if differs else Found(EQUAL)


def _gradient(tensor: Any) -> Any:
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad


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


def measure(case: Case, count: int, draw: int, queue: Any) -> None:
    """Each sample's findings, as they come."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    try:
        for number, sample in enumerate(case.samples(count)):
            queue.put(check(case, sample, f"{case.name} {number} {draw or ''}"))
    except Exception as error:
        queue.put((Found(UNTESTED, cause(error)), Found(UNTESTED)))
    queue.put(None)


@dataclass
class Child:
    """The process that one case is measured in: it may crash or hang."""

    case: Case
    process: Any
    queue: Any
    until: float

    @classmethod
    def of(cls, case: Case, count: int, seconds: float, draw: int) -> Child:
        fork = multiprocessing.get_context("fork")
        queue = fork.SimpleQueue()
        process = fork.Process(target=measure, args=(case, count, draw, queue))
        process.start()
        return cls(case, process, queue, time.monotonic() + seconds)

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
    cases: Sequence[Case], count: int, seconds: float, workers: int, draw: int
) -> Iterator[tuple[Case, Found, Found]]:
    """Of each case the worst of its samples, of the results and of the gradients."""
    waiting, running = list(reversed(cases)), list[Child]()
    while waiting or running:
        while waiting and len(running) < workers:
            running.append(Child.of(waiting.pop(), count, seconds, draw))
        for child in list(running):
            found = child.findings()
            if found is not None:
                running.remove(child)
                results, gradients = zip(*found, strict=True) if found else ((), ())
                yield child.case, worst(results), worst(gradients)
        time.sleep(0.02)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="names, or parts of them with a *")
    parser.add_argument("--dtype", default="float32", help="of the samples of ops")
    parser.add_argument("--modules", action="store_true", help="torch's samples of torch.nn")
    parser.add_argument("--torch-mlir", type=Path, help="a checkout, for its end-to-end tests")
    parser.add_argument("--samples", type=int, default=3, help="of each")
    parser.add_argument("--seconds", type=float, default=60, help="for each")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--draw", type=int, default=0, help="another one of the placements")
    parser.add_argument("--json", type=Path, help="a file for what was found of each")
    options = parser.parse_args()
    os.environ.setdefault("SHARD_DIALECT_OPT_LEVEL", "0")  # programs are many and small
    assert sd.torch.partition, "is imported once, for all children"

    if options.torch_mlir:
        cases = end_to_end_tests(options.torch_mlir)
    else:
        cases = modules() if options.modules else ops(getattr(torch, options.dtype))
    wanted = [re.compile(each.replace("*", ".*")) for each in options.names]
    chosen = [
        each
        for each in cases
        if not wanted or any(name.fullmatch(each.name.split()[0]) for name in wanted)
    ]
    counts = Counter[tuple[str, str]]()
    causes = Counter[str]()
    rows = []
    print("| name | results | gradients | why |\n|---|---|---|---|")
    for case, results, gradients in findings_of(
        chosen, options.samples, options.seconds, options.workers, options.draw
    ):
        counts["results", results.status] += 1
        counts["gradients", gradients.status] += 1
        told = next((each for each in (results, gradients) if each.status in WORSE[:2]), results)
        causes.update(class_of(each.why) for each in (results, gradients) if each.status == REFUSED)
        rows.append([case.name, results.status, gradients.status, told.why])
        if told.status in WORSE[:2]:
            print(f"| {' | '.join(rows[-1])} |", flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    print(f"\n{len(rows)} tested")
    for what in ("results", "gradients"):
        told = ", ".join(f"{counts[what, each]} {each}" for each in (EQUAL, REFUSED, WRONG))
        print(f"{what}: {told}, {counts[what, UNTESTED]} not tested")
    for why, count in causes.most_common(40):
        print(f"{count:4} {why}")


if __name__ == "__main__":
    main()
