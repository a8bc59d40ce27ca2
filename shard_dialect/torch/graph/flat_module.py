"""A module as a function of a list of tensors: its state, and then the tensors of its arguments.

The names are those of parameters and buffers, of the arguments of `forward` (with the path to a
tensor inside one: "past.0.key"), and "output" with the path inside the result: "output.logits".
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils import _pytree as pytree

from shard_dialect.errors import ShardError
from shard_dialect.model.reached import reached
from shard_dialect.torch.graph.complex_parts import as_real
from shard_dialect.torch.graph.composed_functions import average_from_the_first
from shard_dialect.torch.graph.constant_nodes import constants_of
from shard_dialect.torch.graph.decisions import UNKNOWN, Decision, Foreseen
from shard_dialect.torch.graph.exchanged import exchanged
from shard_dialect.torch.graph.forward_and_backward import COTANGENT, Part, cotangent
from shard_dialect.torch.graph.index_checks import IndexCheck
from shard_dialect.torch.graph.kept_values import (
    CONSTANTS,
    MODULES,
    Before,
    Constant,
    Filled,
    Place,
    Snapshot,
    Spaces,
    drop_strays,
    joined,
    put,
    values_of,
)
from shard_dialect.torch.graph.random_draws import RANDOM, Draw, Rng
from shard_dialect.torch.graph.tensor_trees import (
    Leaves,
    Tensor,
    has_derivative,
    is_plain,
    is_tensor,
    refuse_layout,
    refuse_odd,
)

OUTPUT = "output"
LOSS = "loss"
ATTRIBUTE = "attribute"
LATER = "later"
GRADIENT, UPDATED, WRITTEN, INDEX = "gradient.", "updated.", "written.", "index."
"""Before the names of parameters whose gradients, of state and of arguments whose new values, and
of indices that are results."""


@dataclass
class FlatModule:
    """Called with tensors for `names`, it returns those of the results.

    With a `loss`, a function of the module's result and the `targets`, the results are the loss and
    the gradients of the parameters that have them. One that `derives` has gradients of its result,
    weighted by cotangents, beside the result.
    """

    module: Any
    spaces: Spaces
    """What else a call may change."""
    arguments: Leaves
    loss: Callable[..., Tensor] | None = None
    rng: Rng = "counter"
    trained: Sequence[str] = field(default_factory=list)
    """The parameters, and then the arguments, that have gradients; with a loss, all parameters."""
    asked: frozenset[str] = frozenset()
    """The results that are differentiated, of a module that returns a loss beside others."""
    foreseen: Foreseen = UNKNOWN
    """What is known of what the module decides by elements."""
    name: str = field(init=False)
    """That of the module's class."""
    state: dict[str, Tensor] = field(init=False)
    types: dict[str, Any] = field(default_factory=dict)
    """The types of parameters that the module computes with, where they are others."""
    result: Leaves = field(init=False)
    """Known once it was called, as the next ones."""
    left_out: frozenset[str] = frozenset()
    """The results that it does not derive, though they depend on what is trained."""
    path: Sequence[int] = ()
    """What it decides by elements."""
    updated: Sequence[str] = ()
    """The parameters and buffers that a call changes, as the running mean of a batch norm."""
    exchanged: Set[str] = frozenset()
    """The buffers that a call sets to other tensors, or registers, and does not write to."""
    written: Sequence[str] = ()
    """The arguments that a call writes to."""
    attributes: Mapping[Place, Any] = field(default_factory=dict)
    """By place, what a call leaves of numbers and the like, and of tensors that are constants."""
    kept: Sequence[Place] = ()
    """The places where a call leaves tensors: these are results behind the others."""
    later: Leaves = field(init=False)
    """By place, what is left in the backward pass."""
    cached: Set[tuple[str, str, Any]] = frozenset()
    """The modules, attributes and keys of the dicts in which a call caches what it computes."""
    same: Mapping[str, str] = field(default_factory=dict)
    """By the names of results that are an argument, a parameter or a buffer: which it is."""
    constants: Sequence[Tensor] = ()
    """Tensors that it reads, and that are no state."""
    depends: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By the names of results, the trained tensors whose gradients each of them has a part in."""
    draws: Sequence[Draw] = ()
    """Its random numbers."""
    traced: Any = None
    """The tensors of its trace, as long as something has them."""
    checks: Sequence[IndexCheck | Decision] = ()
    """What the last results must be: the values decided by, and the bounds of index tensors."""

    def __post_init__(self) -> None:
        self.name = type(self.module).__name__
        refuse_lazy(self.module)
        self.state = state_of(self.module)
        if self.loss is not None:
            self.trained = [name for name, each in self.state.items() if each.requires_grad]

    @property
    def derives(self) -> bool:
        """Whether gradients of its results are computed later, weighted by cotangents."""
        return self.loss is None and bool(self.trained)

    def _requiring(self) -> Sequence[str]:
        """The tensors that tell `forward` that they require gradients."""
        if torch.is_grad_enabled():
            return self.trained
        return [name for name, each in self.state.items() if each.requires_grad]

    @property
    def complex_names(self) -> set[str]:
        """The tensors that it is called with, or returns, whose last dimension has both parts."""
        given = {**self.state, **self.arguments.tensors}
        own = {name for name, each in given.items() if each.is_complex()}
        found = {name for name, each in self.result.tensors.items() if each.is_complex()}
        after = {f"{kind}{name}" for kind in (GRADIENT, UPDATED, WRITTEN) for name in own}
        pairs = enumerate(self.result.tensors.values())
        cotangents = {f"{COTANGENT}{number}" for number, each in pairs if each.is_complex()}
        return own | found | after | cotangents

    def forget_state(self) -> None:
        """Keep the structure of the module and its state, without data."""
        self.module, self.spaces = None, {}
        self.state = {
            name: torch.empty(each.shape, dtype=each.dtype, device="meta")
            for name, each in self.state.items()
        }

    def returned(
        self,
        tensors: Sequence[Tensor],
        spaces: Spaces,
        attributes: Mapping[Place, Any],
        themselves: Mapping[str, Tensor],
    ) -> Any:
        """The result with these tensors; what the call leaves in spaces is set, and `attributes`.

        Some results, by name, are tensors of the call `themselves`.
        """
        pairs = zip(self.result.tensors, tensors, strict=True)
        found = self.result.with_tensors([themselves.get(name, each) for name, each in pairs])
        tensors_left = filter(is_tensor, pytree.tree_leaves(dict(attributes)))
        left = copy.deepcopy(dict(attributes), {id(each): each for each in tensors_left})
        if self.kept:
            found, values = found
            left |= zip(self.kept, values, strict=True)
        for name, key in [place for place in left if joined(*place) in self.exchanged]:
            spaces[MODULES][name]._buffers[key] = left.pop((name, key))
        put(spaces, left)
        return found

    def leave_later(self, tensors: Sequence[Tensor], spaces: Spaces) -> None:
        """Set what the backward pass leaves in spaces."""
        put(spaces, self.later.with_tensors(tensors))

    def end_trace(self) -> None:
        """Raise `ShardError` if something has tensors of the trace, which it has not any more."""
        self.result, self.later = self.result.without_elements(), self.later.without_elements()
        found = self.drop_strays(is_done=True)
        if found is not None:
            raise ShardError(
                f"forward keeps a tensor in a {found}, which the names in its code do not tell: "
                "keep it in an attribute, or in a list or a dict around, or return it"
            )

    def drop_strays(self, is_done: bool) -> str | None:
        """Drop the tensors of a trace that has ended from where it has left them."""
        traced, self.traced = self.traced, None
        return drop_strays(traced.keys, is_done) if traced is not None else None

    @property
    def left(self) -> Mapping[Place, Any]:
        """By place, what a call leaves."""
        if not self.kept:
            return {}
        _, values = pytree.tree_unflatten(self.result.values, self.result.structure)
        return dict(zip(self.kept, values, strict=True))

    def returns_as(self, other: FlatModule) -> bool:
        """Whether both make the same of the tensors that their programs return."""
        pairs = ((self.result, other.result), (self.later, other.later))
        return self.kept == other.kept and all(a.is_like(b, shapes=False) for a, b in pairs)

    @property
    def names(self) -> list[str]:
        """Of all tensors that it is called with."""
        random = (f"{RANDOM}{number}" for number in range(len(self.random_examples)))
        return [*self.state, *self.arguments.tensors, *random]

    @property
    def random_examples(self) -> list[Tensor]:
        """A seed, or all noise, if it draws random numbers."""
        if not self.draws:
            return []
        if self.rng == "counter":
            return [torch.zeros((), dtype=torch.int64)]
        return [torch.empty(each.shape, dtype=each.dtype) for each in self.draws]

    def drawn(self) -> list[Tensor]:
        """The draws of torch's default generator for a call."""
        if not self.draws:
            return []
        if self.rng == "counter":
            return [torch.randint(0, 2**62, (), device="cpu")]
        return [each.by_torch() for each in self.draws]

    @property
    def examples(self) -> list[Tensor]:
        """Tensors that it may be called with."""
        tensors = (*self.state.values(), *self.arguments.tensors.values())
        return [
            torch.empty(each.shape, dtype=each.dtype, device="meta")
            if hasattr(each, "full_tensor")
            else each.detach()
            for each in tensors
        ]

    @property
    def result_names(self) -> list[str]:
        """Of all tensors that it returns; known once it was called."""
        return [
            *self.result.tensors,
            *(f"{GRADIENT}{name}" for name in self.trained),
            *self.later.tensors,
            *(f"{UPDATED}{name}" for name in self.updated),
            *(f"{WRITTEN}{name}" for name in self.written),
            *(f"{INDEX}{number}" for number in range(len(self.checks))),
        ]

    def whole(self, graph: Any) -> Part:
        """The graph of a call as one program."""
        return Part(graph, self.names, self.result_names, self.checks)

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The result, the gradients and then `names` as they are then; torch traces it."""
        mode = get_proxy_mode()
        self.traced = mode.tracer.tensor_tracker if mode is not None else None
        names_of_all = [*self.state, *self.arguments.tensors]
        own = {name: each.clone() for name, each in zip(names_of_all, tensors, strict=True)}
        for name in self._requiring():
            own[name] = own[name].detach().requires_grad_()
        state = {name: own[name] for name in self.state}
        types = self.types
        used = {name: each.to(types.get(name) or each.dtype) for name, each in state.items()}
        given = [own[name] for name in self.arguments.tensors]
        args, kwargs, targets = self.arguments.with_tensors(given)
        computed = Computed([*state.values()], given)
        with (
            exchanged(torch.nn.Module, _apply=_applied),
            _put_back(self.module, self.spaces),
            _reparametrize_module(self.module, used, tie_weights=True),
        ):
            average_from_the_first(self.module)
            before, registered = Snapshot(self.spaces), _registered(self.module)
            found = self.module(*args, **kwargs)
            if self.loss is not None:
                found = self.loss(found, *targets)
            now = _held_now(self.module, state)
            self.exchanged = {name for name, each in now.items() if each is not used[name]}
            held = {**state, **now}
            after = [*(held[name] for name in self.state), *given]
            computed.end(after)
            self.result = Leaves.of(found, LOSS if self.loss else OUTPUT)
            _refuse_exchanged(registered, _registered(self.module))
            new = _new_buffers(self.module, state)
            self.exchanged |= {joined(*key) for key in new}
            left = before.changes()
            caches = {
                place
                for place, value in values_of(self.spaces)
                if isinstance(left.get(place), Filled)
                and _tensors_in(left[place])
                and computed.fills(*place, before.items_of(value), value)
            }
            for place in caches:
                del left[place]
            constant = computed.constants(left)
            kept = {**_with_tensors({**left, **constant}), **new}
            self.kept = list(kept)
            if kept:
                values, structure = pytree.tree_flatten((found, [*kept.values()]))
                inside = (Leaves.of(each, _name_of(place)).names for place, each in kept.items())
                names = [name for own in inside for name in own]
                self.result = Leaves([*self.result.names, *names], values, structure)
            refuse_odd(self.result, Before, *CONSTANTS)
            pairs = zip((*used.values(), *given), names_of_all, strict=True)
            own_names = {id(each): name for each, name in pairs}
            self.same = {
                name: own_names[id(each)]
                for name, each in self.result.tensors.items()
                if id(each) in own_names
            }
            if self.derives:  # a checkpoint runs parts again, later, which may change more
                after = [each.clone() for each in after]
            then = Snapshot(self.spaces)
            gradients = self._gradients(found, [own[name] for name in self.trained])
            behind = then.changes()
            constant |= computed.constants(behind)
            self.later = Leaves.of(_with_tensors({**behind, **constant}), LATER)
            refuse_odd(self.later, Before, *CONSTANTS)
            self.attributes = {**_plain({**left, **behind}), **constant}
        self.cached = computed.kept
        return (*self.result.tensors.values(), *gradients, *self.later.tensors.values(), *after)

    def keep_changed(self, is_changed: Sequence[bool]) -> None:
        """Tell which tensors of `names` a call changes: only those are results."""
        pairs = list(zip(self.names, is_changed, strict=False))
        self.updated = [name for name, new in pairs[: len(self.state)] if new]
        self.written = [name for name, new in pairs[len(self.state) :] if new]

    def _gradients(self, found: Any, parameters: Sequence[Tensor]) -> Sequence[Tensor]:
        """Of the loss, or of the results."""
        if self.derives:
            leaves = self._differentiated()
            of = [each for each, _ in leaves]
            weights = [cotangent(each.detach(), number) for each, number in leaves]
        elif self.loss is None:
            return ()
        elif not isinstance(found, torch.Tensor) or found.dim():
            raise ShardError(
                f"the loss must be a tensor of one element without dimensions: {found}"
            )
        else:
            of, weights = [found], [None]
        derived: Sequence[Any] = [None] * len(parameters)
        if of and parameters:
            with torch.autocast("cpu", enabled=False):  # that of a user is around the module
                derived = torch.autograd.grad(of, parameters, weights, allow_unused=True)
        if self.derives:
            has_one = [each is not None for each in derived]
            trained = dict(zip(self.trained, parameters, strict=True))
            self.depends = self._dependencies(trained, has_one)
        return [
            torch.zeros_like(parameter) if each is None else each
            for each, parameter in zip(derived, parameters, strict=True)
        ]

    def _dependencies(
        self, trained: Mapping[str, Tensor], has_one: Sequence[bool]
    ) -> dict[str, frozenset[str]]:
        """Of each result, the trained tensors that torch would give a gradient from it.

        Which of them have none although something is computed of them is known of what is derived.
        """
        known = {id(each): name for name, each in trained.items()}
        without = {name for name, is_there in zip(trained, has_one, strict=True) if not is_there}
        found = {}
        for name, each in self.result.tensors.items():
            nodes = reached([each.grad_fn], _computed_from)
            variables = (each, *(getattr(node, "variable", None) for node in nodes))
            leaves = {known[id(variable)] for variable in variables if id(variable) in known}
            found[name] = frozenset(leaves if name in self.left_out else leaves - without)
        return found

    def _differentiated(self) -> list[tuple[Tensor, int]]:
        """The results whose cotangents are given, with their numbers.

        A loss is what is differentiated, and not the logits beside it, before somebody does that.
        """
        found = {
            name: (as_real(each), number)
            for number, (name, each) in enumerate(self.result.tensors.items())
            if has_derivative(each) and each.requires_grad
        }
        if f"{OUTPUT}.{LOSS}" in found:
            self.left_out = frozenset(found) - {f"{OUTPUT}.{LOSS}"} - self.asked
        return [each for name, each in found.items() if name not in self.left_out]


def state_of(module: Any) -> dict[str, Tensor]:
    """The parameters and buffers of a module by name; those that are shared, once."""
    buffers = {name: each for name, each in module.named_buffers() if each is not None}
    return {**dict(module.named_parameters()), **buffers}


def refuse_lazy(module: Any) -> None:
    """Raise `ShardError` for a tensor whose shape is known after a first call, as LazyLinear's.

    Also for a tensor that no program has, and a module that torch.jit has compiled.
    """
    if isinstance(module, torch.jit.ScriptModule):
        raise ShardError("is compiled by torch.jit: give the module that it is made of", "module")
    for name, each in state_of(module).items():
        if torch.nn.parameter.is_lazy(each):
            raise ShardError("has no shape yet: call the module itself once before", name)
        refuse_layout(each, name)


def _applied(module: Any, function: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
    """`module.to(dtype)` puts values in the places of parameters.

    torch's own writes to the data of parameters, of which a trace knows nothing.
    """
    for each in module.modules() if recurse else [module]:
        for table in (each._parameters, each._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    table[name] = function(tensor)
    return module


def _registered(module: Any) -> dict[str, Any]:
    """By name, the modules, parameters and buffers of a module."""
    return {
        joined(name, key): value
        for name, each in module.named_modules()
        for table in (each._modules, each._parameters, each._buffers)
        for key, value in table.items()
        if value is not None
    }


def _refuse_exchanged(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Raise if a call has made parameters or modules, or has removed some, or buffers."""
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        kind = torch.nn.Module, torch.nn.Parameter
        if old is not new and (new is None or isinstance(old, kind) or isinstance(new, kind)):
            raise ShardError(
                f"forward makes, exchanges or removes {name}: do so outside, or call the module "
                "itself once before; write to a parameter that is there within torch.no_grad()"
            )


