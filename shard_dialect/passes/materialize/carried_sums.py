"""Let loops carry partial sums, so that these are reduced once, after the loop.

    %sum = while(%acc = zeros)                        %acc is partial along the axes of the batch
      %gradient = dot_general %x, %dy                 the batch is split: partial sums
      return add %acc, %gradient                      of each device's own sums
    all_reduce %sum                                   once, not in each iteration

Gradients that are added up over microbatches are such sums, and so are the stacks of all layers'
gradients that a loop over the layers makes of them. A tensor becomes partial along the axes along
which some op makes partial sums for it, if each of its users can take it so (`ops.partial_values`).
What is added to it and is whole, one device of a group adds. Values flow through loops, branches
and calls, all calls of a function alike. Only a loop's result may be used in any way: it is reduced
there.

No shard grows: a sum that is split along an axis, as the gradient of a weight that the devices of
the batch share out, is not partial along it, too; it is scattered in each iteration. Nor is a sum
carried where reducing it once moves no fewer bytes than are saved in the iterations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from shard_dialect.ir.function import is_private
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import LOOPS, Flow, Op, flows_between, flows_through
from shard_dialect.model import Axis, Grid, Sharding, ShardingRule
from shard_dialect.model.grid import full_axis
from shard_dialect.ops.op_table import OpKinds, carries
from shard_dialect.passes.materialize.resharded_values import plan_of
from shard_dialect.passes.materialize.target_shardings import (
    TargetShardings,
    turns_of,
    without_axes,
)
from shard_dialect.planner import Prices

Node = tuple[str, int]
"""A value: the name of its function, and its number there."""
AxisSet = frozenset[Axis]
_NONE: AxisSet = frozenset()


def carry_partial_sums(
    targets: Sequence[TargetShardings], kinds: OpKinds, prices: Prices
) -> list[TargetShardings]:
    """The same target shardings, but partial where loops are to carry partial sums."""
    program = Program({each.function.name: each for each in targets}, kinds, prices)
    steps = [each for each in program.steps() if all(map(program.target, each.outputs))]
    axes = _Sums(program, tuple(steps)).worth_carrying()

    def partial(node: Node, sharding: Sharding) -> Sharding:
        return _along(sharding, axes.get(node, _NONE))

    return [program.changed(each, partial) for each in targets] if axes else list(targets)


@dataclass(frozen=True, eq=False)
class _Step:
    """Values that another value is made of; `op` is `None` where one of them flows to it.

    The value is partial along the axes in `made`, in which the op sums, and along those of its
    operands, as far as the op is linear. What a loop carries is made of what it starts from and of
    what its body returns, and stays partial whatever becomes of the loop's `result`.
    """

    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    op: Op | None = None
    rule: ShardingRule | None = None
    made: AxisSet = _NONE
    result: Node | None = None

    def carried(self, axes: Mapping[Node, AxisSet]) -> frozenset[int]:
        """The numbers of the inputs that may be partial, if those are that have `axes`."""
        if self.rule is None or self.op is None:
            return frozenset(range(len(self.inputs)))
        inits = frozenset(self.rule.inits)
        partial = frozenset(n for n, each in enumerate(self.inputs) if axes.get(each)) - inits
        if not partial:
            # `dot_general(...) + %acc`, as linalg writes it: %acc is as partial as the sum is.
            return inits if self.made else frozenset()
        found = carries(self.op.handle, self.rule, partial, "sum", narrow=False)
        return frozenset() if found is None else found | inits


@dataclass(frozen=True)
class Program:
    """The functions, with how values flow between them."""

    targets: Mapping[str, TargetShardings]
    kinds: OpKinds
    prices: Prices
    _known_runs: dict[str, int] = field(default_factory=dict)

    def target(self, node: Node) -> Sharding | None:
        """The target sharding of a value; `None` of one that is no tensor of static shape."""
        name, value = node
        return self.targets[name].of.get(value)

    @cached_property
    def calls(self) -> Mapping[str, Sequence[tuple[str, Op]]]:
        """The calls of each private function, each with the caller's name."""
        calls: dict[str, list[tuple[str, Op]]] = {
            name: [] for name, each in self.targets.items() if is_private(each.function.handle)
        }
        for name, each in self.targets.items():
            for op in each.function.ops:
                if op.name == "func.call":
                    callee = op.handle.attributes["callee"].value
                    if callee in calls:
                        calls[callee].append((name, op))
        return {
            name: found
            for name, found in calls.items()
            if len(self.targets[name].function.returns) == 1
        }

    def steps(self) -> Iterator[_Step]:
        """All steps, in the order of the ops of each function."""
        for name, each in self.targets.items():
            yield from self._boundary(name)
            for flow in flows_between(each.function.blocks):
                yield from self._flow(name, flow, None)
            for op in each.function.ops:
                flows = flows_through(op)
                for flow in flows:
                    yield from self._flow(name, flow, op)
                if not flows and len(op.results) == 1 and not op.captures:
                    yield from self._op(name, op)

    def _boundary(self, callee: str) -> Iterator[_Step]:
        """From the operands of all calls to the arguments, and from what is returned back."""
        calls, function = self.calls.get(callee, ()), self.targets[callee].function
        for number, argument in enumerate(function.arguments if calls else ()):
            operands = tuple((caller, call.operands[number]) for caller, call in calls)
            yield _Step(operands, ((callee, argument),))
        for number, returned in enumerate(function.returns[0].operands if calls else ()):
            results = tuple((caller, call.results[number]) for caller, call in calls)
            yield _Step(((callee, returned),), results)

    def _flow(self, name: str, flow: Flow, op: Op | None) -> Iterator[_Step]:
        sources = tuple((name, source.operands[number]) for source, number in flow.sources)
        targets = tuple((name, value) for value in flow.targets)
        if (
            op is not None
            and op.name in LOOPS
            and len(sources) > 1
            and flow.targets[-1] in op.results
        ):
            yield _Step(sources, targets[:-1], op, result=targets[-1])
        else:
            yield _Step(sources, targets)

    def _op(self, name: str, op: Op) -> Iterator[_Step]:
        target = self.target((name, op.results[0]))
        rule = self.kinds.kind_in(self.targets[name].function.values, op).rule if target else None
        if target is None or rule is None:
            return
        grid = self.grid(target)
        inputs = tuple((name, value) for value in op.operands)
        yield _Step(inputs, ((name, op.results[0]),), op, rule, self._made(inputs, rule, grid))

    def _made(self, inputs: Sequence[Node], rule: ShardingRule, grid: Grid) -> AxisSet:
        """The axes that split what the op sums over, by the target shardings of the operands."""
        if any(kind != "sum" for _, kind in rule.reductions):
            return _NONE
        made: set[Axis] = set()
        for node, dims in zip(inputs, rule.operands, strict=True):
            sharding = self.target(node)
            if dims is None or sharding is None or sharding.grid != grid.name:
                continue
            for dim, axes in zip(dims, sharding.split_axes, strict=True):
                if len(dim) == 1 and dim[0] in rule.reduction_of:
                    made.update(axes)
        return frozenset(made)

    @property
    def shardings(self) -> Shardings:
        """Those of the module."""
        return next(iter(self.targets.values())).stages.shardings

    def grid(self, sharding: Sharding) -> Grid:
        """The grid of a sharding."""
        return self.shardings.grid(sharding.grid)

    def runs(self, node: Node) -> int:
        """How often a value is made, in one run of the functions that are public."""
        name, value = node
        maker = self._makers[name].get(value)
        return self._function_runs(name) if maker is None else self.runs_of(name, maker)

    def runs_of(self, name: str, op: Op) -> int:
        """How often an op of this function runs, in one run of the functions that are public."""
        return self._function_runs(name) * self._turns[name][id(op)]

    def _function_runs(self, name: str) -> int:
        if name not in self._known_runs:
            calls = self.calls.get(name, ())
            runs = (self._function_runs(by) * self._turns[by][id(call)] for by, call in calls)
            self._known_runs[name] = sum(runs) or 1
        return self._known_runs[name]

    @cached_property
    def _makers(self) -> Mapping[str, Mapping[int, Op]]:
        """The op that makes each value, for each function."""
        return {
            name: {value: op for op in each.function.ops for value in op.results}
            for name, each in self.targets.items()
        }

    @cached_property
    def _turns(self) -> Mapping[str, Mapping[int, int]]:
        """How often each op runs, by its id, in one run of its function."""
        turns: dict[str, dict[int, int]] = {}
        for name, each in self.targets.items():
            known = turns[name] = {}
            for op in each.function.ops:  # each before those inside it
                times = known.setdefault(id(op), 1) * turns_of(op)
                known |= {id(inner): times for block in op.blocks for inner in block.ops}
        return turns

    def price(self, node: Node, source: Sharding, target: Sharding) -> int:
        """The price of a reshard of a value."""
        kind = self.targets[node[0]].function.values[node[1]].kind
        if kind.shape is None:
            return 0
        return plan_of(kind, source, target, self.shardings, self.prices).cost

    def changed(
        self, targets: TargetShardings, change: Callable[[Node, Sharding], Sharding]
    ) -> TargetShardings:
        """The target shardings of a function, each as `change` makes it."""
        function = targets.function
        of = {value: change((function.name, value), each) for value, each in targets.of.items()}
        signature = targets.signature
        if self.calls.get(function.name):
            returned = function.returns[0].operands
            signature = replace(
                signature,
                arguments=tuple(
                    each and change((function.name, value), each)
                    for each, value in zip(signature.arguments, function.arguments, strict=True)
                ),
                results=tuple(
                    each and change((function.name, value), each)
                    for each, value in zip(signature.results, returned, strict=True)
                ),
            )
        return replace(targets, of=of, signature=signature)


