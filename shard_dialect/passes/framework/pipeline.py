"""Pipelines of our passes and upstream's, in one MLIR `PassManager`.

    builtin.module(propagate,materialize{strict=true},canonicalize,func.func(cse),partition)

Passes in Python are callbacks in it; everything else is upstream's, and parsed by MLIR.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import takewhile
from typing import cast

from shard_dialect.errors import ShardError, aside, did_you_mean
from shard_dialect.ir.bindings import PassManager, ir
from shard_dialect.ir.diagnostics import from_mlir, from_mlir_in, location_text, reporting
from shard_dialect.ir.function import record_forms
from shard_dialect.ir.grids import explaining_grids
from shard_dialect.ir.walk import walk
from shard_dialect.passes.framework.base import (
    UNCHANGED,
    NamedPipeline,
    Outcome,
    Pass,
    forget_analyses,
    keeping_analyses,
)
from shard_dialect.passes.framework.dumps import NAME as DUMP
from shard_dialect.passes.framework.dumps import Dumps, is_dump
from shard_dialect.passes.framework.instruments import Instruments
from shard_dialect.passes.framework.options import (
    Element,
    Group,
    Node,
    elements_of,
    options_of,
    parse_pipeline,
    read_options,
    written,
)
from shard_dialect.passes.framework.pass_table import is_registered, pass_class, pass_names
from shard_dialect.passes.pipelines import PIPELINES
from shard_dialect.processes.code_of_users import of_user
from shard_dialect.processes.to_parent import Count, doing, what_is_done

_MODULE = "builtin.module"
# Upstream's that people are likely to want here, for the nearest name to a misspelt one.
_UPSTREAM = (
    "canonicalize",
    "cse",
    "convert-shard-to-mpi",
    "inline",
    "sharding-propagation",
    "shard-partition",
    "shard-simplify",
    "symbol-dce",
)
_ON_FUNCTIONS = frozenset({"sharding-propagation", "shard-partition"})
"""Upstream's passes on the interface of functions, for which MLIR names no op to run on."""
_UNKNOWN = r"'([^']*)' does not refer to a registered pass"
_RESTRICTED = r"Can't add pass '\w+' restricted to '([\w.]+)'"
_Callback = Callable[[ir.Operation, object], Outcome]
Step = str | Pass | NamedPipeline
Steps = Step | Sequence[Step]
"""A pipeline: a text, a pass, or several of these."""


class UnknownPassError(ShardError):
    """There is no pass called `name`."""

    def __init__(self, name: str) -> None:
        super().__init__(f"unknown pass '{name}'{did_you_mean(name, likely_passes())}")
        self.name = name


def run_pipeline(
    module: ir.Module | ir.Operation,
    pipeline: Steps,
    instruments: Instruments | None = None,
) -> None:
    """Run the pipeline `builtin.module(...)`, or just its inside, on `module`.

    In place of a module it may be another op, such as the function that a pass runs on. Raises
    `ShardError`: unknown passes or options, or whatever a pass refuses.
    """
    with module.context:
        anchor = module.operation.name
        Pipeline.build(pipeline, instruments or Instruments(), anchor).run(module)


@dataclass(frozen=True)
class Pipeline:
    """A pipeline in the current context, ready to run on modules of it."""

    manager: PassManager
    first: str
    """The upstream passes that run before the first of ours, for messages."""
    count: Count
    """The passes and groups of passes, of which as many have run."""
    dumps: Dumps
    tells: bool = False
    """Whether MLIR itself prints at the end: times, or statistics."""

    @classmethod
    def build(cls, pipeline: Steps, instruments: Instruments, anchor: str = _MODULE) -> Pipeline:
        """A pipeline of a text or of passes, on ops called `anchor`.

        Raises `ShardError` for unknown passes, options.
        """
        nodes, nests = _read(pipeline, instruments)
        _check_known((*instruments.print_ir_before, *instruments.print_ir_after))
        manager = PassManager(anchor)
        instruments.attach(manager)
        count = Count("passes", sum(not is_dump(each) for each in nodes))
        dumps = instruments.dumps()
        _Builder(instruments, nests, count, dumps).fill(manager, anchor, nodes)
        tells = instruments.timing or instruments.statistics is not None
        return cls(manager, _until_python(nodes), count, dumps, tells)

    def run(self, module: ir.Module | ir.Operation) -> None:
        """Run all passes on `module`, in place. Raises `ShardError` where a pass refuses it."""
        _, caller = what_is_done()
        doing(self.first)
        is_module = module.operation.name == _MODULE
        explained = explaining_grids(module.operation) if is_module else nullcontext()
        with explained, reporting(module.context), keeping_analyses(), self.count:
            try:
                with aside() if self.tells else nullcontext():
                    _run(self.manager, module.operation)
            except ShardError:
                self.dumps.fail()
                raise
        doing(caller)


