"""What forward and hooks leave in collections, variables and objects around a module."""

import functools
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.utils import _pytree as pytree

import shard_dialect as sd
from shard_dialect.errors import ShardError

MESH = sd.Grid("mesh", (2, 2), axes=("dp", "tp"))
AROUND: dict[str, Any] = {}
Found = Callable[[], Any]


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))


def partitioned(module: nn.Module) -> Any:
    plan = {"**.weight": [Shard(0), Replicate()]} if isinstance(module, nn.Sequential) else {}
    return sd.torch.partition(module, (torch.randn(4, 4),), plan, MESH)


class Collector:
    """Keeps what its methods and its calls get."""

    def __init__(self, items: list[Any] | None = None) -> None:
        self.items: list[Any] = [] if items is None else items
        self.count = 0

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def size(self) -> int:
        return sum(1 for _ in self.items)

    def append(self, item: Any) -> None:
        self.items.append(item)
        self.count += 1

    def hook(self, module: Any, args: Any, out: Any) -> None:
        self.append(out.detach())

    def __call__(self, module: Any, args: Any, out: Any) -> None:
        self.last = out.detach()


class Slotted:
    """Without a dict of attributes."""

    __slots__ = ("last",)


def in_a_dict(module: Any) -> Found:
    found: dict[str, Any] = {}

    def hook(module: Any, args: Any, out: Any) -> None:
        found["x"] = out.detach()

    module[0].register_forward_hook(hook)
    return lambda: found


def in_a_global(module: Any) -> Found:
    def hook(module: Any, args: Any, out: Any) -> None:
        AROUND["x"] = out

    module[0].register_forward_hook(hook)
    return lambda: dict(AROUND)


def in_a_growing_list(module: Any) -> Found:
    found: list[Any] = []
    module[0].register_forward_hook(lambda module, args, out: found.append(out.detach()))
    return lambda: found


def in_lists_of_a_dict_that_is_given(module: Any) -> Found:
    def to(name: str, store: Any) -> Any:
        return lambda module, args, out: store[name].append(out.detach())

    found: Any = defaultdict(list)
    for number in (0, 2):
        module[number].register_forward_hook(to(str(number), found))
    return lambda: found


def by_a_method(module: Any) -> Found:
    found = Collector()
    module[0].register_forward_hook(lambda module, args, out: found.append(out))
    return lambda: (found.items, found.count)


def in_a_namespace(module: Any) -> Found:
    found = SimpleNamespace(last=None)

    def hook(module: Any, args: Any, out: Any) -> None:
        found.last = out

    module[0].register_forward_hook(hook)
    return lambda: found.last


def by_a_bound_method(module: Any) -> Found:
    found = Collector()
    module[0].register_forward_hook(found.hook)
    return lambda: (found.items, found.count)


def by_a_call_of_an_object(module: Any) -> Found:
    found = Collector()
    module[0].register_forward_hook(found)
    return lambda: getattr(found, "last", None)


def by_a_partial_function(module: Any) -> Found:
    def hook(store: Any, name: str, module: Any, args: Any, out: Any) -> None:
        store[name] = out

    found: dict[str, Any] = {}
    module[0].register_forward_hook(partial(hook, found, "x"))
    return lambda: found


def by_a_default(module: Any) -> Found:
    found: dict[str, Any] = {}

    def hook(module: Any, args: Any, out: Any, store: Any = found) -> None:
        store["x"] = (out, args[0], out.mean(), out.shape)

    module[0].register_forward_hook(hook)
    return lambda: found


def before_the_module(module: Any) -> Found:
    found: dict[str, Any] = {}

    def hook(module: Any, args: Any) -> None:
        found["x"] = args[0].clone()

    module[2].register_forward_pre_hook(hook)
    return lambda: found


def in_a_variable(module: Any) -> Found:
    last, before = None, None

    def hook(module: Any, args: Any, out: Any) -> None:
        nonlocal last, before
        before, last = last, out

    module[0].register_forward_hook(hook)
    return lambda: (before, last)


def only_the_first_two(module: Any) -> Found:
    found: list[Any] = []

    def hook(module: Any, args: Any, out: Any) -> None:
        if len(found) < 2:
            found.append(out.detach())

    module[0].register_forward_hook(hook)
    return lambda: found


def only_the_last_two(module: Any) -> Found:
    found: Any = deque(maxlen=2)
    module[0].register_forward_hook(lambda module, args, out: found.append(out.detach()))
    return lambda: list(found)


def counts_and_shapes(module: Any) -> Found:
    calls, shapes = 0, dict[str, Any]()

    def hook(module: Any, args: Any, out: Any) -> None:
        nonlocal calls
        calls += 1
        shapes["x"] = out.shape

    module[0].register_forward_hook(hook)
    return lambda: (calls, shapes)


def arrays_of_numpy(module: Any) -> Found:
    found: list[Any] = []
    module[0].register_forward_hook(
        lambda module, args, out: found.append(out.detach().cpu().numpy())
    )
    return lambda: found