def _along(sharding: Sharding, axes: AxisSet) -> Sharding:
    return sharding.with_partial(sorted(axes, key=str)) if axes else sharding


@dataclass(frozen=True)
class _Sums:
    """The axes along which each value may be partial: the most that all its users can take."""

    program: Program
    steps: tuple[_Step, ...]

    def worth_carrying(self) -> dict[Node, AxisSet]:
        """The axes along which values are to be partial, where fewer bytes move then."""
        axes = self._largest()
        parts = joined(
            [node for node in (*step.inputs, *step.outputs, step.result) if node and axes.get(node)]
            for step in self.steps
        )
        prices = self._prices_inside(axes)
        saved: dict[int, int] = Counter()
        for step in self.steps:
            carried, result = axes.get(step.outputs[0], _NONE), step.result
            # Only here is a sum reduced once for many times: where a loop ends that carries it.
            if result is not None and not carried <= axes.get(result, _NONE):
                inside = sum(prices[node] for node in step.inputs)
                saved[id(parts[step.outputs[0]])] += inside - self._price_after(step, axes)
        return {node: axes[node] for node, part in parts.items() if saved[id(part)] > 0}

    def _largest(self) -> dict[Node, AxisSet]:
        """They grow from the ops that make partial sums, and are cut to what users make partial.

        Each round grows them anew within the bounds that the last one has left. Cutting alone would
        not do: what a loop carries is made of itself, too, and would keep an axis along which no op
        makes partial sums any more.
        """
        most = self._unbounded()
        while True:
            axes = self._grown(most)
            bounds = dict(most)
            for step in self.steps:
                carried = step.carried(axes)
                kept = axes.get(step.outputs[0], _NONE)
                for number, node in enumerate(step.inputs):
                    taken = kept if number in carried else _NONE
                    if not axes.get(node, _NONE) <= taken:
                        bounds[node] = bounds[node] & taken
            if bounds == most:
                return {node: each for node, each in axes.items() if each}
            most = bounds

    def _grown(self, most: Mapping[Node, AxisSet]) -> dict[Node, AxisSet]:
        axes: dict[Node, AxisSet] = {}
        again = True
        while again:
            again = False
            for step in self.steps:
                carried = step.carried(axes)
                found = step.made.union(*(axes.get(step.inputs[n], _NONE) for n in carried))
                # The arguments of a loop's regions are one value. Its result is another one, which
                # may be partial along fewer axes: it is reduced along the others after the loop.
                for node in step.outputs:
                    found &= most.get(node, _NONE)
                grown = dict.fromkeys(step.outputs, found)
                if step.result is not None:
                    grown[step.result] = found & most.get(step.result, _NONE)
                for node, each in grown.items():
                    again |= not each <= axes.get(node, _NONE)
                    axes[node] = axes.get(node, _NONE) | each
        return axes

    def _unbounded(self) -> dict[Node, AxisSet]:
        """All axes that do not split a value, if all its uses are in steps."""
        uses = Counter(node for step in self.steps for node in step.inputs)
        most: dict[Node, AxisSet] = {}
        for name, each in self.program.targets.items():
            used = each.function.count_uses()
            for value, sharding in each.of.items():
                # A use that is in no step, as by a sort or by the caller, reads the reduced value.
                if (
                    sharding.grid == each.grid.name
                    and uses[name, value] >= used[value]
                    and not (sharding.partial or sharding.halos or sharding.offsets)
                ):
                    axes = range(each.grid.rank)
                    most[name, value] = frozenset(axes) - set(map(full_axis, sharding.axes))
        return most

    def _prices_inside(self, axes: Mapping[Node, AxisSet]) -> Mapping[Node, int]:
        """What it takes to have values reduced, in all iterations, where no loop carries sums.

        A value is reduced, or what it is made of, whichever is cheaper; the sum that a loop carries
        is reduced already. Prices grow to a fixed point.
        """
        most = {node: self._price(node, axes[node]) for node in axes}
        gathers = {step.outputs[0]: self._price_to_gather(step, axes) for step in self.steps}
        prices: dict[Node, int] = Counter()
        again = True
        while again:
            again = False
            for step in self.steps:
                price = sum(prices[step.inputs[number]] for number in step.carried(axes))
                price += gathers[step.outputs[0]]
                made = (step.result,) if step.result is not None else step.outputs
                for node in made:
                    found = min(price, most.get(node, 0))
                    again |= found > prices[node]
                    prices[node] = max(found, prices[node])
        return prices

    def _price(self, node: Node, axes: AxisSet) -> int:
        """What it takes to reduce a value, as often as its op runs."""
        target, program = self.program.target(node), self.program
        assert target is not None, "only tensors are partial"
        return program.price(node, _along(target, axes), target) * program.runs(node)

    def _price_to_gather(self, step: _Step, axes: Mapping[Node, AxisSet]) -> int:
        """What it takes to gather what an op sums over, instead of making partial sums.

        What a loop only reads is gathered once, before it.
        """
        made, price = step.made & axes.get(step.outputs[0], _NONE), 0
        for node in dict.fromkeys(step.inputs if made else ()):
            sharding, program = self.program.target(node), self.program
            if sharding is not None and made & set(sharding.axes):
                whole = without_axes(sharding, made)
                price += program.price(node, sharding, whole) * program.runs(node)
        return price

    def _price_after(self, step: _Step, axes: Mapping[Node, AxisSet]) -> int:
        """What it takes to reduce a loop's result."""
        assert step.result is not None, "a loop's step"
        after = axes[step.outputs[0]] - axes.get(step.result, _NONE)
        return self._price(step.result, after)


Member = TypeVar("Member", bound=Hashable)


def joined(groups: Iterable[Sequence[Member]]) -> dict[Member, set[Member]]:
    """The part that each member is in, where the members of a group are in one part."""
    part_of: dict[Member, set[Member]] = {}
    for group in groups:
        parts = {id(part): part for part in (part_of.get(node, {node}) for node in group)}
        largest = max(parts.values(), key=len, default=set())
        for part in parts.values():
            if part is not largest:  # so that a member changes its part log(n) times, not n
                largest |= part
                part_of |= dict.fromkeys(part, largest)
        part_of |= dict.fromkeys(group, largest)
    return part_of
