"""Modules that change between calls, by their users or by their own forward."""

import copy
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.distributed.tensor import Replicate, Shard
from torch.nn.functional import leaky_relu
from torch.nn.modules.module import register_module_forward_hook
from torch.utils.checkpoint import checkpoint

import shard_dialect as sd

MESH = sd.Grid("mesh", (2, 2), axes=("dp", "tp"))


@dataclass
class Record:
    """What models give and take."""

    hidden: torch.Tensor
    parts: tuple[Any, ...] = ()
    loss: torch.Tensor | None = None


class Scaled(torch.nn.Module):
    """Counts its calls, in an attribute and in a list, and divides by an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.unused = torch.nn.Linear(4, 4), torch.nn.Linear(2, 2)
        self.drop = torch.nn.Dropout(0.0)
        self.temperature, self.calls, self.seen = 1.0, 0, [0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen.append(self.calls)
        return self.drop(self.linear(x)) * self.calls / self.temperature


def both(module: torch.nn.Module, x: Any) -> tuple[Any, Any]:
    return sd.torch.partition(copy.deepcopy(module), (x,), {}, MESH), module


def test_attributes_that_change_between_calls() -> None:
    x = torch.randn(4, 4)
    f, module = both(Scaled(), x)
    for change in ({}, {"temperature": 4.0}, {"temperature": float("nan")}, {"temperature": 2.0}):
        for each in (f, module):
            vars(each).update(change)
        torch.testing.assert_close(f(x), module(x), equal_nan=True)
        assert (f.calls, f.seen) == (module.calls, module.seen)
    f.drop.p = 1.0
    assert not f(x).any()


def test_calls_that_count_and_use_nothing_of_it_share_a_program() -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.calls = torch.nn.Linear(4, 4), 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return self.linear(x)

    x = torch.randn(4, 4)
    f, _ = both(Counting(), x)
    with pytest.warns(UserWarning, match="Counting sets calls, and each value is traced"):
        trained_ten_times(f, x)
    assert f.calls == 10
    assert len(f._engine.programs) <= 2


def trained_ten_times(f: Any, x: Any) -> None:
    for _ in range(10):
        f(x).sum().backward()


def test_modules_parameters_and_hooks_that_are_exchanged() -> None:
    x = torch.randn(4, 4)
    first = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
    f, module = both(first, x)
    torch.testing.assert_close(f(x), module(x))
    new, weight = torch.nn.Linear(4, 3), torch.nn.Parameter(torch.randn(4, 4))
    for change in (
        lambda each: each.__setitem__(2, copy.deepcopy(new)),
        lambda each: each.append(torch.nn.Tanh()),
        lambda each: setattr(each[0], "weight", copy.deepcopy(weight)),
        lambda each: each[0].register_forward_hook(lambda _, __, out: out * 2),
        lambda each: setattr(each[0], "bias", None),
    ):
        change(f)
        change(module)
        f.zero_grad()
        module.zero_grad()
        found, expected = f(x), module(x)
        torch.testing.assert_close(found, expected)
        found.sum().backward()
        expected.sum().backward()
        for (name, mine), (other, theirs) in zip(
            f.named_parameters(), module.named_parameters(), strict=True
        ):
            assert name == other
            torch.testing.assert_close(mine.grad, theirs.grad)
    assert list(f.state_dict()) == list(module.state_dict())


def test_parameters_that_a_loss_does_not_depend_on_have_no_gradient() -> None:
    """An optimizer with weight decay, or momentum, leaves those alone."""

    class Heads(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.unused = (torch.nn.Linear(4, 4) for _ in range(3))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.a(x), self.b(x)

    x = torch.randn(4, 4)
    f, _ = both(Heads(), x)
    f(x)[0].sum().backward()
    assert f.a.weight.grad is not None
    assert f.b.weight.grad is None
    assert f.unused.weight.grad is None


def test_constants_of_other_types_are_other_constants() -> None:
    class Times(torch.nn.Module):
        def forward(self, x: torch.Tensor, by: Any) -> torch.Tensor:
            return x * by

    x = torch.arange(4)
    f = sd.torch.partition(Times(), (x, 2), {}, MESH)
    assert f(x, 2).dtype == torch.int64
    assert f(x, 2.0).dtype == torch.float32


def test_dataclasses_as_arguments_and_results() -> None:
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, given: Record) -> Record:
            out = self.linear(given.hidden)
            return Record(out, (Record(out * 2), None), out.sum())

    f, module = both(Module(), Record(torch.randn(4, 4)))
    for given in (Record(torch.randn(4, 4)), Record(torch.randn(4, 4))):
        found, expected = f(given), module(given)
        assert isinstance(found, Record)
        torch.testing.assert_close(found.hidden, expected.hidden)
        torch.testing.assert_close(found.parts[0].hidden, expected.parts[0].hidden)
        assert found.parts[1] is None
    found.loss.backward()
    expected.loss.backward()
    torch.testing.assert_close(f.linear.weight.grad, module.linear.weight.grad)


def test_reentrant_checkpoints_have_gradients() -> None:
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            once = torch.tanh(self.linear(x))
            again: torch.Tensor = checkpoint(self.linear, once, use_reentrant=True)
            return torch.tanh(again)

    x = torch.randn(4, 4)
    f, module = both(Module(), x)
    f(x).sum().backward()
    module(x).sum().backward()
    torch.testing.assert_close(f.linear.weight.grad, module.linear.weight.grad)


SCALE = 1.0
TABLE = torch.ones(4)


def test_what_is_around_a_module_and_changes() -> None:
    """Globals, closures, objects and classes that its code reads, and tensors that are no state."""
    factor, config = 1.0, type("Config", (), {"power": 1.0})()

    class Reads(torch.nn.Module):
        by = 1.0

        def __init__(self) -> None:
            super().__init__()
            self.linear, self.shift = torch.nn.Linear(4, 4), torch.ones(4)
            self.parts = [torch.ones(4)]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out = self.scaled(self.linear(x)) * factor + self.shift + self.parts[0]
            return out * self.by * config.power + TABLE

        def scaled(self, x: torch.Tensor) -> torch.Tensor:
            return scaled(x)

    def set_global(each: Any) -> None:
        global SCALE
        SCALE = 2.0

    def set_factor(each: Any) -> None:
        nonlocal factor
        factor = 3.0

    x = torch.randn(4, 4)
    f, module = both(Reads(), x)
    changes = [
        lambda each: None,
        set_global,
        set_factor,
        lambda each: TABLE.fill_(4.0),
        lambda each: setattr(config, "power", 5.0),
        lambda each: setattr(Reads, "by", 6.0),
        lambda each: setattr(each, "shift", torch.full((4,), 7.0)),
        lambda each: each.parts[0].fill_(8.0),
    ]
    for number, change in enumerate(changes):
        for each in (f, module):
            change(each)
        torch.testing.assert_close(f(x), module(x), rtol=1e-5, atol=1e-4)
        assert len(f._engine.programs) == 1 + number


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * SCALE


class Called(torch.nn.Module):
    """Reads a global, by a function."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scaled(self.linear(x))