def numbers(module: Any) -> Found:
    found: list[Any] = []

    def hook(module: Any, args: Any, out: Any) -> None:
        found.append({"mean": out.mean().item(), "first": out[0].tolist()})

    module[0].register_forward_hook(hook)
    return lambda: found


def gradients(module: Any) -> Found:
    found: dict[str, Any] = {}

    def hook(module: Any, inputs: Any, outputs: Any) -> None:
        found["x"] = outputs[0]

    module[2].register_full_backward_hook(hook)
    return lambda: found


def gradients_of_a_tensor(module: Any) -> Found:
    found: list[Any] = []
    module[0].register_forward_hook(
        lambda module, args, out: out.register_hook(found.append) and None
    )
    return lambda: found


KINDS = [
    in_a_dict,
    in_a_global,
    in_a_growing_list,
    in_lists_of_a_dict_that_is_given,
    by_a_method,
    in_a_namespace,
    by_a_bound_method,
    by_a_call_of_an_object,
    by_a_partial_function,
    by_a_default,
    before_the_module,
    in_a_variable,
    only_the_first_two,
    only_the_last_two,
    counts_and_shapes,
    arrays_of_numpy,
    numbers,
    gradients,
    gradients_of_a_tensor,
]


@pytest.mark.parametrize("is_there_before", [True, False])
@pytest.mark.parametrize("kind", KINDS, ids=lambda each: each.__name__)
def test_what_hooks_leave_around(kind: Any, is_there_before: bool) -> None:
    plain, module = net(), net()
    expected = kind(plain)
    found = kind(module) if is_there_before else None
    f = partitioned(module)
    found = found or kind(f)
    for _ in range(4):
        x = torch.randn(4, 4)
        for each, own in ((plain, expected), (f, found)):
            AROUND.clear()
            each(x).sum().backward()
            left = own()
            if each is plain:
                wanted = pytree.tree_map(lambda leaf: leaf, left)
        torch.testing.assert_close(left, wanted)
    for a, b in zip(f.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def kept_in_a_set(module: Any) -> Found:
    found: set[Any] = set()
    module[0].register_forward_hook(lambda module, args, out: found.add(out))
    return lambda: list(found)


def kept_in_slots(module: Any) -> Found:
    found = Slotted()
    found.last = None

    def hook(module: Any, args: Any, out: Any) -> None:
        found.last = out

    module[0].register_forward_hook(hook)
    return lambda: [found.last]


def kept_by_a_computed_name(module: Any) -> Found:
    found = Collector()
    module[0].register_forward_hook(lambda module, args, out: setattr(found, "a" + "b", out))
    return lambda: [vars(found).get("ab")]


@pytest.mark.parametrize("kind", [kept_in_a_set, kept_in_slots, kept_by_a_computed_name])
def test_what_cannot_be_left_is_refused_and_leaves_nothing(kind: Any) -> None:
    module = net()
    found = kind(module)
    with pytest.raises(ShardError, match="forward keeps a tensor in a"):
        partitioned(module)
    assert not any(isinstance(each, torch.Tensor) for each in found())


@pytest.mark.parametrize("size", [None, 8])
def test_caches_of_functions_are_not_of_a_trace(size: int | None) -> None:
    @functools.lru_cache(maxsize=size)
    def mask(count: int) -> torch.Tensor:
        return torch.ones(count, count).tril()

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return mask(x.shape[0]) @ self.linear(x)

    module = Masked()
    f = partitioned(module)
    for count in (4, 4, 6, 2):
        x = torch.randn(count, 4)
        torch.testing.assert_close(f(x), module(x))
        f(x).sum().backward()


def test_arrays_and_counts_are_results() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.calls = nn.Linear(4, 4), 0

        def forward(self, x: torch.Tensor) -> Any:
            self.calls += 1
            y = self.linear(x)
            return y, y.detach().numpy(), {"calls": self.calls}

    module, x = Counts(), torch.randn(4, 4)
    f = partitioned(module)
    for _ in range(3):
        torch.testing.assert_close(f(x), module(x))


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.numpy() + 1,
        lambda x: float(x.mean()),
        lambda x: x.mean().item() * 2,
        lambda x: 2 if x.numpy() > 0 else 3,
        lambda x: len(f"{x.mean().item():.2f}"),
        lambda x: x.tolist()[0][0],
    ],
)
def test_numbers_that_are_computed_with_are_refused(read: Any) -> None:
    class Computes(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x * read(x)

    with pytest.raises(ShardError, match=r"test_kept_values\.py:\d+: .*from the elements"):
        partitioned(Computes())


READS = [
    "sum(1 for _ in {})",
    "len({})",
    "len([*{}])",
    "not {}",
    "not {}[4:]",
    "'stop' in {}",
    "{} == []",
    "{}.count('stop')",
    "{}.__len__()",
    "({}.append(None), {}.pop(), bool({}[5:]))[-1]",
    "size({})",
    "(lambda each: size(each))({})",
    "max((isinstance(each, str) for each in {}), default=0)",
    "size(copy({}))",
]
HOLDERS = {
    "closure": ("found", "found", "found = []"),
    "default": ("found", "found", "found = []"),
    "argument": ("found", "found", "found = []"),
    "global": ("FOUND", "FOUND", ""),
    "attribute": ("store.found", "store.found", "store = Collector(); store.found = []"),
    "computed attribute": (
        "store.found",
        "getattr(store, 'fo' + 'und')",
        "store = Collector(); store.found = []",
    ),
    "item": ("store['x']", "store['x']", "store = {'x': []}"),
    "item by default": ("store.setdefault('x', [])", "store.get('x', [])", "store = {'x': []}"),
    "first item": ("store[0]", "store[0]", "store = [[]]"),
    "namespace": ("store.found", "store.found", "store = SimpleNamespace(found=[])"),
    "two variables": ("found", "others", "found = others = []"),
    "variable and item": ("found", "store['x']", "found = []; store = {'x': found}"),
    "variable and items": ("found", "[*store.values()][0]", "found = []; store = {'x': found}"),
    "variable and tuple": ("found", "store[0]", "found = []; store = (found,)"),
    "variable and object": ("found", "store.items", "found = []; store = Collector(found)"),
    "its own method": ("store.items", "store.size()", "store = Collector()"),
    "what it is": ("store.items", "len(store)", "store = Collector()"),
    "what it goes through": ("store.items", "len([*store])", "store = Collector()"),
}
HOOK = """
FOUND = []
def make():
    {made}
    def hook(module, args, out{more}):
        count = float(int({read}) % 5 == 0)
        {to}.append(out.detach())
        return out + count
    return {hook}, (lambda: {to})
"""


@pytest.mark.parametrize(
    ("read", "holder"),
    [*((read, "closure") for read in READS), *((READS[0], holder) for holder in HOLDERS)],
)
def test_lists_that_are_read_in_any_way(read: str, holder: str) -> None:
    to, other, made = HOLDERS[holder]
    is_object = holder.startswith(("its", "what"))
    text = HOOK.format(
        made=made,
        to=to,
        read=other if is_object else read.format(*[other] * 3),
        more={"default": ", found=found", "argument": ", found"}.get(holder, ""),
        hook={"argument": "lambda *args: hook(*args, found)"}.get(holder, "hook"),
    )
    hooks = []
    for _ in range(2):
        scope = dict(globals(), size=len, copy=list)
        exec(text, scope)
        hooks.append(scope["make"]())
    (hook, expected), (own, found) = hooks
    plain, f = net(), partitioned(net())
    plain[0].register_forward_hook(hook)
    f[0].register_forward_hook(own)
    with torch.no_grad():
        for number in range(9):
            for each in (expected(), found()) if number == 4 else ():
                each.append("stop")
            for each in (expected(), found()) if number == 7 else ():
                each.clear()
            x = torch.randn(4, 4)
            torch.testing.assert_close(f(x), plain(x))
            left, wanted = (
                [one for one in each() if not isinstance(one, str)] for each in (found, expected)
            )
            torch.testing.assert_close(left, wanted)


LEFT = {
    "attribute": ("self.last", "self.last = y.mean().item()"),
    "computed name": ("getattr(self, 'la' + 'st')", "self.last = y.mean().item()"),
    "dict": ("self.found['x']", "self.found['x'] = y.mean().item()"),
    "dict of another name": ("self.others['x']", "self.found['x'] = y.mean().item()"),
    "list": ("sum(self.list)", "self.list.append(y.mean().item())"),
    "list in a dict": ("sum(self.found.get('y', []))", "self.found['y'] = [y.mean().item()]"),
    "tuple": ("self.last[0]", "self.last = (y.mean().item(),)"),
    "array": ("self.last.sum().item()", "self.last = y.detach().numpy()"),
    "comparison": ("(3 if self.last > 0 else 2)", "self.last = y.mean().item()"),
}
LEAVES = """
class Leaves(nn.Module):
    def __init__(self):
        super().__init__()
        self.last, self.found, self.list = {first}, {{"x": 1.0}}, [1.0]
        self.others = self.found
    def forward(self, x):
        y = x * {read}
        {leave}
        return y
"""


@pytest.mark.parametrize("way", LEFT)
def test_numbers_that_a_call_before_left(way: str) -> None:
    read, leave = LEFT[way]
    first = {"tuple": "(1.0,)", "array": "torch.ones(1).numpy()"}.get(way, "1.0")
    scope = dict(globals())
    exec(LEAVES.format(read=read, leave=leave, first=first), scope)
    module = scope["Leaves"]()
    with torch.no_grad():
        f = partitioned(module)
        for _ in range(6):
            x = torch.randn(4, 4)
            torch.testing.assert_close(f(x), module(x))


def test_lists_that_grow_share_a_program_and_its_state() -> None:
    f, found = partitioned(net()), list[Any]()
    f[0].register_forward_hook(lambda module, args, out: found.append((out, out.mean().item())))
    for count in range(1, 12):
        out = f(torch.randn(4, 4))
        assert len(found) == count
        torch.testing.assert_close(f[2](found[-1][0].relu()), out)
    assert sum(len(each.states) for each in f._engine.programs) <= 3
