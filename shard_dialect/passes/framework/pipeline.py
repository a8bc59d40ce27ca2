"""Pipelines of our passes and upstream's, in one MLIR `PassManager`.

    builtin.module(propagate,materialize{strict=true},canonicalize,func.func(cse),partition)

Passes in Python are callbacks in it; everything else is upstream's, and parsed by MLIR.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import PassManager, ir
from shard_dialect.ir.diagnostics import from_mlir, reporting
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.framework.instruments import Instruments
from shard_dialect.passes.framework.options import options_of, read_options, written
from shard_dialect.passes.framework.pass_table import (
    PIPELINE_OPTIONS,
    PIPELINES,
    pass_class,
    pass_names,
)
from shard_dialect.passes.framework.pipeline_text import (
    Element,
    Group,
    Node,
    elements_of,
    parse_pipeline,
)
from shard_dialect.processes.supervise import doing

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
_Callback = Callable[[ir.Operation, object], None]


class UnknownPassError(ShardError):
    """There is no pass called `name`."""

    def __init__(self, name: str) -> None:
        super().__init__(f"unknown pass '{name}'{_hint(name)}")
        self.name = name


def run_pipeline(
    module: ir.Module,
    pipeline: str | Sequence[str | Pass],
    instruments: Instruments | None = None,
) -> None:
    """Run the pipeline `builtin.module(...)`, or just its inside, on `module`.

    Raises `ShardError`: unknown passes or options, or whatever a pass refuses.
    """
    with module.context:
        Pipeline.build(pipeline, instruments or Instruments()).run(module)


@dataclass(frozen=True)
class Pipeline:
    """A pipeline in the current context, ready to run on modules of it."""

    manager: PassManager
    first: str
    """What runs until a pass of ours does."""

    @classmethod
    def build(cls, pipeline: str | Sequence[str | Pass], instruments: Instruments) -> Pipeline:
        """A pipeline of a text or of passes. Raises `ShardError` for unknown passes, options."""
        nodes, nests = _read(pipeline)
        _check_known((*instruments.print_ir_before, *instruments.print_ir_after))
        manager = PassManager(_MODULE)
        instruments.attach(manager)
        instruments.check(nodes)
        nodes = instruments.around(nodes)
        _Builder(instruments, nests).fill(manager, _MODULE, nodes)
        return cls(manager, _until_python(nodes))

    def run(self, module: ir.Module) -> None:
        """Run all passes on `module`, in place. Raises `ShardError` where a pass refuses it."""
        doing(self.first)
        with reporting(module.context):
            _run(self.manager, module.operation)


def described(pipeline: str | Sequence[str | Pass], instruments: Instruments | None = None) -> str:
    """The pipeline as `--pass-pipeline` takes it, with all options of all passes.

    Also with the options and passes that `instruments` add.
    """
    nodes, nests = _read(pipeline)
    manager = PassManager(_MODULE)
    instruments = instruments or Instruments()
    builder = _Builder(instruments, nests, described=True)
    builder.fill(manager, _MODULE, instruments.around(nodes))
    return str(manager)


def make_pass(name: str, options: str = "") -> Pass:
    """One of our passes with its options, written as in `materialize{strict=true}`."""
    cls = pass_class(name)
    return cls(**read_options(options, options_of(cls), name))


def _read(pipeline: str | Sequence[str | Pass]) -> tuple[tuple[Node, ...], bool]:
    """The nodes inside of `builtin.module(...)`; and whether it was not there.

    Without it, as with flags, a pass on functions only is put in `func.func(...)`.
    """
    text = pipeline if isinstance(pipeline, str) else ",".join(map(str, pipeline))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ShardError(f"the pipeline {text!a} is not UTF-8") from None
    if re.fullmatch(rf"\s*{_MODULE}\s*\(\s*\)\s*", text):
        return (), False
    nodes = parse_pipeline(text)
    if len(nodes) == 1 and isinstance(nodes[0], Group) and nodes[0].anchor == _MODULE:
        return tuple(_expanded(nodes[0].inside)), False
    return tuple(_expanded(nodes)), True


def _expanded(nodes: Sequence[Node]) -> Iterator[Node]:
    """The nodes with the passes of named pipelines in their place."""
    for node in nodes:
        if isinstance(node, Group):
            yield Group(node.anchor, tuple(_expanded(node.inside)))
        elif node.name not in PIPELINES:
            yield node
        else:
            yield from _elements(node)


def _elements(node: Element) -> Iterator[Element]:
    """The passes that a name stands for, each with those of the name's options that it has."""
    parts = [(name, options_of(pass_class(name))) for name in PIPELINES[node.name]]
    allowed = PIPELINE_OPTIONS[node.name]
    known = {each.name: each for _, options in parts for each in options if each.name in allowed}
    given = read_options(node.options, tuple(known.values()), node.name)
    for name, options in parts:
        own = (
            f"{each.name}={written(given[each.field])}" for each in options if each.field in given
        )
        yield Element(name, " ".join(own))


