"""Runs a module on all devices of a mesh.

An `Engine` has the state of the module, and a program for each kind of call.

A call whose results may be differentiated has a program that returns what its second program, that
of the gradients, needs. Of a module in eval mode that is known only once there are gradients: the
first call is run again then, and later ones have such programs.
"""

from __future__ import annotations

import copy
import functools
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import Any

import torch
from torch._compile import _disable_dynamo

from shard_dialect.errors import ShardError
from shard_dialect.ir.diagnostics import holding
from shard_dialect.runtime.compiled_program import Compiler
from shard_dialect.search.auto import AutoOptions
from shard_dialect.torch.ambient_state import (
    State,
    ambient_state,
    in_state,
)
from shard_dialect.torch.gradient_module import gradients_of, without_results
from shard_dialect.torch.graph.decisions import UNKNOWN, Decision, Foreseen, OtherPathError
from shard_dialect.torch.graph.flat_module import (
    ATTRIBUTE,
    GRADIENT,
    LATER,
    LOSS,
    OUTPUT,
    UPDATED,
    WRITTEN,
    FlatModule,
    refuse_lazy,
    state_of,
)
from shard_dialect.torch.graph.forward_and_backward import COTANGENT, SAVED
from shard_dialect.torch.graph.kept_values import (
    Constants,
    Place,
    Spaces,
    held_tensors,
    holds_numbers,
    joined,
)
from shard_dialect.torch.graph.random_draws import Rng
from shard_dialect.torch.graph.tensor_trees import Leaves, Tensor, arguments_of, has_derivative
from shard_dialect.torch.held_state import HeldState
from shard_dialect.torch.lower_module import lower_module
from shard_dialect.torch.module_code import Codes, spaces_of
from shard_dialect.torch.module_program import ModuleProgram
from shard_dialect.torch.plans.placement_lists import ByAxis, grid_of
from shard_dialect.torch.plans.plan_rules import Plan
from shard_dialect.torch.rank_tensors import (
    PlacedTensor,
    RankTensors,
    compiler_for,
    device_mesh,
    local_of,
    on_ranks,
    value_of_first,
)
from shard_dialect.torch.shared_memory import refuse_shared, refuse_views

_ONE_THREAD = threading.RLock()
"""Held in calls and in backward: traces exchange functions of torch and attributes of modules."""
_TRACING: ContextVar[bool] = ContextVar("_TRACING", default=False)


def is_tracing() -> bool:
    """Whether some module is traced: modules of ours inside of it run as the user's."""
    return _TRACING.get()


def tracing() -> AbstractContextManager[None]:
    """Within a `with` block, a module is traced."""
    return holding(_TRACING, True)


def one_after_another(function: Any) -> Any:
    """The function as one call at a time, which torch.compile leaves alone."""
    own = _disable_dynamo(function)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with _ONE_THREAD:  # torch's own decorator changes what is global, too
            return own(*args, **kwargs)

    return called


