"""A module as the graph that shardings pass through (`propagation.graph`), and the way back.

ops with a rule            a node each
loops, branches, calls     a node for each of their flows; the targets of one are one value
annotations, barriers      a node that passes shardings on as they are
edges of manual            a node between the dimensions outside and those inside
computations
constants                  a copy for each user, made when it is met (`constants`): what one
                           user wants of them is nothing to another
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.mesh.annotation_ops import OPS, binds, has_loops
from shard_dialect.ir.mesh.manual_computation import EDGES, TO_LOCAL, boundary_of
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered import Function, Op, Value
from shard_dialect.ir.region_flow import Flow, flows_between, flows_through
from shard_dialect.model import Annotation, Grid, ShardingRule
from shard_dialect.model.sharding import Shape
from shard_dialect.passes.propagate.constants import Constants, Copy
from shard_dialect.passes.propagate.constraints import Constraints
from shard_dialect.passes.propagate.loop_shardings import pinned_loops
from shard_dialect.propagation.graph import NOTHING, Graph, Node
from shard_dialect.rules.rule_cache import RuleMemo

GROUP = "mesh.sharding_group"
BARRIER = "mesh.propagation_barrier"
_Place = tuple[int, int]
"""A function of the module, and one of its values."""


@dataclass
class ModuleGraph:
    """`ops` are those that nodes come from, with the function that each is in."""

    functions: Sequence[Function]
    graph: Graph = field(default_factory=Graph)
    ops: list[tuple[int, Op]] = field(default_factory=list)
    exits: dict[_Place, int] = field(default_factory=dict)
    """The graph's value for each result of each function."""
    copies: list[Copy] = field(default_factory=list)
    _of: list[dict[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        self._of = [{} for _ in self.functions]

    def number_of(self, function: int, value: int) -> int:
        """The graph's number of a function's value."""
        return self._of[function].get(value, NOTHING)

    def is_known(self, function: int, value: int) -> bool:
        """Whether the graph has a value for a function's."""
        return value in self._of[function]

    def put(self, function: int, value: int, number: int) -> None:
        """Let a function's value be `number` in the graph."""
        self._of[function][value] = number


def module_graph(
    functions: Sequence[Function],
    constraints: Sequence[Constraints],
    grids: Sequence[Grid],
    shardings: Shardings,
    copies_constants: bool = True,
) -> ModuleGraph:
    """The graph of some functions of one module, each with what is said of it and its grid."""
    made = ModuleGraph(functions)
    builder = _Builder(made, constraints, grids, shardings, copies_constants)
    for number in range(len(functions)):
        builder.open(number)
    for number in range(len(functions)):
        builder.build(number)
    for sources, target, shape, called in builder.calls:
        builder.flow(sources, target, shape, called[0])
    return made


class _Builder:
    def __init__(
        self,
        made: ModuleGraph,
        constraints: Sequence[Constraints],
        grids: Sequence[Grid],
        shardings: Shardings,
        copies_constants: bool,
    ) -> None:
        self.copies_constants = copies_constants
        self.made = made
        self.graph = made.graph
        self.constraints = constraints
        self.shardings = shardings
        self.grids = grids
        self.rules = RuleMemo()
        self.names = {function.name: n for n, function in enumerate(made.functions)}
        self.called = _called(made.functions)
        self.targets = [_targets_in(function) for function in made.functions]
        self.calls: list[tuple[Sequence[int], int, Shape, list[int]]] = []
        """Flows into functions and back, with the origins of the calls."""
        self._called_at: dict[int, list[int]] = {}
        self._callers: dict[_Place, list[int]] = {}
        self._forms: dict[tuple[object, ...], int] = {}
        self._groups: dict[int, list[tuple[Op, int]]] = {}

    def open(self, number: int) -> None:
        """Begin a function with its arguments."""
        self._enter(number)
        for value in self.function.arguments:
            self._value(value)

    def _enter(self, number: int) -> None:
        self.number = number
        self.function = self.made.functions[number]
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
            for place, value in enumerate(self.function.arguments):
                target = self.made.number_of(number, value)
                sources = self._callers.setdefault((number, place), [])
                shape = self.values[value].shape
                if target != NOTHING and shape is not None:
                    self.calls.append((sources, target, shape, called))

    # Values

    def _value(self, value: int) -> int:
        """The graph's number of a value of the function, made where it is new."""
        if self.made.is_known(self.number, value):
            return self.made.number_of(self.number, value)
        kind = self.made.functions[self.number].values[value].kind
        number = NOTHING
        if kind.shape is not None:
            number = self.graph.value(kind.shape, kind.itemsize, self._known(value))
        self.made.put(self.number, value, number)
        return number

    def _known(self, value: int) -> Annotation | None:
        """What is said of a value; if that is only to its users, of it too, but for flows."""
        constraints = self.constraints[self.number]
        if value in self.targets[self.number]:
            return constraints.known.get(value)
        return constraints.known.get(value) or constraints.constrained.get(value)

    def _join(self, flow: Flow) -> None:
        """Let the targets of a flow be one value."""
        first = self._value(flow.targets[0])
        for value in flow.targets[1:]:
            self.made.put(self.number, value, first)
        said = [each for each in map(self._known, flow.targets) if each is not None]
        if first != NOTHING and said:
            self.graph.said[first] = said[-1]  # a result's, where there is one

    def _redirected(self) -> dict[int, int]:
        """Targets of flows of which users are told something: these see what they are told.

        The flow itself stays free to lie otherwise.
        """
        constrained = self.constraints[self.number].constrained.keys() & self.targets[self.number]
        found: dict[int, int] = {}
        for op in self.function.ops if constrained else ():
            if op.name == "mesh.annotate" and op.operands[0] in constrained:
                found.setdefault(op.operands[0], op.results[0])
        return found

    def _operand(self, op: Op, place: int) -> int:
        """The graph's number of what an op takes: of a constant, a copy of its own."""
        value = op.operands[place]
        if self.values[value].shape is None:
            return NOTHING
        if value in self.constants and self.values[value].shape != ():
            return self._copy(value, op, place)
        value = self.redirected.get(value, value)
        return self._value(value)

    def _copy(self, value: int, user: Op, place: int) -> int:
        copy = self._copy_of(value, {})
        copy.user = user
        copy.place = place
        return copy.number

    def _copy_of(self, value: int, done: dict[int, Copy]) -> Copy:
        """A copy of what makes a constant, and of what that takes."""
        if value in done:
            return done[value]
        op = self.constants[value]
        operands: dict[int, Copy] = {}
        numbers = []
        for place, each in enumerate(op.operands):
            is_copied = each in self.constants and self.values[each].shape not in (None, ())
            if is_copied:
                operands[place] = self._copy_of(each, done)
            numbers.append(operands[place].number if is_copied else self._value(each))
        kind = self.values[value].kind
        assert kind.shape is not None, "copied are tensors of known size"
        number = self.graph.value(kind.shape, kind.itemsize, self._known(value))
        copy = done[value] = Copy(self.number, op, value, number, operands)
        self.made.copies.append(copy)
        rule = self.rules.rule_of(op, self.values)
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
        rule = self.rules.rule_of(op, self.values)
        is_constant = self.copies_constants and self.constants.add(op, rule)
        if has_loops(op.handle) and rule is None:
            raise error_at(
                op.location,
                f"'{op.name}' op says how its loops are split, and has no rule that says what they "
                "are",
            )
        if rule is None or is_constant:
            return
        used_once = self._used_once(op)
        operands = [self._operand(op, place) for place in range(len(op.operands))]
        results = [self._value(value) for value in op.results]
        if any(operands) or any(results):
            self._node(op, rule, (*operands, *results), used_once)

    def _node(self, op: Op, rule: ShardingRule, values: tuple[int, ...], used_once: bool) -> None:
        known = [self._known(value) for value in op.results]
        pinned = pinned_loops(op.handle, rule, known, self.shardings, self.grids[self.number])
        key = (id(rule), pinned)
        if key not in self._forms:
            self._forms[key] = self.graph.form(rule, *pinned)
        node = Node(self._forms[key], values, rule.role, used_once, self._origin(op))
        self.graph.nodes.append(node)

    def _annotation(self, op: Op) -> None:
        """An op that passes on what it takes, if it is no barrier."""
        shape = self.values[op.operands[0]].shape
        if shape is None:
            return
        is_redirected = self.redirected.get(op.operands[0]) == op.results[0]
        operand = self._value(op.operands[0]) if is_redirected else self._operand(op, 0)
        result = self._value(op.results[0])
        used_once = self._used_once(op)
        dims = tuple((dim,) for dim in range(len(shape)))
        key = ("annotation", shape)
        if key not in self._forms:
            self._forms[key] = self.graph.form(ShardingRule(shape, (dims,), (dims,)))
        node = Node(self._forms[key], (operand, result), "elementwise", used_once, self._origin(op))
        if op.name == BARRIER:
            node.to = op.handle.attributes["allowed_direction"].value.lower()
        else:
            node.annotates = binds(op.handle)
        self.graph.nodes.append(node)

    def _edge(self, op: Op) -> None:
        """Into a manual computation the tensor comes as a version of its own, as it is said."""
        operand, result = op.operands[0], op.results[0]
        into = op.name == TO_LOCAL
        kind = self.values[operand if into else result].kind
        if kind.shape is None:
            return
        with located(op.handle):
            edge = boundary_of(op.handle, self.shardings)
        source, target = self._operand(op, 0), self._value(result)
        origin = self._origin(op)
        used_once = self._used_once(op)
        if into:
            seen = self.graph.value(kind.shape, kind.itemsize, edge.outside_said)
            form = self.graph.identity(kind.shape)
            passed = Node(form, (source, seen), "elementwise", used_once, origin)
            passed.annotates = "users"
            self.graph.nodes.append(passed)
            source = seen
        key = ("edge", op.name, edge.held, edge.grid.name, kind.shape)
        if key not in self._forms:
            rule = edge.rule(kind.shape, into)
            self._forms[key] = self.graph.form(rule, edge.pinned, edge.grid.name)
        self.graph.nodes.append(Node(self._forms[key], (source, target), "pass", used_once, origin))

    def _flow(self, flow: Flow, origin: int) -> None:
        target = self._value(flow.targets[0])
        shape = self.values[flow.targets[0]].shape
        if target != NOTHING and shape is not None:
            sources = [self._operand(op, place) for op, place in flow.sources]
            self.flow(sources, target, shape, origin)

    def flow(self, sources: Sequence[int], target: int, shape: Shape, origin: int) -> None:
        if sources:
            self.graph.flow(shape, sources, target, origin)

    def _call(self, op: Op) -> None:
        """Operands flow to the arguments of what is called, and what that returns flows back."""
        callee = self.names.get(op.handle.attributes["callee"].value)
        results = [self._value(value) for value in op.results]
        if callee is None:
            return
        function = self.made.functions[callee]
        for place in range(len(op.operands)):
            self._callers.setdefault((callee, place), []).append(self._operand(op, place))
        origin = self._origin(op)
        self._called_at.setdefault(callee, []).append(origin)
        for place, target in enumerate(results):
            sources = [end.operands[place] for end in function.returns]
            shape = self.values[op.results[place]].shape
            if target != NOTHING and shape is not None:
                number, self.number = self.number, callee
                found = [self._value(value) for value in sources]
                self.number = number
                self.calls.append((found, target, shape, [origin]))

    def _return(self, op: Op) -> None:
        for place, value in enumerate(op.operands):
            shape = self.values[value].shape
            if shape is None:
                continue
            operand = self._operand(op, place)
            key = (self.number, place)
            if self.function.name not in self.called and key not in self.made.exits:
                said = self.constraints[self.number].returned.get(place)
                self.made.exits[key] = self.graph.exit(shape, operand, said, self._origin(op))

    def _member(self, op: Op) -> None:
        number = op.handle.attributes["group_id"].value
        self._groups.setdefault(number, []).append((op, op.operands[0]))

    def _group(self, group: list[tuple[Op, int]]) -> None:
        """All members lie alike."""
        shape = self.values[group[0][1]].shape
        for op, value in group:
            other = self.values[value].shape
            if other != shape or shape is None:
                raise error_at(
                    op.location,
                    f"'{GROUP}' op groups a tensor of shape {_shown(other)} with one of shape "
                    f"{_shown(shape)}: expected known and equal shapes",
                )
        members = dict.fromkeys(self._operand(op, 0) for op, _ in group)
        self.graph.groups.append(tuple(members))

    def _used_once(self, op: Op) -> bool:
        """Whether no operand that can be split has another user."""
        for value in op.operands:
            shape = self.values[value].shape
            if shape and self.uses[value] > 1 and value not in self.constants:
                return False
        return True

    def _origin(self, op: Op) -> int:
        self.made.ops.append((self.number, op))
        return len(self.made.ops) - 1


_VISITS: dict[str, Callable[[_Builder, Op], None]] = {
    "func.return": _Builder._return,
    "func.call": _Builder._call,
    GROUP: _Builder._member,
    **dict.fromkeys((*OPS, BARRIER), _Builder._annotation),
    **dict.fromkeys(EDGES, _Builder._edge),
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