def described(pipeline: Steps, instruments: Instruments | None = None) -> str:
    """The pipeline as `--pass-pipeline` takes it, with all options of all passes.

    Also with the options and passes that `instruments` add.
    """
    instruments = instruments or Instruments()
    nodes, nests = _read(pipeline, instruments.without_dumps())
    manager = PassManager(_MODULE)
    _Builder(instruments, nests, described=True).fill(manager, _MODULE, nodes)
    return str(manager)


def built_in(name: str, **options: object) -> Pass | NamedPipeline:
    """Return a pass or pipeline by its name, as a value for `run_pipeline`: ours, or registered.

    `built_in("materialize", strict=True)` is what `materialize{strict=true}` is in a text. Raises
    `ShardError` for a name or an option that is not known.
    """
    element = Element(
        name,
        " ".join(f"{key.replace('_', '-')}={written(value)}" for key, value in options.items()),
    )
    if name in PIPELINES:
        return named_pipeline(element)
    if name not in pass_names():
        raise UnknownPassError(name)
    return make_pass(name, element.options)


def make_pass(name: str, options: str = "") -> Pass:
    """One of our passes with its options, written as in `materialize{strict=true}`."""
    cls = pass_class(name)
    return cls(**read_options(options, options_of(cls), name))


def steps_of(pipeline: Steps) -> tuple[str, ...]:
    """The passes of a pipeline with their options, in order, to be run one by one."""
    return tuple(map(str, _read(pipeline, Instruments())[0]))


def steps_before(last: str) -> tuple[str, ...]:
    """The passes of `spmd` that run before the pass `last`."""
    return tuple(takewhile(lambda step: step.partition("{")[0] != last, steps_of("spmd")))


def _read(pipeline: Steps, instruments: Instruments) -> tuple[tuple[Node, ...], bool]:
    """The nodes inside of `builtin.module(...)`; and whether it was not there.

    Without it, as with flags, a pass on functions only is put in `func.func(...)`. Pipelines are
    replaced by their steps, with what the instruments add around them and to their options.
    """
    if isinstance(pipeline, str | Pass | NamedPipeline):
        pipeline = [pipeline]
    text = ",".join(map(str, pipeline))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ShardError(f"the pipeline {text!a} is not UTF-8") from None
    if re.fullmatch(rf"\s*{_MODULE}\s*\(\s*\)\s*", text):
        return (), False
    nodes = parse_pipeline(text)
    instruments.check(nodes)
    nests = not (len(nodes) == 1 and isinstance(nodes[0], Group) and nodes[0].anchor == _MODULE)
    if not nests:
        nodes = cast("Group", nodes[0]).inside
    instruments.check_edits(_names(nodes, instruments), _steps_by_name)
    return tuple(_Expansion().of(nodes, instruments)), nests


def _names(nodes: Sequence[Node], instruments: Instruments) -> Iterator[str]:
    """The names of all passes among the nodes, and of the pipelines whose steps they are."""
    for element in elements_of(tuple(nodes)):
        yield element.name
        if element.name in PIPELINES:
            yield from _names(_steps(instruments.with_settings(element)), instruments)
        yield from _names(instruments.inserted(element), Instruments())


def _steps_by_name(name: str) -> tuple[str, ...]:
    """The names of a pipeline's steps; none if there is no such pipeline."""
    steps = _steps(Element(name)) if name in PIPELINES else ()
    return tuple(each.name for each in elements_of(steps))


def _steps(element: Element) -> tuple[Node, ...]:
    return parse_pipeline(",".join(named_pipeline(element).steps()))