@dataclass(frozen=True)
class _Builder:
    instruments: Instruments
    nests: bool
    """Put passes that are restricted to other ops than modules in groups for these."""
    described: bool = False
    """The manager is to be printed, not run: names have their options with them."""

    def fill(self, manager: PassManager, anchor: str, nodes: Sequence[Node]) -> None:
        """Add `nodes` to a manager that runs on ops called `anchor`."""
        for number, node in enumerate(nodes):
            if not _is_python(node):
                self._add_upstream(manager, anchor, node)
                continue
            name, text, callback = self._python_pass(node, anchor)
            if self.instruments.print_ir_after_failure and isinstance(node, Element):
                callback = _printing_failure(callback, name)
            if anchor == _MODULE:
                callback = _announced(callback, name, _until_python(nodes[number + 1 :]))
            manager.add(callback, name=name, argument=text if self.described else name)

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

    def _group(self, group: Group) -> tuple[str, str, _Callback]:
        # The bindings give no manager for an inner op, so ours runs on each.
        if group.anchor == "any":
            raise ShardError(f"'{group}' has a pass in Python: name the ops in place of 'any'")
        manager = PassManager(group.anchor)
        manager.enable_verifier(self.instruments.verify_each)
        self.instruments.attach_printing(manager)
        self.fill(manager, group.anchor, group.inside)

        def callback(op: ir.Operation, _: object) -> None:
            inside = [each.operation for region in op.regions for block in region for each in block]
            for each in inside:
                if each.name == group.anchor:
                    _run(manager, each)

        return str(group), str(manager), callback

    def _add_upstream(self, manager: PassManager, anchor: str, node: Node) -> None:
        if self.nests and anchor == _MODULE and str(node).partition("{")[0] in _ON_FUNCTIONS:
            node = Group("func.func", (node,))
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


def _announced(callback: _Callback, name: str, after: str) -> _Callback:
    """`callback`, for a pass called `name`; `after` is what runs when it is done."""

    def announced(op: ir.Operation, handle: object) -> None:
        doing(name)
        callback(op, handle)
        doing(after)

    return announced


def _printing_failure(callback: _Callback, name: str) -> _Callback:
    """MLIR does not print where an exception comes out of a callback."""

    def printing(op: ir.Operation, handle: object) -> None:
        try:
            callback(op, handle)
        except ShardError:
            print(f"// -----// IR Dump After {name} Failed //----- //", file=sys.stderr)
            print(op.get_asm(), file=sys.stderr)
            raise

    return printing


def _is_python(node: Node) -> bool:
    return any(element.name in pass_names() for element in elements_of((node,)))


def _until_python(nodes: Sequence[Node]) -> str:
    """What runs until the next pass in Python, for people."""
    return ", ".join(map(str, takewhile(lambda node: not _is_python(node), nodes)))


def _check_known(names: Sequence[str]) -> None:
    for name in names:
        if name in PIPELINES:
            passes = ", ".join(PIPELINES[name])
            raise ShardError(f"'{name}' is several passes: name one of {passes}")
        if name not in pass_names():
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
    """What MLIR says of an element that it does not take, in our words."""
    unknown = re.search(_UNKNOWN, error)
    if unknown:
        return UnknownPassError(unknown[1])
    reason = error.strip().splitlines()[0]
    return ShardError(f"cannot add '{node}' to the pipeline: {reason}")


def likely_passes() -> tuple[str, ...]:
    """The names of our passes, and of those of upstream that people are likely to want here."""
    return (*pass_names(), *PIPELINES, *_UPSTREAM)


def _hint(name: str) -> str:
    import difflib  # for misspelt names only

    similar = difflib.get_close_matches(name, likely_passes(), n=1)
    return f": did you mean '{similar[0]}'?" if similar else ""
