"""Build the graph through which shardings propagate (`propagation.graph`) from a module.

    ops with a rule            a node each
loops, branches, calls     a node for each of their flows; all targets of a flow are one value
annotations, barriers      a node that passes shardings on unchanged
manual boundaries          a node that relates the dimensions outside to those inside
constants                  a copy for each user, made when the builder visits the user
                           (`constants`), so that no sharding propagates between users

`ModuleGraph` also maps the module's values and ops to those of the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from shard_dialect.ir.diagnostics import error_at, located, note_at, warn
from shard_dialect.ir.function import form_of
from shard_dialect.ir.mesh.annotation_ops import (
    BOUNDARY_OPS,
    OPS,
    TO_LOCAL,
    binds,
    boundary_of,
    computations_around,
    has_loops,
)
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import (
    Flow,
    Function,
    Op,
    Value,
    flows_between,
    flows_through,
)
from shard_dialect.model import Annotation, Grid, ShardingRule
from shard_dialect.model.sharding import Shape
from shard_dialect.ops.op_table import OpKinds
from shard_dialect.passes.propagate.constants import Constants, Copy
from shard_dialect.passes.propagate.constraints import Constraints, pinned_loops
from shard_dialect.propagation.graph import NO_TENSOR, Graph, Node

GROUP = "mesh.sharding_group"
BARRIER = "mesh.propagation_barrier"
_Key = tuple[int, int]
"""The index of a function, with the index of one of its arguments or results."""


@dataclass
class ModuleGraph:
    """The graph of a module's functions.

    `ops` has the op of each origin of a node, after the index of its function.
    """

    functions: Sequence[Function]
    graph: Graph = field(default_factory=Graph)
    ops: list[tuple[int, Op]] = field(default_factory=list)
    exits: dict[_Key, int] = field(default_factory=dict)
    """The graph's value for each (function, result) at the boundary."""
    copies: list[Copy] = field(default_factory=list)
    _of: list[dict[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        self._of = [{} for _ in self.functions]

    def number_of(self, function: int, value: int) -> int:
        """The graph's number of a function's value; `NO_TENSOR` if the graph does not have it."""
        return self._of[function].get(value, NO_TENSOR)

    def is_known(self, function: int, value: int) -> bool:
        """Whether a function's value has a number, which may be `NO_TENSOR`."""
        return value in self._of[function]

    def put(self, function: int, value: int, number: int) -> None:
        """Set the graph's number of a function's value."""
        self._of[function][value] = number


def module_graph(
    functions: Sequence[Function],
    constraints: Sequence[Constraints],
    grids: Sequence[Grid],
    shardings: Shardings,
    copies_constants: bool = True,
) -> ModuleGraph:
    """The graph of some functions of one module, each with its annotations and its grid.

    With `copies_constants` each user of a constant gets a copy. Raises a located `ShardError`.
    """
    result = ModuleGraph(functions)
    builder = _Builder(result, constraints, grids, shardings, copies_constants)
    for number in range(len(functions)):
        builder.open(number)
    for number in range(len(functions)):
        builder.build(number)
    for sources, target, shape, called in builder.calls:
        builder.flow(sources, target, shape, called[0])
    return result


class _Builder:
    def __init__(
        self,
        module_graph: ModuleGraph,
        constraints: Sequence[Constraints],
        grids: Sequence[Grid],
        shardings: Shardings,
        copies_constants: bool,
    ) -> None:
        self.copies_constants = copies_constants
        self.module_graph = module_graph
        self.graph = module_graph.graph
        self.constraints = constraints
        self.shardings = shardings
        self.grids = grids
        self.op_kinds = OpKinds()
        self.names = {function.name: n for n, function in enumerate(module_graph.functions)}
        self.called = _called(module_graph.functions)
        self.targets = [_targets_in(function) for function in module_graph.functions]
        self.calls: list[tuple[Sequence[int], int, Shape, list[int]]] = []
        """Flows into and out of called functions: sources, target, shape, origins of the calls."""
        self._called_at: dict[int, list[int]] = {}
        self._callers: dict[_Key, list[int]] = {}
        self._prepared_rules: dict[tuple[object, ...], int] = {}
        self._groups: dict[int, list[tuple[Op, int]]] = {}

    def open(self, number: int) -> None:
        """Make the graph's values of the arguments of function `number`."""
        self._enter(number)
        for value in self.function.arguments:
            self._value(value)

    def _enter(self, number: int) -> None:
        self.number = number
        self.function = self.module_graph.functions[number]
        self.values: Sequence[Value] = self.function.values

    def build(self, number: int) -> None:
        self._enter(number)
        self.uses = self.function.count_uses()
        self.constants = Constants(self.function)
        self.redirected = self._redirected()
        self._groups = {}
        flows = flows_between(self.function.blocks)
        for flow in flows:
            self._join(flow)
        for block in self.function.blocks:
            for op in block.ops:
                self._visit(op)
        for flow in flows:
            self._flow(flow, self._origin(flow.sources[0][0]))
        for group in self._groups.values():
            self._group(group)
        if self.function.name in self.called:
            called = self._called_at.setdefault(number, [])
            for index, value in enumerate(self.function.arguments):
                target = self.module_graph.number_of(number, value)
                sources = self._callers.setdefault((number, index), [])
                shape = self.values[value].shape
                if target != NO_TENSOR and shape is not None:
                    self.calls.append((sources, target, shape, called))

    # Values

    def _value(self, value: int) -> int:
        """The graph's number of a value of the function; adds the value if it is new."""
        if self.module_graph.is_known(self.number, value):
            return self.module_graph.number_of(self.number, value)
        kind = self.module_graph.functions[self.number].values[value].kind
        number = NO_TENSOR
        if kind.shape is not None:
            number = self.graph.add_value(kind.shape, kind.itemsize, self._known(value))
        self.module_graph.put(self.number, value, number)
        return number

    def _known(self, value: int) -> Annotation | None:
        """The annotation of a value, or that for its users; of a flow's target only the former."""
        constraints = self.constraints[self.number]
        if value in self.targets[self.number]:
            return constraints.known.get(value)
        return constraints.known.get(value) or constraints.constrained.get(value)

    def _join(self, flow: Flow) -> None:
        """Make all targets of a flow one value of the graph."""
        first = self._value(flow.targets[0])
        for value in flow.targets[1:]:
            self.module_graph.put(self.number, value, first)
        annotations = [each for each in map(self._known, flow.targets) if each is not None]
        if first != NO_TENSOR and annotations:
            self.graph.annotations[first] = annotations[-1]  # that of a result, if there is one

    def _redirected(self) -> dict[int, int]:
        """Each target of a flow that is annotated for its users, with the annotation's result.

        The users then use that result, and the flow itself may get another sharding.
        """
        constrained = self.constraints[self.number].constrained.keys() & self.targets[self.number]
        redirected: dict[int, int] = {}
        for op in self.function.ops if constrained else ():
            if op.name == "mesh.annotate" and op.operands[0] in constrained:
                redirected.setdefault(op.operands[0], op.results[0])
        return redirected

    def _operand(self, op: Op, number: int) -> int:
        """The graph's number of the op's operand `number`; for a constant, that of a new copy."""
        value = op.operands[number]
        if self.values[value].shape is None:
            return NO_TENSOR
        if value in self.constants and self.values[value].shape != ():
            return self._copy(value, op, number)
        value = self.redirected.get(value, value)
        return self._value(value)

    def _copy(self, value: int, user: Op, number: int) -> int:
        copy = self._copy_of(value, {})
        copy.user = user
        copy.operand_number = number
        return copy.number

    def _copy_of(self, value: int, done: dict[int, Copy]) -> Copy:
        """A copy of the op that defines a constant, and of its operands that are constants."""
        if value in done:
            return done[value]
        op = self.constants[value]
        operands: dict[int, Copy] = {}
        numbers = []
        for index, each in enumerate(op.operands):
            is_copied = each in self.constants and self.values[each].shape not in (None, ())
            if is_copied:
                operands[index] = self._copy_of(each, done)
            numbers.append(operands[index].number if is_copied else self._value(each))
        kind = self.values[value].kind
        assert kind.shape is not None, "only tensors of static shape are copied"
        number = self.graph.add_value(kind.shape, kind.itemsize, self._known(value))
        copy = done[value] = Copy(self.number, op, value, number, operands)
        self.module_graph.copies.append(copy)
        rule = self.op_kinds.kind_in(self.values, op).rule
        if rule is not None and op.operands:
            self._node(op, rule, (*numbers, number), used_once=True)
        return copy

    # Nodes

    def _visit(self, op: Op) -> None:
        flows = flows_through(op)
        if flows or op.blocks:
            for flow in flows:
                self._join(flow)
            for block in op.blocks:
                for inner in block.ops:
                    self._visit(inner)
            origin = self._origin(op)
            for flow in flows:
                self._flow(flow, origin)
        else:
            _VISITS.get(op.name, _Builder._op)(self, op)

    def _op(self, op: Op) -> None:
        rule = self.op_kinds.kind_in(self.values, op).rule
        is_constant = self.copies_constants and self.constants.add(op, rule)
        if rule is None and has_loops(op.handle):
            raise error_at(
                op.location,
                f"'{op.name}' op has an annotation for its loops, but no sharding rule that "
                "defines them",
            )
        if rule is None or is_constant:
            return
        used_once = self._used_once(op)
        operands = [self._operand(op, number) for number in range(len(op.operands))]
        results = [self._value(value) for value in op.results]
        if any(operands) or any(results):
            self._node(op, rule, (*operands, *results), used_once)

    def _node(self, op: Op, rule: ShardingRule, values: tuple[int, ...], used_once: bool) -> None:
        known = [self._known(value) for value in op.results]
        pinned = pinned_loops(op.handle, rule, known, self.shardings, self.grids[self.number])
        key = (id(rule), pinned)
        if key not in self._prepared_rules:
            self._prepared_rules[key] = self.graph.add_rule(rule, *pinned)
        node = Node(self._prepared_rules[key], values, rule.role, used_once, self._origin(op))
        self.graph.nodes.append(node)

    def _annotation(self, op: Op) -> None:
        """Add the node of an annotation op or a barrier, which passes shardings on unchanged."""
        shape = self.values[op.operands[0]].shape
        if shape is None:
            return
        is_redirected = self.redirected.get(op.operands[0]) == op.results[0]
        operand = self._value(op.operands[0]) if is_redirected else self._operand(op, 0)
        result = self._value(op.results[0])
        used_once = self._used_once(op)
        dims = tuple((dim,) for dim in range(len(shape)))
        key = ("annotation", shape)
        if key not in self._prepared_rules:
            self._prepared_rules[key] = self.graph.add_rule(ShardingRule(shape, (dims,), (dims,)))
        node = Node(
            self._prepared_rules[key], (operand, result), "elementwise", used_once, self._origin(op)
        )
        if op.name == BARRIER:
            node.to = op.handle.attributes["allowed_direction"].value.lower()
        else:
            node.annotates = binds(op.handle)
        self.graph.nodes.append(node)

    def _manual_boundary(self, op: Op) -> None:
        """Add the node of a manual boundary.

        In front of a `to_local` the tensor gets a value of its own, which has the annotation.
        """
        operand, result = op.operands[0], op.results[0]
        into = op.name == TO_LOCAL
        kind = self.values[operand if into else result].kind
        if kind.shape is None:
            return
        with located(op.handle):
            boundary = boundary_of(op.handle, self.shardings)
        source, target = self._operand(op, 0), self._value(result)
        origin = self._origin(op)
        used_once = self._used_once(op)
        if into:
            outside = self.graph.add_value(kind.shape, kind.itemsize, boundary.outside_annotation)
            identity = self.graph.identity_rule(kind.shape)
            annotation = Node(identity, (source, outside), "elementwise", used_once, origin)
            annotation.annotates = "users"
            self.graph.nodes.append(annotation)
            source = outside
        key = ("edge", op.name, boundary.manual_split_axes, boundary.grid.name, kind.shape)
        if key not in self._prepared_rules:
            rule = boundary.rule(kind.shape, into)
            self._prepared_rules[key] = self.graph.add_rule(
                rule, boundary.pinned, boundary.grid.name
            )
        self.graph.nodes.append(
            Node(self._prepared_rules[key], (source, target), "pass", used_once, origin)
        )

    def _flow(self, flow: Flow, origin: int) -> None:
        target = self._value(flow.targets[0])
        shape = self.values[flow.targets[0]].shape
        if target != NO_TENSOR and shape is not None:
            sources = [self._operand(op, number) for op, number in flow.sources]
            self.flow(sources, target, shape, origin)

    def flow(self, sources: Sequence[int], target: int, shape: Shape, origin: int) -> None:
        if sources:
            self.graph.add_flow(shape, sources, target, origin)

    def _call(self, op: Op) -> None:
        """Add the flows from operands to the callee's arguments, and from its results back."""
        callee = self.names.get(op.handle.attributes["callee"].value)
        results = [self._value(value) for value in op.results]
        if callee is None:
            return
        function = self.module_graph.functions[callee]
        for index in range(len(op.operands)):
            self._callers.setdefault((callee, index), []).append(self._operand(op, index))
        origin = self._origin(op)
        self._called_at.setdefault(callee, []).append(origin)
        for index, target in enumerate(results):
            self._learn_returned(target, self.constraints[callee].returned.get(index))
            sources = [end.operands[index] for end in function.returns]
            shape = self.values[op.results[index]].shape
            if target != NO_TENSOR and shape is not None:
                number, self.number = self.number, callee
                numbers = [self._value(value) for value in sources]
                self.number = number
                self.calls.append((numbers, target, shape, [origin]))

    def _learn_returned(self, result: int, returned: Annotation | None) -> None:
        """Annotate a call's result as its callee's, unless its own annotation contradicts that."""
        if result != NO_TENSOR and returned is not None:
            own = self.graph.annotations[result]
            self.graph.annotations[result] = (own.meet(returned) or own) if own else returned

    def _return(self, op: Op) -> None:
        for index, value in enumerate(op.operands):
            shape = self.values[value].shape
            if shape is None:
                continue
            operand = self._operand(op, index)
            key = (self.number, index)
            if self.function.name not in self.called and key not in self.module_graph.exits:
                annotation = self.constraints[self.number].returned.get(index)
                exit_value = self.graph.add_exit(shape, operand, annotation, self._origin(op))
                self.module_graph.exits[key] = exit_value

    def _member(self, op: Op) -> None:
        number = op.handle.attributes["group_id"].value
        self._groups.setdefault(number, []).append((op, op.operands[0]))

    def _group(self, group: list[tuple[Op, int]]) -> None:
        """Add a sharding group, whose members get one sharding. Raises for different shapes.

        A member whose annotation contradicts those of the members before it is left out.
        """
        shape = self.values[group[0][1]].shape
        around = [*computations_around(group[0][0].handle)]
        for op, value in group:
            if [*computations_around(op.handle)] != around:
                raise error_at(
                    op.location,
                    f"'{GROUP}' op groups a tensor with one on the other side of a manual "
                    "computation, where it is local: group those of one side",
                    note_at(group[0][0].location, "the first of the group"),
                )
            other = self.values[value].shape
            if other != shape or shape is None:
                raise error_at(
                    op.location,
                    f"'{GROUP}' op groups a tensor of shape {_shown(other)} with one of shape "
                    f"{_shown(shape)}: expected known and equal shapes",
                )
        members: dict[int, Op] = {}
        both: Annotation | None = None
        named = [(op, member) for op, _ in group for member in self._members_of(op)]
        for op, member in named:
            annotation = self.graph.annotations[member]
            if both is not None and annotation is not None:
                met = both.meet(annotation)
                if met is None:
                    self._warn_of_conflict(op, annotation, members, both)
                    continue
                annotation = met
            both = annotation or both
            members[member] = op
        for member in members:
            if self.graph.annotations[member] is not None:
                self.graph.annotations[member] = both
        self.graph.groups.append(tuple(members))

    def _members_of(self, op: Op) -> Sequence[int]:
        """What joins a group where `op` names a value: a constant has a copy for each of its users.

        The users are to see the group's sharding, and so all copies are members.
        """
        value = op.operands[0]
        copies = [
            copy.number
            for copy in self.module_graph.copies
            if copy.value == value and copy.function == self.number
        ]
        return copies or [self._operand(op, 0)]

    def _warn_of_conflict(
        self, op: Op, annotation: Annotation, members: Mapping[int, Op], both: Annotation
    ) -> None:
        """Warn that `op` names a member with another annotation than the members so far have."""
        if form_of(self.function.handle) != "annotated":
            return  # the conflict was reported when the function was propagated first
        group = op.handle.attributes["group_id"].value
        notes = [
            note_at(other.location, f"a member with the sharding {known}")
            for member, other in members.items()
            if (known := self.graph.annotations[member]) is not None
        ]
        warn(
            f"sharding group {group} has members with the shardings {both} and {annotation}, which "
            "contradict each other: this member keeps its own, outside of the group",
            op.location,
            *notes,
        )

    def _used_once(self, op: Op) -> bool:
        """Whether no operand that can be split has another user; copied constants do not count."""
        for value in op.operands:
            shape = self.values[value].shape
            if shape and self.uses[value] > 1 and value not in self.constants:
                return False
        return True

    def _origin(self, op: Op) -> int:
        self.module_graph.ops.append((self.number, op))
        return len(self.module_graph.ops) - 1


_VISITS: dict[str, Callable[[_Builder, Op], None]] = {
    "func.return": _Builder._return,
    "func.call": _Builder._call,
    GROUP: _Builder._member,
    **dict.fromkeys((*OPS, BARRIER), _Builder._annotation),
    **dict.fromkeys(BOUNDARY_OPS, _Builder._manual_boundary),
}


def _targets_in(function: Function) -> set[int]:
    """The values that are targets of flows."""
    flows = flows_between(function.blocks)
    flows += [flow for op in function.ops for flow in flows_through(op)]
    return {value for flow in flows for value in flow.targets}


def _called(functions: Sequence[Function]) -> Mapping[str, int]:
    return Counter(
        op.handle.attributes["callee"].value
        for function in functions
        for op in function.ops
        if op.name == "func.call"
    )


def _shown(shape: Shape | None) -> str:
    return "that is not known" if shape is None else str(list(shape))