@dataclass
class _Expansion:
    """Puts the steps of named pipelines in their place, and edits them as instruments say."""

    is_over: bool = False
    """Whether the last pass that is to run is among the steps."""

    def of(self, nodes: Sequence[Node], instruments: Instruments) -> Iterator[Node]:
        """The steps of `nodes`, with what comes around them."""
        for node in nodes:
            if self.is_over:
                return
            if isinstance(node, Group):
                yield from self._group(node, instruments)
                continue
            if node.name not in instruments.skip:
                yield from self._element(node, instruments)
            inserted = instruments.inserted(node)
            yield from self.of(inserted, instruments.without_insertions())
            names = (
                {node.name} if node.name not in instruments.skip else {*_names([node], instruments)}
            )
            self.is_over |= instruments.stop_after in names

    def _group(self, group: Group, instruments: Instruments) -> Iterator[Node]:
        if group.anchor == "any" and _is_python(group):
            raise ShardError(f"'{group}' has a pass in Python: name the ops in place of 'any'")
        for each in group.inside:
            if isinstance(each, Element) and each.name in PIPELINES and group.anchor != _MODULE:
                raise _misplaced(each, _MODULE, group.anchor)
        # Steps in Python, as dumps are, cannot stand in a group of any op.
        own = instruments if group.anchor != "any" else instruments.without_dumps()
        inside = tuple(self.of(group.inside, own))
        if inside:
            yield Group(group.anchor, inside)

    def _element(self, node: Element, instruments: Instruments) -> Iterator[Node]:
        is_pass = node.name not in PIPELINES
        yield from instruments.before(node, is_pass=is_pass)
        element = instruments.with_settings(node)
        if is_pass:
            yield element
        else:
            yield from self.of(_steps(element), instruments)
        yield from instruments.after(node, is_pass=is_pass)


def named_pipeline(element: Element) -> NamedPipeline:
    """The pipeline that an element names, with its options."""
    cls = PIPELINES[element.name]
    return cls(**read_options(element.options, options_of(cls), element.name))


@dataclass(frozen=True)
class _Builder:
    instruments: Instruments
    nests: bool
    """Put passes that are restricted to other ops than modules in groups for these."""
    count: Count | None = None
    dumps: Dumps | None = None
    described: bool = False
    """The manager is to be printed, not run: names have their options with them."""

    def fill(self, manager: PassManager, anchor: str, nodes: Sequence[Node]) -> None:
        """Add `nodes` to a manager that runs on ops called `anchor`.

        Where all are ours, we verify what they have changed, and the manager does not. It would
        verify after each pass, of which most have nothing to do: a third of the time of `lower`.
        """
        number, is_after_others = 0, True
        verifies = self.instruments.verify_each
        are_ours = all(is_dump(node) or _is_python(node) for node in nodes)
        manager.enable_verifier(verifies and not are_ours)
        for at, node in enumerate(nodes):
            if is_dump(node):
                self._add_dump(manager, cast("Element", node))
                continue
            number += 1
            if not _is_python(node):
                self._add_upstream(manager, anchor, node)
                is_after_others = True
                continue
            name, text, callback = self._python_pass(node, anchor)
            of_whom = f"pass '{name}'" if is_registered(name) else None
            if of_whom:
                callback = _of_user(callback, of_whom, pass_class(name).rewrite)
            if verifies and (are_ours or of_whom):
                callback = _verifying(callback, of_whom)
            if is_after_others:
                callback = _after_others(callback)
            is_after_others = False
            if anchor == _MODULE:
                after = _until_python(nodes[at + 1 :])
                callback = self._announced(callback, name, number - 1, after)
            manager.add(callback, name=name, argument=text if self.described else name)

    def _add_dump(self, manager: PassManager, element: Element) -> None:
        dumps = self.dumps
        if dumps is not None:
            manager.add(lambda op, _: dumps.at(element, op), name="print-ir", argument="print-ir")

    def _python_pass(self, node: Node, anchor: str) -> tuple[str, str, _Callback]:
        """A callback for a pass in Python or a group that has one; its name, and as text."""
        if isinstance(node, Group):
            return self._group(node)
        each = make_pass(node.name, node.options)
        if each.anchor in (anchor, "any"):
            text = str(each) if self.described else each.name
            return each.name, text, lambda op, _: each.run(op)
        if self.nests and anchor == _MODULE:
            return self._group(Group(each.anchor, (node,)))
        raise _misplaced(node, each.anchor, anchor)

    def _announced(self, callback: _Callback, name: str, number: int, after: str) -> _Callback:
        """`callback` for a pass, with its number and name; `after` names those that follow it."""

        def announced(op: ir.Operation, handle: object) -> Outcome:
            if self.count is not None:
                self.count.done(number)
            doing(name)
            outcome = callback(op, handle)
            doing(after)
            return outcome

        return announced

    def _group(self, group: Group) -> tuple[str, str, _Callback]:
        # The bindings give no manager for an inner op, so ours runs on each.
        manager = PassManager(group.anchor)
        self.fill(manager, group.anchor, group.inside)

        def callback(op: ir.Operation, _: object) -> Outcome:
            inside = [each.operation for region in op.regions for block in region for each in block]
            for each in inside:
                if each.name == group.anchor:
                    _run(manager, each)
            forget_analyses()  # upstream's passes do not say whether they change anything
            return None

        return str(group), str(manager), callback

    def _add_upstream(self, manager: PassManager, anchor: str, node: Node) -> None:
        if self.nests and anchor == _MODULE and str(node).partition("{")[0] in _ON_FUNCTIONS:
            node = Group("func.func", (node,))
        if str(node).partition("{")[0] == "inline" and anchor == _MODULE and not self.described:
            manager.add(_after_others(_import_regions), name="import", argument="import")
        try:
            manager.add(str(node))
        except ValueError as error:
            restricted = re.search(_RESTRICTED, str(error))
            if restricted is None or isinstance(node, Group):
                raise _refused(node, str(error)) from None
            if not self.nests or anchor != _MODULE:
                raise _misplaced(node, restricted[1], anchor) from None
            manager.add(f"{restricted[1]}({node})")