def _new_buffers(module: Any, state: Mapping[str, Tensor]) -> dict[tuple[str, str], Tensor]:
    """The buffers that a call has registered."""
    return {
        (name, key): value
        for name, each in module.named_modules()
        for key, value in each._buffers.items()
        if value is not None and joined(name, key) not in state
    }


def _held_now(module: Any, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The buffers of a module: a call may have put other tensors in their places."""
    return {name: each for name, each in module.named_buffers() if name in state}


@contextmanager
def _put_back(module: Any, spaces: Spaces) -> Iterator[None]:
    """Within a `with` block, a trace may change what is in spaces; all is as before after it.

    Hooks that a call registers stay, with the attributes by which later calls know it.
    """
    before, hooks = Snapshot(spaces), _hooks(module)
    names = {name: set(vars(each)) for name, each in module.named_modules()}
    try:
        yield
    finally:
        stays: dict[str, dict[str, Any]] = {}
        if _hooks(module) != hooks:
            for name, each in module.named_modules():
                new = vars(each).keys() - names.get(name, set())
                stays[name] = {key: vars(each)[key] for key in new if is_plain(vars(each)[key])}
        before.restore(stays)


def _with_tensors(values: Mapping[Place, Any]) -> dict[Place, Any]:
    """Those in which there are tensors of the call."""
    return {place: each for place, each in values.items() if _tensors_in(each)}


def _plain(values: Mapping[Place, Any]) -> dict[Place, Any]:
    """Those of constants, and of what is there.

    Raises `ShardError` for objects that have tensors of the call, which torch's own would have.
    """
    found = {}
    for place, each in values.items():
        leaves = pytree.tree_leaves(each)
        if _tensors_in(each):
            continue
        if all(isinstance(leaf, (Before, *CONSTANTS)) for leaf in leaves):
            found[place] = each
        elif _tensors_inside(leaves):
            raise keeps(joined(*place))
    return found


def _tensors_inside(values: Iterable[Any], depth: int = 4) -> bool:
    """Whether there are tensors in sets and in the attributes of objects."""
    for each in values:
        if isinstance(each, FakeTensor):
            return True
        if isinstance(each, (torch.Tensor, torch.nn.Module, type, ModuleType)) or not depth:
            continue
        items = [*getattr(each, "__dict__", {}).values()]
        items += each if isinstance(each, (set, frozenset, list, tuple)) else []
        items += each.values() if isinstance(each, dict) else []
        if _tensors_inside(items, depth - 1):
            return True
    return False


def _name_of(place: Place) -> str:
    return ".".join((ATTRIBUTE, *filter(None, place)))


def _hooks(module: Any) -> list[list[Any]]:
    """What calls of a module, and of those in it, run before and after."""
    tables = ("_forward_pre_hooks", "_forward_hooks")
    return [list(vars(each)[key]) for each in module.modules() for key in tables]


def keeps(place: str) -> ShardError:
    """The error of a module that keeps a tensor where a program cannot."""
    return ShardError(
        f"forward keeps a tensor in {place}: keep it in a list, a tuple, a dict or an attribute, "
        "register a buffer, or return it"
    )


class Computed:
    """Tells which tensors a trace computes of the state alone, as it is before the call.

    A cache of them is filled again in each call, and is the same. `kept` has the names of modules
    and attributes, and the keys, of those in dicts.
    """

    def __init__(self, state: Sequence[Tensor], given: Sequence[Tensor]) -> None:
        self.kept: set[tuple[str, str, Any]] = set()
        self._start = [_node_of(each) for each in (*state, *given)]
        self._outside = set(self._start[len(state) :])

    def end(self, after: Sequence[Tensor]) -> None:
        """Tell what the state and the arguments are after the call: what changes is outside."""
        pairs = zip(self._start, after, strict=True)
        self._outside |= {node for node, each in pairs if _node_of(each) is not node}

    def fills(self, name: str, key: str, before: Any, after: Any) -> bool:
        """Whether a call has only put such tensors into a dict; they are `kept`."""
        if not isinstance(after, dict) or any(after.get(k) is not v for k, v in before.items()):
            return False
        new = {each: value for each, value in after.items() if each not in before}
        if not all(self._is_of_state(value) for value in new.values()):
            return False
        self.kept |= {(name, key, each) for each in new}
        return bool(new)

    def constants(self, left: Mapping[Place, Any]) -> dict[Place, Any]:
        """Of what a call leaves, the tensors that are the same in each, by their places."""
        waiting = {
            place: [_node_of(leaf) for leaf in pytree.tree_leaves(each) if is_tensor(leaf)]
            for place, each in left.items()
            if not isinstance(each, Filled)
        }
        waiting = {place: nodes for place, nodes in waiting.items() if nodes and all(nodes)}
        if not any(_is_computed_of_nothing(nodes) for nodes in waiting.values()):
            return {}
        known = constants_of(get_proxy_mode().tracer)
        return {
            place: pytree.tree_map(
                lambda leaf: Constant(known[_node_of(leaf)]) if is_tensor(leaf) else leaf,
                left[place],
            )
            for place, nodes in waiting.items()
            if all(isinstance(known.get(node), torch.Tensor) for node in nodes)
        }

    def _is_of_state(self, value: Any) -> bool:
        leaves = pytree.tree_leaves(value)
        waiting = [_node_of(each) for each in leaves if isinstance(each, torch.Tensor)]
        for node in reached(waiting, lambda node: node.all_input_nodes):
            tags = getattr(getattr(node, "target", None), "tags", ())
            if node is None or node in self._outside or torch.Tag.nondeterministic_seeded in tags:
                return False
        return all(isinstance(each, torch.Tensor) or is_plain(each) for each in leaves)


def _is_computed_of_nothing(nodes: Sequence[Any]) -> bool:
    """Whether these nodes seem to be of no argument: something else may write to them, too."""
    behind = reached(nodes, lambda node: node.all_input_nodes)
    return all(node.op != "placeholder" for node in behind)


def _computed_from(node: Any) -> list[Any]:
    """The nodes of autograd's graph behind one; `None` is that of what has no gradient."""
    return [] if node is None else [before for before, _ in node.next_functions]


def _node_of(tensor: Tensor) -> Any:
    """What computes a tensor in the graph that is traced now, if something does."""
    mode = get_proxy_mode()
    slot = get_proxy_slot(tensor, mode.tracer, None) if mode is not None else None
    return slot.proxy.node if slot is not None else None


def derived_items(spaces: Spaces) -> dict[tuple[str, str, Any], Tensor]:
    """What dicts in spaces cache of parameters: by space, name and key."""
    return {
        (*place, each): tensor
        for place, value in values_of(spaces)
        if type(value) is dict
        for each, tensor in value.items()
        if isinstance(tensor, torch.Tensor) and not tensor.is_leaf
    }


@contextmanager
def without_items(spaces: Spaces, items: Mapping[tuple[str, str, Any], Tensor]) -> Iterator[None]:
    """Within a `with` block, dicts in spaces lack these items."""
    tables = {(name, key): spaces[name][key] for name, key, _ in items}
    before = [(table, dict(table)) for table in tables.values()]
    for name, key, each in items:
        del tables[name, key][each]
    try:
        yield
    finally:
        for table, contents in before:
            table.clear()
            table.update(contents)


def _tensors_in(value: Any) -> int:
    return sum(isinstance(each, torch.Tensor) for each in pytree.tree_leaves(value))


def aliases_of(module: Any, state: Mapping[str, Tensor]) -> dict[str, str]:
    """The names of parameters and buffers -> the name that each has in the state."""
    own = {id(each): name for name, each in state.items()}
    every = [
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ]
    return {name: own[id(each)] for name, each in every if each is not None}