class Engine:
    """Runs one module."""

    def __init__(
        self,
        module: Any,
        plan: Plan | AutoOptions,
        mesh: Any,
        loss: Callable[..., Tensor] | None,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        targets: Sequence[Any],
        rng: Rng,
        arguments: Mapping[str, ByAxis] | None = None,
        in_place: bool = False,
        compiler: Compiler | None = None,
    ) -> None:
        """`arguments` have placements where the plan says nothing.

        With `in_place`, the state is that of `module` itself.
        """
        self.compiler = compiler_for(compiler, mesh)
        self.module, self.plan, self.mesh, self.loss, self.rng = module, plan, mesh, loss, rng
        self.arguments: Mapping[str, ByAxis] = arguments or {}
        self.scales: Callable[[Iterable[str]], Mapping[str, float]] = lambda _: {}
        """What gradients of parameters are multiplied by, by their names; asked for each time."""
        self.programs: list[ModuleProgram] = []
        self._derived: set[Any] = set()
        """The states of torch in which there were gradients."""
        self._underived: dict[Any, Exception] = {}
        """Those in which there are none, and why."""
        self._asked: frozenset[str] = frozenset()
        """The names of results that were differentiated."""
        self._kept: dict[Place, bool] = {}
        """Where some call leaves tensors, and whether numbers of some."""
        self._constants = Constants()
        self._codes: Codes = {}
        self._target_count = len(targets)
        self._gave_whole = False
        self._latest: ModuleProgram | None = None
        self._of_gradients: _OfGradients | None = None
        refuse_lazy(module)
        given = arguments_of(module, args, kwargs, loss, targets)
        state = self._state_of(module)
        trained = self._wants_derivative({**state_of(module), **given.tensors}, state)
        first = self._compiled(given, trained, state)
        grid = grid_of(mesh)
        self.ranks: RankTensors | None = None
        if on_ranks():
            (rank,) = first.compiled.world.ranks
            self.ranks = RankTensors(device_mesh(mesh, grid), grid, rank)
        self.first_state = first.flat.state
        """The user's own tensors, until `become`."""
        self.state = HeldState(first.flat, first.arguments, self.ranks, makes=not in_place)
        if isinstance(plan, AutoOptions):
            said = first.placements()
            self.plan = {name: said[name] for name in first.flat.state}
        if in_place:
            self.become(module)

    def _state_of(self, module: Any) -> State:
        return ambient_state(module, self._codes, self._kept)

    @property
    def spaces(self) -> Spaces:
        """What a call may change beside the state."""
        return spaces_of(self.module, self._codes)

    def become(self, module: Any) -> None:
        """Run this module, which holds our state; keep nothing of the user's."""
        self._move_to(self._state_of(module))
        self.module, self.first_state = module, {}
        self.state.belong_to(module)
        self.programs[0].flat.forget_state()

    def _move_to(self, state: State) -> None:
        """What is known of the user's module is so of its copy, whose objects are others."""
        ((before, attributes),) = self.programs[0].states.items()
        self.programs[0].states[state] = attributes
        self._underived |= {
            (state, trained): error
            for (known, trained), error in self._underived.items()
            if known == before
        }

    def __deepcopy__(self, memo: dict[int, Any]) -> Engine:
        """The engine of the copy of our module: a state of its own, and the same programs."""
        made = object.__new__(Engine)
        vars(made).update(vars(self))
        memo[id(self)] = made
        made.module = copy.deepcopy(self.module, memo)
        made.state = copy.deepcopy(self.state, memo)
        made.programs, made._codes, made._of_gradients = list(self.programs), {}, None
        made._kept, made._constants = dict(self._kept), Constants()
        made._derived, made._underived = set(self._derived), dict(self._underived)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Raises `ShardError`: programs are not pickled."""
        raise ShardError(
            f"a partitioned {type(self.module).__name__} cannot be pickled, as by torch.save: save "
            "its state_dict(), and load that into one that sd.torch.partition returns"
        )

    def _own(self) -> dict[str, Tensor]:
        """The module's tensors for a call."""
        return self.state.tensors

    def _drawn(self, flat: FlatModule) -> Sequence[Tensor]:
        """The random numbers of a call."""
        drawn = flat.drawn()
        return drawn if self.ranks is None else [self.ranks.of_first(each) for each in drawn]

    def _trained(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """Those of the tensors whose gradients may be asked for after a call."""
        if self.loss is not None or not torch.is_grad_enabled():
            return []
        return [name for name, each in tensors.items() if each.requires_grad]

    def _wants_derivative(self, tensors: Mapping[str, Tensor], state: State) -> list[str]:
        """Those of them whose gradients will be, too, as far as one knows before."""
        trained = self._trained(tensors)
        if not trained:
            return trained
        is_likely = self.module.training or state in self._derived or bool(state.deriving)
        return trained if is_likely and (state, tuple(trained)) not in self._underived else []

    def _compiled(
        self, given: Leaves, trained: Sequence[str], state: State, foreseen: Foreseen = UNKNOWN
    ) -> ModuleProgram:
        """A program for such arguments, which derives if some tensors are trained and it can."""
        if trained:
            try:
                return self._new(given, trained, state, foreseen)
            except Exception as error:  # the user's forward may raise any
                error.__cause__ = None  # whose frames have tensors
                self._underived[state, tuple(trained)] = error.with_traceback(None)
        return self._new(given, [], state, foreseen)

    def _new(
        self, given: Leaves, trained: Sequence[str], state: State, foreseen: Foreseen
    ) -> ModuleProgram:
        if on_ranks():
            foreseen = replace(foreseen, agreed=value_of_first)
        flat = FlatModule(
            self.module,
            self.spaces,
            given.whole(),
            self.loss,
            self.rng,
            trained,
            self._asked,
            foreseen,
        )
        with tracing():
            lowered = lower_module(
                flat, self.plan, self.mesh, self.arguments, may_miss=bool(self.programs)
            )
        self._refuse_kept(flat)
        self._warn_of_attributes(flat, state)
        digest = lowered.digest if self.programs else b""
        for each in self.programs:
            is_same = each.text == digest and each.flat.returns_as(flat)
            if is_same and each.takes(flat.arguments, None, shapes=True):
                each.states[state] = flat.attributes
                if len(each.states) > _MOST_PROGRAMS:
                    del each.states[next(iter(each.states))]
                return each
        program = ModuleProgram.of(lowered, {state: flat.attributes}, self.compiler)
        self.programs.append(program)
        if len(self.programs) > _MOST_PROGRAMS:
            del self.programs[1]  # the first one is for looking at
        if len(self.programs) > 1:
            program.flat.forget_state()
        return program

    @one_after_another
    def __call__(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        agree: Callable[[], None] = lambda: None,
    ) -> Any:
        """The module's result. For arguments of another kind, a first call compiles a program.

        In one process, tensors are whole. On ranks, arguments are DTensors, whole tensors, or this
        rank's shards, and results are DTensors. With a loss, its targets follow the positional
        arguments, and the result is the loss and a dict of gradients by the parameters' names.
        `agree`, which may wait for other ranks and raise, is called before anything is run.
        Raises `IndexOutOfRange`, an `IndexError`, where torch refuses an index.
        Threads call one after another.
        """
        cut = len(args) - self._target_count
        given = arguments_of(self.module, args[:cut], kwargs, self.loss, args[cut:])
        own = self._own()
        named = {**own, **given.tensors}
        _refuse_transforms(type(self.module).__name__, named.values())
        state = self._state_of(self.module)
        trained = self._wants_derivative(named, state)
        program = self._program(given, trained, state)
        agree()
        program = program or self._compiled(given, trained, state)
        self._notice_whole(program, given)
        before = torch.get_rng_state()
        tried = [program]
        while True:
            try:
                found = self._run(program, given, state, own)
            except OtherPathError as other:
                torch.set_rng_state(before)
                foreseen = other.foreseen
                program = self._of_path(program, given, state, foreseen)
                if any(program is each for each in tried):
                    raise _ambiguous(program, len(foreseen.known)) from None
                tried.append(program)
            else:
                self._latest = program
                return found

    def _of_path(
        self, program: ModuleProgram, given: Leaves, state: State, foreseen: Foreseen
    ) -> ModuleProgram:
        """For the same arguments, the program of another path."""
        trained = program.flat.trained if program.flat.derives else []
        found = self._program(given, trained, state, foreseen)
        if found is not None:
            return found
        self._warn_of_many(program, len(foreseen.known) - 1)
        return self._compiled(self._example(program, given), trained, state, foreseen)

    def _example(self, program: ModuleProgram, given: Leaves) -> Leaves:
        """Arguments to compile another program for, which are whole where `given` has shards."""
        return given if self.ranks is None else program.flat.arguments

    def _warn_of_many(self, program: ModuleProgram, number: int) -> None:
        """Tell once, and which line it is, if each of many calls needs a program of its own."""
        start = program.part.path[:number]
        alike = [
            each.part.path[number]
            for each in self.programs
            if len(each.part.path) > number
            and each.part.path[:number] == start
            and each.flat.arguments.is_like(program.flat.arguments, shapes=True)
        ]
        if len(set(alike)) != _MANY_PATHS:
            return
        decision = program.flat.checks[number]
        assert isinstance(decision, Decision), "is of the path"
        warnings.warn(
            f"{decision.location}: a size or a number that depends on elements was "
            f"{', '.join(map(str, sorted(alike)))} in {_MANY_PATHS} calls, and each value is a "
            "program to compile: keep all elements, and choose by torch.where; or pad to few sizes",
            stacklevel=2,
        )

    def _refuse_kept(self, flat: FlatModule) -> None:
        """Raise if the module reads a tensor that some call leaves in an attribute."""
        for place, tree in flat.left.items():
            self._kept[place] = self._kept.get(place, False) or holds_numbers(tree)
        refuse_views(flat.constants, flat.state, flat.updated)
        constants = {id(each) for each in flat.constants}
        flat.constants = ()
        for place, each in held_tensors(self.spaces).items():
            leaves = torch.utils._pytree.tree_leaves(each)
            if place in self._kept and any(id(leaf) in constants for leaf in leaves):
                raise ShardError(
                    f"forward reads what a call before it kept in {joined(*place)}, which is no "
                    "buffer: register it with register_buffer, or give and return it"
                )

    def _refuse_changes(self, program: ModuleProgram, state: State) -> None:
        """Raise if the module is not any more, within `in_state`, as it was in a call."""
        now = self._state_of(self.module)
        places = [*program.flat.kept, *program.states.get(state, {})]
        set_by_call = {joined(*place) for place in places}
        names = [each for each in state.changed(now) if each not in set_by_call]
        if names:
            raise ShardError(
                f"{', '.join(names)} changed between a call of {program.flat.name} and its "
                "backward, which is derived when it is first asked for: call backward before, or "
                "call the module in training mode"
            )

    def _warn_of_attributes(self, flat: FlatModule, state: State) -> None:
        """Tell once which attribute differs, if each of many calls is traced for its value."""
        alike = [
            each
            for program in self.programs
            if program.flat.arguments.is_like(flat.arguments, shapes=True)
            for each in program.states
        ]
        if not flat.attributes or len(set(alike)) != _MANY_PATHS:
            return
        names = ", ".join(alike[-1].changed(state)) or "an attribute"
        warnings.warn(
            f"forward of {flat.name} sets {names}, and each value is traced when it comes first: "
            "count outside, or in a buffer",
            stacklevel=2,
        )

    def _run(
        self, program: ModuleProgram, given: Leaves, state: State, own: Mapping[str, Tensor]
    ) -> Any:
        """Raises `OtherPathError`, before anything has changed, for a call of another path.

        `own` are the module's tensors.
        """
        self.state.check_complete(own)
        named = {**own, **given.tensors}
        tensors = list(named.values())
        refuse_shared({*program.flat.updated, *program.flat.written}, named)
        drawn = self._drawn(program.flat)
        call = _Run(self, program, given, drawn)
        flat = program.flat
        if self.loss is not None:
            found, gradients, _ = call.run(tensors)
            derived = dict(zip(flat.trained, gradients, strict=True))
            themselves = self._themselves(flat, named, [])
            return self._returned(program, state, found, themselves), derived
        trained = self._trained(named)
        derives = call.differentiable() if trained else []
        if derives:
            call.deriving = lambda *args: self._differentiated(
                program, given, state, trained, *args
            )
            found = _Differentiated.apply(call, *tensors)
        else:
            found, _, _ = call.run(tensors)
        themselves = self._themselves(flat, named, derives)
        return self._returned(program, state, found, themselves)

    def _returned(
        self,
        program: ModuleProgram,
        state: State,
        found: Sequence[Tensor],
        themselves: Mapping[str, Tensor],
    ) -> Any:
        attributes = self._constants.tensors_in(program.states[state])
        spaces = self.spaces if program.flat.kept or attributes else {}
        return program.flat.returned(found, spaces, attributes, themselves)

    def _themselves(
        self, flat: FlatModule, tensors: Mapping[str, Tensor], derives: Sequence[bool]
    ) -> dict[str, Tensor]:
        """By name, the results that are tensors of the call themselves.

        On ranks a result is a DTensor, and these may be none. One that was written to and that has
        a derivative is what torch makes of it, and not what it was.
        """
        if self.ranks is not None:
            return {}
        changed = {*flat.updated, *flat.written}
        pairs = zip(flat.result.tensors, derives or repeat(False), strict=False)
        return {
            name: tensors[flat.same[name]]
            for name, has_one in pairs
            if name in flat.same and not (has_one and flat.same[name] in changed)
        }

    def _differentiated(
        self,
        program: ModuleProgram,
        given: Leaves,
        state: State,
        trained: Sequence[str],
        asked: frozenset[str],
        foreseen: Foreseen,
    ) -> ModuleProgram:
        """The program that derives for the call of one that does not, or took another path."""
        with in_state(self.module, state):
            self._derived.add(state)
            self._asked |= asked
            found = self._program(given, trained, state, foreseen)
            if found is not None:
                return found
            error = self._underived.get((state, tuple(trained)))
            if error is not None:
                raise error
            self._refuse_changes(program, state)
            return self._new(self._example(program, given), trained, state, foreseen)

    def _program(
        self,
        given: Leaves,
        trained: Sequence[str],
        state: State,
        foreseen: Foreseen = UNKNOWN,
    ) -> ModuleProgram | None:
        """The program for these arguments: on ranks, they may be shards of those it is for.

        It derives if some tensors are trained. Its path starts as is known; of several, it is the
        likely one, or the one that ran last.
        """
        known = tuple(foreseen.known)
        programs = [
            each
            for each in self.programs
            if tuple(each.flat.path[: len(known)]) == known
            and (self.loss is not None or each.flat.trained == trained)
            and each.flat.left_out.isdisjoint(self._asked)
        ]
        path = (*known, *foreseen.likely)
        same = [each for each in programs if each.takes(given, state, shapes=True)]
        if same or self.ranks is None:
            return self._preferred(same, path)
        tensors = given.tensors.values()
        like = []
        for each in programs:
            placed = each.arguments[len(each.flat.state) :][: len(tensors)]
            is_like = each.takes(given, state, shapes=False)
            if is_like and self.ranks.are_shards(tensors, placed):
                like.append((each, placed))
        if not like:
            return None
        _, first = like[0]  # shards may be of tensors of several sizes
        self._refuse_both(given, first)
        shapes = [tensor.shape for tensor in first]
        same = [each for each, placed in like if [tensor.shape for tensor in placed] == shapes]
        return self._preferred(same, path)

    def _preferred(
        self, programs: Sequence[ModuleProgram], path: Sequence[int]
    ) -> ModuleProgram | None:
        """The program of the path; else the one that ran last, if it is one of these, or any."""
        for each in programs:
            if path and tuple(each.flat.path[: len(path)]) == path:
                return each
        is_there = any(each is self._latest for each in programs)
        return self._latest if is_there else next(iter(programs), None)

    def _refuse_both(self, given: Leaves, placed: Sequence[PlacedTensor]) -> None:
        """Raise for what looks like shards, where earlier calls gave whole tensors."""
        for each, (name, tensor) in zip(placed, given.tensors.items(), strict=True):
            whole = each.shape
            if self._gave_whole and tuple(tensor.shape) != whole:
                raise ShardError(
                    f"has shape {list(tensor.shape)}, as this rank's shard of {list(whole)} has, "
                    "and earlier calls gave whole tensors: give a DTensor",
                    name,
                )

    def _notice_whole(self, program: ModuleProgram, given: Leaves) -> None:
        """Remember whether tensors are given whole of which shards could be."""
        if self.ranks is None or self._gave_whole:
            return
        placed = program.arguments[len(program.flat.state) :]
        for each, tensor in zip(placed, given.tensors.values(), strict=False):
            is_plain = not self.ranks.is_distributed(tensor)
            shape = tuple(tensor.shape)
            if is_plain and shape == each.shape:
                self._gave_whole |= shape != self.ranks.held_shape(each)

    def change(
        self,
        updated: Mapping[str, Tensor],
        exchanged: Set[str],
        given: Leaves,
        written: Mapping[str, Tensor],
    ) -> None:
        """Give the state, and arguments, the values that the module has written to them."""
        self.state.update(updated, exchanged)
        with torch.no_grad():
            for name, value in written.items():
                if self.ranks is None:
                    given.tensors[name].copy_(value)
                else:
                    self.ranks.write(given.tensors[name], value)

    def gradients(
        self, call: _Run, tensors: Mapping[str, Tensor], cotangents: Sequence[Any]
    ) -> dict[str, Tensor]:
        """Those of the results of a call, by name, which have derivatives themselves."""
        if self._of_gradients is None:
            self._of_gradients = _OfGradients(self, call, tensors, cotangents)
        return self._of_gradients.of(call, tensors, cotangents)


class _OfGradients(Engine):
    """Runs the gradients of another engine's module, as a module with the same state.

    It computes the module again, with the state, the arguments and the random numbers of the call.
    """

    def __init__(
        self, engine: Engine, call: _Run, tensors: Mapping[str, Tensor], cotangents: Sequence[Any]
    ) -> None:
        self._begin(call, tensors)
        self._of, module = engine, gradients_of(engine.module)
        self._weights = type(module).weights
        plan = engine.plan if isinstance(engine.plan, AutoOptions) else without_results(engine.plan)
        args, kwargs = self._given(call, cotangents)
        super().__init__(
            module,
            plan,
            engine.mesh,
            None,
            args,
            kwargs,
            (),
            engine.rng,
            engine.arguments,
            in_place=True,
            compiler=engine.compiler,
        )
        self.scales = engine.scales

    def _begin(self, call: _Run, tensors: Mapping[str, Tensor]) -> None:
        self._tensors, self._numbers = tensors, call.drawn

    def _given(self, call: _Run, cotangents: Sequence[Any]) -> Any:
        """The arguments of the call, and the weights of its results."""
        given = [self._tensors[name] for name in call.given.tensors]
        args, kwargs, _ = call.given.with_tensors(given)
        return args, {**kwargs, self._weights: list(cotangents)}

    def of(
        self, call: _Run, tensors: Mapping[str, Tensor], cotangents: Sequence[Any]
    ) -> dict[str, Tensor]:
        """By name, the gradients of the tensors of a call."""
        self._begin(call, tensors)
        try:
            vars(self.module).update(vars(self._of.module))
            own, given = self(*self._given(call, cotangents))
        finally:
            self._tensors, self._numbers = {}, []
        pairs = [*own.items(), *zip(call.given.tensors, given, strict=True)]
        return {name: each for name, each in pairs if each is not None}

    def _own(self) -> dict[str, Tensor]:
        return {name: self._tensors[name] for name in self.state.tensors}

    def _drawn(self, flat: FlatModule) -> Sequence[Tensor]:
        return self._numbers if flat.draws else []

    def _wants_derivative(self, tensors: Mapping[str, Tensor], state: State) -> list[str]:
        return self._trained(tensors)

    def change(self, *_: Any) -> None:
        """Nothing: the call has done so."""


@dataclass
class _Run:
    """One call of a program."""

    engine: Engine
    program: ModuleProgram
    given: Leaves
    drawn: Sequence[Tensor]
    deriving: Callable[[frozenset[str], Foreseen], ModuleProgram] | None = None
    """Finds the program that derives, which is compiled when gradients are first wanted."""
    is_spent: bool = False
    """Whether what is saved may have been overwritten."""

    def run(self, tensors: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """The results, the gradients, and what is saved; what the module writes is written."""
        engine, flat, part = self.engine, self.program.flat, self.program.part
        results = self._results(self.program, tensors)
        updated = dict(zip(flat.updated, part.chosen(results, UPDATED), strict=True))
        written = dict(zip(flat.written, part.chosen(results, WRITTEN), strict=True))
        engine.change(updated, flat.exchanged, self.given, written)
        kinds = (OUTPUT, LOSS, ATTRIBUTE), (GRADIENT,), (SAVED,)
        found, gradients, saved = (part.chosen(results, *each) for each in kinds)
        self._leave_later(flat, part.chosen(results, LATER))
        return found, gradients, saved

    def _leave_later(self, flat: FlatModule, tensors: Sequence[Tensor]) -> None:
        if tensors:
            flat.leave_later(tensors, self.engine.spaces)

    def gradients(
        self, tensors: Sequence[Tensor], saved: Sequence[Tensor], cotangents: Sequence[Any]
    ) -> Mapping[str, Tensor]:
        """By name, those of the results of a call, weighted by cotangents; `None` is nothing."""
        assert self.deriving is not None, "is known for the call"
        program, foreseen = self.program, Foreseen(self.program.part.path)
        results = program.flat.result
        known: dict[str, Any] = dict(zip(program.flat.names, (*tensors, *self.drawn), strict=True))
        pairs = list(zip(results.tensors.items(), cotangents, strict=True))
        ranks = self.engine.ranks
        device = torch.device("cpu") if ranks is None else ranks.device
        asked = frozenset(name for (name, _), each in pairs if each is not None)
        for number, ((_, like), each) in enumerate(pairs):
            zeros = partial(torch.zeros, like.shape, dtype=like.dtype, device=device)
            known[f"{COTANGENT}{number}"] = zeros if each is None else each
        is_run = program.flat.derives and program.flat.left_out.isdisjoint(asked)
        while True:
            try:
                if not is_run:
                    program, is_run = self.deriving(asked, foreseen), True
                    saved = program.part.chosen(self._results(program, tensors), SAVED)
                depends = program.flat.depends
                reached = frozenset[str]().union(*(depends[each] for each in asked))
                if program.derivative is None:
                    return {name: torch.zeros_like(known[name]) for name in reached}
                backward = program.backward
                names = [each for each in program.part.result_names if each.startswith(SAVED)]
                values = {**known, **dict(zip(names, saved, strict=True))}
                used = (values[name] for name in backward.part.names)
                given = [each() if callable(each) else each for each in used]
                found = backward.run(given, self.engine.ranks)
            except OtherPathError as other:
                if foreseen.known == other.foreseen.known:
                    raise _ambiguous(program, len(foreseen.known)) from None
                foreseen, is_run = other.foreseen, False
            else:
                gradients = backward.part.chosen(found, GRADIENT)
                self._leave_later(program.flat, backward.part.chosen(found, LATER))
                named = zip(program.flat.trained, gradients, strict=True)
                return {name: each for name, each in named if name in reached}

    def _results(self, program: ModuleProgram, tensors: Sequence[Tensor]) -> list[Tensor]:
        return program.run([*tensors, *self.drawn], self.engine.ranks)

    def differentiable(self) -> list[bool]:
        """Of each result, whether it may have a derivative, if any does."""
        flat = self.program.flat
        found = [
            has_derivative(each) and (not flat.derives or bool(flat.depends.get(name, True)))
            for name, each in flat.result.tensors.items()
        ]
        return found if any(found) else []


class _Differentiated(torch.autograd.Function):  # type: ignore[misc]
    """A call whose results have derivatives."""

    @staticmethod
    def forward(ctx: Any, call: _Run, *tensors: Tensor) -> Any:
        """The results."""
        changed = {*call.program.flat.updated, *call.program.flat.written}
        names = [*call.program.flat.state, *call.given.tensors]
        ctx.call = call
        kept = [
            each.detach().clone() if name in changed else each
            for name, each in zip(names, tensors, strict=True)
        ]
        found, _, saved = call.run(tensors)
        ctx.save_for_backward(*kept, *saved)
        pairs = zip(found, call.differentiable(), strict=True)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(each for each, is_float in pairs if not is_float))
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Of the call nothing, and of each tensor the gradient if it has one."""
        call: _Run = ctx.call
        own = call.program.flat.state
        names = [*own, *call.given.tensors]
        held = ctx.saved_tensors  # a checkpoint around gives them once
        tensors, saved = held[: len(names)], held[len(names) :]
        if call.is_spent:
            raise ShardError(
                f"backward of {call.program.flat.name} has failed before: call it anew"
            )
        if torch._C._autograd._get_current_graph_task_keep_graph():
            saved = [each.clone() for each in saved]  # the program writes to these
        else:
            call.is_spent = True
        scales = call.engine.scales(own)
        if torch.is_grad_enabled():  # with create_graph=True
            named = dict(zip(names, tensors, strict=True))
            found: Mapping[str, Tensor] = {
                name: each * scales[name] if name in scales else each
                for name, each in call.engine.gradients(call, named, gradients).items()
            }
        else:
            with torch.no_grad(), _ONE_THREAD:
                found = call.gradients(tensors, saved, gradients)
                for name, each in found.items():
                    if scales.get(name, 1.0) != 1.0:
                        local_of(each).mul_(scales[name])  # nothing else has it yet
        pairs = zip(names, tensors, strict=True)
        return (None, *(_like(tensor, found.get(name)) for name, tensor in pairs))


def _refuse_transforms(name: str, tensors: Iterable[Tensor]) -> None:
    """Raise for a call in one of torch.func's transforms, or of which torch wants tangents."""
    is_transformed = torch._C._functorch.peek_interpreter_stack() is not None
    if torch.autograd.forward_ad._current_level >= 0:
        unpack = torch.autograd.forward_ad.unpack_dual
        is_transformed |= any(unpack(each).tangent is not None for each in tensors)
    if is_transformed:
        raise ShardError(
            f"{name} is partitioned, and transforms of torch.func (grad, vmap) and forward-mode "
            "derivatives do not go through it: use backward(), or transform the module itself"
        )


def _like(tensor: Tensor, gradient: Any) -> Any:
    """Of a whole tensor the whole gradient, where it is a DTensor; of a shard that of the shard."""
    if hasattr(tensor, "full_tensor") or not hasattr(gradient, "full_tensor"):
        return gradient
    return gradient.full_tensor() if gradient.shape == tensor.shape else gradient.to_local()


_MOST_PROGRAMS = 64
"""The oldest of more programs are forgotten."""
_MANY_PATHS = 8
"""With so many values of one decision the user is told."""


def _ambiguous(program: ModuleProgram, count: int) -> ShardError:
    decision = program.flat.checks[count - 1]
    assert isinstance(decision, Decision), "is of the path"
    return ShardError(
        "the elements that a size, a number or a branch depends on are rounded in another way by "
        "the program of what they say: they are too near to where it changes",
        decision.location,
    )