def _run(manager: PassManager, op: ir.Operation) -> None:
    try:
        manager.run(op)
    except ir.MLIRError as error:
        raise from_mlir(error) from None


def _of_user(callback: _Callback, what: str, rewrite: Callable[..., object]) -> _Callback:
    """`callback`, for the pass of a user that `what` names: what it raises is its error."""

    def guarded(op: ir.Operation, handle: object) -> Outcome:
        place = _place(op)
        try:
            return of_user(what, lambda: callback(op, handle), place, rewrite)
        except ShardError as error:
            if isinstance(error.__cause__, ir.MLIRError):
                raise from_mlir_in(what, error.__cause__, place) from None
            raise

    return guarded


def _verifying(callback: _Callback, of_whom: str | None) -> _Callback:
    """`callback`, whose IR is verified after it; `of_whom` names the pass if it is a user's.

    A user's is verified also if it says that it has changed nothing.
    """

    def verified(op: ir.Operation, handle: object) -> Outcome:
        outcome = callback(op, handle)
        if outcome != UNCHANGED or of_whom:
            try:
                op.verify()
            except ir.MLIRError as error:
                if of_whom:
                    what = f"{of_whom} left invalid IR"
                    raise from_mlir_in(what, error, _place(op)) from None
                raise from_mlir(error) from None
        return outcome

    return verified


def _place(op: ir.Operation) -> str | None:
    return None if op.name == _MODULE else location_text(op.location)


def _import_regions(module: ir.Operation, _: object) -> Outcome:
    """Import Shardy's ops with regions: MLIR's inliner crashes on those that it only parses."""
    if any(op.name.startswith("sdy.") and len(op.regions) for op in walk(module)):
        return make_pass("import").run(module)
    return UNCHANGED


def _after_others(callback: _Callback) -> _Callback:
    """`callback`, for a pass after one that is not ours, which may have changed anything."""

    def fresh(op: ir.Operation, handle: object) -> Outcome:
        forget_analyses()
        if op.name == _MODULE:
            record_forms(op)
        return callback(op, handle)

    return fresh


def _is_python(node: Node) -> bool:
    names = {*pass_names(), *PIPELINES, DUMP}
    return any(element.name in names for element in elements_of((node,)))


def _until_python(nodes: Sequence[Node]) -> str:
    """The upstream passes that run before the next pass in Python, for messages."""
    others = (node for node in nodes if not is_dump(node))
    return ", ".join(map(str, takewhile(lambda node: not _is_python(node), others)))


def _check_known(names: Sequence[str]) -> None:
    for name in names:
        if name not in pass_names() and name not in PIPELINES:
            try:
                PassManager("any").add(name)
            except ValueError as error:
                if re.search(_UNKNOWN, str(error)):
                    raise _refused(Element(name), str(error)) from None


def _misplaced(node: Element, expected: str, anchor: str) -> ShardError:
    return ShardError(
        f"pass '{node.name}' runs on '{expected}', but stands in '{anchor}(...)': "
        f"write {expected}({node})"
    )


def _refused(node: Node, error: str) -> ShardError:
    """MLIR's error for an element that it refuses, in our words."""
    unknown = re.search(_UNKNOWN, error)
    if unknown:
        return UnknownPassError(unknown[1])
    reason = error.strip().splitlines()[0]
    return ShardError(f"cannot add '{node}' to the pipeline: {reason}")


def likely_passes() -> tuple[str, ...]:
    """The names of our passes, and of those of upstream that people are likely to want here."""
    return (*pass_names(), *PIPELINES, *_UPSTREAM)