class Holder:
    """What a module may have in an attribute."""

    def __init__(self) -> None:
        self.scale = 1.0


class Kind(Enum):
    """Two of a kind."""

    A = 1
    B = 2


def test_what_changes_before_a_backward_that_is_not_derived_yet_is_refused() -> None:
    global SCALE
    x = torch.randn(4, 4)
    f, module = both(Called().eval(), x)
    f(x).sum().backward()
    SCALE, before = SCALE + 1, SCALE
    try:
        found, expected = f(x).sum(), module(x).sum()
        SCALE += 1
        with pytest.raises(sd.ShardError, match=r"SCALE changed between a call of Called and its"):
            found.backward()
        expected.backward()
        f(x).sum().backward()
    finally:
        SCALE = before


def test_attributes_of_other_kinds_that_change() -> None:
    class Reads(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.holder, self.kind = torch.nn.Linear(4, 4), Holder(), Kind.A
            self.names, self.queue, self.of = {"a"}, deque([1.0]), OrderedDict(a=1.0)
            self.act, self.method = partial(leaky_relu, negative_slope=0.5), self.one
            self.span, self.part = range(2), slice(0, 2)
            self.losses: list[Any] = []

        def one(self, x: torch.Tensor) -> torch.Tensor:
            return x

        def two(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out = self.method(self.act(self.linear(x))) * self.holder.scale
            out = out * len(self.names) * sum(self.queue) * self.of["a"] * len(self.span)
            return (out if self.kind is Kind.A else out * 3)[:, self.part]

    x = torch.randn(4, 4)
    f, module = both(Reads(), x)
    changes = [
        lambda each: None,
        lambda each: setattr(each.holder, "scale", 2.0),
        lambda each: each.names.add("b"),
        lambda each: each.queue.append(2.0),
        lambda each: each.of.update(a=3.0),
        lambda each: setattr(each, "act", partial(leaky_relu, negative_slope=0.1)),
        lambda each: setattr(each, "method", each.two),
        lambda each: setattr(each, "span", range(3)),
        lambda each: setattr(each, "part", slice(1, 3)),
        lambda each: setattr(each, "kind", Kind.B),
        lambda each: setattr(each.linear, "forward", partial(torch.mul, 2)),
    ]
    for number, change in enumerate(changes):
        for each in (f, module):
            change(each)
        torch.testing.assert_close(f(x), module(x))
        assert len(f._engine.programs) == 1 + number
    f.losses.append(x)  # which forward does not read
    f(x)
    assert len(f._engine.programs) == len(changes)


class Loads(OrderedDict[str, Any]):
    """Has what is asked for; all at once cannot be had, as of the classes of all models."""

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key)() if key in self else 1.0

    def items(self) -> Any:
        raise ValueError("some cannot be loaded")

    __iter__ = values = items


class Reads(Mapping[str, Any]):
    """One of an object."""

    def __init__(self, **own: Any) -> None:
        self.own = own

    def __getitem__(self, key: str) -> Any:
        return self.own[key]

    def __iter__(self) -> Any:
        raise ValueError("is not known")

    def __len__(self) -> int:
        return 1


LOADED, READ = Loads(a=lambda: 2.0), Reads(a=3.0)


def test_collections_of_the_users_are_looked_at_without_their_code() -> None:
    class Scales(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * LOADED["a"] * READ["a"]

    x = torch.randn(4, 4)
    f, module = both(Scales(4, 4), x)
    changes = [
        lambda: None,
        lambda: LOADED.__setitem__("a", lambda: 4.0),
        lambda: READ.own.__setitem__("a", 5.0),
    ]
    for number, change in enumerate(changes):
        change()
        torch.testing.assert_close(f(x), module(x))
        assert len(f._engine.programs) == 1 + number


def test_hooks_of_all_modules() -> None:
    x = torch.randn(4, 4)
    f, module = both(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), x)
    f(x)
    hook = register_module_forward_hook(lambda _, given, out: out * 2)
    try:
        torch.testing.assert_close(f(x), module(x))
    finally:
        hook.remove()
    torch.testing.assert_close(f(x), module(x))


def test_hooks_of_gradients_inside() -> None:
    x = torch.randn(4, 4, requires_grad=True)
    f, module = both(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)), x)
    f(x).sum().backward()
    for each in (f, module):
        each[1].register_full_backward_pre_hook(lambda _, given: (given[0] * 2,))
        each[0].register_full_backward_hook(lambda _, given, own: None)
        each.zero_grad()
        each(x).sum().backward()
    torch.testing.assert_close(f[0].weight.grad, module[0].weight.grad)


def test_buffers_that_grow_or_get_another_type() -> None:
    class Grows(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.register_buffer("kept", torch.zeros(0, 4))
            self.register_buffer("count", torch.zeros((), dtype=torch.int64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out = self.linear(x)
            self.kept = torch.cat([self.kept, out.detach()])
            self.count = self.count + 0.5
            return out + self.kept.mean(0) * self.count

    x = torch.randn(4, 4)
    f, module = both(Grows(), x)
    for _ in range(3):
        torch.testing.assert_close(f(x), module(x))
        torch.testing.assert_close(dict(f.named_buffers()), dict(module.named_buffers()))


def test_results_without_derivatives_do_not_want_them() -> None:
    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            out = self.linear(x)
            return out, out.detach() * 2

    x = torch.randn(4, 4)
    f, _ = both(Both(), x)
    assert [each.requires_grad for each in f(x)] == [True, False]


def test_torch_compile_around_leaves_the_call_alone() -> None:
    x = torch.randn(4, 4)
    f, module = both(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()), x)
    compiled = torch.compile(f, backend="eager")
    torch.testing.assert_close(compiled(x), module(x))
    torch.testing.assert_close(compiled(x[:2]), module(x[:2]))
    f.zero_grad()
    compiled(x).sum().backward()
    module(x).sum().backward()
    torch.testing.assert_close(f[0].weight.grad, module[0].weight.grad)


def test_tensors_that_forward_keeps_in_attributes() -> None:
    class Keeps(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.spectral = torch.nn.utils.spectral_norm(torch.nn.Linear(4, 4))
            self.penalty: torch.Tensor | None = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.spectral(self.linear(x))
            self.penalty = out.abs().mean()
            return out

    x = torch.randn(4, 4)
    module = Keeps()
    f = sd.torch.partition(module, (x,), {"x": [Shard(0), Replicate()]}, MESH)
    pairs = [(each, torch.optim.SGD(each.parameters(), lr=0.1)) for each in (f, module)]
    for _ in range(3):
        for each, optimizer in pairs:
            optimizer.zero_grad()
            out = each(x)
            (out.square().mean() + each.penalty * 2).backward()
            optimizer.step()
        torch.testing.assert_close(f.penalty, module.penalty)
        torch.testing.assert_close(f.state_dict(), module.state_dict())
    assert len(f._engine.programs) <= 3


class KeepsMany(torch.nn.Module):
    """Keeps lists, tuples and dicts: exchanged, filled in place, and with others inside."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(2))
        self.inner = torch.nn.Identity()
        self.states: Any = None
        self.sums: list[Any] = []
        self.losses: Any = OrderedDict(first=None, inner={"list": []})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.states, pairs = [], []
        for number, layer in enumerate(self.layers):
            x = layer(x).tanh()
            self.states.append(x)
            pairs.append((number, {"mean": x.mean(0)}))
            self.sums.append(x.sum())
        self.inner.pairs = tuple(pairs)
        self.inner.named = {"last": x, "number": 2}
        self.losses["first"] = x.square().mean()
        self.losses["inner"]["list"] = [x.abs().mean(), 3]
        self.losses["inner"][1] = x[0]
        return x


def test_gradients_in_eval_mode_of_a_module_that_keeps_tensors() -> None:
    class Keeps(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.kept: Any = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.kept = [self.linear(x)]
            self.kept.append(self.kept[0].tanh())
            return self.kept[1] * 2

    x = torch.randn(4, 4)
    f, module = both(Keeps().eval(), x)
    for _ in range(2):
        for each in (f, module):
            (each(x).sum() + each.kept[0].sum()).backward()
        torch.testing.assert_close(f.linear.weight.grad, module.linear.weight.grad)


@pytest.mark.parametrize("in_place", [False, True])
def test_collections_of_tensors_that_forward_keeps(in_place: bool) -> None:
    x, module = torch.randn(4, 4), KeepsMany()
    plain = copy.deepcopy(module)
    if in_place:
        f: Any = sd.torch.fully_shard(module, mesh=MESH["dp"])
    else:
        f = sd.torch.partition(module, (x,), {"x": [Shard(0), Replicate()]}, MESH)
        assert module.states is None
        assert module.sums == []
    before, filled, named = None, f.sums, f.losses
    assert named == {"first": None, "inner": {"list": []}}
    for _ in range(3):
        for each in (f, plain):
            each.zero_grad()
            each.sums.clear()
            out = each(x)
            of_pairs = sum(number * one["mean"].sum() for number, one in each.inner.pairs)
            of_pairs = of_pairs + each.losses["first"] + each.losses["inner"]["list"][0]
            (out.sum() + each.states[0].square().sum() + sum(each.sums) + of_pairs).backward()
        torch.testing.assert_close(f.states, plain.states)
        torch.testing.assert_close(f.inner.pairs, plain.inner.pairs)
        torch.testing.assert_close(f.sums, plain.sums)
        torch.testing.assert_close(f.losses, plain.losses)
        torch.testing.assert_close(f.inner.named, plain.inner.named)
        assert f.losses is named
        for a, b in zip(f.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad)
        assert f.sums is filled
        assert f.states is not before
        before = f.states
    assert len(f._engine.programs) <= 3
    torch.testing.assert_close(f(x), plain(x))
    torch.testing.assert_close(f.sums, plain.sums)


def test_what_calls_before_have_kept_is_not_read() -> None:
    class Carries(torch.nn.Module):
        def __init__(self, start: Any) -> None:
            super().__init__()
            self.linear, self.h = torch.nn.Linear(4, 4), start

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.h = self.linear(x) if self.h is None else self.linear(x + self.h)
            return self.h

    x = torch.randn(4, 4)
    f, module = both(Carries(None), x)
    torch.testing.assert_close(f(x), module(x))
    with pytest.raises(sd.ShardError, match="h"):
        f(x)
    with pytest.raises(sd.ShardError, match="kept in h"):
        both(Carries(torch.ones(4)), x)


REGISTERED: dict[str, Any] = {}


class Registers:
    """Knows its subclasses, as mixins of hubs do."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        REGISTERED[cls.__name__] = len(REGISTERED)


class Card(Registers):
    """What a module holds, which is made of another class."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class Registered(torch.nn.Linear, Registers):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__(inside, outside)
        self.card = Card(len(REGISTERED))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * self.card.number


def test_what_makes_classes_and_modules_is_of_no_call() -> None:
    f, module = both(Registered(4, 4), torch.ones(4, 4))
    names = {name for state in f._engine.programs[0].states for name, _ in state.around}
    assert names.isdisjoint(("REGISTERED", "__init_subclass__"))
    type("Another", (Registers,), {})
    torch.testing.assert_close(f(torch.ones(4, 4)), module(torch.ones(4, 4)))
    assert len(f._engine.programs[0].states) == 1


class Ticking(threading.Thread):
    """As of another package, which watches bars of progress: it says when it ran."""

    __module__ = "progress"

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.ran, self.ends = 0, threading.Event()

    def run(self) -> None:
        while not self.ends.is_set():
            self.ran += 1
            time.sleep(1e-3)


class Watched(torch.nn.Linear):
    watcher: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if Watched.watcher is None:
            Watched.watcher = Ticking()
            Watched.watcher.start()
        return super().forward(x)


def test_threads_that_run_beside_a_trace() -> None:
    f, module = both(Watched(4, 4), torch.ones(4, 4))
    torch.testing.assert_close(f(torch.ones(4, 4)), module(torch.ones(4, 4)))
    Watched.watcher.ends.set()


def _masked(size: int, x: Any) -> Any:
    mask = torch.full((size, size), -1.0)
    mask[0].fill_(2.0)
    mask[:, 0] += 1.0
    return mask.triu()


def _turned(size: int, x: Any) -> Any:
    angles = torch.outer(torch.arange(size).float(), 10.0 ** -torch.arange(0, 1, 1 / size))
    return {"cos": angles.cos(), "pair": (angles.sin(), size)}


def _of_input(size: int, x: Any) -> Any:
    mask = torch.zeros(size, size)
    mask[0] = x.detach()[0, 0]
    return mask


def _random(size: int, x: Any) -> Any:
    return torch.ones(size, size) * torch.rand(size)


class Remembers(torch.nn.Module):
    """It keeps what it computes of a length in an attribute, until another length comes."""

    def __init__(self, computed: Callable[[int, Any], Any], is_of_each: bool) -> None:
        super().__init__()
        self.linear, self.computed, self.is_of_each = torch.nn.Linear(4, 4), computed, is_of_each
        self.length, self.table = 0, None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.table is None or (self.is_of_each and self.length != len(x)):
            self.table, self.length = self.computed(len(x), x), len(x)
        leaves = torch.utils._pytree.tree_leaves(self.table)
        return sum(each.mean() for each in leaves if not isinstance(each, int)) * self.linear(x)


@pytest.mark.parametrize("computed", [_masked, _turned])
@pytest.mark.parametrize("is_of_each", [True, False])
@pytest.mark.parametrize("in_training", [True, False])
def test_constants_that_calls_keep_are_read_later(
    computed: Any, is_of_each: bool, in_training: bool
) -> None:
    f, plain = both(Remembers(computed, is_of_each).train(in_training), torch.randn(4, 4))
    for size in (4, 6, 4, 6, 4, 6):
        x = torch.randn(size, 4)
        found, expected = f(x), plain(x)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(f.table, plain.table)
        assert f.length == plain.length
        for each, y in ((f, found), (plain, expected)):
            each.zero_grad()
            y.square().mean().backward()
        torch.testing.assert_close(f.linear.weight.grad, plain.linear.weight.grad)
        assert sum(len(each.states) for each in f._engine.programs) <= (3 if in_training else 6)
    if computed is _masked:
        for each in (f, plain):
            each.table[1].fill_(7.0)  # by somebody else
        torch.testing.assert_close(f(x), plain(x))
    f.table = plain.table = None
    for each in (f, copy.deepcopy(f)):
        torch.testing.assert_close(each(x), plain(x))


@pytest.mark.parametrize("computed", [_of_input, _random])
def test_what_calls_keep_of_arguments_or_at_random_is_not_read(computed: Any) -> None:
    f, _ = both(Remembers(computed, False), torch.randn(4, 4))
    f(torch.randn(4, 4))
    with pytest.raises(sd.ShardError, match="kept in table"):
        f(torch.randn(4, 4))


class Caches(torch.nn.Module):
    """In eval mode it caches what `computed` says: of parameters alone, if that is 0."""

    def __init__(self, computed: float = 0.0) -> None:
        super().__init__()
        self.bias, self.linear = torch.nn.Parameter(torch.randn(3, 4)), torch.nn.Linear(4, 4)
        self.register_buffer("index", torch.tensor([2, 0]))
        self.computed, self.cache = computed, dict[str, Any]()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        cache = {} if self.training else self.cache
        if x.device.type not in cache:
            of_x = self.computed * x.sum() if self.computed else 0
            cache[x.device.type] = self.bias[self.index].sum(0) + of_x
        return self.linear(x) + cache[x.device.type]


@pytest.mark.parametrize("was_called", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
def test_a_cache_of_parameters_is_computed_in_each_call(was_called: bool, in_place: bool) -> None:
    module, x = Caches().eval(), torch.randn(4, 4)
    plain = copy.deepcopy(module)
    if was_called:
        module(x)
    if in_place:
        f = sd.torch.fully_shard(module, mesh=MESH["dp"])
    else:
        f = sd.torch.partition(module, (x,), {"x": [Shard(0), Replicate()]}, MESH)
    for _ in range(3):
        plain.cache.clear()
        torch.testing.assert_close(f(x), plain(x))
        for each in (f, plain):
            each.zero_grad()
            each(x).square().sum().backward()
            with torch.no_grad():
                for parameter in each.parameters():
                    parameter -= 0.1 * parameter.grad
            each.cache.clear() if each is plain else None
        torch.testing.assert_close(f.state_dict(), plain.state_dict())
    assert len(f.cache) == was_called


@pytest.mark.parametrize("was_called", [False, True])
@pytest.mark.parametrize("is_trained", [False, True])
def test_a_cache_of_arguments_is_not_read(was_called: bool, is_trained: bool) -> None:
    module, x = Caches(computed=1.0).eval().requires_grad_(is_trained), torch.randn(4, 4)
    refused = pytest.raises(sd.ShardError, match=r"(kept|a tensor).* in cache")
    if was_called and is_trained:
        module(x)
        with refused:
            sd.torch.partition(module, (x,), {"x": [Shard(0), Replicate()]}, MESH)
        return
    f = sd.torch.partition(module, (x,), {"x": [Shard(0), Replicate()]}, MESH)
    torch.testing.assert_close(f(x), module(x))
    with refused:
        f(x)


def test_a_cache_that_is_not_filled_again_is_refused() -> None:
    class Overrides(Caches):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x) + self.cache.get("own", self.bias[0])

    module, x = Overrides(), torch.randn(4, 4)
    module.cache["own"] = module.bias[1] * 2
    with pytest.raises(sd.ShardError, match="has gradients"):
        sd.torch.partition(module, (x,), {"x": [Shard(0), Replicate()]}, MESH)
    assert set(module.cache) == {"own"}


def test_hooks_that_forward_registers_once() -> None:
    """As transformers does where hidden states are wanted."""

    class Captures(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not getattr(self, "is_hooked", False):
                for each in self.layers:
                    each.register_forward_hook(lambda _, args, out: (out + args[0]) * 2)
                self.is_hooked = True
            return self.layers(x) if self.training else -self.layers(x)

    x = torch.randn(4, 4)
    f, module = both(Captures(), x)
    for is_training in (True, False, True):
        for each in (f, module):
            each.train(is_training)
            each.zero_grad()
            each(x).sum().backward()
        torch.testing.assert_close(f(x), module(x))
        torch.testing.assert_close(f.layers[0].weight.grad, module.layers[0].weight.grad)
    assert len(f._engine.programs) <= 3


WAYS = {
    "made": ("x * S().f", "class S:\n  def __init__(self): self.f = FACTOR"),
    "made by another": (
        "x * make().f()",
        "def make(): return S()\nclass S:\n  def f(self): return FACTOR",
    ),
    "multiplied": ("S() * x", "class S:\n  def __mul__(self, x): return x * FACTOR"),
    "length": ("x * len(self.s)", "class S:\n  def __len__(self): return FACTOR"),
    "truth": ("x if self.s else -x", "class S:\n  def __bool__(self): return FACTOR > 2"),
    "any attribute": (
        "x * self.s.any",
        "class S:\n  def __getattr__(_, name): return of(name)"
        "\ndef of(name):\n  if name == 'any': return FACTOR\n  raise AttributeError",
    ),
    "iterated": ("x * sum(self.s)", "class S:\n  def __iter__(self): return iter([FACTOR])"),
    "in a list": ("x * self.all[0].f()", "class S:\n  def f(self): return FACTOR"),
    "property": ("x * self.s.f", "class S:\n  f = property(lambda self: FACTOR)"),
    "method in slots": (
        "x * self.s.f()",
        "class S:\n  __slots__ = ()\n  def f(self): return FACTOR",
    ),
    "wrapped": ("x * f()", "S = int\n@wraps(int)\ndef f(): return FACTOR\n"),
    "default": ("x * self.f()", "S = int\ndef f(self, store=STORE): return store['f']\nM.f = f"),
    "slots": ("x * self.s.f", "class S:\n  __slots__ = ('f',)\n  def __init__(self): self.f = 2"),
    "class": ("x * self.s.f", "class S:\n  f = 2"),
    "class of a module": ("x * getattr(self, 'f', 2)", "S = int"),
    "exchanged": ("x * g()", "S = int\ndef g(): return 2\ndef h(): return FACTOR"),
    "cached for what is given": (
        "x * f(FACTOR)",
        "S = int\n@lru_cache\ndef f(_): return STORE['f']",
    ),
    "record": ("x * self.s.f", "@dataclass(slots=True)\nclass S:\n  f: int = 2"),
}
MODULE = """
import itertools
from dataclasses import dataclass
from functools import lru_cache, wraps
FACTOR, STORE = 2, {{'f': 2}}
class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.s, self.all = S(), [S()]
    def forward(self, x):
        return {expression}
{more}
"""


@pytest.mark.parametrize("way", WAYS)
def test_what_code_reads_that_no_name_calls(way: str) -> None:
    expression, more = WAYS[way]
    scope = dict(globals(), __name__="somebody")
    exec(MODULE.format(expression=expression, more=more), scope)
    module, x = scope["M"](), torch.randn(4, 4)
    f = sd.torch.partition(module, (x,), {"x": [Shard(0), Replicate()]}, MESH)
    torch.testing.assert_close(f(x), module(x))
    for each in (f.s, module.s) if way in ("slots", "record") else ():
        each.f = 3
    if way.startswith("class"):
        scope["M" if way.endswith("module") else "S"].f = 3
    if way.startswith("exchanged"):
        scope["g"] = scope["h"]
        torch.testing.assert_close(f(x), module(x))
    scope["FACTOR"] = scope["STORE"]["f"] = 3
    torch.testing.assert_close(f(x), module(x))


COUNTING = {
    "an iterator": ("x * next(self.s)", "S = itertools.count\n"),
    "a generator": ("x * next(self.s)", "def S():\n  for each in range(99): yield each"),
    "an iterator of a list": ("x * next(self.s)", "S = lambda: iter([1, 2, 3, 4, 5, 6, 7, 8, 9])"),
    "slots": (
        "x * self.s.f()",
        "class S:\n  __slots__ = ('n',)\n  def __init__(self): self.n = 0\n"
        "  def f(self):\n    self.n += 1\n    return self.n",
    ),
    "held": ("x * self.s.f()", "from others import S"),
    "held, of which nothing is used": ("self.s.f() and x", "from others import S"),
    "held in a list": ("x * self.all[0].f()", "from others import S"),
    "others in a closure": (
        "x * f()",
        "S = int\ndef of(s): return lambda: s.f()\nimport others\nf = of(others.S())",
    ),
}


@pytest.mark.parametrize("way", COUNTING)
def test_what_counts_calls_is_refused_or_counts_them(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = ModuleType("others")
    exec("class S:\n  n = 0\n  def f(self):\n    self.n += 1\n    return self.n", vars(others))
    others.S.__module__ = "others"
    monkeypatch.setitem(sys.modules, "others", others)
    expression, more = COUNTING[way]
    scope = dict(globals(), __name__="somebody")
    exec(MODULE.format(expression=expression, more=more), scope)
    module, x = scope["M"](), torch.randn(4, 4)
    if not way.startswith("held"):
        with pytest.raises(sd.ShardError, match="in each call, which a program does not"):
            sd.torch.partition(module, (x,), {"x": [Shard(0), Replicate()]}, MESH)
        return
    f = sd.torch.partition(module, (x,), {"x": [Shard(0), Replicate()]}, MESH)
    for _ in range(3):
        torch.testing.assert_close(f(x), module(x))
        assert (f.s.n, f.all[0].n) == (module.s.n, module.all[0].n)
